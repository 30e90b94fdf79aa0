"""Typesets the sample PDFs from `sources/`: `python samples/build.py [folder]`.

The output is the same, byte for byte, at every run (reportlab's invariant mode), so
a document keeps its id. A source begins with `title`, `subtitle`, `running` and `columns`;
then `# ` is a heading, `| ` a table row and a blank line ends a paragraph.
"""

from __future__ import annotations

import html
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.units import mm
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import BaseDocTemplate, Flowable, Frame, PageTemplate, Paragraph, Spacer, Table, TableStyle

HERE = Path(__file__).parent
INK = colors.HexColor("#1d2b38")
ACCENT = colors.HexColor("#1f6f78")
FAINT = colors.HexColor("#6b7a86")
RULE = colors.HexColor("#c9d3d8")

BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=12, leading=18.5, textColor=INK, spaceAfter=9)
NARROW = ParagraphStyle("narrow", parent=BODY, fontSize=11, leading=15.4, alignment=TA_JUSTIFY, spaceAfter=6)
HEADING = ParagraphStyle(
    "heading", fontName="Helvetica-Bold", fontSize=14, leading=18, textColor=ACCENT, spaceBefore=12, spaceAfter=6,
    keepWithNext=1,
)  # fmt: skip
SMALL_HEADING = ParagraphStyle("small", parent=HEADING, fontSize=12, leading=15, spaceBefore=8, spaceAfter=4)
TITLE = ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=26, leading=32, textColor=INK, spaceAfter=2)
SUBTITLE = ParagraphStyle("subtitle", fontName="Helvetica", fontSize=12, leading=16, textColor=FAINT, spaceAfter=16)


@dataclass(frozen=True, slots=True)
class Source:
    """A source file: its head, and its body in blocks."""

    title: str
    subtitle: str
    running: str
    columns: int
    blocks: tuple[str, ...]


def read_source(path: Path) -> Source:
    """Parse one `.src` file."""
    head, body = path.read_text("utf-8").split("\n\n", 1)
    values = dict(line.split(": ", 1) for line in head.splitlines())
    blocks = tuple(block.strip() for block in body.split("\n\n") if block.strip())
    return Source(values["title"], values["subtitle"], values["running"], int(values["columns"]), blocks)


def _flowables(source: Source) -> Iterator[Flowable]:
    body, heading = (NARROW, SMALL_HEADING) if source.columns == 2 else (BODY, HEADING)
    yield Paragraph(html.escape(source.title), TITLE)
    yield Paragraph(html.escape(source.subtitle), SUBTITLE)
    for block in source.blocks:
        if block.startswith("# "):
            yield Paragraph(html.escape(block[2:]), heading)
        elif block.startswith("| "):
            yield _table([[cell.strip() for cell in row.strip("| ").split("|")] for row in block.splitlines()])
            yield Spacer(1, 10)
        else:
            yield Paragraph(html.escape(" ".join(block.split())), body)


def _table(rows: list[list[str]]) -> Table:
    style = [
        ("FONT", (0, 0), (-1, -1), "Times-Roman", 11.5),
        ("FONT", (0, 0), (-1, 0), "Times-Bold", 11.5),
        ("TEXTCOLOR", (0, 0), (-1, -1), INK),
        ("LINEBELOW", (0, 0), (-1, 0), 0.8, ACCENT),
        ("LINEBELOW", (0, 1), (-1, -1), 0.3, RULE),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
    ]
    return Table(rows, colWidths=[50 * mm] + [35 * mm] * (len(rows[0]) - 1), style=TableStyle(style), hAlign="LEFT")


def _frames(columns: int) -> list[Frame]:
    left, bottom, width, height = 26 * mm, 30 * mm, A4[0] - 52 * mm, A4[1] - 60 * mm
    if columns == 1:
        return [Frame(left, bottom, width, height, 0, 0, 0, 0)]
    gap = 9 * mm
    column = (width - gap) / 2
    return [Frame(left + i * (column + gap), bottom, column, height, 0, 0, 0, 0) for i in range(2)]


def build(source_path: Path, folder: Path) -> Path:
    """Write the PDF of one source into `folder` and return its path."""
    source = read_source(source_path)
    target = folder / f"{source_path.stem}.pdf"

    def decorate(canvas: Canvas, document: BaseDocTemplate) -> None:
        canvas.setFont("Helvetica", 8.5)
        canvas.setFillColor(FAINT)
        canvas.setStrokeColor(RULE)
        canvas.drawString(26 * mm, A4[1] - 17 * mm, source.running)
        canvas.line(26 * mm, A4[1] - 19.5 * mm, A4[0] - 26 * mm, A4[1] - 19.5 * mm)
        canvas.drawRightString(A4[0] - 26 * mm, 15 * mm, f"Page {document.page}")

    document = BaseDocTemplate(
        str(target),
        pagesize=A4,
        title=f"{source.title}, Tarrowmere Ferry Cooperative",
        author="Tarrowmere Ferry Cooperative",
        invariant=1,
        pageTemplates=[PageTemplate(frames=_frames(source.columns), onPage=decorate)],
    )
    document.build(list(_flowables(source)))
    return target


def main() -> None:
    """Build every source into the folder named on the command line, or beside this script."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for path in sorted((HERE / "sources").glob("*.src")):
        print(build(path, folder))


if __name__ == "__main__":
    main()
