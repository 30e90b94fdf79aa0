"""What the screens and the command line call: documents in, turns and scores out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from provenance.asking import Asking, Event, Finished, Options, Step, Token
from provenance.errors import ProvenanceError
from provenance.ingest.files import Ingested, ingest_bytes
from provenance.log.log import Log
from provenance.methods.base import Case, Progress, silent
from provenance.parts import Parts
from provenance.records import Attribution, Document, MethodKind, Turn
from provenance.settings import Settings, load_settings
from provenance.store import Store
from provenance.store.words import index_text
from provenance.unicode import well_formed

if TYPE_CHECKING:
    from provenance.retrieval.search import Retriever

__all__ = ["Engine", "Event", "Finished", "MethodStatus", "Step", "Token"]

_CASES_KEPT = 4
"""How many answered cases keep their caches; each holds the writer's key-value cache."""


@dataclass(frozen=True, slots=True)
class MethodStatus:
    """One line of the method switcher. `reason` is None where the method can run here."""

    name: str
    label: str
    kind: MethodKind
    meaning: str
    cost: str
    reason: str | None


class Engine:
    """The whole engine behind one object; safe to share between threads. Models load at first use."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings()
        self.parts = Parts(self.settings)
        self._cases: OrderedDict[int, Case] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def store(self) -> Store:
        """The open store."""
        return self.parts.store

    @property
    def log(self) -> Log:
        """The log in the store."""
        return self.parts.log

    # Documents

    def documents(self) -> list[Document]:
        """Every document in the store, in the order they were added."""
        return self.store.documents()

    def add(self, filename: str, data: bytes, password: str | None = None) -> Ingested:
        """Read a file and keep it. The outcome says in words what became of it.

        The same bytes twice are one document. Raises Unavailable where the embedder cannot be had.
        """
        embedder = self.parts.embedder()
        read = ingest_bytes(filename, data, count_tokens=embedder.count_tokens, password=password)
        if read.document is None:
            return read
        contextual = self.settings.provenance_contextual
        vectors = embedder.encode([index_text(passage, contextual) for passage in read.passages])
        added = self.store.add_document(
            read.document,
            read.pages,
            read.passages,
            vectors,
            embedder=f"{embedder.name}@{embedder.revision}",
            original=data,
            contextual=contextual,
        )
        if added:
            return read
        note = "These bytes are in the store already"
        known = self.store.document(read.document.id)
        if known is not None and known.filename != read.document.filename:
            note += f", as {known.filename}"
        return replace(read, message=". ".join(filter(None, (note, read.message))))

    def reindex(self, document_id: str, password: str | None = None) -> Ingested:
        """Read a stored file again, with today's cutting and embedder. Raises ProvenanceError for an unknown id."""
        document, data = self.store.document(document_id), self.store.original(document_id)
        if document is None or data is None:
            raise ProvenanceError("This document is no longer in the store.")
        embedder = self.parts.embedder()
        read = ingest_bytes(document.filename, data, count_tokens=embedder.count_tokens, password=password)
        if read.document is None:
            return read
        contextual = self.settings.provenance_contextual
        vectors = embedder.encode([index_text(passage, contextual) for passage in read.passages])
        self.store.replace_passages(
            document_id,
            read.pages,
            read.passages,
            vectors,
            embedder=f"{embedder.name}@{embedder.revision}",
            contextual=contextual,
        )
        return read

    def delete(self, document_id: str) -> bool:
        """Delete a document with its passages; the log keeps its rows and says so. False for an unknown id."""
        return self.store.delete_document(document_id)

    # Questions

    def ask(
        self,
        question: str,
        *,
        top_k: int | None = None,
        method: str | None = None,
        include_query: bool | None = None,
        documents: Collection[str] | None = None,
        follow_up: Turn | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Event]:
        """Answer a question over the documents (all, or those with the given ids).

        Yields Step and Token events and at last one Finished with the logged turn. A turn
        that fails for a named reason finishes with outcome "failed". What is not given
        comes from the settings. Setting `stop` ends the turn as "stopped".
        """
        settings = self.settings
        options = Options(
            top_k=settings.provenance_top_k if top_k is None else top_k,
            method=settings.provenance_method if method is None else method,
            include_query=settings.provenance_include_query if include_query is None else include_query,
            documents=documents,
            follow_up=follow_up,
        )
        asking = Asking(self.parts, well_formed(question.strip()), options, stop or threading.Event())
        try:
            yield from asking.run()
        finally:
            for turn_id, case in asking.cases.items():
                self._keep(turn_id, case)

    def turn(self, turn_id: int) -> Turn | None:
        """A logged turn with everything that was added to it later, or None."""
        return self.log.turn(turn_id)

    # Provenance

    def attribute(
        self, turn: Turn, method: str, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """The scores of one method for a turn: those stored, or computed now and logged.

        The answer is never written again. Raises ProvenanceError for an unknown method.
        """
        stored = turn.attribution(method, include_query)
        if stored is not None:
            return stored
        from provenance.methods import METHODS

        if method not in METHODS:
            raise ProvenanceError(f"{method!r} is not a provenance method; choose one of {', '.join(METHODS)}.")
        case = self._case(turn)
        if turn.sources_from is not None:
            reason = f"the sources were kept from #{turn.sources_from}: no provenance is computed"
            return Attribution(method, (None,) * len(case.passages), include_query, 0.0, reason)
        with self._lock:
            scored = METHODS[method].score(case, self.parts, include_query=include_query, progress=progress)
        if turn.id is not None:
            self.log.attributed(turn.id, scored)
        return scored

    def method_status(self) -> list[MethodStatus]:
        """Every method with its one line of meaning, its cost, and why it cannot run here. Loads nothing."""
        from provenance.methods import METHODS

        return [
            MethodStatus(m.name, m.label, m.kind, m.meaning, m.cost, m.unavailable(self.parts))
            for m in METHODS.values()
        ]

    def calibration_words(self) -> str | None:
        """What calibration found for the writer, in one sentence with its n; None where it was never calibrated.

        Reads the kept files and loads no model. The revision of a model that is not the packaged one is
        known only once it is loaded: until then a sentence is given where one revision of it was calibrated.
        """
        from provenance.methods.calibration import SHIPPED, read_calibration

        named = self.parts.writer_name()
        if named is None:
            return None
        found = []
        for folder in (SHIPPED, self.settings.provenance_home / "calibration"):
            for path in sorted(folder.glob("*.json")):
                with suppress(ProvenanceError):  # a damaged file is named when its method runs
                    found.append(read_calibration(path))
        name, revision = named
        words = [one.words for one in found if one.model == name and revision in (None, one.revision)]
        return words[0] if words and (revision is not None or len(words) == 1) else None

    def retriever(self) -> Retriever:
        """The search as it is set now, for replay and triage. Raises Unavailable where the embedder cannot be had."""
        from provenance.retrieval.search import Retriever

        parts = self.parts
        return Retriever(parts.store, parts.embedder(), parts.search_reranker()[0], self.settings)

    def warm(self) -> None:
        """Load the models, so that the first question does not wait for them."""
        self.parts.embedder().encode(["warm"])
        self.parts.search_reranker()
        self.parts.writer()

    def _keep(self, turn_id: int, case: Case) -> None:
        with self._lock:
            self._cases[turn_id] = case
            while len(self._cases) > _CASES_KEPT:
                self._cases.popitem(last=False)

    def _case(self, turn: Turn) -> Case:
        """The case of a turn: the one kept from when it was written, or made anew from the log."""
        kept = self._cases.get(turn.id) if turn.id is not None else None
        if kept is not None and turn.answer is not None and kept.answer == turn.answer.text:
            return kept
        case = case_of(turn, self.settings)
        if turn.id is not None:
            self._keep(turn.id, case)
        return case


def case_of(turn: Turn, settings: Settings) -> Case:
    """What the methods get of a stored turn.

    The recorded ids are used where the loaded writer is the one that wrote them; another
    model reads the same texts as a pasted answer.
    """
    from provenance.generation.models import DEFAULT_NAME

    answer = turn.answer
    same = (
        answer is not None
        and bool(answer.token_ids)
        and turn.prompt is not None
        and bool(turn.prompt.token_ids)
        and not settings.provenance_endpoint
        and answer.model == (settings.provenance_model or DEFAULT_NAME)
    )
    return Case(
        question=turn.question,
        answer=answer.text if answer else "",
        passages=tuple(source.text for source in turn.sources),
        titles=tuple(source.passage.title for source in turn.sources),
        prompt=turn.prompt if same else None,
        answer_ids=answer.token_ids if same and answer else None,
        scratch={},
    )
