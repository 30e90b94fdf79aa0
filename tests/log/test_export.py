"""The log for outsiders: JSON lines and a table, on both engines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from provenance.log import Log, export_csv, export_jsonl, verify_jsonl
from provenance.log.export import COLUMNS, safe_cell
from provenance.records import Attribution, Passage, Quote, Source
from provenance.store import Store, open_store
from tests.log.test_log import ANSWERED
from tests.test_codec import PROMPT


@pytest.fixture
def log(store_url: str) -> Iterator[Log]:
    store: Store = open_store(store_url)
    yield Log(store)
    store.close()


def test_every_row_is_one_line_that_reads_back(log: Log) -> None:
    id = log.start("first “line”\nof \0 two", {"top_k": 5})
    log.finish(id, ANSWERED)
    other = log.start("second", {})
    lines = list(export_jsonl(log))
    assert [line.count("\n") for line in lines] == [1, 1, 1]
    rows = [json.loads(line) for line in lines]
    assert [(row["seq"], row["turn_id"], row["event"]) for row in rows] == [
        (1, id, "started"),
        (2, id, "answered"),
        (3, other, "started"),
    ]
    assert rows[0]["payload"]["question"] == "first “line”\nof \0 two"
    assert [json.loads(line)["seq"] for line in export_jsonl(log, other)] == [3]


def test_an_exported_head_shows_that_the_export_lost_its_end(log: Log) -> None:
    for n in range(5):
        log.start(f"question {n}", {})
    lines, head = list(export_jsonl(log)), str(log.head())
    assert verify_jsonl(lines, head).ok
    assert verify_jsonl(lines[:4]).ok
    cut = verify_jsonl(lines[:4], head)
    assert (cut.ok, cut.broken) == (False, 5)
    assert "cut off" in (cut.reason or "")


@pytest.mark.parametrize(
    "hostile",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "  =cmd|' /C calc'!A0",
        "|calc",
        "%0A=1",
        "＝1",
        "\u00a0=1",
    ],
)
def test_a_cell_that_begins_like_a_formula_is_text(hostile: str) -> None:
    assert safe_cell(hostile)[0] == "'"


@pytest.mark.parametrize("harmless", ["It costs -5 %", "a=b", "3", "", "—", "“=1”"])
def test_other_cells_stay_as_they_are(harmless: str) -> None:
    assert safe_cell(harmless) == harmless


def test_figures_below_zero_stay_figures() -> None:
    assert safe_cell(-0.5) == "-0.5"


def test_the_table_has_one_line_per_turn_and_no_formula(log: Log) -> None:
    hostile = Passage("d:1:0", "d" * 64, '=HYPERLINK("http://x")', 1, 0, 9, "some text")
    prompt = replace(PROMPT, sources=(Source(1, hostile, "some text"),))
    assert ANSWERED.answer is not None
    turn = replace(
        ANSWERED, question='=cmd, "quoted"\nand more', prompt=prompt, answer=replace(ANSWERED.answer, text="@here [1].")
    )
    id = log.start(turn.question, {})
    log.finish(id, turn)
    log.quoted(id, [Quote("a", 0, 1, "exact"), Quote("b", 1, 2, "not found")])
    log.attributed(id, Attribution("rerank", (0.5,), False, 0.1))
    waiting = log.start("never finished", {})
    text = export_csv(log)
    assert text.startswith("\ufeff")
    rows = list(csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["id"], row["outcome"]) for row in rows] == [(str(waiting), "started"), (str(id), "answered")]
    row = rows[1]
    assert row["question"] == '\'=cmd, "quoted"\nand more'
    assert row["answer"] == "'@here [1]."
    assert row["sources"] == '[1] =HYPERLINK("http://x"), page 1'
    assert (row["quotes_good"], row["quotes"], row["methods"]) == ("1", "2", "rerank")
    assert row["hash"] == log.events(id)[-1].hash
    assert (rows[0]["answer"], rows[0]["quotes"]) == ("", "")
    assert not [cell for row in rows for cell in row.values() if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]
