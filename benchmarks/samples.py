"""The sample documents and their questions, for measurements."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from components.samples import FOLDER, files
from provenance.engine import Engine
from provenance.retrieval.search import Retriever
from provenance.settings import load_settings


def sample_questions() -> list[dict[str, Any]]:
    """The questions with `answerable` and `expected`."""
    found: list[dict[str, Any]] = json.loads((FOLDER / "questions.json").read_text(encoding="utf-8"))
    return found


@contextmanager
def sample_engine() -> Iterator[Engine]:
    """An engine over the sample documents alone, in a store of its own."""
    with tempfile.TemporaryDirectory(prefix="receipts-samples-") as scratch:
        engine = Engine(replace(load_settings(), database_url=f"sqlite:///{scratch}/samples.sqlite3"))
        try:
            for name, data in files():
                engine.add(name, data)
            yield engine
        finally:
            engine.store.close()


@contextmanager
def sample_retriever() -> Iterator[Retriever]:
    """The search over the sample documents, reranked where a reranker can be had."""
    with sample_engine() as engine:
        yield engine.retriever()
