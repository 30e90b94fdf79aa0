"""The page dialog: one page of a document with the passage highlighted on it, and its text beside it."""

from __future__ import annotations

import streamlit as st

from components import session
from components.palette import source_variable
from components.receipt import block
from components.safe import Safe, el, join, label
from provenance.errors import ProvenanceError
from provenance.records import Passage, Source, Turn

AROUND = 1200
"""Characters of the page shown before and after a passage of a text document."""


def order(turn: Turn) -> tuple[Source, ...]:
    """The sources in the order of the dialog's arrows: the cited ones, then the others."""
    return tuple(sorted(turn.sources, key=lambda s: (s.n not in turn.cited, s.n)))


def in_surroundings(text: str, passage: Passage, around: int = AROUND) -> Safe:
    """The page text with the passage marked, cut to `around` characters on both sides."""
    low, high = max(0, passage.start - around), min(len(text), passage.end + around)
    return join(
        "… " if low else None,
        text[low : passage.start],
        el("mark", text[passage.start : passage.end]),
        text[passage.end : high],
        " …" if high < len(text) else None,
    )


@st.cache_data(show_spinner=False, max_entries=64)
def picture(document_id: str, page: int, text: str | None) -> tuple[bytes, str | None] | None:
    """The page as PNG with the passage highlighted, and why nothing is highlighted on it.

    None where the original is not kept. Raises ProvenanceError where the page cannot be drawn.
    """
    from provenance.ingest.render import render_page

    data = session.engine().store.original(document_id)
    if data is None:
        return None
    drawn = render_page(data, page, [text] if text else [], scale=1.7)
    return drawn.png, drawn.reason


def open_dialog(turn: Turn, n: int) -> None:
    """Open the dialog on source `n`."""
    st.session_state["page-at"] = n
    _dialog(turn)


@st.dialog("Show on page", width="large")
def _dialog(turn: Turn) -> None:
    sources = order(turn)
    numbers = [s.n for s in sources]
    at = st.session_state.get("page-at", numbers[0])
    index = numbers.index(at) if at in numbers else 0
    source = sources[index]
    passage = source.passage
    cited = "cited" if source.n in turn.cited else "sent, not cited"
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        block(
            el(
                "div",
                el("span", source.n, cls="chip", style=f"--c:{source_variable(source.n)}"),
                el("span", passage.title, cls="title"),
                el("span", f"page {passage.page} · {cited}", cls="page"),
                cls="head",
            )
        )
        with st.container(horizontal=True, width="content"):
            previous = st.button("Previous", icon=":material/chevron_left:", disabled=index == 0, key="page-prev")
            following = st.button(
                "Next", icon=":material/chevron_right:", disabled=index + 1 >= len(numbers), key="page-next"
            )
    if previous or following:
        st.session_state["page-at"] = numbers[index + (1 if following else -1)]
        st.rerun(scope="fragment")
    draw(passage)


def draw(passage: Passage) -> None:
    """The page and the text of one passage, side by side."""
    engine = session.engine()
    document = engine.store.document(passage.document_id)
    if document is None:
        block(el("p", "This document has been deleted; the passage is as it was sent.", cls="warn"))
        block(el("p", passage.text, cls="plain"))
        return
    pages = {p.number: p for p in engine.store.pages(passage.document_id)}
    page = pages.get(passage.page)
    drawn = None
    if document.kind == "pdf":
        try:
            drawn = picture(passage.document_id, passage.page, passage.text)
        except ProvenanceError as error:
            st.caption(label(str(error), None))
    if drawn is not None:
        left, right = st.columns([3, 2], gap="medium")
        alt = f"Page {passage.page} of {passage.title}" + ("" if drawn[1] else ", the passage highlighted")
        left.image(drawn[0], width="stretch", alt=alt)
        with right:
            block(
                el("p", drawn[1], cls="warn small") if drawn[1] else None,
                el("h3", "The passage as in the document", cls="side"),
                el("p", passage.text, cls="plain"),
            )
        return
    if page is None or not page.text:
        block(el("p", (page.reason if page else None) or "no text on this page", cls="warn"))
        return
    block(el("h3", "The passage in its surroundings", cls="side"))
    block(el("div", in_surroundings(page.text, passage), cls="plain"))
