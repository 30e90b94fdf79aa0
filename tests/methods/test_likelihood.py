import numpy as np
import pytest
import torch

from provenance.errors import Unavailable
from provenance.generation.models import LanguageModel
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods import likelihood
from provenance.methods.base import Case
from provenance.methods.likelihood import (
    Likelihood,
    Rotation,
    all_but_one,
    answer_logprobs,
    build_prefix,
    exact_logprobs,
    likelihood_of,
    masked_logprobs,
    prefix_from_cache,
    rotations_of,
    without_documents,
)
from provenance.records import Prompt
from tests.methods.tiny_models import FAMILIES, tiny_model

TEXTS = ["The kiln was fired in May.", "Glaze {is} thin.", "The kiln was fired in May.", "Nobody came."]


def make(family: str, texts: list[str] = TEXTS) -> tuple[LanguageModel, Prompt, tuple[int, ...]]:
    lm = tiny_model(family)
    prompt = build_prompt(lm, "When was it fired?", pasted_passages([(f"Note {i}", t) for i, t in enumerate(texts)]))
    return lm, prompt, tuple(lm.tokenizer("In May, they say.")["input_ids"])


def textbook(lm: LanguageModel, prompt: Prompt, answer: tuple[int, ...], kept: np.ndarray) -> np.ndarray:
    """One pass over the whole thread, eager attention, hiding the dropped blocks from everything after them."""
    ids = [*prompt.token_ids, *answer]
    total = len(ids)
    visible = torch.ones(total, total).tril().bool()
    tail = prompt.block_tokens[-1].stop
    for keep, block in zip(kept, prompt.block_tokens, strict=True):
        if not keep:
            visible[tail:, block.start : block.stop] = False
    config = lm.model.config.get_text_config()
    window = getattr(config, "sliding_window", None)
    near = visible & (torch.arange(total)[:, None] - torch.arange(total)[None] < (window or total))

    def additive(mask: torch.Tensor) -> torch.Tensor:
        return torch.zeros(1, 1, total, total).masked_fill(~mask, torch.finfo(torch.float32).min)

    kinds = set(getattr(config, "layer_types", None) or ())
    mask = additive(near if window and "full_attention" not in kinds else visible)
    if "sliding_attention" in kinds:
        mask = {"full_attention": additive(visible), "sliding_attention": additive(near)}
    before = config._attn_implementation
    lm.model.set_attn_implementation("eager")
    try:
        with torch.inference_mode():
            logits = lm.model(torch.tensor([ids]), attention_mask=mask).logits[0].double()
    finally:
        lm.model.set_attn_implementation(before)
    rows = logits[len(prompt.token_ids) - 1 : -1].log_softmax(-1)
    return rows[torch.arange(len(answer)), torch.tensor(answer)].numpy()


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_hidden_gives_the_log_probabilities_of_a_plain_pass(family: str) -> None:
    lm, prompt, answer = make(family)
    every = masked_logprobs(lm, build_prefix(lm, prompt), answer, np.ones((1, 4), bool))
    np.testing.assert_allclose(every[0], answer_logprobs(lm, prompt, answer), atol=1e-4)


ROTARY = [family for family in FAMILIES if family != "gpt2"]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_masked_block_is_hidden_from_the_tail_exactly_as_in_one_long_pass(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm, prompt, answer = make(family)
    monkeypatch.setattr(likelihood, "rotations_of", lambda lm: None)  # the long pass leaves the gap open
    masks = np.array([[0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 0, 0]], bool)
    found = masked_logprobs(lm, build_prefix(lm, prompt), answer, masks)
    for row, mask in zip(found, masks, strict=True):
        np.testing.assert_allclose(row, textbook(lm, prompt, answer, mask), atol=1e-4)


@pytest.mark.parametrize("family", ROTARY)
def test_blocks_that_none_follows_are_masked_as_if_their_text_were_removed(family: str) -> None:
    lm, prompt, answer = make(family)
    masks = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]], bool)
    found = masked_logprobs(lm, build_prefix(lm, prompt), answer, masks)
    for row, mask in zip(found, masks, strict=True):
        np.testing.assert_allclose(row, exact_logprobs(lm, prompt, answer, mask), atol=1e-4)


def test_the_packaged_writer_masks_the_last_block_as_if_its_text_were_removed(lm: LanguageModel) -> None:
    prompt = build_prompt(lm, "When was it fired?", pasted_passages([("Note", text) for text in TEXTS]))
    answer = tuple(lm.tokenizer(" In May.")["input_ids"])
    mask = np.array([True, True, True, False])
    found = masked_logprobs(lm, build_prefix(lm, prompt), answer, mask[None])[0]
    np.testing.assert_allclose(found, exact_logprobs(lm, prompt, answer, mask), atol=1e-3)


def test_a_model_without_rotary_positions_keeps_the_gap() -> None:
    assert rotations_of(tiny_model("gpt2")) is None
    assert all(rotations_of(tiny_model("gemma3")) or [None])


