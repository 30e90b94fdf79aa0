"""How much each search counts: the fused order beside its better half, and the reranked one beside the fused.

Measured on the training questions that lie beside the repository, so that the weights may be chosen here:
their paragraphs among those of another set, as they are; each with a notice and sentences of
another paragraph around it, as pages of a report have; and with half of the question's words kept from
the search for words, as where a text says the same thing in others.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.table import Goal, Row
from provenance.evaluation.retrieval import index, scores
from provenance.retrieval.embedder import load_embedder
from provenance.retrieval.reranker import load_reranker
from provenance.retrieval.search import DENSE_WEIGHT, Retriever, fuse
from provenance.settings import load_settings
from provenance.store import open_store
from provenance.store.words import content_words, index_text

TRAINING = Path(__file__).parents[1] / "../shared/data/train"
DENSE_WEIGHTS, RERANK_WEIGHTS = (0.4, 0.5, 0.6, 0.7, 0.8), (0.1, 0.2, 0.3, 0.5, 1.0)
HOLDS = Goal(-0.01, of="value", least=True)
_NOTICE = (
    "This report looks back on the year and ahead. What was done, how many people took part, when and where the board "
    "met and who its members were is told in the notes. The first and the last year shown are those of the report."
)
_OTHERS = 2000  # paragraphs that answer none of the questions
Ranked = list[tuple[str, float]]


def run(quick: bool) -> list[Row]:
    """nDCG@10 of each kind of text, as the weights in force give it; the notes have other weights."""
    if not (TRAINING / "xquad.jsonl").is_file():
        return [Row("fusion", None, note="../shared/data/train is absent")]
    questions, paragraphs = _training(60 if quick else 240)
    noisy = _with_notices(paragraphs)
    return [
        *_kind("as they are", questions, paragraphs, lambda question: question),
        *_kind("among notices", questions, noisy, lambda question: question),
        *_kind("half the words", questions, paragraphs, _half),
    ]


def _training(count: int) -> tuple[list[tuple[str, str]], dict[str, dict[str, str]]]:
    """Questions with the id of their paragraph, and all paragraphs by id."""
    items = [json.loads(line) for line in (TRAINING / "xquad.jsonl").open(encoding="utf-8")]
    others = json.loads((TRAINING / "2wikimultihopqa_corpus.json").read_text(encoding="utf-8"))
    rows = [*(d for item in items for d in item["documents"]), *random.Random(1).sample(others, _OTHERS)]
    ids = {text: str(place) for place, text in enumerate(dict.fromkeys(row["text"] for row in rows))}
    paragraphs = {ids[r["text"]]: {"_id": ids[r["text"]], "title": r["title"], "text": r["text"]} for r in rows}
    chosen = items[:: max(1, len(items) // count)]
    return [(item["question"], ids[item["documents"][item["supporting"][0]]["text"]]) for item in chosen], paragraphs


def _with_notices(paragraphs: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    generator = random.Random(2)
    texts = [row["text"] for row in paragraphs.values()]
    return {
        id: {**row, "text": f"{_NOTICE} {row['text']} {'. '.join(generator.choice(texts).split('. ')[:3])}"}
        for id, row in paragraphs.items()
    }


def _half(question: str) -> str:
    found = content_words(question)
    kept = random.Random(question).sample(found, max(1, len(found) // 2))
    return " ".join(word for word in found if word in kept)


def _kind(
    kind: str,
    questions: Sequence[tuple[str, str]],
    paragraphs: dict[str, dict[str, str]],
    words_of: Callable[[str], str],
) -> list[Row]:
    settings = replace(load_settings(), provenance_contextual=True, rerank=True)
    with tempfile.TemporaryDirectory(prefix="receipts-bench-") as scratch:
        store = open_store(f"sqlite:///{Path(scratch) / 'fusion.sqlite3'}")
        try:
            embedder = load_embedder(settings)
            names = index(store, list(paragraphs.values()), embedder, contextual=True)
            retriever = Retriever(store, embedder, None, settings)
            found = [(retriever.lexical(words_of(q)), retriever.dense(q)) for q, _ in questions]
            passages = {p.id: p for p in store.get_passages(list(names))}
        finally:
            store.close()
    gold = [{id: 1.0} for _, id in questions]

    def quality(runs: Sequence[Ranked]) -> float:
        return float(
            np.mean([scores([names[id] for id, _ in r], g)["ndcg@10"] for r, g in zip(runs, gold, strict=True)])
        )

    def fused(weight: float) -> list[Ranked]:
        return [fuse(lexical, dense, weight)[:20] for lexical, dense in found]

    runs = fused(DENSE_WEIGHT)
    reranker = load_reranker(settings)
    own = [
        reranker.score(q, [index_text(passages[id], True) for id, _ in run])
        for (q, _), run in zip(questions, runs, strict=True)
    ]

    def reranked(weight: float) -> list[Ranked]:
        return [
            sorted(((id, weight * s + (1 - weight) * f) for (id, f), s in zip(run, known, strict=True)), key=_score)
            for run, known in zip(runs, own, strict=True)
        ]

    lexical, dense = (quality([pair[side] for pair in found]) for side in (0, 1))
    best, weight = quality(runs), reranker.search_weight
    other = {w: quality(fused(w)) for w in DENSE_WEIGHTS}
    again = {w: quality(reranked(w)) for w in RERANK_WEIGHTS}
    name = f"nDCG@10, {len(questions)} training questions {kind}"
    return [
        Row(f"{name}: fused", best, "", "lexical", lexical, note=_listed("cosine counts", other)),
        Row(f"{name}: fused less its better half", best - max(lexical, dense), goal=HOLDS, note=f"dense {dense:.3f}"),
        Row(
            f"{name}: reranked",
            quality(reranked(weight)),
            "",
            "fused",
            best,
            note=_listed("the reranker counts", again),
        ),
    ]


def _listed(words: str, figures: dict[float, float]) -> str:
    return f"{words} " + ", ".join(f"{weight}: {figure:.3f}" for weight, figure in figures.items())


def _score(item: tuple[str, float]) -> float:
    return -item[1]
