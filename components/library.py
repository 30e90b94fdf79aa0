"""The Documents screen: upload, outcomes, a table, and the pages and passages of one document."""

from __future__ import annotations

import streamlit as st

from components import page_view, samples, session, uploads
from components.receipt import block
from components.safe import cell, el, label
from components.share import when
from components.words import count
from provenance.errors import ProvenanceError
from provenance.records import Document, Page, Passage

EXCERPT = 240


def screen() -> None:
    """The whole screen."""
    documents = list(session.documents().values())
    block(el("h1", "Documents", cls="title1"))
    _upload(bool(documents))
    uploads.draw_outcomes(st.session_state.get("outcomes", []))
    uploads.ask_passwords()
    if not documents:
        block(el("p", "No documents yet. Upload some, or load the samples to look around.", cls="soft"))
        return
    chosen = _table(documents)
    if chosen is not None:
        _detail(chosen)


def _upload(some: bool) -> None:
    files = st.file_uploader(
        "Add PDF, text or Markdown files: drop as many as you like",
        type=uploads.TYPES,
        accept_multiple_files=True,
        key=f"upload-{st.session_state.get('uploads', 0)}",
    )
    if files:
        uploads.take_uploads(files)
        st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1
        st.rerun()
    if not some and st.button(
        "Load the sample documents", type="primary", icon=":material/library_add:", key="load-samples"
    ):
        uploads.take_in(samples.files())
        st.rerun()


def rows(documents: list[Document]) -> list[dict[str, object]]:
    """The table: one row per document, its figures in words where words say more."""
    return [
        {
            "document": cell(d.title),
            "file": cell(d.filename),
            "kind": {"pdf": "PDF", "txt": "text", "md": "Markdown"}[d.kind],
            "pages": d.pages,
            "with text": f"{d.pages_with_text} of {d.pages}",
            "passages": d.passages,
            "characters": d.characters,
            "added": when(d.added_at) if d.added_at else "",
        }
        for d in documents
    ]


def _table(documents: list[Document]) -> Document | None:
    st.caption(f"{count(len(documents), 'document')}. Select one to see its pages and passages.")
    event = st.dataframe(
        rows(documents),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key="documents-table",
        alt="The documents in the store",
    )
    chosen = event.selection.rows  # type: ignore[union-attr]
    return documents[chosen[0]] if chosen and chosen[0] < len(documents) else None


def _detail(document: Document) -> None:
    store = session.engine().store
    pages, passages = store.pages(document.id), store.passages(document.id)
    block(
        el("h2", document.title, cls="title2"),
        el(
            "p",
            f"{document.filename} · {count(document.pages, 'page')}, {document.pages_with_text} with text · "
            f"{count(document.passages, 'passage')} · {document.characters:,} characters",
            cls="soft",
        ),
    )
    with st.container(horizontal=True):
        if st.button("Re-index", icon=":material/refresh:", key=f"again-{document.id}"):
            _again(document)
        if st.button("Delete", icon=":material/delete:", key=f"delete-{document.id}"):
            _confirm_delete(document)
    of_pages, of_passages = st.tabs([f"Pages · {len(pages)}", f"Passages · {len(passages)}"])
    with of_pages:
        _pages(document, list(pages), list(passages))
    with of_passages:
        _passages(list(passages))


def _pages(document: Document, pages: list[Page], passages: list[Passage]) -> None:
    if not pages:
        block(el("p", "This document has no pages.", cls="soft"))
        return
    number = 1
    if len(pages) > 1:
        number = int(st.number_input("Page", 1, len(pages), 1, key=f"page-{document.id}", width=160))
    page = next((p for p in pages if p.number == number), pages[0])
    left, right = st.columns(2, gap="medium")
    with left:
        if document.kind == "pdf":
            try:
                drawn = page_view.picture(document.id, page.number, None)
            except ProvenanceError as error:
                drawn = None
                st.caption(label(str(error), None))
            if drawn is not None:
                st.image(drawn[0], width="stretch", alt=f"Page {page.number} of {document.title}")
    with right if document.kind == "pdf" else st.container():
        block(page_text(page))
    here = [p for p in passages if p.page == page.number]
    st.caption(f"{count(len(here), 'passage')} on this page")


def page_text(page: Page) -> object:
    """The text of a page, or in words why there is none."""
    if not page.text.strip():
        return el("p", (page.reason or "no text on this page").capitalize(), cls="warn")
    note = el("p", f"{count(page.removed, 'control character')} removed", cls="soft small") if page.removed else None
    return el("div", el("p", page.text, cls="plain"), note)


def _passages(passages: list[Passage]) -> None:
    if not passages:
        block(el("p", "No passages: there is no text to cut.", cls="warn"))
        return
    size = 20
    pages = (len(passages) + size - 1) // size
    at = int(st.number_input("Part", 1, pages, 1, key="passage-part", width=160)) if pages > 1 else 1
    made = []
    for passage in passages[(at - 1) * size : at * size]:
        made.append(
            el(
                "details",
                el(
                    "summary",
                    el("span", f"Page {passage.page}", cls="soft"),
                    " · ",
                    passage.heading or passage.text[:80].replace("\n", " "),
                    el("span", f" · {len(passage.text)} characters", cls="soft"),
                ),
                el("p", passage.text, cls="plain pad"),
                cls="rest",
            )
        )
    block(*made)


def _again(document: Document) -> None:
    with st.spinner("Reading it again"):
        try:
            got = session.engine().reindex(document.id)
        except ProvenanceError as error:
            st.error(label(str(error), None), icon=":material/error:")
            return
    uploads.remember([uploads.outcome_of(document.filename, got, b"")])
    st.rerun()


@st.dialog("Delete this document?", width="small")
def _confirm_delete(document: Document) -> None:
    block(
        el("p", el("b", document.title)),
        el("p", "Its pages and passages go. What the log says about answers that used it stays.", cls="soft"),
    )
    with st.container(horizontal=True):
        if st.button("Delete", type="primary", icon=":material/delete:", key="delete-yes"):
            session.engine().delete(document.id)
            st.session_state["outcomes"] = [
                o for o in st.session_state.get("outcomes", []) if o.file != document.filename
            ]
            st.toast(f"{label(document.title)} deleted", icon=":material/delete:")
            st.rerun()
        if st.button("Keep", key="delete-no"):
            st.rerun()
