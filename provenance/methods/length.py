"""Length share: how much of the cited text came from each source. Volume, not importance."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence

from provenance.records import LengthShare, Source

_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][A-Za-z0-9-]*(?:\s+[^<>]*)?/?>", re.DOTALL)
_IMAGE_OR_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n]*$\n?", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={3,})$\n?", re.MULTILINE)
_TABLE_RULE = re.compile(r"^[ \t]*\|?(?:[ \t]*:?-{3,}:?[ \t]*\|)+(?:[ \t]*:?-{3,}:?[ \t]*)?$\n?", re.MULTILINE)
_TABLE_ROW = re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+)", re.MULTILINE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,3}|~~)(?=\S)(.+?)(?<=\S)\1(?![\w*])", re.DOTALL)
_UNDERLINE = re.compile(r"(?<!\w)(_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)", re.DOTALL)
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)


def length_shares(lengths: Sequence[int]) -> list[float]:
    """The share of each length in their sum, in percent: `round(100 · length / Σ length, 2)`.

    The total may read 99.99 or 100.01. Where all lengths are 0 every share is 0.0; no
    lengths give an empty list. Raises ValueError for a negative length.
    """
    if any(length < 0 for length in lengths):
        raise ValueError("A length cannot be negative.")
    total = sum(lengths)
    return [round(100 * length / total, 2) if total else 0.0 for length in lengths]


def visible_text(text: str) -> str:
    """The text without the layout markup of Markdown and HTML; words between the marks stay."""
    text = _TAG.sub("", text)
    for pattern in (_FENCE, _TABLE_RULE, _RULE):
        text = pattern.sub("", text)
    text = _TABLE_ROW.sub(lambda m: " ".join(cell.strip() for cell in m[1].split("|")), text)
    text = _LINE_MARK.sub("", text)
    text = _IMAGE_OR_LINK.sub(r"\1", text)
    text = _CODE.sub(r"\2", text)
    for pattern in (_EMPHASIS, _UNDERLINE):
        text = pattern.sub(r"\2", text)
    return html.unescape(text)


def cited_lengths(sources: Sequence[Source], cited: Collection[int]) -> tuple[LengthShare, ...]:
    """The length share of every cited source, by number. An uncited source has none.

    Measured is the passage as sent, markup removed. How often a source is cited does not matter.
    """
    chosen = [source for source in sources if source.n in cited]
    lengths = [len(visible_text(source.text)) for source in chosen]
    return tuple(
        LengthShare(source.n, length, share)
        for source, length, share in zip(chosen, lengths, length_shares(lengths), strict=True)
    )
