"""Draws one PDF page with passages marked, in a process of its own: `python -m provenance.ingest.picture`.

Standard input is one JSON line of orders (`bytes, page, highlights, password, scale, cpu_seconds,
memory_bytes`) and then the bytes of the file; standard output is one JSON line and then the PNG.
pdfium is not safe under threads and a hostile file may take it down, so it runs alone.
"""

from __future__ import annotations

import ctypes
import io
import json
import math
import resource
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from difflib import SequenceMatcher
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image, ImageChops, ImageDraw

MARKER = (255, 226, 92)
"""The colour laid over marked words; multiplied with the page, so dark text stays dark."""

NOT_FOUND = "The passage could not be located on the picture of this page."
_MOST_PIXELS = 24_000_000
_LEAST_PIECE = 12  # letters; shorter matches happen by chance
_LEAST_FOUND = 0.5  # of the passage's letters

Rect = tuple[float, float, float, float]


class Glyph(NamedTuple):
    """One printed character: its box in pixels (left, top, right, bottom) and whether its line runs vertically."""

    box: Rect
    vertical: bool


def letters(text: str) -> Iterator[str]:
    """The letters and digits of a text in their plainest form: what survives any way of extracting it.

    White space, hyphens, punctuation and accents are left out, ligatures and superscripts taken
    apart, case folded.
    """
    for char in unicodedata.normalize("NFKD", text).casefold():
        if char.isalnum():
            yield char


def locate(page: str, passage: str) -> list[tuple[int, int]]:
    """Where the letters of a passage stand in the letters of a page, as half-open ranges; empty where not found.

    Whole first; else sentence by sentence, in any order (columns, a header in between);
    else the longest common stretches. Less than half of the letters found is not found.
    """
    whole = "".join(letters(passage))
    if not whole or not page:
        return []
    at = page.find(whole)
    if at >= 0:
        return [(at, at + len(whole))]
    found: list[tuple[int, int]] = []
    rest: list[str] = []
    after = 0
    for piece in _pieces(passage):
        at = page.find(piece, after)
        at = page.find(piece) if at < 0 else at
        if at >= 0 and len(piece) >= _LEAST_PIECE:
            found.append((at, at + len(piece)))
            after = at + len(piece)
        elif at < 0:
            rest.append(piece)
    for piece in rest:
        blocks = SequenceMatcher(None, page, piece, autojunk=False).get_matching_blocks()
        good = [(b.a, b.a + b.size) for b in blocks if b.size >= _LEAST_PIECE]
        if sum(stop - start for start, stop in good) >= _LEAST_FOUND * len(piece):
            found += good
    if sum(stop - start for start, stop in found) < _LEAST_FOUND * len(whole):
        return []
    return found


def _pieces(passage: str) -> Iterator[str]:
    for line in passage.replace("?", ".").replace("!", ".").replace("\n", ".").split(". "):
        for part in line.split("."):
            piece = "".join(letters(part))
            if piece:
                yield piece


def merge(glyphs: Sequence[Glyph]) -> list[Rect]:
    """One rectangle per stretch of a line, in the order of the glyphs."""
    boxes: list[Rect] = []
    vertical = False
    for glyph in glyphs:
        if boxes and glyph.vertical == vertical and _continues(boxes[-1], glyph):
            last, new = boxes[-1], glyph.box
            boxes[-1] = min(last[0], new[0]), min(last[1], new[1]), max(last[2], new[2]), max(last[3], new[3])
        else:
            boxes.append(glyph.box)
            vertical = glyph.vertical
    return boxes


def _continues(box: Rect, glyph: Glyph) -> bool:
    along, across = (1, 0) if glyph.vertical else (0, 1)
    new = glyph.box
    height = min(box[across + 2] - box[across], new[across + 2] - new[across])
    overlap = min(box[across + 2], new[across + 2]) - max(box[across], new[across])
    gap = max(new[along] - box[along + 2], box[along] - new[along + 2])
    return overlap > 0.4 * height and gap < 2.5 * max(height, 1.0)


