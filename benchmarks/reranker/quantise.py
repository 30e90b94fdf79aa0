"""The linear layers of the encoder in bytes, so that what they give changes little on text like the training text.

Two published steps. Where a layer reads what a LayerNorm gives, a few channels of which are far larger than the
rest, each channel is divided by a factor that the weights take up (SmoothQuant, Xiao et al., 2023); before the other
layers it did not help. Then the weights are rounded one input channel after another, and the
channels to come make up for what rounding changed (GPTQ, Frantar et al., 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

WEIGHT_LEVELS = 63  # 7 of 8 bits: a processor without dot products of bytes adds pairs of products in 16 bits
DAMPING = 0.01  # of the mean of the diagonal, as in GPTQ
CLIPS = (1.0, 0.95, 0.9, 0.85, 0.8)  # shares of an output's largest weight that are tried as its range


@dataclass(frozen=True, slots=True)
class LayerInput:
    """What enters a layer: each channel's largest absolute value, and the mean of xᵀx, (channels, channels)."""

    largest: Array
    gram: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Quantised:
    """`levels` (outputs, channels) · `scale` (outputs, 1) ≈ weight · `factor`; its input is divided by `factor`."""

    levels: npt.NDArray[np.int8]
    scale: Array
    factor: Array | None


def layer_inputs(encoder: Path, texts: Sequence[str]) -> dict[str, LayerInput]:
    """What enters each linear layer while the encoder in the folder reads `texts`, by the layer's name."""
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModel

    tokenizer = Tokenizer.from_file(str(encoder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(512)
    model = AutoModel.from_pretrained(encoder).eval()
    largest: dict[str, Any] = {}
    grams: dict[str, Any] = {}
    tokens = 0

    def watch(name: str, x: Any) -> None:
        rows = x[0].double()
        largest[name] = torch.maximum(largest.get(name, torch.zeros(())), rows.abs().amax(0))
        grams[name] = grams.get(name, 0) + rows.T @ rows

    hooks = [
        module.register_forward_pre_hook(lambda _, inputs, name=name: watch(name, inputs[0]))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and name.startswith("encoder.")
    ]
    with torch.no_grad():
        for text in texts:
            ids = tokenizer.encode(text).ids
            tokens += len(ids)
            model(input_ids=torch.tensor([ids]))
    for hook in hooks:
        hook.remove()
    return {name: LayerInput(largest[name].float().numpy(), (grams[name] / tokens).numpy()) for name in grams}


def quantise(weight: Array, given: LayerInput, *, smooth: bool) -> Quantised:
    """Bytes for `weight` (outputs, channels) on inputs like the given ones; with a factor per channel if `smooth`."""
    factor = np.sqrt(np.maximum(given.largest, 1e-4) / np.maximum(np.abs(weight).max(0), 1e-4))
    factor = factor / factor.mean() if smooth else np.ones_like(factor)
    moved = (weight * factor).astype(np.float64)
    gram = given.gram / np.outer(factor, factor)
    scale = _scales(moved, gram)
    levels = _rounded(moved, scale, gram).astype(np.int8)
    return Quantised(levels, scale.astype(np.float32), factor.astype(np.float32) if smooth else None)


def _scales(weight: npt.NDArray[np.float64], gram: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """For each output the scale, of those that clip its largest weights a little or not, that changes it least."""
    whole = np.maximum(np.abs(weight).max(1, keepdims=True) / WEIGHT_LEVELS, 1e-12)
    errors = []
    for clip in CLIPS:
        change = _nearest(weight, whole * clip) * whole * clip - weight
        errors.append(((change @ gram) * change).sum(1))
    return whole * np.array(CLIPS)[np.argmin(errors, axis=0)][:, None]


def _nearest(weight: npt.NDArray[np.float64], scale: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.clip(np.rint(weight / scale), -WEIGHT_LEVELS, WEIGHT_LEVELS)


def _rounded(
    weight: npt.NDArray[np.float64], scale: npt.NDArray[np.float64], gram: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """GPTQ, the channels of largest input first."""
    order = np.argsort(-gram.diagonal(), kind="stable")
    rest = weight[:, order].copy()
    hessian = gram[np.ix_(order, order)] + np.eye(len(gram)) * gram.diagonal().mean() * DAMPING
    spread = np.linalg.cholesky(np.linalg.inv(hessian)).T
    levels = np.zeros_like(rest)
    for j in range(len(gram)):
        levels[:, j] = _nearest(rest[:, j : j + 1], scale)[:, 0]
        error = (rest[:, j] - levels[:, j] * scale[:, 0]) / spread[j, j]
        rest[:, j:] -= np.outer(error, spread[j, j:])
    back = np.empty_like(levels)
    back[:, order] = levels
    return back
