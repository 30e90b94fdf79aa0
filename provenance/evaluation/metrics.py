"""How good scores are: pure functions of scores, labels and likelihoods.

Everything is per answer, since scores compare within one answer only; `estimate` joins answers.
A figure that is not defined for an answer (nothing to rank, no spread) is None, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Masks = npt.NDArray[np.bool_]
Scores = Sequence[float | None]

RESAMPLES = 2000
CLEAR_LEAD = 0.5


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure over `n` answers with its 95 % interval; all None where no answer has it."""

    value: float | None
    interval: tuple[float, float] | None
    n: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """How scores agree with a reference over the passages of one answer.

    `clear` is whether the reference's first leads its second by at least half of its own effect.
    """

    pearson: float | None
    spearman: float | None
    same_winner: bool
    clear: bool


@dataclass(frozen=True, slots=True)
class Counts:
    """Citations of one answer: right ones, wrong ones, and supporting passages that were not cited."""

    right: int
    wrong: int
    missed: int


def auc(scores: Scores, supporting: Collection[int]) -> float | None:
    """The chance that a supporting passage scores above another one, a tie counting half.

    AUC = Σ over pairs of [s⁺ > s⁻] + ½[s⁺ = s⁻], over the number of pairs: the Mann–Whitney U statistic
    (Hanley & McNeil, 1982). Passages without a score are left out; None where one side is then empty.
    """
    right, other = _split(scores, supporting)
    if not len(right) or not len(other):
        return None
    gap = right[:, None] - other[None, :]
    return float(((gap > 0) + 0.5 * (gap == 0)).mean())


def top1(scores: Scores, supporting: Collection[int]) -> float | None:
    """Whether the highest score is a supporting passage's; among tied firsts, the share of them that are."""
    right, other = _split(scores, supporting)
    if not len(right) + len(other) or not supporting:
        return None
    best = max(right.max(initial=-np.inf), other.max(initial=-np.inf))
    hits, misses = int((right == best).sum()), int((other == best).sum())
    return hits / (hits + misses)


def reciprocal_rank(scores: Scores, supporting: Collection[int]) -> float | None:
    """1 ÷ the rank of the first supporting passage (Voorhees, 1999); a tie with another passage adds half a rank."""
    right, other = _split(scores, supporting)
    if not len(right):
        return None
    best = right.max()
    return float(1.0 / (1.0 + (other > best).sum() + 0.5 * (other == best).sum()))


def without_top(scores: Floats, k: int) -> Masks:
    """The mask that keeps all but the k highest scores; of equal ones the first goes; shape (N,)."""
    kept = np.ones(len(scores), dtype=bool)
    kept[np.argsort(-scores, kind="stable")[:k]] = False
    return kept


def drop(everything: float, without: float, tokens: int) -> float:
    """[f(all) − f(all without the top k)] ÷ |A|, in nats per answer token (top-k drop: Cohen-Wang et al., 2024)."""
    return (everything - without) / tokens


def lds(scores: Floats, masks: Masks, totals: Floats) -> float | None:
    """Linear datamodeling score: the rank correlation of Σ scores of the kept passages with f of the subset.

    Park et al. (2023). `masks` (M, N), `totals` (M,) = f of each. None where either does not vary.
    """
    return spearman(masks @ scores, totals)


def agreement(scores: Floats, reference: Floats) -> Agreement | None:
    """How scores agree with reference effects, e.g. exact leave-one-out; None for fewer than two passages."""
    if len(scores) < 2:
        return None
    second, first = np.sort(reference)[-2:]
    return Agreement(
        pearson(scores, reference),
        spearman(scores, reference),
        int(np.argmax(scores)) == int(np.argmax(reference)),
        bool(first > 0 and first - second >= CLEAR_LEAD * first),
    )


def pearson(a: Floats, b: Floats) -> float | None:
    """Pearson's correlation, or None where either side does not vary."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    return float(np.corrcoef(a, b)[0, 1])


def spearman(a: Floats, b: Floats) -> float | None:
    """Pearson's correlation of the ranks, ties at their mean rank (Spearman, 1904)."""
    from scipy.stats import rankdata

    return pearson(np.asarray(rankdata(a), dtype=np.float64), np.asarray(rankdata(b), dtype=np.float64))


def citation_counts(cited: Collection[int], supporting: Collection[int]) -> Counts:
    """Each cited passage counts once, however often it is cited."""
    found, wanted = set(cited), set(supporting)
    return Counts(len(found & wanted), len(found - wanted), len(wanted - found))


def precision_recall_f1(counts: Sequence[Counts]) -> dict[str, Estimate]:
    """Micro-averaged over all passages of all answers.

    precision = right ÷ (right + wrong), recall = right ÷ (right + missed), F1 = their harmonic mean.
    """
    table = np.array([[c.right, c.wrong, c.missed] for c in counts], dtype=np.float64).reshape(-1, 3)

    def ratio(right: float, all_of_them: float) -> float:
        return right / all_of_them if all_of_them else np.nan

    figures: dict[str, Callable[[Floats], float]] = {
        "precision": lambda rows: ratio(rows[:, 0].sum(), rows[:, :2].sum()),
        "recall": lambda rows: ratio(rows[:, 0].sum(), rows[:, ::2].sum()),
        "f1": lambda rows: ratio(2 * rows[:, 0].sum(), 2 * rows[:, 0].sum() + rows[:, 1:].sum()),
    }
    return {name: _bootstrap(table, figure) for name, figure in figures.items()}


def estimate(values: Sequence[float | None]) -> Estimate:
    """The mean over the answers that have the figure, with its 95 % percentile bootstrap interval (Efron, 1979)."""
    return _bootstrap(np.array([v for v in values if v is not None], dtype=np.float64), np.mean)


def _bootstrap(rows: Floats, statistic: Callable[[Floats], float]) -> Estimate:
    if not len(rows) or np.isnan(value := float(statistic(rows))):
        return Estimate(None, None, len(rows))
    picks = np.random.default_rng(0).integers(0, len(rows), (RESAMPLES, len(rows)))
    low, high = np.nanquantile([statistic(rows[pick]) for pick in picks], [0.025, 0.975])
    return Estimate(value, (float(low), float(high)), len(rows))


def _split(scores: Scores, supporting: Collection[int]) -> tuple[Floats, Floats]:
    """The scores of supporting and of other passages, those without a score left out."""
    known = [(i in supporting, score) for i, score in enumerate(scores) if score is not None]
    return (
        np.array([score for supports, score in known if supports], dtype=np.float64),
        np.array([score for supports, score in known if not supports], dtype=np.float64),
    )
