"""The Ask screen, state by state: empty, working, the receipt, and a stored turn opened by its address."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import streamlit as st

from components import numbers, page_view, receipt, samples, session, share, uploads, words, working
from components.job import Job
from components.receipt import block
from components.safe import el, label
from provenance.records import Turn


def asked() -> None:
    """The input at the foot of every state; a sent question becomes the job of the next run."""
    got = st.chat_input(
        "Ask about your documents, or drop a PDF here",
        key="question",
        accept_file="multiple",
        file_type=uploads.TYPES,
        max_chars=2000,
    )
    if got is None:
        return
    st.query_params.pop("turn", None)
    if got.files:
        uploads.take_uploads(got.files)
    if got.text and got.text.strip():
        start(got.text.strip())
    elif got.files:
        st.rerun()


def start(question: str, *, follow_up: Turn | None = None) -> None:
    """Begin to answer, beside the page, and draw the page anew."""
    stop_running()
    if follow_up is None and st.session_state.get("keep_sources"):
        follow_up = session.current()
    how: dict[str, Any] = {
        "top_k": int(st.session_state[session.TOP_K_KEY]),
        "method": session.method(),
        "include_query": session.include_query(),
        "documents": tuple(st.session_state.get(session.DOCUMENTS_KEY) or ()) or None,
        "follow_up": follow_up,
    }
    engine = session.engine()

    def work(stop: threading.Event) -> Iterator[Any]:
        return iter(engine.ask(question, stop=stop, **how))

    st.session_state["job"] = Job(question, work)
    st.session_state["keep_sources"] = False
    st.rerun()


def stop_running() -> None:
    """End a job that is still at work; its turn is logged as stopped."""
    job: Job | None = st.session_state.pop("job", None)
    if job is not None and not job.done:
        job.stop.set()
        job.join(timeout=10)


def work() -> None:
    """The running job; when it ends its turn takes its place."""
    job: Job = st.session_state["job"]
    turn = working.follow(job)
    st.session_state.pop("job", None)
    if turn is None:
        session.failed(job.error or RuntimeError("the engine ended without a turn"), "The question failed.")
        return
    session.show(turn)
    if turn.id is not None:
        st.session_state["earlier"] = [*st.session_state.get("earlier", []), (turn.id, turn.question)]
    st.rerun()


def welcome() -> None:
    """The sentence of the empty state; draws nothing in any other."""
    if "turn" in st.query_params or "job" in st.session_state or session.current() is not None:
        return
    block(
        el("h1", "Ask your documents a question, and see which sources the answer really used.", cls="hero"),
        el(
            "p",
            "Retrieval says what looked relevant. Receipts shows beside it what the model leaned on, "
            "how much of the text came from where, and where the numbers part.",
            cls="lede soft",
        ),
    )


def empty() -> None:
    """Under the welcome: a way to bring documents, and three questions."""
    documents = session.documents()
    if not documents:
        _bring_documents()
    uploads.draw_outcomes(st.session_state.get("outcomes", []))
    uploads.ask_passwords()
    if documents:
        _sample_questions({d.filename for d in documents.values()})


def _bring_documents() -> None:
    files = st.file_uploader(
        "Your documents: PDF, text or Markdown",
        type=uploads.TYPES,
        accept_multiple_files=True,
        key=f"first-upload-{st.session_state.get('uploads', 0)}",
    )
    if files:
        uploads.take_uploads(files)
        st.session_state["uploads"] = st.session_state.get("uploads", 0) + 1
        st.rerun()
    if st.button("Load the sample documents", type="primary", icon=":material/library_add:", key="load-samples"):
        uploads.take_in(samples.files())
        st.session_state.pop("outcomes", None)
        st.rerun()


def _sample_questions(filenames: set[str]) -> None:
    moments = samples.moments()
    if not moments or not filenames & {name for name, _ in samples.files()}:
        return
    block(el("p", "Try one of these", cls="soft"))
    shown = [m.question for m in moments[:3]]
    chosen = st.pills(
        "Try one of these", shown, key="pill", label_visibility="collapsed", format_func=lambda q: label(q)
    )
    if chosen:
        start(chosen)
    if st.button("Show me the three moments", icon=":material/play_circle:", type="tertiary", key="start-tour"):
        st.session_state["tour"] = 0
        start(moments[0].question)


def result(turn: Turn) -> None:
    """The receipt of the turn on screen, and what can be done with it."""
    _tour()
    draw(turn)
    _follow_ups(turn)
    _behind(turn)
    share.bar(turn, session.method(), session.include_query())
    _earlier(turn)


def draw(turn: Turn, *, compute: bool = True) -> None:
    """The receipt under the chosen method, and the page dialog where it was asked for."""
    name = session.method()
    attribution, why = session.provenance(turn, name, session.include_query(), compute=compute)
    if not compute and attribution is None and turn.attributions and name != "off":
        attribution = turn.attributions[0]
        name = attribution.method
    infos = session.method_infos()
    info = infos.get(name)
    cards = numbers.cards(turn, attribution, info, session.documents(), why or "not measured")
    page = receipt.draw(turn, cards, attribution, info, key=f"receipt-{turn.id or turn.asked_at}")
    if page is not None:
        page_view.open_dialog(turn, page)


def _follow_ups(turn: Turn) -> None:
    if not turn.sources or turn.answer is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("Shorter, please", key="shorter", icon=":material/short_text:"):
            start("Shorter, please.", follow_up=turn)
        st.toggle(
            "The next question keeps these sources",
            key="keep_sources",
            help="Nothing is fetched then, and no provenance is computed.",
        )


def _behind(turn: Turn) -> None:
    with st.expander(
        f"How it was made · {words.seconds(sum(t.seconds for t in turn.timings))}", icon=":material/timer:"
    ):
        st.html(working.how(turn))
        if turn.candidates:
            st.caption("Every candidate, with its rank at each stage. A dash: that stage did not return it.")
            st.dataframe(share.candidate_rows(turn), hide_index=True, alt="The candidates of this question")


def _earlier(turn: Turn) -> None:
    items = [(i, q) for i, q in st.session_state.get("earlier", []) if i != turn.id]
    if not items:
        return
    with st.expander(f"Earlier in this session · {len(items)}", icon=":material/history:"):
        for number, question in reversed(items[-20:]):
            st.page_link("app.py", label=f"#{number} {label(question, 90)}", query_params={"turn": str(number)})


def _tour() -> None:
    at = st.session_state.get("tour")
    moments = samples.moments()
    if at is None or at >= len(moments):
        return
    moment = moments[at]
    with st.container(border=True, key="tour-box"):
        block(
            el("p", el("b", f"Moment {at + 1} of {len(moments)}: {moment.name}"), cls="tour"),
            el("p", moment.look, cls="soft"),
        )
        with st.container(horizontal=True):
            last = at + 1 >= len(moments)
            if not last and st.button("Next moment", type="primary", icon=":material/arrow_forward:", key="tour-next"):
                st.session_state["tour"] = at + 1
                start(moments[at + 1].question)
            if st.button("End the tour", key="tour-end", type="tertiary"):
                st.session_state.pop("tour")
                st.rerun()


def stored_turn(number: str) -> None:
    """`?turn=ID`: a stored turn, read only."""
    id = share.turn_number(number)
    turn = None if id is None else session.engine().turn(id)
    if turn is None:
        st.warning(f"There is no turn #{label(number, 20)} in the log.", icon=":material/search_off:")
        if st.button("Ask a question", key="leave"):
            st.query_params.clear()
            st.rerun()
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Turn #{turn.id}, asked {share.when(turn.asked_at)}, read only: nothing is computed here.")
        if st.button("Work with it", key="adopt", icon=":material/edit_note:"):
            session.show(turn)
            st.query_params.clear()
            st.rerun()
    draw(turn, compute=False)
    _behind(turn)
    share.bar(turn, session.method(), session.include_query())
