"""Whether the documents answer the question at all, decided from evidence.

A small model answers everything, so the decision is not left to it. Before anything is written, the
question is set beside what was retrieved: how close the nearest sentences come to it, how
many of its words the best passage holds, and whether its least covered word is there in any sense.
After writing, an answer that no source supports and that the passages did not make likelier is
withheld. The weights were fitted by `python -m benchmarks.fit_refusal` and are kept with its figures.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from provenance.methods.wording import content_words, split_sentences, word_spans, words
from provenance.records import SentenceSupport
from provenance.retrieval.embedder import Embedder

REFUSAL = "The documents do not answer this question."
WEIGHTS = Path(__file__).parent / "refusal.json"
FIGURES = ("closest sentences", "words held", "least covered word")

_LEAST_GAIN = 0.05  # nats per token; below it the passages added nothing that matters


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether to refuse, and the reason in words fit for the screen. `evidence` is what was weighed, 0..1."""

    refuse: bool
    reason: str | None = None
    evidence: float | None = None


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic function of `FIGURES`; below `least` a question counts as not answered by the documents."""

    weights: tuple[float, ...]
    bias: float
    least: float


@cache
def shipped() -> Weights:
    """The fitted weights."""
    found = json.loads(WEIGHTS.read_text(encoding="utf-8"))
    return Weights(tuple(found["weights"]), found["bias"], found["least"])


def judge_retrieval(question: str, sent: Sequence[str], candidates: Sequence[str], embedder: Embedder) -> Judgement:
    """Weigh the passages that would be sent against the question, before anything is written.

    `candidates` are the texts of all candidates: how rare a word is among them is how much it counts.
    Raises Unavailable where the embedder cannot be had.
    """
    if not sent:
        return Judgement(True, "no passage of the documents has anything in common with the question", 0.0)
    found, fitted = figures(question, sent, candidates, embedder), shipped()
    score = fitted.bias + sum(w * x for w, x in zip(fitted.weights, found, strict=True))
    evidence = 1.0 / (1.0 + math.exp(-score))
    if evidence >= fitted.least:
        return Judgement(False, None, evidence)
    return Judgement(
        True,
        "no passage comes close enough to what the question asks "
        f"(evidence {evidence:.2f} of 1, at least {fitted.least:.2f} is needed)",
        evidence,
    )


def judge_answer(sentences: Sequence[SentenceSupport]) -> Judgement:
    """Weigh a written answer: refuse where no source supports any sentence and the passages made none likelier."""
    gains = [sentence.evidence for sentence in sentences if sentence.evidence is not None]
    if not sentences:
        return Judgement(True, "the model wrote nothing")
    if any(sentence.best is not None for sentence in sentences) or not gains:
        return Judgement(False)
    best = max(gains)
    if best >= _LEAST_GAIN:
        return Judgement(False, None, best)
    return Judgement(True, "no source supports what the model wrote, and the passages did not make it likelier", best)


def figures(
    question: str, sent: Sequence[str], candidates: Sequence[str], embedder: Embedder
) -> tuple[float, float, float]:
    """What `FIGURES` names, of the passages in `sent`.

    The best cosine of the question with two sentences in a row; the best passage's share of the question's
    content words, the rarer among `candidates` counting more; and, in the passage whose
    tokens cover the question best, the cosine of the question's least covered content word, 0 where it has none.
    """
    pairs = [
        text[spans[i].start : spans[min(i + 1, len(spans) - 1)].stop]
        for text in sent
        if (spans := split_sentences(text))
        for i in range(len(spans))
    ]
    vectors = embedder.encode([question, *(pairs or sent)])
    closest = float((vectors[1:] @ vectors[0]).max())

    sought = list(dict.fromkeys(content_words(question)))
    known = [frozenset(words(text)) for text in candidates]
    rarity = {w: math.log(1 + (len(known) + 1) / (sum(w in k for k in known) + 0.5)) for w in sought}
    total = sum(rarity.values())
    held = [sum(rarity[w] for w in sought if w in own) for own in (frozenset(words(text)) for text in sent)]
    share = max(held) / total if total else 1.0
    return closest, share, _least_covered(question, sent, rarity, embedder)


def _least_covered(question: str, sent: Sequence[str], rarity: dict[str, float], embedder: Embedder) -> float:
    (asked, *passages) = embedder.token_vectors([question, *sent])
    spans = [(span, word) for span, word in word_spans(question) if word in rarity]
    rows = [
        (i, rarity[word])
        for i, (start, stop) in enumerate(asked.offsets)
        for span, word in spans
        if span.start <= start < stop <= span.stop
    ]
    if not rows:
        return 0.0
    weights = np.array([weight for _, weight in rows])
    chosen = asked.vectors[[i for i, _ in rows]]
    best = [(chosen @ passage.vectors.T).max(axis=1) for passage in passages]
    covered = max(best, key=lambda cosines: float(cosines @ weights))
    return float(covered.min())
