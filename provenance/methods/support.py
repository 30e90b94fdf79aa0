"""Whether a passage says what a sentence says, from wording and meaning alone.

A passage is compared sentence by sentence, so that a long one gains nothing by its length.
The figures of each pair are weighed by a logistic function whose weights were fitted on
questions with a known source (`weights`), never on the sets that judge it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from provenance.methods.wording import content_words, split_sentences, wording_evidence
from provenance.records import Span

if TYPE_CHECKING:
    from provenance.retrieval.embedder import Embedder

Array = npt.NDArray[np.float64]

WEIGHTS = Path(__file__).parent / "support.json"
FEATURES = ("content", "copied", "fresh", "numbers", "in one sentence", "question", "cosine", "cosine lead")
WORDING_FEATURES = FEATURES[:6]
_NUMBERS = FEATURES.index("numbers")

_SHORT = 3  # content words; a shorter answer says nothing without its question
# A single line break inside running text is layout; before a list item it is not.
_SOFT_BREAK = re.compile(r"(?<=[^\s])[ \t]*\n(?=[ \t]*\S)(?![ \t]*(?:[-*•#|]|\d{1,2}[.)]\s))")


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic function of the figures. `least` is the probability from which a pair counts as support."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    bias: float
    least: float

    def probability(self, figures: Array) -> Array:
        """From figures of shape (..., F) to probabilities of shape (...)."""
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / (1.0 + np.exp(-(figures @ np.asarray(self.weights) + self.bias))))


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """How well each passage supports each sentence: `probability` (S, N); `least` is what counts as support.

    `sentences[i]` are the character spans of passage i's own sentences, and `closeness[i]` of shape
    (S, len(sentences[i])) says how well each of them matches.
    """

    probability: Array
    least: float
    sentences: tuple[tuple[Span, ...], ...]
    closeness: tuple[Array, ...]


@cache
def weights(with_meaning: bool) -> Weights:
    """The fitted weights, for wording and meaning together or for wording alone."""
    data = json.loads(WEIGHTS.read_text("utf-8"))["wording and meaning" if with_meaning else "wording"]
    return Weights(tuple(data["names"]), tuple(data["weights"]), data["bias"], data["least"])


def support(sentences: Sequence[str], passages: Sequence[str], question: str, embedder: Embedder | None) -> Support:
    """Compare every sentence with every passage. Without an embedder by wording alone.

    A passage that holds none of a sentence's numbers does not support it, however alike the words are.
    """
    spans = tuple(passage_sentences(passage) for passage in passages)
    figures, closeness = pair_figures(sentences, passages, spans, question, embedder)
    chosen = weights(embedder is not None)
    probability = np.where(figures[..., _NUMBERS] > 0, chosen.probability(figures), 0.0)
    return Support(probability, chosen.least, spans, closeness)


def passage_sentences(passage: str) -> tuple[Span, ...]:
    """The sentences of a passage as character spans; a line that was broken by layout alone goes on."""
    return split_sentences(_SOFT_BREAK.sub(lambda m: " " * len(m.group()), passage))


def pair_figures(
    sentences: Sequence[str],
    passages: Sequence[str],
    spans: Sequence[Sequence[Span]],
    question: str,
    embedder: Embedder | None,
) -> tuple[Array, tuple[Array, ...]]:
    """The figures of every pair, shape (S, N, F), in the order of FEATURES (WORDING_FEATURES without an embedder).

    And for each passage how well each of its own sentences matches, shape (S, its sentences).
    """
    parts = [[text[s.start : s.stop] for s in own] for text, own in zip(passages, spans, strict=True)]
    flat = [part for own in parts for part in own]
    owner = np.array([i for i, own in enumerate(parts) for _ in own], dtype=np.int64)
    names = FEATURES if embedder is not None else WORDING_FEATURES
    figures = np.zeros((len(sentences), len(passages), len(names)))
    closeness = np.zeros((len(sentences), len(flat)))
    claims = [claim(sentence, question) for sentence in sentences]
    asked = wording_evidence(question, passages)[:, 0] if content_words(question) else np.zeros(len(passages))
    cosines = _cosines(claims, flat, embedder)
    for row, sentence in enumerate(sentences):
        whole = wording_evidence(sentence, passages, question)
        single = wording_evidence(claims[row], flat)[:, 0] if flat else np.zeros(0)
        figures[row, :, 0:4] = whole
        figures[row, :, 4] = _best(single, owner, len(passages))
        figures[row, :, 5] = asked
        closeness[row] = single
        if cosines is not None:
            near = _best(cosines[row], owner, len(passages))
            figures[row, :, 6] = near
            figures[row, :, 7] = near - _best_other(near)
            closeness[row] = (single + np.maximum(cosines[row], 0.0)) / 2
    ends = np.cumsum([len(own) for own in parts], dtype=np.int64)[:-1]
    return figures, tuple(np.split(closeness, ends, axis=1)) if parts else ()


def claim(sentence: str, question: str) -> str:
    """What a sentence says by itself: a very short answer is read together with its question."""
    return f"{question} {sentence}" if len(content_words(sentence)) < _SHORT else sentence


def _cosines(claims: Sequence[str], parts: Sequence[str], embedder: Embedder | None) -> Array | None:
    if embedder is None or not claims:
        return None
    vectors = embedder.encode([*claims, *parts]).astype(np.float64)
    return vectors[: len(claims)] @ vectors[len(claims) :].T


def _best(values: Array, owner: npt.NDArray[np.int64], count: int) -> Array:
    """The largest value of each passage's sentences; 0 where it has none."""
    found = np.zeros(count)
    np.maximum.at(found, owner, values)
    return found


def _best_other(values: Array) -> Array:
    """For each passage the largest value of the others; 0 where there are none."""
    if len(values) < 2:
        return np.zeros(len(values))
    order = np.argsort(-values, kind="stable")
    found = np.full(len(values), values[order[0]])
    found[order[0]] = values[order[1]]
    return found
