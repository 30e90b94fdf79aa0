"""The Audit screen: the table of turns, one turn with everything recorded, the chain, quotes and triage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from components import numbers, session, share, words, working
from components.answer import answer, question, strip
from components.receipt import block, outcome
from components.safe import Safe, cell, el, label
from provenance.errors import ProvenanceError
from provenance.records import Attribution, Turn

if TYPE_CHECKING:
    from provenance.log import DeletedDocument

LIMIT = 200
RECALL_AT = 20


def screen() -> None:
    """The whole screen."""
    block(
        el("h1", "Audit", cls="title1"),
        el("p", "Every question leaves a row, written while it runs. Nothing in the log is ever changed.", cls="soft"),
    )
    log = session.engine().log
    asked = st.query_params.get("log")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        search = st.text_input("Search the questions", key="audit-search", icon=":material/search:", width=320)
        chosen = st.selectbox("Outcome", ["all", *list(words.OUTCOMES)[1:], "started"], key="audit-outcome", width=160)
        if st.button("Verify the log", icon=":material/verified_user:", key="verify"):
            st.session_state["verification"] = log.verify()
        _downloads()
    _verified()
    turns = log.turns(LIMIT, outcome=None if chosen == "all" else chosen, search=search or None)
    number = _table(turns)
    if number is None:
        number = share.turn_number(asked)
    if number is None:
        _recall()
        return
    turn = log.turn(number)
    if turn is None:
        st.warning(f"There is no turn #{number} in the log.", icon=":material/search_off:")
        return
    _detail(turn)


def rows(turns: Sequence[Any], chain: str) -> list[dict[str, Any]]:
    """The table: one row per turn."""
    return [
        {
            "#": t.id,
            "asked": share.when(t.asked_at),
            "question": cell(t.question),
            "outcome": words.OUTCOMES[t.outcome],
            "cited / sent": f"{t.cited} / {t.sent}",
            "quotes": quotes_said(t.quotes),
            "chain": chain,
            "provenance": ", ".join(t.methods) or words.DASH,
        }
        for t in turns
    ]


def quotes_said(quotes: tuple[int, int] | None) -> str:
    """`2 of 3 exact`, `none`, or a dash where they were not checked."""
    if quotes is None:
        return words.DASH
    return f"{quotes[0]} of {quotes[1]} exact" if quotes[1] else "none"


def chain_said(verification: Any) -> str:
    """The state of the chain for the table, in words."""
    if verification is None:
        return "not verified yet"
    return "✓ intact" if verification.ok else f"✗ broken at row {verification.broken}"


def _table(turns: Sequence[Any]) -> int | None:
    if not turns:
        block(el("p", "Nothing is logged yet. Ask a question, and it stands here.", cls="soft"))
        return None
    chain = chain_said(st.session_state.get("verification"))
    event = st.dataframe(
        rows(turns, chain),
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key="audit-table",
        column_config={"question": st.column_config.TextColumn(width="large")},
        alt="The log: one row per question",
    )
    chosen = event.selection.rows  # type: ignore[union-attr]
    return turns[chosen[0]].id if chosen and chosen[0] < len(turns) else None


def _verified() -> None:
    found = st.session_state.get("verification")
    if found is None:
        return
    if found.ok:
        head = f"The head is {found.head}: keep it elsewhere, and a cut-off end can be told." if found.head else ""
        st.success(
            f"{words.count(found.rows, 'row')} verified, the chain is intact. {label(head, None)}",
            icon=":material/verified:",
        )
    else:
        st.error(
            f"The chain breaks at row {found.broken}: {label(found.reason or 'the hash does not match', None)}",
            icon=":material/broken_image:",
        )


def _downloads() -> None:
    log = session.engine().log
    with st.popover("Download", icon=":material/download:"):
        for name, make, mime, suffix in (
            ("Every row as JSONL", _jsonl, "application/x-ndjson", "jsonl"),
            ("One line per turn as CSV", _csv, "text/csv", "csv"),
        ):
            st.download_button(
                name,
                lambda make=make: make(log),
                file_name=f"receipts-log.{suffix}",
                mime=mime,
                on_click="ignore",
                key=f"log-{suffix}",
                icon=":material/description:",
                width="stretch",
            )


def _jsonl(log: Any) -> str:
    from provenance.log.export import export_jsonl

    return "".join(export_jsonl(log))


def _csv(log: Any) -> str:
    from provenance.log.export import export_csv

    return export_csv(log)


def _detail(turn: Turn) -> None:
    with st.container(horizontal=True, vertical_alignment="center", key="share"):
        block(el("h2", f"#{turn.id}", cls="title2 flush"))
        block(el("span", f"{share.when(turn.asked_at)} · {words.OUTCOMES[turn.outcome]}", cls="soft"))
        st.page_link("app.py", label="Open in Ask", icon=":material/forum:", query_params={"turn": str(turn.id)})
        st.page_link("pages/audit.py", label="Link", icon=":material/link:", query_params={"log": str(turn.id)})
        _receipt_download(turn)
    first: Attribution | None = turn.attributions[0] if turn.attributions else None  # the one it was asked with
    infos = session.method_infos()
    block(
        question(turn.question),
        outcome(turn),
        answer(turn),
        strip(turn, first, infos.get(first.method) if first else None),
        *map(deleted_said, session.engine().log.deleted_since(turn)),
    )
    names = ["Sources", "Candidates", "Quotes", "Where did it get lost?", "Settings", "Rows"]
    sources, candidates, quotes, lost, settings, events = st.tabs(names)
    with sources:
        _sources(turn, infos)
    with candidates:
        said = " · ".join(numbers.dropped(turn))
        st.caption("Rank and score at each stage. " + (f"Not sent: {label(said, None)}." if said else ""))
        if turn.candidates:
            st.dataframe(share.candidate_rows(turn), hide_index=True, alt="The candidates of this question")
        else:
            block(el("p", "Nothing was fetched for this turn.", cls="soft"))
    with quotes:
        block(quote_list(turn))
    with lost:
        _lost(turn)
    with settings:
        _settings(turn)
    with events:
        _events(turn)


def deleted_said(deleted: DeletedDocument) -> Safe:
    """That a document of the turn is gone, and that what is shown of it is what the log holds."""
    sent = f"sent as {', '.join(f'[{n}]' for n in deleted.sources)}" if deleted.sources else "a candidate, not sent"
    return el(
        "p",
        el("b", deleted.title),
        f" ({sent}) was deleted on {share.when(deleted.deleted_at)}. Its passages stand here as they were recorded.",
        cls="warn",
    )


def _sources(turn: Turn, infos: dict[str, Any]) -> None:
    if not turn.sources:
        block(el("p", "No passage was sent.", cls="soft"))
        return
    lengths = {item.n: item for item in turn.lengths}
    made = []
    for i, source in enumerate(turn.sources):
        row = {
            "source": str(source.n),
            "passage": cell(f"{source.passage.title}, page {source.passage.page}"),
            "cited": "cited" if source.n in turn.cited else "not cited",
            "length share": words.percentage(lengths[source.n].percentage) if source.n in lengths else words.DASH,
        }
        for item in turn.attributions:
            info = infos.get(item.method)
            name = (info.label if info else item.method) + (" + question" if item.include_query else "")
            name += f", {numbers.short_unit(info)}" if info and numbers.short_unit(info) != info.name else ""
            row[name] = words.score(item.scores[i]) if i < len(item.scores) else words.DASH
        made.append(row)
    st.dataframe(made, hide_index=True, alt="The sources of this turn with every score recorded")
    for item in turn.attributions:
        if item.reason:
            st.caption(f"{label(item.method)}: {label(item.reason, None)}")


def quote_list(turn: Turn) -> Safe:
    """Every quote with its verdict, where it was found, and what was normalised or left out."""
    if turn.quotes is None:
        return el("p", "The quotes of this turn were not checked.", cls="soft")
    if not turn.quotes:
        return el("p", "No quotes: the answer quotes nothing, so nothing was verified.", cls="soft")
    made = []
    for quote in turn.quotes:
        sign, said = words.VERDICTS[quote.verdict]
        detail = [
            quote.where,
            f"normalised: {', '.join(quote.normalised)}" if quote.normalised else None,
            f"left out: {' … '.join(quote.omitted)}" if quote.omitted else None,
            quote.reason,
        ]
        tone = "good" if quote.verdict in ("exact", "normalised") else "bad" if quote.verdict == "not found" else "warn"
        made.append(
            el(
                "div",
                el(
                    "p",
                    el("b", f"{sign} {said.capitalize()}", cls=tone),
                    el("span", " · ".join(d for d in detail if d), cls="soft gap"),
                ),
                el("blockquote", quote.text, cls="excerpt"),
                cls="panel",
            )
        )
    return el("div", *made)


def _settings(turn: Turn) -> None:
    pairs = [
        piece for k, v in turn.settings.items() for piece in (el("dt", k), el("dd", words.DASH if v is None else v))
    ]
    if turn.answer:
        pairs += [el("dt", "writer"), el("dd", f"{turn.answer.model} · {turn.answer.revision}")]
    if turn.prompt:
        pairs += [el("dt", "prompt, SHA-256"), el("dd", turn.prompt.hash)]
    block(el("dl", *pairs, cls="facts"))
    st.html(working.how(turn))


def _events(turn: Turn) -> None:
    for event in session.engine().log.events(turn.id):
        with st.expander(f"Row {event.seq} · {label(event.event)} · {share.when(event.at)}"):
            block(el("p", f"hash {event.hash}", cls="soft small"))
            st.code(json.dumps(event.payload, ensure_ascii=False, indent=1)[:20_000], language=None, wrap_lines=True)


def _receipt_download(turn: Turn) -> None:
    from provenance.log.receipt import export_receipt

    st.download_button(
        "Receipt as HTML",
        lambda: export_receipt(session.engine().log, int(turn.id or 0)),
        file_name=f"receipt-{turn.id}.html",
        mime="text/html",
        on_click="ignore",
        key=f"html-{turn.id}",
        icon=":material/receipt_long:",
    )


# Where did it get lost?


def _lost(turn: Turn) -> None:
    from provenance.log.triage import mark, triage

    with st.form(f"lost-{turn.id}", border=False):
        expected = st.text_area("Paste the text that should have been used", height=90, key=f"expected-{turn.id}")
        sent = st.form_submit_button("Where did it get lost?", icon=":material/travel_explore:", type="primary")
    if sent and expected.strip():
        engine = session.engine()
        try:
            with st.spinner("Looking at every stage"):
                found = triage(
                    turn,
                    expected.strip(),
                    engine.store,
                    engine.retriever(),
                    method=None if session.method() == "off" else session.method(),
                    include_query=session.include_query(),
                )
                mark(engine.log, turn.id, expected.strip(), found)
            st.session_state[f"triage-{turn.id}"] = found
        except ProvenanceError as error:
            st.error(label(str(error), None), icon=":material/error:")
    found = st.session_state.get(f"triage-{turn.id}")
    if found is not None:
        block(triage_path(found))
    _recall()


def triage_path(found: Any) -> Safe:
    """The stops from the documents to the citation, as far as the text came, and what moves it on."""
    from provenance.log.triage import STOPS

    at = STOPS.index(found.stop)
    arrived = found.stop == STOPS[-1]
    ranks = found.ranks
    known = [
        f"{name} rank {value}" if value else f"{name}: not within the first 1,000"
        for name, value in (
            ("lexical", ranks.lexical),
            ("dense", ranks.dense),
            ("fused", ranks.fused),
            ("exact", ranks.exact),
        )
    ]
    stage = STAGE_OF[found.stop]
    items = []
    for i, name in enumerate(STAGES):
        state = "ok" if i < stage or (arrived and i == stage) else "lost" if i == stage else "later"
        sign = {"ok": "✓", "lost": "!", "later": "·"}[state]
        items.append(
            el(
                "li",
                el("span", sign, cls="at", aria_hidden="true"),
                el("b", name if state != "lost" else f"{name}: {found.stop}", cls="soft" if state == "later" else None),
                el("p", found.detail) if i == stage else None,
                el("p", f"Move it with {found.setting}.", cls="soft") if i == stage and found.setting else None,
                cls=state,
            )
        )
    return el(
        "div",
        el("ol", *items, cls="path"),
        el("p", " · ".join(known), cls="soft small") if ranks.measured else None,
        cls="panel",
        data_stop=STOPS[at],
    )


STAGES = ("In the documents", "Retrieved", "Sent", "Used", "Cited")
STAGE_OF = {
    "not in the documents": 0,
    "on a page without text": 0,
    "never retrieved": 1,
    "cut by the reranker": 2,
    "below the top k": 2,
    "over budget": 2,
    "sent, use not measured": 3,
    "sent, not used": 3,
    "used, not cited": 4,
    "cited": 4,
}
"""At which stage each stop of the triage stands."""


def _recall() -> None:
    from provenance.log.triage import recall

    found = recall(session.engine().log, RECALL_AT)
    if not found.n:
        return
    parts = [
        f"{name} {value:.2f} (lost {1 - value:.2f})"
        for name, value in (("lexical", found.lexical), ("dense", found.dense), ("fused", found.fused))
        if value is not None
    ]
    absent = f" · {found.absent} more are not in the documents" if found.absent else ""
    block(
        el(
            "p",
            el("b", f"recall@{found.at}"),
            f" over {words.count(found.n, 'marked question')}: {' · '.join(parts)}{absent}",
            cls="soft",
        )
    )
