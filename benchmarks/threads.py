"""Threads of a wanted size: planted passages filled up to a number of tokens."""

from __future__ import annotations

from functools import cache
from itertools import cycle

from provenance.generation.models import LanguageModel, load_language_model
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods.base import Case
from provenance.methods.planted import planted_prompts
from provenance.methods.thread import Thread, tokenize_answer
from provenance.settings import load_settings

_FILL = (
    "The notice board at the entrance lists the hours and the names of those who keep the keys.",
    "A second survey, made some years later, came to much the same result and was filed with the first.",
    "Several letters on the subject are kept in the town's archive, most of them without a date.",
    "In wet years the lower path is closed and visitors are sent round by the mill.",
)


@cache
def language_model() -> LanguageModel:
    """The writer that the settings name, loaded once in this process."""
    return load_language_model(load_settings())


def sized_thread(lm: LanguageModel, passages: int, tokens: int, seed: int = 7) -> Thread:
    """A thread of about `tokens` tokens in all, spread evenly over `passages` passages, with its planted answer."""
    case = planted_case(passages, seed)
    bare = _thread(lm, case)
    texts = list(case.passages)
    fill = [(text, len(lm.tokenizer(" " + text)["input_ids"])) for text in _FILL]
    missing = tokens - bare.tokens
    for place, (text, size) in zip(cycle(range(passages)), cycle(fill)):
        if missing < size:
            break
        texts[place] += " " + text
        missing -= size
    return _thread(lm, Case(case.question, case.answer, tuple(texts), case.titles))


def planted_case(passages: int, seed: int) -> Case:
    """A planted prompt of so many passages whose answer is a sentence."""
    for planted in planted_prompts(64, seed, passages, passages):
        if planted.shape == "long":
            break
    return Case(planted.question, planted.answer, planted.passages, planted.titles, scratch={})


def _thread(lm: LanguageModel, case: Case) -> Thread:
    prompt = build_prompt(lm, case.question, pasted_passages(tuple(zip(case.titles, case.passages, strict=True))))
    return Thread(prompt, tokenize_answer(lm, prompt, case.answer))
