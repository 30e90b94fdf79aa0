"""The events of one generation, and the turn they add up to."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from provenance.codec import from_json, to_json
from provenance.records import (
    Attribution,
    Citation,
    LengthShare,
    Mark,
    Outcome,
    Quote,
    SentenceSupport,
    Timing,
    Turn,
)

OUTCOMES: Final = ("answered", "refused", "stopped", "failed")
"""The events that end a generation."""

_PARTS: Final[Mapping[str, Any]] = {
    "citations": tuple[Citation, ...],
    "sentences": tuple[SentenceSupport, ...],
    "marks": tuple[Mark, ...],
    "lengths": tuple[LengthShare, ...],
    "quotes": tuple[Quote, ...],
}
"""The parts of a turn that a later event may bring or replace, by the key of its payload."""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log. `payload` is what was recorded; `hash` covers the whole row and the row before.

    `readable` is False where the payload is no JSON object any more; then it is empty.
    """

    seq: int
    turn_id: int | None
    event: str
    at: str
    payload: dict[str, Any]
    previous: str
    hash: str
    readable: bool = True


def to_event(row: Any) -> Event:
    """The event of a row of `raw_rows`. A damaged row is an event too: the others must stay readable beside it."""
    event, at, previous, hashed = map(as_text, (row.event, row.at, row.previous, row.hash))
    try:
        payload = json.loads(row.payload)
    except (TypeError, ValueError):
        payload = None
    if isinstance(payload, dict):
        return Event(row.seq, row.turn_id, event, at, payload, previous, hashed)
    return Event(row.seq, row.turn_id, event, at, {}, previous, hashed, readable=False)


def as_text(value: object) -> str:
    """A stored text as `raw_rows` gives it, with U+FFFD where its bytes are no text any more."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def turn_payload(turn: Turn) -> dict[str, Any]:
    """What the row of a finished turn holds: the turn, and the hashes and numbers an outsider needs.

    `text_hashes` maps each candidate's and source's passage id to the SHA-256 of its text;
    `sources` is the frozen number → passage map; `prompt_hash` is that of the rendered thread.
    """
    passages = [c.passage for c in turn.candidates] + [s.passage for s in turn.sources]
    return {
        "turn": to_json(turn),
        "text_hashes": {passage.id: passage.text_hash for passage in passages},
        "sources": {str(source.n): source.passage.id for source in turn.sources},
        "prompt_hash": turn.prompt.hash if turn.prompt else None,
    }


def fold(events: Sequence[Event]) -> Turn | None:
    """The turn that the events of one generation add up to, in their order. None where it was never started.

    Where a row was damaged its part is missing, and the turn's `reason` says so.
    """
    turn: Turn | None = None
    damaged = []
    for event in events:
        opens = event.event == "started"
        if opens:
            turn = Turn(event.turn_id, str(event.payload.get("question", "")), event.at, "started")
        if turn is None:
            continue
        try:
            turn = replace(turn, settings=dict(event.payload.get("settings", {}))) if opens else _apply(turn, event)
        except (ValueError, TypeError, KeyError, AttributeError):
            damaged.append(event.seq)
        else:
            if not event.readable:
                damaged.append(event.seq)
    if turn is None or not damaged:
        return turn
    said = f"Row {', '.join(map(str, damaged))} of the log cannot be read: verify the log."
    return replace(turn, reason=f"{said} {turn.reason}" if turn.reason else said)


def _apply(turn: Turn, event: Event) -> Turn:
    payload = event.payload
    if event.event in OUTCOMES and "turn" in payload:
        kept = turn
        turn = replace(
            from_json(Turn, payload["turn"]), id=kept.id, asked_at=kept.asked_at, outcome=cast(Outcome, event.event)
        )
        turn = replace(turn, settings={**kept.settings, **turn.settings})
        for attribution in kept.attributions:
            turn = _with_attribution(turn, attribution)
        return turn if turn.quotes is not None else replace(turn, quotes=kept.quotes)
    changes = {name: from_json(kind, payload[name]) for name, kind in _PARTS.items() if payload.get(name) is not None}
    turn = replace(turn, **changes)
    if payload.get("attribution") is not None:
        turn = _with_attribution(turn, from_json(Attribution, payload["attribution"]))
    if payload.get("timings"):
        turn = replace(turn, timings=turn.timings + tuple(from_json(tuple[Timing, ...], payload["timings"])))
    return turn


def _with_attribution(turn: Turn, attribution: Attribution) -> Turn:
    """The turn with this attribution in the place of an older one of the same method."""
    same = (attribution.method, attribution.include_query)
    others = tuple(a for a in turn.attributions if (a.method, a.include_query) != same)
    return replace(turn, attributions=(*others, attribution))


def group(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Events by their turn; those of no turn are left out."""
    turns: dict[int, list[Event]] = {}
    for event in events:
        if event.turn_id is not None:
            turns.setdefault(event.turn_id, []).append(event)
    return turns
