from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from provenance.errors import SpanNotFound, Unavailable
from provenance.generation.models import LanguageModel
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods.attention import Attention, compute_attention, last_attention_layer, locate, token_span
from provenance.methods.base import Case
from provenance.methods.readout import read_answer
from provenance.records import Span
from tests.methods.tiny_models import FAMILIES, default_model, tiny_model

QUESTION = "Who owns the mill?"
PASSAGES = [
    "The old bridge over the Vell was opened in 1931 and is painted green.",
    "The mill stands by the river. Its owner is Ines Brandt, who bought it in 1974.",
    "Lake Oram is 52 metres deep and frozen from December to March.",
]
ANSWER = "Its owner is Ines Brandt."


def thread_of(passages: list[str], question: str = QUESTION, answer: str = ANSWER) -> str:
    return "Sources:\n" + "\n\n".join(passages) + f"\n\nQuestion: {question}\nAnswer: {answer}\n"


def textbook(
    lm: LanguageModel, thread: str, spans: list[tuple[int, int]], asked: tuple[int, int], said: tuple[int, int], q: bool
) -> list[float]:
    """The definition, from the full last-layer weights of eager attention and character spans."""
    encoded = lm.tokenizer(thread, add_special_tokens=False, return_offsets_mapping=True)
    before = lm.model.config._attn_implementation
    lm.model.config._attn_implementation = "eager"
    with torch.no_grad():
        output = lm.model(torch.tensor([encoded["input_ids"]]), output_attentions=True, use_cache=False)
    lm.model.config._attn_implementation = before
    weights = output.attentions[-1][0].double().mean(0).numpy()

    def where(span: tuple[int, int]) -> np.ndarray:
        hit = [i for i, (s, e) in enumerate(encoded["offset_mapping"]) if s < span[1] and e > span[0] and s < e]
        return np.array(hit)

    def mean(rows: np.ndarray, columns: np.ndarray) -> float:
        return float(weights[np.ix_(rows, columns)].mean())

    question, answer = where(asked), where(said)
    pool = [mean(a, b) for a in (question, answer) for b in (question, answer)]
    pool = [v for v in pool if v > 0]
    raw = []
    for span in spans:
        d = where(span)
        blocks = [mean(answer, d), mean(d, answer)] + ([mean(question, d), mean(d, question)] if q else [])
        positive = [v for v in blocks if v > 0]
        pool += positive
        raw.append(np.mean(positive) if positive else 0.0)
    return [float(v / np.mean(pool)) for v in raw]


def find_all(thread: str, passages: list[str]) -> list[tuple[int, int]]:
    spans, after = [], 0
    for text in passages:
        start = thread.index(text, after)
        after = start + len(text)
        spans.append((start, after))
    return spans


