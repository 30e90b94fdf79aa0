"""Words broken at line ends: mended where the hyphen came from the break, kept where it is part of the word."""

from __future__ import annotations

import re
from collections.abc import Iterable

from provenance.ingest.fold import SOFT_HYPHEN

_TAIL = re.compile(r"([^\W\d_]+(?:-[^\W\d_]+)*|\w+)([-\u2010\u2011\u00ad])$")
_HEAD = re.compile(r"^[^\W_]+(?:-[^\W_]+)*")
_HYPHENATED = re.compile(r"[^\W_]+(?:[-\u2010\u2011][^\W_]+)+")
_WORD = re.compile(r"[^\W_]+")
# First halves that English nearly always writes with a hyphen.
_TRUE_STARTS = (
    "well self non ex all half cross quasi ever low high long short full part mid semi one two three "
    "four five six seven eight nine ten twenty thirty forty fifty sixty seventy eighty ninety first "
    "second third last best better ill so hard soft old new year month week day end up off on in by "
    "to of and the"
)
_JOINS_WITH_HYPHEN = frozenset(_TRUE_STARTS.split(" "))
_SUSPENDED = frozenset({"and", "or", "und", "oder", "to", "et", "ou"})


class Hyphens:
    """Knows the words of one document, so that `well-` / `known` can be told from `docu-` / `ment`."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._hyphenated: set[str] = set()
        self._words: set[str] = set()
        for line in lines:
            inner = line.rstrip("-\u2010\u2011\u00ad")
            self._hyphenated.update(_plain(w) for w in _HYPHENATED.findall(inner))
            self._words.update(w.lower() for w in _WORD.findall(inner))

    def glue(self, before: str, after: str) -> str | None:
        """The two lines as one where a word runs across the break; None where none does."""
        tail, head = _TAIL.search(before), _HEAD.match(after)
        if tail is None or head is None:
            return None
        left, mark = tail.group(1), tail.group(2)
        right = head.group()
        if mark == SOFT_HYPHEN:
            return before[:-1] + after
        if right.lower() in _SUSPENDED:
            return f"{before} {after}"
        return before + after if self._is_true(left, right) else before[:-1] + after

    def _is_true(self, left: str, right: str) -> bool:
        joined, hyphenated = (left + right).lower(), f"{left}-{right}".lower()
        last = left.rsplit("-", 1)[-1].lower()
        first = right.split("-", 1)[0]
        if hyphenated in self._hyphenated or f"{last}-{first.lower()}" in self._hyphenated:
            return True
        if joined in self._words or (last + first.lower()) in self._words:
            return False
        if not first[0].islower() or not last.isalpha():
            return True
        return last in _JOINS_WITH_HYPHEN


def _plain(word: str) -> str:
    return re.sub("[\u2010\u2011]", "-", word).lower()
