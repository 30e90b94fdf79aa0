"""How well the methods find the passages that are known to support an answer, on the labelled sets.

The sets lie beside the repository; where they are absent the rows say so. Attention of the calibrated
heads stands beside last-layer attention, the reranker beside similarity, both with the answer alone as
the left side. The figures are those of `python -m provenance evaluate`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.table import Goal, Row
from provenance.evaluation.run import evaluate_file
from provenance.methods.calibration import find_calibration
from provenance.parts import Parts
from provenance.settings import load_settings

SETS = Path(__file__).parents[1] / "../shared/data/attribution"
METHODS = {"attention-heads": "attention", "rerank": "similarity"}
BASELINES = tuple(METHODS.values())
GOALS = {
    ("quotesum_padded", "attention-heads", "auc"): 0.95,
    ("hotpotqa", "attention-heads", "auc"): 0.80,
    ("hotpotqa", "attention-heads", "top_1"): 0.85,
    ("musique", "attention-heads", "top_1"): 0.85,
    ("hotpotqa", "rerank", "auc"): 0.79,
    ("musique", "rerank", "auc"): 0.73,
    ("quotesum_padded", "rerank", "auc"): 0.98,
}
CITATION_GOALS = {"precision": 0.80, "recall": 0.60}
_QUICK = 4


def run(quick: bool) -> list[Row]:
    """AUC and top-1 of each method on each set, evidence citations, and the planted prompts."""
    parts = Parts(load_settings())
    rows: list[Row] = []
    for name in ("quotesum_padded", "hotpotqa", "musique"):
        path = SETS / f"{name}.jsonl"
        if not path.is_file():
            rows.append(Row(name, None, note=f"../shared/data/attribution/{path.name} is absent"))
            continue
        found = evaluate_file(path, [*METHODS, *BASELINES], parts, limit=_QUICK if quick else None)
        rows += _methods(name, found)
        if name == "quotesum_padded":
            rows += _citations(found["evidence_citations"])
    return [*rows, *_planted(parts)]


def _methods(name: str, found: dict[str, Any]) -> list[Row]:
    rows = []
    for method, baseline in METHODS.items():
        for metric, words in (("auc", "AUC"), ("top_1", "top-1")):
            judged, beside = found["methods"][method][metric], found["methods"][baseline][metric]
            rows.append(
                Row(
                    f"{method}, {name} (n = {judged['n']}): {words}",
                    judged["value"],
                    "",
                    baseline,
                    beside["value"],
                    _least(GOALS.get((name, method, metric))),
                    _interval(judged["interval"]),
                )
            )
    return rows


def _citations(found: dict[str, Any]) -> list[Row]:
    return [
        Row(
            f"evidence citations, quotesum_padded (n = {found['n']}): {metric}",
            found[metric]["value"],
            goal=_least(goal),
            note=_interval(found[metric]["interval"]),
        )
        for metric, goal in CITATION_GOALS.items()
    ]


def _planted(parts: Parts) -> list[Row]:
    """The figures `make calibrate` wrote for the loaded model, on prompts that had no part in choosing its heads."""
    calibration = find_calibration(parts.language_model(), parts.settings.provenance_home)
    if calibration is None:
        return [Row("planted prompts", None, note="this model was never calibrated")]
    f = calibration.figures
    last = "last layer"
    return [
        Row(f"planted prompts (n = {f.prompts}): top-1", f.top1, "", last, f.last_layer_top1, _least(0.90)),
        Row(
            f"planted prompts the model answers itself (n = {f.answered}): top-1",
            f.answered_top1,
            "",
            last,
            f.last_layer_answered_top1,
            _least(0.97),
        ),
        Row("identical passages: spread of the mean share over the places", f.position_spread, "points"),
    ]


def _least(limit: float | None) -> Goal | None:
    return None if limit is None else Goal(limit, of="value", least=True)


def _interval(bounds: list[float] | None) -> str:
    return "" if bounds is None else f"95 %: {bounds[0]:.2f} to {bounds[1]:.2f}"
