"""The log for outsiders: JSON lines that can be verified without this program, and a table for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from provenance.log.events import as_text
from provenance.log.log import Log
from provenance.log.verification import Head, Verification, raw_rows, verify_rows
from provenance.records import Turn
from provenance.store.chain import LARGEST, canonical
from provenance.store.schema import log as log_table

COLUMNS = (
    "id",
    "asked_at",
    "outcome",
    "question",
    "answer",
    "model",
    "candidates",
    "sent",
    "cited",
    "sources",
    "cited_sources",
    "quotes_good",
    "quotes",
    "methods",
    "reason",
    "hash",
)

_FORMULA = re.compile(r"^[\s\x00-\x1f]*[=+\-@|%＝＋－＠]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


def export_jsonl(log: Log, turn_id: int | None = None) -> Iterator[str]:
    """Every row, or those of one turn, as one line of canonical JSON with its hash.

    Take `hash` out of a line, write what is left as canonical JSON (keys sorted, no white
    space, UTF-8), and its SHA-256 is the hash; `previous` is the hash of the line before. A row
    that was damaged is a line too, and fails that check.
    """
    if turn_id is not None and not 0 < turn_id <= LARGEST:
        return
    with log.store.reading() as connection:
        statement = raw_rows(connection)
        if turn_id is not None:
            statement = statement.where(log_table.c.turn_id == turn_id)
        for row in connection.execution_options(yield_per=200).execute(statement):
            at, event, hashed, payload, previous = map(
                as_text, (row.at, row.event, row.hash, row.payload, row.previous)
            )
            yield (
                f'{{"at":{canonical(at)},"event":{canonical(event)},"hash":{canonical(hashed)},'
                f'"payload":{payload if _is_line(payload) else canonical(payload)},"previous":{canonical(previous)},'
                f'"seq":{row.seq},"turn_id":{canonical(row.turn_id)}}}\n'
            )


def verify_jsonl(lines: Iterable[str], head: Head | str | None = None) -> Verification:
    """Check an exported log (all of it) the way `Log.verify` checks the database."""
    expected = Head.parse(head) if isinstance(head, str) else head
    return verify_rows((_Line(line) for line in lines if line.strip()), expected)


class _Line:
    """A line of an export with the fields of a row; all of them None where it is no such line."""

    def __init__(self, line: str) -> None:
        self.seq = self.turn_id = self.event = self.at = self.payload = self.previous = self.hash = None
        with suppress(ValueError, TypeError, KeyError, RecursionError):
            value = json.loads(line)
            self.payload = canonical(value["payload"])
            self.turn_id, self.event, self.at = value["turn_id"], value["event"], value["at"]
            self.previous, self.hash, self.seq = value["previous"], value["hash"], value["seq"]


def _is_line(payload: str) -> bool:
    """Whether a payload is JSON on one line, as all are that were not damaged."""
    try:
        json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return "\n" not in payload and "\r" not in payload


def export_csv(log: Log) -> str:
    """One line per turn, newest first, under `COLUMNS`, RFC 4180, beginning with a byte order mark.

    A cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    output = io.StringIO(newline="")
    output.write("\ufeff")
    writer = csv.writer(output, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for summary in log.turns(limit=log.count_turns()):
        turn = log.turn(summary.id)
        if turn is not None:
            good, all_quotes = summary.quotes or ("", "")
            row = (
                summary.id,
                summary.asked_at,
                summary.outcome,
                turn.question,
                turn.answer.text if turn.answer else "",
                turn.answer.model if turn.answer else "",
                summary.candidates,
                summary.sent,
                summary.cited,
                _sources(turn, cited=False),
                _sources(turn, cited=True),
                good,
                all_quotes,
                ", ".join(summary.methods),
                turn.reason or "",
                summary.hash,
            )
            writer.writerow([safe_cell(value) for value in row])
    return output.getvalue()


def safe_cell(value: object) -> str:
    """A value as a spreadsheet may read it: never as a formula, never with control characters."""
    text = printable(str(value))
    if isinstance(value, str) and _FORMULA.match(text):
        return "'" + text
    return text


def printable(text: str) -> str:
    """The text with control characters and lone surrogates shown as U+FFFD."""
    return _CONTROL.sub("\ufffd", text)


def _sources(turn: Turn, *, cited: bool) -> str:
    chosen = [source for source in turn.sources if not cited or source.n in turn.cited]
    return "; ".join(f"[{s.n}] {s.passage.title}, page {s.passage.page}" for s in chosen)
