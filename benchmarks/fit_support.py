"""Fits the weights by which a passage counts as supporting a sentence, and writes them with how they were made.

Run as `python -m benchmarks.fit_support`. The cases are made from the training questions beside the
repository (train/xquad.jsonl) and from planted prompts; the sets that judge the methods are not read.

Each case offers passages of which one or two are known to hold the sentence: a copied sentence with words
left out, halves of two sentences joined, a short answer to a question, or a sentence that no passage holds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from provenance.methods.planted import planted_prompts
from provenance.methods.support import FEATURES, WEIGHTS, WORDING_FEATURES, pair_figures, passage_sentences
from provenance.methods.wording import split_sentences, words
from provenance.parts import Parts
from provenance.settings import load_settings

TRAINING = Path("../shared/data/train/xquad.jsonl")
CASES, PLANTED, SEED = 480, 96, 11
_PRECISION = 0.9  # what the threshold must reach on the cases held out


@dataclass(frozen=True, slots=True)
class Sample:
    """One sentence and its passages; `gold` holds the passages that say it."""

    question: str
    sentence: str
    passages: tuple[str, ...]
    gold: frozenset[int]
    group: str  # cases of one group are never split between fitting and checking


class Remembering:
    """The embedder, asked only once for each text."""

    def __init__(self, embedder: Any) -> None:
        self._embedder = embedder
        self._known: dict[str, npt.NDArray[np.float32]] = {}

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            self._known.update(zip(new, self._embedder.encode(new), strict=True))
        return np.stack([self._known[text] for text in texts])


def from_questions(rows: Sequence[dict[str, Any]], count: int, rng: random.Random) -> list[Sample]:
    """Cases over paragraphs of the articles: some of the same article, some of others."""
    paragraphs = [row["documents"][row["supporting"][0]]["text"] for row in rows]
    everything = list(dict.fromkeys(paragraphs))
    made: list[Sample] = []
    while len(made) < count:
        row = rng.choice(rows)
        own = [d["text"] for d in row["documents"]]
        home = own[row["supporting"][0]]
        near = [text for text in own if text != home]
        rng.shuffle(near)
        far = rng.sample([text for text in everything if text not in own], 6)
        kind = rng.choice(("copied", "copied", "joined", "joined", "short", "absent"))
        question = row["question"]
        second = rng.choice(near)
        if kind == "short":
            if any(row["answer"].casefold() in text.casefold() for text in (*near, *far)):
                continue  # another passage may say it too
            gold, sentence = [home], row["answer"]
        elif kind == "copied":
            gold, sentence = [home], _thinned(_sentence(home, rng), rng)
        elif kind == "joined":
            gold = [home, second]
            sentence = f"{_half(_sentence(home, rng), rng)} {rng.choice(('and', 'while', 'or', 'but'))} " + _half(
                _sentence(second, rng), rng
            )
        else:
            gold, sentence = [], _thinned(_sentence(second, rng), rng)
            near = [text for text in near if text != second]
        others = [text for text in (*near[: rng.randrange(0, 4)], *far) if text not in gold]
        passages = [*gold, *others[: 7 - len(gold)]] if gold else [home, *others[:6]]
        passages = list(dict.fromkeys(passages))
        rng.shuffle(passages)
        if len(words(sentence)) < 4 and kind != "short":
            continue
        made.append(
            Sample(
                question, sentence, tuple(passages), frozenset(passages.index(g) for g in gold), row["id"][:2] + home
            )
        )
    return made


def from_planted(count: int) -> list[Sample]:
    """The sentences of planted answers, each with the passage that holds it."""
    made = []
    for planted in planted_prompts(count, SEED):
        spans = split_sentences(planted.answer)
        for place, span in enumerate(spans):
            gold = planted.gold[place] if planted.shape == "two sources" and place < 2 else planted.gold[0]
            text = planted.answer[span.start : span.stop]
            made.append(Sample(planted.question, text, planted.passages, frozenset([gold]), planted.question))
    return made


def _sentence(paragraph: str, rng: random.Random) -> str:
    spans = [s for s in passage_sentences(paragraph) if s.stop - s.start > 40] or list(passage_sentences(paragraph))
    span = rng.choice(spans)
    return paragraph[span.start : span.stop]


def _thinned(sentence: str, rng: random.Random) -> str:
    """The sentence as someone would shorten it: words left out here and there, now and then a lead of their own."""
    kept = [word for word in sentence.rstrip(".").split() if rng.random() > rng.choice((0.0, 0.2, 0.4))]
    lead = rng.choice(("", "", "According to the sources, ", "Therefore, ", "It is said that "))
    return f"{lead}{' '.join(kept)}."


def _half(sentence: str, rng: random.Random) -> str:
    parts = sentence.rstrip(".").split()
    size = max(5, len(parts) // 2)
    start = rng.randrange(0, max(1, len(parts) - size + 1))
    return " ".join(parts[start : start + size])


def fit(figures: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_], names: Sequence[str]) -> dict[str, Any]:
    """Logistic weights of the figures as they are."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=3.0, max_iter=2000).fit(figures, labels)
    return {
        "names": list(names),
        "weights": [round(float(w), 4) for w in fitted.coef_[0]],
        "bias": round(float(fitted.intercept_[0]), 4),
    }


def threshold(probability: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> dict[str, float]:
    """The lowest probability from 0.3 on that keeps the precision, and the precision and recall it gives."""
    for least in np.arange(0.3, 0.96, 0.02):
        chosen = probability >= least
        precision = float(labels[chosen].mean()) if chosen.any() else 0.0
        if precision >= _PRECISION:
            break
    recall = float(chosen[labels].mean())
    return {"least": round(float(least), 2), "precision": round(precision, 3), "recall": round(recall, 3)}


def main() -> None:
    rng = random.Random(SEED)
    rows = [json.loads(line) for line in TRAINING.read_text("utf-8").splitlines()]
    samples = from_questions(rows, CASES, rng) + from_planted(PLANTED)
    embedder = Remembering(Parts(load_settings()).embedder())
    figures, labels, held = [], [], []
    groups = sorted({s.group for s in samples})
    rng.shuffle(groups)
    checked = set(groups[: len(groups) // 3])
    for sample in samples:
        spans = [passage_sentences(p) for p in sample.passages]
        found, _ = pair_figures([sample.sentence], sample.passages, spans, sample.question, embedder)  # type: ignore[arg-type]
        figures.append(found[0])
        labels.append([i in sample.gold for i in range(len(sample.passages))])
        held.append([sample.group in checked] * len(sample.passages))
    table, truth, out = np.concatenate(figures), np.concatenate(labels), np.concatenate(held)
    result: dict[str, Any] = {
        "made by": "python -m benchmarks.fit_support",
        "fitted on": f"{CASES} sentences over train/xquad.jsonl and {PLANTED} planted prompts, a third held out to set "
        "`least`; precision and recall are of the pairs held out",
    }
    for key, names in (("wording and meaning", FEATURES), ("wording", WORDING_FEATURES)):
        part = table[:, : len(names)]
        fitted = fit(part[~out], truth[~out], names)
        odds = part[out] @ np.asarray(fitted["weights"]) + fitted["bias"]
        result[key] = {**fitted, **threshold(1 / (1 + np.exp(-odds)), truth[out])}
    WEIGHTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
