import pytest

from provenance.ingest.hyphens import Hyphens


@pytest.mark.parametrize(
    ("words", "before", "after", "joined"),
    [
        ("", "the docu-", "ment is", "the document is"),
        ("", "a well-", "known boat", "a well-known boat"),
        ("the ship-owner", "a ship-", "owner", "a ship-owner"),
        ("shipowner", "a ship-", "owner", "a shipowner"),
        ("", "in 2019-", "2020", "in 2019-2020"),
        ("", "the Anglo-", "Saxon", "the Anglo-Saxon"),
        ("", "pre-", "and post-war", "pre- and post-war"),
        ("", "soft\u00ad", "ened", "softened"),
    ],
)
def test_a_word_across_a_line_end_is_mended(words: str, before: str, after: str, joined: str) -> None:
    assert Hyphens([words]).glue(before, after) == joined


@pytest.mark.parametrize(("before", "after"), [("an aside -", "like this"), ("no hyphen", "here"), ("minus -", "5")])
def test_a_dash_is_not_a_broken_word(before: str, after: str) -> None:
    assert Hyphens([]).glue(before, after) is None
