import io
from collections.abc import Callable

import pytest
from PIL import Image
from reportlab.lib.pagesizes import A4
from reportlab.lib.pdfencrypt import StandardEncryption

from provenance.errors import ProvenanceError
from provenance.ingest import ingest_bytes
from provenance.ingest.render import RenderedPage, render_page

Make = Callable[..., bytes]
LEFT = ["The morning boat to Saltby", "leaves the quay at seven and", "comes back before noon."]
RIGHT = ["The evening boat to Oskary", "waits for the train and then", "sails into the dark."]


def yellow(page: RenderedPage) -> set[tuple[int, int]]:
    """The marked pixels."""
    image = Image.open(io.BytesIO(page.png)).convert("RGB")
    assert image.size == (page.width, page.height)
    pixels = image.load()
    return {
        (x, y)
        for x in range(image.width)
        for y in range(image.height)
        if pixels[x, y][0] > 200 and pixels[x, y][2] < 150 and pixels[x, y][1] > 150
    }


def ink(page: RenderedPage, box: tuple[float, float, float, float]) -> int:
    """Dark pixels inside a box: the words that the mark lies over."""
    image = Image.open(io.BytesIO(page.png)).convert("L").crop(tuple(int(v) for v in box))
    return sum(count for value, count in enumerate(image.histogram()) if value < 100)


@pytest.fixture
def columns(make_pdf: Make, lines: Make) -> bytes:
    def both(canvas: object) -> None:
        lines(LEFT)(canvas)
        lines(RIGHT, x=320)(canvas)

    return make_pdf(both)


def test_a_passage_of_one_column_is_marked_line_by_line_in_that_column_only(columns: bytes) -> None:
    page = render_page(columns, 1, [" ".join(RIGHT)])
    assert page.reason is None
    assert len(page.boxes) == 3
    marked = yellow(page)
    assert marked
    assert min(x for x, _ in marked) >= 2 * 320 - 3
    tops = [2 * (72 + 14 * i) for i in range(3)]
    for box, baseline in zip(page.boxes, tops, strict=True):
        assert box.top < baseline - 4 < box.bottom
        assert ink(page, box) > 100


def test_a_passage_that_runs_from_one_column_into_the_next_is_marked_in_both(columns: bytes) -> None:
    page = render_page(columns, 1, [" ".join(LEFT + RIGHT)])
    assert len(page.boxes) == 6


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_a_turned_page_is_marked_over_its_words(rotate: int, make_pdf: Make, lines: Make) -> None:
    data = make_pdf(lines([*LEFT, "", *RIGHT]), rotate=rotate)
    page = render_page(data, 1, [" ".join(RIGHT)])
    assert (page.width > page.height) == (rotate in (90, 270))
    assert len(page.boxes) == 3
    width, height = A4
    for i, box in enumerate(page.boxes):
        assert ink(page, box) > 100
        x, y = 2 * 120.0, 2 * (72 + 14 * (4 + i) - 3.0)  # a point inside the line, upright
        turned = {90: (2 * height - y, x), 180: (2 * width - x, 2 * height - y), 270: (y, 2 * width - x)}[rotate]
        assert box.left < turned[0] < box.right
        assert box.top < turned[1] < box.bottom


def test_a_mended_hyphen_and_a_ligature_do_not_hide_the_passage(make_pdf: Make, lines: Make) -> None:
    data = make_pdf(lines(["The captain read the docu-", "ment in the office twice."]))
    result = ingest_bytes("a.pdf", data, count_tokens=lambda text: len(text.split()))
    assert "document" in result.passages[0].text
    assert len(render_page(data, 1, [result.passages[0].text]).boxes) == 2


def test_a_passage_that_is_not_on_the_page_leaves_no_mark_and_a_reason(columns: bytes) -> None:
    page = render_page(columns, 1, ["Nothing like these words stands anywhere on this page."])
    assert page.boxes == ()
    assert page.reason == "The passage could not be located on the picture of this page."
    assert yellow(page) == set()


def test_a_page_without_text_says_so(make_pdf: Make) -> None:
    page = render_page(make_pdf(lambda canvas: canvas.rect(72, 72, 100, 100)), 1, ["words"])
    assert page.reason == "There is no text on this page, so nothing can be marked."


def test_without_a_highlight_there_is_neither_mark_nor_reason(columns: bytes) -> None:
    page = render_page(columns, 1)
    assert (page.boxes, page.reason) == ((), None)


@pytest.mark.parametrize(("data", "number"), [(b"%PDF-1.4 rubbish", 1), (b"", 1), (None, 7)])
def test_what_cannot_be_drawn_raises_with_a_sentence(data: bytes | None, number: int, columns: bytes) -> None:
    with pytest.raises(ProvenanceError, match=r"\.$"):
        render_page(columns if data is None else data, number, ["x"])


def test_a_locked_pdf_is_drawn_with_its_password(make_pdf: Make, lines: Make) -> None:
    data = make_pdf(lines(LEFT), encrypt=StandardEncryption("open", "owner", strength=128))
    with pytest.raises(ProvenanceError, match="password"):
        render_page(data, 1, [LEFT[0]])
    assert render_page(data, 1, [LEFT[0]], password="open").boxes


def test_a_huge_scale_gives_a_bounded_picture(columns: bytes) -> None:
    page = render_page(columns, 1, scale=1000.0)
    assert page.width * page.height < 25_000_000
