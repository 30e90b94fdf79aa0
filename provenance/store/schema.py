"""The tables, one schema on two engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import sqlalchemy as sa
from pgvector.sqlalchemy import VECTOR
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

metadata = sa.MetaData()


class Embedding(TypeDecorator[Any]):
    """A vector of float32: a little-endian blob on SQLite, a pgvector `vector` on Postgres.

    Without a dimension, so that a corpus can change its embedder.
    """

    impl = sa.LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(VECTOR() if dialect.name == "postgresql" else sa.LargeBinary())

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        vector = np.ascontiguousarray(value, dtype="<f4")
        return vector if dialect.name == "postgresql" else vector.tobytes()

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        if isinstance(value, bytes | memoryview):
            return np.frombuffer(value, dtype="<f4")
        return np.asarray(getattr(value, "to_numpy", lambda: value)(), dtype=np.float32)


documents = sa.Table(
    "documents",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("title", sa.Text, nullable=False),
    sa.Column("filename", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("pages", sa.Integer, nullable=False),
    sa.Column("pages_with_text", sa.Integer, nullable=False),
    sa.Column("characters", sa.Integer, nullable=False),
    sa.Column("passages", sa.Integer, nullable=False),
    sa.Column("added_at", sa.Text, nullable=False),
    sa.Column("embedder", sa.Text, nullable=False),
    sa.Column("contextual", sa.Boolean, nullable=False),
)

originals = sa.Table(
    "originals",
    metadata,
    sa.Column("document_id", sa.Text, sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

pages = sa.Table(
    "pages",
    metadata,
    sa.Column("document_id", sa.Text, sa.ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("removed", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text),
)

# Written out, not bound: SQLite uses a partial index only where the query repeats its very words.
page_is_blank = sa.literal_column("text") == sa.literal_column("''")
sa.Index(
    "pages_without_text",
    pages.c.document_id,
    pages.c.number,
    sqlite_where=page_is_blank,
    postgresql_where=page_is_blank,
)

passages = sa.Table(
    "passages",
    metadata,
    sa.Column("key", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("document_id", sa.Text, sa.ForeignKey("documents.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("page", sa.Integer, nullable=False),
    sa.Column("start", sa.Integer, nullable=False),
    sa.Column("end", sa.Integer, nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("heading", sa.Text),
    sa.Column("index_text", sa.Text, nullable=False),  # folded words of the text, contextual or not
    sa.Column("phrase_text", sa.Text, nullable=False),  # normalised words of the text alone
    sa.Column("length", sa.Integer, nullable=False),  # of index_text, in words
)

vectors = sa.Table(
    "vectors",
    metadata,
    sa.Column("passage_key", sa.ForeignKey("passages.key", ondelete="CASCADE"), primary_key=True),
    sa.Column("embedder", sa.Text, nullable=False),
    sa.Column("dimension", sa.Integer, nullable=False),
    sa.Column("embedding", Embedding, nullable=False),
)

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

log = sa.Table(
    "log",
    metadata,
    sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("turn_id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), index=True),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("previous", sa.Text, nullable=False, unique=True),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
)
