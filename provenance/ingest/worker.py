"""Reads a PDF in a process of its own: `python -m provenance.ingest.worker`.

Standard input is one JSON line of orders (`bytes, password, first, page_characters,
page_seconds, pages, cpu_seconds, memory_bytes`) and then the bytes of the file. Standard
output is JSON lines, each flushed when it is known: one `{"document": …}` or
`{"problem": …, "needs_password": …}`, then one `{"page": n, …}` for every page. So a
parser that is killed leaves the pages it had read. Only the two PDF libraries and the standard
library are imported: the process starts quickly, and its memory limit is about the file.
"""

from __future__ import annotations

import io
import json
import logging
import math
import re
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any

import pypdf
import pypdfium2
from pypdf.errors import EmptyFileError, FileNotDecryptedError, LimitReachedError, PdfReadError

_RAISED = str.maketrans("0123456789+-−–()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻⁽⁾ⁿ")
_RAISED_RUN = re.compile(r"\s*[0-9+\-−–()n]*[0-9][0-9+\-−–()n]*\s*")
_BOLD = re.compile(r"bold|black|heavy|semibold|demi|SFBX|CMBX", re.IGNORECASE)

TOO_MUCH = "it unpacks to more than a page may"
TOO_LONG = "it took too long to read"
DAMAGED = "the PDF is damaged and some text may be missing"

Matrix = list[float]


class OutOfTime(BaseException):
    """The page took its processor time. Not an Exception, so that no library swallows it."""


class PageFull(BaseException):
    """The page gave more characters than it may."""


class _Run:
    """A stretch of text in one font at one place, in coordinates turned upright."""

    __slots__ = ("angle", "bold", "size", "text", "top", "x")

    def __init__(self, text: str, matrix: Matrix, size: float, bold: bool) -> None:
        a, b, c, d, e, f = matrix
        length = math.hypot(a, b) or 1.0
        cos, sin = a / length, b / length
        self.text, self.bold = text, bold
        self.size = abs(size) * math.hypot(c, d)
        self.x, self.top = e * cos + f * sin, e * sin - f * cos
        self.angle = round(math.degrees(math.atan2(sin, cos))) % 360


def _multiply(m: Matrix, n: Matrix) -> Matrix:
    return [
        m[0] * n[0] + m[1] * n[2],
        m[0] * n[1] + m[1] * n[3],
        m[2] * n[0] + m[3] * n[2],
        m[2] * n[1] + m[3] * n[3],
        m[4] * n[0] + m[5] * n[2] + n[4],
        m[4] * n[1] + m[5] * n[3] + n[5],
    ]


class _Collector:
    """Gathers the runs of one page as pypdf reports them, up to `most` characters."""

    def __init__(self, most: int) -> None:
        self.runs: list[_Run] = []
        self._left = most
        self._rise = self._rise_shown = 0.0

    def before_operand(self, operator: Any, operands: Any, cm: Any, tm: Any) -> None:
        """Follow the text rise (operator Ts), which pypdf's matrices leave out."""
        if operator == b"Ts" and operands and isinstance(operands[0], (int, float)):
            self._rise = float(operands[0])
        elif operator in (b"Tj", b"TJ", b"'", b'"'):
            self._rise_shown = self._rise

    def __call__(self, text: str, cm: Any, tm: Any, font: Any, size: Any) -> None:
        if not text:
            return
        try:
            risen = _multiply([1.0, 0.0, 0.0, 1.0, 0.0, self._rise_shown], [float(v) for v in tm])
            matrix = _multiply(risen, [float(v) for v in cm])
            name = str((font or {}).get("/BaseFont", ""))
            if "CMSY" in name:  # the minus sign of TeX's symbol font is its character 0
                text = text.replace("\0", "\N{MINUS SIGN}")
            run = _Run(text[: self._left], matrix, float(size), bool(_BOLD.search(name)))
        except (TypeError, ValueError, IndexError, AttributeError, OverflowError):
            run = _Run(text[: self._left], [1.0, 0.0, 0.0, 1.0, 0.0, 0.0], 0.0, False)
        self.runs.append(run)
        self._left -= len(run.text)
        if self._left <= 0:
            raise PageFull


