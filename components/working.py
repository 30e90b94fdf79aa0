"""An answer being made: the steps with their times, the text as it comes, and a way to stop."""

from __future__ import annotations

import time

import streamlit as st

from components import words
from components.answer import question
from components.job import Job
from components.safe import Safe, el, label
from provenance.records import Turn

PATIENCE = 0.06
"""Seconds between two drawings of the text, at least."""


def steps(done: dict[str, tuple[str, float | None, str | None]]) -> Safe:
    """The steps so far, each with its state in a sign and in words, its time and its detail."""
    rows = []
    for name, (state, seconds, detail) in done.items():
        sign, tone = {
            "done": ("✓", "done"),
            "running": ("…", "soft"),
            "failed": ("✗", "fail"),
            "skipped": ("–", "soft"),
        }.get(state, ("·", "soft"))
        rows.append(
            el(
                "li",
                el("span", sign, cls=tone, title=state),
                el("span", name, el("span", f" · {detail}", cls="soft") if detail else None),
                el("span", words.seconds(seconds) if seconds is not None else "", cls="soft num"),
            )
        )
    return el("div", el("ul", *rows, cls="steps"), cls="rc")


def state_word(state: str) -> str:
    """The engine's state of a step as one of done, running, failed, skipped."""
    known = {
        "done": "done",
        "complete": "done",
        "finished": "done",
        "ok": "done",
        "error": "failed",
        "failed": "failed",
    }
    return known.get(state, "skipped" if state.startswith("skip") else "running")


def follow(job: Job) -> Turn | None:
    """Draw a running job until it ends; returns its turn, or None where it raised (`job.error`).

    May be called again for the same job in a later run: it starts from the first event.
    """
    from streamlit.runtime.scriptrunner_utils.exceptions import StopException

    try:
        return _follow(job)
    except StopException:  # the toolbar's stop: the answer must end too
        job.stop.set()
        raise


def _follow(job: Job) -> Turn | None:
    from provenance.engine import Finished, Step, Token

    st.html(el("div", question(job.question), cls="rc"))
    place = st.empty()
    status = st.status("Retrieving", expanded=True)
    table = status.empty()
    st.button("Stop", key="stop-answer", icon=":material/stop_circle:", on_click=job.stop.set)
    text, drawn, shown = "", 0.0, ""
    done: dict[str, tuple[str, float | None, str | None]] = {}
    turn: Turn | None = None
    for event in job.events():
        if isinstance(event, Token):
            text += event.text
        elif isinstance(event, Step):
            state = state_word(event.state)
            done[event.name] = (state, event.seconds, event.detail)
            table.html(steps(done))
            if state == "running":
                ending = " · stopping" if job.stop.is_set() else "…"
                status.update(label=f"{label(event.name)}{ending}", expanded=True)
        elif isinstance(event, Finished):
            turn = event.turn
        now = time.monotonic()
        if text != shown and (now - drawn >= PATIENCE or event is None):
            place.html(_draft(text))
            drawn, shown = now, text
        elif event is None:
            table.html(steps(done))  # a call now and then lets Streamlit end the script when it must
    status.update(state="error" if turn is None else "complete", label=_ending(turn, job), expanded=False)
    return turn


def _draft(text: str) -> Safe:
    return el("div", el("div", text, el("span", cls="caret", aria_hidden="true"), cls="answer"), cls="rc")


def _ending(turn: Turn | None, job: Job) -> str:
    took = words.seconds(time.monotonic() - job.started)
    if turn is None:
        return f"Failed after {took}"
    return f"{turn.outcome.capitalize()} in {took}" + (f" · logged #{turn.id}" if turn.id is not None else "")


def how(turn: Turn) -> Safe:
    """The steps of a finished turn, with their times."""
    return steps({t.step: ("done", t.seconds, None) for t in turn.timings})
