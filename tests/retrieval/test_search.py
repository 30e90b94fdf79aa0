"""Search over a small store: fusion, reranking and the choice of what is sent."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from provenance.parts import Parts
from provenance.records import Candidate, Document, Page, Passage, Stage
from provenance.retrieval.reranker import PACKAGED_SEARCH_WEIGHT, Reranker
from provenance.retrieval.search import Retriever, fuse, rerank, select
from provenance.settings import Settings
from provenance.store import Store, open_store
from provenance.store.words import index_text

TEXTS = {
    "Dams": "The Norris Dam was finished in 1936 by the Tennessee Valley Authority.",
    "Fruit": "Bananas are yellow when they are ripe.",
    "Climate": "The company plans to reach net-zero emissions by 2040.",
    "Languages": "C++ was designed by Bjarne Stroustrup. What is not due is not paid.",
    "Trains": "The night train leaves the main station at eleven.",
}


def passage(title: str, text: str) -> Passage:
    id = (title.lower() * 64)[:64]
    return Passage(f"{id[:16]}:1:0", id, title, 1, 0, len(text), text)


@pytest.fixture(scope="module")
def store(parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = open_store(f"sqlite:///{tmp_path_factory.mktemp('search') / 'store.sqlite3'}")
    embedder = parts.embedder()
    for title, text in TEXTS.items():
        p = passage(title, text)
        document = Document(p.document_id, title, f"{title}.txt", "txt", 1, 1, len(text), passages=1)
        vectors = embedder.encode([index_text(p, True)])
        name = f"{embedder.name}@{embedder.revision}"
        opened.add_document(document, [Page(1, text)], [p], vectors, embedder=name, original=b"", contextual=True)
    yield opened
    opened.close()


@pytest.fixture
def retriever(store: Store, parts: Parts, settings: Settings) -> Retriever:
    return Retriever(store, parts.embedder(), parts.reranker(), settings)


def titles(candidates: tuple[Candidate, ...]) -> list[str]:
    return [candidate.passage.title for candidate in candidates]


def test_a_search_ranks_the_answering_passage_first_with_its_place_at_every_stage(retriever: Retriever) -> None:
    first, *others = retriever.search("When was the Norris Dam finished?")
    assert first.passage.title == "Dams"
    assert [stage.rank for stage in (first.lexical, first.dense, first.fused, first.reranked) if stage] == [1] * 4
    assert [c.reranked.rank for c in others if c.reranked] == list(range(2, len(TEXTS) + 1))
    assert all(c.sent is None for c in (first, *others))


@pytest.mark.parametrize(
    ("question", "title"),
    [("what's due?", "Languages"), ("net-zero", "Climate"), ("C++", "Languages"), ('"norris" AND (dam', "Dams")],
)
def test_a_question_is_words_and_never_query_syntax(retriever: Retriever, question: str, title: str) -> None:
    assert title in titles(retriever.search(question))[:2]
    found = {hit[0] for hit in retriever.lexical(question)}
    assert passage(title, "").id in found


@pytest.mark.parametrize("question", ["NOT", "AND OR NOT", '"', "*", "NEAR(", "index_text:dam", "…", "\0"])
def test_operators_alone_break_nothing(retriever: Retriever, question: str) -> None:
    assert len(retriever.search(question)) == len(TEXTS)


def test_a_search_can_be_limited_to_documents(retriever: Retriever) -> None:
    only = passage("Fruit", "").document_id
    assert titles(retriever.search("When was the Norris Dam finished?", [only])) == ["Fruit"]
    assert retriever.search("dam", []) == ()


def test_a_word_of_the_title_finds_a_passage_indexed_below_it(retriever: Retriever) -> None:
    assert retriever.lexical("fruit")[0][0] == passage("Fruit", "").id


def test_without_reranking_the_fused_order_stands(store: Store, parts: Parts, settings: Settings) -> None:
    off = Retriever(store, parts.embedder(), parts.reranker(), replace(settings, rerank=False))
    found = off.search("net-zero emissions")
    assert [c.fused.rank for c in found if c.fused] == list(range(1, len(found) + 1))
    assert all(c.reranked is None for c in found)


def candidates_with_fused_scores() -> tuple[Candidate, ...]:
    return tuple(
        Candidate(passage(title, text), fused=Stage(rank=i + 1, score=1 - i / 10))
        for i, (title, text) in enumerate(TEXTS.items())
    )


def test_reranking_keeps_every_candidate_and_joins_the_rerankers_score_with_the_fused_one(parts: Parts) -> None:
    question, reranker = "Who designed C++?", parts.reranker()
    found = rerank(question, candidates_with_fused_scores(), reranker)
    assert sorted(titles(found)) == sorted(TEXTS)
    scores = [c.reranked.score for c in found if c.reranked]
    assert scores == sorted(scores, reverse=True)
    own = reranker.score(question, [c.passage.text for c in found])
    expected = [
        PACKAGED_SEARCH_WEIGHT * score + (1 - PACKAGED_SEARCH_WEIGHT) * c.fused.score
        for score, c in zip(own, found, strict=True)
        if c.fused
    ]
    assert scores == pytest.approx(expected, abs=1e-5)


def test_one_of_flashranks_own_rerankers_decides_alone(parts: Parts, tmp_path: Path) -> None:
    assert Reranker("ms-marco-TinyBERT-L-2-v2", tmp_path).search_weight == 1.0
    alone = copy(parts.reranker())
    alone.search_weight = 1.0
    found = rerank("Who designed C++?", candidates_with_fused_scores(), alone)
    expected = alone.score("Who designed C++?", [c.passage.text for c in found])
    assert [c.reranked.score for c in found if c.reranked] == pytest.approx(expected, abs=1e-5)


def test_fusion_of_one_list_keeps_its_order() -> None:
    hits = [("a", 9.0), ("b", 5.0), ("c", 1.0)]
    assert [id for id, _ in fuse(hits, [])] == ["a", "b", "c"]
    assert [id for id, _ in fuse([], [(id, s / 10) for id, s in hits])] == ["a", "b", "c"]
    assert fuse([], []) == []


def test_a_passage_that_both_searches_find_goes_before_those_that_one_finds() -> None:
    lexical = [("x", 8.0), ("both", 7.0), ("y", 2.0)]
    dense = [("z", 0.8), ("both", 0.78), ("w", 0.2)]
    fused = fuse(lexical, dense)
    assert fused[0][0] == "both"
    assert {id for id, _ in fused} == {"x", "y", "z", "w", "both"}
    assert np.all(np.diff([score for _, score in fused]) <= 0)


def test_at_most_top_k_are_sent_and_the_rest_say_why() -> None:
    candidates = tuple(Candidate(passage(title, text)) for title, text in TEXTS.items())
    chosen = select(candidates, 2, 1000, lambda c: 10)
    assert [c.sent for c in chosen] == [1, 2, None, None, None]
    assert [c.dropped for c in chosen] == [None, None, *["below the top 2"] * 3]


def test_a_passage_over_the_budget_is_dropped_whole_and_makes_room_for_the_next() -> None:
    costs = dict(zip(TEXTS, (40, 70, 60, 5, 1), strict=True))
    candidates = tuple(Candidate(passage(title, text)) for title, text in TEXTS.items())
    chosen = select(candidates, 5, 100, lambda c: costs[c.passage.title])
    assert [c.sent for c in chosen] == [1, None, 2, None, None]
    assert [c.dropped for c in chosen if c.sent is None] == ["over the context budget"] * 3
    assert all(c.dropped is None for c in chosen if c.sent)


def test_a_budget_of_nothing_sends_nothing() -> None:
    candidates = tuple(Candidate(passage(title, text)) for title, text in TEXTS.items())
    assert all(c.sent is None for c in select(candidates, 5, 0, lambda c: 1))
    assert select((), 5, 100, lambda c: 1) == ()
