"""Records to JSON and back."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from provenance.codec import from_json, to_json
from provenance.records import (
    Answer,
    Attribution,
    Candidate,
    Citation,
    LengthShare,
    Mark,
    Passage,
    Prompt,
    Quote,
    SentenceSupport,
    Source,
    Span,
    Stage,
    Timing,
    Turn,
)

PASSAGE = Passage("d:1:0", "d" * 64, "Títle", 1, 0, 9, "some text", "Heading")
PROMPT = Prompt(
    "<s>some text</s>",
    (1, 2, 3, 4),
    (Source(1, PASSAGE, "some text"),),
    (Span(1, 2),),
    (Span(0, 2),),
    "what?",
    Span(3, 4),
    None,
    "Answer.",
)
TURN = Turn(
    id=7,
    question="what \0 \ud800 is “due”?",
    asked_at="2026-01-02T03:04:05+00:00",
    outcome="answered",
    candidates=(Candidate(PASSAGE, Stage(1, 0.1 + 0.2), None, Stage(2, 1e-9), None, 1, None), Candidate(PASSAGE)),
    prompt=PROMPT,
    answer=Answer("It is due [1].", (5, 6), "model", "r1", "end", 12.5),
    citations=(Citation(1, 10, 13, "model"), Citation(9, 10, 13, "evidence", exists=False)),
    sentences=(SentenceSupport(0, 14, (0.5, None), 1, 0.25), SentenceSupport(0, 1, (), None, None, "why")),
    marks=(Mark(1, 0, 4, 0.5),),
    lengths=(LengthShare(1, 9, 100.0),),
    attributions=(Attribution("shapley", (1.5, None), True, 0.25, "why", ("a", None), {"mass": 0.5}),),
    quotes=(Quote("due", 0, 3, "elided", "d:1:0", 1, "Title, page 1", ("NFKC",), ("left out",), None),),
    timings=(Timing("Retrieve", 0.5),),
    settings={"top_k": 5, "temperature": 1.0, "search": "exact", "rerank": True, "seed": None, "off": False},
    sources_from=3,
    reason=None,
)


def test_a_turn_comes_back_equal_through_json_text() -> None:
    assert from_json(Turn, json.loads(json.dumps(to_json(TURN)))) == TURN


def test_settings_keep_their_types() -> None:
    back = from_json(Turn, json.loads(json.dumps(to_json(TURN)))).settings
    assert [type(value) for value in back.values()] == [type(value) for value in TURN.settings.values()]


def test_spans_and_tuples_come_back_as_what_they_were() -> None:
    back = from_json(Prompt, to_json(PROMPT))
    assert isinstance(back.passage_tokens[0], Span)
    assert back.question_tokens.start == 3
    assert isinstance(back.token_ids, tuple)
    assert back.hash == PROMPT.hash


@pytest.mark.parametrize("value", [{}, {"id": 1}, [], None, {"method": "x", "scores": "no"}])
def test_what_is_no_record_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        from_json(Attribution, value)


def test_quotes_that_were_not_checked_stay_apart_from_an_answer_without_quotes() -> None:
    unchecked, none = Turn(1, "q", "t", "answered"), Turn(1, "q", "t", "answered", quotes=())
    assert from_json(Turn, to_json(unchecked)).quotes is None
    assert from_json(Turn, to_json(none)).quotes == ()
