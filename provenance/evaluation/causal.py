"""What removing passages really does to one answer: the reference that model-based figures are judged by.

f(M) is the answer's log-probability with the text of every passage outside M removed. It takes
tens of passes over each prompt.
"""

from __future__ import annotations

import numpy as np

from provenance.evaluation.metrics import Floats, Masks, agreement, drop, lds, without_top
from provenance.methods.likelihood import Likelihood, all_but_one
from provenance.methods.shapley import random_subsets

SUBSETS = 16
SEED = 7041  # not the one the Shapley surrogate is fitted with
DROPS = (1, 2)
_RANDOM_PAIRS = 4


class Removal:
    """f of one answer for the sets of passages that the figures ask about; each set is run once."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood
        self.n = len(likelihood.prompt.block_tokens)
        self.tokens = len(likelihood.answer_ids)
        self.everything = float(self.totals(np.ones((1, self.n), dtype=bool))[0])
        self.effects: Floats = (self.everything - self.totals(all_but_one(self.n))) / self.tokens
        self.subsets = held_out_subsets(self.n)
        self.subset_totals = self.totals(self.subsets)

    def totals(self, masks: Masks) -> Floats:
        """f of each mask; shape (M,)."""
        return np.asarray(self.likelihood.exact(masks).sum(axis=1), dtype=np.float64)

    def drop(self, kept: Masks) -> float:
        """The drop per answer token where only `kept` (shape (N,)) stays."""
        return drop(self.everything, float(self.totals(kept[None])[0]), self.tokens)

    def figures(self, scores: Floats) -> dict[str, float | None]:
        """Top-k drop, LDS and agreement with exact leave-one-out for the scores of one method; shape (N,)."""
        found: dict[str, float | None] = {
            f"top_{k}_drop": self.drop(without_top(scores, k)) if k < self.n else None for k in DROPS
        }
        found["lds"] = lds(scores, self.subsets, self.subset_totals)
        judged = agreement(scores, self.effects)
        if judged is not None:
            found["leave_one_out_pearson"] = judged.pearson
            found["leave_one_out_spearman"] = judged.spearman
            found["leave_one_out_same_winner"] = float(judged.same_winner)
            found["leave_one_out_same_clear_winner"] = float(judged.same_winner) if judged.clear else None
        return found

    def bounds(self) -> dict[str, float | None]:
        """What random and best choices of k passages drop.

        Random-1 is the mean over all passages, random-2 over a few pairs. Best-2 is the best passage with
        the one that adds most to it: the greedy choice, which a better pair may exceed.
        """
        found: dict[str, float | None] = {}
        if self.n > 1:
            found["random_1_drop"] = float(self.effects.mean())
            found["best_1_drop"] = float(self.effects.max())
        if self.n > 2:
            pairs = _random_pairs(self.n)
            found["random_2_drop"] = float(np.mean([self.drop(pair) for pair in pairs]))
            first = int(np.argmax(self.effects))
            added = all_but_one(self.n)
            added[:, first] = False
            found["best_2_drop"] = max(self.drop(kept) for i, kept in enumerate(added) if i != first)
        return found


def held_out_subsets(n: int) -> Masks:
    """Random subsets that no method is fitted on; shape (≤ SUBSETS, n), each passage kept with p = 0.5.

    With few passages there are not many different ones, and the methods see them all.
    """
    return random_subsets(n, SUBSETS, SEED)


def _random_pairs(n: int) -> Masks:
    generator = np.random.default_rng(SEED)
    kept = np.ones((_RANDOM_PAIRS, n), dtype=bool)
    for row in kept:
        row[generator.choice(n, 2, replace=False)] = False
    return kept