def _lines(runs: list[_Run], box: tuple[float, float, float, float]) -> list[dict[str, Any]]:
    """The lines of a page: text, size, bold, x and the distance from the upper edge (null where not known)."""
    lines: list[dict[str, Any]] = []
    pieces: list[_Run] = []
    for run in runs:
        parts = run.text.split("\n")
        for i, part in enumerate(parts):
            if i:
                lines.append(_line(pieces, box))
                pieces = []
            if part:
                piece = _Run.__new__(_Run)
                piece.text, piece.size, piece.bold, piece.angle = part, run.size, run.bold, run.angle
                piece.x, piece.top = run.x, run.top
                pieces.append(piece)
    if pieces:
        lines.append(_line(pieces, box))
    return lines


def _line(pieces: list[_Run], box: tuple[float, float, float, float]) -> dict[str, Any]:
    solid = [p for p in pieces if p.text.strip()]
    if not solid:
        return {"text": "", "size": None, "bold": False, "x": None, "top": None}
    main = max(solid, key=lambda p: len(p.text))
    text = "".join(_raise_digits(p, main, i > 0) for i, p in enumerate(pieces))
    letters = sum(len(p.text) for p in solid)
    bold = sum(len(p.text) for p in solid if p.bold) > 0.9 * letters
    top = main.top - _upper_edge(box, main.angle)
    known = math.isfinite(main.size) and math.isfinite(top) and math.isfinite(main.x) and main.size > 0
    return {
        "text": text,
        "size": round(main.size, 2) if known else None,
        "bold": bold,
        "x": round(solid[0].x, 1) if known and math.isfinite(solid[0].x) else None,
        "top": round(top, 1) if known else None,
    }


def _raise_digits(piece: _Run, main: _Run, inside: bool) -> str:
    """Small raised numbers become superscripts, so that 10 with a raised 2 does not read 102."""
    if piece is main or not inside or not main.size:
        return piece.text
    smaller = piece.size < 0.85 * main.size
    raised = 0.15 * main.size < main.top - piece.top < 0.9 * main.size
    if smaller and raised and _RAISED_RUN.fullmatch(piece.text):
        return piece.text.translate(_RAISED)
    return piece.text


def _upper_edge(box: tuple[float, float, float, float], angle: int) -> float:
    """`top` of the page's upper edge as seen by text that runs at `angle`."""
    cos, sin = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    return min(x * sin - y * cos for x in (box[0], box[2]) for y in (box[1], box[3]))


def _box(page: pypdf.PageObject) -> tuple[float, float, float, float]:
    try:
        box = page.mediabox
        values = (float(box.left), float(box.bottom), float(box.right), float(box.top))
    except Exception:
        return 0.0, 0.0, 612.0, 792.0
    return values if all(math.isfinite(v) for v in values) else (0.0, 0.0, 612.0, 792.0)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def read_page(reader: pypdf.PdfReader, number: int, page_characters: int, page_seconds: float) -> dict[str, Any]:
    """One page as a JSON object: `page, lines, height, cut` or `page, problem`. Never raises an Exception."""
    collect = _Collector(page_characters)
    cut: str | None = None
    box = 0.0, 0.0, 612.0, 792.0
    try:
        with _time_limit(page_seconds):
            try:
                page = reader.pages[number - 1]
                box = _box(page)
                page.extract_text(visitor_text=collect, visitor_operand_before=collect.before_operand)
            except PageFull:
                cut = f"more than {page_characters:,} characters"
    except OutOfTime:
        cut = TOO_LONG
        if not collect.runs:
            return {"page": number, "problem": cut}
    except (Exception, RecursionError, MemoryError) as error:
        if not any(run.text.strip() for run in collect.runs):
            return {"page": number, "problem": plain_words(error)}
        cut = plain_words(error)
    lines = _lines(collect.runs, box)
    angles = {run.angle for run in collect.runs}
    turned = bool(angles) and angles <= {90, 270}
    height = box[2] - box[0] if turned else box[3] - box[1]
    return {"page": number, "lines": lines, "height": round(abs(height), 1), "cut": cut}


def read_page_again(data: bytes, password: str | None, number: int, page_characters: int) -> dict[str, Any] | None:
    """A page that pypdf could not read, read with pdfium, which mends more; None where that finds no text."""
    try:
        with closing(pypdfium2.PdfDocument(data, password=password)) as document:
            page = document[number - 1]
            height = page.get_height()
            text = page.get_textpage().get_text_bounded()[:page_characters]
    except Exception:
        return None
    if not text.strip():
        return None
    lines = [{"text": line} for line in text.splitlines()]
    return {"page": number, "lines": lines, "height": round(height, 1), "cut": DAMAGED}


