"""The Compare page: the quick methods run once, the others when asked for, and no rerun runs one again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from components.comparison import QUICK
from provenance.asking import Finished
from provenance.engine import Engine
from provenance.records import Attribution, Turn

ROOT = Path(__file__).parents[2]
PASSAGES = (
    b"The Moorhen makes its last crossing on 18 October.",
    b"The Teal carries the post on weekdays.",
    b"The Wigeon sails all winter.",
)


def page() -> AppTest:
    """The page as it is reached from Ask, not run yet."""
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run().switch_page("pages/compare.py")


@pytest.fixture
def turn(engine: Engine) -> Turn:
    """One answered turn over three short documents."""
    for n, data in enumerate(PASSAGES):
        engine.add(f"{n}.txt", data)
    last = list(engine.ask("When does the Moorhen make its last crossing?", method="off"))[-1]
    assert isinstance(last, Finished)
    assert last.turn.sources
    return last.turn


def test_without_an_answer_the_page_says_what_to_do(engine: Engine) -> None:
    at = page().run()
    assert not at.exception
    assert any("no answer with sources yet" in str(e.proto.body) for e in at.get("html"))


def test_quick_methods_run_once_and_a_rerun_computes_nothing(
    engine: Engine, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    attribute = engine.attribute

    def counted(of: Turn, method: str, *rest: object) -> Attribution:
        calls[method] += 1
        return attribute(of, method, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "attribute", counted)
    at = page()
    at.session_state["turn"] = turn
    at.run()
    assert not at.exception
    assert calls == dict.fromkeys(QUICK, 1)
    at.run()
    assert calls == dict.fromkeys(QUICK, 1)
    next(b for b in at.button if b.label == "Run leave one out").click().run()
    at.run()
    assert not at.exception
    assert calls == dict.fromkeys((*QUICK, "leave-one-out"), 1)
    assert "Agreement with leave one out" in "".join(str(e.proto.body) for e in at.get("html"))
