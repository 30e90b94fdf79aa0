"""The Ask page: its empty state, an answered question, and that no rerun computes what is stored."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from provenance.asking import Finished
from provenance.engine import Engine
from provenance.records import Attribution, Turn

ROOT = Path(__file__).parents[2]
QUESTION = "When does the Moorhen make its last crossing?"
NOTICE = b"# Harbour\n\nThe Moorhen makes its last crossing on 18 October, because the landing stage is rebuilt."
OTHERS = b"The Teal carries the post on weekdays and visitors on Sundays.\n\nThe Wigeon sails all winter."


def page() -> AppTest:
    """The page, not run yet."""
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=120)


def words(at: AppTest) -> str:
    """Everything the page drew as HTML."""
    return "\n".join(str(element.proto.body) for element in at.get("html"))


@pytest.fixture
def turn(engine: Engine) -> Turn:
    """One answered turn."""
    engine.add("notice.md", NOTICE)
    engine.add("others.txt", OTHERS)
    last = list(engine.ask(QUESTION, method="leave-one-out"))[-1]
    assert isinstance(last, Finished)
    assert last.turn.answer is not None
    return last.turn


def test_an_empty_store_offers_the_samples(engine: Engine) -> None:
    at = page().run()
    assert not at.exception
    assert "which sources the answer really used" in words(at)
    assert "Load the sample documents" in [b.label for b in at.button]


def test_every_method_stands_in_the_switcher_or_says_why_not(engine: Engine) -> None:
    at = page().run()
    shown = set(at.sidebar.radio[0].options)
    for status in engine.method_status():
        assert status.label in shown or status.reason in words(at).replace("&#x27;", "'")
    assert "Off" in shown


def test_switching_the_method_computes_once_and_keeps_the_answer(
    engine: Engine, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    attribute, ask = engine.attribute, engine.ask

    def counted(of: Turn, method: str, *rest: object) -> Attribution:
        calls[method] += 1
        return attribute(of, method, *rest)  # type: ignore[arg-type]

    def never(*_: object, **__: object) -> object:
        calls["ask"] += 1
        return ask("")

    monkeypatch.setattr(engine, "attribute", counted)
    monkeypatch.setattr(engine, "ask", never)
    at = page()
    at.session_state["turn"] = turn
    at.session_state["method"] = "leave-one-out"
    at.run()
    assert not at.exception
    assert calls == {}
    for method in ("similarity", "leave-one-out", "similarity", "off", "similarity"):
        at.sidebar.radio[0].set_value(method).run()
        assert not at.exception
    assert calls == {"similarity": 1}
    shown = at.session_state["turn"]
    assert shown.answer == turn.answer
    assert shown.attribution("similarity", False) is not None


def test_a_stored_turn_opens_by_its_number_and_computes_nothing(
    engine: Engine, turn: Turn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> Attribution:
        raise AssertionError("a stored turn is read only")

    monkeypatch.setattr(engine, "attribute", never)
    at = page()
    at.query_params["turn"] = str(turn.id)
    at.session_state["method"] = "similarity"
    at.run()
    assert not at.exception
    assert any("read only" in c.value for c in at.caption)


def test_a_turn_that_is_not_in_the_log_is_said(engine: Engine) -> None:
    at = page()
    at.query_params["turn"] = "<b>7</b>"
    at.run()
    assert not at.exception
    assert len(at.warning) == 1


def test_the_first_paint_imports_no_model_library() -> None:
    code = (
        "import sys\n"
        "from components import answer, ask, audit, comparison, guide, library, session, shell, uploads\n"
        "from provenance.methods import METHODS\n"
        "slow = {'torch', 'transformers', 'tokenizers', 'sentence_transformers', 'flashrank', 'sklearn'}\n"
        "heavy = slow & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
