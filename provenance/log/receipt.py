"""One turn as one HTML file: opens offline, prints on A4, runs nothing, loads nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from provenance.errors import ProvenanceError
from provenance.log.events import OUTCOMES, Event
from provenance.log.export import printable
from provenance.log.log import Log
from provenance.records import Attribution, Candidate, Stage, Turn

_STYLE = """
@page { size: A4; margin: 16mm 15mm }
:root { color-scheme: light }
* { box-sizing: border-box }
body { font: 10.5pt/1.45 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color: #1d2329; background: #fff;
  max-width: 180mm; margin: 8mm auto; padding: 0 4mm }
h1 { font-size: 17pt; margin: 0 0 1mm } h2 { font-size: 12pt; margin: 7mm 0 2mm; break-after: avoid }
.quiet { color: #57606a; font-size: 9pt } .hash { font: 8.5pt/1.4 ui-monospace, "DejaVu Sans Mono", monospace;
  overflow-wrap: anywhere }
.answer { white-space: pre-wrap; border-left: 1mm solid #0b6e69; padding: 1mm 0 1mm 4mm }
.passage { white-space: pre-wrap; background: #f6f8fa; padding: 2mm 3mm; margin: 1mm 0 3mm; font-size: 9.5pt }
table { border-collapse: collapse; width: 100%; font-size: 9pt; margin: 1mm 0 }
th, td { text-align: left; vertical-align: top; padding: 1mm 2mm 1mm 0; border-bottom: .2mm solid #d0d7de;
  overflow-wrap: anywhere }
th { font-weight: 600 } tr, .passage { break-inside: avoid }
@media print { body { margin: 0; padding: 0; max-width: none } }
"""

_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def export_receipt(log: Log, turn_id: int) -> str:
    """The receipt of a turn. Everything of it is escaped. Raises ProvenanceError where there is no such turn."""
    events = log.events(turn_id)
    turn = log.turn(turn_id)
    if turn is None:
        raise ProvenanceError(f"There is no turn {turn_id} in the log.")
    deleted = log.deleted_documents()
    return "".join(
        (
            "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>",
            "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            "<meta name='viewport' content='width=device-width, initial-scale=1'>",
            "<meta name='referrer' content='no-referrer'>",
            f"<title>Receipt {turn_id}</title><style>{_STYLE}</style></head><body>",
            _head(turn, events),
            _answer(turn),
            _sources(turn, deleted),
            _quotes(turn),
            _candidates(turn, deleted),
            _settings(turn, events),
            _events(events),
            "</body></html>\n",
        )
    )


def _head(turn: Turn, events: Sequence[Event]) -> str:
    row = next((e for e in reversed(events) if e.event in OUTCOMES), events[0])
    return (
        f"<header><h1>Receipt {turn.id}</h1><p class='quiet'>{_t(turn.asked_at)} · {_t(turn.outcome)}"
        f"{' · ' + _t(turn.reason) if turn.reason else ''}</p>"
        f"<p class='quiet'>Row {row.seq}, SHA-256<br><span class='hash'>{_t(row.hash)}</span></p></header>"
        f"<h2>Question</h2><p>{_t(turn.question)}</p>"
    )


def _answer(turn: Turn) -> str:
    if turn.answer is None:
        return f"<h2>Answer</h2><p>— no answer: {_t(turn.outcome)}</p>"
    cited = ", ".join(f"[{n}]" for n in turn.cited) or "nothing"
    missing = sorted({c.n for c in turn.citations if not c.exists})
    gone = f" · no such source: {', '.join(f'[{n}]' for n in missing)}" if missing else ""
    by = sorted({c.by for c in turn.citations if c.exists})
    return (
        f"<h2>Answer</h2><div class='answer'>{_t(turn.answer.text)}</div>"
        f"<p class='quiet'>{_t(turn.answer.model)} @ {_t(turn.answer.revision)} · cites {cited}"
        f"{' (by the ' + _t(' and the '.join(by)) + ')' if by else ''}{gone}</p>"
    )


def _sources(turn: Turn, deleted: Mapping[str, str]) -> str:
    if not turn.sources:
        return "<h2>Sources</h2><p>— none were sent.</p>"
    methods = [_method(a) for a in turn.attributions]
    lengths = {share.n: share for share in turn.lengths}
    rows, texts = [], []
    for i, source in enumerate(turn.sources):
        share = lengths.get(source.n)
        passage = source.passage
        place = _place(passage.title, passage.page, deleted.get(passage.document_id))
        rows.append(
            [
                f"[{source.n}]",
                place,
                _t("cited" if source.n in turn.cited else "not cited"),
                f"{share.percentage:.2f} % ({share.length:,} characters)" if share else "—",
                *(_score(a, i) for a in turn.attributions),
            ]
        )
        texts.append(
            f"<p class='quiet'>[{source.n}] {place} · passage {_t(passage.id)}<br>"
            f"<span class='hash'>{passage.text_hash}</span></p><div class='passage'>{_t(source.text)}</div>"
        )
    head = ["n", "Document", "Citation", "Length share", *methods]
    return f"<h2>Sources</h2>{_table(head, rows)}<h2>Passages as sent</h2>{''.join(texts)}"


def _quotes(turn: Turn) -> str:
    if turn.quotes is None:
        return "<h2>Quotes</h2><p>— not checked.</p>"
    if not turn.quotes:
        return "<h2>Quotes</h2><p>The answer quotes nothing.</p>"
    rows = [
        [
            f"“{_t(q.text)}”",
            _t(q.verdict),
            _t(q.where or "—"),
            _t("; ".join((*q.normalised, *(f"left out: {words}" for words in q.omitted), q.reason or "")).strip("; ")),
        ]
        for q in turn.quotes
    ]
    return f"<h2>Quotes</h2>{_table(['Quote', 'Verdict', 'Where', 'How'], rows)}"


def _candidates(turn: Turn, deleted: Mapping[str, str]) -> str:
    if not turn.candidates:
        return ""
    rows = [
        [
            _place(c.passage.title, c.passage.page, deleted.get(c.passage.document_id)),
            *map(_stage, _stages(c)),
            _sent(c),
        ]
        for c in turn.candidates
    ]
    head = ["Candidate", "Lexical", "Dense", "Fused", "Reranked", "Sent"]
    return f"<h2>Retrieval</h2><p class='quiet'>Rank and score at each stage.</p>{_table(head, rows)}"


def _settings(turn: Turn, events: Sequence[Event]) -> str:
    program = events[0].payload.get("program")
    rows = [[_t(name), _t("—" if value is None else value)] for name, value in sorted(turn.settings.items())]
    if isinstance(program, dict):  # else the row was damaged
        rows += [[_t(f"version of {name}"), _t(value)] for name, value in program.items()]
    rows += [[_t(f"seconds: {timing.step}"), f"{timing.seconds:.3f}"] for timing in turn.timings]
    if turn.prompt:
        rows.append(["prompt, SHA-256", f"<span class='hash'>{turn.prompt.hash}</span>"])
    return f"<h2>Settings</h2>{_table(['Name', 'Value'], rows)}"


def _events(events: Sequence[Event]) -> str:
    rows = [[str(e.seq), _t(e.event), _t(e.at), f"<span class='hash'>{_t(e.hash)}</span>"] for e in events]
    return (
        f"<h2>Rows of the log</h2>{_table(['Row', 'Event', 'At', 'SHA-256'], rows)}"
        "<p class='quiet'>Each hash covers its row and the hash of the row before. "
        "<code>python -m provenance log verify</code> checks them all.</p>"
    )


def _stages(candidate: Candidate) -> tuple[Stage | None, ...]:
    return (candidate.lexical, candidate.dense, candidate.fused, candidate.reranked)


def _stage(stage: Stage | None) -> str:
    return "—" if stage is None else f"#{stage.rank} ({stage.score:.4g})"


def _sent(candidate: Candidate) -> str:
    return f"[{candidate.sent}]" if candidate.sent is not None else _t(candidate.dropped or "no")


def _method(attribution: Attribution) -> str:
    return _t(attribution.method + (" + question" if attribution.include_query else ""))


def _score(attribution: Attribution, i: int) -> str:
    score = attribution.scores[i] if i < len(attribution.scores) else None
    return f"{score:.4g}" if score is not None else f"— {_t(attribution.reason or 'not measured')}"


def _place(title: str, page: int, deleted: str | None) -> str:
    gone = f" <span class='quiet'>(document deleted {_t(deleted[:10])})</span>" if deleted else ""
    return f"{_t(title)}, page {page}{gone}"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of cells that are HTML already."""
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr></thead><tbody>{body}</tbody></table>"


def _t(value: object) -> str:
    """Untrusted text as HTML: escaped, without control characters, and unable to turn the reading direction."""
    return f"<bdi>{escape(_BIDI.sub('', printable(str(value))))}</bdi>"
