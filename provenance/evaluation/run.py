"""Judging the provenance methods on labelled answers: the `evaluate` command."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from provenance.errors import ProvenanceError
from provenance.evaluation.causal import Removal
from provenance.evaluation.dataset import Item, read_items
from provenance.evaluation.metrics import (
    Counts,
    Estimate,
    auc,
    citation_counts,
    estimate,
    precision_recall_f1,
    reciprocal_rank,
    top1,
)
from provenance.generation.models import LanguageModel
from provenance.methods import METHODS
from provenance.methods.base import Case, Progress, Resources, silent
from provenance.methods.likelihood import likelihood_of
from provenance.methods.readout import forward
from provenance.methods.sentences import evidence_citations, sentence_support
from provenance.methods.thread import build_thread, writer_reason
from provenance.records import Attribution

COST_ITEMS = 3
"""On the first few items each method runs with caches of its own, so that its cost is its own."""

_LABELS = {"auc": auc, "top_1": top1, "mrr": reciprocal_rank}


@dataclass(slots=True)
class _Tally:
    """What one method did on the items so far."""

    figures: dict[str, list[float | None]] = field(default_factory=dict)
    scored: int = 0  # items with at least one score
    unscored: int = 0  # passages
    reasons: Counter[str] = field(default_factory=Counter)
    costs: list[_Cost] = field(default_factory=list)

    def add(self, figures: Mapping[str, float | None]) -> None:
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)


@dataclass(frozen=True, slots=True)
class _Cost:
    """`tokens` are those that went through the language model; the prefill's are of one plain pass."""

    seconds: float
    tokens: int
    prefill_seconds: float | None
    prefill_tokens: int | None


def evaluate_file(
    path: Path,
    methods: Sequence[str],
    resources: Resources,
    *,
    include_query: bool = False,
    limit: int | None = None,
    causal: bool = False,
    progress: Progress = silent,
) -> dict[str, Any]:
    """As `evaluate`, for a file of JSON lines; `causal` adds the figures that need tens of passes per item.

    Raises ProvenanceError where the file cannot be read or a method is unknown.
    """
    found = evaluate(
        read_items(path),
        methods,
        resources,
        include_query=include_query,
        model_metrics=causal,
        limit=limit,
        progress=progress,
    )
    return {"file": path.name, **found}


