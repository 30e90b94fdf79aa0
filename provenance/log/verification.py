"""Checking the chain of the log: the first broken row, and a tail that was cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from provenance.store.chain import START, row_hash
from provenance.store.schema import log


@dataclass(frozen=True, slots=True)
class Head:
    """The last row of the log: hand it to an outsider, and the log can no longer lose its end unseen."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read "row:hash", or a hash alone (then `seq` is 0). Raises ValueError for anything else."""
        seq, _, digest = text.strip().rpartition(":")
        if not re.fullmatch(r"\d{0,19}", seq, re.ASCII) or not re.fullmatch(r"[0-9a-f]{64}", digest, re.I | re.ASCII):
            raise ValueError("A head reads “row:hash”, with a hash of 64 hexadecimal digits.")
        return cls(int(seq or 0), digest.lower())


@dataclass(frozen=True, slots=True)
class Verification:
    """What `Log.verify` found. `broken` is the number of the first row that is wrong or missing; `reason` says how,
    as the rest of a sentence that begins with that row.
    """

    ok: bool
    rows: int
    head: Head | None
    broken: int | None = None
    reason: str | None = None


def raw_rows(connection: sa.Connection) -> sa.Select[Any]:
    """Every row in order. On SQLite text comes as bytes: damage is reported, not refused by the driver."""
    return _raw_rows(connection.dialect.name)


@cache
def _raw_rows(dialect: str) -> sa.Select[Any]:
    if dialect != "sqlite":
        return sa.select(log).order_by(log.c.seq)
    text = {column.name for column in log.c if isinstance(column.type, sa.Text)}
    columns = [sa.cast(c, sa.LargeBinary).label(c.name) if c.name in text else c for c in log.c]
    return sa.select(*columns).order_by(log.c.seq)


def verify_rows(rows: Iterable[Any], expected: Head | None = None) -> Verification:
    """Check rows (seq, turn_id, event, at, payload, previous, hash) in the order of `seq`."""
    last, count, met = Head(0, START), 0, expected is None or expected.hash == START
    try:
        for row in rows:
            hashed = _text(row.hash)
            reason = _fault(row, last)
            if reason is None and expected is not None and row.seq == expected.seq and hashed != expected.hash:
                reason = "its hash is not that of the exported head: the log was written anew"
            if reason is not None:
                broken = last.seq + 1
                return Verification(False, count, last if count else None, broken, reason)
            last, count = Head(row.seq, str(hashed)), count + 1
            met = met or (expected is not None and hashed == expected.hash)
    except sa.exc.DatabaseError as error:
        reason = f"the database cannot read it ({error.orig})"
        return Verification(False, count, last if count else None, last.seq + 1, reason)
    head = last if count else None
    if not met:
        named = f" (row {expected.seq})" if expected and expected.seq else ""
        reason = f"the log ends before the exported head{named}: its tail was cut off or written anew"
        return Verification(False, count, head, last.seq + 1, reason)
    return Verification(True, count, head)


def _fault(row: Any, last: Head) -> str | None:
    """What is wrong with a row that should follow `last`, or None."""
    if row.seq is None:
        return "its line cannot be read"
    if row.seq != last.seq + 1:
        return f"the row is missing; the next one is row {row.seq}"
    event, at, payload, previous, hashed = map(_text, (row.event, row.at, row.payload, row.previous, row.hash))
    if event is None or at is None or payload is None or previous is None or hashed is None:
        return "its content cannot be read"
    if not (row.turn_id is None or isinstance(row.turn_id, int)):
        return "its turn is not a number"
    if previous != last.hash:
        return "it does not follow the row before it"
    if row_hash(row.seq, row.turn_id, event, at, payload, previous) != hashed:
        return "its content does not match its hash"
    return None


def _text(value: object) -> str | None:
    """A stored text, or None where its bytes are no text any more."""
    if not isinstance(value, bytes):
        return value if isinstance(value, str) else None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None
