"""One grammar for source numbers in an answer.

`[1]`, `[1, 3]`, `[1-3]`, `[1–3]` and `【2】` are citations. Bracketed numbers inside code, links and
images are not, and neither are numbers in other scripts or forms (`[²]`, `[①]`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from provenance.records import Citation, Source, Span

_ITEM = r"[0-9]{1,6}(?:\s*[-–—]\s*[0-9]{1,6})?"
_LIST = rf"\s*{_ITEM}(?:\s*[,;]\s*{_ITEM})*\s*"
_CITATION = re.compile(rf"\[(?P<square>{_LIST})\]|【(?P<lens>{_LIST})】")
_RANGE = re.compile(r"([0-9]+)\s*[-–—]\s*([0-9]+)|([0-9]+)")

# Stretches whose brackets mean something else. Order matters: code first, since
# nothing inside code is a link.
_FENCE = re.compile(r"^(?P<f>`{3,}|~{3,})[^\n]*\n.*?(?:^(?P=f)[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<!`)(?P<t>`+)(?!`).+?(?<!`)(?P=t)(?!`)", re.DOTALL)
_TEXT = r"\[(?:[^\[\]\n]|\[[^\[\]\n]*\])*\]"
_LINK = re.compile(rf"!?{_TEXT}\([^()\n]*(?:\([^()\n]*\)[^()\n]*)*\)")
_REFERENCE = re.compile(r"!\[[^\[\]\n]*\]\[[^\[\]\n]*\]|\[(?![\s\d,;\-–—]*\])[^\[\]\n]+\]\[[^\[\]\n]*\]")
_DEFINITION = re.compile(r"^ {0,3}\[[^\[\]\n]+\]:[ \t]*\S+.*$", re.MULTILINE)
_AUTOLINK = re.compile(r"<[a-z][a-z0-9+.-]*:[^<>\s]*>|\bhttps?://\S+", re.IGNORECASE)

_LONGEST_RANGE = 100


def parse_citations(text: str, sources: Collection[Source | int]) -> tuple[Citation, ...]:
    """Every mention of a source number in `text`, in reading order.

    `sources` is the frozen map of the prompt: its Source records or just their
    numbers. A list or range gives one Citation per number, all with the bracket's
    place. A number that is not among the sources has `exists == False`. A range is expanded
    up to 100 numbers; of a longer or a falling one only the two ends are mentions.
    """
    known = {s if isinstance(s, int) else s.n for s in sources}
    blocked = _blocked(text)
    found: list[Citation] = []
    for match in _CITATION.finditer(text):
        if any(match.start() < span.stop and match.end() > span.start for span in blocked):
            continue
        for n in _numbers(match["square"] or match["lens"]):
            found.append(Citation(n, match.start(), match.end(), "model", n in known))
    return tuple(found)


def _numbers(body: str) -> list[int]:
    numbers: dict[int, None] = {}
    for low, high, single in _RANGE.findall(body):
        if single:
            numbers[int(single)] = None
        elif 0 <= int(high) - int(low) < _LONGEST_RANGE:
            numbers.update(dict.fromkeys(range(int(low), int(high) + 1)))
        else:
            numbers.update({int(low): None, int(high): None})
    return list(numbers)


def _blocked(text: str) -> list[Span]:
    """The stretches of code, links, images and link definitions."""
    spans: list[Span] = []

    def add(matches: Iterable[re.Match[str]]) -> None:
        for match in matches:
            if not any(match.start() < s.stop and match.end() > s.start for s in spans):
                spans.append(Span(match.start(), match.end()))

    for pattern in (_FENCE, _CODE, _DEFINITION, _LINK, _REFERENCE, _AUTOLINK):
        add(pattern.finditer(text))
    return spans
