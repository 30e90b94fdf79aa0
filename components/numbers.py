"""Every figure a screen draws, computed from a stored turn by pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from components.callouts import Standing, among, callout, speaks_against
from components.words import count, ordinal, score, share
from provenance.records import Attribution, Candidate, Document, LengthShare, Mark, MethodKind, Quote, Source, Turn

STAGES = (("lexical", "BM25"), ("dense", "cosine"), ("fused", "fused"), ("reranked", "rerank"))
"""The retrieval stages in order, each with the name of its scale."""


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What the screen must know of a method: how to name it and how its raw score reads."""

    name: str
    label: str
    kind: MethodKind
    unit: str
    share: bool
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Where retrieval put a source. `fraction` is the score as a part of the best candidate's, for the bar."""

    rank: int | None
    score: float | None
    scale: str
    fraction: float | None
    movement: str
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Provenance:
    """What one method says of a source.

    `share` is set only for methods of which a share is a fair view, `fraction` is the length of the bar,
    `text` the figure beside it, `raw` the score with its unit, `reason` why there is none.
    """

    share: float | None
    fraction: float | None
    text: str
    raw: str
    reason: str | None = None
    against: bool = False
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """Everything on one document card."""

    source: Source
    cited_by: str | None
    retrieval: Retrieval
    provenance: Provenance
    length: LengthShare | None
    document_characters: int | None
    quoted_characters: int
    quotes: tuple[Quote, ...]
    marks: tuple[Mark, ...]
    callout: str | None

    @property
    def n(self) -> int:
        return self.source.n


def shares(scores: Sequence[float | None]) -> tuple[float | None, ...]:
    """Each score as a part of the positive total; negative ones count as zero, missing ones stay missing.

    All None where nothing positive was measured: a share of nothing is not zero.
    """
    total = sum(max(s, 0.0) for s in scores if s is not None)
    if total <= 0:
        return tuple(None for _ in scores)
    return tuple(None if s is None else max(s, 0.0) / total for s in scores)


def scale_fraction(value: float, info: MethodInfo, scores: Sequence[float | None]) -> float:
    """Where `value` stands on the method's own scale, 0..1; without fixed ends, against the largest score shown."""
    known = [s for s in scores if s is not None]
    low = info.low if info.low is not None else min(0.0, *known, 0.0)
    high = info.high if info.high is not None else max([*known, 0.0])
    if high <= low or not math.isfinite(high - low):
        return 0.0
    return min(1.0, max(0.0, (value - low) / (high - low)))


def scale_ends(info: MethodInfo, scores: Sequence[float | None]) -> tuple[float, float]:
    """The two ends of the scale strip of a method that has no shares."""
    known = [s for s in scores if s is not None]
    low = info.low if info.low is not None else min([*known, 0.0])
    high = info.high if info.high is not None else max([*known, 0.0])
    return low, high


def retrieval_of(candidate: Candidate | None, best: Mapping[str, float], n: int) -> Retrieval:
    """Rank, score and movement of one source. The score is that of the fused ranking, or of the one there is."""
    if candidate is None:
        return Retrieval(None, None, "not retrieved in this turn", None, "kept from an earlier turn", ())
    lines = []
    for name, scale in STAGES:
        stage = getattr(candidate, name)
        found = f"{ordinal(stage.rank)}, {score(stage.score)}" if stage else "not found"
        lines.append(f"{name}: {found}" if name == scale else f"{name} {scale}: {found}")
    chosen = next(((k, s) for k, s in (STAGES[2], STAGES[1], STAGES[0]) if getattr(candidate, k)), None)
    if chosen is None:
        return Retrieval(None, None, "no score", None, f"sent {ordinal(n)}", tuple(lines))
    key, scale = chosen
    stage = getattr(candidate, key)
    top = best.get(key, 0.0)
    fraction = min(1.0, max(0.0, stage.score / top)) if top > 0 else None
    movement = f"retrieved {ordinal(stage.rank)} → sent {ordinal(n)}"
    return Retrieval(stage.rank, stage.score, scale, fraction, movement, tuple(lines))


