"""How well retrieval finds the judged passages: recall@5, recall@20 and nDCG@10 at every stage."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from provenance.errors import ProvenanceError, Unavailable
from provenance.records import Candidate, Document, Page, Passage, Stage
from provenance.retrieval.embedder import Embedder, load_embedder
from provenance.retrieval.reranker import Reranker, load_reranker
from provenance.retrieval.search import Retriever
from provenance.settings import Settings
from provenance.store import Store, open_store
from provenance.store.words import index_text

STAGES = ("lexical", "dense", "fused", "reranked")
_BOOTSTRAP = 2000


@dataclass(frozen=True, slots=True)
class Judged:
    """A corpus, its queries, and which passages answer each: `qrels[query][passage] = gain`."""

    corpus: tuple[dict[str, str], ...]
    queries: dict[str, str]
    qrels: dict[str, dict[str, float]]


def evaluate_retrieval(folder: Path, settings: Settings, *, contextual: bool = False) -> dict[str, Any]:
    """Search every query of a BEIR-style folder (corpus.jsonl, queries.jsonl, qrels.tsv).

    Returns `{"queries": n, "passages": n, "contextual": …, "stages": {stage: {metric: value}}}`,
    each metric with its 95 % bootstrap interval over the queries under `metric + "_interval"`.
    `reranked` is None, with a `reason`, where no reranker can be had. `contextual` indexes every
    passage below its title. Raises ProvenanceError where the folder cannot be read.
    """
    judged = read_judged(folder)
    embedder = load_embedder(settings)
    reranker, reason = _reranker(settings)
    with tempfile.TemporaryDirectory(prefix="receipts-evaluate-") as scratch:
        store = open_store(f"sqlite:///{Path(scratch) / 'judged.sqlite3'}")
        try:
            names = index(store, judged.corpus, embedder, contextual=contextual)
            retriever = Retriever(store, embedder, reranker, replace(settings, provenance_contextual=contextual))
            runs = {q: run(retriever, text, names) for q, text in judged.queries.items() if judged.qrels.get(q)}
        finally:
            store.close()
    stages: dict[str, dict[str, Any] | None] = {
        stage: summary([scores(found[stage], judged.qrels[q]) for q, found in runs.items()]) for stage in STAGES[:3]
    }
    stages["reranked"] = (
        summary([scores(found["reranked"], judged.qrels[q]) for q, found in runs.items()]) if reranker else None
    )
    result = {"queries": len(runs), "passages": len(judged.corpus), "contextual": contextual, "stages": stages}
    return result if reason is None else {**result, "reason": reason}


def read_judged(folder: Path) -> Judged:
    """Read a BEIR-style folder. Raises ProvenanceError that names what is missing or malformed."""
    try:
        corpus = tuple(_lines(folder / "corpus.jsonl"))
        queries = {row["_id"]: row["text"] for row in _lines(folder / "queries.jsonl")}
        qrels: dict[str, dict[str, float]] = {}
        with (folder / "qrels.tsv").open(encoding="utf-8", newline="") as stream:
            for row in csv.DictReader(stream, delimiter="\t"):
                if float(row["score"]) > 0:
                    qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = float(row["score"])
        if any("_id" not in row or "text" not in row for row in corpus):
            raise KeyError("_id and text")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProvenanceError(
            f"{folder} is not a retrieval set (corpus.jsonl, queries.jsonl, qrels.tsv): {error}"
        ) from error
    if not any(q in qrels for q in queries):
        raise ProvenanceError(f"{folder} judges no passage for any of its queries.")
    return Judged(corpus, queries, qrels)


def index(
    store: Store, corpus: Sequence[Mapping[str, str]], embedder: Embedder, *, contextual: bool = False
) -> dict[str, str]:
    """Put every row into the store as a document of one passage; returns passage id → row id."""
    passages = [_passage(row) for row in corpus]
    vectors = embedder.encode([index_text(passage, contextual) for passage in passages])
    for row, passage, vector in zip(corpus, passages, vectors, strict=True):
        document = Document(
            passage.document_id, passage.title, f"{row['_id']}.txt", "txt", 1, 1, len(passage.text), passages=1
        )
        page = Page(1, passage.text)
        name = f"{embedder.name}@{embedder.revision}"
        store.add_document(
            document, [page], [passage], vector[None], embedder=name, original=b"", contextual=contextual
        )
    return {passage.id: row["_id"] for row, passage in zip(corpus, passages, strict=True)}


def run(retriever: Retriever, question: str, names: Mapping[str, str]) -> dict[str, list[str]]:
    """Row ids at every stage, best first. Lexical and dense are the whole lists, not just what both kept."""
    candidates = retriever.search(question)
    return {
        "lexical": [names[id] for id, _ in retriever.lexical(question)],
        "dense": [names[id] for id, _ in retriever.dense(question)],
        "fused": _ordered([(c, c.fused) for c in candidates], names),
        "reranked": _ordered([(c, c.reranked) for c in candidates], names),
    }


def scores(found: Sequence[str], gains: Mapping[str, float]) -> dict[str, float]:
    """recall@5, recall@20 and nDCG@10 of one ranked list; gains are linear, the ideal list is the judged one."""
    ideal = sorted(gains.values(), reverse=True)[:10]
    return {
        "recall@5": sum(id in gains for id in found[:5]) / len(gains),
        "recall@20": sum(id in gains for id in found[:20]) / len(gains),
        "ndcg@10": _dcg([gains.get(id, 0.0) for id in found[:10]]) / _dcg(ideal),
    }


def summary(rows: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The mean of every metric over the queries, with its 95 % percentile bootstrap interval."""
    generator = np.random.default_rng(0)
    picks = generator.integers(0, len(rows), (_BOOTSTRAP, len(rows)))
    result: dict[str, Any] = {}
    for metric in rows[0]:
        values = np.array([row[metric] for row in rows])
        low, high = np.quantile(values[picks].mean(axis=1), [0.025, 0.975])
        result[metric] = round(float(values.mean()), 4)
        result[f"{metric}_interval"] = [round(float(low), 4), round(float(high), 4)]
    return result


def _dcg(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


def _ordered(places: Sequence[tuple[Candidate, Stage | None]], names: Mapping[str, str]) -> list[str]:
    known = [(stage.rank, names[candidate.passage.id]) for candidate, stage in places if stage is not None]
    return [name for _, name in sorted(known)]


def _passage(row: Mapping[str, str]) -> Passage:
    document = hashlib.sha256(str(row["_id"]).encode("utf-8")).hexdigest()
    text = row["text"]
    return Passage(f"{document[:16]}:1:0", document, row.get("title", ""), 1, 0, len(text), text)


def _reranker(settings: Settings) -> tuple[Reranker | None, str | None]:
    if not settings.rerank:
        return None, "rerank is off"
    try:
        return load_reranker(settings), None
    except Unavailable as error:
        return None, str(error)


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as stream:
        return [json.loads(line) for line in stream if line.strip()]
