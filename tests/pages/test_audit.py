"""The Audit page: a turn of the log, and what is said of documents that are gone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

from provenance.engine import Engine
from provenance.records import Answer, Candidate, Citation, Prompt, Source, Span, Turn
from tests.log.ferry import document_of

ROOT = Path(__file__).parents[2]


def page(number: str) -> AppTest:
    """The page of one turn, reached by its address, not run yet."""
    at = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run().switch_page("pages/audit.py")
    at.query_params["log"] = number
    return at


def words(at: AppTest) -> str:
    """Everything the page drew as HTML."""
    return "\n".join(str(element.proto.body) for element in at.get("html"))


def logged(engine: Engine, title: str) -> int:
    """A turn over a document of two pages, the first of them sent and cited."""
    document, pages, passages = document_of(title, ("The ferry leaves at 21:40.", "Dogs must be on a lead."))
    engine.store.add_document(
        document, pages, passages, np.ones((2, 2), np.float32), embedder="tiny@1", original=b"bytes"
    )
    source = Source(1, passages[0], passages[0].text)
    prompt = Prompt("…", (), (source,), (Span(0, 1),), (Span(0, 1),), "When?", Span(1, 2), None, "Answer.")
    turn = Turn(
        None, "When does it leave?", "", "answered", (Candidate(passages[0], sent=1), Candidate(passages[1])), prompt,
        Answer("At 21:40 [1].", (), "writer", "1"), citations=(Citation(1, 9, 12, "model"),), quotes=(),
    )  # fmt: skip
    id = engine.log.start(turn.question, {})
    engine.log.finish(id, turn)
    return id


def test_a_turn_names_its_documents_that_were_deleted_since(engine: Engine) -> None:
    id = logged(engine, "<b>Timetable")
    assert "was deleted on" not in words(page(str(id)).run())
    engine.delete(engine.documents()[0].id)
    at = page(str(id)).run()
    assert not at.exception
    drawn = words(at)
    assert "&lt;b&gt;Timetable" in drawn
    assert "(sent as [1]) was deleted on" in drawn
    assert "The ferry leaves at 21:40." in str([table.value for table in at.dataframe]) or "At 21:40" in drawn


def test_a_number_that_is_no_turn_is_said(engine: Engine) -> None:
    id = logged(engine, "Timetable")
    for asked in (str(id + 40), "0", "99999999999999999999999"):
        at = page(asked).run()
        assert not at.exception, asked
        assert [f"#{asked}" in box.value for box in at.warning] == [True]
    for asked in ("²", "-1", "1e9", "9" * 5000, "1; drop table log", ""):
        assert not page(asked).run().exception, asked
