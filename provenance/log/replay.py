"""Running a recorded search again under its recorded settings, and what differs."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from provenance.errors import ProvenanceError
from provenance.log.log import Log
from provenance.records import Candidate, Stage

if TYPE_CHECKING:
    from provenance.retrieval.search import Retriever

Value = str | int | float | bool | None
STAGES = ("lexical", "dense", "fused", "reranked")
TOLERANCE = 1e-4
"""Scores that differ by less are the same: another machine adds floats in another order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was recorded. `what` names it in words."""

    what: str
    recorded: Value
    now: Value


@dataclass(frozen=True, slots=True)
class Replay:
    """A search run again. `same` where nothing differs; `candidates` is what the search finds now."""

    turn_id: int
    same: bool
    differences: tuple[Difference, ...]
    candidates: tuple[Candidate, ...]


def search_settings(retriever: Retriever, documents: Collection[str] | None = None) -> dict[str, Value]:
    """The settings that decide a ranking, for `Log.start`: with them `replay` can run the search again."""
    from provenance.retrieval.search import DENSE_WEIGHT, DEPTH

    settings, store = retriever.settings, retriever.store
    hnsw = settings.provenance_search == "hnsw" and store.dialect == "postgresql"
    return {
        "search": "hnsw" if hnsw else "exact",
        "ef_search": settings.provenance_ef_search if hnsw else None,
        "depth": DEPTH,
        "dense_weight": DENSE_WEIGHT,
        "candidates": settings.provenance_candidates,
        "top_k": settings.provenance_top_k,
        "engine": store.dialect,
        "tokenizer": "receipts: snowball english" if store.dialect == "postgresql" else "fts5: porter unicode61",
        "embedder": retriever.embedder.name,
        "embedder_revision": retriever.embedder.revision,
        "embedder_dimension": retriever.embedder.dimension,
        "contextual": settings.provenance_contextual,
        "reranker": retriever.reranker.name if retriever.reranker else None,
        "rerank_weight": retriever.reranker.search_weight if retriever.reranker else None,
        "corpus_version": store.meta().get("corpus_version", "0"),
        "documents": None if documents is None else json.dumps(sorted(documents)),
    }


def recorded_documents(settings: Mapping[str, Value]) -> list[str] | None:
    """The document ids a recorded search was limited to, or None."""
    value = settings.get("documents")
    return None if not isinstance(value, str) else [str(id) for id in json.loads(value)]


def under_recorded(retriever: Retriever, recorded: Mapping[str, Value]) -> Retriever:
    """A retriever with the loaded models and the recorded settings."""
    names = {
        "candidates": "provenance_candidates",
        "top_k": "provenance_top_k",
        "search": "provenance_search",
        "ef_search": "provenance_ef_search",
        "contextual": "provenance_contextual",
    }
    changes: dict[str, Any] = {field: recorded[key] for key, field in names.items() if recorded.get(key) is not None}
    if "reranker" in recorded:
        changes["rerank"] = recorded["reranker"] is not None
    settings = replace(retriever.settings, **changes)
    return type(retriever)(retriever.store, retriever.embedder, retriever.reranker, settings)


def replay(log: Log, turn_id: int, retriever: Retriever) -> Replay:
    """Search again for a recorded turn and report every setting, passage, rank and score that differs.

    Raises ProvenanceError where there is no such turn, or where it fetched nothing of its own.
    """
    turn = log.turn(turn_id)
    if turn is None:
        raise ProvenanceError(f"There is no turn {turn_id} in the log.")
    if turn.sources_from is not None:
        raise ProvenanceError(f"Turn {turn_id} kept the sources of turn {turn.sources_from}: nothing was searched.")
    if turn.outcome == "started":
        raise ProvenanceError(f"Turn {turn_id} never finished: its candidates were not recorded.")
    documents = recorded_documents(turn.settings)
    again = under_recorded(retriever, turn.settings)
    found = tuple(again.search(str(turn.settings.get("query") or turn.question), documents))
    differences = [
        *_settings(turn.settings, search_settings(again, documents)),
        *_candidates(turn.candidates, found, log.deleted_documents()),
    ]
    return Replay(turn_id, not differences, tuple(differences), found)


def _settings(recorded: Mapping[str, Value], now: Mapping[str, Value]) -> list[Difference]:
    # A corpus that has changed matters where it changes the ranking, and that is compared by itself.
    names = [name for name in now if name in recorded and name not in ("corpus_version", "documents")]
    return [Difference(name, recorded[name], now[name]) for name in names if recorded[name] != now[name]]


def _candidates(
    recorded: Sequence[Candidate], now: Sequence[Candidate], deleted: Mapping[str, str]
) -> list[Difference]:
    before = {c.passage.id: (place, c) for place, c in enumerate(recorded, start=1)}
    after = {c.passage.id: (place, c) for place, c in enumerate(now, start=1)}
    differences = []
    for id, (place, candidate) in before.items():
        if id not in after:
            gone = candidate.passage.document_id in deleted
            why = "its document was deleted" if gone else "no longer among the candidates"
            differences.append(Difference(f"passage {id}", f"place {place}", why))
            continue
        there, found = after[id]
        if candidate.passage.text_hash != found.passage.text_hash:
            differences.append(
                Difference(f"text of {id} (SHA-256)", candidate.passage.text_hash, found.passage.text_hash)
            )
        for stage in STAGES:
            differences += _stage(f"{stage} of {id}", getattr(candidate, stage), getattr(found, stage))
        if place != there:
            differences.append(Difference(f"place of {id}", place, there))
    new = [Difference(f"passage {id}", None, f"place {place}") for id, (place, _) in after.items() if id not in before]
    return differences + new


def _stage(what: str, recorded: Stage | None, now: Stage | None) -> list[Difference]:
    if recorded is None or now is None:
        return [] if recorded is now else [Difference(what, _words(recorded), _words(now))]
    close = abs(recorded.score - now.score) <= TOLERANCE * max(1.0, abs(recorded.score))
    if recorded.rank == now.rank and close:
        return []
    return [Difference(what, _words(recorded), _words(now))]


def _words(stage: Stage | None) -> str:
    return "not returned" if stage is None else f"rank {stage.rank}, score {stage.score:.6g}"
