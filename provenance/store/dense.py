"""Vector search: exact with numpy over a matrix in memory on SQLite, pgvector on Postgres."""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from provenance.store.lexical import Hit
from provenance.store.schema import passages, vectors

_ROUNDING = 1e-5  # of the largest product; float32 sums over a few hundred numbers differ by less


@dataclass(frozen=True, slots=True)
class Matrix:
    """Every vector of one embedder: `rows` is (n, dimension) float32, in the order of `ids`."""

    version: str
    ids: NDArray[np.str_]
    documents: NDArray[np.str_]
    rows: NDArray[np.float32]


class MatrixCache:
    """The vectors of the embedder last asked for, read again when the corpus version has moved."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: tuple[str, int, Matrix] | None = None

    def get(self, connection: sa.Connection, embedder: str, dimension: int, version: str) -> Matrix:
        """The matrix for a corpus version that was read on the same transaction."""
        with self._lock:
            held = self._held
            if held and held[:2] == (embedder, dimension) and held[2].version == version:
                return held[2]
            matrix = _read(connection, embedder, dimension, version)
            self._held = (embedder, dimension, matrix)
            return matrix


def search_matrix(
    matrix: Matrix, vector: NDArray[np.float32], limit: int, documents: Collection[str] | None
) -> list[Hit]:
    """Inner products with every row, best first; ties by passage id. For unit rows that is the cosine."""
    rough = matrix.rows @ vector
    keep = np.arange(len(rough)) if documents is None else np.flatnonzero(np.isin(matrix.documents, list(documents)))
    limit = min(limit, len(keep))
    if limit <= 0:
        return []
    kept = rough[keep]
    # Every row that may tie with the last place takes part in the final order. The matrix product rounds equal
    # rows differently by where they lie, so those are summed again, each by itself.
    worst = np.partition(kept, len(kept) - limit)[len(kept) - limit]
    best = keep[kept >= worst - _ROUNDING * np.abs(rough).max()]
    scores = (matrix.rows[best] * vector).sum(axis=1, dtype=np.float64)
    order = np.lexsort((matrix.ids[best], -scores))[:limit]
    return [Hit(str(matrix.ids[best[i]]), float(scores[i])) for i in order]


def search_postgres(
    connection: sa.Connection,
    vector: NDArray[np.float32],
    limit: int,
    documents: Collection[str] | None,
    *,
    embedder: str,
    exact: bool,
    ef_search: int | None,
) -> list[Hit]:
    """The same on pgvector. Exact reads every vector; otherwise the HNSW index answers with `ef_search` candidates."""
    if limit <= 0 or (documents is not None and not documents):
        return []
    dimension = len(vector)
    stored: sa.ColumnElement[Any] = vectors.c.embedding
    if not exact:
        # The index is on the vectors with their dimension; without the cast it is not used.
        stored = sa.literal_column(f"vectors.embedding::vector({dimension})", vectors.c.embedding.type)
        wanted = {
            "hnsw.ef_search": str(max(1, min(int(ef_search or max(limit, 40)), 1000))),
            "hnsw.iterative_scan": "strict_order",
            "enable_seqscan": "off",
        }
        # For this transaction only, and in one round trip.
        connection.execute(sa.select(*(sa.func.set_config(name, value, True) for name, value in wanted.items())))
    distance = stored.op("<#>", return_type=sa.Float())(sa.bindparam("vector", vector, vectors.c.embedding.type))
    nearest = (
        sa.select(vectors.c.passage_key, distance.label("distance"))
        .where(vectors.c.dimension == sa.literal_column(str(dimension)), vectors.c.embedder == embedder)
        .order_by(distance)
        .limit(limit)
    )
    if documents is not None:
        among = sa.select(passages.c.key).where(passages.c.document_id.in_(list(documents)))
        nearest = nearest.where(vectors.c.passage_key.in_(among))
    found = nearest.subquery()
    rows = connection.execute(
        sa.select(passages.c.id, found.c.distance)
        .join(found, found.c.passage_key == passages.c.key)
        .order_by(found.c.distance, passages.c.id)
    )
    return [Hit(row.id, -float(row.distance)) for row in rows]


def ensure_hnsw(connection: sa.Connection, dimension: int) -> None:
    """Create the HNSW index for vectors of this dimension where it is missing (Postgres)."""
    connection.execute(
        sa.text(
            f"CREATE INDEX IF NOT EXISTS vectors_hnsw_{int(dimension)} ON vectors USING hnsw "
            f"((embedding::vector({int(dimension)})) vector_ip_ops) WHERE dimension = {int(dimension)}"
        )
    )


def _read(connection: sa.Connection, embedder: str, dimension: int, version: str) -> Matrix:
    rows = connection.execute(
        sa.select(passages.c.id, passages.c.document_id, sa.type_coerce(vectors.c.embedding, sa.LargeBinary))
        .join(vectors, vectors.c.passage_key == passages.c.key)
        .where(vectors.c.embedder == embedder, vectors.c.dimension == dimension)
        .order_by(vectors.c.passage_key)
    ).all()
    data = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4").reshape(len(rows), dimension)
    return Matrix(
        version, np.array([row[0] for row in rows], dtype=str), np.array([row[1] for row in rows], dtype=str), data
    )
