"""Text and Markdown files: bytes to text, text to pages."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from provenance.ingest.fold import SOFT_HYPHEN, fold
from provenance.ingest.layout import Block, LaidPage, Line, RawPage
from provenance.ingest.limits import Limits

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_ATX = re.compile(r"^ {0,3}#{1,6}(?:\s+\S.*|)$")
_SETEXT = re.compile(r"^ {0,3}(?:=+|-{2,})\s*$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")


def decode(data: bytes) -> str:
    """The text of a file. Byte order marks decide; else UTF-8, UTF-16 without a mark, Windows-1252, Latin-1."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    unmarked = _unmarked_utf16(data)
    if unmarked:
        return data.decode(unmarked, errors="replace")
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _unmarked_utf16(data: bytes) -> str | None:
    """UTF-16 of mostly Latin text shows as zeros at every second byte."""
    head = data[:4000]
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > 0.3 * len(head) and even < 0.05 * len(head):
        return "utf-16-le"
    if even > 0.3 * len(head) and odd < 0.05 * len(head):
        return "utf-16-be"
    return None


def looks_binary(data: bytes) -> bool:
    """Whether the bytes are no text: many control characters, and no byte order mark that explains them."""
    if any(data.startswith(mark) for mark, _ in _MARKS) or _unmarked_utf16(data):
        return False
    head = data[:8000]
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x0b\x1b" for byte in head)
    return controls > 0.05 * len(head)


def text_pages(text: str, limits: Limits) -> tuple[RawPage, ...]:
    """Pages at form feeds, not cleaned yet; long pages are cut into several at a paragraph."""
    pages: list[RawPage] = []
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    parts = text.split("\f")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    for part in parts:
        for piece in _pieces(part, limits.page_characters):
            lines = tuple(Line(line) for line in piece.expandtabs(4).split("\n"))
            pages.append(RawPage(len(pages) + 1, lines))
    return tuple(pages)


def _pieces(text: str, most: int) -> Iterator[str]:
    """The text in pieces of at most `most` characters, cut at a paragraph, a line or wherever need be."""
    while len(text) > most:
        at = max(text.rfind("\n\n", most // 2, most), 0) or max(text.rfind("\n", most // 2, most), 0) or most
        yield text[:at]
        text = text[at:].lstrip("\n")
    yield text


def markdown_pages(text: str, limits: Limits) -> tuple[LaidPage, ...]:
    """The text as it stands (characters folded, lines kept), with blocks at blank lines and headings."""
    pages: list[LaidPage] = []
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    parts = text.split("\f")
    if len(parts) > 1 and not parts[-1].strip():
        parts.pop()
    for part in parts:
        for piece in _pieces(part, limits.page_characters):
            folded, removed = fold(piece)
            folded = folded.replace(SOFT_HYPHEN, "").strip("\n")
            pages.append(LaidPage(len(pages) + 1, folded, tuple(_markdown_blocks(folded)), removed))
    return tuple(pages)


def _markdown_blocks(text: str) -> Iterator[Block]:
    start: int | None = None
    stop = 0
    fence: str | None = None
    at = 0
    for line in text.split("\n"):
        begin, end = at, at + len(line)
        at = end + 1
        mark = _FENCE.match(line)
        if fence is None and mark:
            fence = mark.group(1)
        elif fence is not None and mark and mark.group(1).startswith(fence):
            fence, mark = None, mark
        inside = fence is not None or mark is not None
        if not line.strip() and not inside:
            if start is not None:
                yield Block(start, stop, False)
            start = None
            continue
        if not inside and _ATX.match(line):
            if start is not None:
                yield Block(start, stop, False)
            start = None
            yield Block(begin, end, True)
            continue
        if not inside and start is not None and "\n" not in text[start:stop] and _SETEXT.match(line):
            yield Block(start, end, True)
            start = None
            continue
        if start is None:
            start = begin
        stop = end
    if start is not None:
        yield Block(start, stop, False)
