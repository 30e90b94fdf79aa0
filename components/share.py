"""Taking an answer away: Markdown with its citations, the turn as JSON, a link that opens it again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import streamlit as st

from components import words
from components.safe import cell, file_name, markdown_text
from provenance.records import Candidate, Stage, Turn


def turn_number(asked: str | None) -> int | None:
    """The number of a turn in an address, or None where it is none: `²` and a thousand digits are not."""
    return int(asked) if asked and asked.isdecimal() and len(asked) < 30 else None


def when(moment: str) -> str:
    """An ISO 8601 moment as `30 Nov 2026, 10:00 UTC`."""
    try:
        at = datetime.fromisoformat(moment).astimezone(UTC)
    except ValueError:
        return moment
    return f"{at.day} {at:%b %Y, %H:%M} UTC"


def as_markdown(turn: Turn, method: str, include_query: bool) -> str:
    """The question, the answer with its citations, and a list of the cited sources with their figures."""
    lines = [f"**{markdown_text(turn.question)}**", "", _cited_text(turn), ""]
    attribution = turn.attribution(method, include_query)
    lengths = {item.n: item for item in turn.lengths}
    for source in turn.sources:
        if source.n not in turn.cited:
            continue
        said = [f"page {source.passage.page}"]
        if source.n in lengths:
            said.append(f"length share {words.percentage(lengths[source.n].percentage)}")
        if attribution is not None and attribution.scores[source.n - 1] is not None:
            said.append(f"{method} {words.score(attribution.scores[source.n - 1])}")
        lines.append(f"{source.n}. {markdown_text(source.passage.title)}, {', '.join(said)}")
    if turn.id is not None:
        lines += ["", f"Receipts, turn #{turn.id}, {when(turn.asked_at)}"]
    return "\n".join(lines).rstrip() + "\n"


def _cited_text(turn: Turn) -> str:
    if turn.answer is None:
        return f"_{markdown_text(turn.reason or turn.outcome)}_"
    text, out, at = turn.answer.text, [], 0
    for citation in sorted(turn.citations, key=lambda c: (c.start, c.end, c.n)):
        if citation.start != citation.end or not citation.exists:
            continue
        out.append(markdown_text(text[at : citation.start]))
        out.append(f" \\[{citation.n}\\]")
        at = citation.start
    return "".join([*out, markdown_text(text[at:])])


def as_json(turn: Turn) -> str:
    """The whole record."""
    from provenance.codec import to_json

    return json.dumps(to_json(turn), ensure_ascii=False, indent=2)


def bar(turn: Turn, method: str, include_query: bool) -> None:
    """The ways to take a turn away."""
    with st.container(horizontal=True, vertical_alignment="center", key="share"):
        with st.popover("Copy as Markdown", icon=":material/content_copy:"):
            st.code(as_markdown(turn, method, include_query), language=None, wrap_lines=True)
        name = f"receipt-{turn.id or file_name(turn.question)}"
        st.download_button(
            "The turn as JSON",
            lambda: as_json(turn),
            file_name=f"{name}.json",
            mime="application/json",
            icon=":material/data_object:",
            on_click="ignore",
            key=f"json-{turn.id}",
        )
        if turn.id is not None:
            st.page_link(
                "app.py", label="Link to this turn", icon=":material/link:", query_params={"turn": str(turn.id)}
            )
            st.page_link(
                "pages/audit.py", label="In the log", icon=":material/fact_check:", query_params={"log": str(turn.id)}
            )


def candidate_rows(turn: Turn) -> list[dict[str, Any]]:
    """The table behind the funnel: one row per candidate."""
    return [_row(c) for c in sorted(turn.candidates, key=_place)]


def _row(candidate: Candidate) -> dict[str, Any]:
    return {
        "sent as": str(candidate.sent) if candidate.sent else words.DASH,
        "passage": cell(f"{candidate.passage.title}, page {candidate.passage.page}"),
        "lexical (BM25)": _stage(candidate.lexical),
        "dense (cosine)": _stage(candidate.dense),
        "fused": _stage(candidate.fused),
        "reranked": _stage(candidate.reranked),
        "why not sent": candidate.dropped or "",
    }


def _stage(stage: Stage | None) -> str:
    return words.DASH if stage is None else f"{words.ordinal(stage.rank)} · {words.score(stage.score)}"


def _place(candidate: Candidate) -> tuple[int, int]:
    stage = candidate.reranked or candidate.fused or candidate.dense or candidate.lexical
    return candidate.sent or 10_000, stage.rank if stage else 10_000