def evaluate(
    items: Sequence[Item],
    methods: Sequence[str],
    resources: Resources,
    *,
    include_query: bool = False,
    model_metrics: bool = True,
    limit: int | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Judge methods on labelled items; JSON-ready.

    `methods[name]` holds `n` (items with a score), each metric as `{value, interval, n}` over the
    items that have it, `unscored` with the reasons, and `cost`. With `model_metrics` each method also gets
    top-k drop, LDS and agreement with exact leave-one-out, and `removal` the drops of random and
    best choices. `evidence_citations` judges the citations that Receipts itself adds, sentence by sentence.
    What could not be measured is None with a `reason`. Raises ProvenanceError for an unknown method.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ProvenanceError(f"{unknown[0]!r} is not a provenance method; choose from {', '.join(METHODS)}.")
    chosen = tuple(items[:limit])
    tallies = {name: _Tally() for name in methods}
    removal = _Tally()
    counts: list[Counts] = []
    lm, reason = _language_model(resources)
    for place, item in enumerate(chosen):
        case = item.case()
        progress(place / len(chosen), f"{item.id}: {place + 1} of {len(chosen)}")
        prefill = _prefill(lm, case) if lm is not None and place < COST_ITEMS else (None, None)
        scored = {}
        for name, tally in tallies.items():
            with _counted(lm) as tokens:
                # The first items are scored with fresh caches, the others share what methods have in common.
                own = item.case() if place < COST_ITEMS else case
                attribution, seconds = _score(name, own, resources, include_query)
            if place < COST_ITEMS:
                tally.costs.append(_Cost(seconds, tokens.count, *prefill))
            scored[name] = attribution
            _add_labels(tally, attribution, item)
        if model_metrics and lm is not None and len(case.passages) > 1:
            _add_removal(case, lm, scored, tallies, removal)
        cited = {c.n - 1 for c in evidence_citations(sentence_support(case, resources))}
        counts.append(citation_counts(cited, item.supporting))
    progress(1.0, "done")
    result: dict[str, Any] = {
        "items": len(chosen),
        "passages": sum(len(item.given.documents) for item in chosen),
        "model": f"{lm.name} {lm.revision}" if lm is not None else None,
        "include_query": include_query,
        "methods": {name: _report(tally) for name, tally in tallies.items()},
        "evidence_citations": {
            "n": len(counts),
            **{name: _json(value) for name, value in precision_recall_f1(counts).items()},
        },
    }
    if model_metrics:
        result["removal"] = {name: _json(estimate(values)) for name, values in removal.figures.items()}
    if reason is not None:
        result["reason"] = reason
    return result


def _language_model(resources: Resources) -> tuple[LanguageModel | None, str | None]:
    reason = writer_reason(resources)
    if reason is not None:
        return None, reason
    try:
        return resources.language_model(), None
    except ProvenanceError as error:
        return None, str(error)


def _score(name: str, case: Case, resources: Resources, include_query: bool) -> tuple[Attribution, float]:
    began = time.perf_counter()
    reason = METHODS[name].unavailable(resources)
    if reason is not None:
        return Attribution(name, (None,) * len(case.passages), include_query, 0.0, reason), 0.0
    attribution = METHODS[name].score(case, resources, include_query=include_query)
    return attribution, time.perf_counter() - began


def _add_labels(tally: _Tally, attribution: Attribution, item: Item) -> None:
    missing = sum(score is None for score in attribution.scores)
    tally.unscored += missing
    tally.scored += missing < len(attribution.scores)
    if missing:
        tally.reasons[attribution.reason or "no reason was given"] += missing
    tally.add({name: metric(attribution.scores, item.supporting) for name, metric in _LABELS.items()})


def _add_removal(
    case: Case, lm: LanguageModel, scored: Mapping[str, Attribution], tallies: Mapping[str, _Tally], removal: _Tally
) -> None:
    try:
        likelihood = likelihood_of(lm, case)
    except ProvenanceError:
        return
    if not likelihood.answer_ids:
        return
    reference = Removal(likelihood)
    removal.add(reference.bounds())
    for name, attribution in scored.items():
        values = [score for score in attribution.scores if score is not None]
        if len(values) == len(attribution.scores):
            tallies[name].add(reference.figures(np.array(values)))


def _report(tally: _Tally) -> dict[str, Any]:
    report: dict[str, Any] = {"n": tally.scored}
    report |= {name: _json(estimate(values)) for name, values in tally.figures.items()}
    report["unscored"] = {"passages": tally.unscored, "reasons": dict(tally.reasons)}
    report["cost"] = _cost(tally.costs)
    return report


def _cost(costs: Sequence[_Cost]) -> dict[str, float | int | None]:
    """Means over the items that were timed; the ratios are sums over sums."""
    if not costs:
        return {"items": 0, "seconds": None, "seconds_per_prefill": None, "tokens_per_prefill": None}
    seconds, tokens = sum(c.seconds for c in costs), sum(c.tokens for c in costs)
    known = [c for c in costs if c.prefill_seconds and c.prefill_tokens]
    whole = len(known) == len(costs)
    return {
        "items": len(costs),
        "seconds": round(seconds / len(costs), 4),
        "seconds_per_prefill": round(seconds / sum(c.prefill_seconds or 0.0 for c in known), 4) if whole else None,
        "tokens_per_prefill": round(tokens / sum(c.prefill_tokens or 0 for c in known), 4) if whole else None,
    }


def _prefill(lm: LanguageModel, case: Case) -> tuple[float | None, int | None]:
    """Seconds and tokens of one plain pass over prompt and answer."""
    import torch

    try:
        thread = build_thread(case, lm)
    except ProvenanceError:
        return None, None
    began = time.perf_counter()
    with torch.inference_mode():
        forward(lm.model, [*thread.prompt.token_ids, *thread.answer_ids])
    return time.perf_counter() - began, thread.tokens


@dataclass(slots=True)
class _Tokens:
    count: int = 0


@contextmanager
def _counted(lm: LanguageModel | None) -> Iterator[_Tokens]:
    """Counts the tokens that go through the language model, in every batch row."""
    tokens = _Tokens()
    if lm is None:
        yield tokens
        return

    def count(module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        ids = keywords["input_ids"] if keywords.get("input_ids") is not None else arguments[0]
        tokens.count += int(ids.numel())

    handle = lm.model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield tokens
    finally:
        handle.remove()


def _json(value: Estimate) -> dict[str, Any]:
    interval = None if value.interval is None else [round(bound, 4) for bound in value.interval]
    return {"value": None if value.value is None else round(value.value, 4), "interval": interval, "n": value.n}