def check(lm: LanguageModel, thread: str, passages: list[str], include_query: bool, answer: str = ANSWER) -> None:
    said = thread.rindex(answer)
    asked = thread.rindex(QUESTION, 0, said)
    expected = textbook(
        lm,
        thread,
        find_all(thread, passages),
        (asked, asked + len(QUESTION)),
        (said, said + len(answer)),
        include_query,
    )
    found = compute_attention(lm.model, lm.tokenizer, thread, QUESTION, passages, answer, include_query)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("include_query", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_compute_attention_equals_the_textbook_computation(family: str, include_query: bool) -> None:
    check(tiny_model(family, word_pieces=True), thread_of(PASSAGES), PASSAGES, include_query)


@pytest.mark.parametrize("include_query", [False, True])
def test_the_default_model_gives_the_textbook_scores(include_query: bool) -> None:
    lm = default_model()
    prompt = build_prompt(lm, QUESTION, pasted_passages([(None, text) for text in PASSAGES]))
    check(lm, prompt.text + ANSWER + "<|im_end|>\n", PASSAGES, include_query)


@pytest.mark.parametrize("include_query", [False, True])
def test_passages_after_the_question_look_back_at_it(include_query: bool) -> None:
    thread = f"Question: {QUESTION}\n\n" + "\n\n".join(PASSAGES) + f"\n\nAnswer: {ANSWER}"
    check(tiny_model("llama", word_pieces=True), thread, PASSAGES, include_query)


def test_an_answer_quoted_from_a_passage_is_found_at_the_end() -> None:
    answer = "Its owner is Ines Brandt, who bought it in 1974."
    check(tiny_model("llama", word_pieces=True), thread_of(PASSAGES, answer=answer), PASSAGES, False, answer)
    _, _, said = locate(thread_of(PASSAGES, answer=answer), QUESTION, PASSAGES, answer)
    assert said.start > thread_of(PASSAGES, answer=answer).index("Answer:")


def test_identical_passages_keep_their_own_places() -> None:
    passages = [PASSAGES[1]] * 3
    thread = thread_of(passages)
    spans, _, _ = locate(thread, QUESTION, passages, ANSWER)
    assert len({span.start for span in spans}) == 3
    check(tiny_model("llama", word_pieces=True), thread, passages, True)


def test_parts_that_share_a_token_at_their_border_are_measured() -> None:
    passages = ["owner", "ship of the mil", "l and the mills"]
    thread = "".join(passages) + f"{QUESTION}{ANSWER}"
    check(tiny_model("llama", word_pieces=True), thread, passages, True)


def test_a_question_quoted_in_a_passage_is_found_outside_it() -> None:
    passages = [f"People often ask: {QUESTION}", PASSAGES[1]]
    thread = thread_of(passages)
    _, asked, _ = locate(thread, QUESTION, passages, ANSWER)
    assert asked.start == thread.index("Question:") + len("Question: ")


def test_a_passage_trimmed_by_the_template_is_still_found() -> None:
    spans, _, _ = locate(thread_of(PASSAGES), QUESTION, [PASSAGES[0], PASSAGES[1] + "  \n", PASSAGES[2]], ANSWER)
    assert thread_of(PASSAGES)[spans[1].start : spans[1].stop] == PASSAGES[1]


@pytest.mark.parametrize(
    ("query", "context", "answer"),
    [
        (QUESTION, ["not in the thread"], ANSWER),
        ("Not asked?", PASSAGES, ANSWER),
        (QUESTION, PASSAGES, "not said"),
        (QUESTION, PASSAGES, ""),
        (QUESTION, PASSAGES, PASSAGES[0]),
    ],
)
def test_a_part_that_is_not_there_is_a_named_error(query: str, context: list[str], answer: str) -> None:
    lm = tiny_model("llama", word_pieces=True)
    with pytest.raises(SpanNotFound):
        compute_attention(lm.model, lm.tokenizer, thread_of(PASSAGES), query, context, answer)


def test_no_passages_give_no_scores() -> None:
    lm = tiny_model("llama", word_pieces=True)
    assert compute_attention(lm.model, lm.tokenizer, thread_of([]), QUESTION, [], ANSWER) == []


def test_one_passage_with_braces_gets_one_score() -> None:
    lm = tiny_model("llama", word_pieces=True)
    passages = ["A {brace} and {{two}} more."]
    scores = compute_attention(lm.model, lm.tokenizer, thread_of(passages), QUESTION, passages, ANSWER)
    assert scores is not None
    assert len(scores) == 1
    assert scores[0] > 0


def test_a_passage_beyond_the_window_of_the_last_layer_scores_zero() -> None:
    lm = tiny_model("mistral", word_pieces=True)
    passages = [PASSAGES[0], PASSAGES[1] * 6]
    scores = compute_attention(lm.model, lm.tokenizer, thread_of(passages), QUESTION, passages, ANSWER)
    assert scores is not None
    assert scores[0] == 0.0


def test_a_tokenizer_without_offsets_is_named() -> None:
    lm = tiny_model("llama", word_pieces=True)
    with pytest.raises(Unavailable):
        compute_attention(lm.model, object(), thread_of(PASSAGES), QUESTION, PASSAGES, ANSWER)


def test_the_last_attention_layer_of_a_hybrid_is_picked_by_its_kind() -> None:
    class Config:
        layer_types: tuple[str, ...] = ("linear_attention", "full_attention", "sliding_attention", "conv")
        num_hidden_layers = 4

    assert last_attention_layer(Config()) == 2
    Config.layer_types = ()
    assert last_attention_layer(Config()) == 3


class Loaded:
    """Resources that hold one model."""

    def __init__(self, lm: LanguageModel) -> None:
        self.lm = lm
        self.asked = 0

    def language_model(self) -> LanguageModel:
        self.asked += 1
        return self.lm

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def case_of(passages: list[str], answer: str = ANSWER, **more: Any) -> Case:
    return Case(QUESTION, answer, tuple(passages), tuple("" for _ in passages), scratch={}, **more)


def test_the_method_agrees_with_the_public_function() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt = build_prompt(lm, QUESTION, pasted_passages([("", text) for text in PASSAGES]))
    for include_query in (False, True):
        scores = Attention().score(case_of(PASSAGES), Loaded(lm), include_query=include_query).scores
        direct = compute_attention(
            lm.model, lm.tokenizer, prompt.text + ANSWER, QUESTION, PASSAGES, ANSWER, include_query
        )
        np.testing.assert_allclose(scores, direct, rtol=1e-3)


def test_a_live_answer_is_scored_from_what_was_read_while_decoding() -> None:
    lm = tiny_model("llama", word_pieces=True)
    prompt = build_prompt(lm, QUESTION, pasted_passages([("", text) for text in PASSAGES]))
    ids = tuple(lm.tokenizer(ANSWER, add_special_tokens=False)["input_ids"])
    readout = read_answer(lm, prompt, ids)
    passed: list[int] = []  # tokens of each forward pass

    def count(_: object, inputs: tuple[torch.Tensor, ...], named: dict[str, torch.Tensor]) -> None:
        passed.append((inputs[0] if inputs else named["input_ids"]).shape[1])

    handle = lm.model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    live = replace(case_of(PASSAGES), prompt=prompt, answer_ids=ids, readout=readout)
    scored = Attention().score(live, Loaded(lm))
    assert not passed
    pasted = Attention().score(replace(live, readout=None), Loaded(lm))
    handle.remove()
    assert len(prompt.token_ids) <= sum(passed) <= len(prompt.token_ids) + len(ids)
    np.testing.assert_allclose(scored.scores, pasted.scores, rtol=1e-6)
    assert 0 < scored.extra["mass_on_passages"] < 1


def test_an_empty_answer_is_none_with_a_reason() -> None:
    found = Attention().score(case_of(PASSAGES, answer="  "), Loaded(tiny_model("llama", word_pieces=True)))
    assert found.scores == (None, None, None)
    assert found.reason


def test_a_thread_too_long_for_the_model_is_none_with_a_reason() -> None:
    found = Attention().score(case_of(["word " * 2400]), Loaded(tiny_model("llama", word_pieces=True)))
    assert found.scores == (None,)
    assert "tokens" in (found.reason or "")


def test_no_passages_need_no_model() -> None:
    resources = Loaded(tiny_model("llama", word_pieces=True))
    assert Attention().score(case_of([]), resources).scores == ()
    assert resources.asked == 0


def test_a_token_span_covers_every_token_it_touches() -> None:
    assert token_span([(0, 3), (3, 3), (3, 6), (6, 9)], Span(2, 7)) == Span(0, 4)
