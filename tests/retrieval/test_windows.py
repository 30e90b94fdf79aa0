"""Windows over a long text."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.retrieval.windows import window_spans


def offsets(text: str) -> list[tuple[int, int]]:
    """Tokens of at most three characters, so that long words are cut."""
    return [m.span() for m in re.finditer(r"\S{1,3}", text)]


def test_a_text_that_fits_is_one_window() -> None:
    text = "  one two three "
    assert window_spans(text, offsets(text), 10, 2) == [(0, len(text))]


def test_an_empty_text_is_one_empty_window() -> None:
    assert window_spans("", [], 10, 2) == [(0, 0)]


@given(st.text(alphabet="ab \n", max_size=300), st.integers(2, 12), st.data())
def test_windows_cover_every_token_and_are_never_longer_than_asked(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    tokens = offsets(text)
    spans = window_spans(text, tokens, size, overlap)
    for start, stop in tokens:
        assert any(s <= start and stop <= e for s, e in spans)
    assert all(sum(s <= a and b <= e for a, b in tokens) <= size for s, e in spans)


def test_windows_overlap_and_begin_at_words() -> None:
    text = " ".join(f"word{i}" for i in range(60))
    spans = window_spans(text, offsets(text), 30, 8)
    assert len(spans) > 3
    assert all(start == 0 or text[start - 1] == " " for start, _ in spans)
    assert all(after[0] < before[1] for before, after in itertools.pairwise(spans))


@pytest.mark.parametrize(("size", "overlap"), [(4, 4), (4, 5), (4, -1)])
def test_an_overlap_that_cannot_advance_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap"):
        window_spans("text", [(0, 4)], size, overlap)
