"""The log of every question: append-only, each row chained to the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import sqlalchemy as sa

from provenance.codec import to_json
from provenance.log.events import OUTCOMES, Event, fold, group, to_event, turn_payload
from provenance.log.verification import Head, Verification, raw_rows, verify_rows
from provenance.records import Attribution, Outcome, Quote, Turn
from provenance.store import Store, chain
from provenance.store.schema import log

_CHUNK = 500
_PACKAGES = ("torch", "transformers", "sentence-transformers", "flashrank", "SQLAlchemy", "streamlit")


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the table of turns. `quotes` counts (exact or normalised, all); None where none were checked.

    `deleted` counts the candidates whose document is no longer in the store.
    """

    id: int
    asked_at: str
    question: str
    outcome: Outcome
    candidates: int
    sent: int
    cited: int
    quotes: tuple[int, int] | None
    methods: tuple[str, ...]
    marked: int
    deleted: int
    hash: str


@dataclass(frozen=True, slots=True)
class DeletedDocument:
    """A document of a turn that was deleted later. `sources` are the numbers it was sent as."""

    document_id: str
    title: str
    deleted_at: str
    sources: tuple[int, ...]
    candidates: int


class Log:
    """The log in a store. Any number of threads and processes may append at once."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def start(self, question: str, settings: Mapping[str, str | int | float | bool | None]) -> int:
        """What `begin` does; returns the turn's id alone."""
        id = self.begin(question, settings).id
        assert id is not None  # it is the number of its row
        return id

    def begin(self, question: str, settings: Mapping[str, str | int | float | bool | None]) -> Turn:
        """Write the `started` row, before anything else is done for the question, and return the turn as it stands.

        `settings` are the search and generation settings in force.
        """
        payload = {"question": question, "settings": dict(settings), "program": program_version()}
        with self.store.writing() as connection:
            id, at = chain.append(connection, None, "started", payload, opens=True)
        return Turn(id, question, at, "started", settings=dict(settings))

    def append(self, turn_id: int | None, event: str, payload: Mapping[str, Any]) -> None:
        """Append one event to a turn, or to none (None). Nothing in the log is ever changed.

        What later events bring to a turn: `{"attribution": …}`, and any of `{"quotes": […],
        "citations": […], "sentences": […], "marks": […], "lengths": […], "timings": […]}`, each as
        `codec.to_json` makes it. Raises LookupError for a turn that was never started, and
        ValueError for a payload that JSON cannot hold (NaN).
        """
        with self.store.writing() as connection:
            chain.append(connection, turn_id, event, payload)

    def finish(self, turn_id: int, turn: Turn) -> None:
        """Write a whole turn as the event that is its outcome. Raises ValueError where the outcome is none."""
        if turn.outcome not in OUTCOMES:
            raise ValueError(f"A turn finishes as one of {', '.join(OUTCOMES)}, not {turn.outcome!r}.")
        self.append(turn_id, turn.outcome, turn_payload(replace(turn, id=turn_id)))

    def attributed(self, turn_id: int, attribution: Attribution) -> None:
        """Add the scores of one method to a turn (event "provenance")."""
        self.append(turn_id, "provenance", {"attribution": to_json(attribution)})

    def quoted(self, turn_id: int, quotes: Sequence[Quote]) -> None:
        """Add the checked quotes to a turn (event "quotes"); an empty sequence says that it quotes nothing."""
        self.append(turn_id, "quotes", {"quotes": [to_json(quote) for quote in quotes]})

    def turn(self, turn_id: int) -> Turn | None:
        """The turn with everything later events brought, or None."""
        return fold(self.events(turn_id))

    def events(self, turn_id: int | None = None) -> list[Event]:
        """The events of one turn in order, or of the whole log."""
        if turn_id is not None and not 0 < turn_id <= chain.LARGEST:
            return []
        with self.store.reading() as connection:
            statement = raw_rows(connection)
            if turn_id is not None:
                statement = statement.where(log.c.turn_id == turn_id)
            return [to_event(row) for row in connection.execute(statement)]

    def events_named(self, event: str) -> list[Event]:
        """Every event of one name in order: "marked", "document_deleted", …"""
        with self.store.reading() as connection:
            return [to_event(row) for row in connection.execute(raw_rows(connection).where(log.c.event == event))]

    def deleted_documents(self) -> dict[str, str]:
        """The documents that were deleted and have not come back: id → when."""
        events = self.events_named("document_deleted")
        gone = {str(e.payload["document_id"]): e.at for e in events if "document_id" in e.payload}
        present = {document.id for document in self.store.documents()}
        return {id: at for id, at in gone.items() if id not in present}

    def deleted_since(self, turn: Turn) -> tuple[DeletedDocument, ...]:
        """The documents of a turn's candidates and sources that are no longer in the store, best candidate first."""
        gone = self.deleted_documents()
        passages = [c.passage for c in turn.candidates] + [s.passage for s in turn.sources]
        titles = {p.document_id: p.title for p in reversed(passages) if p.document_id in gone}
        return tuple(
            DeletedDocument(
                document_id=id,
                title=titles[id],
                deleted_at=gone[id],
                sources=tuple(s.n for s in turn.sources if s.passage.document_id == id),
                candidates=sum(c.passage.document_id == id for c in turn.candidates),
            )
            for id in dict.fromkeys(p.document_id for p in passages)
            if id in gone
        )

    def turns(
        self, limit: int = 50, offset: int = 0, outcome: Outcome | None = None, search: str | None = None
    ) -> list[Summary]:
        """Summaries, newest first. `search` is text in the question, case aside; `outcome` is the last one recorded."""
        chosen = self._turn_ids(outcome, search)[offset : offset + limit]
        deleted = self.deleted_documents()
        found: dict[int, list[Event]] = {}
        with self.store.reading() as connection:
            for i in range(0, len(chosen), _CHUNK):
                where = log.c.turn_id.in_(chosen[i : i + _CHUNK])
                rows = connection.execute(raw_rows(connection).where(where))
                found |= group(to_event(row) for row in rows)
        return [_summary(found[id], deleted) for id in chosen]

    def count_turns(self, outcome: Outcome | None = None, search: str | None = None) -> int:
        """How many turns `turns` would list."""
        return len(self._turn_ids(outcome, search))

    def head(self) -> Head | None:
        """The last row, to keep outside. None in an empty log."""
        with self.store.reading() as connection:
            row = connection.execute(sa.select(log.c.seq, log.c.hash).order_by(log.c.seq.desc()).limit(1)).first()
        return Head(row.seq, row.hash) if row else None

    def verify(self, head: Head | str | None = None) -> Verification:
        """Check every row against its hash and its predecessor, and the end against a head exported earlier.

        Raises ValueError where `head` cannot be read.
        """
        expected = Head.parse(head) if isinstance(head, str) else head
        with self.store.reading() as connection:
            streamed = connection.execution_options(yield_per=_CHUNK)
            return verify_rows(streamed.execute(raw_rows(connection)), expected)

    def _turn_ids(self, outcome: Outcome | None, search: str | None) -> list[int]:
        # A row whose turn is not its own number was tampered with: `verify` names it.
        opens = sa.and_(log.c.event == "started", log.c.turn_id == log.c.seq)
        ended = sa.select(log.c.turn_id, log.c.event).where(log.c.event.in_(OUTCOMES)).order_by(log.c.seq)
        with self.store.reading() as connection:
            if search:
                needle = search.casefold()
                events = [to_event(row) for row in connection.execute(raw_rows(connection).where(opens))]
                ids = [e.seq for e in reversed(events) if needle in str(e.payload.get("question", "")).casefold()]
            else:
                ids = list(connection.execute(sa.select(log.c.seq).where(opens).order_by(log.c.seq.desc())).scalars())
            if outcome is None:
                return ids
            last = dict(connection.execute(ended).all())
        return [id for id in ids if last.get(id, "started") == outcome]


def program_version() -> dict[str, str]:
    """The versions of the program and of what it computes with, for the `started` row."""
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    # Read once: each look-up parses the package's metadata, which takes milliseconds.
    import provenance

    versions = {"receipts": str(getattr(provenance, "__version__", "unknown"))}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _summary(events: Sequence[Event], deleted: Mapping[str, str]) -> Summary:
    turn = fold(events)
    if turn is None or turn.id is None:
        raise LookupError("A turn without its started row.")
    good = sum(quote.verdict in ("exact", "normalised") for quote in turn.quotes or ())
    return Summary(
        id=turn.id,
        asked_at=turn.asked_at,
        question=turn.question,
        outcome=turn.outcome,
        candidates=len(turn.candidates),
        sent=len(turn.sources) or sum(candidate.sent is not None for candidate in turn.candidates),
        cited=len(turn.cited),
        quotes=None if turn.quotes is None else (good, len(turn.quotes)),
        methods=tuple(attribution.method for attribution in turn.attributions),
        marked=sum(event.event == "marked" for event in events),
        deleted=sum(candidate.passage.document_id in deleted for candidate in turn.candidates),
        hash=events[-1].hash,
    )
