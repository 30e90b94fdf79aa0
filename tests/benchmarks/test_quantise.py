"""The bytes of the packaged reranker's linear layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.reranker.quantise import WEIGHT_LEVELS, LayerInput, layer_inputs, quantise
from provenance.parts import Parts

OUTPUTS, CHANNELS, ROWS = 24, 48, 400


def _layer(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A weight, and rows of correlated channels of which three are far larger than the rest."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(ROWS, CHANNELS)) @ (np.eye(CHANNELS) + 0.4 * rng.normal(size=(CHANNELS, CHANNELS)))
    rows[:, :3] *= 25
    return rng.normal(size=(OUTPUTS, CHANNELS)).astype(np.float32), rows.astype(np.float32)


def _given(rows: np.ndarray) -> LayerInput:
    return LayerInput(np.abs(rows).max(0), (rows.T.astype(float) @ rows) / len(rows))


def _in_bytes(rows: np.ndarray) -> np.ndarray:
    scale = np.abs(rows).max(1, keepdims=True) / 127
    return np.rint(rows / scale) * scale


@pytest.mark.parametrize("smooth", [True, False])
def test_the_bytes_give_nearly_what_the_weight_gives(smooth: bool) -> None:
    weight, rows = _layer()
    stored = quantise(weight, _given(rows), smooth=smooth)
    assert (stored.factor is not None) == smooth
    entering = rows if stored.factor is None else rows / stored.factor
    made = entering @ (stored.levels * stored.scale).T
    wanted = rows @ weight.T
    assert np.linalg.norm(made - wanted) < 0.01 * np.linalg.norm(wanted)


def test_rounding_with_the_inputs_in_view_beats_the_nearest_level() -> None:
    weight, rows = _layer()
    stored = quantise(weight, _given(rows), smooth=False)
    scale = np.abs(weight).max(1, keepdims=True) / WEIGHT_LEVELS
    nearest = np.rint(weight / scale) * scale
    wanted = rows @ weight.T
    ours = np.linalg.norm(rows @ (stored.levels * stored.scale).T - wanted)
    assert ours < 0.7 * np.linalg.norm(rows @ nearest.T - wanted)


def test_a_factor_per_channel_makes_large_channels_cost_the_others_less() -> None:
    weight, rows = _layer()
    wanted = rows @ weight.T
    errors = []
    for smooth in (True, False):
        stored = quantise(weight, _given(rows), smooth=smooth)
        entering = _in_bytes(rows if stored.factor is None else rows / stored.factor)
        errors.append(np.linalg.norm(entering @ (stored.levels * stored.scale).T - wanted))
    assert errors[0] < errors[1]


def test_a_weight_keeps_to_seven_bits_so_that_sums_of_pairs_fit_into_sixteen() -> None:
    weight, rows = _layer()
    weight[0, 0] = 40.0
    levels = quantise(weight, _given(rows), smooth=True).levels.astype(int)
    assert np.abs(levels).max() <= WEIGHT_LEVELS
    assert 2 * 255 * np.abs(levels).max() < 2**15


def test_what_enters_each_of_the_encoders_layers_is_found(parts: Parts) -> None:
    embedder = parts.embedder()
    embedder.encode(["The files are checked before they are read."])
    found = layer_inputs(Path(embedder.folder), ["The bridge was opened in 1894.", "Who paid?"])
    assert len(found) == 6 * 6
    wide = found["encoder.layer.5.output.dense"]
    assert wide.gram.shape == (1536, 1536)
    assert wide.largest.shape == (1536,)
    for given in found.values():
        assert np.all(given.gram.diagonal() <= given.largest.astype(float) ** 2 * (1 + 1e-6))
    query, key = (found[f"encoder.layer.0.attention.self.{part}"] for part in ("query", "key"))
    assert np.array_equal(query.gram, key.gram)
