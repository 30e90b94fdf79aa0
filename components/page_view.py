"""The page dialog: one page of a document with the passage highlighted on it, and its text beside it."""

from __future__ import annotations

import streamlit as st

from components import session
from components.palette import source_variable
from components.receipt import block
from components.safe import Safe, el, join
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
def picture(document_id: str, page: int, text: str, start: int, end: int) -> bytes | None:
    """The page as PNG with the passage highlighted, or None where the document has no pages to draw."""
    from provenance.ingest.render import render_page

    engine = session.engine()
    data = engine.store.original(document_id)
    document = engine.store.document(document_id)
    if data is None or document is None or document.kind != "pdf":
        return None
    return render_page(data, page, [text], scale=1.6)


@st.cache_data(show_spinner=False, max_entries=64)
def plain_picture(document_id: str, page: int) -> bytes | None:
    """The page as PNG, or None where it cannot be drawn."""
    from provenance.ingest.render import render_page

    data = session.engine().store.original(document_id)
    try:
        return render_page(data, page, [], scale=1.3) if data is not None else None
    except ProvenanceError:
        return None


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
    image = None
    if document.kind == "pdf":
        try:
            image = picture(passage.document_id, passage.page, passage.text, passage.start, passage.end)
        except ProvenanceError as error:
            st.caption(f"The page cannot be drawn here: {error}")
    if image is not None:
        left, right = st.columns([3, 2], gap="medium")
        left.image(image, caption=None, width="stretch")
        with right:
            block(el("h3", "The passage as sent", cls="side"), el("p", passage.text, cls="plain"))
        return
    if page is None or not page.text:
        block(el("p", (page.reason if page else None) or "no text on this page", cls="warn"))
        return
    block(el("h3", "The passage in its surroundings", cls="side"))
    block(el("div", in_surroundings(page.text, passage), cls="plain"))
