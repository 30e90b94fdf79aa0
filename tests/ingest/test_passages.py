import itertools
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from provenance.ingest.layout import LaidPage, Line, RawPage, lay_out
from provenance.ingest.limits import Limits
from provenance.ingest.passages import cut, heading_words, sentences
from provenance.ingest.plain import markdown_pages
from provenance.records import Passage

Count = Callable[[str], int]


def words(text: str) -> int:
    return len(text.split())


def cut_text(
    text: str, count: Count = words, limits: Limits | None = None
) -> tuple[tuple[LaidPage, ...], tuple[Passage, ...]]:
    limits = limits or Limits()
    pages = markdown_pages(text, limits)
    return pages, cut(pages, "d" * 64, "Title", count, limits)


def said(text: str) -> list[str]:
    return [text[a:b] for a, b in sentences(text, 0, len(text))]


def test_sentences_end_at_full_stops_but_not_at_abbreviations_initials_or_decimals() -> None:
    text = "Dr. Moss paid 3.50 to J. Pell, i.e. Bob. He left! Did he? “Yes.” It is 5 p.m. now."
    assert said(text) == [
        "Dr. Moss paid 3.50 to J. Pell, i.e. Bob.",
        "He left!",
        "Did he?",
        "“Yes.”",
        "It is 5 p.m. now.",
    ]


def test_sentences_of_scripts_without_spaces_end_too() -> None:
    assert said("船が出る。海は静か。") == ["船が出る。", "海は静か。"]


def test_a_passage_begins_at_every_heading_and_knows_it() -> None:
    _, passages = cut_text("# One\n\nFirst text.\n\n## Two\n\nSecond text.")
    assert [(p.heading, p.text) for p in passages] == [
        ("One", "# One\n\nFirst text."),
        ("Two", "## Two\n\nSecond text."),
    ]


def test_a_heading_carries_over_to_the_next_page() -> None:
    _, passages = cut_text("# One\n\nFirst.\fSecond page.")
    assert [(p.page, p.heading) for p in passages] == [(1, "One"), (2, "One")]


def test_a_long_section_is_cut_evenly_at_sentences(count_tokens: Count) -> None:
    text = " ".join(f"The boat number {i} left the harbour with {i * 3} people on board." for i in range(60))
    _, passages = cut_text(text, count_tokens)
    sizes = [count_tokens(p.text) for p in passages]
    assert len(sizes) > 3
    assert max(sizes) <= 240
    assert min(sizes) > 100
    assert all(p.text.endswith(".") and p.text.startswith("The boat") for p in passages)


@pytest.mark.parametrize("text", ["word " * 3000, "x" * 20000, "漢" * 3000])
def test_a_sentence_that_is_too_long_is_cut_hard(text: str, count_tokens: Count) -> None:
    pages, passages = cut_text(text, count_tokens)
    assert all(count_tokens(p.text) <= 240 for p in passages)
    assert "".join("".join(p.text.split()) for p in passages) == "".join(pages[0].text.split())


@given(st.lists(st.text(alphabet="ab .!?\n#-\t漢é\u2028\x00", max_size=80), max_size=12))
@settings(max_examples=150, deadline=None)
def test_passages_are_slices_of_their_page_and_cover_every_printed_character(parts: list[str]) -> None:
    limits = Limits(passage_tokens=6, max_passage_tokens=9)
    raw = (RawPage(1, tuple(Line(text) for part in parts for text in part.split("\n"))),)
    for pages in (lay_out(raw), markdown_pages("\n".join(parts), limits)):
        passages = cut(pages, "d" * 64, "T", words, limits)
        page = pages[0]
        covered = "".join(page.text[p.start : p.end] for p in passages)
        assert "".join(covered.split()) == "".join(page.text.split())
        assert all(p.text == page.text[p.start : p.end] and p.text.strip() for p in passages)
        assert all(a.end <= b.start for a, b in itertools.pairwise(passages))
        assert all(words(p.text) <= 9 for p in passages)
        assert len({p.id for p in passages}) == len(passages)


@pytest.mark.parametrize(
    ("line", "heading"), [("## Fares ##", "Fares"), ("Fares\n=====", "Fares"), ("# **Big**", "Big")]
)
def test_a_heading_is_told_without_its_marks(line: str, heading: str) -> None:
    assert heading_words(line) == heading
