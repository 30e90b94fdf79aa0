"""Everything of one store into another, empty one: documents, vectors and the log with its chain intact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from provenance.errors import ProvenanceError
from provenance.store.dense import ensure_hnsw
from provenance.store.schema import documents, log, meta, originals, pages, passages, vectors
from provenance.store.store import Store

_TABLES = (documents, originals, pages, passages, vectors, meta, log)
_ROWS = 500


def migrate(source: Store, target: Store, progress: Callable[[float, str], None] | None = None) -> dict[str, int]:
    """Copy every row in one transaction and return how many there are of each table.

    Row numbers, hashes and times stay what they were. Raises ProvenanceError where the target
    is not empty or is the source, and where a count differs at the end; then the target is left as it was.
    """
    if source.engine.url == target.engine.url:
        raise ProvenanceError("The target is the database that is in use. Move into another, empty one.")
    report = progress or (lambda fraction, message: None)
    with source.reading() as reader, target.writing() as writer:
        if source.dialect == "postgresql":
            # One snapshot of every table, whatever other processes write meanwhile.
            reader.execute(sa.text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        for table in (documents, log):
            if writer.execute(sa.select(sa.func.count()).select_from(table)).scalar():
                raise ProvenanceError("The target already holds documents or a log. Move into an empty database.")
        total = sum(_count(reader, table) for table in _TABLES) or 1
        copied: dict[str, int] = {}
        done = 0
        writer.execute(meta.delete())
        for table in _TABLES:
            if table is vectors and target.dialect == "postgresql":
                for dimension in reader.execute(sa.select(vectors.c.dimension).distinct()).scalars():
                    ensure_hnsw(writer, dimension)
            copied[table.name] = 0
            for rows in _batches(reader, table):
                writer.execute(table.insert(), rows)
                copied[table.name] += len(rows)
                done += len(rows)
                report(done / total, f"{table.name}: {copied[table.name]:,} rows")
            if copied[table.name] != _count(writer, table):
                raise ProvenanceError(f"Not every row of {table.name} arrived. Nothing was kept.")
        if target.dialect == "postgresql":
            # Rows came with their keys; the counter that gives the next one has to follow.
            writer.execute(
                sa.text(
                    "SELECT setval(pg_get_serial_sequence('passages', 'key'), "
                    "(SELECT coalesce(max(key), 0) + 1 FROM passages), false)"
                )
            )
    report(1.0, "done")
    return copied


def _batches(reader: sa.Connection, table: sa.Table) -> Any:
    order = log.c.seq if table is log else next(iter(table.primary_key.columns))
    size = 20 if table is originals else _ROWS
    result = reader.execution_options(yield_per=size).execute(sa.select(table).order_by(order))
    for part in result.partitions(size):
        yield [dict(row._mapping) for row in part]


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() or 0)
