"""What taking passages away by a mask costs and misses, beside removing their text and running again.

Costs: leave-one-out by mask beside exact removal (which re-uses the prefix before the removed passage) and beside a
plain pass for each removal, and Shapley's subsets by mask beside a plain pass over each subset's prompt. All in one
process, one after the other.
Agreement: mask against exact removal on questions cut to six passages, where that data lies beside the
repository; and planted prompts in which the fact stands twice.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from benchmarks.child import in_child
from benchmarks.table import Goal, Row
from benchmarks.threads import Thread, language_model, sized_thread
from provenance.evaluation.dataset import cut, read_items
from provenance.evaluation.metrics import Agreement, agreement, estimate
from provenance.generation.models import LanguageModel
from provenance.methods.base import Case
from provenance.methods.leave_one_out import effects
from provenance.methods.likelihood import BoolArray, Likelihood, exact_logprobs, likelihood_of
from provenance.methods.planted import Planted, planted_prompts
from provenance.methods.shapley import EXACT_UP_TO, SUBSETS, all_subsets, credit, random_subsets

QUESTIONS = Path(__file__).parents[1] / "../shared/data/attribution/hotpotqa.jsonl"
PASSAGES = 6
COST_SIZES = ((5, 1000), (10, 1000), (10, 2000))
QUICK_SIZES = ((10, 1000),)
_TIMED_REMOVALS, _TIMED_SUBSETS = 3, 8  # plain passes that are timed; the rest take as long

COST_GOAL = Goal(1 / 8)
PEARSON_GOAL, WINNER_GOAL = Goal(0.85, of="value", least=True), Goal(0.90, of="value", least=True)
COPIES_GOAL = Goal(0.95, of="value", least=True)


def run(quick: bool) -> list[Row]:
    """Costs, agreement with exact removal, and the credit of duplicated facts."""
    rows: list[Row] = []
    for passages, tokens in QUICK_SIZES if quick else COST_SIZES:
        rows += _costs(passages, tokens)
    rows += _agreement(6 if quick else 50)
    copies = in_child("benchmarks.ablation:copies", count=6 if quick else 40)
    rows.append(
        Row(
            f"shapley: both copies of a planted fact in the top two, {copies['n']} prompts",
            copies["shapley"],
            baseline="leave-one-out",
            beside=copies["leave-one-out"],
            goal=COPIES_GOAL,
        )
    )
    return rows


def _costs(passages: int, tokens: int) -> list[Row]:
    found = in_child("benchmarks.ablation:seconds", passages=passages, tokens=tokens)
    size = f"T = {found['tokens']:,}, {passages} passages"
    subsets = int(found["subsets"])
    return [
        Row(
            f"leave-one-out by mask after the prefix, {size}",
            found["mask"],
            "s",
            "exact",
            found["exact"],
            COST_GOAL if passages == 10 else None,
            note=f"exact re-uses the prefix before the passage; the prefix took {found['prefix']:.2f} s",
        ),
        Row(
            f"leave-one-out by mask with its prefix, {size}",
            found["prefix"] + found["mask"],
            "s",
            "a pass per removal",
            found["removal"] * (passages + 1),
            note=f"{_TIMED_REMOVALS} of the removals timed; the whole prompt's pass counts as one more",
        ),
        Row(
            f"shapley, {subsets} subsets, with its prefix, {size}",
            found["shapley"],
            "s",
            "a pass per subset",
            found["subset"] * subsets,
            note=f"{_TIMED_SUBSETS} of the passes timed",
        ),
    ]


def _agreement(items: int) -> list[Row]:
    if not QUESTIONS.is_file():
        return [Row("mask against exact removal", None, note="../shared/data/attribution/hotpotqa.jsonl is absent")]
    found = in_child("benchmarks.ablation:agreements", items=items)
    name = f"mask against exact removal, {found['n']} questions, {PASSAGES} passages"
    return [
        Row(f"{name}: Pearson", found["pearson"], goal=PEARSON_GOAL, note=found["pearson_interval"]),
        Row(f"{name}: Spearman", found["spearman"], note=found["spearman_interval"]),
        Row(f"{name}: same first source", found["same"], note=found["same_interval"]),
        Row(
            f"{name}: same first source where it leads clearly ({found['clear']})",
            found["same_clear"],
            goal=WINNER_GOAL,
            note=found["same_clear_interval"],
        ),
        Row(f"{name}: time", found["mask_seconds"], "s", "exact", found["exact_seconds"]),
    ]


def seconds(passages: int, tokens: int) -> dict[str, float]:
    """Seconds of both ways at one size, each on a likelihood of its own. The prefix is timed apart."""
    lm = language_model()
    thread = sized_thread(lm, passages, tokens)

    def fresh() -> tuple[Likelihood, float]:
        likelihood = Likelihood(lm, thread.prompt, thread.answer_ids)
        began = time.perf_counter()
        _ = likelihood.prefix
        return likelihood, time.perf_counter() - began

    fresh()  # the first pass of a process also sets up the libraries
    times: dict[str, float] = {"tokens": thread.tokens}
    likelihood, times["prefix"] = fresh()
    for mode in ("fast", "exact"):
        began = time.perf_counter()
        effects(likelihood, mode)
        times["mask" if mode == "fast" else mode] = time.perf_counter() - began
    began = time.perf_counter()
    credit(Likelihood(lm, thread.prompt, thread.answer_ids))
    times["shapley"] = time.perf_counter() - began
    removed = np.linspace(0, passages - 1, _TIMED_REMOVALS).astype(int)
    times["removal"] = _seconds_per_pass(lm, thread, ~np.eye(passages, dtype=bool)[removed])
    masks = all_subsets(passages) if passages <= EXACT_UP_TO else random_subsets(passages, SUBSETS)
    times["subset"] = _seconds_per_pass(lm, thread, masks[:: max(1, len(masks) // _TIMED_SUBSETS)][:_TIMED_SUBSETS])
    times["subsets"] = len(masks)
    return times


def _seconds_per_pass(lm: LanguageModel, thread: Thread, masks: BoolArray) -> float:
    """Without a prefix to re-use, as for a model with other layers than attention: each mask is a whole pass."""
    began = time.perf_counter()
    for mask in masks:
        exact_logprobs(lm, thread.prompt, thread.answer_ids, mask)
    return (time.perf_counter() - began) / len(masks)


def agreements(items: int) -> dict[str, float | str]:
    """How the mask agrees with exact removal on real questions, and what both take."""
    lm = language_model()
    found: list[Agreement] = []
    spent = {"fast": 0.0, "exact": 0.0}
    for item in read_items(QUESTIONS)[:items]:
        likelihood = likelihood_of(lm, cut(item, PASSAGES).case())
        _ = likelihood.prefix
        scores = {}
        for mode in ("fast", "exact"):
            began = time.perf_counter()
            scores[mode] = effects(likelihood, mode).mean(axis=1)
            spent[mode] += time.perf_counter() - began
        judged = agreement(scores["fast"], scores["exact"])
        if judged is not None:
            found.append(judged)
    figures = {
        "pearson": [a.pearson for a in found],
        "spearman": [a.spearman for a in found],
        "same": [float(a.same_winner) for a in found],
        "same_clear": [float(a.same_winner) for a in found if a.clear],
    }
    result: dict[str, float | str] = {
        "n": len(found),
        "clear": len(figures["same_clear"]),
        "mask_seconds": spent["fast"],
        "exact_seconds": spent["exact"],
    }
    for name, values in figures.items():
        joined = estimate(values)
        result[name] = joined.value if joined.value is not None else 0.0
        low, high = joined.interval or (0.0, 0.0)
        result[f"{name}_interval"] = f"95 %: {low:.2f} to {high:.2f}"
    return result


def copies(count: int) -> dict[str, float]:
    """The share of planted prompts whose two copies of the fact are the two highest scores, by both methods."""
    lm = language_model()
    hits: dict[str, list[bool]] = {"shapley": [], "leave-one-out": []}
    for case, twins in duplicated(count):
        likelihood = likelihood_of(lm, case)
        for name, scores in (
            ("shapley", credit(likelihood)),
            ("leave-one-out", effects(likelihood).mean(axis=1)),
        ):
            hits[name].append(set(np.argsort(-scores)[:2].tolist()) == twins)
    return {"n": count, **{name: float(np.mean(found)) for name, found in hits.items()}}


def duplicated(count: int, seed: int = 11) -> list[tuple[Case, set[int]]]:
    """Planted prompts of 5 to 8 passages with the supporting passage copied into another place."""
    single = [p for p in planted_prompts(4 * count, seed, 4, 7) if len(p.gold) == 1][:count]
    return [_duplicate(planted, place) for place, planted in enumerate(single)]


def _duplicate(planted: Planted, turn: int) -> tuple[Case, set[int]]:
    gold = planted.gold[0]
    titles, texts = list(planted.titles), list(planted.passages)
    place = turn % (len(texts) + 1)
    titles.insert(place, titles[gold])
    texts.insert(place, texts[gold])
    twins = {place, gold + 1 if place <= gold else gold}
    return Case(planted.question, planted.answer, tuple(texts), tuple(titles), scratch={}), twins
