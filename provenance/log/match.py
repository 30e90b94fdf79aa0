"""Comparing one quote with one text: exact, normalised or elided; signs, numbers, case and words never change."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from provenance.store.words import STEPS, has_hyphenated_line_end, normalise, words

CLOSING = "closing punctuation"
"""A comma or full stop that stands before the closing mark though the source goes on, as English typesetting has it."""

_ELLIPSIS = re.compile(r"\s*(?:\[\s*(?:…|\.\s?\.\s?\.)\s*\]|\(\s*(?:…|\.\.\.)\s*\)|…|\.\s?\.\s?\.)\s*")
_CLOSING = re.compile(r"[.,;:]+\s*$")
_HYPHEN_END = re.compile(r"([-‐\u00ad])[ \t]*\r?\n[ \t]*(?=[^\W\d_])")
_SIGNS = "+-−–—‑±~<>≤≥"
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|nor|neither|without|cannot|nicht|kein\w*|nie|non)\b|\b\w+n['’]t\b", re.I
)
_BEFORE = re.compile(r"(?:(?P<word>[\w'’]+)|(?P<sign>[<>≤≥±~+−–-]))\s+$")


@dataclass(frozen=True, slots=True)
class Match:
    """How a quote stands in a text: `normalised` names what was needed, `omitted` what an ellipsis left out."""

    kind: Literal["exact", "normalised", "elided"]
    normalised: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    note: str | None = None


def match(quote: str, text: str) -> Match | None:
    """The closest way in which the text holds the quote, or None."""
    return whole(quote, text) or elided(quote, text)


def whole(quote: str, text: str) -> Match | None:
    """The quote as one run of the text: letter for letter, or after as little normalising as it takes."""
    if (at := find(quote, text)) is not None:
        return Match("exact", note=_just_before(text, at))
    for closing in (False, True):
        candidate = _CLOSING.sub("", quote) if closing else quote
        if closing and candidate == quote:
            break
        steps = _needed(candidate, text)
        if steps is not None:
            form = normalise(text, steps)
            note = _just_before(form, find(normalise(candidate, steps), form) or 0)
            return Match("normalised", (*steps, CLOSING) if closing else steps, note=note)
    return None


def elided(quote: str, text: str) -> Match | None:
    """The quote's segments around its ellipses, in order in the text; with the words left out between them."""
    segments = [normalise(part) for part in split(quote)]
    if not has_ellipsis(quote) or not segments:
        return None
    form = normalise(text)
    omitted: list[str] = []
    at, end = 0, -1
    for i, segment in enumerate(segments):
        found = find(segment, form, at)
        if found is None and i == len(segments) - 1:
            segment = _CLOSING.sub("", segment)
            found = find(segment, form, at)
        if found is None:
            return None
        if i and (gap := form[end:found].strip()):
            omitted.append(gap)
        at = end = found + len(segment)
    lost = sorted({found.group().lower() for gap in omitted for found in _NEGATION.finditer(gap)})
    return Match("elided", (), tuple(omitted), f"The words left out hold “{'”, “'.join(lost)}”." if lost else None)


def find(quote: str, text: str, start: int = 0) -> int | None:
    """Where a quote stands in a text without cutting a word or a number, or None.

    “5 %” does not stand in “-5 %”, “2.5 %” or “15 %”, nor “approve” in “disapprove”.
    """
    if not quote.strip():
        return None
    at = text.find(quote, start)
    while at >= 0:
        if not _cuts_before(quote, text, at) and not _cuts_after(quote, text, at + len(quote)):
            return at
        at = text.find(quote, at + 1)
    return None


def split(quote: str) -> list[str]:
    """The segments of a quote between its ellipses that hold a word."""
    return [part for part in _ELLIPSIS.split(quote) if words(part)]


def has_ellipsis(quote: str) -> bool:
    """Whether the quote leaves something out by its own account."""
    return _ELLIPSIS.search(quote) is not None


def _needed(quote: str, text: str) -> tuple[str, ...] | None:
    """The fewest steps after which the text holds the quote: each of them is dropped that is not needed."""
    if find(normalise(quote), normalise(text)) is None:
        if not _HYPHEN_END.search(text) and not has_hyphenated_line_end(quote):
            return None
        # A hyphen at the end of a line may belong to the word.
        return _pruned(quote, text, [step for step in STEPS if step != "hyphenated line ends"], "hyphen")
    return _pruned(quote, text, list(STEPS), None)


def _pruned(quote: str, text: str, steps: Sequence[str], form: str | None) -> tuple[str, ...] | None:
    if form == "hyphen":
        text = _HYPHEN_END.sub(r"\1", text)
    if find(normalise(quote, steps), normalise(text, steps)) is None:
        return None
    for step in STEPS:
        fewer = [other for other in steps if other != step]
        if len(fewer) < len(steps) and find(normalise(quote, fewer), normalise(text, fewer)) is not None:
            steps = fewer
    return (*steps, "hyphenated line ends") if form == "hyphen" else tuple(steps)


def _cuts_before(quote: str, text: str, at: int) -> bool:
    if at == 0:
        return False
    first, before = quote[0], text[at - 1]
    if _is_word(first) and _is_word(before):
        return True
    if first.isdigit():
        if before in _SIGNS:
            return True
        # The tail of 2.5 or 1,000.
        if before in ".,'’" and at > 1 and text[at - 2].isdigit():
            return True
    return False


def _cuts_after(quote: str, text: str, end: int) -> bool:
    if end >= len(text):
        return False
    last, after = quote[-1], text[end]
    if _is_word(last) and _is_word(after):
        return True
    return last.isdigit() and after in ".,'’" and text[end + 1 : end + 2].isdigit()


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _just_before(text: str, at: int) -> str | None:
    """A note where the text negates the quote, or gives its number a sign, right before it."""
    found = _BEFORE.search(text[max(0, at - 24) : at])
    if not found:
        return None
    word, sign = found.group("word"), found.group("sign")
    if (word and _NEGATION.fullmatch(word)) or (sign and text[at].isdigit()):
        return f"The text says “{word or sign}” just before this."
    return None
