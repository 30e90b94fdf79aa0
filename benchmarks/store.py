"""Retrieval over many passages with made-up vectors, on SQLite and on a real Postgres.

The vectors lie in clusters, as those of real texts do, and each question is a stored
vector with noise. HNSW is compared with exact search over the same rows, which is what
its recall is measured against.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from benchmarks.table import Goal, Row
from provenance.records import Document
from provenance.store import Store, open_store, schema
from provenance.store.dense import ensure_hnsw
from provenance.store.words import phrase_words, words

PASSAGES, QUICK_PASSAGES = 100_000, 10_000
DIMENSION = 384
QUESTIONS = 50
TOP = 10
EF_SEARCH = 100
EMBEDDER = "synthetic@1"
_WORDS = 4_000
_LENGTH = 20

Vectors = NDArray[np.float32]


def vectors(count: int, dimension: int = DIMENSION, seed: int = 1) -> Vectors:
    """Unit vectors around `count` ÷ 50 centres: (count, dimension), float32."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(max(1, count // 50), dimension)).astype(np.float32)
    rows = centres[random.integers(0, len(centres), count)]
    rows += 0.7 * random.normal(size=rows.shape).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def questions(rows: Vectors, count: int = QUESTIONS, seed: int = 2) -> Vectors:
    """Unit vectors near stored ones."""
    random = np.random.default_rng(seed)
    found = rows[random.integers(0, len(rows), count)]
    found = found + 0.03 * random.normal(size=found.shape).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def texts(count: int, seed: int = 3) -> Iterator[str]:
    """Texts of 20 made-up words whose frequencies follow Zipf's law."""
    random = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, _WORDS + 1)
    for _ in range(count):
        yield " ".join(f"w{n}" for n in random.choice(_WORDS, _LENGTH, p=shares / shares.sum()))


def fill(store: Store, rows: Vectors) -> float:
    """Put one document with a passage per vector into the store. Seconds that the HNSW index took; 0 on SQLite."""
    id = "d" * 64
    document = Document(id, "Synthetic", "synthetic.txt", "txt", 1, 1, len(rows), len(rows), added_at="2026-01-01")
    with store.writing() as connection:
        values = {name: getattr(document, name) for name in document.__slots__}
        connection.execute(schema.documents.insert().values(**values, embedder=EMBEDDER, contextual=False))
        made = texts(len(rows))
        for start in range(0, len(rows), 2_000):
            part = range(start + 1, min(start + 2_000, len(rows)) + 1)
            connection.execute(schema.passages.insert(), [_passage(id, key, next(made)) for key in part])
            connection.execute(
                schema.vectors.insert(),
                [
                    {"passage_key": key, "embedder": EMBEDDER, "dimension": DIMENSION, "embedding": rows[key - 1]}
                    for key in part
                ],
            )
        for name, value in (("embedder", EMBEDDER), ("embedder_dimension", str(DIMENSION)), ("corpus_version", "1")):
            connection.execute(schema.meta.insert().values(name=name, value=value))
    began = time.perf_counter()
    if store.dialect == "postgresql":
        with store.writing() as connection:
            connection.execute(sa.text("SET LOCAL maintenance_work_mem = '1GB'"))
            ensure_hnsw(connection, DIMENSION)
        seconds = time.perf_counter() - began
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))
        return seconds
    return 0.0


def _passage(document_id: str, key: int, text: str) -> dict[str, object]:
    return {
        "key": key,
        "id": f"{document_id[:16]}:1:{key}",
        "document_id": document_id,
        "page": 1,
        "start": 0,
        "end": len(text),
        "text": text,
        "heading": None,
        "index_text": " ".join(words(text)),
        "phrase_text": phrase_words(text),
        "length": _LENGTH,
    }


def median_ms(call: Callable[[Vectors], object], asked: Sequence[Vectors] | Vectors) -> float:
    """The median of one call per question, in milliseconds."""
    taken = []
    for vector in asked:
        began = time.perf_counter()
        call(vector)
        taken.append(time.perf_counter() - began)
    return float(np.median(taken)) * 1000


