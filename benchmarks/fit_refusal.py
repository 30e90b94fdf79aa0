"""Fits when a question counts as not answered by the documents, and says how well that does.

Run: python -m benchmarks.fit_refusal ../shared/data/train/xquad.jsonl [--check-only]

A question is answerable where its own paragraph is among the five nearest of all paragraphs. It is
unanswerable where that paragraph is taken away, or, which is harder, only the sentences that hold the
answer, and no other of the five holds it. The weights come from these; the sample documents'
questions only judge them.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import numpy as np

from benchmarks.samples import sample_questions, sample_retriever
from provenance.generation.refusal import FIGURES, WEIGHTS, figures, shipped
from provenance.methods.wording import split_sentences
from provenance.retrieval.embedder import Embedder, load_embedder
from provenance.settings import load_settings

SENT, CANDIDATES = 5, 20
Rows = tuple[np.ndarray, np.ndarray]


def training_rows(path: Path, embedder: Embedder, n: int) -> Rows:
    """The figures of `n` questions, half of them with their paragraph taken away, and whether each is answerable."""
    items = [json.loads(line) for line in path.open(encoding="utf-8")]
    pool = list(dict.fromkeys(d["text"] for item in items for d in item["documents"]))
    vectors = embedder.encode(pool)
    rows, labels = [], []
    for place, item in enumerate(random.Random(5).sample(items, n)):
        gold, answer = item["documents"][item["supporting"][0]]["text"], item["answer"]
        order = [pool[i] for i in np.argsort(-(vectors @ embedder.encode([item["question"]])[0]))]
        if gold not in order[:SENT]:
            continue
        answerable = place % 2 == 0
        if not answerable:
            rest = without(gold, answer) if place % 4 == 1 else ""
            order = [rest if text == gold else text for text in order if text != gold or rest]
            if any(answer in text for text in order[:SENT]):
                continue
        rows.append(figures(item["question"], order[:SENT], order[:CANDIDATES], embedder))
        labels.append(answerable)
    return np.array(rows), np.array(labels)


def without(text: str, answer: str) -> str:
    """The text without the sentences that hold the answer."""
    kept = [text[s.start : s.stop] for s in split_sentences(text)]
    return " ".join(sentence for sentence in kept if answer not in sentence)


def sample_rows(embedder: Embedder) -> Rows:
    """The same of the sample documents' questions, with the passages that search sends for them."""
    rows, labels = [], []
    with sample_retriever() as retriever:
        for item in sample_questions():
            found = [candidate.passage.text for candidate in retriever.search(item["question"])]
            rows.append(figures(item["question"], found[:SENT], found, embedder))
            labels.append(item["answerable"])
    return np.array(rows), np.array(labels)


def right(probability: np.ndarray, labels: np.ndarray, least: float) -> dict[str, float | int]:
    """How many answerable questions are answered and how many others refused."""
    return {
        "answerable": int(labels.sum()),
        "answered": round(float((probability[labels] >= least).mean()), 3),
        "unanswerable": int((~labels).sum()),
        "refused": round(float((probability[~labels] < least).mean()), 3),
    }


def main() -> None:
    """Fit, write and print."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--n", type=int, default=280)
    parser.add_argument("--check-only", action="store_true", help="judge the shipped weights on the samples")
    arguments = parser.parse_args()
    embedder = load_embedder(load_settings())
    samples, answerable = sample_rows(embedder)
    if not arguments.check_only:
        rows, labels = training_rows(arguments.data, embedder, arguments.n)
        model = LogisticRegression(C=10.0)
        held_out = cross_val_predict(model, rows, labels, cv=5, method="predict_proba")[:, 1]
        # A wrong answer costs trust, a refusal costs a second question: refuse 93 in 100 of the unanswerable.
        least = round(float(np.quantile(held_out[~labels], 0.93)), 2)
        model.fit(rows, labels)
        fitted = {
            "made by": "python -m benchmarks.fit_refusal",
            "figures": list(FIGURES),
            "weights": [round(float(w), 4) for w in model.coef_[0]],
            "bias": round(float(model.intercept_[0]), 4),
            "least": least,
            "held out": right(held_out, labels, least),
        }
        WEIGHTS.write_text(json.dumps(fitted, indent=2) + "\n", encoding="utf-8")
        print(json.dumps(fitted))
    found = shipped()
    probability = 1.0 / (1.0 + np.exp(-(samples @ np.array(found.weights) + found.bias)))
    print(json.dumps({"samples": right(probability, answerable, found.least)}))


if __name__ == "__main__":
    main()
