from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from provenance.evaluation.metrics import (
    Counts,
    agreement,
    auc,
    citation_counts,
    drop,
    estimate,
    lds,
    pearson,
    precision_recall_f1,
    reciprocal_rank,
    spearman,
    top1,
    without_top,
)


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12))
def test_the_area_equals_the_library_one_also_with_ties(rows: list[tuple[int, bool]]) -> None:
    labels = [label for _, label in rows]
    supporting = [i for i, label in enumerate(labels) if label]
    found = auc([float(score) for score, _ in rows], supporting)
    if len(set(labels)) < 2:
        assert found is None
    else:
        assert found == pytest.approx(roc_auc_score(labels, [score for score, _ in rows]))


def test_a_passage_without_a_score_is_left_out_of_the_ranking() -> None:
    assert auc([0.9, None, 0.1], [0]) == 1.0
    assert auc([0.9, None, 0.1], [1]) is None
    assert top1([None, None], [0]) is None
    assert reciprocal_rank([0.3, None], [1]) is None


def test_a_missing_score_of_the_supporting_passage_is_a_miss_for_the_first_place() -> None:
    assert top1([0.9, None, 0.1], [1]) == 0.0


def test_tied_firsts_share_the_first_place() -> None:
    assert top1([1.0, 1.0, 0.0], [0]) == 0.5
    assert top1([1.0, 1.0, 0.0], [0, 1]) == 1.0
    assert reciprocal_rank([1.0, 1.0, 0.0], [0]) == pytest.approx(1 / 1.5)
    assert reciprocal_rank([3.0, 2.0, 1.0], [2, 1]) == 0.5


def test_the_top_passages_are_dropped_and_the_drop_is_per_answer_token() -> None:
    assert without_top(np.array([0.1, 0.9, 0.5]), 2).tolist() == [True, False, False]
    assert without_top(np.array([0.5, 0.5]), 1).tolist() == [False, True]
    assert drop(-2.0, -12.0, 5) == 2.0


def test_scores_that_add_up_to_the_likelihood_have_a_perfect_datamodeling_score() -> None:
    scores = np.array([3.0, 1.0, -0.5])
    masks = (np.arange(8)[:, None] >> np.arange(3) & 1).astype(bool)
    totals = masks @ scores
    assert lds(scores, masks, totals) == pytest.approx(1.0)
    assert lds(-scores, masks, totals) == pytest.approx(-1.0)
    assert lds(np.zeros(3), masks, totals) is None


def test_spearman_is_the_correlation_of_ranks_and_undefined_without_spread() -> None:
    assert spearman(np.array([1.0, 2.0, 30.0]), np.array([1.0, 4.0, 5.0])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx(0.8660254)
    assert pearson(np.array([1.0, 1.0]), np.array([1.0, 2.0])) is None


def test_a_clear_winner_leads_by_half_of_its_own_effect() -> None:
    scores = np.array([0.2, 0.1])
    clear, close = agreement(scores, np.array([1.0, 0.5])), agreement(scores, np.array([1.0, 0.51]))
    assert clear is not None
    assert close is not None
    assert (clear.same_winner, clear.clear) == (True, True)
    assert (close.same_winner, close.clear) == (True, False)
    harmful = agreement(scores, np.array([-1.0, -4.0]))
    assert harmful is not None
    assert not harmful.clear
    assert agreement(np.array([1.0]), np.array([1.0])) is None


def test_citations_are_counted_once_for_each_passage() -> None:
    assert citation_counts([1, 1, 4], [1, 2]) == Counts(1, 1, 1)


def test_precision_recall_and_f1_are_micro_averaged() -> None:
    found = precision_recall_f1([Counts(3, 1, 0), Counts(0, 0, 2)])
    assert found["precision"].value == pytest.approx(3 / 4)
    assert found["recall"].value == pytest.approx(3 / 5)
    assert found["f1"].value == pytest.approx(6 / 9)


def test_nothing_cited_has_no_precision_but_a_recall_of_zero() -> None:
    found = precision_recall_f1([Counts(0, 0, 2)])
    assert found["precision"].value is None
    assert found["recall"].value == 0.0


def test_an_estimate_leaves_out_what_is_undefined_and_brackets_the_mean() -> None:
    found = estimate([0.0, 1.0, None, 1.0, 1.0, 0.0, 1.0, 1.0])
    assert found.n == 7
    assert found.interval is not None
    assert found.interval[0] < found.value < found.interval[1]  # type: ignore[operator]
    assert estimate([None]).value is None


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(60):
        interval = estimate(list(generator.normal(size=40))).interval
        assert interval is not None
        covered += interval[0] <= 0.0 <= interval[1]
    assert 51 <= covered <= 60
