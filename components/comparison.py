"""The Compare screen: every method on one answer, and how far they agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from components import charts, session, words
from components.numbers import MethodInfo
from components.receipt import block
from components.safe import Safe, cell, el, label
from provenance.errors import ProvenanceError
from provenance.records import Attribution, Passage, Source, Turn

REFERENCE = "leave-one-out"
QUICK = ("attention", "attention-heads", "rerank", "similarity")
"""Methods that run as soon as the page opens; the others wait for a click."""
LIMIT = 20
"""Passages of a pasted answer, at most."""


@dataclass(frozen=True, slots=True)
class Pasted:
    """A question, an answer and passages from another system."""

    question: str
    answer: str
    documents: tuple[tuple[str, str], ...]


def screen() -> None:
    """The whole screen."""
    block(
        el("h1", "Compare", cls="title1"),
        el(
            "p",
            "Every provenance method on one answer. They make different claims; where they agree, trust grows.",
            cls="soft",
        ),
    )
    own, bring = st.tabs(["The answer on screen", "Bring your own answer"])
    with own:
        turn = session.current()
        if turn is None or not turn.sources or turn.answer is None:
            block(
                el(
                    "p",
                    "There is no answer with sources yet: ask a question first, or bring your own answer.",
                    cls="soft",
                )
            )
            st.page_link("app.py", label="Ask a question", icon=":material/forum:")
        else:
            _compare(turn, "own")
    with bring:
        _paste()
        if (turn := st.session_state.get("pasted-turn")) is not None:
            _compare(turn, "pasted")


def _compare(turn: Turn, key: str) -> None:
    block(
        el("p", turn.question, cls="question"),
        el("p", turn.answer.text if turn.answer else "", cls="plain"),
    )
    query = session.include_query()
    statuses = session.engine().method_status()
    able = [s.name for s in statuses if s.reason is None]
    infos = session.method_infos()
    why = session.why_not(turn, "any")
    if why is not None:
        block(el("p", f"No provenance for this turn: {why}.", cls="warn"))
        return
    place = st.container()
    ready = session.calibration_words() is not None
    quick = [n for n in able if n in QUICK and (ready or n != "attention-heads")]  # calibrating takes a minute
    turn = _ensure(turn, quick, query, place, key)
    missing = [n for n in able if turn.attribution(n, query) is None]
    if missing:
        costs = {s.name: s.cost for s in statuses}
        with st.container(horizontal=True, vertical_alignment="center"):
            wanted = [
                n
                for n in missing
                if st.button(f"Run {words.inside(infos[n].label)}", key=f"run-{key}-{n}", help=label(costs[n], None))
            ]
            if len(missing) > 1 and st.button("Run all", key=f"run-{key}-all", type="primary"):
                wanted = missing
        if wanted:
            _ensure(turn, wanted, query, place, key)
            st.rerun()
    done = [a for n in infos if (a := turn.attribution(n, query)) is not None]
    if done:
        _picture(done, infos, turn.sources)
        _agreement(done, infos)
        _costs(done, infos, statuses)
    calibration_card()


def _ensure(turn: Turn, names: Sequence[str], query: bool, place: Any, key: str) -> Turn:
    """The turn with the scores of these methods; each is shown as it is finished."""
    missing = [n for n in names if turn.attribution(n, query) is None]
    if not missing:
        return turn
    infos = session.method_infos()
    failed: dict[str, str] = st.session_state.setdefault(f"failed-{key}-{turn.asked_at}", {})
    with place:
        bar = st.empty()
    for at, name in enumerate(missing):
        if name in failed and name in QUICK:
            continue

        def progress(fraction: float, message: str, at: int = at, name: str = name) -> None:
            whole = min(1.0, max(0.0, (at + fraction) / len(missing)))
            bar.progress(whole, text=label(f"{infos[name].label}: {message}"))

        progress(0.0, "starting")
        try:
            got = session.engine().attribute(turn, name, query, progress)
        except ProvenanceError as error:
            failed[name] = str(error)
            continue
        failed.pop(name, None)
        turn = session.keep(turn, got)
        if key == "pasted":
            st.session_state["pasted-turn"] = turn
    bar.empty()
    for name, said in failed.items():
        place.caption(f"{infos[name].label} — failed: {label(said, None)}")
    return turn


def _picture(done: list[Attribution], infos: dict[str, MethodInfo], sources: tuple[Source, ...]) -> None:
    dark = st.context.theme.type == "dark"
    block(el("h2", "Sources × methods", cls="title2"))
    with st.container(key="heat-map"):  # scrolls sideways where the columns need more room than there is
        st.plotly_chart(
            charts.heat_map(done, infos, sources, dark),
            config={"displayModeBar": False},
            theme=None,
            key=f"heat-{len(done)}-{dark}-{hash(tuple(a.method for a in done))}",
            alt=charts.heat_alt(done, infos, sources),
        )
    block(
        el("p", charts.heat_alt(done, infos, sources), cls="hide"),
        el(
            "p",
            "Colour compares within a column only: shares for attention, leave one out and Shapley; for the others "
            "the raw score, coloured from 0 to the upper end of the method's own scale.",
            cls="soft small",
        ),
    )
    with st.expander("The table behind it", icon=":material/table_rows:"):
        st.dataframe(table(done, infos, sources), hide_index=True, alt="Raw scores of every source under every method")


def table(done: Sequence[Attribution], infos: dict[str, MethodInfo], sources: Sequence[Source]) -> list[dict[str, str]]:
    """Raw scores: one row per source, one column per method with its unit."""
    return [
        {
            "source": cell(f"{s.n} · {s.passage.title}, page {s.passage.page}"),
            **{f"{infos[a.method].label} ({infos[a.method].unit})": words.score(a.scores[i]) for a in done},
        }
        for i, s in enumerate(sources)
    ]


def _agreement(done: list[Attribution], infos: dict[str, MethodInfo]) -> None:
    if len(done) < 2:
        return
    block(
        el("h2", "Do they agree?", cls="title2"),
        el("p", "Rank correlation between methods over the sources (Spearman, −1 to +1).", cls="soft small"),
        el("div", agreement_table(done, infos), cls="scroll", tabindex=0, role="region", aria_label="Rank agreement"),
    )
    reference = next((a for a in done if a.method == REFERENCE), None)
    if reference is None:
        block(el("p", "Run leave one out to see how far each method agrees with the causal reference.", cls="soft"))
        return
    rows = []
    for item in done:
        if item.method == REFERENCE:
            continue
        same = charts.same_first(item.scores, reference.scores)
        rows.append(
            el(
                "tr",
                el("th", infos[item.method].label, scope="row"),
                el("td", charts.agreement_words(charts.rank_agreement(item.scores, reference.scores)), cls="num"),
                el("td", {True: "✓ same source first", False: "✗ another source first", None: "—"}[same]),
            )
        )
    head = el(
        "tr",
        el("th", "Method", scope="col"),
        el("th", "Rank agreement", scope="col", cls="num"),
        el("th", "First source", scope="col"),
    )
    block(
        el("h2", "Agreement with leave one out", cls="title2"),
        el(
            "p",
            "Leave one out asks what the answer loses without a passage: the causal reference here.",
            cls="soft small",
        ),
        el("table", el("thead", head), el("tbody", *rows)),
    )


def agreement_table(done: Sequence[Attribution], infos: dict[str, MethodInfo]) -> Safe:
    """Methods × methods with the rank correlation of each pair."""
    head = el("tr", el("th", "", scope="col"), *[el("th", infos[a.method].label, scope="col") for a in done])
    rows = []
    for first in done:
        cells = []
        for second in done:
            agreed = charts.agreement_words(charts.rank_agreement(first.scores, second.scores))
            figure, _, said = agreed.partition(" · ")
            # The words stand under the figure: beside it, seven methods would not fit.
            cells.append(el("td", "·") if first is second else el("td", figure, el("div", said, cls="soft small")))
        rows.append(el("tr", el("th", infos[first.method].label, scope="row"), *cells))
    return el("table", el("thead", head), el("tbody", *rows), cls="heat")


def _costs(done: list[Attribution], infos: dict[str, MethodInfo], statuses: Sequence[Any]) -> None:
    rows = []
    for item in done:
        said = [n for n in (item.reason,) if n]
        rows.append(
            el(
                "tr",
                el("th", infos[item.method].label, scope="row"),
                el("td", infos[item.method].kind),
                el("td", words.seconds(item.seconds), cls="num"),
                el("td", " · ".join(said) or "✓ every source measured"),
            )
        )
    for status in statuses:
        if status.reason is not None:
            rows.append(
                el(
                    "tr",
                    el("th", status.label, scope="row"),
                    el("td", status.kind),
                    el("td", words.DASH, cls="num"),
                    el("td", f"not available: {status.reason}", cls="warn"),
                )
            )
    head = el(
        "tr",
        *[
            el("th", t, scope="col", cls="num" if t == "Seconds" else None)
            for t in ("Method", "Claim", "Seconds", "State")
        ],
    )
    block(
        el("h2", "What each cost", cls="title2"),
        el(
            "div",
            el("table", el("thead", head), el("tbody", *rows)),
            cls="scroll",
            tabindex=0,
            role="region",
            aria_label="Costs",
        ),
    )


def calibration_card() -> None:
    """What the calibration of the loaded model found, in one sentence with its n."""
    said = session.calibration_words()
    block(
        el(
            "div",
            el("h2", "Calibration of this model", cls="title2 flush"),
            el("p", said or "Not measured for this model: attention heads are calibrated when the method first runs."),
            cls="panel",
        )
    )


def read_pasted(text: str) -> Pasted:
    """A pasted or uploaded case, `{question, answer, documents: [{title?, text}]}`. Raises ValueError in words."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"This is not JSON: {error.msg} in line {error.lineno}.") from None
    if isinstance(value, list):
        value = value[0] if value else {}
    if not isinstance(value, dict):
        raise ValueError("The JSON must be one object with question, answer and documents.")
    question, answer = value.get("question"), value.get("answer")
    documents = value.get("documents") or value.get("passages")
    if not isinstance(question, str) or not isinstance(answer, str) or not isinstance(documents, list):
        raise ValueError("The JSON needs question, answer and documents: [{title, text}].")
    made = []
    for at, item in enumerate(documents, start=1):
        body = item if isinstance(item, str) else item.get("text") if isinstance(item, dict) else None
        if not isinstance(body, str) or not body.strip():
            raise ValueError(f"Document {at} has no text.")
        title = item.get("title") if isinstance(item, dict) else None
        made.append((str(title or f"Passage {at}"), body))
    return checked(question, answer, made)


