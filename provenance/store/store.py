"""The store: one class over SQLite and Postgres."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike, NDArray

from provenance.errors import SettingsError
from provenance.records import Document, Page, Passage
from provenance.store import chain, lexical, schema
from provenance.store.connect import make_engine, migrate_schema
from provenance.store.dense import MatrixCache, ensure_hnsw, search_matrix, search_postgres
from provenance.store.lexical import Hit
from provenance.store.words import content_words, index_text, phrase_words, words
from provenance.unicode import well_formed

_BATCH = 500


@dataclass(frozen=True, slots=True)
class Counts:
    """How much the corpus holds."""

    documents: int
    pages: int
    pages_with_text: int
    passages: int


@dataclass(frozen=True, slots=True)
class EmbedderInUse:
    """The embedder whose vectors are searched. `revision` is what follows "@" in what `add_document` was told."""

    name: str
    revision: str | None
    dimension: int

    @property
    def key(self) -> str:
        """The name and revision as one string, as `add_document` takes it."""
        return f"{self.name}@{self.revision}" if self.revision else self.name


def open_store(url: str) -> Store:
    """Open the database at a SQLAlchemy address, creating it and bringing its schema up to date.

    Raises SettingsError where the address is neither SQLite nor Postgres, or no database can be opened there.
    """
    engine = make_engine(url)
    try:
        migrate_schema(engine)
    except SettingsError:
        engine.dispose()
        raise
    return Store(engine)


class Store:
    """Everything that is kept. Safe to share between threads; several processes may open the same database."""

    def __init__(self, engine: sa.Engine) -> None:
        self.engine = engine
        self._writer = engine.execution_options(write=True)
        self._matrix = MatrixCache()

    @property
    def dialect(self) -> str:
        """ "sqlite" or "postgresql"."""
        return self.engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A connection for reading: one snapshot on SQLite."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A write transaction, committed at the end; SQLite's write lock is taken at its start."""
        with self._writer.begin() as connection:
            yield connection

    def close(self) -> None:
        """Give the connections back. The store may not be used afterwards."""
        self.engine.dispose()

    # Documents

    def add_document(
        self,
        document: Document,
        pages: Sequence[Page],
        passages: Sequence[Passage],
        vectors: ArrayLike,
        *,
        embedder: str,
        original: bytes,
        contextual: bool = False,
    ) -> bool:
        """Keep a document with its pages, passages and vectors. False where it is there already.

        `vectors` is (passages, dimension), unit rows, in the order of `passages`. `embedder` names
        what made them, "name@revision". `contextual` indexes each passage below its title and
        heading. Raises ValueError where the number of vectors is not that of the passages.
        """
        rows = _matrix(vectors, len(passages))
        with self.writing() as connection:
            if connection.dialect.name == "postgresql":
                # Two processes that add the same file at once: the second must see the first.
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(document.id))))
            if connection.execute(sa.select(schema.documents.c.id).filter_by(id=document.id)).first():
                return False
            connection.execute(
                schema.documents.insert().values(
                    id=document.id,
                    title=well_formed(document.title),
                    filename=well_formed(document.filename),
                    kind=document.kind,
                    pages=document.pages,
                    pages_with_text=document.pages_with_text,
                    characters=document.characters,
                    passages=len(passages),
                    added_at=document.added_at or chain.now(),
                    embedder=embedder,
                    contextual=contextual,
                )
            )
            connection.execute(schema.originals.insert().values(document_id=document.id, data=original))
            _insert_contents(connection, document.id, pages, passages, rows, embedder, contextual)
        return True

    def replace_passages(
        self,
        document_id: str,
        pages: Sequence[Page],
        passages: Sequence[Passage],
        vectors: ArrayLike,
        *,
        embedder: str,
        contextual: bool = False,
    ) -> bool:
        """Index a document anew. False where there is no such document. Its bytes and its place in the list stay."""
        rows = _matrix(vectors, len(passages))
        with self.writing() as connection:
            found = connection.execute(
                schema.documents.update()
                .filter_by(id=document_id)
                .values(
                    pages=len(pages),
                    pages_with_text=sum(bool(page.text) for page in pages),
                    characters=sum(len(page.text) for page in pages),
                    passages=len(passages),
                    embedder=embedder,
                    contextual=contextual,
                )
            )
            if not found.rowcount:
                return False
            for table in (schema.passages, schema.pages):
                connection.execute(table.delete().filter_by(document_id=document_id))
            _insert_contents(connection, document_id, pages, passages, rows, embedder, contextual)
        return True

    def delete_document(self, document_id: str) -> bool:
        """Remove a document with everything made from it, and log that. False where there is no such document.

        Rows of the log are never removed.
        """
        with self.writing() as connection:
            document = _documents(connection, document_id)
            if not document:
                return False
            connection.execute(schema.documents.delete().filter_by(id=document_id))
            _count_version(connection)
            event = {"document_id": document_id, "title": document[0].title, "filename": document[0].filename}
            chain.append(connection, None, "document_deleted", event)
        return True

    def documents(self) -> list[Document]:
        """Every document in the order of its arrival."""
        with self.reading() as connection:
            return _documents(connection)

    def document(self, document_id: str) -> Document | None:
        """One document, or None."""
        with self.reading() as connection:
            return next(iter(_documents(connection, document_id)), None)

    def original(self, document_id: str) -> bytes | None:
        """The bytes of the file as it came, or None."""
        with self.reading() as connection:
            data = connection.execute(sa.select(schema.originals.c.data).filter_by(document_id=document_id)).scalar()
        return None if data is None else bytes(data)

    def pages(self, document_id: str) -> list[Page]:
        """The pages of a document in order; those without text too."""
        table = schema.pages
        with self.reading() as connection:
            rows = connection.execute(sa.select(table).filter_by(document_id=document_id).order_by(table.c.number))
            return [Page(row.number, row.text, row.removed, row.reason) for row in rows]

    def passages(self, document_id: str) -> list[Passage]:
        """The passages of a document in the order of its text."""
        table = schema.passages
        statement = select_passages().where(table.c.document_id == document_id)
        with self.reading() as connection:
            rows = connection.execute(statement.order_by(table.c.page, table.c.start))
            return [to_passage(row) for row in rows]

    def get_passages(self, ids: Sequence[str]) -> list[Passage]:
        """The passages with these ids, in the order of `ids`; those that are gone are left out."""
        found: dict[str, Passage] = {}
        wanted = list(dict.fromkeys(ids))
        with self.reading() as connection:
            for i in range(0, len(wanted), _BATCH):
                statement = select_passages().where(schema.passages.c.id.in_(wanted[i : i + _BATCH]))
                found |= {row.id: to_passage(row) for row in connection.execute(statement)}
        return [found[id] for id in wanted if id in found]

    # Search

    def search_lexical(
        self, query: str, limit: int, documents: Collection[str] | None = None, *, terms: Sequence[str] | None = None
    ) -> list[Hit]:
        """BM25 over the passages that hold any content word of the query, best first; ties by passage id.

        The query is words, never syntax; one without a word finds nothing. `terms` replaces the
        content words by words of the caller's choice. `documents` limits the search to these ids.
        """
        chosen = (
            content_words(query) if terms is None else list(dict.fromkeys(w for term in terms for w in words(term)))
        )
        with self.reading() as connection:
            return lexical.bm25(connection, chosen, limit, documents)

    def search_dense(
        self,
        vector: ArrayLike,
        limit: int,
        documents: Collection[str] | None = None,
        *,
        exact: bool = True,
        ef_search: int | None = None,
        embedder: str | None = None,
    ) -> list[Hit]:
        """The nearest passages by inner product, which is the cosine of unit vectors; best first, ties by passage id.

        Only vectors of one embedder are compared: `embedder`, or the one in use. SQLite always
        searches exactly. On Postgres `exact=False` asks the HNSW index with `ef_search` candidates.
        """
        query = np.ascontiguousarray(vector, dtype=np.float32).reshape(-1)
        with self.reading() as connection:
            values = _meta(connection)
            name = embedder or values.get("embedder")
            if name is None:
                return []
            if self.dialect == "postgresql":
                return search_postgres(
                    connection, query, limit, documents, embedder=name, exact=exact, ef_search=ef_search
                )
            matrix = self._matrix.get(connection, name, len(query), values.get("corpus_version", "0"))
        return search_matrix(matrix, query, limit, documents)

    def find_phrase(self, phrase: str, limit: int = 100) -> list[Passage]:
        """Passages that hold a phrase as a run of words, case, accents and punctuation aside.

        Those that hold it character for character come first; then by passage id.
        """
        return self.find_phrases({phrase: [phrase]}, limit)[phrase]

    def find_phrases(self, texts: Mapping[str, Sequence[str]], limit: int = 100) -> dict[str, list[Passage]]:
        """For each text, the passages that hold every one of its segments as `find_phrase` finds them.

        Those that hold the text itself, character for character, come first; then by passage id. One
        statement a text joins the phrase index, the passages and their documents, on one connection.
        """
        found: dict[str, list[Passage]] = {}
        with self.reading() as connection:
            for text, segments in texts.items():
                condition = lexical.phrase_condition(connection, segments)
                if condition is None:
                    found[text] = []
                    continue
                order = lexical.holders_first(connection, text)
                rows = connection.execute(select_passages().where(condition).order_by(*order).limit(limit))
                found[text] = [to_passage(row) for row in rows]
        return found

    # Figures and settings of the corpus

    def counts(self) -> Counts:
        """The figures of the sidebar."""
        table = schema.documents
        with self.reading() as connection:
            row = connection.execute(
                sa.select(
                    sa.func.count(),
                    *(sa.func.coalesce(sa.func.sum(table.c[n]), 0) for n in ("pages", "pages_with_text", "passages")),
                ).select_from(table)
            ).one()
        return Counts(*(int(value) for value in row))

    def pages_without_text(self, documents: Collection[str] | None = None) -> list[tuple[Document, int]]:
        """Every page that has no text, as its document and its number."""
        table = schema.pages
        statement = sa.select(table.c.document_id, table.c.number).where(schema.page_is_blank)
        with self.reading() as connection:
            rows = connection.execute(statement.order_by(table.c.document_id, table.c.number)).all()
            known = {document.id: document for document in _documents(connection)} if rows else {}
        return [(known[id], number) for id, number in rows if documents is None or id in documents]

    def embedder(self) -> EmbedderInUse | None:
        """The embedder whose vectors are searched: that of the document indexed last. None in an empty store."""
        values = self.meta()
        if "embedder" not in values:
            return None
        name, _, revision = values["embedder"].partition("@")
        return EmbedderInUse(name, revision or None, int(values["embedder_dimension"]))

    def stale_documents(self, embedder: str) -> list[Document]:
        """Documents indexed with another embedder: dense search does not see them until they are indexed anew."""
        with self.reading() as connection:
            table = schema.documents
            rows = connection.execute(sa.select(table.c.id).where(table.c.embedder != embedder)).scalars()
            stale = set(rows)
            return [document for document in _documents(connection) if document.id in stale]

    def meta(self) -> dict[str, str]:
        """Every named value kept beside the corpus."""
        with self.reading() as connection:
            return _meta(connection)

    def set_meta(self, name: str, value: str) -> None:
        """Keep a named value beside the corpus."""
        with self.writing() as connection:
            _set_meta(connection, name, value)