@pytest.mark.parametrize("neighbours", [False, True])
def test_a_key_moved_twice_is_moved_by_the_sum_and_what_is_not_rotated_stays(neighbours: bool) -> None:
    keys = torch.randn(1, 2, 3, 10, generator=torch.Generator().manual_seed(1))
    rotation = Rotation(torch.tensor([1.0, 0.1, 0.01]), neighbours)
    by = torch.tensor([[1.0, 5.0, 0.0], [2.0, 0.0, 7.0]])
    twice = torch.cat([rotation.move(rotation.move(keys, row[None]), row[None]) for row in by])
    torch.testing.assert_close(twice, rotation.move(keys, 2 * by))
    torch.testing.assert_close(twice[..., 6:], keys[..., 6:].expand(2, -1, -1, -1))


@pytest.mark.parametrize("family", FAMILIES)
def test_many_masks_in_one_pass_give_what_each_gives_alone(family: str) -> None:
    lm, prompt, answer = make(family)
    prefix, masks = build_prefix(lm, prompt), all_but_one(4)
    together = masked_logprobs(lm, prefix, answer, masks, batch_rows=10_000)
    alone = masked_logprobs(lm, prefix, answer, masks, batch_rows=1)
    np.testing.assert_allclose(together, alone, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_removal_equals_a_pass_over_the_shorter_prompt(family: str) -> None:
    lm, prompt, answer = make(family)
    prefix = build_prefix(lm, prompt)
    for kept in ([1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]):
        sources = [s for s, keep in zip(prompt.sources, kept, strict=True) if keep]
        shorter = build_prompt(lm, prompt.question, [s.passage for s in sources], numbers=[s.n for s in sources])
        expected = answer_logprobs(lm, shorter, answer)
        mask = np.array(kept, bool)
        np.testing.assert_allclose(exact_logprobs(lm, prompt, answer, mask, prefix), expected, atol=1e-4)
        np.testing.assert_allclose(exact_logprobs(lm, prompt, answer, mask), expected, atol=1e-4)


def test_without_documents_is_the_prompt_with_no_passages() -> None:
    lm, prompt, answer = make("llama")
    bare = build_prompt(lm, prompt.question, [])
    np.testing.assert_allclose(without_documents(lm, prompt, answer), answer_logprobs(lm, bare, answer), atol=1e-5)


def test_the_prefix_is_cut_out_of_a_cache_that_has_read_on() -> None:
    lm, prompt, answer = make("llama")
    with torch.inference_mode():
        read = lm.model(torch.tensor([[*prompt.token_ids, *answer]]), use_cache=True).cache
    given = prefix_from_cache(prompt, read)
    assert given is not None
    own = build_prefix(lm, prompt)
    assert given.length == own.length
    masks = all_but_one(4)
    np.testing.assert_allclose(
        masked_logprobs(lm, given, answer, masks), masked_logprobs(lm, own, answer, masks), atol=1e-4
    )


def test_a_cache_whose_window_has_slid_past_the_start_is_not_used() -> None:
    lm, prompt, _ = make("mistral", TEXTS * 3)
    with torch.inference_mode():
        read = lm.model(torch.tensor([prompt.token_ids]), use_cache=True).cache
    assert prefix_from_cache(prompt, read) is None


def test_running_the_tail_leaves_the_prefix_as_it_was() -> None:
    lm, prompt, answer = make("qwen2")
    prefix = build_prefix(lm, prompt)
    before = [keys.clone() for keys, _ in prefix.layers]
    masked_logprobs(lm, prefix, answer, all_but_one(4))
    assert all(torch.equal(a, keys) for a, (keys, _) in zip(before, prefix.layers, strict=True))


def test_a_hybrid_model_is_refused_with_a_reason_and_removes_exactly() -> None:
    lm, prompt, answer = make("llama")
    hybrid = LanguageModel(lm.model, lm.tokenizer, "tiny-hybrid", "0", 2048, 3, 4, hybrid=True)
    with pytest.raises(Unavailable, match="recurrent"):
        build_prefix(hybrid, prompt)
    shared = Likelihood(hybrid, prompt, answer)
    np.testing.assert_allclose(
        shared.exact(all_but_one(4))[1], exact_logprobs(lm, prompt, answer, all_but_one(4)[1]), atol=1e-5
    )


def test_an_empty_answer_has_no_log_probabilities() -> None:
    lm, prompt, _ = make("llama")
    assert answer_logprobs(lm, prompt, ()).shape == (0,)
    assert masked_logprobs(lm, build_prefix(lm, prompt), (), all_but_one(4)).shape == (4, 0)


def test_methods_of_one_case_share_what_was_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    lm, prompt, answer = make("llama")
    case = Case("q", "a", tuple(TEXTS), ("a", "b", "c", "d"), prompt, answer, scratch={})
    likelihood_of(lm, case).masked(all_but_one(4))
    runs: list[int] = []
    actual = likelihood._run
    monkeypatch.setattr(likelihood, "_run", lambda *a, **k: runs.append(1) or actual(*a, **k))
    again = likelihood_of(lm, case)
    again.masked(all_but_one(4))
    assert runs == []
    again.masked(np.zeros((1, 4), bool))
    assert len(runs) == 1


def test_a_pasted_answer_without_ids_is_measured_too() -> None:
    lm, _, _ = make("llama")
    case = Case("When?", "In May.", tuple(TEXTS), ("a", "b", "c", "d"))
    assert likelihood_of(lm, case).masked(all_but_one(4)).shape == (4, len("In May."))
