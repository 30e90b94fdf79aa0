import numpy as np
import pytest

from provenance.generation.models import LanguageModel
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods.base import Case
from provenance.methods.leave_one_out import LeaveOneOut, beyond_window, effects
from provenance.methods.likelihood import answer_logprobs, likelihood_of
from tests.methods.tiny_models import tiny_model

CASE = Case("Who came?", "Ada came.", ("Ada came in {May}.", "Nobody else.", "It rained."), ("A", "B", "C"))


class Local:
    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm

    def language_model(self) -> LanguageModel:
        return self.lm


def fresh() -> Case:
    return Case(CASE.question, CASE.answer, CASE.passages, CASE.titles, scratch={})


def by_hand(lm: LanguageModel) -> list[float]:
    """f with all passages minus f of a prompt built without one, per answer token."""
    documents = pasted_passages(tuple(zip(CASE.titles, CASE.passages, strict=True)))
    ids = tuple(lm.tokenizer(CASE.answer)["input_ids"])
    everything = answer_logprobs(lm, build_prompt(lm, CASE.question, documents), ids).sum()
    found = []
    for i in range(3):
        rest = [j for j in range(3) if j != i]
        prompt = build_prompt(lm, CASE.question, [documents[j] for j in rest], numbers=[j + 1 for j in rest])
        found.append((everything - answer_logprobs(lm, prompt, ids).sum()) / len(ids))
    return found


def test_exact_scores_are_the_drop_in_likelihood_per_answer_token() -> None:
    lm = tiny_model("qwen2")
    result = LeaveOneOut("exact").score(fresh(), Local(lm))
    np.testing.assert_allclose(result.scores, by_hand(lm), atol=1e-4)
    assert result.extra["exact"] == 1.0


def test_fast_scores_hide_each_passage_from_the_answer_and_differ_from_exact_ones() -> None:
    lm = tiny_model("qwen2")
    case = fresh()
    result = LeaveOneOut().score(case, Local(lm))
    likelihood = likelihood_of(lm, case)
    keep_all = likelihood.masked(np.ones((1, 3), bool)).sum()
    without_second = likelihood.masked(np.array([[True, False, True]])).sum()
    assert result.scores[1] == pytest.approx((keep_all - without_second) / len(likelihood.answer_ids))
    assert result.extra["exact"] == 0.0
    assert not np.allclose(result.scores, by_hand(lm), atol=1e-4)


def test_the_effects_per_token_add_up_to_the_score() -> None:
    lm = tiny_model("llama")
    case = fresh()
    result = LeaveOneOut().score(case, Local(lm))
    np.testing.assert_allclose(effects(likelihood_of(lm, case)).mean(axis=1), result.scores)


def test_a_hybrid_model_is_measured_by_exact_removal() -> None:
    lm = tiny_model("qwen2")
    hybrid = LanguageModel(lm.model, lm.tokenizer, "tiny-hybrid", "0", 2048, 3, 4, hybrid=True)
    result = LeaveOneOut().score(fresh(), Local(hybrid))
    np.testing.assert_allclose(result.scores, by_hand(lm), atol=1e-4)
    assert result.extra["exact"] == 1.0


def test_a_source_beyond_the_sliding_window_carries_a_note() -> None:
    lm = tiny_model("mistral")
    case = Case("Who?", "Ada.", ("far", "x" * 80), ("Far", "Near"), scratch={})
    result = LeaveOneOut().score(case, Local(lm))
    assert beyond_window(lm, likelihood_of(lm, case).prompt) == (True, False)
    assert "sliding window" in str(result.notes[0])
    assert result.notes[1] is None


def test_one_passage_and_no_passages_and_an_empty_answer_are_answered() -> None:
    lm = Local(tiny_model("llama"))
    one = LeaveOneOut().score(Case("q", "a", ("p",), ("t",)), lm)
    assert len(one.scores) == 1
    assert np.isfinite(one.scores[0])
    assert LeaveOneOut().score(Case("q", "a", (), ()), lm).scores == ()
    empty = LeaveOneOut().score(Case("q", "", ("p",), ("t",)), lm)
    assert (empty.scores, empty.reason) == ((None,), "The answer is empty.")
