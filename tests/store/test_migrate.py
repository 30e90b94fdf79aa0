"""Moving everything from one database to another, between and within the engines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from provenance.errors import ProvenanceError
from provenance.log import Log, export_jsonl
from provenance.records import Attribution
from provenance.store import Store, migrate, open_store
from tests.log.test_log import ANSWERED
from tests.postgres import drop_database, fresh_database
from tests.store.test_store import EMBEDDER, add, build, unit

TABLES = ("documents", "originals", "pages", "passages", "vectors", "meta", "log")
Pair = tuple[Store, Store]


@pytest.fixture(params=["sqlite to postgres", "postgres to sqlite", "sqlite to sqlite", "postgres to postgres"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A source and a target, both new."""
    server = request.getfixturevalue("postgres_url")
    urls = [
        f"sqlite:///{tmp_path_factory.mktemp('moved') / 'receipts.sqlite3'}"
        if name == "sqlite"
        else fresh_database(server)
        for name in request.param.split(" to ")
    ]
    source, target = map(open_store, urls)
    yield source, target
    for store, url in zip((source, target), urls, strict=True):
        store.close()
        if url.startswith("postgresql"):
            drop_database(server, url)


def fill(store: Store) -> Log:
    add(store, "a", ["The quorum is seven members.", "", "Zweite Seite: 5 °C"])
    add(store, "b", [f"Page {n} of the annex." for n in range(30)])
    add(store, "c", ["A document that will go."])
    log = Log(store)
    id = log.start("What is the quorum? \0 \ud800 ü “q”", {"t": 0.1 + 0.2, "none": None})
    log.finish(id, ANSWERED)
    store.delete_document("c" * 64)
    log.attributed(id, Attribution("rerank", (1e-9,), False, 0.5))
    log.start("never finished", {})
    return log


def test_everything_arrives_and_the_chain_is_intact(pair: Pair) -> None:
    source, target = pair
    before = fill(source)
    told: list[float] = []
    copied = migrate(source, target, lambda fraction, message: told.append(fraction))
    assert copied == {
        "documents": 2,
        "originals": 2,
        "pages": 33,
        "passages": 32,
        "vectors": 32,
        "meta": len(source.meta()),
        "log": 5,
    }
    assert tuple(copied) == TABLES
    assert told == sorted(told)
    assert told[-1] == 1.0
    after = Log(target)
    assert list(export_jsonl(after)) == list(export_jsonl(before))
    assert after.verify(before.head()) == before.verify()
    assert after.turns() == before.turns()
    assert after.deleted_documents() == before.deleted_documents()
    assert target.documents() == source.documents()
    for document in source.documents():
        assert target.pages(document.id) == source.pages(document.id)
        assert target.passages(document.id) == source.passages(document.id)
        assert target.original(document.id) == source.original(document.id)


def test_the_target_searches_and_grows_like_the_source(pair: Pair) -> None:
    source, target = pair
    fill(source)
    migrate(source, target)
    for query in ("quorum members", "annex page 7"):
        found = [[hit.passage_id for hit in store.search_lexical(query, 3)] for store in pair]
        assert found[0] == found[1] != []
    vector = unit(1, seed=ord("b"))[0]
    exact = [store.search_dense(vector, 5) for store in pair]
    assert [h.passage_id for h in exact[0]] == [h.passage_id for h in exact[1]]
    assert [h.score for h in exact[0]] == pytest.approx([h.score for h in exact[1]], abs=1e-6)
    assert [h.passage_id for h in target.search_dense(vector, 5, exact=False, ef_search=100)] == [
        h.passage_id for h in exact[0]
    ]
    assert target.find_phrase("seven members") == source.find_phrase("seven members") != []
    assert target.embedder() == source.embedder()
    # New rows follow the old ones.
    assert add(target, "d", ["A new page about the quorum."])
    assert any(hit.passage_id.startswith("dddd") for hit in target.search_lexical("new quorum", 9))
    log = Log(target)
    log.append(1, "note", {"moved": True})
    assert log.verify().rows == 6
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), target.writing() as connection:
        connection.execute(sa.text("DELETE FROM log"))


def test_a_target_that_is_not_empty_is_refused_and_left_as_it_was(pair: Pair) -> None:
    source, target = pair
    fill(source)
    Log(target).start("already here", {})
    with pytest.raises(ProvenanceError, match="empty database"):
        migrate(source, target)
    assert [s.question for s in Log(target).turns()] == ["already here"]
    assert target.documents() == []


def test_a_store_is_not_moved_into_itself(store_url: str) -> None:
    source = open_store(store_url)
    source.set_meta("samples", "2")
    with pytest.raises(ProvenanceError, match="in use"):
        migrate(source, open_store(store_url))
    assert source.meta()["samples"] == "2"
    source.close()


def test_a_failure_on_the_way_leaves_the_target_as_it_was(pair: Pair) -> None:
    source, target = pair
    fill(source)

    def stop(fraction: float, message: str) -> None:
        if fraction > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(source, target, stop)
    assert target.counts().documents == 0
    assert Log(target).head() is None
    assert migrate(source, target)["log"] == 5


def test_what_the_source_gains_meanwhile_does_not_break_the_copy(pair: Pair) -> None:
    source, target = pair
    log = fill(source)
    rows, head = log.verify().rows, log.head()
    grown = []

    def grow(fraction: float, message: str) -> None:
        if not grown and message.startswith("documents"):
            grown.append(source.delete_document("b" * 64))
            document, pages, passages = build("e", ["A late page."])
            source.add_document(document, pages, passages, unit(1), embedder=EMBEDDER, original=b"")

    migrate(source, target, grow)
    assert grown == [True]
    assert Log(target).verify(head).rows == rows
    assert [d.title for d in target.documents()] == ["Title a", "Title b"]
    assert len(target.passages("b" * 64)) == 30
