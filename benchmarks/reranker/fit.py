"""The head: how much each term counts, fitted on groups of one right passage and others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from benchmarks.reranker.graph import Head

Array = npt.NDArray[np.float64]

PRIOR = (2.0, 1.0, 1.0, 1.0)
"""The weights of the terms, each over its spread, that a head starts from: whole meaning counts double."""

HOLD = 10.0
"""How strongly the weights are held to the proportions of `PRIOR`. See `fit`."""


def fit(groups: Sequence[Array]) -> tuple[Head, dict[str, float]]:
    """A head for groups of shape (passages, terms) whose first row is the right passage, and how well it does.

    The terms are divided by their mean spread within a group, the fixed form of summing z-scores. Then
    the weights w minimise the listwise softmax loss plus `HOLD` · Σ (r − mean r)² / mean r² with r = w ÷ `PRIOR`.
    The training questions were written while their paragraph was read, so shared words serve them better than they
    serve questions from elsewhere; the prior keeps the terms of meaning in. Scale and bias last make
    the logistic of the score the odds of a pair of the training groups being right.
    """
    spread = np.mean([group.std(0) for group in groups], axis=0)
    scaled = [group / spread for group in groups]

    def loss(weights: Array) -> float:
        rows = [group @ weights for group in scaled]
        wrong = np.mean([np.log(np.exp(row - row.max()).sum()) + row.max() - row[0] for row in rows])
        ratio = weights / np.array(PRIOR)
        uneven = ((ratio - ratio.mean()) ** 2).sum() / max(ratio.mean() ** 2, 1e-9)
        return float(wrong + HOLD * uneven)

    found = minimize(loss, np.array(PRIOR), method="L-BFGS-B", bounds=[(0.0, 20.0)] * len(PRIOR)).x
    scores = np.concatenate([group @ found for group in scaled])
    right = np.concatenate([np.arange(len(group)) == 0 for group in scaled])
    scale, bias = _odds(scores, right)
    first = float(np.mean([int(np.argmax(group @ found)) == 0 for group in scaled]))
    return Head(tuple(float(w) for w in found / spread * scale), bias), {"groups": len(groups), "right first": first}


def _odds(scores: Array, right: npt.NDArray[np.bool_]) -> tuple[float, float]:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1e3).fit(scores[:, None], right)
    return float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
