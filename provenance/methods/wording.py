"""Sentences, words, and how much of a sentence's wording a passage contains. No model is needed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from provenance.records import Span

_END = re.compile(r"(?:[.!?…]+[\"'”’»)\]]*|[。！？]+[」』”]*)(?:\s*(?:\[[\d,;\s–-]+\]|【[\d,;\s–-]+】))*")
_BREAK = re.compile(r"\s*\n\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)?")
_ABBREVIATED = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|no|nos|vs|etc|fig|figs|vol|pp|p|ch|sec|art|al|ca|cf|approx|dept|est|inc|ltd|co|corp"
    r"|gen|col|lt|sgt|capt|rev|hon|gov|sen|rep|jan|feb|mar|apr|jun|jul|aug|sept|sep|oct|nov|dec|e\.g|i\.e|a\.m|p\.m)"
    r"|\b(?:[A-Za-z]\.)+[A-Za-z]|\b[A-Z])\.$",
    re.IGNORECASE,
)
_WORD = re.compile(r"\d+(?:[.,:]\d+)*|\w+(?:['’]\w+)?", re.UNICODE)
_FUNCTION_WORDS = (
    "a about after all also am an and any are as at be because been before being between both but by can could "
    "did do does doing during each for from further had has have having he her here hers him his how i if in into "
    "is it its itself just may me more most my no nor not of on once only or other our out over own s same she "
    "should so some such t than that the their them then there these they this those through to too under until "
    "up upon very was we were what when where which while who whom why will with would you your according source "
    "sources passage passages "
)
_STOP = frozenset(_FUNCTION_WORDS.split())
_RUN = 3  # words in a row that count as copied


def split_sentences(text: str) -> tuple[Span, ...]:
    """The sentences of a text as character spans without outer white space, in order.

    A full stop inside a number, after an initial or a common abbreviation ends nothing; a
    source marker after the stop belongs to the sentence before it; a line break always ends one.
    """
    spans: list[Span] = []
    start = 0
    for line in _BREAK.finditer(text):
        spans += _sentences_of_line(text, start, line.start())
        start = line.end()
    return tuple(spans + _sentences_of_line(text, start, len(text)))


def _sentences_of_line(text: str, start: int, stop: int) -> list[Span]:
    found: list[Span] = []
    begin = start
    for match in _END.finditer(text, start, stop):
        if match.end() < stop and not _ends_here(text, begin, match, stop):
            continue
        found.append(Span(begin, match.end()))
        begin = match.end()
    if text[begin:stop].strip():
        found.append(Span(begin, stop))
    return [_trimmed(text, span) for span in found if text[span.start : span.stop].strip()]


def _ends_here(text: str, begin: int, match: re.Match[str], stop: int) -> bool:
    if match.group()[0] in "。！？":
        return True
    if not text[match.end()].isspace():
        return False
    following = text[match.end() : stop].lstrip()[:2].lstrip("\"'“‘«([")
    if following[:1].islower():
        return False
    return not (match.group() == "." and _ABBREVIATED.search(text[max(begin, match.start() - 12) : match.start() + 1]))


def _trimmed(text: str, span: Span) -> Span:
    inner = text[span.start : span.stop]
    return Span(span.start + len(inner) - len(inner.lstrip()), span.start + len(inner.rstrip()))


def words(text: str) -> list[str]:
    """The words and numbers of a text, folded so that case, plural and thousands commas do not matter."""
    return [_folded(match.group()) for match in _WORD.finditer(text)]


def word_spans(text: str) -> list[tuple[Span, str]]:
    """Where each word of a text stands, with the word folded as `words` does."""
    return [(Span(*match.span()), _folded(match.group())) for match in _WORD.finditer(text)]


def _folded(word: str) -> str:
    word = word.casefold()
    if word[0].isdigit():
        return word.replace(",", "").rstrip(".:")
    word = re.sub(r"['’]s?$|['’](?=\w{1,2}$).*", "", word)
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def content_words(text: str) -> list[str]:
    """The words of a text that carry its content: function words left out."""
    return [word for word in words(text) if word not in _STOP]


def wording_evidence(sentence: str, passages: Sequence[str], question: str = "") -> NDArray[np.float64]:
    """What each passage contains of a sentence's wording; shape (N, 4), every figure in 0..1.

    Columns: share of the content words, rarer ones counting more; share of the words that stand
    in a run of at least three that the passage has too; share of the content words that the question does
    not have already; share of the numbers (1 where the sentence has none).
    """
    sought, content = words(sentence), content_words(sentence)
    held = [words(passage) for passage in passages]
    sets = [frozenset(h) for h in held]
    asked = frozenset(words(question))
    weights = {w: math.log(1 + len(passages) / (1 + sum(w in s for s in sets))) for w in {*content}}
    fresh = [w for w in content if w not in asked] or content
    numbers = [w for w in content if w[0].isdigit()]
    result = np.zeros((len(passages), 4))
    for i, (sequence, known) in enumerate(zip(held, sets, strict=True)):
        result[i] = (
            _weighted_share(content, known, weights),
            _copied_share(sought, sequence),
            _weighted_share(fresh, known, weights),
            sum(w in known for w in numbers) / len(numbers) if numbers else 1.0,
        )
    return result


def _weighted_share(sought: Sequence[str], known: frozenset[str], weights: dict[str, float]) -> float:
    total = sum(weights[w] for w in sought)
    return sum(weights[w] for w in sought if w in known) / total if total else 0.0


def _copied_share(sought: Sequence[str], sequence: Sequence[str]) -> float:
    size = min(_RUN, len(sought))
    if not size:
        return 0.0
    runs = {tuple(sequence[i : i + size]) for i in range(len(sequence) - size + 1)}
    copied: set[int] = set()
    for i in range(len(sought) - size + 1):
        if tuple(sought[i : i + size]) in runs:
            copied.update(range(i, i + size))
    return len(copied) / len(sought)


def near_duplicates(passages: Sequence[str], least: float = 0.6) -> tuple[tuple[int, ...], ...]:
    """For each passage the indices of the others that say nearly the same.

    Two passages do where at least `least` of the three-word runs of the shorter stand in the longer.
    """
    runs = [_runs(words(passage)) for passage in passages]
    found: list[tuple[int, ...]] = []
    for i, own in enumerate(runs):
        alike = []
        for j, other in enumerate(runs):
            shorter = min(len(own), len(other))
            if i != j and shorter and len(own & other) / shorter >= least:
                alike.append(j)
        found.append(tuple(alike))
    return tuple(found)


def _runs(sequence: Sequence[str]) -> set[tuple[str, ...]]:
    size = min(_RUN, len(sequence))
    return {tuple(sequence[i : i + size]) for i in range(len(sequence) - size + 1)} if size else set()
