"""What the pages share: the engine, the chosen method, the turn on screen and its scores."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import TYPE_CHECKING

import streamlit as st

from components import words
from components.numbers import MethodInfo
from components.safe import label
from provenance.errors import ProvenanceError
from provenance.records import Attribution, Document, Turn

if TYPE_CHECKING:
    from provenance.engine import Engine

METHOD_KEY, QUERY_KEY, TOP_K_KEY, DOCUMENTS_KEY = "method", "include_query", "top_k", "documents_in_use"


@st.cache_resource(show_spinner=False)
def engine() -> Engine:
    """The one engine of this process. Streamlit holds a lock while it is made; models load at first use."""
    from provenance.engine import Engine
    from provenance.settings import load_settings

    return Engine(load_settings())


def method_infos() -> dict[str, MethodInfo]:
    """How each method names itself and how its raw score reads."""
    from provenance.methods import METHODS

    return {
        name: MethodInfo(name, m.label, m.kind, m.scale.unit, m.scale.share, m.scale.low, m.scale.high)
        for name, m in METHODS.items()
    }


def method() -> str:
    """The method the switcher is on, or `off`."""
    return str(st.session_state.get(METHOD_KEY) or "off")


def include_query() -> bool:
    """Whether the question counts too."""
    return bool(st.session_state.get(QUERY_KEY, False))


def documents() -> dict[str, Document]:
    """The documents in the store, by id."""
    return {d.id: d for d in engine().documents()}


def current() -> Turn | None:
    """The turn on screen."""
    return st.session_state.get("turn")


def show(turn: Turn | None) -> None:
    """Put a turn on screen."""
    st.session_state["turn"] = turn


def why_not(turn: Turn, name: str) -> str | None:
    """Why no provenance is computed for this turn at all, or None."""
    if name == "off":
        return "provenance is switched off"
    if turn.sources_from is not None:
        return f"sources kept from #{turn.sources_from}: no provenance is computed"
    if not turn.sources:
        return "no passage was sent"
    if turn.answer is None or not turn.answer.text.strip():
        return "there is no answer"
    return None


def provenance(turn: Turn, name: str, query: bool, *, compute: bool = True) -> tuple[Attribution | None, str]:
    """The scores of one method for a turn, and why there are none.

    What is stored is used as it is; only what is missing is asked of the engine, once, and kept with the turn.
    """
    reason = why_not(turn, name)
    if reason is not None:
        return None, reason
    stored = turn.attribution(name, query)
    if stored is not None:
        return stored, ""
    if not compute:
        return None, "not stored with this turn"
    place = st.empty()
    said = f"{words.count(len(turn.sources), 'source')}"

    def progress(fraction: float, message: str) -> None:
        place.progress(min(1.0, max(0.0, fraction)), text=label(message or said))

    try:
        got = engine().attribute(turn, name, query, progress)
    except ProvenanceError as error:
        return None, str(error)
    finally:
        place.empty()
    keep(turn, got)
    return got, ""


def keep(turn: Turn, got: Attribution) -> Turn:
    """The turn with these scores added, put back on screen if it is the one shown."""
    new = replace(turn, attributions=(*turn.attributions, got))
    shown = current()
    if shown is not None and (shown.id, shown.asked_at) == (turn.id, turn.asked_at):
        others = tuple(a for a in shown.attributions if (a.method, a.include_query) != (got.method, got.include_query))
        show(replace(shown, attributions=(*others, got)))
    return new


def failed(error: BaseException, what: str) -> None:
    """Say what happened and what to do next; the traceback is folded away and written to the log file."""
    import logging

    logging.getLogger("receipts").error("%s", what, exc_info=error)
    if isinstance(error, ProvenanceError):
        st.error(label(f"{what} {error}", None), icon=":material/error:")
        return
    st.error(
        label(f"{what} Try again; if it happens again, the details below say where.", None), icon=":material/error:"
    )
    with st.expander("Details"):
        st.code("".join(traceback.format_exception(error)), language=None)


def model_words() -> tuple[str, str]:
    """The writer's name and where it runs."""
    settings = engine().settings
    if settings.provenance_endpoint:
        return settings.provenance_endpoint_model or "remote model", "endpoint"
    name = (settings.provenance_model or "SmolLM2-135M-Instruct").rstrip("/").split("/")[-1]
    return name, device()


def device() -> str:
    """Where the writer runs, without importing torch before it is needed."""
    import sys

    torch = sys.modules.get("torch")
    return "GPU" if torch is not None and torch.cuda.is_available() else "CPU"


def calibration_words() -> str | None:
    """What calibration found for the loaded model, or None where it was not measured."""
    return engine().calibration_words()