def read_form(question: str, answer: str, passages: str) -> Pasted:
    """As `read_pasted`, for the three fields; passages are parted by a line of three dashes or an empty line."""
    if "\n---" in passages:
        parts = [p.strip() for p in passages.split("\n---")]
    else:
        parts = [p.strip() for p in passages.split("\n\n")]
    return checked(question, answer, [(f"Passage {i}", p) for i, p in enumerate((p for p in parts if p), start=1)])


def checked(question: str, answer: str, documents: Sequence[tuple[str, str]]) -> Pasted:
    """The case, or a ValueError in words where something is missing."""
    if not question.strip() or not answer.strip():
        raise ValueError("A question and an answer are needed.")
    if not documents:
        raise ValueError("At least one passage is needed.")
    if len(documents) > LIMIT:
        raise ValueError(f"At most {LIMIT} passages can be compared; these are {len(documents)}.")
    return Pasted(question.strip(), answer.strip(), tuple(documents))


def _paste() -> None:
    st.caption("A question, an answer and the passages it was given, from any system. Nothing is logged.")
    with st.form("bring", border=True):
        question = st.text_input("Question", key="bring-question")
        answer = st.text_area("Answer", key="bring-answer", height=80)
        passages = st.text_area("Passages, with an empty line between them", key="bring-passages", height=160)
        file = st.file_uploader("Or a JSON file: question, answer, documents", type=["json", "jsonl"], key="bring-file")
        sent = st.form_submit_button("Attribute this answer", type="primary", icon=":material/balance:")
    if not sent:
        return
    try:
        if file is not None:
            lines = file.getvalue().decode("utf-8", errors="replace").strip()
            pasted = read_pasted(lines.splitlines()[0] if file.name.endswith(".jsonl") and lines else lines)
        else:
            pasted = read_form(question, answer, passages)
    except ValueError as error:
        st.error(label(str(error), None), icon=":material/error:")
        return
    st.session_state["pasted-turn"] = turn_of(pasted)


def turn_of(pasted: Pasted) -> Turn:
    """A turn without an id, as the engine attributes it: numbered sources, no prompt tokens, no answer tokens."""
    from datetime import UTC, datetime

    from provenance.records import Answer, Prompt, Span

    sources = tuple(
        Source(n, Passage(f"pasted:{n}:0", "pasted", title, 1, 0, len(text), text), text)
        for n, (title, text) in enumerate(pasted.documents, start=1)
    )
    prompt = Prompt(pasted.question, (), sources, (), (), pasted.question, Span(0, 0), None, "")
    return Turn(
        id=None,
        question=pasted.question,
        asked_at=datetime.now(UTC).isoformat(),
        outcome="answered",
        prompt=prompt,
        answer=Answer(pasted.answer, (), "pasted", ""),
    )