def _glyphs(page: Any, text: Any, width: int, height: int) -> Iterator[tuple[str, Glyph]]:
    """Every letter of the page with its glyph, in pdfium's reading order."""
    turned = math.radians(page.get_rotation())
    for i in range(text.count_chars()):
        plain = list(letters(_character(pdfium.FPDFText_GetUnicode(text, i))))
        if not plain:
            continue
        try:
            left, bottom, right, top = text.get_charbox(i, loose=True)
        except pypdfium2.PdfiumError:
            continue
        corners = [_to_pixels(page, width, height, x, y) for x, y in ((left, bottom), (right, top))]
        xs, ys = sorted(c[0] for c in corners), sorted(c[1] for c in corners)
        angle = pdfium.FPDFText_GetCharAngle(text, i) + turned
        glyph = Glyph((xs[0], ys[0], xs[1], ys[1]), abs(math.sin(angle)) > 0.7)
        for char in plain:
            yield char, glyph


def _character(code: int) -> str:
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else ""


def _to_pixels(page: Any, width: int, height: int, x: float, y: float) -> tuple[float, float]:
    # pdfium answers in whole pixels, so ask on a finer grid.
    fine = 16
    px, py = ctypes.c_int(), ctypes.c_int()
    pdfium.FPDF_PageToDevice(page, 0, 0, width * fine, height * fine, 0, x, y, px, py)
    return px.value / fine, py.value / fine


def draw(
    data: bytes, number: int, highlights: Sequence[str], password: str | None, scale: float
) -> tuple[Image.Image, list[Rect], str | None]:
    """The picture of page `number` (from 1), the marked boxes in pixels, and why there are none."""
    with closing(pypdfium2.PdfDocument(data, password=password)) as document:
        if not 1 <= number <= len(document):
            raise IndexError(number)
        page = document[number - 1]
        area = max(1.0, page.get_width() * page.get_height())
        scale = min(scale, math.sqrt(_MOST_PIXELS / area))
        image = page.render(scale=scale).to_pil().convert("RGB")
        if not highlights:
            return image, [], None
        boxes, reason = _mark(page, image.size, highlights)
    if boxes:
        layer = Image.new("RGB", image.size, (255, 255, 255))
        brush = ImageDraw.Draw(layer)
        for left, top, right, bottom in boxes:
            brush.rectangle((left - 1, top, right + 1, bottom), fill=MARKER)
        image = ImageChops.multiply(image, layer)
    return image, boxes, reason


def _mark(page: Any, size: tuple[int, int], highlights: Sequence[str]) -> tuple[list[Rect], str | None]:
    with closing(page.get_textpage()) as text:
        pairs = list(_glyphs(page, text, *size))
    if not pairs:
        return [], "There is no text on this page, so nothing can be marked."
    boxes: list[Rect] = []
    for highlight in highlights:
        boxes += _boxes(pairs, highlight) or _boxes(_last_line_first(pairs), highlight)
    return boxes, None if boxes else NOT_FOUND


def _boxes(pairs: Sequence[tuple[str, Glyph]], highlight: str) -> list[Rect]:
    printed = "".join(char for char, _ in pairs)
    return [
        box for start, stop in locate(printed, highlight) for box in merge([glyph for _, glyph in pairs[start:stop]])
    ]


def _last_line_first(pairs: Sequence[tuple[str, Glyph]]) -> list[tuple[str, Glyph]]:
    """The letters with their lines in the opposite order: pdfium reads a page turned by 90° from its last line up."""
    lines: list[list[tuple[str, Glyph]]] = []
    for char, glyph in pairs:
        if not (lines and _continues(lines[-1][-1][1].box, glyph)):
            lines.append([])
        lines[-1].append((char, glyph))
    return [pair for line in reversed(lines) for pair in line]


def main() -> int:
    """Serve one picture."""
    orders = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(int(orders["bytes"]))
    seconds = int(orders["cpu_seconds"])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    try:
        resource.setrlimit(resource.RLIMIT_AS, (int(orders["memory_bytes"]),) * 2)
    except (OSError, ValueError):
        sys.stderr.write("no limit on memory here\n")
    out = io.BytesIO()
    try:
        image, boxes, reason = draw(
            data, int(orders["page"]), orders["highlights"], orders["password"], float(orders["scale"])
        )
        image.save(out, "PNG")
        record: dict[str, Any] = {"width": image.width, "height": image.height, "boxes": boxes, "reason": reason}
    except IndexError:
        record = {"problem": "The document has no such page."}
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        record = {
            "problem": "The PDF asks for its password." if locked else "This page cannot be drawn: it is damaged."
        }
    except MemoryError:
        record = {"problem": "This page cannot be drawn: it needs more memory than it may have."}
    sys.stdout.buffer.write(json.dumps(record).encode("ascii") + b"\n" + out.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
