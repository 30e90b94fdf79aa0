"""What the head is fitted on: groups of one right passage and others, made from the training text.

Read: train/xquad.jsonl (questions with their paragraph) and train/2wikimultihopqa_corpus.json (titled
paragraphs, from which pairs are made up). The sets that judge the reranker are not read.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from benchmarks.reranker.graph import BREAK
from provenance.methods.wording import split_sentences
from provenance.retrieval.embedder import Embedder

XQUAD, WIKI = "xquad.jsonl", "2wikimultihopqa_corpus.json"
QUESTIONS, MADE_UP, OTHERS, SEED = 40, 30, 6, 5
CALIBRATION = 60

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Group:
    """`passages[0]` says what `left` says or asks; the others do not."""

    left: str
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """The training files: questions with their paragraphs, and titled paragraphs."""

    questions: tuple[tuple[str, str, str, tuple[str, ...]], ...]  # question, answer, right paragraph, its article's
    paragraphs: tuple[tuple[str, str], ...]  # title, text


def read(folder: Path) -> Text:
    """Read both files. Raises FileNotFoundError where one is missing."""
    rows = [json.loads(line) for line in (folder / XQUAD).read_text("utf-8").splitlines()]
    questions = []
    for row in rows:
        texts = [document["text"] for document in row["documents"]]
        questions.append((row["question"], row["answer"], texts[row["supporting"][0]], tuple(texts)))
    wiki = json.loads((folder / WIKI).read_text("utf-8"))
    return Text(tuple(questions), tuple((row["title"], row["text"]) for row in wiki))


def word_weights(text: Text, tokenizer: Tokenizer) -> npt.NDArray[np.float32]:
    """One weight per token id: √ of ln(1 + (N − n + ½)/(n + ½)), BM25's idf over the paragraphs, over the largest one.

    N paragraphs, of which n hold the token; one that none holds has weight 1. The root keeps
    the common words of a question from counting for nothing.
    """
    texts = [f"{title}\n{body}" for title, body in text.paragraphs]
    texts += dict.fromkeys(body for question in text.questions for body in question[3])
    held = np.zeros(BREAK + 1)
    for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
        held[list(set(encoding.ids))] += 1
    weights = np.log1p((len(texts) - held + 0.5) / (held + 0.5))
    return np.sqrt(weights / weights.max()).astype(np.float32)


def calibration(text: Text) -> list[str]:
    """Texts as either side may be, for seeing what enters the encoder's layers: paragraphs, questions and answers."""
    rng = random.Random(SEED)
    titled = [f"{title}\n{body}" for title, body in rng.sample(text.paragraphs, CALIBRATION)]
    asked = rng.sample(text.questions, CALIBRATION)
    return [*titled, *(part for question, answer, right, _ in asked for part in (question, answer, right))]


def groups(text: Text, embedder: Embedder) -> list[Group]:
    """Answer, question and answer, question, thinned sentence and title as left sides.

    The other passages are those of the same article and the nearest by embedding; for a
    sentence also its own paragraph without it, and with other numbers.
    """
    rng = random.Random(SEED)
    made = []
    paragraphs = list(dict.fromkeys(body for question in text.questions for body in question[3]))
    vectors = embedder.encode(paragraphs)
    for question, answer, right, article in rng.sample(text.questions, QUESTIONS):
        near = _nearest(embedder, f"{question} {answer}", paragraphs, vectors)
        others = _others(right, [*article, *near], rng, answer)
        made += [Group(left, (right, *others)) for left in (answer, f"{question}\n{answer}", question)]
    titled = rng.sample([(title, body) for title, body in text.paragraphs if 200 < len(body) < 1200], MADE_UP * 6)
    bodies = [f"{title}\n{body}" for title, body in titled]
    vectors = embedder.encode(bodies)
    for i in range(MADE_UP):
        title, body = titled[i]
        near = _nearest(embedder, title, bodies, vectors)
        sentences = [body[s.start : s.stop] for s in split_sentences(body)]
        if i % 3 == 0 or len(sentences) < 2:
            made.append(Group(title, (bodies[i], *_others(bodies[i], near, rng))))
            continue
        sentence = rng.choice(sentences)
        removed = bodies[i].replace(sentence, "").strip()
        changed = bodies[i].replace(sentence, _NUMBER.sub(lambda m: _other_number(m[0], rng), sentence))
        wrong = [removed, *([changed] if changed != bodies[i] else [])]
        made.append(Group(_thinned(sentence, rng), (bodies[i], *wrong, *_others(bodies[i], near, rng)[: -len(wrong)])))
    return made


def _nearest(embedder: Embedder, left: str, texts: Sequence[str], vectors: npt.NDArray[np.float32]) -> list[str]:
    return [texts[i] for i in np.argsort(-(vectors @ embedder.encode([left])[0]))[: OTHERS * 2]]


def _others(right: str, texts: Sequence[str], rng: random.Random, answer: str = "") -> list[str]:
    """Some of the texts: not the right one, and none that holds the answer too."""
    kept = [text for text in dict.fromkeys(texts) if text != right and not (answer and answer in text)]
    rng.shuffle(kept)
    return kept[:OTHERS]


def _thinned(sentence: str, rng: random.Random) -> str:
    words = sentence.split()
    return " ".join(word for word in words if rng.random() > 0.25) or sentence


def _other_number(digits: str, rng: random.Random) -> str:
    while True:
        made = "".join(rng.choice("123456789") for _ in digits)
        if made != digits:
            return made
