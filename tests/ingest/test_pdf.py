from collections.abc import Callable
from pathlib import Path

import pytest
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from provenance.ingest import pdf
from provenance.ingest.limits import Limits
from provenance.ingest.pdf import read_pdf

Make = Callable[..., bytes]

KILLED_ON_PAGE_2 = """
import importlib.util, os, signal, sys
spec = importlib.util.spec_from_file_location("worker", {path!r})
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
read = worker.read_page
def read_page(reader, number, most, seconds):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(reader, number, most, seconds)
worker.read_page = read_page
sys.exit(worker.main())
"""


@pytest.fixture
def five_pages(make_pdf: Make, lines: Make) -> bytes:
    return make_pdf(*(lines([f"This is page {word}."]) for word in ("one", "two", "three", "four", "five")))


def texts(content: pdf.PdfContent) -> list[str]:
    return [" ".join(line.text for line in page.lines).strip() for page in content.pages]


def test_every_page_is_read(five_pages: bytes) -> None:
    content = read_pdf(five_pages)
    assert texts(content) == [f"This is page {word}." for word in ("one", "two", "three", "four", "five")]
    assert content.page_count == 5


def test_a_page_that_kills_the_worker_costs_only_itself(
    five_pages: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = tmp_path / "deadly.py"
    deadly.write_text(KILLED_ON_PAGE_2.format(path=str(pdf._WORKER)))
    monkeypatch.setattr(pdf, "_WORKER", deadly)
    content = read_pdf(five_pages)
    assert [page.problem is None for page in content.pages] == [True, False, True, True, True]
    assert texts(content)[4] == "This is page five."


def test_pages_after_the_last_restart_are_reported_and_those_before_kept(
    five_pages: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadly = tmp_path / "deadly.py"
    deadly.write_text(KILLED_ON_PAGE_2.format(path=str(pdf._WORKER)))
    monkeypatch.setattr(pdf, "_WORKER", deadly)
    content = read_pdf(five_pages, limits=Limits(restarts=0))
    assert texts(content)[0] == "This is page one."
    assert all(page.problem for page in content.pages[1:])


def test_no_more_pages_than_the_limit_are_read(five_pages: bytes) -> None:
    content = read_pdf(five_pages, limits=Limits(pages=2))
    assert len(content.pages) == 2
    assert content.page_count == 5


def test_no_more_characters_than_the_limit_are_read(five_pages: bytes) -> None:
    content = read_pdf(five_pages, limits=Limits(document_characters=30))
    assert texts(content)[0] == "This is page one."
    assert "first 30 characters" in (content.pages[4].problem or "")


def heavy(canvas: Canvas) -> None:
    """A page of 400,000 texts, many seconds of work for the parser."""
    canvas._code.extend(["BT /F1 1 Tf (a) Tj ET"] * 400_000)


def test_a_page_that_takes_too_long_costs_only_itself(make_pdf: Make, lines: Make) -> None:
    data = make_pdf(lines(["One."]), heavy, lines(["Three."]))
    content = read_pdf(data, limits=Limits(page_seconds=0.5))
    assert (texts(content)[0], texts(content)[2]) == ("One.", "Three.")
    assert "took too long" in (content.pages[1].problem or content.pages[1].cut or "")


def test_a_page_short_of_memory_gives_a_sentence(make_pdf: Make) -> None:
    content = read_pdf(make_pdf(heavy), limits=Limits(memory_bytes=1_000_000))
    assert content.problem or all(page.problem or page.cut for page in content.pages)


def test_a_locked_file_asks_for_its_password_and_opens_with_it(make_pdf: Make, lines: Make) -> None:
    locked = make_pdf(lines(["The secret is out."]), encrypt=StandardEncryption("open", "owner", strength=128))
    assert read_pdf(locked).needs_password
    wrong = read_pdf(locked, password="wrong")
    assert wrong.needs_password
    assert wrong.problem == "does not open with this password"
    assert texts(read_pdf(locked, password="open")) == ["The secret is out."]
