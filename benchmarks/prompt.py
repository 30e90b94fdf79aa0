"""How the default prompt was chosen: answers to training questions under several wordings.

Run: python -m benchmarks.prompt ../shared/data/train/xquad.jsonl [--n 40]
Each question comes with the five paragraphs of its article. An answer counts where
it holds the expected string (case, articles and punctuation folded).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import time
from pathlib import Path

from provenance.generation.models import LanguageModel, load_language_model
from provenance.generation.prompt import DEFAULT_WORDING, Wording, build_prompt, pasted_passages
from provenance.generation.writer import LocalWriter
from provenance.settings import load_settings

WORDINGS: dict[str, Wording] = {
    "shipped": DEFAULT_WORDING,
    "loose": Wording(None, "", "Use the passages above to answer the question.\nQuestion: {question}"),
    "short sentence after": Wording(
        None, "", "Question: {question}\nAnswer in one short sentence, using only the passages above."
    ),
    "short sentence before and after": Wording(
        None,
        "Read the passages and answer the question at the end in one short sentence.\n\n",
        "Question: {question}\nAnswer in one short sentence.",
    ),
    "short sentence, question last": Wording(
        None, "", "Answer the question in one short sentence, using only the passages above.\nQuestion: {question}"
    ),
    "system": Wording(
        "You answer questions from the given passages. Answer in one short sentence.", "", "Question: {question}"
    ),
    "system and after": Wording(
        "You answer questions from the given passages, briefly and exactly.",
        "",
        "Question: {question}\nAnswer in one short sentence, in the words of the passage.",
    ),
    "plain": Wording(None, "", "{question} Answer in one short sentence."),
}


def fold(text: str) -> str:
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def right(answer: str, expected: str) -> bool:
    return fold(expected) in fold(answer)


def answer(lm: LanguageModel, item: dict, wording: Wording) -> str:
    passages = pasted_passages([(d["title"] or None, d["text"]) for d in item["documents"]])
    prompt = build_prompt(lm, item["question"], passages, wording=wording)
    stream = LocalWriter(lm, read_attention=False).stream(prompt, max_new_tokens=60)
    try:
        while True:
            next(stream)
    except StopIteration as end:
        return end.value.answer.text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    items = [json.loads(line) for line in arguments.data.open(encoding="utf-8")]
    items = random.Random(1).sample([i for i in items if len(i["answer"]) < 40], arguments.n)
    lm = load_language_model(load_settings())
    for name, wording in WORDINGS.items():
        if arguments.only and name not in arguments.only:
            continue
        began = time.perf_counter()
        answers = [answer(lm, item, wording) for item in items]
        hits = sum(right(a, i["answer"]) for a, i in zip(answers, items, strict=True))
        words = sum(len(a.split()) for a in answers) / len(answers)
        print(
            f"{name:34s} {hits:3d} of {len(items)}  {words:5.1f} words  {time.perf_counter() - began:6.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
