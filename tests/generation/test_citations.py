import pytest
from hypothesis import given
from hypothesis import strategies as st

from provenance.generation.citations import parse_citations


def numbers(text: str, known: tuple[int, ...] = (1, 2, 3, 4, 5)) -> list[int]:
    return [c.n for c in parse_citations(text, known)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It closes at six [1].", [1]),
        ("Both say so [1, 3].", [1, 3]),
        ("Both say so [1,3].", [1, 3]),
        ("Both say so [1; 3].", [1, 3]),
        ("All three [1-3].", [1, 2, 3]),
        ("All three [1–3].", [1, 2, 3]),
        ("Mixed [1, 3-5].", [1, 3, 4, 5]),
        ("In lenticular brackets 【2】.", [2]),
        ("Two in a row [1][2].", [1, 2]),
        ("Spaces [ 1 ].", [1]),
        ("Once each [1, 1].", [1]),
        ("After a word[2].", [2]),
        ("A year in parentheses [1] (2020).", [1]),
        ("A falling range [3-1].", [3, 1]),
    ],
)
def test_each_form_of_the_grammar_is_a_citation(text: str, expected: list[int]) -> None:
    assert numbers(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Superscript [²] and circled [①].",
        "Arabic-Indic [١] and full-width [１].",
        "Inline `list[1]` code.",
        "``a ` [1]`` double ticks.",
        "```\nprint([1])\n```",
        "~~~\n[1]\n~~~\nafter",
        "```\nnever closed [1]",
        "A link [1](http://x.test/).",
        "An image ![1](http://x.test/i.png).",
        "A link [see [1] there](http://x.test/a(b)).",
        "A reference [the report][1].",
        "An image reference ![chart][1].",
        "[1]: http://x.test/",
        "An address http://x.test/?a=[1]",
        "Words [one] or [a1] or [] or [1a] or [-].",
    ],
)
def test_what_only_looks_like_a_citation_is_none(text: str) -> None:
    assert numbers(text) == []


def test_a_number_that_does_not_exist_is_kept_and_marked() -> None:
    found = parse_citations("So [2] and [7] and [0].", (1, 2))
    assert [(c.n, c.exists) for c in found] == [(2, True), (7, False), (0, False)]


def test_a_citation_knows_its_place_in_the_text() -> None:
    text = "It closes [1, 2] early 【3】."
    assert [text[c.start : c.end] for c in parse_citations(text, (1, 2, 3))] == ["[1, 2]", "[1, 2]", "【3】"]


def test_a_huge_range_mentions_only_its_ends() -> None:
    assert numbers("[1-999999]") == [1, 999999]


def test_code_beside_a_citation_does_not_hide_it() -> None:
    assert numbers("Call `f[1]` as told [2], then `g`.") == [2]


@given(st.text(alphabet="[]【】(),-–; 123`!\nab:", max_size=60))
def test_any_text_parses_and_places_lie_in_it(text: str) -> None:
    for citation in parse_citations(text, (1, 2, 3)):
        assert 0 <= citation.start < citation.end <= len(text)
        assert citation.exists == (citation.n in (1, 2, 3))
