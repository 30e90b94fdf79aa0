"""The log: what a turn adds up to, and a chain that shows every change, on both engines."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from provenance.codec import to_json
from provenance.log import Head, Log, verify_jsonl
from provenance.log.export import export_jsonl
from provenance.records import Answer, Attribution, Candidate, Citation, LengthShare, Quote, Stage, Timing, Turn
from provenance.store import Store, chain, open_store
from tests.test_codec import PASSAGE, PROMPT, TURN

ROOT = Path(__file__).parents[2]
ANSWERED = Turn(
    None,
    "What is due?",
    "",
    "answered",
    candidates=(Candidate(PASSAGE, Stage(1, 2.0), Stage(1, 0.5), Stage(1, 0.03), sent=1),),
    prompt=PROMPT,
    answer=Answer("It is due [1].", (5,), "model", "r1"),
    citations=(Citation(1, 10, 13, "model"),),
    lengths=(LengthShare(1, 9, 100.0),),
    timings=(Timing("Retrieve", 0.1),),
    settings={"seed": 1},
)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    opened = open_store(store_url)
    yield opened
    opened.close()


@pytest.fixture
def log(store: Store) -> Log:
    return Log(store)


def test_a_started_turn_is_there_before_it_finishes(log: Log) -> None:
    id = log.start("What is due?", {"top_k": 5})
    turn = log.turn(id)
    assert turn is not None
    assert (turn.id, turn.outcome, turn.question, turn.settings) == (id, "started", "What is due?", {"top_k": 5})
    (event,) = log.events(id)
    assert event.payload["program"]["SQLAlchemy"]


def test_a_finished_turn_comes_back_whole(log: Log) -> None:
    id = log.start(TURN.question, {})
    log.finish(id, TURN)
    turn = log.turn(id)
    assert turn is not None
    assert replace(turn, asked_at=TURN.asked_at, id=TURN.id) == TURN


def test_the_row_holds_the_hashes_and_the_frozen_map(log: Log) -> None:
    id = log.start("q", {})
    log.finish(id, ANSWERED)
    payload = log.events(id)[-1].payload
    assert payload["text_hashes"] == {PASSAGE.id: PASSAGE.text_hash}
    assert payload["sources"] == {"1": PASSAGE.id}
    assert payload["prompt_hash"] == PROMPT.hash


@pytest.mark.parametrize("outcome", ["answered", "refused", "stopped", "failed"])
def test_every_outcome_is_an_event(log: Log, outcome: str) -> None:
    id = log.start("q", {})
    log.finish(id, replace(ANSWERED, outcome=outcome, reason="why"))
    turn = log.turn(id)
    assert turn is not None
    assert (turn.outcome, turn.reason) == (outcome, "why")
    assert [e.event for e in log.events(id)] == ["started", outcome]


def test_a_turn_cannot_finish_as_started(log: Log) -> None:
    id = log.start("q", {})
    with pytest.raises(ValueError, match="started"):
        log.finish(id, replace(ANSWERED, outcome="started"))


def test_later_events_join_the_turn(log: Log) -> None:
    id = log.start("q", {"top_k": 5})
    other = log.start("another", {})
    log.finish(id, ANSWERED)
    log.attributed(id, Attribution("rerank", (0.1,), False, 1.0))
    log.attributed(id, Attribution("rerank", (0.2,), True, 1.0))
    log.attributed(id, Attribution("rerank", (0.3,), False, 2.0))
    log.append(id, "evidence", {"citations": [to_json(Citation(1, 14, 14, "evidence"))], "lengths": []})
    log.append(id, "timed", {"timings": [to_json(Timing("Attribute", 2.0))]})
    quote = Quote("due", 0, 3, "exact", PASSAGE.id, 1)
    log.quoted(id, [quote])
    log.append(id, "looked at", {"by": "a person"})
    turn = log.turn(id)
    assert turn is not None
    assert turn.settings == {"top_k": 5, "seed": 1}
    assert [a.scores for a in turn.attributions] == [(0.2,), (0.3,)]
    assert turn.quotes == (quote,)
    assert [c.by for c in turn.citations] == ["evidence"]
    assert turn.lengths == ()
    assert [t.step for t in turn.timings] == ["Retrieve", "Attribute"]
    assert log.turn(other) == Turn(other, "another", turn_started(log, other), "started")


def turn_started(log: Log, id: int) -> str:
    return log.events(id)[0].at


def test_quotes_are_unchecked_until_they_are_checked(log: Log) -> None:
    id = log.start("q", {})
    log.finish(id, ANSWERED)
    assert log.turn(id).quotes is None
    log.quoted(id, ())
    assert log.turn(id).quotes == ()


def test_an_event_for_a_turn_that_never_started_is_refused(log: Log) -> None:
    with pytest.raises(LookupError, match="no turn 7"):
        log.append(7, "quotes", {"quotes": []})
    assert log.turn(7) is None
    assert log.head() is None


def test_a_value_that_json_cannot_hold_is_refused_and_leaves_no_row(log: Log) -> None:
    id = log.start("q", {})
    with pytest.raises(ValueError, match="JSON"):
        log.append(id, "provenance", {"score": float("nan")})
    assert log.verify().rows == 1


def test_summaries_are_newest_first_and_can_be_searched(log: Log) -> None:
    first = log.start("Wie hoch ist die Gebühr?", {})
    log.finish(first, ANSWERED)
    log.quoted(first, [Quote("a", 0, 1, "exact"), Quote("b", 1, 2, "not found"), Quote("c", 2, 3, "normalised")])
    second = log.start("100 % of “what”?", {})
    third = log.start("What is the quorum?", {})
    log.finish(third, replace(ANSWERED, outcome="refused"))
    assert [s.id for s in log.turns()] == [third, second, first]
    assert [s.id for s in log.turns(limit=1, offset=1)] == [second]
    assert [s.id for s in log.turns(outcome="started")] == [second]
    assert [s.id for s in log.turns(outcome="refused", search="QUORUM")] == [third]
    assert [s.id for s in log.turns(search="GEBÜHR")] == [first]
    assert [s.id for s in log.turns(search="%")] == [second]
    assert log.count_turns(search="what") == 2
    summary = log.turns()[2]
    assert (summary.outcome, summary.candidates, summary.sent, summary.cited, summary.quotes) == (
        "answered",
        1,
        1,
        1,
        (2, 3),
    )


def test_the_chain_verifies_and_its_head_is_the_last_row(log: Log) -> None:
    assert log.verify() == log.verify("0" * 64)
    for i in range(5):
        log.start(f"question {i} \0 \ud800", {"t": 0.1 + 0.2, "deep": None})
    found = log.verify()
    assert (found.ok, found.rows, found.broken) == (True, 5, None)
    assert found.head == log.head()
    assert log.verify(str(log.head())).ok


def test_a_row_can_be_checked_by_hand(log: Log) -> None:
    import hashlib

    log.start("ü “q”", {"x": 1.5})
    log.start("second", {})
    previous = "0" * 64
    for line in export_jsonl(log):
        row = json.loads(line)
        digest = row.pop("hash")
        text = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert hashlib.sha256(text.encode("utf-8")).hexdigest() == digest
        assert row["previous"] == previous
        previous = digest


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log SET event = 'answered' WHERE seq = 2",
        "UPDATE log SET seq = seq + 100",
        "DELETE FROM log WHERE seq = 2",
        "DELETE FROM log",
    ],
)
def test_updates_and_deletes_are_refused(log: Log, statement: str) -> None:
    for i in range(3):
        log.start(f"question {i}", {})
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), log.store.writing() as connection:
        connection.execute(sa.text(statement))
    assert log.verify().rows == 3


def test_replacing_and_emptying_are_refused(log: Log) -> None:
    log.start("question", {})
    statement = "TRUNCATE log" if log.store.dialect == "postgresql" else "INSERT OR REPLACE INTO log SELECT * FROM log"
    with pytest.raises(sa.exc.DBAPIError, match="append-only"), log.store.writing() as connection:
        connection.execute(sa.text(statement))


def test_the_chain_cannot_fork(log: Log) -> None:
    log.start("question", {})
    fork = {"seq": 2, "event": "x", "at": "", "payload": "{}", "previous": chain.START, "hash": "f" * 64}
    with pytest.raises(sa.exc.DBAPIError), log.store.writing() as connection:
        connection.execute(sa.insert(sa.table("log", *map(sa.column, fork))).values(**fork))


def tamper(store: Store, *statements: str) -> None:
    """Change the log with its triggers out of the way, as someone with the database in hand can."""
    with store.writing() as connection:
        if store.dialect == "postgresql":
            connection.execute(sa.text("ALTER TABLE log DISABLE TRIGGER USER"))
        else:
            for name in ("log_no_update", "log_no_delete", "log_no_replace"):
                connection.execute(sa.text(f"DROP TRIGGER {name}"))
        for statement in statements:
            connection.execute(sa.text(statement))


@pytest.mark.parametrize(
    ("statement", "broken", "reason"),
    [
        ("UPDATE log SET payload = replace(payload, 'question 2', 'question 9') WHERE seq = 3", 3, "does not match"),
        ("UPDATE log SET event = 'answered' WHERE seq = 2", 2, "does not match"),
        ("UPDATE log SET at = '1999' WHERE seq = 4", 4, "does not match"),
        ("UPDATE log SET turn_id = 1 WHERE seq = 4", 4, "does not match"),
        ("UPDATE log SET turn_id = NULL WHERE seq = 1", 1, "does not match"),
        ("UPDATE log SET hash = 'abc' WHERE seq = 5", 5, "does not match"),
        ("UPDATE log SET previous = 'abc' WHERE seq = 5", 5, "does not follow"),
        ("UPDATE log SET payload = payload || ' ' WHERE seq = 1", 1, "does not match"),
        ("DELETE FROM log WHERE seq = 3", 3, "missing"),
        ("DELETE FROM log WHERE seq = 1", 1, "missing"),
        ("UPDATE log SET seq = 60 WHERE seq = 6", 6, "missing"),
    ],
)
def test_verify_names_the_first_broken_row(log: Log, statement: str, broken: int, reason: str) -> None:
    for i in range(6):
        log.start(f"question {i}", {})
    tamper(log.store, statement)
    found = log.verify()
    assert (found.ok, found.broken) == (False, broken)
    assert reason in (found.reason or "")


def test_a_tail_that_was_cut_off_shows_against_an_exported_head(log: Log) -> None:
    for i in range(6):
        log.start(f"question {i}", {})
    head = str(log.head())
    tamper(log.store, "DELETE FROM log WHERE seq > 4")
    assert log.verify().ok
    for known in (head, head.split(":")[1]):
        found = log.verify(known)
        assert (found.ok, found.broken) == (False, 5)
        assert "cut off" in (found.reason or "")


def test_a_log_that_was_written_anew_shows_against_an_exported_head(log: Log) -> None:
    for i in range(6):
        log.start(f"question {i}", {})
    head = log.head()
    tamper(log.store, "DELETE FROM log WHERE seq > 3")
    for i in range(6):
        log.start(f"other {i}", {})
    assert log.verify().ok
    found = log.verify(head)
    assert (found.ok, found.broken) == (False, 6)
    assert "written anew" in (found.reason or "")


@pytest.mark.parametrize("head", ["", "12", "x:" + "a" * 64, "3:" + "g" * 64])
def test_a_head_that_cannot_be_read_is_refused(log: Log, head: str) -> None:
    with pytest.raises(ValueError, match="head"):
        log.verify(head)


def test_an_exported_log_verifies_without_the_database(log: Log) -> None:
    for i in range(4):
        log.start(f"question {i} \ud800", {"x": 1e-7})
    lines = list(export_jsonl(log))
    assert verify_jsonl(lines, log.head()).ok
    assert verify_jsonl([*lines[:2], lines[2].replace("question 2", "question 7"), lines[3]]).broken == 3
    assert verify_jsonl(lines[:3], log.head()).broken == 4


def test_a_turn_that_begins_is_the_turn_that_its_row_holds(log: Log) -> None:
    begun = log.begin("Where? \ud800 “quoted”", {"top_k": 5, "rerank": None, "documents": '["a"]'})
    assert begun.id is not None
    assert log.turn(begun.id) == begun
    assert begun.outcome == "started"


@pytest.mark.parametrize("id", [0, -1, 2**63, 10**40])
def test_a_number_that_no_row_can_have_is_no_turn(log: Log, id: int) -> None:
    assert log.turn(id) is None
    assert list(export_jsonl(log, id)) == []
    with pytest.raises(LookupError):
        log.append(id, "note", {})


def test_eight_processes_append_two_thousand_rows_and_none_is_lost(log: Log, store_url: str) -> None:
    command = [sys.executable, "-m", "tests.log.appender", store_url]
    writers = [subprocess.Popen([*command, str(n), "250"], cwd=ROOT) for n in range(8)]
    assert [writer.wait(timeout=300) for writer in writers] == [0] * 8
    found = log.verify()
    assert (found.ok, found.rows) == (True, 2000)
    notes = {(e.payload["writer"], e.payload["i"]) for e in log.events_named("note")}
    assert notes == {(n, i) for n in range(8) for i in range(249)}
    assert len(log.turns(limit=99)) == 8


ASKER = """
import sys
from provenance.log import Log
from provenance.store import open_store
from tests.log.test_log import ANSWERED
log = Log(open_store(sys.argv[1]))
for i in range(100000):
    id = log.start(f"question {i}", {"top_k": 5})
    print(id, flush=True)
    log.finish(id, ANSWERED)
