"""What every test may use: a home of its own, the real models loaded once, and a database on each engine.

The converted writer is looked for in `provenance_home` and in the user's data directory;
where neither has it, it is converted once and kept in pytest's cache. Nothing else of the
person who runs the tests is read or written.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provenance.parts import Parts
from provenance.settings import Settings
from tests.postgres import postgres_url, store_url  # noqa: F401

if TYPE_CHECKING:
    from provenance.generation.models import LanguageModel
    from provenance.retrieval.embedder import Embedder
    from provenance.retrieval.reranker import Reranker


@pytest.fixture(scope="session", autouse=True)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `provenance_home` of this session, for child processes too; its `models` folder outlives it.

    Every other setting of the environment is taken away, so that the tests see the defaults.
    """
    folder = tmp_path_factory.mktemp("home")
    named = next((value for name, value in os.environ.items() if name.lower() == "provenance_home"), None)
    places = [Path(named).expanduser()] if named else []
    places.append(Settings().provenance_home)
    kept = next((p / "models" for p in places if any((p / "models").glob("*/config.json"))), None)
    if kept is None:
        kept = Path(request.config.cache.mkdir("models"))
    (folder / "models").symlink_to(kept.resolve(), target_is_directory=True)
    names = {field.name for field in fields(Settings)} | {"attribute_include_query"}
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.lower() in names:
                patch.delenv(name)
        patch.setenv("provenance_home", str(folder))
        yield folder


@pytest.fixture(scope="session")
def settings(home: Path) -> Settings:
    """The default settings, with the home of this session."""
    return Settings(provenance_home=home)


@pytest.fixture(scope="session")
def parts(settings: Settings) -> Parts:
    """The real models, each loaded at its first use and once per session. Its store is shared: only read it."""
    return Parts(settings)


@pytest.fixture(scope="session")
def lm(parts: Parts) -> LanguageModel:
    """The packaged writer."""
    return parts.language_model()


class OwnParts(Parts):
    """The models of the session with a store that nobody else uses."""

    def __init__(self, settings: Settings, shared: Parts) -> None:
        super().__init__(settings)
        self._shared = shared

    def language_model(self) -> LanguageModel:
        return self._shared.language_model()

    def embedder(self) -> Embedder:
        return self._shared.embedder()

    def reranker(self) -> Reranker:
        return self._shared.reranker()


@pytest.fixture
def own_parts(settings: Settings, parts: Parts, tmp_path: Path) -> Iterator[Parts]:
    """The models of the session over a new, empty SQLite store. `engine.parts = own_parts` serves an Engine."""
    own = OwnParts(replace(settings, database_url=f"sqlite:///{tmp_path / 'receipts.sqlite3'}"), parts)
    yield own
    own.store.close()
