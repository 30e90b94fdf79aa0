"""What the command line prints: turns and scores as JSON values with stable names, and as plain text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from provenance.ingest.files import Ingested
from provenance.log.log import DeletedDocument, Summary
from provenance.records import Attribution, Candidate, Source, Turn

_BY = {"model": "the model", "evidence": "evidence"}
_STAGES = (("reranked", "reranked score, 0 to 1"), ("fused", "fused score, 0 to 1"))


def ingested_json(read: Ingested) -> dict[str, Any]:
    """One object per file, as `ingest` prints it."""
    document = read.document
    return {
        "file": read.file,
        "status": read.status,
        "pages": len(read.pages),
        "pages_with_text": document.pages_with_text if document else 0,
        "characters": document.characters if document else 0,
        "passages": len(read.passages),
        "seconds": round(read.seconds, 3),
        "message": read.message,
        "document_id": document.id if document else None,
    }


def turn_json(turn: Turn, method: str, include_query: bool) -> dict[str, Any]:
    """A turn as `ask` prints it: one object per source with its retrieval, its provenance and its length share."""
    attribution = turn.attribution(method, include_query)
    candidates = {c.sent: c for c in turn.candidates if c.sent is not None}
    return {
        "question": turn.question,
        "answer": turn.answer.text if turn.answer else None,
        "outcome": turn.outcome,
        "reason": turn.reason,
        "log_id": turn.id,
        "sources": [_source(turn, source, candidates.get(source.n), attribution, method) for source in turn.sources],
        "citations": [asdict(citation) for citation in turn.citations],
        "sentences": [asdict(sentence) for sentence in turn.sentences],
        "quotes": [asdict(quote) for quote in turn.quotes] if turn.quotes is not None else None,
        "timings": {timing.step: round(timing.seconds, 4) for timing in turn.timings},
        "candidates": len(turn.candidates),
        "dropped": [
            {"passage_id": c.passage.id, "reason": c.dropped} for c in turn.candidates if c.dropped is not None
        ],
    }


def _source(
    turn: Turn, source: Source, candidate: Candidate | None, attribution: Attribution | None, method: str
) -> dict[str, Any]:
    length = next((item for item in turn.lengths if item.n == source.n), None)
    by = sorted({citation.by for citation in turn.citations if citation.exists and citation.n == source.n})
    return {
        "n": source.n,
        "title": source.passage.title,
        "page": source.passage.page,
        "passage_id": source.passage.id,
        "text": source.text,
        "cited": source.n in turn.cited,
        "cited_by": by[0] if by else None,
        "retrieval": _retrieval(candidate),
        "provenance": _provenance(turn, source.n, attribution, method),
        "_attribution_length": length.length if length else None,
        "_attribution_length_percentage": length.percentage if length else None,
    }


def _retrieval(candidate: Candidate | None) -> dict[str, Any]:
    """The last stage's rank and score with the name of its scale, and every stage below its own name."""
    found: dict[str, Any] = {"rank": None, "score": None, "scale": None}
    if candidate is None:
        return found | {"reason": "sources kept from an earlier turn: nothing was retrieved"}
    for name, scale in _STAGES:
        stage = getattr(candidate, name)
        if stage is not None:
            found = {"rank": stage.rank, "score": stage.score, "scale": scale}
            break
    for name in ("lexical", "dense", "fused", "reranked"):
        stage = getattr(candidate, name)
        found[name] = {"rank": stage.rank, "score": stage.score} if stage is not None else None
    return found


def _provenance(turn: Turn, n: int, attribution: Attribution | None, method: str) -> dict[str, Any]:
    if attribution is not None:
        return {"method": method, "score": attribution.scores[n - 1], "reason": attribution.reason}
    if method == "off":
        reason = "provenance is off"
    elif turn.sources_from is not None:
        reason = f"sources kept from #{turn.sources_from}: no provenance is computed"
    elif turn.outcome == "refused":
        reason = "the question was refused: there is no answer to attribute"
    else:
        reason = f"not measured: the turn was {turn.outcome}"
    return {"method": method, "score": None, "reason": reason}


def attribution_json(case_id: str | None, attribution: Attribution) -> dict[str, Any]:
    """One line of `attribute`."""
    return {
        "id": case_id,
        "method": attribution.method,
        "scores": list(attribution.scores),
        "reason": attribution.reason,
        "seconds": round(attribution.seconds, 4),
    }


def turn_text(value: dict[str, Any]) -> str:
    """What `turn_json` made, for people."""
    outcome = value["outcome"] + (f": {value['reason']}" if value["reason"] else "")
    lines = [value["answer"] or f"({outcome})", ""]
    for source in value["sources"]:
        retrieval, provenance = source["retrieval"], source["provenance"]
        share = source["_attribution_length_percentage"]
        cited = f" · cited by {_BY[source['cited_by']]}" if source["cited"] else ""
        lines.append(f"[{source['n']}] {source['title']}, page {source['page']}{cited}")
        lines.append(
            f"    retrieval {_figure(retrieval['score'])} (rank {retrieval['rank'] or '—'})"
            f" · {provenance['method']} {_figure(provenance['score'])}"
            f" · length share {'—' if share is None else f'{share} %'}"
        )
    reasons = {source["provenance"]["reason"] for source in value["sources"]} - {None}
    lines += [f"Provenance: {reason}" for reason in sorted(reasons)]
    for quote in value["quotes"] or ():
        lines.append(f"Quote “{quote['text']}”: {quote['verdict']}{', ' + quote['where'] if quote['where'] else ''}")
    lines.append(f"Logged as #{value['log_id']}")
    return "\n".join(lines)


def deleted_text(deleted: DeletedDocument) -> str:
    """A document of a turn that was deleted since, in one line."""
    sent = f"sent as {', '.join(f'[{n}]' for n in deleted.sources)}" if deleted.sources else "not sent"
    return f"Deleted since: {deleted.title} ({deleted.deleted_at[:10]}, {sent}). What is shown is what was recorded."


def summary_text(summary: Summary) -> str:
    """One line of `log list`, for people."""
    deleted = f"  {summary.deleted} of {summary.candidates} candidates deleted since" if summary.deleted else ""
    good, checked = summary.quotes or (0, 0)
    quotes = f"{good} of {checked} quotes good" if checked else "no quotes"
    if summary.quotes is None:
        quotes = "quotes not checked"
    return (
        f"#{summary.id}  {summary.asked_at}  {summary.outcome:9}  "
        f"{summary.cited} cited of {summary.sent} sent  {quotes}{deleted}  {' '.join(summary.question.split())}"
    )


def _figure(value: float | None) -> str:
    return "—" if value is None else f"{value:.3f}"
