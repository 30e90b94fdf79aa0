"""From a case to the thread that the model reads: the prompt and the ids of the answer."""

from __future__ import annotations

from dataclasses import dataclass

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel
from provenance.generation.prompt import build_prompt, pasted_passages
from provenance.methods.base import Case
from provenance.records import Prompt


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
