"""From a case to the thread that the model reads: the prompt and the ids of the answer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel, writer_unavailable
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods.base import Case, Resources
from provenance.methods.readout import Readout, read_answer
from provenance.records import Attribution, Prompt
from provenance.settings import Settings


class ThreadTooLong(ProvenanceError):
    """Prompt and answer do not fit the model's context window."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A prompt and the token ids of the answer that follows it."""

    prompt: Prompt
    answer_ids: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens of prompt and answer together."""
        return len(self.prompt.token_ids) + len(self.answer_ids)


def build_thread(case: Case, lm: LanguageModel) -> Thread:
    """The thread of a case, built once per case and kept in its scratch.

    Where the loaded writer wrote the answer, its prompt and its generated ids are used as they
    are. For a pasted answer the prompt is built from the passages and the answer is tokenized
    once, by itself. Raises SpanNotFound or Unavailable as `build_prompt` does, and ThreadTooLong
    where the thread does not fit the context window.
    """
    kept = case.scratch.get("thread") if case.scratch is not None else None
    if isinstance(kept, Thread):
        return kept
    prompt = case.prompt
    if prompt is None:
        prompt = build_prompt(lm, case.question, pasted_passages(tuple(zip(case.titles, case.passages, strict=True))))
    # Generated ids belong to the prompt they were generated from.
    ids = case.answer_ids if case.prompt is not None else None
    thread = Thread(prompt, ids if ids is not None else tokenize_answer(lm, prompt, case.answer))
    if thread.tokens > lm.context_window:
        raise ThreadTooLong(
            f"Question, passages and answer take {thread.tokens:,} tokens, "
            f"more than the {lm.context_window:,} this model can read."
        )
    if case.scratch is not None:
        case.scratch["thread"] = thread
    return thread


def tokenize_answer(lm: LanguageModel, prompt: Prompt, answer: str) -> tuple[int, ...]:
    """The ids of an answer that follows a prompt. Blank text gives none.

    After a marker that ends in a letter or a colon a model goes on with a space.
    """
    text = answer.strip()
    if not text:
        return ()
    last = prompt.text[-1:]
    lead = " " if last.isalnum() or last == ":" else ""
    return tuple(lm.tokenizer(lead + text, add_special_tokens=False)["input_ids"])


def case_readout(case: Case, lm: LanguageModel, layers: Iterable[int] = ()) -> Readout:
    """The attention read while the answer was written; without it, that of exactly one teacher-forced pass.

    A pass is made too where one of `layers` was not read then. It is kept in the case's scratch, and so
    is its key-value cache up to the last passage: the methods of one case share both. Raises
    ProvenanceError where the answer is empty or the thread cannot be built.
    """
    if case.readout is not None and case.readout.read_tokens and case.readout.covers(layers):
        return case.readout
    kept = case.scratch.get("readout") if case.scratch is not None else None
    if isinstance(kept, Readout):
        return kept
    thread = build_thread(case, lm)
    if not thread.answer_ids:
        raise ProvenanceError("The answer is empty: there is nothing to attribute.")
    if case.scratch is None or lm.hybrid or not case.passages:
        return read_answer(lm, thread.prompt, thread.answer_ids)
    from provenance.methods.likelihood import likelihood_of

    readout = likelihood_of(lm, case).read()
    case.scratch["readout"] = readout
    return readout


def unmeasured(method: str, case: Case, include_query: bool, began: float, reason: str) -> Attribution:
    """No score for any passage, and why. `began` is the `time.perf_counter()` of the start."""
    return Attribution(method, (None,) * len(case.passages), include_query, time.perf_counter() - began, reason=reason)


def writer_reason(resources: Resources) -> str | None:
    """Why the local writer cannot be had, or None; nothing is loaded."""
    settings = settings_of(resources)
    return writer_unavailable(settings) if settings else None


def settings_of(resources: Resources) -> Settings | None:
    """The settings that the resources were made from, where they have any."""
    found = getattr(resources, "settings", None)
    return found if isinstance(found, Settings) else None


def state_folder(resources: Resources) -> Path:
    """Where calibrations are kept: `provenance_home` of the resources' settings, else the default one."""
    return (settings_of(resources) or Settings()).provenance_home
