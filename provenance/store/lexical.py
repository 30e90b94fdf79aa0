"""Full-text search, compiled per dialect. What a person typed is never read as query syntax."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from provenance.store.schema import passages
from provenance.store.words import phrase_forms

BM25_K1 = 1.2
BM25_B = 0.75


class Hit(NamedTuple):
    """A passage a search found. `score` is on the search's own scale; larger is better."""

    passage_id: str
    score: float


def bm25(
    connection: sa.Connection, words: Sequence[str], limit: int, documents: Collection[str] | None = None
) -> list[Hit]:
    """The passages that hold any of the words, by BM25 (k1 = 1.2, b = 0.75), best first; ties by passage id.

    `words` are folded words without punctuation (`words.content_words`).
    """
    if not words or limit <= 0 or (documents is not None and not documents):
        return []
    statement = _POSTGRES_BM25 if connection.dialect.name == "postgresql" else _SQLITE_BM25
    text = statement.format(among="" if documents is None else "AND p.document_id IN :documents")
    query = sa.text(text)
    values: dict[str, object] = {"limit": limit}
    if documents is not None:
        query = query.bindparams(sa.bindparam("documents", expanding=True))
        values["documents"] = list(documents)
    if connection.dialect.name == "postgresql":
        values |= {"words": " ".join(words), "k1": BM25_K1, "b": BM25_B}
    else:
        values["query"] = " OR ".join(_quoted(word) for word in words)
    return [Hit(row.id, float(row.score)) for row in connection.execute(query, values)]


# SQLite's bm25() has k1 = 1.2 and b = 0.75 built in, and gives the better match the smaller number.
_SQLITE_BM25 = """
    SELECT p.id AS id, -bm25(passages_fts) AS score
    FROM passages_fts JOIN passages p ON p.key = passages_fts.rowid
    WHERE passages_fts MATCH :query {among}
    ORDER BY bm25(passages_fts), p.id LIMIT :limit
"""

_POSTGRES_BM25 = """
    WITH terms AS MATERIALIZED (
        SELECT u.lexeme, (SELECT count(*) FROM passages d WHERE d.index_words @@ quote_literal(u.lexeme)::tsquery) AS n
        FROM unnest(to_tsvector('receipts', :words)) u
    ), corpus AS MATERIALIZED (
        SELECT count(*)::float8 AS n, greatest(avg(length), 1)::float8 AS average FROM passages
    ), query AS MATERIALIZED (
        SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery AS q FROM terms WHERE n > 0
    )
    SELECT p.id AS id, sum(
        greatest(ln((corpus.n - terms.n + 0.5) / (terms.n + 0.5)), 1e-6)
        * cardinality(u.positions) * (:k1 + 1)
        / (cardinality(u.positions) + :k1 * (1 - :b + :b * p.length / corpus.average))
    )::float8 AS score
    FROM query JOIN passages p ON p.index_words @@ query.q
        CROSS JOIN corpus CROSS JOIN LATERAL unnest(p.index_words) u JOIN terms ON terms.lexeme = u.lexeme
    WHERE true {among}
    GROUP BY p.id ORDER BY score DESC, p.id LIMIT :limit
"""


def phrase_condition(connection: sa.Connection, segments: Sequence[str]) -> sa.ColumnElement[bool] | None:
    """Which passages hold every one of the segments as a run of words. None where no segment has a word.

    Case, accents and punctuation do not count: it finds more than an exact comparison, never less.
    """
    texts = [forms for forms in map(phrase_forms, segments) if forms]
    if not texts:
        return None
    if connection.dialect.name == "postgresql":
        column: sa.ColumnClause[Any] = sa.literal_column("passages.phrase_words")
        return sa.and_(
            *(sa.or_(*(column.op("@@")(sa.func.phraseto_tsquery("simple", text)) for text in forms)) for forms in texts)
        )
    found = sa.text("SELECT rowid FROM phrases_fts WHERE phrases_fts MATCH :phrase").bindparams(
        phrase=" AND ".join(f"({' OR '.join(map(_quoted, forms))})" for forms in texts)
    )
    return passages.c.key.in_(found.columns(sa.column("rowid", sa.Integer)))


def holders_first(connection: sa.Connection, text: str) -> list[sa.ColumnElement[Any]]:
    """The order of passages in which those that hold these very characters come first; then by passage id."""
    if "\0" in text or text.encode("utf-8", "ignore").decode("utf-8") != text:
        return [passages.c.id]  # neither engine stores NUL or lone surrogates
    locate = sa.func.strpos if connection.dialect.name == "postgresql" else sa.func.instr
    return [(locate(passages.c.text, text) > 0).desc(), passages.c.id]


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
