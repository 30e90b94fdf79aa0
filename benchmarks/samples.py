"""The sample documents and their questions, for measurements."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenance.engine import Engine
from provenance.retrieval.search import Retriever
from provenance.settings import load_settings

FOLDER = Path(__file__).parents[1] / "samples"
SUFFIXES = {".pdf", ".md", ".txt"}


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
            for path in sorted(FOLDER.iterdir()):
                if path.suffix in SUFFIXES:
                    engine.add(path.name, path.read_bytes())
            yield engine
        finally:
            engine.store.close()


@contextmanager
def sample_retriever() -> Iterator[Retriever]:
    """The search over the sample documents, reranked where a reranker can be had."""
    with sample_engine() as engine:
        yield engine.retriever()
