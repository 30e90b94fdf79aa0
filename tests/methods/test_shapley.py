import itertools

import numpy as np
import pytest

from provenance.generation.models import LanguageModel
from provenance.methods.base import Case
from provenance.methods.likelihood import likelihood_of
from provenance.methods.shapley import Shapley, all_subsets, random_subsets, shapley_values, surrogate
from tests.methods.tiny_models import tiny_model


class Local:
    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm

    def language_model(self) -> LanguageModel:
        return self.lm


def over_orders(worth: np.ndarray, n: int) -> np.ndarray:
    """The definition: the mean gain of a passage over all orders in which they can arrive."""
    values = np.zeros(n)
    orders = list(itertools.permutations(range(n)))
    for order in orders:
        row = 0
        for i in order:
            values[i] += worth[row | 1 << i] - worth[row]
            row |= 1 << i
    return values / len(orders)


def test_shapley_values_are_the_mean_gain_over_all_orders() -> None:
    worth = np.random.default_rng(3).normal(size=16)
    np.testing.assert_allclose(shapley_values(worth), over_orders(worth, 4))


def test_the_rows_of_all_subsets_are_numbered_by_their_bits() -> None:
    assert all_subsets(2).tolist() == [[False, False], [True, False], [False, True], [True, True]]


def test_two_passages_that_replace_each_other_share_what_leave_one_out_denies_them() -> None:
    masks = all_subsets(3)
    worth = np.where(masks[:, 0] | masks[:, 1], 4.0, 0.0) + masks[:, 2] * 1.0
    np.testing.assert_allclose(shapley_values(worth), [2.0, 2.0, 1.0])
    assert worth[0b111] - worth[0b110] == 0.0


def test_random_subsets_are_seeded_distinct_and_balanced() -> None:
    masks = random_subsets(8, 48)
    assert np.array_equal(masks, random_subsets(8, 48))
    assert not np.array_equal(masks, random_subsets(8, 48, seed=1))
    assert len({m.tobytes() for m in masks}) == 48
    assert masks.mean(axis=0).tolist() == [0.5] * 8
    assert len(random_subsets(6, 64)) == 64


def test_the_surrogate_finds_the_weights_of_a_linear_game() -> None:
    masks = random_subsets(8, 64)
    weights = np.array([3.0, 0, 0, 1.5, 0, 0, 0, 0])
    found = surrogate(masks, masks @ weights - 60.0, 5)
    np.testing.assert_allclose(found, weights / 5, atol=0.02)
    assert np.count_nonzero(found) == 2


def test_a_game_in_which_nothing_matters_gives_zero_weights() -> None:
    masks = random_subsets(6, 32)
    assert surrogate(masks, np.full(32, -3.0), 4).tolist() == [0.0] * 6


def test_exact_values_sum_to_what_all_passages_add_together() -> None:
    lm = tiny_model("llama")
    case = Case("Who?", "Ada came.", ("Ada came.", "Rain.", "Ada came."), ("A", "B", "C"), scratch={})
    result = Shapley().score(case, Local(lm))
    likelihood = likelihood_of(lm, case)
    ends = likelihood.masked(np.array([[False] * 3, [True] * 3])).mean(axis=1)
    assert sum(s for s in result.scores if s is not None) == pytest.approx(ends[1] - ends[0])
    assert result.extra == {"subsets": 8.0, "surrogate": 0.0}


def test_more_than_six_passages_use_the_surrogate_and_give_the_same_numbers_twice() -> None:
    lm = tiny_model("llama")
    case = Case("Who?", "Ada.", tuple("abcdefg"), tuple("ABCDEFG"))
    first, again = Shapley().score(case, Local(lm)), Shapley().score(case, Local(lm))
    assert first.scores == again.scores
    assert len(first.scores) == 7
    assert first.extra["surrogate"] == 1.0


def test_near_duplicates_carry_a_note_that_names_each_other() -> None:
    text = "The kiln on Quarry Lane was fired in May of last year by the guild"
    case = Case("Who?", "May.", (text, "It rained all day in the valley.", text + " again."), ("A", "B", "C"))
    notes = Shapley().score(case, Local(tiny_model("llama"))).notes
    assert "same as source 3" in str(notes[0])
    assert notes[1] is None
    assert "same as source 1" in str(notes[2])


def test_no_passages_and_an_empty_answer_are_answered() -> None:
    lm = Local(tiny_model("llama"))
    assert Shapley().score(Case("q", "a", (), ()), lm).scores == ()
    assert Shapley().score(Case("q", " ", ("p",), ("t",)), lm).reason == "The answer is empty."
