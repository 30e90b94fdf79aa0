"""Shapley: credit shared fairly when sources repeat each other.

Up to six passages the Shapley value of f over all 2^N subsets is computed exactly. Above that a
surrogate is fitted as in ContextCite (Cohen-Wang et al., 2024): the answer's logit-probability
under random subsets, regressed on which passages were kept, with the Lasso.
Every subset is a mask on the key-value cache (`likelihood.masked_logprobs`).
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from typing import ClassVar

import numpy as np

from provenance.errors import ProvenanceError
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.likelihood import BoolArray, FloatArray, Likelihood, likelihood_of
from provenance.methods.thread import unmeasured, writer_reason
from provenance.methods.wording import near_duplicates
from provenance.records import Attribution, MethodKind

EXACT_UP_TO = 6
SUBSETS = 64
SEED = 20


def all_subsets(n: int) -> BoolArray:
    """Every subset of n passages; shape (2^n, n). Row r keeps passage i where bit i of r is set."""
    return (np.arange(2**n)[:, None] >> np.arange(n)[None, :] & 1).astype(bool)


def shapley_values(worth: FloatArray) -> FloatArray:
    """The Shapley values of a game; shape (n,).

    `worth[r]` is the worth of the subset in row r of `all_subsets(n)`. The values sum to the
    worth of everyone minus the worth of no one (Shapley, 1953).
    """
    n = int(math.log2(len(worth)))
    values = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for chosen in itertools.combinations(others, size):
                row = sum(1 << j for j in chosen)
                values[i] += weight * (worth[row | 1 << i] - worth[row])
    return values


def random_subsets(n: int, count: int, seed: int = SEED) -> BoolArray:
    """`count` distinct random subsets, each passage kept with p = 0.5, and the same ones for the same seed; (count, n).

    A subset is followed by its complement, so that every passage is kept in exactly half of an even count.
    """
    generator = np.random.default_rng(seed)
    count = min(count, 2**n)
    chosen: dict[bytes, BoolArray] = {}
    while len(chosen) < count:
        mask = generator.random(n) < 0.5
        for one in (mask, ~mask):
            chosen.setdefault(one.tobytes(), one)
    return np.stack(list(chosen.values())[:count])


def surrogate(masks: BoolArray, totals: FloatArray, tokens: int, strength: float = 0.01) -> FloatArray:
    """The Lasso weights of the passages, in nats per answer token; shape (n,).

    `totals` are f of each mask; the target is log(p / (1 − p)) of the whole answer, which
    equals f where the answer is unlikely and keeps growing where it is nearly certain.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    target = (totals - np.log(-np.expm1(np.minimum(totals, -1e-6)))) / tokens
    scale = float(target.std())
    if scale == 0.0:
        return np.zeros(masks.shape[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = Lasso(alpha=strength, max_iter=10_000).fit(masks.astype(float), (target - target.mean()) / scale)
    return np.asarray(fitted.coef_ * scale, dtype=np.float64)


def credit(likelihood: Likelihood, subsets: int = SUBSETS, progress: Progress = silent) -> FloatArray:
    """Shapley values (N ≤ 6) or surrogate weights (N > 6), in nats per answer token; shape (N,)."""
    n, tokens = len(likelihood.prompt.block_tokens), len(likelihood.answer_ids)
    if n <= EXACT_UP_TO:
        return shapley_values(likelihood.masked(all_subsets(n), progress).sum(axis=1)) / tokens
    masks = random_subsets(n, subsets)
    return surrogate(masks, likelihood.masked(masks, progress).sum(axis=1), tokens)


class Shapley(Method):
    """Each source's fair part of what all of them add to the answer."""

    name: ClassVar[str] = "shapley"
    label: ClassVar[str] = "Shapley"
    kind: ClassVar[MethodKind] = "used"
    meaning: ClassVar[str] = "a fair part, also where sources repeat each other"
    cost: ClassVar[str] = "about four passes"
    scale: ClassVar[Scale] = Scale("nats per answer token", share=True)

    def unavailable(self, resources: Resources) -> str | None:
        """Why no passage can be hidden from the writer here, or None."""
        return writer_reason(resources)

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Nats per answer token. A note names the sources that say nearly the same.

        Only the answer's likelihood counts, so `include_query` changes nothing. `extra["subsets"]` is the number of
        subsets, `extra["surrogate"]` is 1 where the values are the Lasso's.
        """
        began = time.perf_counter()
        n = len(case.passages)
        if not n:
            return Attribution(self.name, (), include_query, 0.0)
        try:
            likelihood = likelihood_of(resources.language_model(), case)
            if not likelihood.answer_ids:
                return unmeasured(self.name, case, include_query, began, "The answer is empty.")
            scores = credit(likelihood, progress=progress)
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        return Attribution(
            self.name,
            tuple(float(score) + 0.0 for score in scores),
            include_query,
            time.perf_counter() - began,
            notes=_group_notes(case.passages),
            extra={"subsets": float(min(SUBSETS, 2**n)), "surrogate": float(n > EXACT_UP_TO)},
        )


def _group_notes(passages: tuple[str, ...]) -> tuple[str | None, ...]:
    groups = near_duplicates(passages)
    if not any(groups):
        return ()
    return tuple(
        f"Says nearly the same as source{'s' if len(group) > 1 else ''} {', '.join(str(i + 1) for i in group)}: "
        "either can replace the other, so they share the credit."
        if group
        else None
        for group in groups
    )
