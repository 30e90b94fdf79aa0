"""The frame every page calls first: page settings, stylesheet, sidebar."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import streamlit as st

from components import session, style
from components.numbers import pages_without_text, passages_in
from components.receipt import block
from components.safe import el, label
from provenance.errors import ProvenanceError

ICON = str(Path(__file__).parent / "icon.png")
"""A file of our own: a named Material icon would be fetched from another host."""

PAGES = (
    ("Ask", "app.py", ":material/forum:"),
    ("Compare", "pages/compare.py", ":material/table_chart:"),
    ("Documents", "pages/documents.py", ":material/description:"),
    ("Audit", "pages/audit.py", ":material/fact_check:"),
    ("Guide", "pages/guide.py", ":material/menu_book:"),
)


def shell(page: str, first: Callable[[], None] = lambda: None) -> None:
    """Set up the page and draw the sidebar. Stops the page with a sentence where the settings cannot be used.

    After a start the engine takes a second to import: the name, the links and what `first` draws are there before.
    """
    st.set_page_config(page_title=f"{page} · Receipts", layout="wide")
    # Streamlit tells the theme to its own frame only; a dialog hangs beside it and would draw light words on light.
    scheme = f":root{{color-scheme:{'dark' if st.context.theme.type == 'dark' else 'light'}}}"
    st.html(f"<style>{style.RECEIPT}{style.CHROME}{scheme}</style>")
    with st.sidebar:
        rail = st.container(key="rail")
    with rail:
        _masthead()
    first()
    with rail:
        try:
            session.engine()
        except ProvenanceError as error:
            st.error(label(str(error), None), icon=":material/error:")
            st.caption("Correct the setting in the environment or in .env and start again.")
            st.stop()
        _switcher()
        _documents()
        _search()
        _model()
    st.set_page_config(page_icon=ICON)  # last: to read a picture Streamlit imports numpy and Pillow


def _masthead() -> None:
    block(
        el("div", "Receipts", cls="mast"),
        el("div", "which sources the answer really used", cls="soft small"),
    )
    with st.container(gap=None):
        for name, path, icon in PAGES:
            st.page_link(path, label=name, icon=icon, width="stretch")
        _closing()(key="rail-closes")


@st.cache_resource
def _closing():  # type: ignore[no-untyped-def]
    return st.components.v2.component("rail", js=(Path(__file__).parent / "rail.js").read_text(encoding="utf-8"))


def _heading(text: str) -> None:
    block(el("h2", text, cls="side"))


def _switcher() -> None:
    statuses = session.engine().method_status()
    ready = [s for s in statuses if s.reason is None]
    not_ready = [s for s in statuses if s.reason is not None]
    names = [s.name for s in ready] + ["off"]
    labels = {s.name: s.label for s in statuses} | {"off": "Off"}
    if st.session_state.get(session.METHOD_KEY) not in names:
        wanted = session.engine().settings.provenance_method
        st.session_state[session.METHOD_KEY] = wanted if wanted in names else names[0]
    _heading("Provenance method")
    st.radio(
        "Provenance method",
        names,
        key=session.METHOD_KEY,
        persist_state="session",
        format_func=labels.__getitem__,
        captions=[label(_caption(s), None) for s in ready] + ["no provenance"],
        label_visibility="collapsed",
    )
    st.checkbox(
        "Count the question too",
        key=session.QUERY_KEY,
        persist_state="session",
        value=None if session.QUERY_KEY in st.session_state else _default_query(),  # type: ignore[arg-type]
        help="Score each passage against the question as well as the answer (include_query).",
    )
    if not_ready:
        with st.expander(f"{len(not_ready)} not available here", icon=":material/block:"):
            for status in not_ready:
                block(el("p", el("b", status.label)), el("p", status.reason, cls="soft small"))


def _caption(status: Any) -> str:
    """`used · one line of meaning · about 4 s`, with figures kept beside their units."""
    said = " · ".join(part for part in (status.kind, status.meaning, status.cost) if part)
    return re.sub(r"(?<=\d) (?=%|s\b|min\b)", "\u00a0", said)


def _default_query() -> bool:
    return bool(session.engine().settings.provenance_include_query)


def _documents() -> None:
    documents = session.engine().documents()
    _heading("Documents in use")
    if not documents:
        block(el("p", "None yet", cls="soft"))
        return
    empty = pages_without_text(documents)
    block(el("p", passages_in(documents)), el("p", empty, cls="warn") if empty else None)
    with st.expander("Choose", icon=":material/filter_list:"):
        titles = {d.id: d.title for d in documents}
        chosen = [i for i in st.session_state.get(session.DOCUMENTS_KEY, []) if i in titles]
        if session.DOCUMENTS_KEY in st.session_state:
            st.session_state[session.DOCUMENTS_KEY] = chosen
        st.multiselect(
            "Search only in",
            list(titles),
            key=session.DOCUMENTS_KEY,
            persist_state="session",
            format_func=lambda i: titles.get(i, "—"),
            placeholder="All documents",
        )
        items = [
            el("li", d.title, el("span", f" · {d.pages} p. · {d.passages} passages", cls="soft")) for d in documents
        ]
        block(el("ul", *items, cls="titles"))


def _search() -> None:
    settings = session.engine().settings
    _heading("Search")
    if session.TOP_K_KEY not in st.session_state:
        st.session_state[session.TOP_K_KEY] = settings.provenance_top_k
    top_k = st.session_state[session.TOP_K_KEY]
    search = settings.provenance_search
    rerank = "reranked" if settings.rerank else "not reranked"
    block(el("p", f"{settings.provenance_candidates} candidates · {top_k} sent · {search} · {rerank}"))
    with st.expander("Change", icon=":material/tune:"):
        st.slider(
            "Passages sent (top_k)",
            1,
            min(20, settings.provenance_candidates),
            key=session.TOP_K_KEY,
            persist_state="session",
        )


def _model() -> None:
    _heading("Model")
    name, device = session.model_words()
    block(el("p", f"{name} · {device}"))
