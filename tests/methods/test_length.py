import pytest

from provenance.generation.prompt import pasted_passages
from provenance.methods.length import cited_lengths, length_shares, visible_text
from provenance.records import Source


def sources(*texts: str) -> list[Source]:
    passages = pasted_passages([(None, text) for text in texts])
    return [Source(n, passage, passage.text) for n, passage in enumerate(passages, start=1)]


def test_the_worked_example_gives_its_three_percentages() -> None:
    assert length_shares([9588, 4845, 1741]) == [59.28, 29.96, 10.76]


def test_no_lengths_give_no_shares_and_a_total_of_zero_is_no_division() -> None:
    assert length_shares([]) == []
    assert length_shares([0, 0]) == [0.0, 0.0]


def test_a_negative_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="negative"):
        length_shares([3, -1])


def test_an_uncited_source_has_no_length_share() -> None:
    shares = cited_lengths(sources("a" * 30, "b" * 10, "c" * 60), {1, 2})
    assert [(s.n, s.length, s.percentage) for s in shares] == [(1, 30, 75.0), (2, 10, 25.0)]


def test_ten_sent_and_three_cited_give_three_percentages() -> None:
    assert len(cited_lengths(sources(*["word"] * 10), [2, 5, 9])) == 3


def test_the_number_of_mentions_does_not_change_the_share() -> None:
    some = sources("a" * 30, "b" * 10)
    assert cited_lengths(some, [1, 1, 1, 2]) == cited_lengths(some, [1, 2])


@pytest.mark.parametrize(
    ("marked", "plain"),
    [
        ("# Heading", "Heading"),
        ("**bold** and *thin* and ~~gone~~", "bold and thin and gone"),
        ('a [link](http://x.test/a(b) "title") here', "a link here"),
        ("![alt](http://x.test/i.png)", "alt"),
        ("- one\n- two", "one\ntwo"),
        ("> said", "said"),
        ("`code`", "code"),
        ("<p class='x'>Hello <b>there</b></p><!-- no -->", "Hello there"),
        ("Fish &amp; chips", "Fish & chips"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a b\n1 2"),
        ("one\n---\ntwo", "one\ntwo"),
    ],
)
def test_layout_markup_is_not_counted(marked: str, plain: str) -> None:
    assert visible_text(marked) == plain


@pytest.mark.parametrize(
    "text",
    [
        "5 * 3 * 2 = 30",
        "a < b and c > d",
        "snake_case_name and __init__x",
        "9:00-17:00",
        "-5 % of 3",
        "C# and #1",
        "[1] only",
    ],
)
def test_plain_text_is_left_as_it_is(text: str) -> None:
    assert visible_text(text) == text