@contextmanager
def stores(*, postgres: bool = True) -> Iterator[dict[str, Store]]:
    """A new store on each engine; without Postgres where its wheel is not installed."""
    from tests.postgres import Server, fresh_database

    with tempfile.TemporaryDirectory() as folder:
        opened = {"SQLite": open_store(f"sqlite:///{Path(folder) / 'receipts.sqlite3'}")}
        server = None
        try:
            if postgres:
                try:
                    server = Server()
                except ModuleNotFoundError as error:
                    print(f"Postgres is left out: {error}", file=sys.stderr)
                else:
                    opened["Postgres"] = open_store(fresh_database(server.url))
            yield opened
        finally:
            for store in opened.values():
                store.close()
            if server is not None:
                server.stop()


def run(quick: bool) -> list[Row]:
    """Exact search on SQLite, HNSW and exact on Postgres, the lexical search of each, and the time to build."""
    count = QUICK_PASSAGES if quick else PASSAGES
    rows = vectors(count)
    asked = questions(rows)
    named = f"{count:,} passages"
    found: list[Row] = []
    with stores() as opened:
        for name, store in opened.items():
            began = time.perf_counter()
            built = fill(store, rows)
            filled = time.perf_counter() - began - built
            found += _dense(name, store, rows, asked, named)
            lexical = [f"w{100 + n} w{300 + n} w{1_000 + n}" for n in range(QUESTIONS)]
            taken = _median_words(store, lexical)
            found.append(Row(f"lexical search, {name}, {named}", taken, "ms", note="three words, 100 hits"))
            found.append(Row(f"filling {name}, {named}", filled, "s"))
            if built:
                found.append(Row(f"building HNSW, {named}", built, "s", note="m = 16, ef_construction = 64"))
    return found


def _dense(name: str, store: Store, rows: Vectors, asked: Vectors, named: str) -> list[Row]:
    truth = [set(np.argsort(-(rows @ vector))[:TOP].tolist()) for vector in asked]

    def recall(call: Callable[[Vectors], Sequence[tuple[str, float]]]) -> float:
        got = [{int(id.rsplit(":", 1)[1]) - 1 for id, _ in call(vector)} for vector in asked]
        return sum(len(a & b) for a, b in zip(got, truth, strict=True)) / (TOP * len(asked))

    def exact(vector: Vectors) -> Sequence[tuple[str, float]]:
        return store.search_dense(vector, TOP)

    def hnsw(vector: Vectors) -> Sequence[tuple[str, float]]:
        return store.search_dense(vector, TOP, exact=False, ef_search=EF_SEARCH)

    began = time.perf_counter()
    exact(asked[0])
    first = time.perf_counter() - began
    plain = median_ms(exact, asked if name == "SQLite" else asked[:10])
    if name == "SQLite":
        baseline = median_ms(lambda vector: np.argsort(-(rows @ vector))[:TOP], asked)
        return [
            Row(
                f"exact search, {name}, {named}", plain, "ms", "numpy alone", baseline, Goal(60, of="value"),
                f"recall@{TOP} {recall(exact):.3f}",
            ),
            Row(f"first exact search, {name}, {named}", first * 1000, "ms", note="reads every vector once"),
        ]  # fmt: skip
    hnsw(asked[0])
    figures = recall(hnsw)
    return [
        Row(
            f"HNSW, {name}, {named}", median_ms(hnsw, asked), "ms", "exact", plain, Goal(15, of="value"),
            f"ef_search = {EF_SEARCH}",
        ),
        Row(f"recall@{TOP} of HNSW, {named}", figures, "", "exact", 1.0, Goal(0.95, of="value", least=True)),
    ]  # fmt: skip


def _median_words(store: Store, asked: Sequence[str]) -> float:
    taken = []
    for question in asked:
        began = time.perf_counter()
        store.search_lexical(question, 100)
        taken.append(time.perf_counter() - began)
    return float(np.median(taken)) * 1000
