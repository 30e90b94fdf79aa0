import pytest

from provenance.ingest.limits import Limits
from provenance.ingest.plain import decode, looks_binary, markdown_pages, text_pages

TEXT = "Fähre – 5 €"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_the_encoding_is_found(encoding: str) -> None:
    assert decode(TEXT.encode(encoding)) == TEXT


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_found_without_its_mark(encoding: str) -> None:
    assert decode("The ferry is späť".encode(encoding)) == "The ferry is späť"


def test_bytes_that_no_encoding_knows_still_give_text() -> None:
    assert decode(b"caf\xe9 \x81") == "café \x81"


def test_form_feeds_separate_pages() -> None:
    pages = text_pages("one\ftwo\f", Limits())
    assert [[line.text for line in page.lines] for page in pages] == [["one"], ["two"]]


def test_a_text_without_form_feeds_is_cut_into_pages_at_paragraphs() -> None:
    pages = text_pages("\n\n".join(["x" * 40] * 20), Limits(page_characters=200))
    assert len(pages) > 3
    assert all(len(line.text) in (0, 40) for page in pages for line in page.lines)


def test_markdown_keeps_its_text_and_finds_headings_outside_fences() -> None:
    text = "# Title\n\nA *line*\nand another\n\nUnder\n-----\n\n```\n# no heading\n\ncode\n```\n"
    (page,) = markdown_pages(text, Limits())
    assert page.text == text.strip("\n")
    assert [page.text[b.start : b.stop] for b in page.blocks if b.heading] == ["# Title", "Under\n-----"]
    assert page.text[page.blocks[-1].start :] == "```\n# no heading\n\ncode\n```"


def test_binary_data_is_told_from_text() -> None:
    assert looks_binary(bytes(range(32)) * 20)
    assert not looks_binary(TEXT.encode("utf-16"))
    assert not looks_binary(b"plain\ttext\r\n")
