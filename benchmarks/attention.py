"""What reading attention costs, beside a plain pass over the same tokens and beside the textbook way.

The textbook way is eager attention with `output_attentions=True`, which keeps layers × heads × T × T
floats. All three run the layers over the whole thread, without a cache and without the vocabulary
projection. Times are the fastest of interleaved repeats in one process; memory is that of the first
pass in a process of its own, on top of the loaded model.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import psutil

from benchmarks.child import AddedMemory, in_child
from benchmarks.table import Goal, Row
from benchmarks.threads import language_model, sized_thread

SIZES = ((5, 600), (10, 600), (5, 2000), (10, 2000), (5, 4000), (10, 4000))
QUICK = ((5, 600), (10, 2000))
LONG = (10, 6000)
JUDGED_TOKENS = 2000
TIME_GOAL, MEMORY_GOAL, LONG_MEMORY_GOAL = Goal(1.05), Goal(1.2), Goal(6.0, of="value")
_GIB = 1024**3
_MIB = 1024**2


def run(quick: bool) -> list[Row]:
    """Time and added memory of the read-out at every size, and the memory of one long thread."""
    rows: list[Row] = []
    for passages, tokens in QUICK if quick else SIZES:
        rows += _size(passages, tokens, quick)
    passages, tokens = LONG
    long = in_child("benchmarks.attention:memory", way="read-out", passages=passages, tokens=tokens)
    rows.append(
        Row(
            f"read-out, T = {long['tokens']:,}, {passages} passages: whole process",
            long["peak"] / _GIB,
            "GiB",
            goal=LONG_MEMORY_GOAL,
            note=f"{long['added'] / _GIB:.2f} GiB of it added",
        )
    )
    return rows


def _size(passages: int, tokens: int, quick: bool) -> list[Row]:
    judged = tokens == JUDGED_TOKENS
    timed = in_child(
        "benchmarks.attention:seconds", passages=passages, tokens=tokens, repeats=3 if quick or tokens > 2000 else 5
    )
    name = f"read-out, T = {timed['tokens']:,}, {passages} passages"
    added = {
        way: in_child("benchmarks.attention:memory", way=way, passages=passages, tokens=tokens)["added"] / _MIB
        for way in ("plain", "read-out")
    }
    goals = (TIME_GOAL, MEMORY_GOAL) if judged else (None, None)
    rows = [
        Row(f"{name}: time", timed["read-out"], "s", "plain pass", timed["plain"], goals[0]),
        Row(f"{name}: added memory", added["read-out"], "MiB", "plain pass", added["plain"], goals[1]),
    ]
    need = textbook_bytes(timed["tokens"], timed["layers"], timed["heads"])
    have = psutil.virtual_memory().available
    if need > have:
        note = f"the textbook way needs {need / _GIB:.0f} GiB, {have / _GIB:.0f} are free"
        return [*rows, Row(f"{name}: beside the textbook way", None, note=note)]
    book = in_child("benchmarks.attention:memory", way="textbook", passages=passages, tokens=tokens)
    return [
        *rows,
        Row(f"{name}: time", timed["read-out"], "s", "textbook way", book["seconds"]),
        Row(f"{name}: added memory", added["read-out"], "MiB", "textbook way", book["added"] / _MIB),
    ]


def textbook_bytes(tokens: int, layers: int, heads: int) -> int:
    """What all attention maps take, and a few working copies of one layer's."""
    return (layers + 4) * heads * tokens * tokens * 4


def seconds(passages: int, tokens: int, repeats: int) -> dict[str, float]:
    """The fastest pass of each way, in turns, so that both meet the same load of the machine."""
    ways = _ways(passages, tokens)
    for run_once in ways.values():
        run_once()
    times: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(repeats):
        for way in sorted(ways, reverse=turn % 2 == 1):
            began = time.perf_counter()
            ways[way]()
            times[way].append(time.perf_counter() - began)
    return {way: min(found) for way, found in times.items()} | _facts(passages, tokens)


def memory(way: str, passages: int, tokens: int) -> dict[str, float]:
    """Bytes that the first pass adds, the process's peak during it, and its seconds."""
    ways = _ways(passages, tokens, textbook=way == "textbook")
    gc.collect()
    began = time.perf_counter()
    with AddedMemory() as taken:
        ways[way]()
    spent = time.perf_counter() - began
    facts = _facts(passages, tokens)
    return {"added": taken.bytes, "peak": taken.peak, "seconds": spent} | facts


def _facts(passages: int, tokens: int) -> dict[str, float]:
    lm = language_model()
    return {"tokens": sized_thread(lm, passages, tokens).tokens, "layers": lm.num_layers, "heads": lm.num_heads}


def _ways(passages: int, tokens: int, textbook: bool = False) -> dict[str, Callable[[], object]]:
    import torch

    from provenance.methods.readout import forward, read_answer

    lm = language_model()
    thread = sized_thread(lm, passages, tokens)
    ids = [*thread.prompt.token_ids, *thread.answer_ids]

    def plain() -> None:
        with torch.inference_mode():
            forward(lm.model, ids)

    def all_maps() -> object:
        lm.model.config.get_text_config()._attn_implementation = "eager"
        with torch.inference_mode():
            return lm.model.base_model(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions

    if textbook:
        return {"textbook": all_maps}
    return {"plain": plain, "read-out": lambda: read_answer(lm, thread.prompt, thread.answer_ids)}
