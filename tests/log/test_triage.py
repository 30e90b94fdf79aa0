"""“Where did it get lost?”: every stop with the setting it names, on both engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from provenance.errors import ProvenanceError
from provenance.log import Log, Recall, mark, recall, triage
from provenance.log.triage import STOPS
from provenance.parts import Parts
from provenance.records import Attribution, Candidate, Stage, Turn
from provenance.retrieval.search import Retriever
from provenance.store import Store, open_store
from tests.log.ferry import EARLY, FARE, LAST, QUESTION, ask, document_of, fill, key, searching
from tests.postgres import fresh_database

TREASURER = "The treasurer reported a surplus of four per cent."
NOWHERE = "The captain is a retired opera singer from Lisbon."


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('triage') / 'receipts.sqlite3'}"
    else:
        url = fresh_database(request.getfixturevalue("postgres_url"))
    opened = open_store(url)
    fill(opened, parts.embedder())
    yield opened
    opened.close()


@pytest.fixture
def log(store: Store) -> Log:
    return Log(store)


@pytest.fixture
def retriever(store: Store, parts: Parts) -> Retriever:
    return searching(store, parts.embedder())


def place(turn: Turn, text: str) -> int:
    """The place of a passage among the candidates, counting from 1."""
    return next(n for n, c in enumerate(turn.candidates, start=1) if c.passage.text == text)


def scored(turn: Turn, log: Log, scores: Sequence[float | None], method: str = "leave-one-out") -> Turn:
    assert turn.id is not None
    log.attributed(turn.id, Attribution(method, tuple(scores), False, 0.1))
    logged = log.turn(turn.id)
    assert logged is not None
    return logged


def test_a_text_that_no_document_holds_asks_for_the_document(log: Log, store: Store, retriever: Retriever) -> None:
    found = triage(ask(log, retriever), NOWHERE, store, retriever)
    assert (found.stop, found.setting, found.passage_id) == ("not in the documents", "documents", None)


def test_a_text_without_words_is_refused_in_words(log: Log, store: Store, retriever: Retriever) -> None:
    turn = ask(log, retriever)
    for nothing in ("", " …! ", "\udcff\ufffd"):
        with pytest.raises(ProvenanceError, match="no words"):
            triage(turn, nothing, store, retriever)


def test_a_text_that_may_stand_on_a_page_without_text_names_the_page(store_url: str, parts: Parts) -> None:
    own = open_store(store_url)
    fill(own, parts.embedder(), {"Scan": ["The first page has text.", ""]})
    searcher = searching(own, parts.embedder())
    found = triage(ask(Log(own), searcher), NOWHERE, own, searcher)
    assert (found.stop, found.setting) == ("on a page without text", "documents")
    assert "Scan, page 2" in found.detail
    own.close()


def test_more_candidates_bring_what_was_never_retrieved(log: Log, store: Store, parts: Parts) -> None:
    few = searching(store, parts.embedder(), provenance_candidates=2, provenance_top_k=2)
    turn = ask(log, few)
    found = triage(turn, TREASURER, store, few)
    assert (found.stop, found.setting) == ("never retrieved", "provenance_candidates")
    assert found.where == "Minutes, page 2"
    assert found.ranks.measured
    assert found.ranks.fused is not None
    assert found.ranks.fused > 2
    assert found.ranks.dense == found.ranks.exact
    assert f"With {found.ranks.fused} candidates it is among them." in found.detail
    more = searching(store, parts.embedder(), provenance_candidates=found.ranks.fused, provenance_top_k=2)
    again = triage(ask(log, more), TREASURER, store, more)
    assert again.stop == "below the top k"


def test_without_a_retriever_the_ranks_are_not_measured(log: Log, store: Store, parts: Parts) -> None:
    few = searching(store, parts.embedder(), provenance_candidates=2, provenance_top_k=2)
    found = triage(ask(log, few), TREASURER, store, None)
    assert (found.stop, found.setting, found.ranks.measured) == ("never retrieved", "provenance_candidates", False)


def test_a_question_asked_of_other_documents_says_so(log: Log, store: Store, retriever: Retriever) -> None:
    turn = ask(log, retriever, documents=[("Handbook" * 64)[:64]])
    found = triage(turn, LAST, store, retriever)
    assert (found.stop, found.setting) == ("never retrieved", "documents")


def test_a_document_that_came_later_is_told_from_one_that_was_missed(store_url: str, parts: Parts) -> None:
    own = open_store(store_url)
    fill(own, parts.embedder(), {"Old": ["The bar closes at eleven."]})
    searcher = searching(own, parts.embedder())
    turn = ask(Log(own), searcher)
    fill(own, parts.embedder(), {"New": [LAST]})
    found = triage(turn, LAST, own, searcher)
    assert (found.stop, found.setting, found.ranks.fused) == ("never retrieved", None, 1)
    assert "the documents have changed since" in found.detail
    own.close()


@pytest.fixture(scope="module")
def crowd(request: pytest.FixtureRequest, parts: Parts) -> Iterator[Store]:
    """600 passages around the question, made so that neither search sees the last one; on Postgres, with HNSW."""
    opened = open_store(fresh_database(request.getfixturevalue("postgres_url")))
    embedder = parts.embedder()
    vector = embedder.encode([QUESTION])[0]
    noise = np.random.default_rng(1).normal(size=(600, len(vector))).astype(np.float32)
    rows = 0.2 * vector + noise / np.linalg.norm(noise, axis=1, keepdims=True)
    rows[-1] = -vector
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    texts = [f"Ferry number {n} and the last evening." for n in range(599)] + [FARE]
    opened.add_document(*document_of("Crowd", texts), rows, embedder=key(embedder), original=b"")
    yield opened
    opened.close()


def test_what_neither_search_sees_asks_for_another_embedder(crowd: Store, parts: Parts) -> None:
    searcher = searching(crowd, parts.embedder())
    found = triage(ask(Log(crowd), searcher), FARE, crowd, searcher)
    assert (found.stop, found.setting) == ("never retrieved", "provenance_similarity_llm")
    assert (found.ranks.lexical, found.ranks.exact, found.ranks.reachable) == (None, 600, False)
    assert "lexical rank beyond 1,000" in found.detail
    assert "exact search rank 600" in found.detail


def test_what_the_approximate_index_missed_asks_for_a_larger_ef_search(crowd: Store, parts: Parts) -> None:
    searcher = searching(crowd, parts.embedder(), provenance_search="hnsw", provenance_ef_search=1)
    vector = parts.embedder().encode([QUESTION])[0]
    exact = [hit.passage_id for hit in crowd.search_dense(vector, 5)]
    rough = [hit.passage_id for hit in crowd.search_dense(vector, 5, exact=False, ef_search=1)]
    missed = next(id for id in exact if id not in rough)
    turn = ask(Log(crowd), searcher, change=lambda found: [c for c in found if c.passage.id != missed])
    assert turn.settings["ef_search"] == 1
    (passage,) = crowd.get_passages([missed])
    found = triage(turn, passage.text, crowd, searcher)
    assert (found.stop, found.setting) == ("never retrieved", "provenance_ef_search")
    assert "The approximate index missed it." in found.detail


def reversed_by_reranker(found: tuple[Candidate, ...]) -> list[Candidate]:
    turned = found[::-1]
    return [replace(c, reranked=Stage(n, 1.0 / n)) for n, c in enumerate(turned, start=1)]


def test_what_the_reranker_pushed_down_is_moved_by_switching_it_off(
    log: Log, store: Store, retriever: Retriever
) -> None:
    turn = ask(log, retriever, change=reversed_by_reranker)
    found = triage(turn, LAST, store, retriever)
    assert (found.stop, found.setting) == ("cut by the reranker", "rerank")
    assert "rank 1, the reranker at 5; 3 were sent" in found.detail
    plain = triage(ask(log, retriever), LAST, store, retriever)
    assert plain.stop != "cut by the reranker"


def test_what_reranker_and_search_both_put_low_is_moved_by_top_k(log: Log, store: Store, retriever: Retriever) -> None:
    def keep(found: tuple[Candidate, ...]) -> list[Candidate]:
        return [replace(c, reranked=Stage(n, 1.0 / n)) for n, c in enumerate(found, start=1)]

    turn = ask(log, retriever, change=keep)
    found = triage(turn, turn.candidates[4].passage.text, store, retriever)
    assert (found.stop, found.setting) == ("cut by the reranker", "provenance_top_k")


def test_what_came_below_the_top_k_is_sent_with_a_larger_one(log: Log, store: Store, parts: Parts) -> None:
    one = searching(store, parts.embedder(), provenance_top_k=1)
    turn = ask(log, one)
    found = triage(turn, EARLY, store, one)
    assert (found.stop, found.setting) == ("below the top k", "provenance_top_k")
    at = place(turn, EARLY)
    assert f"With top_k at {at} it is sent too." in found.detail
    more = searching(store, parts.embedder(), provenance_top_k=at)
    assert triage(ask(log, more), EARLY, store, more).n == at


def test_what_did_not_fit_is_moved_by_the_context_budget(log: Log, store: Store, retriever: Retriever) -> None:
    turn = ask(log, retriever, budget=len(LAST) + 10)
    found = triage(turn, EARLY, store, retriever)
    assert (found.stop, found.setting) == ("over budget", "provenance_context_tokens")
    assert f"{len(LAST) + 10} tokens" in found.detail
    assert triage(ask(log, retriever, budget=1000), EARLY, store, retriever).n is not None


def test_a_source_whose_use_was_not_measured_asks_for_a_method(log: Log, store: Store, retriever: Retriever) -> None:
    turn = ask(log, retriever, cited=())
    found = triage(turn, LAST, store, retriever)
    assert (found.stop, found.setting, found.n) == ("sent, use not measured", "provenance_method", 1)
    unscored = triage(scored(turn, log, (None, 0.1, 0.2)), LAST, store, retriever)
    assert (unscored.stop, unscored.method) == ("sent, use not measured", "leave-one-out")
    assert "has no score for it" in unscored.detail
    other = triage(scored(turn, log, (0.1, 0.1, 0.2)), LAST, store, retriever, method="shapley")
    assert (other.stop, other.method) == ("sent, use not measured", "shapley")


@pytest.mark.parametrize(
    ("method", "scores", "stop", "share"),
    [
        ("leave-one-out", (0.1, 0.5, 0.4), "sent, not used", 0.1),
        ("leave-one-out", (-0.5, 0.5, 0.5), "sent, not used", 0.0),
        ("leave-one-out", (0.5, 0.1, 0.4), "used, not cited", 0.5),
        ("attention", (0.0, 0.0, 0.0), "sent, not used", 0.0),
        ("rerank", (0.2, 0.9, 0.4), "sent, not used", None),
        ("rerank", (0.9, 0.2, 0.4), "used, not cited", None),
    ],
)
def test_use_is_judged_by_the_method_against_chance(
    log: Log,
    store: Store,
    retriever: Retriever,
    method: str,
    scores: tuple[float, ...],
    stop: str,
    share: float | None,
) -> None:
    turn = scored(ask(log, retriever, cited=()), log, scores, method)
    found = triage(turn, LAST, store, retriever)
    assert (found.stop, found.method, found.chance) == (stop, method, pytest.approx(1 / 3))
    assert found.share == (None if share is None else pytest.approx(share))
    assert found.setting == ("provenance_top_k" if stop == "sent, not used" else "provenance_model")


def test_a_source_alone_is_used_where_its_score_is_positive(log: Log, store: Store, parts: Parts) -> None:
    one = searching(store, parts.embedder(), provenance_top_k=1)
    for score, stop in ((0.3, "used, not cited"), (-0.3, "sent, not used")):
        turn = scored(ask(log, one, cited=()), log, (score,))
        assert triage(turn, LAST, store, one).stop == stop


def test_a_cited_source_arrived_and_nothing_moves_it(log: Log, store: Store, retriever: Retriever) -> None:
    found = triage(scored(ask(log, retriever), log, (0.1, 0.8, 0.1)), LAST, store, retriever)
    assert (found.stop, found.setting, found.n) == ("cited", None, 1)
    assert "By leave-one-out its share is 10%; chance is 33%." in found.detail


def test_the_copy_that_came_farthest_counts(store_url: str, parts: Parts) -> None:
    own = open_store(store_url)
    fill(own, parts.embedder(), {"A": [LAST, EARLY], "B": [LAST]})
    searcher = searching(own, parts.embedder(), provenance_top_k=1)
    turn = ask(Log(own), searcher)
    assert [c.sent for c in turn.candidates if c.passage.text == LAST] == [1, None]
    found = triage(turn, LAST, own, searcher)
    assert (found.stop, found.where) == ("cited", f"{turn.sources[0].passage.title}, page 1")
    own.close()


def test_a_text_over_two_passages_and_a_reworded_one_are_found_and_said(
    log: Log, store: Store, retriever: Retriever
) -> None:
    turn = ask(log, retriever)
    near = triage(turn, "The last evening ferry leaves the pier at exactly 21:40 in summer", store, retriever)
    assert (near.stop, near.n) == ("cited", 1)
    assert near.detail.startswith("No passage holds the text word for word; the nearest one holds ")


def test_every_stop_is_named_by_a_test_here() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [stop for stop in STOPS if source.count(f'"{stop}"') == 0] == []


def test_recall_counts_the_marked_questions_whose_text_is_in_the_documents(store_url: str, parts: Parts) -> None:
    own = open_store(store_url)
    fill(own, parts.embedder())
    searcher, log = searching(own, parts.embedder()), Log(own)
    assert recall(log) == Recall(20, 0, 0, None, None, None)
    turn = ask(log, searcher)
    # Without a word in common the lexical search cannot see the fare; both others rank all nine passages.
    for expected in (LAST, FARE, NOWHERE):
        mark(log, turn.id or 0, expected, triage(turn, expected, own, searcher), note="by a person")
    assert recall(log) == Recall(20, 2, 1, 0.5, 1.0, 1.0)
    ranks = triage(turn, FARE, own, searcher).ranks
    assert (ranks.lexical, ranks.dense is not None) == (None, True)
    assert recall(log, at=1) == Recall(1, 2, 1, 0.5, 0.5, 0.5)
    # The same text marked again counts once.
    mark(log, turn.id or 0, f"  {LAST} ", triage(turn, LAST, own, searcher))
    assert recall(log).n == 2
    assert [s.marked for s in log.turns()] == [4]
    assert log.verify().ok
    own.close()
