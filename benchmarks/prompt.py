"""How the packaged writer's prompt was chosen: answers to known questions under several wordings.

Run: python -m benchmarks.prompt [--n 34] [--xquad ../shared/data/train/xquad.jsonl]

The sample documents' questions are asked over the passages that search sends for them, those of a training
file over five paragraphs of one article. An answer counts where it holds the expected string (case, articles and
punctuation folded). Wordings that share what stands before the question share one pass over the passages.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import torch
from transformers import DynamicCache

from benchmarks.samples import sample_questions, sample_retriever
from provenance.generation.models import LanguageModel, load_language_model
from provenance.generation.prompt import NUMBERED, UNNUMBERED, Wording, build_prompt, pasted_passages
from provenance.records import Passage
from provenance.settings import load_settings

HEADERS = {"numbered": NUMBERED.header, "title": UNNUMBERED.header, "bare": ""}
TAILS = {
    "one short sentence, after the question": UNNUMBERED.after,
    "the question alone": "{question}",
    "one short sentence, before the question": "Answer in one short sentence: {question}",
    "the words of the passage": "Question: {question}\nAnswer briefly with the words of the passage.",
}
ANSWER_TOKENS = 24
Item = tuple[str, list[Passage], str]


def fold(text: str) -> str:
    """Text for comparing answers."""
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def sample_items(n: int) -> Iterator[Item]:
    """Answerable sample questions with the five passages sent for them."""
    with sample_retriever() as retriever:
        for item in [q for q in sample_questions() if q["answerable"]][:n]:
            found = retriever.search(item["question"])
            yield item["question"], [c.passage for c in found[:5]], item["expected"]


def training_items(path: Path, n: int) -> Iterator[Item]:
    """Training questions with a short answer, their paragraph among five of its article."""
    items = [json.loads(line) for line in path.open(encoding="utf-8")]
    pick = random.Random(3)
    for item in pick.sample([i for i in items if len(i["answer"]) < 25], n):
        gold = item["supporting"][0]
        others = [i for i in range(len(item["documents"])) if i != gold]
        chosen = [gold, *pick.sample(others, min(4, len(others)))]
        pick.shuffle(chosen)
        documents = [item["documents"][i] for i in chosen]
        yield item["question"], list(pasted_passages([(d["title"], d["text"]) for d in documents])), item["answer"]


def answers(lm: LanguageModel, item: Item) -> Iterator[tuple[str, str, str]]:
    """(header, tail, answer) for every wording."""
    question, passages, _ = item
    for header, text in HEADERS.items():
        cache, length = DynamicCache(), 0
        for tail, after in TAILS.items():
            prompt = build_prompt(lm, question, passages, wording=Wording(None, "", after, text))
            if not length:
                length = prompt.block_tokens[-1].stop
                _forward(lm, prompt.token_ids[:length], cache)
            elif cache.get_seq_length() > length:
                cache.crop(length - cache.get_seq_length())
            yield header, tail, _greedy(lm, prompt.token_ids[length:], cache)


def _greedy(lm: LanguageModel, tail: tuple[int, ...], cache: DynamicCache) -> str:
    ids: list[int] = []
    following = tail
    while len(ids) < ANSWER_TOKENS:
        token = int(_forward(lm, following, cache).argmax())
        if token == lm.tokenizer.eos_token_id:
            break
        ids.append(token)
        following = (token,)
    return str(lm.tokenizer.decode(ids))


def _forward(lm: LanguageModel, ids: tuple[int, ...], cache: DynamicCache) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = lm.model(torch.tensor([ids]), cache=cache, use_cache=True, logits_to_keep=1).logits
    return logits[0, -1]


def main() -> None:
    """Print the answers that are right, wording by wording."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=34)
    parser.add_argument("--xquad", type=Path)
    parser.add_argument("--show", action="store_true", help="print every answer")
    arguments = parser.parse_args()
    lm = load_language_model(load_settings())
    items = list(sample_items(arguments.n))
    if arguments.xquad:
        items += training_items(arguments.xquad, arguments.n // 2)
    hits: Counter[tuple[str, str]] = Counter()
    for item in items:
        for header, tail, answer in answers(lm, item):
            right = fold(item[2]) in fold(answer)
            hits[header, tail] += right
            if arguments.show:
                print(f"{'+' if right else '-'} {header} / {tail} | {item[0]} | {answer!r}", flush=True)
    for header in HEADERS:
        for tail in TAILS:
            print(f"{header:9} {tail:42} {hits[header, tail]:3} of {len(items)}")


if __name__ == "__main__":
    main()