def count_again(data: bytes, password: str | None) -> int:
    """The number of pages pdfium finds in a file that pypdf cannot open; 0 where it cannot either."""
    try:
        with closing(pypdfium2.PdfDocument(data, password=password)) as document:
            return len(document)
    except Exception:
        return 0


def plain_words(error: BaseException) -> str:
    """What went wrong, in words for the screen."""
    if isinstance(error, MemoryError):
        return "it needs more memory than it may have"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, LimitReachedError):
        return TOO_MUCH
    if isinstance(error, PdfReadError):
        return "the PDF is damaged there"
    return f"the PDF is damaged there ({type(error).__name__})"


def open_reader(data: bytes, password: str | None) -> pypdf.PdfReader | dict[str, Any]:
    """The reader, unlocked, or the JSON object that says why not."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted:
            opened = any(reader.decrypt(word) for word in dict.fromkeys(("", password or "")))
            if not opened:
                return _locked(password)
        return reader
    except FileNotDecryptedError:
        return _locked(password)
    except EmptyFileError:
        return {"problem": "is empty", "needs_password": False}
    except (Exception, RecursionError, MemoryError) as error:
        what = "is damaged and cannot be read as a PDF"
        if isinstance(error, MemoryError):
            what = "needs more memory to open than it may have"
        return {"problem": what, "needs_password": False}


def _locked(password: str | None) -> dict[str, Any]:
    what = "does not open with this password" if password else "is locked and asks for its password"
    return {"problem": what, "needs_password": True}


def _title(reader: pypdf.PdfReader) -> str | None:
    try:
        title = reader.metadata.title if reader.metadata else None
    except Exception:
        return None
    return str(title)[:1000] if title else None


def _say(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def _confine(cpu_seconds: int, memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 5))
    # A system without this limit (macOS) refuses; the limit on time still holds there.
    try:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    except (OSError, ValueError):
        sys.stderr.write("no limit on memory here\n")


def main() -> int:
    """Serve one file; the exit status is 0 when every page was told of."""
    orders = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(int(orders["bytes"]))
    _confine(int(orders["cpu_seconds"]), int(orders["memory_bytes"]))
    logging.disable(logging.CRITICAL)
    password, seconds = orders["password"], float(orders["page_seconds"])
    reader, header = _open(data, password, seconds)
    _say(header)
    if "document" not in header:
        return 0
    for number in range(int(orders["first"]), min(header["document"]["pages"], int(orders["pages"])) + 1):
        _say(_page(reader, data, password, number, int(orders["page_characters"]), seconds))
    return 0


def _open(data: bytes, password: str | None, seconds: float) -> tuple[pypdf.PdfReader | None, dict[str, Any]]:
    """A reader (None where only pdfium can open the file) and the first record to say."""
    reader: pypdf.PdfReader | None = None
    try:
        with _time_limit(seconds):
            opened = open_reader(data, password)
            if not isinstance(opened, dict):
                reader = opened
                return reader, {"document": {"pages": len(reader.pages), "title": _title(reader)}}
            problem = opened
    except OutOfTime:
        return None, {"problem": "took too long to open", "needs_password": False}
    except FileNotDecryptedError:
        return None, _locked(password)
    except (Exception, RecursionError, MemoryError):
        problem = {"problem": "is damaged and cannot be read as a PDF", "needs_password": False}
    if not problem["needs_password"]:
        count = count_again(data, password)
        if count:
            return None, {"document": {"pages": count, "title": None}}
    return None, problem


def _page(
    reader: pypdf.PdfReader | None, data: bytes, password: str | None, number: int, most: int, seconds: float
) -> dict[str, Any]:
    record: dict[str, Any] = {"page": number, "problem": "the PDF is damaged there"}
    if reader is not None:
        record = read_page(reader, number, most, seconds)
    if "problem" in record and record["problem"] not in (TOO_LONG, TOO_MUCH):
        return read_page_again(data, password, number, most) or record
    return record


if __name__ == "__main__":
    sys.exit(main())
