"""What reading attention adds to writing an answer: the same answer without it, as the app reads it, and in full.

The app reads the layers that its methods need: the calibrated heads' and the last. All go through the writer
that the app uses: one prefill, then token by token. The reading is paid for when the answer ends, so its
last step, reducing what was set aside, is part of the time.
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.child import in_child
from benchmarks.table import Goal, Row
from benchmarks.threads import sized_thread
from provenance.generation.writer import LocalWriter
from provenance.parts import Parts
from provenance.records import Prompt
from provenance.settings import load_settings

SIZES = ((5, 600), (10, 2000))
QUICK = ((5, 600),)
GOAL = Goal(1.05)
_TOKENS = 48


def run(quick: bool) -> list[Row]:
    """Seconds of the decoding, and of the whole answer, at each size."""
    rows = []
    for passages, tokens in QUICK if quick else SIZES:
        found = in_child("benchmarks.decoding:seconds", passages=passages, tokens=tokens, repeats=3 if quick else 6)
        size = f"T = {found['prompt']:,} and {found['written']} written, {passages} passages"
        for way, words, goal in (("app", "as the app reads", GOAL), ("all", "every layer", None)):
            decode, plain = found[f"{way} decode"], found["plain decode"]
            rows.append(Row(f"decoding while reading {words}, {size}", decode, "s", "not reading", plain, goal))
            rows.append(
                Row(f"whole answer while reading {words}, {size}", found[way], "s", "not reading", found["plain"])
            )
    return rows


def seconds(passages: int, tokens: int, repeats: int) -> dict[str, float]:
    """Seconds of the fastest of both kinds, step by step; "decode" leaves out the first step, which is the prefill.

    Every repeat writes the same tokens, so each step is taken from the repeat where it was fastest: what
    else the machine does then weighs little.
    """
    parts = Parts(load_settings())
    lm = parts.language_model()
    prompt = sized_thread(lm, passages, tokens).prompt
    app = parts.writer()
    assert isinstance(app, LocalWriter)
    writers = {"plain": LocalWriter(lm, read_attention=False), "app": app, "all": LocalWriter(lm)}
    steps: dict[str, list[list[float]]] = {name: [] for name in writers}
    written = 0
    for turn in range(repeats + 1):
        for name in sorted(writers, reverse=turn % 2 == 1):
            found, written = _steps(writers[name], prompt)
            if turn:  # the first turn also sets up the libraries
                steps[name].append(found)
    fastest = {name: np.array(found).min(axis=0) for name, found in steps.items()}
    return {
        "prompt": len(prompt.token_ids),
        "written": written,
        **{name: float(found.sum()) for name, found in fastest.items()},
        **{f"{name} decode": float(found[1:].sum()) for name, found in fastest.items()},
    }


def _steps(writer: LocalWriter, prompt: Prompt) -> tuple[list[float], int]:
    """Seconds between the pieces of one answer, the last one up to its end, and how many tokens it has."""
    stream = writer.stream(prompt, max_new_tokens=_TOKENS)
    found, before = [], time.perf_counter()
    while True:
        try:
            next(stream)
            ended = None
        except StopIteration as end:
            ended = end.value
        now = time.perf_counter()
        found.append(now - before)
        before = now
        if ended is not None:
            return found, len(ended.answer.token_ids)
