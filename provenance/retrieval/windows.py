"""Cut a long text into overlapping windows that a model can read whole."""

from __future__ import annotations

from collections.abc import Sequence

from provenance.records import Span


def window_spans(text: str, offsets: Sequence[tuple[int, int]], size: int, overlap: int) -> list[Span]:
    """Character spans of windows of at most `size` tokens that cover the text.

    `offsets` are the character offsets of the text's tokens, without special tokens.
    Windows overlap by about `overlap` tokens and begin at a word where one is near,
    so that a fact is not cut in two at a border. A text that fits is one window.
    Raises ValueError unless `0 <= overlap < size`.
    """
    if not 0 <= overlap < size:
        raise ValueError(f"overlap must be in 0..{size - 1}, not {overlap}")
    if len(offsets) <= size:
        return [Span(0, len(text))]
    spans, first = [], 0
    while True:
        last = min(first + size, len(offsets))
        if last < len(offsets):
            last = _word_start(text, offsets, last, lowest=first + size // 2)
        spans.append(Span(offsets[first][0], offsets[last - 1][1]))
        if last == len(offsets):
            return spans
        first = _word_start(text, offsets, max(last - overlap, first + 1), lowest=first + 1)


def _word_start(text: str, offsets: Sequence[tuple[int, int]], index: int, lowest: int) -> int:
    """The nearest token at or before `index` that begins a word, or `index` where none is at or after `lowest`."""
    for candidate in range(index, lowest - 1, -1):
        start = offsets[candidate][0]
        if start == 0 or text[start - 1].isspace():
            return candidate
    return index
