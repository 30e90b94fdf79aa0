from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel
from provenance.methods.calibration import (
    Calibration,
    Figures,
    Sample,
    calibrate,
    ensure_calibration,
    file_name,
    find_calibration,
    fit,
    live_layers,
    measure,
    pooled_masses,
    position_spread,
    read_calibration,
    read_planted,
    write_calibration,
)
from provenance.methods.planted import planted_prompts
from provenance.methods.readout import Layout, Readout
from provenance.records import Span
from tests.methods.tiny_models import tiny_model

FIGURES = Figures(36, 0.97, 0.3, 20, 1.0, 0.25, 0.81, 2.5, 0.17)
CALIBRATION = Calibration("a/model", "f00", ((1, 2), (3, 0)), (0.25, 0.75), 2, "leave-one-out, fast", 48, 1, 2, FIGURES)


def readout_of(masses: np.ndarray, layers: tuple[int, ...] = (0, 1)) -> Readout:
    """A readout of two answer tokens after a prompt of ten; `masses` (layers, heads, N) is their mean row."""
    layer_count, heads, n = masses.shape
    spans = tuple(Span(i, i + 1) for i in range(n))
    rows = np.zeros((4, layer_count, heads, 2 * n + 2), dtype=np.float32)
    rows[1:3, ..., n : 2 * n] = masses * np.array([0.5, 1.5])[:, None, None, None]  # the rows that predict the answer
    rows[0, ..., n : 2 * n] = masses[..., ::-1]  # the question's row
    return Readout(Layout(spans, spans, Span(8, 9), 10), 2, layers, np.array([8, 9, 10, 11]), rows)


def samples_with_one_good_head(count: int = 20) -> list[Sample]:
    """Head (1, 1) follows the effect; head (0, 0) likes the first passage, whatever it says; the rest is noise."""
    rng = np.random.default_rng(5)
    planted = planted_prompts(1, 1)[0]
    made = []
    for _ in range(count):
        effects = rng.exponential(size=4)
        masses = rng.uniform(0, 0.02, size=(2, 2, 4))
        masses[1, 1] = 0.1 * effects
        masses[0, 0] = [0.9, 0.02, 0.02, 0.02]
        readout = readout_of(masses)
        readout.masses[0, ..., 4:8] = masses  # the question looks where the answer looks
        made.append(Sample(planted, readout, effects))
    return made


def test_the_head_that_follows_the_effect_is_chosen_and_one_that_likes_a_place_is_not() -> None:
    heads, weights = fit(samples_with_one_good_head(), 1)
    assert heads == ((1, 1),)
    assert weights == (1.0,)
    every, _ = fit(samples_with_one_good_head(200), 4)
    assert every[0] == (1, 1)
    assert every.index((0, 0)) > 0


def test_weights_sum_to_one_and_are_smaller_for_a_head_that_varies_more() -> None:
    heads, weights = fit(samples_with_one_good_head(), 4)
    assert sum(weights) == pytest.approx(1.0)
    by_head = dict(zip(heads, weights, strict=True))
    assert by_head[1, 1] < by_head[0, 1]


def test_a_head_that_never_looks_at_a_passage_is_not_chosen() -> None:
    samples = samples_with_one_good_head()
    for sample in samples:
        sample.readout.masses[:, 0, 1] = 0.0
    heads, _ = fit(samples, 3)
    assert (0, 1) not in heads


def test_scores_are_the_weighted_mean_over_the_answers_rows_and_the_questions() -> None:
    masses = np.arange(12, dtype=float).reshape(2, 2, 3) / 100
    calibration = replace(CALIBRATION, heads=((0, 1), (1, 0)))
    readout = readout_of(masses)
    answer = 0.25 * masses[0, 1] + 0.75 * masses[1, 0]
    asked = answer[::-1]
    # Two answer tokens, and the question counts as two more.
    np.testing.assert_allclose(calibration.scores(readout), (answer + asked) / 2, rtol=1e-5)
    np.testing.assert_allclose(replace(calibration, question_tokens=0).scores(readout), answer, rtol=1e-5)
    np.testing.assert_allclose(calibration.scores(readout, True), (answer + asked) / 4 + asked / 2, rtol=1e-5)
    tokens = calibration.token_masses(readout)
    np.testing.assert_allclose(tokens, [0.5 * answer, 1.5 * answer], rtol=1e-5)


def test_the_question_weighs_less_the_longer_the_answer_is() -> None:
    readout = readout_of(np.arange(12, dtype=float).reshape(2, 2, 3) / 100)
    answer, asked = readout.block_heads, readout.question_block_heads
    np.testing.assert_allclose(pooled_masses(readout, 8), 0.2 * answer + 0.8 * asked, rtol=1e-5)
    longer = replace(readout, answer_tokens=24)
    np.testing.assert_allclose(
        pooled_masses(longer, 8), 0.75 * longer.block_heads + 0.25 * longer.question_block_heads, rtol=1e-5
    )


