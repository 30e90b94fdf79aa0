"""PDF bytes to raw pages, read by a child process that may be killed."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provenance.ingest.layout import Line, RawPage
from provenance.ingest.limits import Limits

_WORKER = Path(__file__).with_name("worker.py")


@dataclass(frozen=True, slots=True)
class PdfContent:
    """What could be read. `problem` continues a sentence that begins with the file's name; then there are no pages."""

    pages: tuple[RawPage, ...] = ()
    page_count: int = 0
    title: str | None = None
    problem: str | None = None
    needs_password: bool = False


def read_pdf(data: bytes, *, password: str | None = None, limits: Limits | None = None) -> PdfContent:
    """Read every page in a child process, within `limits`. Never raises for the bytes it is given.

    A page that takes the process down costs that page: the process starts again
    behind it, `limits.restarts` times at most.
    """
    limits = limits or Limits()
    deadline = time.monotonic() + limits.document_seconds
    pages: dict[int, RawPage] = {}
    header: dict[str, Any] | None = None
    first, characters, left_unread = 1, 0, "was not reached"
    for _ in range(limits.restarts + 1):
        for record in _run(data, password, first, limits, deadline):
            if "problem" in record and "page" not in record:
                if header is None:
                    return PdfContent(problem=record["problem"], needs_password=bool(record["needs_password"]))
                break
            if "document" in record:
                header = record["document"]
                continue
            page = _raw_page(record)
            pages[page.number] = page
            characters += sum(len(line.text) for line in page.lines)
            if characters > limits.document_characters:
                left_unread = f"comes after the first {limits.document_characters:,} characters of the document"
                break
        if header is None:
            return PdfContent(problem="could not be opened: the parser stopped")
        last = min(int(header["pages"]), limits.pages)
        if len(pages) >= last or characters > limits.document_characters:
            break
        if time.monotonic() >= deadline:
            left_unread = f"was not read within {limits.document_seconds:g} seconds"
            break
        stuck = max(pages, default=0) + 1
        pages[stuck] = RawPage(stuck, (), problem="the parser stopped on it")
        first = stuck + 1
        if first > last:
            break
    assert header is not None
    count = int(header["pages"])
    for number in range(1, min(count, limits.pages) + 1):
        pages.setdefault(number, RawPage(number, (), problem=left_unread))
    return PdfContent(tuple(pages[n] for n in sorted(pages)), count, header.get("title"))


def _raw_page(record: dict[str, Any]) -> RawPage:
    if "problem" in record:
        return RawPage(int(record["page"]), (), problem=str(record["problem"]))
    lines = tuple(Line(**line) for line in record["lines"])
    return RawPage(int(record["page"]), lines, height=record["height"], cut=record["cut"])


def _run(data: bytes, password: str | None, first: int, limits: Limits, deadline: float) -> Any:
    """Yield the worker's records until it ends, is silent for too long, or the deadline passes."""
    orders = {
        "bytes": len(data),
        "password": password,
        "first": first,
        "pages": limits.pages,
        "page_characters": limits.page_characters,
        "page_seconds": limits.page_seconds,
        "cpu_seconds": max(1, int(limits.document_seconds)),
        "memory_bytes": limits.memory_bytes,
    }
    # The file is run by its path: the package's own start-up would load far more than the parser needs.
    process = subprocess.Popen(
        [sys.executable, "-P", str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    records: queue.Queue[dict[str, Any] | None] = queue.Queue(maxsize=64)
    gone = threading.Event()
    threads = [
        threading.Thread(target=_feed, args=(process, orders, data), daemon=True),
        threading.Thread(target=_listen, args=(process, records, gone), daemon=True),
    ]
    for thread in threads:
        thread.start()
    # The worker counts processor time itself; this wall-clock patience only catches what never returns to Python.
    patience = 3 * limits.page_seconds + 10
    try:
        while True:
            wait = min(patience, deadline - time.monotonic())
            if wait <= 0:
                return
            try:
                record = records.get(timeout=wait)
            except queue.Empty:
                return
            if record is None:
                return
            yield record
    finally:
        gone.set()
        process.kill()
        process.wait()
        for thread in threads:
            thread.join(timeout=5)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:
                    continue


def _feed(process: subprocess.Popen[bytes], orders: dict[str, Any], data: bytes) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(orders).encode("ascii") + b"\n")
        process.stdin.write(data)
        process.stdin.close()
    except OSError:  # the worker went away before it had read everything
        return


def _listen(
    process: subprocess.Popen[bytes], records: queue.Queue[dict[str, Any] | None], gone: threading.Event
) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if not _put(records, json.loads(line), gone):
                return
    except ValueError:  # the last line of a killed worker can be half a line
        pass
    _put(records, None, gone)


def _put(records: queue.Queue[dict[str, Any] | None], record: dict[str, Any] | None, gone: threading.Event) -> bool:
    while not gone.is_set():
        try:
            records.put(record, timeout=0.2)
            return True
        except queue.Full:
            continue
    return False
