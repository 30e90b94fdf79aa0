"""Running a recorded search again, on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from provenance.errors import ProvenanceError
from provenance.log import Log, replay
from provenance.parts import Parts
from provenance.records import Turn
from provenance.retrieval.embedder import Embedder
from provenance.retrieval.search import Retriever
from provenance.store import Store, open_store
from tests.log.ferry import LAST, QUESTION, TEXTS, ask, document_of, fill, key, searching

TIMETABLE = ("Timetable" * 64)[:64]
SHOWN = f"{TIMETABLE[:16]}:1:0"


@pytest.fixture
def store(store_url: str, parts: Parts) -> Iterator[Store]:
    opened = open_store(store_url)
    fill(opened, parts.embedder())
    yield opened
    opened.close()


@pytest.fixture
def retriever(store: Store, parts: Parts) -> Retriever:
    return searching(store, parts.embedder())


def named(found: object) -> dict[str, tuple[object, object]]:
    return {d.what: (d.recorded, d.now) for d in found.differences}  # type: ignore[attr-defined]


def test_the_same_corpus_gives_the_same_ranking(store: Store, retriever: Retriever) -> None:
    turn = ask(Log(store), retriever)
    found = replay(Log(store), turn.id or 0, retriever)
    assert (found.same, found.differences) == (True, ())
    assert [c.passage.id for c in found.candidates] == [c.passage.id for c in turn.candidates]
    assert found.candidates[0].passage.id == SHOWN


def test_settings_changed_since_are_put_back_for_the_replay(store: Store, retriever: Retriever, parts: Parts) -> None:
    turn = ask(Log(store), retriever)
    today = searching(store, parts.embedder(), provenance_candidates=2, provenance_top_k=1, rerank=True)
    assert len(today.search(QUESTION)) == 2
    found = replay(Log(store), turn.id or 0, today)
    assert (found.same, len(found.candidates)) == (True, 5)
    assert today.settings.provenance_top_k == 1


def test_each_turn_keeps_the_top_k_it_was_asked_with(store: Store, retriever: Retriever) -> None:
    one = ask(Log(store), searching(store, retriever.embedder, provenance_top_k=1))
    three = ask(Log(store), retriever)
    for turn, top_k in ((one, 1), (three, 3)):
        assert turn.settings["top_k"] == top_k
        assert sum(c.sent is not None for c in turn.candidates) == top_k
        assert replay(Log(store), turn.id or 0, retriever).same


def test_a_deleted_document_is_named_and_its_rows_stay(store: Store, retriever: Retriever) -> None:
    log = Log(store)
    turn = ask(log, retriever)
    assert store.delete_document(TIMETABLE)
    found = replay(log, turn.id or 0, retriever)
    assert not found.same
    assert named(found)[f"passage {SHOWN}"] == ("place 1", "its document was deleted")
    assert all(c.passage.document_id != TIMETABLE for c in found.candidates)
    kept = log.turn(turn.id or 0)
    assert kept == turn
    assert kept is not None
    assert kept.sources[0].text == LAST
    (summary,) = log.turns()
    assert summary.deleted == sum(c.passage.document_id == TIMETABLE for c in turn.candidates)
    assert log.verify().ok


def test_a_text_that_changed_and_a_passage_that_is_new_are_named(store: Store, retriever: Retriever) -> None:
    turn = ask(Log(store), retriever)
    texts = [
        LAST.replace("21:40", "20:15"),
        *TEXTS["Timetable"][1:],
        "An evening ferry leaves when it is full.",
    ]
    document, pages, passages = document_of("Timetable", texts)
    vectors = retriever.embedder.encode([p.text for p in passages])
    store.replace_passages(document.id, pages, passages, vectors, embedder=key(retriever.embedder))
    found = named(replay(Log(store), turn.id or 0, retriever))
    assert found[f"text of {SHOWN} (SHA-256)"] == (turn.candidates[0].passage.text_hash, passages[0].text_hash)
    assert found[f"passage {TIMETABLE[:16]}:4:0"][0] is None
    assert f"dense of {SHOWN}" in found


def test_another_embedder_is_named_and_its_vectors_are_not_mixed_in(store: Store, retriever: Retriever) -> None:
    turn = ask(Log(store), retriever)
    own = retriever.embedder
    other = Embedder(own.folder, "another/embedder", revision="r9")
    found = replay(Log(store), turn.id or 0, searching(store, other))
    differences = named(found)
    assert differences["embedder"] == (own.name, "another/embedder")
    assert differences["embedder_revision"] == (own.revision, "r9")
    assert differences[f"dense of {SHOWN}"][1] == "not returned"
    assert all(c.dense is None for c in found.candidates)


def test_a_reranker_that_is_missing_now_is_named(store: Store, retriever: Retriever) -> None:
    log = Log(store)
    turn = ask(log, retriever)
    recorded = replace(turn, settings={**turn.settings, "reranker": "some-reranker"})
    id = log.start(turn.question, recorded.settings)
    log.finish(id, recorded)
    assert named(replay(log, id, retriever)) == {"reranker": ("some-reranker", None)}


def test_a_search_of_chosen_documents_is_replayed_over_those(store: Store, retriever: Retriever) -> None:
    turn = ask(Log(store), retriever, documents=[("Handbook" * 64)[:64]])
    found = replay(Log(store), turn.id or 0, retriever)
    assert found.same
    assert {c.passage.title for c in found.candidates} == {"Handbook"}


def test_what_cannot_be_replayed_says_why(store: Store, retriever: Retriever) -> None:
    log = Log(store)
    started = log.start(QUESTION, {})
    kept = log.start(QUESTION, {})
    log.finish(kept, Turn(None, QUESTION, "", "answered", sources_from=started))
    for id, why in ((started, "never finished"), (kept, f"kept the sources of turn {started}"), (999, "no turn 999")):
        with pytest.raises(ProvenanceError, match=why):
            replay(log, id, retriever)
