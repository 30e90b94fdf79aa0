from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

from provenance.errors import Unavailable
from provenance.generation.models import LanguageModel
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods.readout import Layout, Readout, read_answer, read_attention, read_model
from provenance.records import Prompt, Span
from tests.methods.tiny_models import FAMILIES, default_model, tiny_model

DOCUMENTS = [
    ("Bridge", "The old bridge over the Vell was opened in 1931 and is painted green."),
    ("Mill", "The mill stands by the river. Its owner is Ines Brandt, who bought it in 1974."),
    ("Lake", "Lake Oram is 52 metres deep and frozen from December to March."),
]
QUESTION = "Who owns the mill?"


def thread_of(lm: LanguageModel) -> tuple[Prompt, list[int]]:
    prompt = build_prompt(lm, QUESTION, pasted_passages(DOCUMENTS))
    return prompt, lm.tokenizer("Ines Brandt owns the mill.", add_special_tokens=False)["input_ids"]


def textbook(lm: LanguageModel, ids: list[int]) -> np.ndarray:
    """(layers, heads, T, T) from the model's own eager attention."""
    before = lm.model.config._attn_implementation
    lm.model.config._attn_implementation = "eager"
    with torch.no_grad():
        output = lm.model(torch.tensor([ids]), output_attentions=True, use_cache=False)
    lm.model.config._attn_implementation = before
    return torch.stack([layer[0] for layer in output.attentions]).float().numpy()


def decode(lm: LanguageModel, prompt: Prompt, ids: list[int]) -> Readout:
    with torch.inference_mode(), read_attention(lm, prompt) as reader:
        output = lm.model(torch.tensor([prompt.token_ids]), use_cache=True)
        for token in ids:
            output = lm.model(torch.tensor([[token]]), cache=output.cache, use_cache=True)
    return reader.readout()


def expected_heads(weights: np.ndarray, prompt: Prompt, answer: int) -> np.ndarray:
    first = len(prompt.token_ids) - 1
    rows = weights[:, :, first : first + answer]
    return np.stack([rows[..., s.start : s.stop].sum(-1).mean(-1) for s in prompt.passage_tokens], axis=-1)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_teacher_forced_readout_equals_eager_attention(family: str) -> None:
    lm = tiny_model(family, word_pieces=True)
    prompt, ids = thread_of(lm)
    readout = read_answer(lm, prompt, ids)
    weights = textbook(lm, [*prompt.token_ids, *ids])
    np.testing.assert_allclose(readout.heads, expected_heads(weights, prompt, len(ids)), rtol=1e-4, atol=1e-7)
    span = prompt.question_tokens
    asked = np.stack(
        [weights[:, :, span.start : span.stop, s.start : s.stop].sum(-1).mean(-1) for s in prompt.passage_tokens], -1
    )
    np.testing.assert_allclose(readout.question_heads, asked, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_attention_read_while_decoding_equals_the_teacher_forced_readout(family: str) -> None:
    lm = tiny_model(family, word_pieces=True)
    prompt, ids = thread_of(lm)
    ids = ids * 14  # longer than one batch of set-aside queries
    forced, decoded = read_answer(lm, prompt, ids), decode(lm, prompt, ids)
    assert decoded.answer_tokens == decoded.read_tokens == len(ids)
    np.testing.assert_array_equal(decoded.positions, forced.positions)
    np.testing.assert_allclose(decoded.masses, forced.masses, rtol=2e-3, atol=2e-5)


def test_the_default_model_reads_the_same_while_decoding_as_in_one_pass() -> None:
    lm = default_model()
    prompt, ids = thread_of(lm)
    forced, decoded = read_answer(lm, prompt, ids), decode(lm, prompt, ids)
    np.testing.assert_allclose(decoded.heads, forced.heads, rtol=1e-3, atol=1e-6)


def test_the_model_computes_the_same_output_while_it_is_read() -> None:
    for family in ("llama", "gemma2", "gpt_oss"):
        lm = tiny_model(family, word_pieces=True)
        prompt, ids = thread_of(lm)
        tokens = torch.tensor([[*prompt.token_ids, *ids]])
        with torch.inference_mode():
            plain = lm.model(tokens).logits
            with read_attention(lm, prompt):
                read = lm.model(tokens).logits
        torch.testing.assert_close(read, plain, rtol=1e-4, atol=1e-4)


def test_kept_heads_give_the_attention_on_every_prompt_token_in_the_order_asked_for() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, ids = thread_of(lm)
    kept = ((3, 1), (0, 2), (3, 0))
    readout = read_answer(lm, prompt, ids, keep=kept)
    weights = textbook(lm, [*prompt.token_ids, *ids])
    length = len(prompt.token_ids)
    rows = slice(length - 1, length - 1 + len(ids))
    wanted = np.stack([weights[layer, head, rows, :length] for layer, head in kept], axis=1)
    found = readout.per_prompt_token()
    assert found is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-7)
    masses = np.stack([found[..., s.start : s.stop].sum(-1) for s in prompt.passage_tokens], axis=-1)
    np.testing.assert_allclose(readout.per_token(kept), masses, rtol=1e-4, atol=1e-6)


