"""Lines of pages to page text: running headers dropped, wrapped lines joined, headings found."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from provenance.ingest.fold import SOFT_HYPHEN, fold
from provenance.ingest.hyphens import Hyphens


@dataclass(frozen=True, slots=True)
class Line:
    """One line as extracted. Points; `top` counts down from the upper edge. None where the place is not known.

    `cells` is the number of table cells that were put together in it.
    """

    text: str
    size: float | None = None
    bold: bool = False
    x: float | None = None
    top: float | None = None
    cells: int = 1


@dataclass(frozen=True, slots=True)
class RawPage:
    """One page before cleaning. `problem` says why it could not be read, `cut` why it is not whole."""

    number: int
    lines: tuple[Line, ...]
    height: float | None = None
    problem: str | None = None
    cut: str | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph or a heading at `[start, stop)` of the page text."""

    start: int
    stop: int
    heading: bool


@dataclass(frozen=True, slots=True)
class LaidPage:
    """A page's cleaned text with its blocks in order; every printed character lies in one block."""

    number: int
    text: str
    blocks: tuple[Block, ...]
    removed: int = 0


_END = re.compile(r"[.!?:;。！？؟…][\"'”’»)\]]*$")
_SENTENCE_END = re.compile(r"[.!?。！？؟…][\"'”’»)\]]*$")
_BULLET = re.compile(r"^\s*(?:[•◦▪‣●○■□–—*·\-]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)])\s+\S")
_PAGE_OF = re.compile(r"^(?:page|p\.|seite|página)?\s*\d+\s*(?:of|/|von|de)\s*\d+$|^page\s+\d+$", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_EDGE_LINES = 4
_MARGIN = 0.13  # of the page's height
_SPACES = re.compile(r"[^\S\n]+")
_RULE = re.compile(r"^[=\-_~*]{3,}$")


def lay_out(pages: Sequence[RawPage]) -> tuple[LaidPage, ...]:
    """Clean every page of one document, whose pages together tell what repeats and how lines wrap."""
    clean, removed = [], []
    for page in pages:
        folded = [fold(line.text) for line in page.lines]
        lines = [
            replace(line, text=_SPACES.sub(" ", text).strip())
            for line, (text, _) in zip(page.lines, folded, strict=True)
        ]
        clean.append(replace(page, lines=tuple(_rows(list(_split_lines(lines))))))
        removed.append(sum(count for _, count in folded))
    clean = _without_running_lines(clean)
    hyphens = Hyphens(line.text for page in clean for line in page.lines)
    body = _body_size(clean)
    return tuple(_lay_out_page(page, body, hyphens, count) for page, count in zip(clean, removed, strict=True))


def _split_lines(lines: Sequence[Line]) -> Iterator[Line]:
    for line in lines:
        if "\n" not in line.text:
            yield line
        else:
            yield from (replace(line, text=part.strip()) for part in line.text.split("\n"))


def _rows(lines: Sequence[Line]) -> Iterator[Line]:
    """Put the cells of a table row, which come as lines of their own, on one line."""
    row: Line | None = None
    cell_x = 0.0
    for line in lines:
        same = (
            row is not None
            and row.top is not None
            and line.top is not None
            and line.x is not None
            and bool(row.text and line.text)
            and abs(row.top - line.top) < 1.5
            and line.x > cell_x
        )
        if same and row is not None:
            row = replace(row, text=f"{row.text} {line.text}", bold=row.bold and line.bold, cells=row.cells + 1)
        else:
            if row is not None:
                yield row
            row = line
        cell_x = line.x if line.x is not None else 0.0
    if row is not None:
        yield row


# Running headers and footers


def _variants(text: str, page: int) -> set[str]:
    """The line as it stands, and with each number that could be the page number written as its offset."""
    plain = " ".join(text.lower().split())
    found = {plain}
    for match in _NUMBER.finditer(plain):
        if len(match.group()) <= 5:
            found.add(f"{plain[: match.start()]}\0{int(match.group()) - page}\0{plain[match.end() :]}")
    return found


def _edge(page: RawPage) -> list[int]:
    """Indices of the lines that could be a header or footer: the outermost few in reading order or in the margins."""
    filled = [i for i, line in enumerate(page.lines) if line.text]
    chosen = set(filled[:_EDGE_LINES] + filled[-_EDGE_LINES:])
    if page.height:
        margin = _MARGIN * page.height
        tops = {i: line.top for i, line in enumerate(page.lines) if line.text and line.top is not None}
        for i, top in tops.items():
            if top < margin or top > page.height - margin:
                chosen.add(i)
        chosen = {i for i in chosen if i not in tops or tops[i] < margin or tops[i] > page.height - margin}
    return sorted(i for i in chosen if len(page.lines[i].text) <= 150)


def _without_running_lines(pages: Sequence[RawPage]) -> list[RawPage]:
    seen: dict[tuple[str, int | None], set[int]] = defaultdict(set)
    keys: dict[tuple[int, int], list[tuple[str, int | None]]] = {}
    full = [page for page in pages if any(line.text for line in page.lines)]
    for page in full:
        for i in _edge(page):
            line = page.lines[i]
            place = None if line.top is None else round(line.top / 6)
            found = [(variant, place) for variant in _variants(line.text, page.number)]
            keys[page.number, i] = found
            for key in found:
                seen[key].add(page.number)

    def often(key: tuple[str, int | None]) -> bool:
        text, place = key
        near = (
            seen[key]
            if place is None
            else seen[key] | seen.get((text, place - 1), set()) | seen.get((text, place + 1), set())
        )
        if place is not None:
            return len(near) >= (3 if len(full) > 5 else 2)
        return len(near) >= max(3, math.ceil(len(full) / 2))

    result = []
    for page in pages:
        kept = tuple(
            line
            for i, line in enumerate(page.lines)
            if (page.number, i) not in keys
            or not (any(often(key) for key in keys[page.number, i]) or _lone_page_number(line, page))
        )
        # A page with nothing else on it keeps what repeats: then it may well be the text.
        result.append(replace(page, lines=kept) if any(line.text for line in kept) else page)
    return result


def _lone_page_number(line: Line, page: RawPage) -> bool:
    if _PAGE_OF.match(line.text):
        return True
    in_foot = line.top is not None and page.height is not None and line.top > (1 - _MARGIN) * page.height
    return in_foot and line.text.strip("–—- ") == str(page.number)


# Paragraphs and headings


def _body_size(pages: Sequence[RawPage]) -> float | None:
    weight: Counter[float] = Counter()
    for page in pages:
        for line in page.lines:
            if line.size is not None:
                weight[round(line.size, 1)] += len(line.text)
    return weight.most_common(1)[0][0] if weight else None


def _lay_out_page(page: RawPage, body: float | None, hyphens: Hyphens, removed: int) -> LaidPage:
    text = ""
    blocks: list[Block] = []
    for lines, heading in _group(page, body):
        block = _join(lines, hyphens, _width(page)) if not heading else " ".join(line.text for line in lines)
        if not block:
            continue
        if text:
            text += "\n\n"
        blocks.append(Block(len(text), len(text) + len(block), heading))
        text += block
    return LaidPage(page.number, text, tuple(blocks), removed)


def _width(page: RawPage) -> int:
    """The usual number of characters of a full line."""
    lengths = sorted(len(line.text) for line in page.lines if line.text)
    return lengths[int(0.85 * (len(lengths) - 1))] if lengths else 0


def _group(page: RawPage, body: float | None) -> Iterator[tuple[list[Line], bool]]:
    """Runs of lines that make one paragraph (False) or one heading (True)."""
    width, leading, margin = _width(page), _leading(page), _left_margin(page)
    lines = page.lines
    group: list[Line] = []
    heading = False
    gap = True
    for i, line in enumerate(lines):
        if not line.text:
            gap = True
            continue
        before = group[-1] if group else None
        following = next((other for other in lines[i + 1 :] if other.text), None)
        blank_after = i + 1 == len(lines) or not lines[i + 1].text
        starts = gap or before is None or _breaks(before, line, width, leading, margin)
        is_heading = _is_heading(line, following, body, starts, gap, blank_after, leading, width)
        same_heading = heading and is_heading and not gap and before is not None and _alike(before, line)
        if group and (starts or is_heading != heading) and not same_heading:
            yield group, heading
            group = []
        if _RULE.match(line.text) and not group:
            gap = True
            continue
        group.append(line)
        heading, gap = is_heading, False
    if group:
        yield group, heading


def _alike(a: Line, b: Line) -> bool:
    return a.size == b.size and a.bold == b.bold


def _leading(page: RawPage) -> float | None:
    """The usual distance between two lines of a paragraph, in points."""
    tops = [line.top for line in page.lines if line.text and line.top is not None]
    steps = [round(b - a, 1) for a, b in itertools.pairwise(tops) if 2 < b - a < 60]
    return statistics.median_low(steps) if len(steps) >= 3 else None


def _left_margin(page: RawPage) -> float | None:
    starts = Counter(round(line.x) for line in page.lines if line.text and line.x is not None)
    return float(starts.most_common(1)[0][0]) if starts else None


def _breaks(before: Line, line: Line, width: int, leading: float | None, margin: float | None) -> bool:
    """Whether a new paragraph begins with `line`."""
    if before.size and line.size and abs(before.size - line.size) > 0.12 * max(before.size, line.size):
        return True
    if before.bold != line.bold and (before.bold or len(before.text) < 0.7 * width):
        return True
    if _BULLET.match(line.text) and not _wraps(before, line, width):
        return True
    if leading and before.top is not None and line.top is not None and line.top - before.top > 1.35 * leading:
        return True
    ended = bool(_SENTENCE_END.search(before.text))
    if ended and before.x is not None and line.x is not None and margin is not None:
        indent = line.x - before.x
        if 5 < indent < 45 and abs(before.x - margin) < 3:
            return True
    return ended and len(before.text) < 0.75 * width and not _wraps(before, line, width)


def _wraps(before: Line, line: Line, width: int) -> bool:
    """Whether the next word would not have fitted on the line before: then the break is a wrap."""
    return len(before.text) + 1 + len(line.text.split(" ", 1)[0]) > 0.92 * width


def _is_heading(
    line: Line,
    following: Line | None,
    body: float | None,
    starts: bool,
    gap: bool,
    blank_after: bool,
    leading: float | None,
    width: int,
) -> bool:
    text = line.text
    if line.cells > 1 or len(text) > 120 or not any(c.isalpha() for c in text) or text[-1] in ",;":
        return False
    if line.size is not None and body is not None:
        if line.size >= 1.12 * body:
            return True
        distinct = line.bold and following is not None and not following.bold
        return distinct and starts and len(text) <= 90 and not text.endswith(".")
    if following is not None and _RULE.match(following.text):
        return len(text) <= 90
    if not (gap and blank_after) or following is None or len(text) > 70 or _END.search(text):
        return False
    return (text[0].isupper() or text[0].isdigit()) and len(text.split()) <= 10 and not _BULLET.match(text[:1] + " x")


def _join(lines: Sequence[Line], hyphens: Hyphens, width: int) -> str:
    """The paragraph's text: wraps become spaces, broken words are mended, lines that were meant stay lines."""
    text = lines[0].text
    for before, line in itertools.pairwise(lines):
        glue = hyphens.glue(text, line.text)
        if glue is not None:
            text = glue
        elif _BULLET.match(line.text) or not (_wraps(before, line, width) or len(before.text) > 0.6 * width):
            text = f"{text}\n{line.text}"
        else:
            text = f"{text} {line.text}"
    return text.replace(SOFT_HYPHEN, "")
