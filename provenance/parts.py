"""The parts that are loaded once and shared: store, log, embedder, reranker, language model."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING

from provenance.errors import Unavailable
from provenance.settings import Settings

if TYPE_CHECKING:
    from provenance.generation.models import LanguageModel
    from provenance.generation.remote import RemoteWriter
    from provenance.generation.writer import LocalWriter
    from provenance.log.log import Log
    from provenance.retrieval.embedder import Embedder
    from provenance.retrieval.reranker import Reranker
    from provenance.store import Store


class Parts:
    """Loads each part at its first use, under one lock, and keeps it. These are the `Resources` of the methods.

    `report` is called with a short sentence while something slow is loaded.
    """

    def __init__(self, settings: Settings, report: Callable[[str], None] = lambda message: None) -> None:
        self.settings = settings
        self.report = report
        self._lock = threading.RLock()
        self._lm: LanguageModel | None = None
        self._embedder: Embedder | None = None
        self._reranker: Reranker | None = None
        self._writer: LocalWriter | RemoteWriter | None = None

    @cached_property
    def store(self) -> Store:
        """The open store."""
        from provenance.store import open_store

        with self._lock:
            self.settings.provenance_home.mkdir(parents=True, exist_ok=True)
            return open_store(self.settings.url)

    @cached_property
    def log(self) -> Log:
        """The log in the store."""
        from provenance.log.log import Log

        return Log(self.store)

    def language_model(self) -> LanguageModel:
        """The local writer's model. Raises Unavailable where there is none."""
        from provenance.generation.models import load_language_model

        with self._lock:
            if self._lm is None:
                self._lm = load_language_model(self.settings, self.report)
            return self._lm

    def writer_name(self) -> tuple[str, str | None] | None:
        """The local writer's name and revision, without loading it; None where there is no local writer.

        The revision is None for a model that is neither loaded nor the packaged default.
        """
        from provenance.generation.models import DEFAULT_NAME, WEIGHTS_SHA256, writer_unavailable

        if writer_unavailable(self.settings) is not None:
            return None
        if self._lm is not None:
            return self._lm.name, self._lm.revision
        if self.settings.provenance_model is None:
            return DEFAULT_NAME, WEIGHTS_SHA256[:12]
        return self.settings.provenance_model, None

    def embedder(self) -> Embedder:
        """The embedder. Raises Unavailable where its weights cannot be had."""
        from provenance.retrieval.embedder import load_embedder

        with self._lock:
            if self._embedder is None:
                self._embedder = load_embedder(self.settings)
            return self._embedder

    def reranker(self) -> Reranker:
        """The reranker. Raises Unavailable where its weights cannot be had."""
        from provenance.retrieval.reranker import load_reranker

        with self._lock:
            if self._reranker is None:
                self._reranker = load_reranker(self.settings)
            return self._reranker

    def search_reranker(self) -> tuple[Reranker | None, str | None]:
        """The reranker for search, or None and why it is not used."""
        if not self.settings.rerank:
            return None, "switched off"
        try:
            return self.reranker(), None
        except Unavailable as error:
            return None, str(error)

    def llm_prompt(self) -> str:
        """The wording of the `llm` method."""
        return self.settings.provenance_llm_prompt

    def complete(self, text: str) -> str:
        """The endpoint's reply to one message. Raises ProvenanceError where there is no endpoint or it fails."""
        from provenance.generation.remote import RemoteWriter

        writer = self.writer()
        if not isinstance(writer, RemoteWriter):
            raise Unavailable("No endpoint is set.")
        return writer.complete(text)

    def writer(self) -> LocalWriter | RemoteWriter:
        """What writes the answers: the endpoint where one is set, else the local model."""
        from provenance.generation.remote import RemoteWriter
        from provenance.generation.writer import LocalWriter

        with self._lock:
            if self._writer is None:
                if self.settings.provenance_endpoint:
                    self._writer = RemoteWriter(self.settings)
                else:
                    from provenance.methods.calibration import live_layers

                    lm = self.language_model()
                    self._writer = LocalWriter(lm, layers=partial(live_layers, lm, self.settings.provenance_home))
            return self._writer