def test_an_answer_cut_off_at_its_length_lacks_only_the_row_of_its_last_token() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, ids = thread_of(lm)
    with torch.inference_mode(), read_attention(lm, prompt) as reader:
        output = lm.model(torch.tensor([prompt.token_ids]), use_cache=True)
        for token in ids[:-1]:
            output = lm.model(torch.tensor([[token]]), cache=output.cache, use_cache=True)
    readout = reader.readout(len(ids))
    assert readout.read_tokens == len(ids) - 1
    np.testing.assert_allclose(readout.heads, read_answer(lm, prompt, ids).heads, rtol=1e-3, atol=1e-6)


def test_a_reused_cache_is_read_from_where_it_ends() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, ids = thread_of(lm)
    held = prompt.block_tokens[-1].stop
    with torch.inference_mode():
        cache = lm.model(torch.tensor([prompt.token_ids[:held]]), use_cache=True).cache
        with read_attention(lm, prompt, start=held) as reader:
            lm.model(torch.tensor([[*prompt.token_ids[held:], *ids]]), cache=cache, use_cache=True)
    forced = read_answer(lm, prompt, ids)
    np.testing.assert_allclose(reader.readout().heads, forced.heads, rtol=1e-3, atol=1e-6)


def test_the_attention_implementation_is_put_back_even_after_an_error() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, _ = thread_of(lm)
    with pytest.raises(RuntimeError), read_attention(lm, prompt):
        raise RuntimeError
    assert lm.model.config._attn_implementation == "sdpa"
    with read_attention(lm, prompt), read_attention(lm, prompt):
        assert lm.model.config._attn_implementation != "sdpa"
    assert lm.model.config._attn_implementation == "sdpa"


def test_an_abandoned_generator_stops_reading() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, _ = thread_of(lm)

    def reading():
        with read_attention(lm, prompt):
            yield 1

    generator = reading()
    next(generator)
    del generator
    gc.collect()
    assert lm.model.config._attn_implementation == "sdpa"


def test_another_model_is_not_read() -> None:
    lm, other = tiny_model("llama", word_pieces=True), tiny_model("qwen3", word_pieces=True)
    prompt, ids = thread_of(lm)
    with torch.inference_mode(), read_attention(lm, prompt) as reader:
        other.model(torch.tensor([[*prompt.token_ids, *ids]]))
    with pytest.raises(Unavailable):
        reader.readout()


def test_a_batch_is_refused() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, _ = thread_of(lm)
    with pytest.raises(ValueError, match="one thread at a time"), read_attention(lm, prompt):
        lm.model(torch.tensor([prompt.token_ids, prompt.token_ids]))


def test_only_the_wanted_layer_and_rows_are_kept() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, ids = thread_of(lm)
    layout = Layout.of(prompt)
    with torch.inference_mode(), read_model(lm.model, layout, layers=[3], extra_rows=[Span(4, 6)]) as reader:
        lm.model(torch.tensor([[*prompt.token_ids, *ids]]))
    readout = reader.readout()
    question = prompt.question_tokens
    rows = {4, 5, *range(*question), *range(layout.answer_start - 1, layout.answer_start + len(ids))}
    assert readout.layers == (3,)
    assert readout.positions.tolist() == sorted(rows)
    assert readout.masses.shape == (len(rows), 1, 4, 2 * len(DOCUMENTS) + 2)


def test_an_unread_part_is_an_error_not_a_zero() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt, _ = thread_of(lm)
    readout = read_answer(lm, prompt, [])
    with pytest.raises(ValueError, match="No row"):
        _ = readout.heads