def select_passages() -> sa.Select[Any]:
    """Passages with the title of their document, for `to_passage`."""
    p = schema.passages.c
    columns = (p.id, p.document_id, schema.documents.c.title, p.page, p.start, p.end, p.text, p.heading)
    return sa.select(*columns).join_from(schema.passages, schema.documents)


def to_passage(row: Any) -> Passage:
    """The record of a row of `select_passages`."""
    return Passage(row.id, row.document_id, row.title, row.page, row.start, row.end, row.text, row.heading)


def _matrix(vectors: ArrayLike, count: int) -> NDArray[np.float32]:
    rows = np.asarray(vectors, dtype=np.float32)
    if len(rows) != count or (count and rows.ndim != 2):
        raise ValueError(f"{count} passages need as many vectors, not {rows.shape}")
    return rows


def _documents(connection: sa.Connection, document_id: str | None = None) -> list[Document]:
    table = schema.documents
    names = ("id", "title", "filename", "kind", "pages", "pages_with_text", "characters", "passages", "added_at")
    statement = sa.select(*(table.c[name] for name in names)).order_by(table.c.added_at, table.c.id)
    if document_id is not None:
        statement = statement.where(table.c.id == document_id)
    return [Document(**row._mapping) for row in connection.execute(statement)]


def _insert_contents(
    connection: sa.Connection,
    document_id: str,
    pages: Sequence[Page],
    passages: Sequence[Passage],
    vectors: NDArray[np.float32],
    embedder: str,
    contextual: bool,
) -> None:
    if pages:
        rows = [
            {"document_id": document_id, "number": p.number, "text": p.text, "removed": p.removed, "reason": p.reason}
            for p in pages
        ]
        connection.execute(schema.pages.insert(), rows)
    if passages:
        connection.execute(schema.passages.insert(), [_passage_row(p, contextual) for p in passages])
        table = schema.passages
        keys = dict(
            connection.execute(sa.select(table.c.id, table.c.key).where(table.c.document_id == document_id)).all()
        )
        dimension = vectors.shape[1]
        if connection.dialect.name == "postgresql":
            ensure_hnsw(connection, dimension)
        connection.execute(
            schema.vectors.insert(),
            [
                {"passage_key": keys[p.id], "embedder": embedder, "dimension": dimension, "embedding": vector}
                for p, vector in zip(passages, vectors, strict=True)
            ],
        )
        _set_meta(connection, "embedder", embedder)
        _set_meta(connection, "embedder_dimension", str(dimension))
    _count_version(connection)


def _passage_row(passage: Passage, contextual: bool) -> dict[str, object]:
    indexed = words(index_text(passage, contextual))
    return {
        "id": passage.id,
        "document_id": passage.document_id,
        "page": passage.page,
        "start": passage.start,
        "end": passage.end,
        "text": passage.text,
        "heading": passage.heading,
        "index_text": " ".join(indexed),
        "phrase_text": phrase_words(passage.text),
        "length": len(indexed),
    }


def _meta(connection: sa.Connection) -> dict[str, str]:
    return dict(connection.execute(sa.select(schema.meta.c.name, schema.meta.c.value)).all())


def _set_meta(connection: sa.Connection, name: str, value: str) -> None:
    connection.execute(
        sa.text(
            "INSERT INTO meta (name, value) VALUES (:name, :value) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        ),
        {"name": name, "value": value},
    )


def _count_version(connection: sa.Connection) -> None:
    """Move the corpus version, which tells every process that its matrix is out of date."""
    connection.execute(
        sa.text(
            "INSERT INTO meta (name, value) VALUES ('corpus_version', '1') "
            "ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)"
        )
    )
