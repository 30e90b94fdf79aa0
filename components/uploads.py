"""Files on their way in: one progress bar per file, and an outcome for each in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import streamlit as st

from components import session
from components.receipt import block
from components.safe import el, label
from components.words import count, seconds
from provenance.errors import ProvenanceError

TYPES = ["pdf", "txt", "md"]


class Upload(Protocol):
    """What Streamlit hands over for an uploaded file."""

    name: str

    def getvalue(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one file. `data` is kept only where a password is still needed."""

    file: str
    status: str  # ok, partial, error, password, known
    said: str
    data: bytes | None = None


def outcome_of(file: str, got: Any, data: bytes) -> Outcome:
    """The outcome of one ingested file in words."""
    if got.needs_password:
        return Outcome(file, "password", "is protected: it asks for its password", data)
    document = got.document
    if document is None or got.status == "error":
        return Outcome(file, "error", got.message or "could not be read")
    said = f"{count(document.pages, 'page')}, {count(document.passages, 'passage')} in {seconds(got.seconds)}"
    if got.message:
        said += f" · {got.message}"
    return Outcome(file, got.status, said)


def take_in(files: Sequence[tuple[str, bytes]], password: str | None = None) -> list[Outcome]:
    """Add files to the store, one after another, each with a bar of its own; remembers and returns the outcomes."""
    made: list[Outcome] = []
    for name, data in files:
        bar = st.progress(0.15, text=f"Reading {label(name, 60)}")
        try:
            got = session.engine().add(name, data, password)
            outcome = outcome_of(name, got, data)
        except ProvenanceError as error:
            outcome = Outcome(name, "error", str(error))
        except Exception as error:
            session.failed(error, f"{name} could not be added.")
            outcome = Outcome(name, "error", "could not be added")
        bar.progress(1.0, text=f"{label(name, 60)}: {label(outcome.said)}")
        bar.empty()
        made.append(outcome)
    remember(made)
    return made


def take_uploads(files: Sequence[Upload]) -> list[Outcome]:
    """As `take_in`, for files as Streamlit hands them over."""
    return take_in([(f.name, f.getvalue()) for f in files])


def remember(made: Sequence[Outcome]) -> None:
    """Keep outcomes for the runs that follow; a file tried again replaces its earlier outcome."""
    names = {o.file for o in made}
    kept = [o for o in st.session_state.get("outcomes", []) if o.file not in names]
    st.session_state["outcomes"] = [*kept, *made]


SIGNS = {
    "ok": ("✓", "good"),
    "partial": ("◐", "warn"),
    "error": ("✗", "bad"),
    "password": ("⚿", "warn"),
    "known": ("=", "soft"),
}


def draw_outcomes(outcomes: Sequence[Outcome]) -> None:
    """The outcome of every file, in words."""
    if not outcomes:
        return
    rows = []
    for outcome in outcomes:
        sign, tone = SIGNS.get(outcome.status, ("·", "soft"))
        rows.append(
            el(
                "li",
                el("span", sign, cls=tone, aria_hidden="true"),
                el(
                    "span", el("b", outcome.file), " ", el("span", outcome.said, cls=tone if tone != "good" else "soft")
                ),
                el("span", ""),
            )
        )
    block(el("ul", *rows, cls="steps"))


def ask_passwords() -> None:
    """A small form for every protected file that still waits."""
    for outcome in [o for o in st.session_state.get("outcomes", []) if o.status == "password" and o.data]:
        with st.form(f"password-{outcome.file}", border=True):
            block(el("p", el("b", outcome.file), " is protected. Its password is used once and not kept."))
            word = st.text_input("Password", type="password")
            if st.form_submit_button("Open", icon=":material/lock_open:"):
                take_in([(outcome.file, outcome.data or b"")], word)
                st.rerun()
