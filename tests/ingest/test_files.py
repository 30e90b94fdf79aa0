import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption

from provenance.ingest import Ingested, Limits, ingest_bytes

PDFS = Path(__file__).parents[2] / "../shared/data/pdfs"
FILES = sorted(PDFS.glob("*/*.pdf"))
Count = Callable[[str], int]
Make = Callable[..., bytes]


def check(result: Ingested, count: Count) -> None:
    """What holds for every outcome."""
    assert (result.status == "error") == (result.document is None)
    assert (result.message is None) == (result.status == "ok")
    if result.message:
        assert result.message[0].isupper() or result.message.startswith(result.file)
        assert result.message.endswith(".")
        assert "Traceback" not in result.message
    assert all((page.reason is not None) == (not page.text) for page in result.pages)
    pages = {page.number: page for page in result.pages}
    for passage in result.passages:
        assert passage.text == pages[passage.page].text[passage.start : passage.end]
        assert count(passage.text) <= 256
        passage.text.encode("utf-8")
    if result.document:
        assert result.document.passages == len(result.passages)
        assert result.document.pages_with_text == sum(bool(page.text) for page in result.pages)


@pytest.mark.skipif(not FILES, reason="the shared PDFs are not beside this checkout")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_real_or_damaged_pdf_ends_with_an_outcome(path: Path, count_tokens: Count) -> None:
    check(ingest_bytes(path.name, path.read_bytes(), count_tokens=count_tokens), count_tokens)


@pytest.mark.skipif(not FILES, reason="the shared PDFs are not beside this checkout")
def test_no_readable_pdf_loses_its_text(count_tokens: Count) -> None:
    with (PDFS / "manifest.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == "good"]
    assert rows
    for row in rows:
        result = ingest_bytes(row["file"], (PDFS / "good" / row["file"]).read_bytes(), count_tokens=count_tokens)
        assert result.status == "ok"
        assert result.document is not None
        assert result.document.characters > 0.85 * int(row["chars_pypdf"])


def test_the_same_bytes_are_one_document_whatever_they_are_called(count_tokens: Count) -> None:
    first = ingest_bytes("a.txt", b"The ferry sails.", count_tokens=count_tokens)
    second = ingest_bytes("b.txt", b"The ferry sails.", count_tokens=count_tokens)
    assert first.document
    assert second.document
    assert first.document.id == second.document.id
    assert [p.id for p in first.passages] == [p.id for p in second.passages]


def test_two_files_of_one_name_stay_two(count_tokens: Count) -> None:
    one = ingest_bytes("a.txt", b"One.", count_tokens=count_tokens)
    two = ingest_bytes("a.txt", b"Two.", count_tokens=count_tokens)
    assert one.document
    assert two.document
    assert one.document.id != two.document.id


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.pdf", b"", "a.pdf is empty."),
        ("a.pdf", b"<!DOCTYPE html><p>hi", "a.pdf is not a PDF: it looks like a web page."),
        ("a.pdf", b"\xff\xd8\xff\xe0" + bytes(100), "a.pdf is not a PDF: it looks like a JPEG picture."),
        ("a.txt", b"\x89PNG" + bytes(100), "a.txt is not text: it looks like a PNG picture."),
        ("a.docx", b"PK", "a.docx is not a PDF, text or Markdown file."),
        ("a.txt", b" \n \n", "a.txt has no text."),
        ("a.pdf", b"%PDF-1.7\nrubbish", "a.pdf is damaged and cannot be read as a PDF."),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused_in_a_sentence(
    name: str, data: bytes, words: str, count_tokens: Count
) -> None:
    result = ingest_bytes(name, data, count_tokens=count_tokens)
    assert (result.status, result.message) == ("error", words)
    assert not result.needs_password


def test_a_locked_pdf_needs_its_password(make_pdf: Make, lines: Make, count_tokens: Count) -> None:
    data = make_pdf(lines(["Inside."]), encrypt=StandardEncryption("open", "owner", strength=128))
    result = ingest_bytes("locked.pdf", data, count_tokens=count_tokens)
    assert result.needs_password
    assert result.message == "locked.pdf is locked and asks for its password."
    opened = ingest_bytes("locked.pdf", data, count_tokens=count_tokens, password="open")
    assert opened.status == "ok"
    assert opened.passages[0].text == "Inside."


def test_a_page_without_text_says_so_and_the_rest_is_kept(make_pdf: Make, lines: Make, count_tokens: Count) -> None:
    data = make_pdf(lines(["Words on the first page."]), lambda canvas: canvas.rect(72, 72, 300, 300))
    result = ingest_bytes("half.pdf", data, count_tokens=count_tokens)
    assert result.status == "partial"
    assert result.message == "There is no text on page 2."
    assert [page.reason for page in result.pages] == [None, "no text on this page"]


def test_a_scan_is_kept_without_passages(make_pdf: Make, count_tokens: Count) -> None:
    data = make_pdf(lambda canvas: canvas.rect(72, 72, 300, 300))
    result = ingest_bytes("scan.pdf", data, count_tokens=count_tokens)
    assert result.status == "partial"
    assert result.document is not None
    assert result.document.pages_with_text == 0
    assert result.passages == ()
    assert "looks scanned" in (result.message or "")


def test_two_columns_are_read_one_after_the_other(make_pdf: Make, lines: Make, count_tokens: Count) -> None:
    left, right = (
        lines(["The left column tells", "of the morning boat."]),
        lines(["The right column tells", "of the evening boat."], x=320),
    )

    def both(canvas: object) -> None:
        left(canvas)
        right(canvas)

    result = ingest_bytes("columns.pdf", make_pdf(both), count_tokens=count_tokens)
    text = " ".join(result.pages[0].text.split())
    assert text == "The left column tells of the morning boat. The right column tells of the evening boat."


def test_a_title_comes_from_the_pdf_or_its_name(make_pdf: Make, lines: Make, count_tokens: Count) -> None:
    titled = ingest_bytes("x.pdf", make_pdf(lines(["A."]), title="The Title"), count_tokens=count_tokens)
    bare = ingest_bytes("my_file.pdf", make_pdf(lines(["A."])), count_tokens=count_tokens)
    assert titled.document
    assert bare.document
    assert (titled.document.title, bare.document.title) == ("The Title", "my file")


def test_a_text_over_the_limit_is_cut_and_says_so(count_tokens: Count) -> None:
    result = ingest_bytes("a.txt", b"word " * 100, count_tokens=count_tokens, limits=Limits(document_characters=50))
    assert result.status == "partial"
    assert "more than 50 characters" in (result.message or "")


def test_a_hostile_name_is_only_text(count_tokens: Count) -> None:
    result = ingest_bytes("../../etc/<b>x</b>\x00.txt", b"Text.", count_tokens=count_tokens)
    assert "/" not in result.file.replace("</b>", "")
    assert "\x00" not in result.file
