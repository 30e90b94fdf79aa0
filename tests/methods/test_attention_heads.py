from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from provenance.generation.models import LanguageModel
from provenance.methods.attention_heads import AttentionHeads
from provenance.methods.base import Case
from provenance.methods.calibration import Calibration, Figures, file_name, find_calibration, write_calibration
from provenance.methods.planted import identical_prompts, planted_prompts
from provenance.methods.readout import forward, read_attention
from provenance.methods.thread import build_thread
from provenance.parts import Parts
from provenance.settings import Settings
from tests.methods.tiny_models import tiny_model

FIGURES = Figures(1, 1.0, 0.0, 0, None, None, 0.0, 1.0, 0.2)


class Local:
    def __init__(self, lm: LanguageModel, home: Path, position_spread: float = 1.0) -> None:
        self.lm = replace(lm, name="tiny", _cache={})
        self.settings = Settings(provenance_home=home)
        figures = replace(FIGURES, position_spread=position_spread)
        made = Calibration(
            "tiny", lm.revision, ((1, 2), (2, 0)), (0.5, 0.5), 8, "leave-one-out, fast", 1, 1, 2, figures
        )
        write_calibration(made, home / "calibration" / file_name("tiny", lm.revision))

    def language_model(self) -> LanguageModel:
        return self.lm


def case_of(passages: tuple[str, ...], answer: str = "Ada came.", titles: tuple[str, ...] | None = None) -> Case:
    return Case("Who came?", answer, passages, titles or tuple("ABCDEF"[: len(passages)]), scratch={})


def test_the_default_model_finds_planted_facts_that_calibration_did_not_see(parts: Parts) -> None:
    right = 0
    prompts = [p for p in planted_prompts(24, 77, 4, 4) if p.shape in ("short", "sentence")][:5]
    for planted in prompts:
        scored = AttentionHeads().score(Case(planted.question, planted.answer, planted.passages, planted.titles), parts)
        right += int(np.argmax(scored.scores)) in planted.gold
    assert right >= len(prompts) - 1


def test_filler_added_to_another_passage_does_not_change_which_one_comes_first(parts: Parts) -> None:
    planted = next(p for p in planted_prompts(24, 78, 4, 4) if p.shape == "sentence")
    other = (planted.gold[0] + 1) % 4
    filler = " The weather in the area is mild for most of the year, and little else is known about it." * 4
    longer = tuple(text + filler if i == other else text for i, text in enumerate(planted.passages))
    scored = AttentionHeads().score(Case(planted.question, planted.answer, longer, planted.titles), parts)
    assert int(np.argmax(scored.scores)) == planted.gold[0]


def test_identical_passages_are_named_where_the_heads_go_by_place(tmp_path: Path) -> None:
    case = case_of(("Ada came.", "It rained.", "Ada came."))
    notes = AttentionHeads().score(case, Local(tiny_model("llama"), tmp_path, position_spread=12.0)).notes
    assert "Same text as source 3" in str(notes[0])
    assert notes[1] is None
    assert AttentionHeads().score(case, Local(tiny_model("llama"), tmp_path)).notes == ()


def test_identical_passages_move_less_than_five_points_or_the_calibration_says_so(parts: Parts) -> None:
    calibration = find_calibration(parts.language_model(), parts.settings.provenance_home)
    assert calibration is not None
    shares = []
    for planted in identical_prompts(3, 79, 4):
        case = Case(planted.question, planted.answer, planted.passages, planted.titles)
        scores = np.asarray(AttentionHeads().score(case, parts).scores, dtype=float)
        shares.append(100 * scores / scores.sum())
    assert calibration.position_bound or float(np.ptp(np.mean(shares, axis=0))) < 5.0


def test_scores_are_shares_of_attention_and_the_total_on_passages_is_reported(tmp_path: Path) -> None:
    scored = AttentionHeads().score(case_of(("Ada came in May.", "It rained.")), Local(tiny_model("qwen2"), tmp_path))
    assert all(score is not None and 0 < score < 1 for score in scored.scores)
    assert scored.extra["mass_on_passages"] == pytest.approx(sum(s for s in scored.scores if s is not None))
    assert 0 < scored.extra["mass_on_passages"] < 1
    assert scored.extra["position_spread"] == 1.0


def test_counting_the_question_changes_the_scores(tmp_path: Path) -> None:
    local = Local(tiny_model("llama"), tmp_path)
    case = case_of(("Ada came in May.", "It rained."))
    without, counted = (AttentionHeads().score(case, local, include_query=flag) for flag in (False, True))
    assert counted.include_query
    assert counted.scores != without.scores


def test_the_readout_of_a_case_is_shared_and_a_second_method_runs_no_pass(tmp_path: Path) -> None:
    local = Local(tiny_model("llama"), tmp_path)
    case = case_of(("Ada came in May.", "It rained."))
    assert case.scratch is not None
    first = AttentionHeads().score(case, local)
    kept = case.scratch["readout"]
    assert AttentionHeads().score(case, local).scores == first.scores
    assert case.scratch["readout"] is kept


def test_no_passages_one_passage_and_an_empty_answer_are_answered(tmp_path: Path) -> None:
    local = Local(tiny_model("llama"), tmp_path)
    assert AttentionHeads().score(case_of(()), local).scores == ()
    one = AttentionHeads().score(case_of(("Ada came.",)), local)
    assert one.scores[0] is not None
    empty = AttentionHeads().score(case_of(("Ada came.",), "  "), local)
    assert empty.scores == (None,)
    assert "empty" in str(empty.reason)


def test_a_damaged_calibration_is_a_reason_not_an_error(tmp_path: Path) -> None:
    local = Local(tiny_model("llama"), tmp_path)
    (tmp_path / "calibration" / file_name("tiny", local.lm.revision)).write_text("{")
    scored = AttentionHeads().score(case_of(("Ada came.",)), local)
    assert scored.scores == (None,)
    assert "is not a calibration" in str(scored.reason)


def test_a_remote_writer_gives_a_reason_without_loading_anything(tmp_path: Path) -> None:
    remote = Parts(Settings(provenance_home=tmp_path, provenance_endpoint="http://localhost:1/v1"))
    assert "remote endpoint" in str(AttentionHeads().unavailable(remote))


def test_an_answer_that_was_read_in_other_layers_gets_one_pass_of_its_own(tmp_path: Path) -> None:
    local = Local(tiny_model("llama"), tmp_path)
    whole = case_of(("Ada came in May.", "It rained."))
    thread = build_thread(whole, local.lm)
    with torch.inference_mode(), read_attention(local.lm, thread.prompt, layers=[0]) as reader:
        forward(local.lm.model, [*thread.prompt.token_ids, *thread.answer_ids])
    live = replace(whole, prompt=thread.prompt, answer_ids=thread.answer_ids, readout=reader.readout(), scratch={})
    assert AttentionHeads().score(live, local).scores == pytest.approx(AttentionHeads().score(whole, local).scores)
