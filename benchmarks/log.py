"""What the log costs an ask, what a quote check costs an answer, and whether killed asks leave their rows."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from benchmarks.store import stores
from benchmarks.table import Goal, Row
from provenance.log import Log, check_quotes
from provenance.records import (
    Answer,
    Attribution,
    Candidate,
    Citation,
    Document,
    Page,
    Passage,
    Prompt,
    Source,
    Span,
    Stage,
    Turn,
)
from provenance.store import Store

ROOT = Path(__file__).parents[1]
ASKS, WRITERS, ROWS = 50, 8, 2_000
CORPUS, QUICK_CORPUS = 10_000, 2_000
_SENT, _CANDIDATES = 5, 20


def sentence(n: int) -> str:
    """A sentence of its own for every number, in words that recur."""
    return (
        f"The harbour office recorded {n:,} crates of winter apples on pier {n % 97} before the tide of day {n % 31}."
    )


def corpus(store: Store, count: int) -> list[Passage]:
    """`count` passages of five sentences in documents of a thousand passages."""
    made: list[Passage] = []
    for start in range(0, count, 1_000):
        id = f"{start:064x}"
        texts = [" ".join(sentence(5 * n + k) for k in range(5)) for n in range(start, min(start + 1_000, count))]
        pages = [Page(n, text) for n, text in enumerate(texts, start=1)]
        passages = [
            Passage(f"{id[-16:]}:{n}:0", id, f"Ledger {start}", n, 0, len(t), t) for n, t in enumerate(texts, 1)
        ]
        document = Document(id, f"Ledger {start}", "ledger.txt", "txt", len(pages), len(pages), 0, len(pages))
        rows = np.ones((len(passages), 2), np.float32)
        store.add_document(document, pages, passages, rows, embedder="synthetic@1", original=b"")
        made += passages
    return made


def settle(store: Store) -> None:
    """Do at once what Postgres does by itself in the minute after many rows were added."""
    if store.dialect == "postgresql":
        with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text("VACUUM ANALYZE"))


def turn(passages: list[Passage]) -> Turn:
    """A turn of the usual size: 20 candidates, 5 sent, a prompt of 1,500 tokens and an answer of 160."""
    stages = [(Stage(n, 9.0 - n / 7), Stage(n, 1 / n), Stage(n, 1 / (60 + n))) for n in range(1, _CANDIDATES + 1)]
    candidates = tuple(
        Candidate(p, *stages[n - 1], Stage(n, 1 / n), n if n <= _SENT else None)
        for n, p in enumerate(passages[:_CANDIDATES], start=1)
    )
    sources = tuple(Source(n, p, p.text) for n, p in enumerate(passages[:_SENT], start=1))
    text = "\n\n".join(source.text for source in sources)
    spans = tuple(Span(300 * n, 300 * n + 300) for n in range(_SENT))
    prompt = Prompt(text, tuple(range(1_500)), sources, spans, spans, "How many?", Span(1_500, 1_510), None, "Answer.")
    answer = Answer("It was recorded [1]. " * 30, tuple(range(160)), "writer", "r1")
    scores = Attribution("attention-heads", (0.1, 0.2, 0.3, 0.4, 0.5), False, 0.1)
    settings: dict[str, str | int | float | bool | None] = {f"setting {n}": n for n in range(25)}
    return Turn(
        None, "How many crates were recorded?", "", "answered", candidates, prompt, answer,
        citations=(Citation(1, 16, 19, "model"),), attributions=(scores,), quotes=(), settings=settings,
    )  # fmt: skip


def quoting(passages: list[Passage]) -> tuple[str, tuple[Citation, ...], tuple[Source, ...]]:
    """An answer with four quotes: in the cited passage, in another passage, elided, and nowhere."""
    sources = tuple(Source(n, p, p.text) for n, p in enumerate(passages[:_SENT], start=1))
    elsewhere = passages[len(passages) // 2].text.split(". ")[2]
    elided = passages[len(passages) // 3].text.split()
    spans = (
        passages[0].text.split(". ")[1],
        elsewhere,
        f"{' '.join(elided[:6])} … {' '.join(elided[12:20])}",
        "The harbour office never recorded a single crate of pears on any pier.",
    )
    answer, citations = "", []
    for span in spans:
        answer += f"It says “{span}” [1]. "
        at = len(answer) - 5
        citations.append(Citation(1, at, at + 3, "model"))
    return answer, tuple(citations), sources


def median_ms(call: Callable[[], object], times: int) -> float:
    """The median of some calls in milliseconds, the first left out."""
    call()
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return float(np.median(taken)) * 1000


def run(quick: bool) -> list[Row]:
    """The rows of `make bench`."""
    count, times = (QUICK_CORPUS, 10) if quick else (CORPUS, 50)
    rows: list[Row] = []
    with stores() as opened:
        for name, store in opened.items():
            log, passages = Log(store), corpus(store, count)
            settle(store)
            rows.append(_logging(log, passages, name, times))
            rows.append(_quotes(store, passages, name, times))
            rows.append(_verifying(log, name, 200 if quick else ROWS))
    # In stores of their own, so that every row there is a row of theirs.
    with stores() as opened:
        for name, store in opened.items():
            rows += _appended(store, name, WRITERS, (40 if quick else ROWS) // WRITERS)
    with stores() as opened:
        for name, store in opened.items():
            rows += _killed(store, name, 10 if quick else ASKS)
    return rows


def _logging(log: Log, passages: list[Passage], name: str, times: int) -> Row:
    asked = turn(passages)

    def logged() -> None:
        log.finish(log.start(asked.question, asked.settings), replace(asked, settings={}))

    return Row(f"logging one ask, {name}", median_ms(logged, times), "ms", goal=Goal(5, of="value"))


def _quotes(store: Store, passages: list[Passage], name: str, times: int) -> Row:
    # Every answer is another one, as in use: nothing of it is in memory from the time before.
    answers = iter([quoting(passages[37 * n :] + passages[: 37 * n]) for n in range(times + 1)])
    verdicts: list[str] = []

    def checked() -> None:
        verdicts[:] = [quote.verdict for quote in check_quotes(*next(answers), store)]

    taken = median_ms(checked, times)
    named = f"checking 4 quotes, {name}, {len(passages):,} passages"
    return Row(named, taken, "ms", goal=Goal(20, of="value"), note=", ".join(verdicts))


def _verifying(log: Log, name: str, count: int) -> Row:
    for n in range(count):
        log.append(None, "note", {"n": n, "text": "x" * 300})
    began = time.perf_counter()
    found = log.verify()
    taken = (time.perf_counter() - began) * 1000
    return Row(f"verifying {found.rows:,} rows, {name}", taken, "ms", note="whole" if found.ok else str(found.reason))


def _appended(store: Store, name: str, writers: int, each: int) -> list[Row]:
    """Rows of several processes that append at once."""
    command = [sys.executable, "-m", "tests.log.appender", _address(store)]
    began = time.perf_counter()
    running = [subprocess.Popen([*command, str(n), str(each)], cwd=ROOT) for n in range(writers)]
    failed = sum(process.wait() != 0 for process in running)
    taken = time.perf_counter() - began
    wanted, rows = writers * each, len(Log(store).events())
    figure = f"{writers} processes × {each} appends, {name}"
    note = f"{wanted:,} rows appended, {rows:,} found, {failed} processes failed, {taken:.0f} s with their start"
    return [_lost(figure, wanted - rows, note), _chain(figure, store)]


def _killed(store: Store, name: str, asks: int) -> list[Row]:
    """Asks whose process is killed at a random moment, with a writer of random weights."""
    figure = f"kill -9 during {asks} asks, {name}"
    command = [sys.executable, "-m", "tests.log.asker", _address(store), str(asks), "1", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return [Row(f"{figure}: rows lost", None, goal=Goal(0, of="value"), note=reason)]
    begun = [int(line) for line in done.stdout.splitlines()]
    outcomes = {summary.id: summary.outcome for summary in Log(store).turns(limit=10_000)}
    found = [outcomes[id] for id in begun if id in outcomes]
    open_ones = found.count("started")
    note = f"{len(begun)} asks started, {len(found)} started rows found, {open_ones} of them were killed unfinished"
    return [_lost(figure, len(begun) - len(set(begun) & set(outcomes)), note), _chain(figure, store)]


def _lost(figure: str, count: int, note: str) -> Row:
    return Row(f"{figure}: rows lost", float(count), goal=Goal(0, of="value"), note=note)


def _chain(figure: str, store: Store) -> Row:
    found = Log(store).verify()
    note = f"yes, {found.rows:,} rows" if found.ok else f"no: row {found.broken}, {found.reason}"
    return Row(f"{figure}: chain verifies", float(found.ok), goal=Goal(1, of="value", least=True), note=note)


def _address(store: Store) -> str:
    return store.engine.url.render_as_string(hide_password=False)
