"""Page text to passages of about 180 tokens, cut at headings, paragraphs and sentences."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from provenance.ingest.layout import Block, LaidPage
from provenance.ingest.limits import Limits
from provenance.records import Passage, Span

Count = Callable[[str], int]

_BREAK = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+[」』”’]*|\n")
_ABBREVIATION = re.compile(
    r"\b(?:mr|mrs|ms|dr|prof|st|no|nos|art|figs?|eq|vol|pp?|approx|ca|cf|vs|etc|incl|eds?|jr|sr|inc|ltd|co|"
    r"jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|bzw|nr|abs|sec|ch|e\.g|i\.e|z\.b|d\.h|a\.m|p\.m|u\.s|u\.k)\.$",
    re.IGNORECASE,
)
_INITIAL = re.compile(r"(?:^|[\s.(])[A-Z]\.$")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A stretch that is not cut further, with its size and whether a paragraph ends there."""

    start: int
    stop: int
    tokens: int
    ends_paragraph: bool


def sentences(text: str, start: int, stop: int) -> Iterator[Span]:
    """Sentence spans inside `text[start:stop]`, without the white space between them."""
    begin = start
    for match in _BREAK.finditer(text, start, stop):
        end = match.end()
        if match.group() != "\n" and not _ends_sentence(text, begin, end, stop):
            continue
        span = _trim(text, begin, end)
        if span is not None:
            yield span
        begin = end
    span = _trim(text, begin, stop)
    if span is not None:
        yield span


def _ends_sentence(text: str, begin: int, end: int, stop: int) -> bool:
    said = text[begin:end]
    follows = text[end:stop].lstrip()[:1]
    if follows.islower():
        return False
    return not (_INITIAL.search(said) or _ABBREVIATION.search(said))


def _trim(text: str, start: int, stop: int) -> Span | None:
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    return Span(start, stop) if start < stop else None


def cut(pages: Sequence[LaidPage], document_id: str, title: str, count: Count, limits: Limits) -> tuple[Passage, ...]:
    """The passages of a document in reading order. Every printed character of a page is in exactly one of them."""
    heading: str | None = None
    passages: list[Passage] = []
    for page in pages:
        for span, above in _cut_page(page, heading, count, limits):
            heading = above
            passages.append(
                Passage(
                    id=f"{document_id[:16]}:{page.number}:{span.start}",
                    document_id=document_id,
                    title=title,
                    page=page.number,
                    start=span.start,
                    end=span.stop,
                    text=page.text[span.start : span.stop],
                    heading=above,
                )
            )
    return tuple(passages)


def _cut_page(page: LaidPage, heading: str | None, count: Count, limits: Limits) -> Iterator[tuple[Span, str | None]]:
    for blocks in _sections(page.blocks):
        titles = [page.text[b.start : b.stop] for b in blocks if b.heading]
        heading = heading_words(titles[-1]) if titles else heading
        for span in _fill(page.text, blocks, count, limits):
            yield span, heading


def heading_words(line: str) -> str:
    """A heading without its marks: `## Fares ##` is `Fares`."""
    first = line.split("\n", 1)[0] if not line.lstrip().startswith("#") else line
    return re.sub(r"^\s{0,3}#{1,6}\s+|\s+#+\s*$", "", first).strip().strip("*_").strip() or line.strip()


def _sections(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Runs of blocks that begin with their headings; headings without text between them stay together."""
    section: list[Block] = []
    for block in blocks:
        if block.heading and section and not all(b.heading for b in section):
            yield section
            section = []
        section.append(block)
    if section:
        yield section


def _fill(text: str, blocks: Sequence[Block], count: Count, limits: Limits) -> Iterator[Span]:
    """Cut one section into passages of even size near the aim, best at the end of a paragraph."""
    units = [unit for block in blocks for unit in _units(text, block, count, limits.max_passage_tokens)]
    total = sum(unit.tokens for unit in units)
    if total <= min(1.2 * limits.passage_tokens, limits.max_passage_tokens):
        goal = float(limits.max_passage_tokens)
    else:
        goal = total / math.ceil(total / limits.passage_tokens)
    group: list[_Unit] = []
    for unit in units:
        size = sum(u.tokens for u in group)
        full = size + unit.tokens > limits.max_passage_tokens
        reached = size + unit.tokens / 2 > goal
        near_end = bool(group) and group[-1].ends_paragraph and size > 0.75 * goal
        if group and (full or reached or (near_end and size + unit.tokens > 0.9 * goal)):
            yield from _within(text, group, count, limits.max_passage_tokens)
            group = []
        group.append(unit)
    if group:
        yield from _within(text, group, count, limits.max_passage_tokens)


def _within(text: str, group: list[_Unit], count: Count, most: int) -> Iterator[Span]:
    """The span of a group; cut again where the tokens of the whole are more than those of its parts."""
    span = Span(group[0].start, group[-1].stop)
    if count(text[span.start : span.stop]) <= most:
        yield span
    elif len(group) == 1:
        yield from _hard_cut(text, span, count, most)
    else:
        half = len(group) // 2
        yield from _within(text, group[:half], count, most)
        yield from _within(text, group[half:], count, most)


def _units(text: str, block: Block, count: Count, most: int) -> Iterator[_Unit]:
    spans = [Span(block.start, block.stop)] if block.heading else list(sentences(text, block.start, block.stop))
    for i, span in enumerate(spans):
        size = count(text[span.start : span.stop])
        ends = i == len(spans) - 1 and not block.heading
        if size <= most:
            yield _Unit(span.start, span.stop, size, ends)
            continue
        pieces = list(_hard_cut(text, span, count, most))
        for j, piece in enumerate(pieces):
            size = count(text[piece.start : piece.stop])
            yield _Unit(piece.start, piece.stop, size, ends and j == len(pieces) - 1)


def _hard_cut(text: str, span: Span, count: Count, most: int) -> Iterator[Span]:
    """Halve a span at the white space nearest its middle until each piece fits."""
    if count(text[span.start : span.stop]) <= most or span.stop - span.start < 2:
        yield span
        return
    middle = (span.start + span.stop) // 2
    left, right = text.rfind(" ", span.start + 1, middle), text.find(" ", middle, span.stop - 1)
    choices = [at for at in (left, right) if at > 0]
    at = min(choices, key=lambda a: abs(a - middle)) if choices else middle
    for part in (_trim(text, span.start, at), _trim(text, at, span.stop)):
        if part is not None:
            yield from _hard_cut(text, part, count, most)
