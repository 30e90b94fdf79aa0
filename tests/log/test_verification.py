"""A log that somebody tampered with: the row is named, and every other row stays readable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import sqlalchemy as sa

from provenance.log import (
    Log,
    Verification,
    export_csv,
    export_jsonl,
    export_receipt,
    recall,
    verify_jsonl,
)
from provenance.log.verification import Head
from provenance.store import Store, open_store
from provenance.store.chain import canonical
from tests.log.test_log import ANSWERED

OTHER = "a" * 64
TAMPERED = {
    "an answer that is no JSON": ("UPDATE log SET payload = '{garbage' WHERE seq = 2", 2),
    "an answer in two lines": ("UPDATE log SET payload = '{}\n{}' WHERE seq = 2", 2),
    "an answer of another shape": ("UPDATE log SET payload = '[1,2]' WHERE seq = 2", 2),
    "an answer with wrong fields": ('UPDATE log SET payload = \'{"turn":{"id":"x"}}\' WHERE seq = 2', 2),
    "an answer of nothing": ('UPDATE log SET payload = \'{"turn":null,"quotes":7}\' WHERE seq = 2', 2),
    "an empty question": ("UPDATE log SET payload = '' WHERE seq = 1", 1),
    "settings that are a list": ('UPDATE log SET payload = \'{"settings":[1],"program":7}\' WHERE seq = 1', 1),
    "a question without its turn": ("UPDATE log SET turn_id = NULL WHERE seq = 1", 1),
    "a question of another turn": ("UPDATE log SET turn_id = 3 WHERE seq = 1", 1),
    "another event": ("UPDATE log SET event = 'started' WHERE seq = 2", 2),
    "another time": ("UPDATE log SET at = 'yesterday' WHERE seq = 1", 1),
    "a row that is gone": ("DELETE FROM log WHERE seq = 2", 2),
    "a mark that is none": (
        f"INSERT INTO log VALUES (5, 1, 'marked', 'x', '{{\"triage\":5}}', '{OTHER}', '{OTHER}')",
        5,
    ),
    "a deletion that is none": (
        f"INSERT INTO log VALUES (5, NULL, 'document_deleted', 'x', '[]', '{OTHER}', '{OTHER}')",
        5,
    ),
}
ONLY_SQLITE = {
    "a payload that is no text": ("UPDATE log SET payload = CAST(x'ff22' AS TEXT) WHERE seq = 2", 2),
    "an event that is no text": ("UPDATE log SET event = CAST(x'ff22' AS TEXT) WHERE seq = 2", 2),
    "a time that is no text": ("UPDATE log SET at = CAST(x'ff22' AS TEXT) WHERE seq = 1", 1),
    "a turn that is no number": ("UPDATE log SET turn_id = 'abc' WHERE seq = 1", 1),
    "a number for a payload": ("UPDATE log SET payload = 5 WHERE seq = 2", 2),
}


@pytest.fixture
def log(store_url: str) -> Iterator[Log]:
    store: Store = open_store(store_url)
    made = Log(store)
    for question in ("the first question", "the second question"):
        made.finish(made.start(question, {"top_k": 5}), replace(ANSWERED, question=question))
    yield made
    store.close()


def tamper(log: Log, statement: str) -> None:
    """Change the log behind its back, without the triggers that refuse it."""
    with log.store.writing() as connection:
        if log.store.dialect == "postgresql":
            connection.execute(sa.text("ALTER TABLE log DISABLE TRIGGER USER"))
        else:
            for name in ("log_no_update", "log_no_delete", "log_no_replace"):
                connection.execute(sa.text(f"DROP TRIGGER {name}"))
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize("case", [*TAMPERED, *ONLY_SQLITE])
def test_a_damaged_row_is_named_and_hides_no_other(log: Log, case: str) -> None:
    if case in ONLY_SQLITE and log.store.dialect != "sqlite":
        pytest.skip("Postgres does not store this")
    statement, row = {**TAMPERED, **ONLY_SQLITE}[case]
    tamper(log, statement)
    found = log.verify()
    assert (found.ok, found.broken) == (False, row)
    assert verify_jsonl(export_jsonl(log)).broken == row
    listed = {summary.id: summary for summary in log.turns()}
    assert listed[3].outcome == "answered"
    assert [summary.id for summary in log.turns(search="SECOND")] == [3]
    assert "the second question" in export_csv(log)
    assert recall(log).n == 0
    assert log.deleted_documents() == {}
    first = log.turn(1)
    if first is not None:
        log.deleted_since(first)
        assert "Receipt 1" in export_receipt(log, 1)
    second = log.turn(3)
    assert second is not None
    assert second.answer == ANSWERED.answer


def test_a_turn_with_a_damaged_row_says_so(log: Log) -> None:
    tamper(log, TAMPERED["an answer that is no JSON"][0])
    turn = log.turn(1)
    assert turn is not None
    assert (turn.outcome, turn.question) == ("started", "the first question")
    assert turn.reason == "Row 2 of the log cannot be read: verify the log."


def test_a_line_that_is_no_row_is_named(log: Log) -> None:
    lines = list(export_jsonl(log))
    for nonsense in ("{}", "not JSON", "[]", '{"payload":NaN}', "[" * 100_000):
        found = verify_jsonl([lines[0], nonsense, *lines[2:]])
        assert (found.ok, found.broken) == (False, 2), nonsense[:20]
    assert verify_jsonl([*lines, "\n"]) == Verification(True, 4, log.head())


@pytest.mark.parametrize(
    "text", ["", "nonsense", "1:", "²:" + OTHER, "-1:" + OTHER, "9" * 5000 + ":" + OTHER, OTHER[1:]]
)
def test_what_is_no_head_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="A head reads"):
        Head.parse(text)


def test_an_undamaged_payload_is_exported_as_it_is_stored(log: Log) -> None:
    log.append(None, "note", {"text": "“ü” \ud800 \n", "n": 1.5})
    assert canonical({"n": 1.5, "text": "“ü” \ud800 \n"}) in list(export_jsonl(log))[-1]