def test_layers_are_found_by_their_number_where_some_are_no_attention_layers() -> None:
    masses = np.arange(12, dtype=float).reshape(2, 2, 3) / 100
    calibration = replace(CALIBRATION, heads=((7, 0),), weights=(1.0,), question_tokens=0)
    np.testing.assert_allclose(calibration.scores(readout_of(masses, (3, 7))), masses[1, 0], rtol=1e-5)


def test_position_spread_is_the_range_of_the_mean_shares_in_points() -> None:
    assert position_spread([np.array([2.0, 2.0]), np.array([1.0, 1.0])]) == 0.0
    assert position_spread([np.array([3.0, 1.0]), np.array([1.0, 1.0])]) == pytest.approx(25.0)
    assert position_spread([]) == 0.0


def test_a_calibration_is_position_bound_from_five_points_on() -> None:
    assert not CALIBRATION.position_bound
    assert replace(CALIBRATION, figures=replace(FIGURES, position_spread=5.0)).position_bound


def test_the_words_give_both_figures_and_the_number_of_cases() -> None:
    assert "in 30 % of planted cases" in CALIBRATION.words
    assert "in 97 % (n = 36" in CALIBRATION.words


def test_a_written_calibration_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / file_name(CALIBRATION.model, CALIBRATION.revision)
    write_calibration(CALIBRATION, path)
    assert path.name == "a_model-f00.json"
    assert read_calibration(path) == CALIBRATION
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"heads_and_weights": []}', '{"heads_and_weights": [{"layer": 1}]}']
)
def test_a_damaged_file_is_a_named_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ProvenanceError, match="is not a calibration"):
        read_calibration(path)


def test_measuring_a_prompt_with_a_cache_gives_what_it_gives_without() -> None:
    lm = tiny_model("llama")
    planted = planted_prompts(1, 3, 5, 5)[0]
    from provenance.methods.calibration import _own_answer

    own = _own_answer(lm, planted)
    fresh, cached = measure(lm, planted), measure(lm, planted, own.cache)
    np.testing.assert_allclose(cached.effects, fresh.effects, atol=1e-4)
    np.testing.assert_allclose(cached.masses, fresh.masses, atol=1e-5)
    np.testing.assert_allclose(fresh.readout.masses, read_planted(lm, planted).masses, atol=1e-5)


def test_a_hybrid_model_is_calibrated_against_exact_removal() -> None:
    lm = tiny_model("llama")
    hybrid = replace(lm, name="tiny-hybrid", hybrid=True, context_window=8192, _cache={})
    made = calibrate(hybrid, fit_prompts=2, check_prompts=1, same_prompts=1)
    assert made.target == "leave-one-out, exact"


def test_an_unknown_model_is_calibrated_once_with_progress_and_kept_under_home(tmp_path: Path) -> None:
    lm = replace(tiny_model("llama"), name="tiny/llama", context_window=8192, _cache={})
    assert find_calibration(lm, tmp_path) is None
    seen: list[float] = []
    made = calibrate(
        lm, fit_prompts=3, check_prompts=2, same_prompts=1, progress=lambda fraction, words: seen.append(fraction)
    )
    assert seen == pytest.approx([i / 6 for i in range(1, 7)])
    assert made.figures.prompts == 2
    assert 0 <= made.figures.top1 <= 1
    assert np.isfinite(made.weights).all()
    write_calibration(made, tmp_path / "calibration" / file_name(lm.name, lm.revision))
    again = ensure_calibration(lm, tmp_path, lambda fraction, words: pytest.fail("calibrated a second time"))
    assert again.heads == made.heads
    assert ensure_calibration(lm, tmp_path / "elsewhere") is again  # kept with the loaded model


def test_the_default_models_calibration_is_shipped_with_how_it_was_made(lm: LanguageModel, tmp_path: Path) -> None:
    found = find_calibration(replace(lm, _cache={}), tmp_path)
    assert found is not None
    assert found.target.startswith("leave-one-out")
    assert found.fit_seed != found.check_seed
    assert sum(found.weights) == pytest.approx(1.0, abs=1e-4)
    # What the project promises of planted prompts that had no part in choosing the heads.
    assert found.figures.prompts >= 200
    assert found.figures.top1 >= 0.90
    assert found.figures.answered >= 30
    assert found.figures.answered_top1 is not None
    assert found.figures.answered_top1 >= 0.97
    assert found.figures.last_layer_top1 < found.figures.top1
    assert json.dumps(found.figures.position_spread)


def test_every_layer_is_read_of_a_model_without_a_calibration_or_with_a_damaged_one(tmp_path: Path) -> None:
    lm = replace(tiny_model("llama"), name="tiny", _cache={})
    assert live_layers(lm, tmp_path) is None
    path = tmp_path / "calibration" / file_name("tiny", lm.revision)
    path.parent.mkdir()
    path.write_text("{")
    assert live_layers(lm, tmp_path) is None
