from __future__ import annotations

from dataclasses import replace

import pytest

from provenance.generation import refusal
from provenance.generation.refusal import figures, judge_answer, judge_retrieval, shipped
from provenance.parts import Parts
from provenance.records import SentenceSupport

NOTICE = "Notice 7. The last evening sailing leaves Port Ellary at 21:40. The pier is closed in January."
MENU = "A cup of tea costs £2. The café on the Grey Heron closes at six."
SENT = (NOTICE, MENU)


@pytest.mark.parametrize(
    "question",
    [
        "When does the last evening sailing leave Port Ellary?",
        "How much is a cup of tea?",
        "When is the pier closed?",
        "When does the café close?",
    ],
)
def test_a_question_that_the_passages_answer_is_not_refused(parts: Parts, question: str) -> None:
    found = judge_retrieval(question, SENT, SENT, parts.embedder())
    assert (found.refuse, found.reason) == (False, None)
    assert found.evidence is not None
    assert found.evidence >= shipped().least


@pytest.mark.parametrize(
    "question",
    [
        "Who is the captain of the Grey Heron?",
        "What is the capital of Mongolia?",
        "Which university did the minister attend?",
        "How tall is the lighthouse keeper?",
    ],
)
def test_a_question_about_something_else_is_refused_with_the_evidence(parts: Parts, question: str) -> None:
    found = judge_retrieval(question, SENT, SENT, parts.embedder())
    assert found.refuse
    assert found.evidence is not None
    assert found.reason is not None
    assert f"{found.evidence:.2f}" in found.reason


def test_nothing_retrieved_is_refused(parts: Parts) -> None:
    assert judge_retrieval("Why?", (), (), parts.embedder()).refuse


@pytest.mark.parametrize("question", ["", "?", "What is it?", "{}", "的" * 50])
def test_every_question_has_finite_figures_between_minus_one_and_one(parts: Parts, question: str) -> None:
    for sent in (SENT, ("",), ("word " * 700,)):
        found = figures(question, sent, sent, parts.embedder())
        assert len(found) == len(refusal.FIGURES)
        assert all(-1.001 <= value <= 1.001 for value in found)


SUPPORTED = SentenceSupport(0, 5, (0.9, 0.1), 1, evidence=0.8)
ALONE = replace(SUPPORTED, best=None, reason="no source supports this")


@pytest.mark.parametrize(
    ("sentences", "refuse"),
    [
        ((), True),
        ((SUPPORTED,), False),
        ((replace(ALONE, evidence=0.0), SUPPORTED), False),
        ((replace(ALONE, evidence=0.4),), False),
        ((replace(ALONE, evidence=-0.3),), True),
        ((replace(ALONE, evidence=0.0), replace(ALONE, evidence=0.01)), True),
        ((replace(ALONE, evidence=None),), False),
    ],
)
def test_an_answer_is_withheld_only_where_nothing_speaks_for_it(
    sentences: tuple[SentenceSupport, ...], refuse: bool
) -> None:
    found = judge_answer(sentences)
    assert found.refuse == refuse
    assert (found.reason is not None) == refuse
