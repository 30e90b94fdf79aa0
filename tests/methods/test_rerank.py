from __future__ import annotations

import math
from pathlib import Path

import pytest

from provenance.errors import Unavailable
from provenance.methods.base import Case
from provenance.methods.rerank import Rerank
from provenance.parts import Parts
from provenance.retrieval.reranker import Reranker
from provenance.settings import Settings
from tests.methods.cross_encoder import NAME, write_cross_encoder

WORDS = ("who", "owns", "the", "mill", "Ines", "Brandt", "lake", "deep", "bridge", "green")


class Local:
    def __init__(self, reranker: Reranker | None) -> None:
        self._reranker = reranker

    def reranker(self) -> Reranker:
        if self._reranker is None:
            raise Unavailable("no reranker here")
        return self._reranker


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Local:
    cache = tmp_path_factory.mktemp("flashrank")
    write_cross_encoder(cache, WORDS)
    return Local(Reranker(NAME, cache))


def score(resources: Local, passages: list[str] | tuple[str, ...], answer: str, question: str = "", **kw: bool):
    titles = tuple(f"T{i}" for i in range(len(passages)))
    return Rerank().score(Case(question, answer, tuple(passages), titles), resources, **kw)  # type: ignore[arg-type]


def logistic(shared: int) -> float:
    return 1 / (1 + math.exp(3 - 2 * shared))


def test_scores_come_back_in_the_order_of_the_passages_not_of_the_ranking(resources: Local) -> None:
    found = score(resources, ["green bridge", "Ines Brandt", "deep lake", "Ines lake"], "Ines Brandt")
    assert found.scores == pytest.approx([logistic(0), logistic(2), logistic(0), logistic(1)])


def test_the_list_that_is_handed_over_is_neither_sorted_nor_changed(resources: Local) -> None:
    passages = ["green bridge", "Ines Brandt", "deep lake"]
    assert len(resources.reranker().score("Ines Brandt", passages)) == 3
    assert passages == ["green bridge", "Ines Brandt", "deep lake"]


def test_identical_passages_get_the_same_score_each_in_its_place(resources: Local) -> None:
    found = score(resources, ["Ines Brandt", "deep lake", "Ines Brandt"], "Ines Brandt")
    assert found.scores[0] == pytest.approx(found.scores[2])
    assert found.scores[0] == pytest.approx(logistic(2))


def test_more_passages_than_fit_one_batch_keep_their_order(resources: Local) -> None:
    passages = ["Ines Brandt" if i % 7 == 3 else "deep lake " * (i + 1) for i in range(25)]
    found = score(resources, passages, "Ines Brandt")
    assert [i for i, s in enumerate(found.scores) if s is not None and s > 0.5] == [3, 10, 17, 24]


def test_a_fact_at_the_end_of_a_700_token_passage_is_seen(resources: Local) -> None:
    from flashrank import RerankRequest

    long = "filler " * 698 + "Ines Brandt"
    found = score(resources, [long, "deep lake"], "Ines Brandt")
    assert found.scores == pytest.approx([logistic(2), logistic(0)])
    ranker = resources.reranker()._load()  # what FlashRank alone makes of it
    alone = ranker.rerank(RerankRequest(query="Ines Brandt", passages=[{"id": 0, "text": long}]))
    assert alone[0]["score"] == pytest.approx(logistic(0))


def test_counting_the_question_puts_it_beside_the_answer(resources: Local) -> None:
    passages = ["who owns the mill", "Ines Brandt"]
    without = score(resources, passages, "Ines Brandt", "who owns the mill")
    counted = score(resources, passages, "Ines Brandt", "who owns the mill", include_query=True)
    assert without.scores == pytest.approx([logistic(0), logistic(2)])
    assert counted.scores == pytest.approx([logistic(4), logistic(2)])
    assert counted.include_query


def test_braces_brackets_and_markup_in_a_passage_are_only_text(resources: Local) -> None:
    found = score(resources, ["{query} [1] Ines Brandt <b>", "%s {0}"], "Ines Brandt")
    assert found.scores == pytest.approx([logistic(2), logistic(0)])


def test_no_passages_one_passage_and_an_empty_answer_are_answered(resources: Local) -> None:
    assert score(resources, [], "Ines").scores == ()
    assert score(resources, ["Ines Brandt"], "Ines").scores == pytest.approx([logistic(1)])
    empty = score(resources, ["Ines"], " \n")
    assert (empty.scores, empty.reason) == ((None,), "The answer is empty.")


def test_a_missing_reranker_is_a_reason(tmp_path: Path) -> None:
    found = score(Local(None), ["a", "b"], "c")
    assert (found.scores, found.reason) == ((None, None), "no reranker here")
    unknown = Parts(Settings(provenance_home=tmp_path, rerank_model="nothing-of-that-name"))
    assert "nothing-of-that-name" in str(Rerank().unavailable(unknown))