def best_scores(candidates: Sequence[Candidate]) -> dict[str, float]:
    """The highest score of each retrieval stage among the candidates."""
    best: dict[str, float] = {}
    for name, _ in STAGES:
        found = [getattr(c, name).score for c in candidates if getattr(c, name)]
        if found:
            best[name] = max(found)
    return best


def provenance_of(index: int, attribution: Attribution | None, info: MethodInfo | None, missing: str) -> Provenance:
    """The provenance of source `index + 1`; `missing` says why where the method has not run."""
    if attribution is None or info is None:
        return Provenance(None, None, "—", "not measured", missing)
    value = attribution.scores[index] if index < len(attribution.scores) else None
    note = attribution.notes[index] if index < len(attribution.notes) else None
    if value is None:
        return Provenance(None, None, "—", "not measured", attribution.reason or "not measured", note=note)
    raw = f"{score(value)} {info.unit}"
    if not info.share:
        return Provenance(
            None, scale_fraction(value, info, attribution.scores), f"{score(value)} {short_unit(info)}", raw, note=note
        )
    part = shares(attribution.scores)[index]
    if speaks_against(value):
        return Provenance(0.0 if part is not None else None, 0.0, "speaks against", raw, against=True, note=note)
    if part is None:
        return Provenance(None, 0.0, score(value), raw, "no source has a positive score", note=note)
    return Provenance(part, part, share(part), raw, note=note)


def short_unit(info: MethodInfo) -> str:
    """The unit short enough for a card: `cosine`, `of 5`."""
    if info.name == "llm" and info.high is not None:
        return f"of {info.high:g}"
    unit = info.unit.split(",")[0]
    return unit if len(unit) <= 12 else info.name


def cards(
    turn: Turn,
    attribution: Attribution | None,
    info: MethodInfo | None,
    documents: Mapping[str, Document],
    missing: str = "not measured",
) -> tuple[Card, ...]:
    """One card per source: the cited ones first, each group by provenance, then by number."""
    by_passage = {c.passage.id: c for c in turn.candidates}
    best = best_scores(turn.candidates)
    lengths = {item.n: item for item in turn.lengths}
    cited = {c.n: c.by for c in reversed(turn.citations) if c.exists}
    found = [provenance_of(i, attribution, info, missing) for i in range(len(turn.sources))]
    known = [p.share for p in found if p.share is not None]
    cited_shares = {item.n: found[item.n - 1].share for item in turn.lengths}
    made = []
    for index, source in enumerate(turn.sources):
        retrieval = retrieval_of(by_passage.get(source.passage.id), best, source.n)
        length, provenance = lengths.get(source.n), found[index]
        quotes = tuple(q for q in turn.quotes or () if q.n == source.n)
        raw = attribution.scores[index] if attribution and index < len(attribution.scores) else None
        standing = Standing(
            rank=retrieval.rank,
            sent=len(turn.sources),
            share=provenance.share,
            largest=provenance.share is not None and provenance.share == max(known),
            length=length.percentage / 100 if length else None,
            cited=len(turn.lengths),
            among_cited=among(cited_shares, source.n),
            raw=raw,
        )
        document = documents.get(source.passage.document_id)
        made.append(
            Card(
                source=source,
                cited_by=cited.get(source.n),
                retrieval=retrieval,
                provenance=provenance,
                length=length,
                document_characters=document.characters if document else None,
                quoted_characters=sum(q.end - q.start for q in quotes),
                quotes=quotes,
                marks=tuple(m for m in turn.marks if m.n == source.n),
                callout=callout(standing),
            )
        )
    return tuple(sorted(made, key=_order))


def _order(card: Card) -> tuple[bool, float, int]:
    measured = card.provenance.share if card.provenance.share is not None else card.provenance.fraction
    return card.cited_by is None, -(measured or 0.0), card.n


def length_hover(card: Card) -> str:
    """The three lengths of a source: the whole document, the passage sent, the text quoted."""
    whole = "document: not known" if card.document_characters is None else f"document {card.document_characters:,}"
    sent = card.length.length if card.length else len(card.source.text)
    return f"{whole} · passage sent {sent:,} · quoted {card.quoted_characters:,} characters"


