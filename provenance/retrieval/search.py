"""Question → candidates: lexical and dense search, fused, reranked, and the choice of what is sent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from provenance.records import Candidate, Stage
from provenance.retrieval.embedder import Embedder
from provenance.settings import Settings
from provenance.store.words import index_text

if TYPE_CHECKING:
    from provenance.retrieval.reranker import Reranker
    from provenance.store import Store

DENSE_WEIGHT = 0.6
"""How much the cosine counts in the fusion; BM25 counts the rest. `benchmarks/fusion.py` has the figures."""

DEPTH = 100
"""How many passages each of the two searches returns to the fusion."""


class Retriever:
    """Searches one store. `reranker` is None where reranking is off or not available."""

    def __init__(self, store: Store, embedder: Embedder, reranker: Reranker | None, settings: Settings) -> None:
        self.store = store
        self.embedder = embedder
        self.reranker = reranker if settings.rerank else None
        self.settings = settings

    def search(self, question: str, documents: Collection[str] | None = None) -> tuple[Candidate, ...]:
        """The best `settings.provenance_candidates` passages, best first, with their place at every stage.

        `documents` limits the search to these document ids. Nothing found is an empty tuple.
        """
        lexical = self.lexical(question, documents)
        dense = self.dense(question, documents)
        fused = fuse(lexical, dense)[: self.settings.provenance_candidates]
        passages = {p.id: p for p in self.store.get_passages([id for id, _ in fused])}
        places = (_stages(lexical), _stages(dense), _stages(fused))
        candidates = tuple(
            Candidate(passages[id], lexical=places[0].get(id), dense=places[1].get(id), fused=places[2][id])
            for id, _ in fused
            if id in passages
        )
        if self.reranker is None:
            return candidates
        return rerank(question, candidates, self.reranker, contextual=self.settings.provenance_contextual)

    def lexical(self, question: str, documents: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Passage ids and BM25 scores, best first."""
        hits = self.store.search_lexical(question, DEPTH, documents)
        return [(hit.passage_id, hit.score) for hit in hits]

    def dense(self, question: str, documents: Collection[str] | None = None) -> list[tuple[str, float]]:
        """Passage ids and cosines, best first, among the vectors this embedder made."""
        exact = self.settings.provenance_search == "exact"
        hits = self.store.search_dense(
            self.embedder.encode([question])[0],
            DEPTH,
            documents,
            exact=exact,
            ef_search=None if exact else self.settings.provenance_ef_search,
            embedder=f"{self.embedder.name}@{self.embedder.revision}",
        )
        return [(hit.passage_id, hit.score) for hit in hits]


def fuse(
    lexical: Sequence[tuple[str, float]], dense: Sequence[tuple[str, float]], dense_weight: float = DENSE_WEIGHT
) -> list[tuple[str, float]]:
    """A weighted sum of two ranked lists' scores, each over its best, in 0..1, best first; ties keep the dense order.

    Scores and not ranks, so that a search that hardly tells its hits apart hardly moves the other's
    (Bruch, Gai and Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", TOIS 2023). A passage
    that a full list left out counts as that list's last; one that holds no word of the question counts 0.
    """
    cosines, words = _over_best(dense), _over_best(lexical)
    last_cosine = min(cosines.values(), default=0.0)
    last_words = min(words.values(), default=0.0) if len(words) >= DEPTH else 0.0
    scores = {
        id: dense_weight * cosines.get(id, last_cosine) + (1 - dense_weight) * words.get(id, last_words)
        for id in (*cosines, *words)
    }
    return sorted(scores.items(), key=lambda item: -item[1])


def _over_best(hits: Sequence[tuple[str, float]]) -> dict[str, float]:
    best = max((score for _, score in hits), default=0.0)
    return {id: max(score, 0.0) / best if best > 0 else 0.0 for id, score in hits}


def rerank(
    question: str, candidates: Sequence[Candidate], reranker: Reranker, *, contextual: bool = False
) -> tuple[Candidate, ...]:
    """The same candidates reordered; equal scores keep the order they came in.

    A reranked score is the reranker's own and the fused one, the reranker's counting `reranker.search_weight`;
    both are 0..1. `contextual` has each passage read below its title and heading, as it is indexed.
    """
    weight = reranker.search_weight
    own = reranker.score(question, [index_text(c.passage, contextual) for c in candidates])
    scores = [
        weight * score + (1 - weight) * (c.fused.score if c.fused else 0.0)
        for score, c in zip(own, candidates, strict=True)
    ]
    order = sorted(range(len(candidates)), key=lambda i: -scores[i])
    return tuple(
        replace(candidates[i], reranked=Stage(rank=rank, score=scores[i])) for rank, i in enumerate(order, start=1)
    )


def select(
    candidates: Sequence[Candidate], top_k: int, budget_tokens: int, cost: Callable[[Candidate], int]
) -> tuple[Candidate, ...]:
    """Mark which candidates are sent, in their order: `sent` is the source number, counting from 1.

    At most `top_k` are sent and their costs sum to at most `budget_tokens`. A passage is
    sent whole or dropped, with the reason in `dropped`; one that does not fit makes room
    for the next that does.
    """
    chosen: list[Candidate] = []
    sent, left = 0, budget_tokens
    for candidate in candidates:
        if sent >= top_k:
            chosen.append(replace(candidate, sent=None, dropped=f"below the top {top_k}"))
            continue
        tokens = cost(candidate)
        if tokens > left:
            chosen.append(replace(candidate, sent=None, dropped="over the context budget"))
            continue
        sent, left = sent + 1, left - tokens
        chosen.append(replace(candidate, sent=sent, dropped=None))
    return tuple(chosen)


def _stages(ranked: Sequence[tuple[str, float]]) -> Mapping[str, Stage]:
    return {id: Stage(rank=rank, score=score) for rank, (id, score) in enumerate(ranked, start=1)}
