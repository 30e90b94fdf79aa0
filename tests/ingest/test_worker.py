import subprocess
import sys
from collections.abc import Callable

import pytest

from provenance.ingest.worker import open_reader, read_page

Make = Callable[..., bytes]


def test_a_raised_small_number_becomes_a_superscript(make_pdf: Make) -> None:
    def draw(canvas) -> None:  # type: ignore[no-untyped-def]
        text = canvas.beginText(72, 700)
        text.setFont("Helvetica", 12)
        text.textOut("The area is 10")
        text.setFont("Helvetica", 7)
        text.setRise(4)
        text.textOut("2")
        text.setRise(0)
        text.setFont("Helvetica", 12)
        text.textOut(" metres")
        canvas.drawText(text)

    record = read_page(open_reader(make_pdf(draw), None), 1, 1000, 10)
    assert record["lines"][0]["text"] == "The area is 10² metres"


def test_the_place_of_a_line_counts_from_the_upper_edge_of_a_turned_page(make_pdf: Make) -> None:
    def draw(canvas) -> None:  # type: ignore[no-untyped-def]
        canvas.translate(595, 0)
        canvas.rotate(90)
        canvas.drawString(100, 500, "Turned text")

    record = read_page(open_reader(make_pdf(draw, rotate=90), None), 1, 1000, 10)
    line = record["lines"][-1]
    assert line["text"] == "Turned text"
    assert line["top"] == pytest.approx(95, abs=2)


def test_a_page_stops_at_its_most_characters(make_pdf: Make, lines: Callable[..., object]) -> None:
    record = read_page(open_reader(make_pdf(lines(["x" * 60] * 20)), None), 1, 100, 10)
    assert sum(len(line["text"]) for line in record["lines"]) <= 100
    assert "more than 100 characters" in record["cut"]


def test_the_module_runs_as_a_program_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "provenance.ingest.worker"], input=b"", capture_output=True, timeout=60
    )
    assert done.returncode != 0
    assert b"JSONDecodeError" in done.stderr
