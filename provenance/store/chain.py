"""The hash chain of the log: what a row's hash covers and how a row is appended.

A row is {at, event, payload, previous, seq, turn_id}. Its hash is the SHA-256 of its
canonical JSON: keys sorted, no white space, UTF-8. `previous` is the hash of the row
before, and 64 zeros in the first row. The payload is stored as the canonical text that
was hashed, so that one changed byte shows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from provenance.store.schema import log

START = "0" * 64
LARGEST = 2**63 - 1
"""The largest number that a row of either engine can have."""

_SURROGATE = re.compile("[\ud800-\udfff]")
# Made once: building and keying a statement anew takes as long as running it.
_LOCK = sa.select(sa.func.pg_advisory_xact_lock(0x52454350))  # orders the appends on Postgres
_started = log.alias()
_KNOWN = sa.exists().where(_started.c.seq == sa.bindparam("turn"), _started.c.turn_id == sa.bindparam("turn"))
_HEAD = sa.select(log.c.seq, log.c.hash).order_by(log.c.seq.desc()).limit(1)
_HEAD_AND_KNOWN = sa.select(log.c.seq, log.c.hash, _KNOWN.label("known")).order_by(log.c.seq.desc()).limit(1)
_INSERT = log.insert()


def canonical(value: Any) -> str:
    """Canonical JSON. Raises ValueError for NaN and infinity, which JSON does not have."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def row_json(seq: int, turn_id: int | None, event: str, at: str, payload: str, previous: str) -> str:
    """The canonical JSON of a row, around a payload that is canonical JSON already."""
    return (
        f'{{"at":{canonical(at)},"event":{canonical(event)},"payload":{payload},"previous":{canonical(previous)},'
        f'"seq":{canonical(seq)},"turn_id":{canonical(turn_id)}}}'
    )


def row_hash(seq: int, turn_id: int | None, event: str, at: str, payload: str, previous: str) -> str:
    """The SHA-256 of the row's canonical JSON, hex."""
    return hashlib.sha256(row_json(seq, turn_id, event, at, payload, previous).encode("utf-8")).hexdigest()


def now() -> str:
    """The present moment, ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def append(
    connection: sa.Connection, turn_id: int | None, event: str, payload: Mapping[str, Any], *, opens: bool = False
) -> tuple[int, str]:
    """Append one row inside the caller's write transaction and return its number and its time.

    Where the row `opens` a generation its number becomes the turn's id. Raises LookupError for a
    turn that was never started.
    """
    if turn_id is not None and not 0 < turn_id <= LARGEST:
        raise LookupError(f"There is no turn {turn_id} in the log.")
    text = canonical(dict(payload))
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK)
    if turn_id is None:
        head = connection.execute(_HEAD).first()
    else:
        head = connection.execute(_HEAD_AND_KNOWN, {"turn": turn_id}).first()
        if head is None or not head.known:
            raise LookupError(f"There is no turn {turn_id} in the log.")
    seq, previous = (head.seq + 1, head.hash) if head else (1, START)
    turn = seq if opens else turn_id
    at = now()
    row = {"seq": seq, "turn_id": turn, "event": event, "at": at, "payload": text, "previous": previous}
    connection.execute(_INSERT, row | {"hash": row_hash(seq, turn, event, at, text, previous)})
    return seq, at
