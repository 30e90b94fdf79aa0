import pytest

from provenance.ingest.picture import Glyph, letters, locate, merge


def plain(text: str) -> str:
    return "".join(letters(text))


def test_both_sides_fold_to_the_same_letters() -> None:
    assert plain("The O\ufb03ce, 10² well-known caf\u00e9s") == plain("the of-\nfice 102 wellknown cafés")


def test_a_passage_is_located_whole() -> None:
    page = plain("Before. The boat sails at nine. After.")
    ((start, stop),) = locate(page, "The boat\nsails at nine.")
    assert page[start:stop] == plain("The boat sails at nine.")


def test_a_passage_with_something_in_between_is_located_in_pieces() -> None:
    page = plain("The first sentence is here. PAGE HEADER The second sentence is there.")
    found = locate(page, "The first sentence is here. The second sentence is there.")
    assert [page[a:b] for a, b in found] == [plain("The first sentence is here"), plain("The second sentence is there")]


@pytest.mark.parametrize("passage", ["Nothing of this stands on the page at all.", "", "—…"])
def test_what_is_not_there_is_not_found(passage: str) -> None:
    assert locate(plain("The boat sails at nine from the old quay."), passage) == []


def test_glyphs_of_one_line_merge_and_lines_stay_apart() -> None:
    first = [Glyph((x, 0, x + 5, 10), False) for x in (0, 5, 15)]
    second = [Glyph((x, 14, x + 5, 24), False) for x in (0, 5)]
    assert merge([*first, *second]) == [(0, 0, 20, 10), (0, 14, 10, 24)]


def test_glyphs_of_a_vertical_line_merge() -> None:
    assert merge([Glyph((0, y, 10, y + 5), True) for y in (20, 15, 5)]) == [(0, 5, 10, 25)]