"""


def test_a_killed_process_leaves_every_started_row_and_a_whole_chain(log: Log, store_url: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    seen: list[int] = []
    for round in range(5):
        asker = subprocess.Popen(
            [sys.executable, "-c", ASKER, store_url], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert asker.stdout is not None
        for _ in range(10):
            seen.append(int(asker.stdout.readline()))
        time.sleep(0.001 * round)
        os.kill(asker.pid, signal.SIGKILL)
        seen += [int(line) for line in asker.stdout.read().splitlines() if line.isdigit()]
        asker.wait(timeout=30)
        asker.stdout.close()
    assert len(seen) >= 50
    assert log.verify().ok
    known = {summary.id for summary in log.turns(limit=100_000)}
    assert set(seen) <= known
    assert {s.outcome for s in log.turns(limit=100_000)} <= {"started", "answered"}


@pytest.mark.parametrize("column", ["payload", "event", "hash", "at"])
def test_one_byte_changed_in_the_file_names_its_row(tmp_path: Path, column: str) -> None:
    path = tmp_path / "receipts.sqlite3"
    store = open_store(f"sqlite:///{path}")
    log = Log(store)
    for i in range(40):
        id = log.start(f"question number {i:03d}", {})
        log.append(id, f"note-{i:03d}", {"text": f"a note on {i:03d} " + "x" * 100})
    target = log.events()[41]
    needle = {
        "payload": b"a note on 020",
        "event": b"note-020",
        "hash": target.hash.encode(),
        "at": target.at.encode(),
    }[column]
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(path.read_bytes())
    places = [m.start() for m in re.finditer(re.escape(needle), bytes(data))]
    assert places
    expected = {42}
    for place in places:
        # The hash stands in the next row and in an index too, the time perhaps in its neighbour.
        data[place + 4] = data[place + 4] ^ 0x01
    if column == "at":
        expected |= {e.seq for e in Log(open_store(f"sqlite:///{path}")).events() if e.at == target.at}
    path.write_bytes(bytes(data))
    for leftover in (path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        leftover.unlink(missing_ok=True)
    found = Log(open_store(f"sqlite:///{path}")).verify()
    assert not found.ok
    assert found.broken in expected
    if column != "at":
        assert found.broken == 42


def test_a_byte_that_is_no_text_any_more_names_its_row(tmp_path: Path) -> None:
    path = tmp_path / "receipts.sqlite3"
    store = open_store(f"sqlite:///{path}")
    log = Log(store)
    for i in range(9):
        log.start(f"question number {i:03d}", {})
    store.close()
    data = bytearray(path.read_bytes())
    data[data.index(b"question number 006") + 3] = 0xFF
    path.write_bytes(bytes(data))
    found = Log(open_store(f"sqlite:///{path}")).verify()
    assert (found.ok, found.broken) == (False, 7)


def test_a_head_reads_back() -> None:
    head = Head(12, "a" * 64)
    assert Head.parse(str(head)) == head
    assert Head.parse("A" * 64) == Head(0, "a" * 64)


def test_a_process_killed_while_it_answers_leaves_a_row_for_every_question(log: Log, store_url: str) -> None:
    command = [sys.executable, "-m", "tests.log.asker", store_url, "4", "2", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    begun = [int(line) for line in done.stdout.splitlines()]
    outcomes = {summary.id: summary.outcome for summary in log.turns(limit=1000)}
    assert len(begun) >= 8
    assert set(begun) <= set(outcomes)
    # Two more were asked before; and one may have begun in each process before it could say so.
    assert len(outcomes) <= len(begun) + 6
    # A question is asked after the one before it has ended: only those that were killed may be open.
    open_ones = [id for id, outcome in outcomes.items() if outcome == "started"]
    assert len(open_ones) <= 4
    assert {outcomes[id] for id in outcomes if id not in open_ones} <= {"answered", "refused"}
    assert log.verify().ok