def funnel(turn: Turn) -> tuple[int | None, int, int]:
    """Candidates looked at (None where nothing was fetched), passages sent, sources cited."""
    return len(turn.candidates) or None, len(turn.sources), len(turn.cited)


def dropped(turn: Turn) -> tuple[str, ...]:
    """What happened to the candidates that were not sent: `14 below the top 5`, `1 over the context budget`."""
    reasons: dict[str, int] = {}
    for candidate in turn.candidates:
        if candidate.sent is None:
            why = candidate.dropped or "not sent"
            reasons[why] = reasons.get(why, 0) + 1
    return tuple(f"{n} {why}" for why, n in reasons.items())


def cited_words(turn: Turn) -> str:
    """`3 cited by the model`, `2 cited by evidence`, `none cited`."""
    n = len(turn.cited)
    if not n:
        return "none cited"
    by = {c.by for c in turn.citations if c.exists}
    who = "the model and by evidence" if len(by) > 1 else "the model" if by == {"model"} else "evidence"
    return f"{n} cited by {who}"


def excerpt(text: str, marks: Sequence[Mark], width: int = 300, least: float = 0.3) -> tuple[tuple[str, bool], ...]:
    """The stretch of `text` where most of the marked weight lies, as (piece, marked) pairs.

    Marks under `least` are left out, neighbours up to two characters apart are joined, and a cut end is `…`.
    """
    spans = joined([(*whole_words(text, m.start, m.end), m.weight) for m in marks if m.weight >= least])
    start, stop = _window(len(text), spans, width)
    if start:
        start = text.rfind(" ", 0, start) + 1 if " " in text[:start] else start
    if stop < len(text):
        gap = text.find(" ", stop)
        stop = gap if 0 <= gap <= stop + 30 else stop
    pieces: list[tuple[str, bool]] = [("… ", False)] if start else []
    at = start
    for low, high, _ in spans:
        low, high = max(low, start), min(high, stop)
        if low >= high or low < at:
            continue
        if low > at:
            pieces.append((text[at:low], False))
        pieces.append((text[low:high], True))
        at = high
    if at < stop:
        pieces.append((text[at:stop], False))
    if stop < len(text):
        pieces.append((" …", False))
    return tuple(pieces)


def whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """The span grown to the words it touches, without the blanks around it: a token may end inside a word."""
    start, end = max(0, start), min(len(text), end)
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    if start >= end:
        return start, start
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return start, end


def joined(spans: Sequence[tuple[int, int, float]], gap: int = 2) -> list[tuple[int, int, float]]:
    """Sorted spans with neighbours up to `gap` characters apart made one; the weight is the largest."""
    out: list[tuple[int, int, float]] = []
    for start, stop, weight in sorted(s for s in spans if s[1] > s[0]):
        if out and start <= out[-1][1] + gap:
            last = out[-1]
            out[-1] = (last[0], max(last[1], stop), max(last[2], weight))
        else:
            out.append((start, stop, weight))
    return out


def _window(length: int, spans: Sequence[tuple[int, int, float]], width: int) -> tuple[int, int]:
    if length <= width * 1.15:
        return 0, length
    if not spans:
        return 0, width

    def held(start: int) -> float:
        return sum(w * (b - a) for a, b, w in spans if a >= start and b <= start + width)

    start = max((max(0, a - 40) for a, _, _ in spans), key=held)
    start = min(start, length - width)
    return start, start + width


def passages_in(documents: Sequence[Document]) -> str:
    """`7 files · 61 pages · 188 passages`."""
    return " · ".join(
        (
            count(len(documents), "file"),
            count(sum(d.pages for d in documents), "page"),
            count(sum(d.passages for d in documents), "passage"),
        )
    )


def pages_without_text(documents: Sequence[Document]) -> str | None:
    """`2 of 61 pages have no text`, or None where all have some."""
    pages = sum(d.pages for d in documents)
    empty = pages - sum(d.pages_with_text for d in documents)
    return f"{empty} of {count(pages, 'page')} {'has' if empty == 1 else 'have'} no text" if empty > 0 else None
