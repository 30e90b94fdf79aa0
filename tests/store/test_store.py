"""The store, the same tests on SQLite and on a real Postgres."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from provenance.errors import SettingsError
from provenance.log import Log
from provenance.records import Document, Page, Passage
from provenance.store import Counts, Store, open_store
from provenance.store import connect as connecting
from provenance.store.dense import Matrix, search_matrix

EMBEDDER = "tiny@r1"


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


def build(name: str, texts: list[str], filename: str = "report.pdf", headings: list[str | None] | None = None):
    """A document with one passage per page; an empty text is a page without text."""
    id = (name * 64)[:64]
    pages = [Page(i, text, 0, None if text else "no text on this page") for i, text in enumerate(texts, start=1)]
    passages = [
        Passage(f"{id[:16]}:{p.number}:0", id, f"Title {name}", p.number, 0, len(p.text), p.text, heading)
        for p, heading in zip(pages, headings or [None] * len(pages), strict=True)
        if p.text
    ]
    document = Document(
        id, f"Title {name}", filename, "pdf", len(pages), len(passages), sum(len(t) for t in texts), len(passages)
    )
    return document, pages, passages


def unit(rows: int, seed: int = 0, dimension: int = 8) -> np.ndarray:
    vectors = np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def add(store: Store, name: str, texts: list[str], **options):
    document, pages, passages = build(name, texts)
    vectors = options.pop("vectors", unit(len(passages), seed=ord(name)))
    arguments = {"embedder": EMBEDDER, "original": b"bytes of " + name.encode()} | options
    return store.add_document(document, pages, passages, vectors, **arguments)


def test_a_document_comes_back_as_it_went_in(store: Store) -> None:
    document, pages, passages = build("a", ["The first page.", "", "Zweite Seite: 5 °C"], headings=["Top", None, None])
    assert store.add_document(document, pages, passages, unit(2), embedder=EMBEDDER, original=b"%PDF \x00\xff")
    kept = store.document(document.id)
    assert kept is not None
    assert kept.added_at is not None
    assert (kept.title, kept.pages, kept.pages_with_text, kept.passages) == ("Title a", 3, 2, 2)
    assert store.documents() == [kept]
    assert store.pages(document.id) == pages
    assert store.passages(document.id) == passages
    assert store.original(document.id) == b"%PDF \x00\xff"


def test_everything_survives_a_restart(store_url: str) -> None:
    first = open_store(store_url)
    add(first, "a", ["The quorum is seven members."])
    found = first.search_dense(unit(1, seed=ord("a"))[0], 1)
    first.close()
    second = open_store(store_url)
    assert [d.title for d in second.documents()] == ["Title a"]
    assert second.search_dense(unit(1, seed=ord("a"))[0], 1) == found
    assert second.search_lexical("quorum", 5)
    second.close()


def test_the_same_bytes_twice_are_one_document(store: Store) -> None:
    assert add(store, "a", ["One text."])
    assert not add(store, "a", ["One text."])
    assert store.counts() == Counts(1, 1, 1, 1)


def test_two_files_of_one_name_stay_two(store: Store) -> None:
    add(store, "a", ["One text."])
    add(store, "b", ["Another text."])
    assert [d.filename for d in store.documents()] == ["report.pdf", "report.pdf"]


def test_a_wrong_number_of_vectors_is_refused_and_keeps_nothing(store: Store) -> None:
    with pytest.raises(ValueError, match="as many vectors"):
        add(store, "a", ["One text."], vectors=unit(3))
    assert store.counts() == Counts(0, 0, 0, 0)


def test_a_failure_halfway_keeps_nothing(store: Store) -> None:
    document, pages, passages = build("a", ["One text.", "Two texts."])
    with pytest.raises(sa.exc.IntegrityError):
        store.add_document(document, pages, [passages[0], passages[0]], unit(2), embedder=EMBEDDER, original=b"")
    assert store.counts() == Counts(0, 0, 0, 0)
    assert store.search_lexical("text", 5) == []


def test_a_document_without_text_is_kept(store: Store) -> None:
    assert add(store, "a", ["", ""], vectors=np.zeros((0, 0), np.float32))
    assert store.counts() == Counts(1, 2, 0, 0)
    assert [(d.title, page) for d, page in store.pages_without_text()] == [("Title a", 1), ("Title a", 2)]


def test_a_deleted_document_is_found_by_no_search_and_its_deletion_is_logged(store: Store) -> None:
    add(store, "a", ["The quorum is seven members."])
    add(store, "b", ["The quorum was five members."])
    turn = Log(store).start("What is the quorum?", {})
    assert store.delete_document("a" * 64)
    assert not store.delete_document("a" * 64)
    assert [hit.passage_id[0] for hit in store.search_lexical("quorum", 9)] == ["b"]
    assert [hit.passage_id[0] for hit in store.search_dense(unit(1)[0], 9)] == ["b"]
    assert [p.document_id[0] for p in store.find_phrase("the quorum")] == ["b"]
    assert store.original("a" * 64) is None
    assert store.pages("a" * 64) == []
    log = Log(store)
    assert log.turn(turn) is not None
    assert [e.payload["title"] for e in log.events_named("document_deleted")] == ["Title a"]
    assert list(log.deleted_documents()) == ["a" * 64]
    assert log.verify().ok
    add(store, "a", ["The quorum is seven members."])
    assert log.deleted_documents() == {}


def test_a_reindexed_document_is_found_by_its_new_passages_only(store: Store) -> None:
    add(store, "a", ["The quorum is seven members."])
    document, pages, passages = build("a", ["A chairman presides.", "Minutes are kept."])
    assert store.stale_documents("tiny@r2") == store.documents()
    assert store.replace_passages(document.id, pages, passages, unit(2, dimension=4), embedder="tiny@r2")
    assert store.search_lexical("quorum", 5) == []
    assert store.find_phrase("seven members") == []
    assert [p.text for p in store.get_passages([h.passage_id for h in store.search_lexical("chairman", 5)])] == [
        "A chairman presides."
    ]
    assert store.search_dense(unit(2, dimension=4)[1], 1)[0].passage_id == passages[1].id
    assert store.stale_documents("tiny@r2") == []
    assert store.original(document.id) == b"bytes of a"
    assert store.counts() == Counts(1, 2, 2, 2)
    assert not store.replace_passages("0" * 64, pages, [], [], embedder="tiny@r2")


def test_the_embedder_in_use_is_recorded(store: Store) -> None:
    assert store.embedder() is None
    add(store, "a", ["One text."])
    used = store.embedder()
    assert used is not None
    assert (used.name, used.revision, used.dimension, used.key) == ("tiny", "r1", 8, EMBEDDER)


def test_vectors_of_two_embedders_are_never_compared(store: Store) -> None:
    add(store, "a", ["One text."])
    add(store, "b", ["Another text."], embedder="other@r1")
    vector = unit(1, seed=ord("a"))[0]
    assert [hit.passage_id[0] for hit in store.search_dense(vector, 9)] == ["b"]
    assert [hit.passage_id[0] for hit in store.search_dense(vector, 9, embedder=EMBEDDER)] == ["a"]


def test_passages_come_back_in_the_order_asked_for(store: Store) -> None:
    add(store, "a", [f"Page number {i}." for i in range(5)])
    ids = [p.id for p in store.passages("a" * 64)]
    wanted = [ids[3], "gone:1:0", ids[0], ids[3], ids[4]]
    assert [p.id for p in store.get_passages(wanted)] == [ids[3], ids[0], ids[4]]


@pytest.mark.parametrize(
    "query", ["what's due?", "net-zero", "C++", "NOT", '"', "\0", "due AND (", "index_text:due", ""]
)
def test_a_question_is_words_and_never_syntax(store: Store, query: str) -> None:
    add(store, "a", ["What's due in May: the C++ course, the net-zero plan, and NOT the rest.", "Nothing else."])
    expected = 0 if query in ('"', "\0", "") else 1
    assert len(store.search_lexical(query, 5)) == expected


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=60) | st.text(alphabet="\"'*-+^:(){}[]NEARORANDT \0\\%_?&|!<>@,.", max_size=30))
def test_no_text_whatever_breaks_a_search(store: Store, query: str) -> None:
    if not store.counts().documents:
        add(store, "a", ["NEAR the end, AND or NOT: a test of the words."])
    for hit in store.search_lexical(query, 3):
        assert np.isfinite(hit.score)
    store.find_phrases({query: [query, query[::-1]]})


def test_rare_words_weigh_more_than_common_ones(store: Store) -> None:
    texts = ["the levy and the report"] + ["the report of the year and the report of the board"] * 6
    add(store, "a", texts)
    hits = store.search_lexical("report levy", 10)
    assert hits[0].passage_id.split(":")[1] == "1"
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)


def test_word_forms_and_accents_are_folded(store: Store) -> None:
    add(store, "a", ["The committees were approving the Café's budgets."])
    for query in ("approve", "committee", "cafe", "budget"):
        assert store.search_lexical(query, 1), query


def test_a_contextual_passage_is_found_by_its_title_and_heading_and_its_phrases_are_its_own(store: Store) -> None:
    document, pages, passages = build("a", ["Seven members."], headings=["Quorum"])
    store.add_document(document, pages, passages, unit(1), embedder=EMBEDDER, original=b"", contextual=True)
    assert store.search_lexical("quorum", 1)
    assert store.find_phrase("quorum") == []
    assert store.find_phrase("seven members") == passages
    plain = build("b", ["Nine members."], headings=["Assembly"])
    store.add_document(*plain, unit(1), embedder=EMBEDDER, original=b"")
    assert store.search_lexical("assembly", 1) == []


def test_a_search_can_be_limited_to_documents(store: Store) -> None:
    for name in "abc":
        add(store, name, ["The quorum is seven.", "Another page of the report."])
    vector = unit(1, seed=ord("b"))[0]
    for documents, expected in ((["a" * 64, "c" * 64], {"a", "c"}), (["z" * 64], set()), ([], set())):
        for hits in (
            store.search_lexical("quorum page", 9, documents),
            store.search_dense(vector, 9, documents),
            store.search_dense(vector, 9, documents, exact=False, ef_search=10),
        ):
            assert {hit.passage_id[0] for hit in hits} == expected


def test_a_phrase_is_a_run_of_words_whatever_the_punctuation(store: Store) -> None:
    add(store, "a", ["The net-zero plan, “adopted” in May.", "plan the zero net", "A re-\nnewal of the mandate"])
    assert [p.page for p in store.find_phrase("Net zero plan adopted")] == [1]
    assert [p.page for p in store.find_phrases({"the … may": ["the", "may"]})["the … may"]] == [1]
    assert [p.page for p in store.find_phrase("renewal")] == [3]
    assert [p.page for p in store.find_phrase("re-newal of")] == [3]
    assert [p.page for p in store.find_phrase("re-\nnewal of")] == [3]
    assert store.find_phrases({"…": ["…", ""], "": []}) == {"…": [], "": []}


def test_dense_search_gives_cosines_best_first(store: Store) -> None:
    vectors = unit(30, seed=5)
    add(store, "a", [f"Page {i}" for i in range(30)], vectors=vectors)
    query = unit(1, seed=6)[0]
    hits = store.search_dense(query, 7)
    cosines = vectors @ query
    order = np.argsort(-cosines)[:7]
    assert [int(hit.passage_id.split(":")[1]) - 1 for hit in hits] == order.tolist()
    assert [hit.score for hit in hits] == pytest.approx(cosines[order].tolist(), abs=1e-6)
    assert len(store.search_dense(query, 99)) == 30
    assert store.search_dense(query, 0) == []


def test_equal_passages_come_in_the_order_of_their_ids(store: Store) -> None:
    same = np.repeat(unit(1, seed=3), 5, axis=0)
    add(store, "b", ["the same words"] * 5, vectors=same)
    add(store, "a", ["the same words"] * 5, vectors=same)
    for hits in (store.search_dense(same[0], 10), store.search_lexical("words", 10)):
        ids = [hit.passage_id for hit in hits]
        assert len(ids) == 10
        assert ids == sorted(ids)


@pytest.mark.parametrize("rows", [3, 10, 33, 100])
def test_where_a_vector_lies_does_not_change_its_score(rows: int) -> None:
    others = unit(rows, seed=rows, dimension=384)
    others[::3] = others[0]
    ids = np.array([f"p{i:03d}" for i in range(rows)])
    matrix = Matrix("1", ids, ids, others)
    hits = search_matrix(matrix, others[0], rows, None)
    tied = [hit for hit in hits if hit.score == hits[0].score]
    assert [hit.passage_id for hit in tied] == ids[::3].tolist()
    alone = search_matrix(Matrix("1", ids[-1:], ids[-1:], others[-1:]), others[0], 1, None)
    assert alone[0] in hits


def test_another_process_sees_a_changed_corpus_at_once(store: Store, store_url: str) -> None:
    add(store, "a", ["One text."])
    vector = unit(1)[0]
    assert len(store.search_dense(vector, 9)) == 1
    script = (
        "import sys; from tests.store.test_store import add; from provenance.store import open_store;"
        "add(open_store(sys.argv[1]), 'b', ['Two texts.'])"
    )
    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", script, store_url], check=True, cwd=root, env={**os.environ, "PYTHONPATH": "."}
    )
    assert len(store.search_dense(vector, 9)) == 2


def test_named_values_are_kept_beside_the_corpus(store: Store) -> None:
    store.set_meta("samples", "1")
    store.set_meta("samples", "2")
    assert store.meta()["samples"] == "2"


def test_the_schema_of_the_code_is_that_of_the_migrations(store: Store) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from provenance.store.schema import metadata

    with store.reading() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    named = {str(getattr(d[1], "name", d)) for d in differences if isinstance(d, tuple)}
    own = {"passages_index_words", "passages_phrase_words", "index_words", "phrase_words"}
    leftovers = [d for d in differences if not _is_search_index(d, own)]
    assert leftovers == [], named


def _is_search_index(difference: object, own: set[str]) -> bool:
    text = str(difference)
    return (
        isinstance(difference, tuple)
        and str(difference[0]).startswith("remove_")
        and ("_fts" in text or "phrases_fts" in text or "vectors_hnsw" in text or any(name in text for name in own))
    )


def test_the_newest_migration_is_the_one_the_code_expects() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(connecting.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == connecting.HEAD


def test_a_store_of_the_first_schema_is_brought_up_to_date(store_url: str) -> None:
    engine = connecting.make_engine(store_url)
    config = Config()
    config.set_main_option("script_location", str(Path(connecting.__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    with engine.execution_options(write=True).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    old = Store(engine)
    add(old, "a", ["A page with words.", ""])
    old.close()
    renewed = open_store(store_url)
    assert renewed.documents()[0].passages == 1
    assert [page for _, page in renewed.pages_without_text()] == [2]
    assert [p.page for p in renewed.find_phrase("page with words")] == [1]
    renewed.close()


def test_a_store_of_a_newer_schema_is_refused_in_words(store_url: str) -> None:
    open_store(store_url).close()
    engine = connecting.make_engine(store_url)
    with engine.execution_options(write=True).begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(SettingsError, match="schema 9999"):
        open_store(store_url)


def test_pages_without_text_are_read_from_an_index_of_their_own(store: Store) -> None:
    add(store, "a", ["A page with words.", ""])
    asked: list[str] = []
    sa.event.listen(store.engine, "before_cursor_execute", lambda c, cursor, text, *_: asked.append(text))
    assert [page for _, page in store.pages_without_text()] == [2]
    statement = next(text for text in asked if "FROM pages" in text)
    explain = "EXPLAIN QUERY PLAN " if store.dialect == "sqlite" else "EXPLAIN "
    with store.reading() as connection:
        if store.dialect == "postgresql":
            connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        plan = connection.execute(sa.text(explain + statement)).all()
    assert "pages_without_text" in str(plan)


def test_phrases_are_searchable_without_a_vacuum(postgres_url: str) -> None:
    from tests.postgres import fresh_database

    store = open_store(fresh_database(postgres_url))
    add(store, "a", [f"Page {n} of many." for n in range(50)])
    with store.writing() as connection:
        pending = connection.execute(
            sa.text("SELECT gin_clean_pending_list('passages_phrase_words'), gin_clean_pending_list(:b)"),
            {"b": "passages_index_words"},
        ).one()
    assert tuple(pending) == (0, 0)
    store.close()


def test_opening_an_up_to_date_store_does_not_import_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'deep' / 'er' / 'receipts.sqlite3'}"
    open_store(url).close()
    script = (
        "import sys; from provenance.store import open_store; open_store(sys.argv[1]);"
        "sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, url], check=True, cwd=Path(__file__).parents[2])


def test_several_processes_can_open_a_new_store_at_once(store_url: str) -> None:
    script = "import sys; from provenance.store import open_store; open_store(sys.argv[1]).counts()"
    root = Path(__file__).parents[2]
    running = [subprocess.Popen([sys.executable, "-c", script, store_url], cwd=root) for _ in range(4)]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0, 0]


@pytest.mark.parametrize("prefix", ["postgres://", "postgresql://", "postgresql+psycopg://"])
def test_every_usual_postgres_address_is_understood(postgres_url: str, prefix: str) -> None:
    engine = connecting.make_engine(prefix + postgres_url.split("://", 1)[1])
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://somebody:secret@127.0.0.1:1/none", "refused"),
        ("sqlite:////proc/none/receipts.sqlite3", "cannot be made"),
        ("sqlite:////proc/receipts.sqlite3", "unable to open"),
    ],
)
def test_a_database_that_cannot_be_opened_is_named_without_its_password(url: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as caught:
        open_store(url)
    assert "DATABASE_URL" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    path = tmp_path / "receipts.sqlite3"
    path.write_bytes(b"This is a letter, not a database. " * 100)
    with pytest.raises(SettingsError, match="not a database"):
        open_store(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"This is a letter")


@pytest.mark.parametrize("url", ["mysql://x/y", "not an address", "", "postgresql://host:port/name"])
def test_another_address_is_refused_in_words(url: str) -> None:
    with pytest.raises(SettingsError, match="DATABASE_URL"):
        connecting.make_engine(url)


def test_hnsw_finds_what_exact_search_finds(postgres_url: str) -> None:
    from tests.postgres import fresh_database

    store = open_store(fresh_database(postgres_url))
    vectors = unit(400, seed=9, dimension=16)
    add(store, "a", [f"Page {i}" for i in range(400)], vectors=vectors)
    found = 0
    for query in unit(10, seed=10, dimension=16):
        exact = {hit.passage_id for hit in store.search_dense(query, 10)}
        found += len(exact & {hit.passage_id for hit in store.search_dense(query, 10, exact=False, ef_search=200)})
    assert found >= 95
    with store.reading() as connection:
        connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        plan = connection.execute(
            sa.text(
                "EXPLAIN SELECT passage_key FROM vectors WHERE dimension = 16 AND embedder = 'tiny@r1' "
                "ORDER BY embedding::vector(16) <#> CAST(:v AS vector(16)) LIMIT 5"
            ),
            {"v": str(vectors[0].tolist())},
        ).scalars()
        assert "vectors_hnsw_16" in "\n".join(plan)
    store.close()
