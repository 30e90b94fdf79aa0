"""The Documents page: empty, with documents, and what became of a file."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from components import uploads
from provenance.engine import Engine

ROOT = Path(__file__).parents[2]


def page() -> AppTest:
    """The page as it is reached from Ask, not run yet."""
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run().switch_page("pages/documents.py")


def words(at: AppTest) -> str:
    """Everything the page drew as HTML."""
    return "\n".join(str(element.proto.body) for element in at.get("html"))


def test_an_empty_store_says_what_to_do(engine: Engine) -> None:
    at = page().run()
    assert not at.exception
    assert "No documents yet" in words(at)


def test_every_document_has_a_row(engine: Engine) -> None:
    engine.add("notice.md", b"# Notice\n\nThe pier is closed.")
    engine.add("empty.txt", b"Nothing of note.")
    at = page().run()
    assert not at.exception
    table = at.dataframe[0].value
    assert list(table["file"]) == ["notice.md", "empty.txt"]
    assert "2 files" in words(at)


def test_an_outcome_says_what_became_of_a_file_and_stays_text(engine: Engine) -> None:
    at = page()
    at.session_state["outcomes"] = [
        uploads.Outcome("<b>x</b>.pdf", "error", "is damaged: <img src=x>"),
        uploads.Outcome("locked.pdf", "password", "is protected: it asks for its password", b"%PDF-"),
    ]
    at.run()
    assert not at.exception
    drawn = words(at)
    assert "&lt;b&gt;x&lt;/b&gt;.pdf" in drawn
    assert "<img" not in drawn
    assert [box.label for box in at.text_input] == ["Password"]
