from __future__ import annotations

import numpy as np
import pytest

from provenance.errors import Unavailable
from provenance.methods.base import Case
from provenance.methods.similarity import Similarity, window_cosines
from provenance.parts import Parts
from provenance.retrieval.embedder import Embedder

BRIDGE = "The old bridge over the river was opened in 1931 and is painted green."
MILL = "The mill belongs to Ines Brandt, who bought it from her uncle."
LAKE = "The lake is 52 metres deep and frozen from December to March."
FILLER = "Visitors are advised to check the notice board before they travel to the area. "


def case_of(passages: tuple[str, ...], answer: str = "Ines Brandt owns the mill.", question: str = "") -> Case:
    return Case(question, answer, passages, tuple(f"T{i}" for i in range(len(passages))))


def test_the_passage_that_says_the_same_is_closest_and_the_order_is_kept(parts: Parts) -> None:
    scores = Similarity().score(case_of((BRIDGE, MILL, LAKE)), parts).scores
    assert int(np.argmax(scores)) == 1
    turned = Similarity().score(case_of((MILL, LAKE, BRIDGE)), parts).scores
    assert turned == pytest.approx([scores[1], scores[2], scores[0]], abs=1e-5)


def test_a_score_is_the_cosine_of_the_two_vectors(parts: Parts) -> None:
    a, b = parts.embedder().encode(["Ines Brandt owns the mill.", BRIDGE])
    assert Similarity().score(case_of((BRIDGE,)), parts).scores[0] == pytest.approx(float(a @ b), abs=1e-5)


def test_with_the_question_the_score_is_the_mean_of_both_cosines(parts: Parts) -> None:
    question = "How deep is the lake?"
    cosines = window_cosines(parts.embedder(), ["Ines Brandt owns the mill.", question], (MILL, LAKE))
    scored = Similarity().score(case_of((MILL, LAKE), question=question), parts, include_query=True)
    assert scored.scores == pytest.approx(cosines.mean(axis=0), abs=1e-6)


def test_identical_passages_get_the_same_score(parts: Parts) -> None:
    scores = Similarity().score(case_of((MILL, LAKE, MILL)), parts).scores
    assert scores[0] == pytest.approx(scores[2], abs=1e-6)


def test_a_fact_at_the_end_of_a_700_token_passage_is_seen(parts: Parts) -> None:
    long = FILLER * 45 + MILL
    assert parts.embedder().count_tokens(long) > 600
    scores = Similarity().score(case_of((long, FILLER * 45)), parts).scores
    assert scores[0] is not None
    assert scores[1] is not None
    assert scores[0] > scores[1] + 0.1


def test_braces_in_a_passage_are_only_text(parts: Parts) -> None:
    assert Similarity().score(case_of(("{query} {0} %s",)), parts).scores[0] is not None


def test_no_passages_one_passage_and_an_empty_answer_are_answered(parts: Parts) -> None:
    assert Similarity().score(case_of(()), parts).scores == ()
    empty = Similarity().score(case_of((MILL, LAKE), "  "), parts)
    assert (empty.scores, empty.reason) == ((None, None), "The answer is empty.")


def test_a_missing_embedder_is_a_reason() -> None:
    class Without:
        def embedder(self) -> Embedder:
            raise Unavailable("no embedder here")

    found = Similarity().score(case_of((MILL,)), Without())  # type: ignore[arg-type]
    assert (found.scores, found.reason) == ((None,), "no embedder here")
