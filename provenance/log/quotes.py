"""Every quoted span of an answer, checked against the passages it cites and then the whole corpus."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from provenance.log.match import Match, elided, find, match, split, whole
from provenance.records import Citation, Document, Passage, Quote, Source, Span, Verdict
from provenance.store import Store
from provenance.store.words import words

_PAIRS = {"“": "”", "„": "“”", "«": "»", "»": "«", "‘": "’", "‚": "‘’", "‹": "›", '"': '"', "'": "'", "「": "」"}
_SENTENCE_END = re.compile(r"[.!?]['\"”’»)]*(?:\s|$)|\n")
_CITE_MARK = re.compile(r"\s*[\[【(][^\]】)]{0,40}[\]】)]")
_SHOWN = 4


@dataclass(frozen=True, slots=True)
class _Place:
    """A text that a quote is compared with."""

    text: str
    passage: Passage
    n: int | None

    @property
    def where(self) -> str:
        return f"{self.passage.title}, page {self.passage.page}"


def find_quotes(answer: str) -> list[Span]:
    """The text between each pair of quotation marks, without the marks, by where it starts.

    Straight, curly, low and angle marks; a quote inside a quote is a span of its own.
    An apostrophe opens and closes nothing, and a mark without its partner is no quote.
    """
    spans: list[Span] = []
    open_marks: list[tuple[str, int]] = []
    for at, mark in enumerate(answer):
        if mark == "\n" and answer[at + 1 : at + 2] == "\n":
            open_marks.clear()  # no quote runs over a paragraph's end
        if mark not in _ALL_MARKS or _is_apostrophe(answer, at):
            continue
        closes = next((i for i in range(len(open_marks) - 1, -1, -1) if mark in _PAIRS[open_marks[i][0]]), None)
        if closes is not None and _may_close(answer, at):
            start = open_marks[closes][1] + 1
            inner = answer[start:at]
            if words(inner):
                spans.append(Span(start + len(inner) - len(inner.lstrip()), start + len(inner.rstrip())))
            del open_marks[closes:]
        elif mark in _PAIRS and _may_open(answer, at):
            open_marks.append((mark, at))
    return sorted(spans, key=lambda span: (span.start, -span.stop))


_ALL_MARKS = frozenset(_PAIRS) | frozenset("".join(_PAIRS.values()))


def check_quotes(
    answer: str, citations: Sequence[Citation], sources: Sequence[Source], store: Store | None
) -> tuple[Quote, ...]:
    """One `Quote` per quoted span of the answer; an empty tuple where it quotes nothing.

    A quote is compared with the passages cited beside it (those its sentence cites, else all that
    the answer cites, else all that were sent), then with the other sources, then with the corpus:
    phrase search first, exact comparison after. Without a store only the sources are compared.
    """
    spans = find_quotes(answer)
    checked: list[Quote] = []
    cited: list[tuple[int, ...]] = []
    for i, span in enumerate(spans):
        following = next((s.start for s in spans[i + 1 :] if s.start >= span.stop), len(answer))
        cited.append(_cited(answer, span, following, citations, sources))
        quote = Quote(answer[span.start : span.stop], span.start, span.stop, "not found")
        checked.append(_in_sources(quote, cited[-1], sources))
    missing = {quote.text for quote in checked if quote.verdict == "not found"}
    if not missing:
        return tuple(checked)
    if store is None:
        return tuple(replace(q, reason="Compared with the sources only.") if q.text in missing else q for q in checked)
    held, blind = _lookup(missing, store), store.pages_without_text()
    return tuple(
        _in_corpus(quote, beside, sources, held[quote.text], blind) if quote.verdict == "not found" else quote
        for quote, beside in zip(checked, cited, strict=True)
    )


def locate(text: str, store: Store) -> list[tuple[Passage, Match]]:
    """The passages of the corpus that hold a text, whole or elided; the closest first, then by passage id."""
    return _closest(text, _lookup([text], store)[text])


def _lookup(texts: Iterable[str], store: Store) -> dict[str, list[Passage]]:
    """The passages that hold the words of each text, those that hold its very characters first."""
    return store.find_phrases({text: split(text) for text in texts})


def _closest(text: str, passages: Sequence[Passage]) -> list[tuple[Passage, Match]]:
    exact = [passage for passage in passages if find(text, passage.text) is not None]
    found = [(p, m) for p in exact or passages if (m := whole(text, p.text))]
    if not found:
        found = [(p, m) for p in passages if (m := elided(text, p.text))]
    return sorted(found, key=lambda item: (item[1].kind != "exact", len(item[1].normalised), item[0].id))


def _in_sources(quote: Quote, cited: Sequence[int], sources: Sequence[Source]) -> Quote:
    """The verdict by the sources alone, those cited beside the quote first; as it came where none holds it."""
    ordered = sorted(sources, key=lambda source: (source.n not in cited, source.n))
    for near in (True, False):
        places = [_Place(s.passage.text, s.passage, s.n) for s in ordered if (s.n in cited) is near]
        best = _best(quote.text, places)
        if best:
            return _found(quote, *best, cited_passage=near)
    return quote


def _in_corpus(
    quote: Quote,
    cited: Sequence[int],
    sources: Sequence[Source],
    passages: Sequence[Passage],
    blind: Sequence[tuple[Document, int]],
) -> Quote:
    """The verdict on a quote that no source holds. `passages` hold its words, `blind` are the pages without text."""
    hits = _closest(quote.text, passages)
    if hits:
        numbers = {source.passage.id: source.n for source in sources}
        (passage, how), others = hits[0], len(hits) - 1
        place = _Place(passage.text, passage, numbers.get(passage.id))
        found = _found(quote, place, how, cited_passage=False)
        return replace(found, reason=_joined(found.reason, f"and in {others} more passages" if others else None))
    beside = {source.passage.document_id for source in sources if source.n in cited}
    of_cited = [(document.title, page) for document, page in blind if document.id in beside]
    if of_cited:
        pages = _listed([f"{title}, page {page}" for title, page in of_cited])
        return replace(quote, verdict="cannot check", reason=f"Not in any text, but these pages have none: {pages}.")
    near = _differs_in_case(quote.text, [*(source.passage for source in sources), *passages])
    if near:
        return replace(quote, reason=f"Only capital letters differ from {near}.")
    if blind:
        return replace(quote, reason=f"{len(blind)} pages of other documents have no text and could not be searched.")
    return quote


def _best(text: str, places: Iterable[_Place]) -> tuple[_Place, Match] | None:
    order = {"exact": 0, "normalised": 1, "elided": 2}
    found = [(place, m) for place in places if (m := match(text, place.text))]
    return min(found, key=lambda item: order[item[1].kind], default=None)


def _found(quote: Quote, place: _Place, how: Match, *, cited_passage: bool) -> Quote:
    verdict: Verdict = how.kind if cited_passage else "elsewhere"
    note = how.note
    if not cited_passage:
        manner = {"exact": "word for word", "normalised": "after normalising", "elided": "with words left out"}[
            how.kind
        ]
        note = _joined(f"Not in the cited passages; {manner} in {place.where}", note)
    return replace(
        quote,
        verdict=verdict,
        passage_id=place.passage.id,
        n=place.n,
        where=place.where,
        normalised=how.normalised,
        omitted=how.omitted,
        reason=note,
    )


def _differs_in_case(text: str, passages: Iterable[Passage]) -> str | None:
    for passage in passages:
        if match(text.casefold(), passage.text.casefold()):
            return f"{passage.title}, page {passage.page}"
    return None


def _cited(
    answer: str, span: Span, following: int, citations: Sequence[Citation], sources: Sequence[Source]
) -> tuple[int, ...]:
    """The numbers of the sources a quote is to be compared with first."""
    real = [c for c in citations if c.exists]
    end = _sentence_end(answer, span.stop)
    beside = {c.n for c in real if span.stop <= c.start <= min(end, following)}
    if not beside:
        start = _sentence_start(answer, span.start)
        beside = {c.n for c in real if start <= c.start <= end}
    return tuple(sorted(beside or {c.n for c in real} or {source.n for source in sources}))


def _sentence_end(answer: str, at: int) -> int:
    """Where the sentence around a position ends, with the citation marks that follow its full stop."""
    # A full stop inside the closing mark ends the sentence too.
    inside = at > 0 and answer[at - 1] in ".!?" and not answer[at + 1 : at + 3].strip().islower()
    found = None if inside else _SENTENCE_END.search(answer, at)
    end = at + 1 if inside else found.end() if found else len(answer)
    while mark := _CITE_MARK.match(answer, end):
        end = mark.end()
    return end


def _sentence_start(answer: str, at: int) -> int:
    ends = [found.end() for found in _SENTENCE_END.finditer(answer, 0, at)]
    return ends[-1] if ends else 0


def _is_apostrophe(answer: str, at: int) -> bool:
    if answer[at] not in "'’‘":
        return False
    before, after = answer[at - 1 : at], answer[at + 1 : at + 2]
    if before.isalnum() and after.isalnum():
        return True
    # '90s and ’tis: nothing that could close follows where it would open.
    return not before.isalnum() and answer[at] in "'’" and after.isdigit() and answer[at + 2 : at + 4].endswith("s")


def _may_open(answer: str, at: int) -> bool:
    before, after = answer[at - 1 : at], answer[at + 1 : at + 2]
    if answer[at] == '"' and before.isdigit():
        return False  # inches
    return (not before.isalnum() and bool(after) and not after.isspace()) or (answer[at] in "«„“»" and bool(after))


def _may_close(answer: str, at: int) -> bool:
    before, after = answer[at - 1 : at], answer[at + 1 : at + 2]
    if answer[at] in "'’":
        return not after.isalnum() and not before.isspace()
    return answer[at] in "»«”“" or not after.isalnum()


def _listed(names: Sequence[str]) -> str:
    shown = "; ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _joined(*parts: str | None) -> str | None:
    kept = [part for part in parts if part]
    return "; ".join(kept) if kept else None
