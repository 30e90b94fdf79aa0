"""The whole way of a question on the real models, over a store of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from provenance.engine import Engine, Event, Finished, Step, Token
from provenance.errors import ProvenanceError
from provenance.generation.refusal import REFUSAL
from provenance.methods import METHODS
from provenance.methods.calibration import SHIPPED, file_name, read_calibration, write_calibration
from provenance.parts import Parts
from provenance.records import Turn
from provenance.settings import Settings

NOTICE = (
    "Notice board\n\nThe last evening sailing leaves Port Ellary at 21:40. The clerk of the harbour is Mette Dahl. "
    "She opens the office at seven."
)
MENU = "Café menu\n\nA cup of tea costs £2 and a bun costs £1. The café closes at six."
STEPS = ("Retrieve", "Rerank", "Decide", "Prompt", "Write", "Attribute", "Check quotes", "Log")
QUESTION = "When does the last evening sailing leave Port Ellary?"


@pytest.fixture
def engine(own_parts: Parts) -> Engine:
    made = Engine(own_parts.settings)
    made.parts = own_parts
    for name, text in (("notice.txt", NOTICE), ("menu.txt", MENU)):
        assert made.add(name, text.encode()).status == "ok"
    return made


def finish(events: Iterator[Event]) -> tuple[list[Event], Turn]:
    seen = list(events)
    assert isinstance(seen[-1], Finished)
    assert sum(isinstance(event, Finished) for event in seen) == 1
    return seen, seen[-1].turn


def test_a_question_goes_the_whole_way_and_is_logged(engine: Engine) -> None:
    events, turn = finish(engine.ask(QUESTION, method="attention"))
    ended = [(e.name, e.state) for e in events if isinstance(e, Step) and e.state != "running"]
    assert [name for name, _ in ended] == list(STEPS)
    assert [t.step for t in turn.timings] == list(STEPS[:-1])
    assert turn.outcome == "answered"
    assert turn.answer is not None
    assert "21:40" in turn.answer.text
    assert "".join(e.text for e in events if isinstance(e, Token)) == turn.answer.text
    assert turn.id is not None
    assert engine.turn(turn.id) == turn
    assert engine.log.verify().ok


def test_the_source_that_says_it_is_cited_and_alone_has_a_length_share(engine: Engine) -> None:
    _, turn = finish(engine.ask(QUESTION, method="similarity"))
    told = next(s.n for s in turn.sources if "21:40" in s.text)
    assert turn.cited == (told,)
    assert [(item.n, item.percentage) for item in turn.lengths] == [(told, 100.0)]


@pytest.mark.parametrize("name", list(METHODS))
def test_another_method_leaves_the_answer_and_is_computed_once(engine: Engine, name: str) -> None:
    _, turn = finish(engine.ask(QUESTION, method="off"))
    assert turn.attributions == ()
    assert turn.id is not None
    before = len(engine.log.events(turn.id))
    scored = engine.attribute(turn, name)
    again = engine.turn(turn.id)
    assert again is not None
    assert again.answer == turn.answer
    assert engine.attribute(again, name) == scored == again.attribution(name, False)
    assert len(engine.log.events(turn.id)) == before + 1
    assert len(scored.scores) == len(turn.sources)
    assert scored.reason or None not in scored.scores


def test_scores_of_a_stored_turn_do_not_depend_on_what_was_kept_in_memory(engine: Engine) -> None:
    _, turn = finish(engine.ask(QUESTION, method="off"))
    live = {name: engine.attribute(turn, name).scores for name in ("attention", "leave-one-out")}
    other = Engine(engine.settings)
    other.parts = engine.parts
    for name, scores in live.items():
        assert other.attribute(turn, name).scores == pytest.approx(scores, abs=1e-3)


def test_a_question_the_documents_do_not_answer_is_refused_and_keeps_the_draft(engine: Engine) -> None:
    events, turn = finish(engine.ask("Which university did the prime minister attend?", method="attention"))
    assert turn.outcome == "refused"
    assert turn.answer is not None
    assert turn.answer.text == REFUSAL
    assert turn.reason
    assert (turn.cited, turn.lengths, turn.attributions) == ((), (), ())
    decided = next(e for e in events if isinstance(e, Step) and e.name == "Decide" and e.state == "done")
    assert decided.detail is not None
    assert "do not answer" in decided.detail
    assert "Decide" in [t.step for t in turn.timings]


def test_an_empty_store_refuses_without_writing(own_parts: Parts) -> None:
    empty = Engine(own_parts.settings)
    empty.parts = own_parts
    events, turn = finish(empty.ask(QUESTION))
    assert turn.outcome == "refused"
    assert not any(isinstance(event, Token) for event in events)


def test_stopping_in_mid_answer_is_logged_as_stopped(engine: Engine) -> None:
    stop, turn = threading.Event(), None
    for event in engine.ask(QUESTION, stop=stop):
        if isinstance(event, Token):
            stop.set()
        if isinstance(event, Finished):
            turn = event.turn
    assert turn is not None
    assert (turn.outcome, turn.id is not None) == ("stopped", True)
    assert turn.answer is not None
    assert engine.turn(turn.id or 0) == turn


def test_a_page_that_goes_away_leaves_a_stopped_row(engine: Engine) -> None:
    events = engine.ask(QUESTION)
    for event in events:
        if isinstance(event, Token):
            break
    events.close()  # type: ignore[attr-defined]
    latest = engine.log.turns()[0]
    assert latest.outcome == "stopped"


def test_a_follow_up_keeps_the_sources_and_computes_no_provenance(engine: Engine) -> None:
    _, first = finish(engine.ask(QUESTION, method="attention"))
    events, second = finish(engine.ask("Shorter, please.", follow_up=first, method="attention"))
    assert [s.passage for s in second.sources] == [s.passage for s in first.sources]
    assert second.sources_from == first.id
    assert second.attributions == ()
    skipped = {e.name for e in events if isinstance(e, Step) and e.state == "skipped"}
    assert {"Retrieve", "Attribute"} <= skipped
    asked = engine.attribute(second, "similarity")
    assert set(asked.scores) == {None}
    assert asked.reason is not None
    assert f"#{first.id}" in asked.reason


def test_a_search_can_be_limited_to_some_documents(engine: Engine) -> None:
    menu = next(d for d in engine.documents() if d.filename == "menu.txt")
    _, turn = finish(engine.ask("How much does a cup of tea cost?", documents=[menu.id], method="off"))
    assert {c.passage.document_id for c in turn.candidates} == {menu.id}


def test_the_same_bytes_twice_are_one_document_and_two_files_of_one_name_stay_two(engine: Engine) -> None:
    again = engine.add("other name.txt", NOTICE.encode())
    assert again.message is not None
    assert "notice.txt" in again.message
    assert len(engine.documents()) == 2
    engine.add("notice.txt", b"Another text altogether, about seals.")
    assert [d.filename for d in engine.documents()].count("notice.txt") == 2


def test_a_deleted_document_is_not_found_and_its_rows_stay(engine: Engine) -> None:
    _, turn = finish(engine.ask(QUESTION, method="off"))
    notice = next(d for d in engine.documents() if d.filename == "notice.txt")
    assert engine.delete(notice.id)
    assert not engine.delete(notice.id)
    assert engine.turn(turn.id or 0) == turn
    assert [e.payload["document_id"] for e in engine.log.events_named("document_deleted")] == [notice.id]
    _, later = finish(engine.ask(QUESTION, method="off"))
    assert all(c.passage.document_id != notice.id for c in later.candidates)


def test_reading_a_document_again_gives_the_same_passages(engine: Engine) -> None:
    notice = engine.documents()[0]
    before = engine.store.passages(notice.id)
    assert engine.reindex(notice.id).status == "ok"
    assert engine.store.passages(notice.id) == before
    with pytest.raises(ProvenanceError, match="no longer"):
        engine.reindex("0" * 64)


def test_what_does_not_fit_is_dropped_whole_and_said(engine: Engine) -> None:
    engine.add(
        "long.txt",
        "\n\n".join(f"The last sailing of line {i} leaves at {i}." + " More." * 60 for i in range(20)).encode(),
    )
    engine.parts.settings = replace(engine.parts.settings, provenance_context_tokens=400)
    _, turn = finish(engine.ask("When does the last sailing of line 7 leave?", method="off"))
    dropped = [c for c in turn.candidates if c.dropped == "over the context budget"]
    assert dropped
    assert all(c.sent is None for c in dropped)
    assert 0 < len(turn.sources) < 5
    assert all(s.text == s.passage.text for s in turn.sources)


def test_an_unknown_method_is_an_error(engine: Engine) -> None:
    _, turn = finish(engine.ask(QUESTION, method="off"))
    with pytest.raises(ProvenanceError, match="not a provenance method"):
        engine.attribute(turn, "magic")


def test_a_failure_with_a_name_is_a_logged_outcome(engine: Engine) -> None:
    engine.parts.settings = replace(
        engine.parts.settings, provenance_endpoint="http://127.0.0.1:9/v1", provenance_endpoint_model="x"
    )
    engine.parts._writer = None
    _, turn = finish(engine.ask(QUESTION))
    assert turn.outcome == "failed"
    assert turn.reason is not None
    assert "provenance_endpoint" in turn.reason
    assert engine.turn(turn.id or 0) == turn


def test_every_method_of_the_switcher_says_its_meaning_and_cost_and_loads_nothing(engine: Engine) -> None:
    fresh = Parts(engine.settings)
    other = Engine(engine.settings)
    other.parts = fresh
    status = other.method_status()
    assert [item.name for item in status] == list(METHODS)
    assert all(item.meaning and item.cost and item.label for item in status)
    assert (fresh._lm, fresh._embedder, fresh._reranker) == (None, None, None)


def test_the_calibration_sentence_is_read_without_loading_a_model(settings: Settings) -> None:
    engine = Engine(settings)
    said = engine.calibration_words()
    assert said is not None
    assert "n = " in said
    assert engine.parts._lm is None
    assert not settings.provenance_endpoint
    remote = replace(settings, provenance_endpoint="http://127.0.0.1:9/v1", provenance_endpoint_model="x")
    assert Engine(remote).calibration_words() is None


def test_a_model_of_which_two_revisions_were_calibrated_has_no_sentence_until_it_is_loaded(
    settings: Settings, tmp_path: Path
) -> None:
    shipped = read_calibration(next(SHIPPED.glob("*.json")))
    engine = Engine(replace(settings, provenance_home=tmp_path, provenance_model="own/model"))
    assert engine.calibration_words() is None
    for revision, known in (("a", True), ("b", False)):
        kept = replace(shipped, model="own/model", revision=revision)
        write_calibration(kept, tmp_path / "calibration" / file_name("own/model", revision))
        assert (engine.calibration_words() is not None) is known
