"""The receipt: answer, bar and cards as one component, so that they light each other up without a round trip.

The markup is built with `components.safe.el`, which escapes; the browser side draws it through a list of allowed
elements a second time, and runs nothing from it. Hover, focus and click are handled in the browser; only
"Show on page" goes to the server.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import streamlit as st

from components import answer, document_card
from components.numbers import Card, MethodInfo
from components.safe import TAGS, Safe, el
from components.style import RECEIPT
from provenance.records import Attribution, Turn

_SCRIPT = (
    (Path(__file__).parent / "receipt.js").read_text(encoding="utf-8").replace("/* TAGS */", json.dumps(sorted(TAGS)))
)


@st.cache_resource
def _component():  # type: ignore[no-untyped-def]
    return st.components.v2.component("receipt", css=RECEIPT, js=_SCRIPT)


def markup(
    turn: Turn,
    cards: tuple[Card, ...],
    attribution: Attribution | None,
    info: MethodInfo | None,
    *,
    with_question: bool = True,
) -> Safe:
    """Everything between the question and the last card."""
    return el(
        "section",
        answer.question(turn.question) if with_question else None,
        outcome(turn),
        answer.answer(turn),
        answer.strip(turn, attribution, info),
        answer.bar(turn, cards, attribution, info),
        document_card.cards_block(turn, cards, info),
        aria_label="Receipt",
    )


def outcome(turn: Turn) -> Safe | None:
    """What happened, where it is not simply an answer: refused, stopped, failed — in words."""
    if turn.outcome == "answered":
        return None
    said = {
        "refused": "Refused.",
        "stopped": "Stopped. What was written until then is kept.",
        "failed": "This question could not be answered.",
        "started": "Not finished.",
    }[turn.outcome]
    reason = turn.reason if turn.reason and turn.reason.strip(". ") not in said else None
    sign = {"refused": "○ ", "stopped": "■ ", "failed": "✗ "}.get(turn.outcome, "")
    return el(
        "p",
        el("b", sign, said),
        join_reason(reason),
        cls=f"outcome {'bad' if turn.outcome == 'failed' else 'warn'}",
    )


def join_reason(reason: str | None) -> Safe | None:
    """The recorded reason after the words, if it says more."""
    return el("span", " ", reason[:1].upper() + reason[1:], cls="soft") if reason else None


def draw(
    turn: Turn,
    cards: tuple[Card, ...],
    attribution: Attribution | None,
    info: MethodInfo | None,
    *,
    key: str,
    with_question: bool = True,
) -> int | None:
    """Draw the receipt; returns the number of the source whose page was asked for in this run, or None."""
    text = markup(turn, cards, attribution, info, with_question=with_question)
    version = hashlib.sha256(text.encode()).hexdigest()[:16]
    data = {"markup": str(text), "version": version, "turn": str(turn.id or turn.asked_at)}
    result = _component()(key=key, data=data, on_page_change=lambda: None)
    page = result.get("page")
    return int(page) if page is not None else None


def block(*parts: object) -> None:
    """Draw safe HTML in the page itself, under the same stylesheet."""
    st.html(el("div", *parts, cls="rc"))
