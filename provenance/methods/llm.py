"""Self-report: the model is asked, passage by passage, how much of its answer came from there."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from provenance.errors import ProvenanceError, Unavailable
from provenance.generation.models import LanguageModel
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.thread import settings_of, unmeasured, writer_reason
from provenance.records import Attribution, MethodKind

DIGITS = "012345"
_SCORE = re.compile(r"\s*(?:score\s*:\s*)?([0-5])\s*\.?\s*", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\{(query|answer|context)\}")
Complete = Callable[[str], str]


def parse_score(text: str) -> int | None:
    """The score a reply gives: a bare digit 0–5 or `Score: n`, alone in the reply; everything else is None.

    `8`, `4/5`, `3.5` and prose are not scores.
    """
    found = _SCORE.fullmatch(text)
    return int(found.group(1)) if found else None


def fill(template: str, values: Mapping[str, str]) -> str:
    """The template with `{query}`, `{answer}` and `{context}` replaced once; braces in the values stay as they are."""
    return _PLACEHOLDER.sub(lambda match: values[match.group(1)], template)


def ask_remote(complete: Complete, text: str) -> int | None:
    """The score an endpoint replies with; asked a second time where the first reply is none, then None."""
    first = parse_score(complete(text))
    return first if first is not None else parse_score(complete(text))


def digit_probabilities(lm: LanguageModel, text: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The probabilities of the six digits 0–5 as the model's next token, among themselves; shape (6,).

    `text` is one user message. Raises Unavailable where the message does not fit the context
    window or the tokenizer has no single token per digit.
    """
    import torch

    rendered = _render(lm.tokenizer, text)
    ids = lm.tokenizer(rendered, add_special_tokens=False)["input_ids"]
    if len(ids) >= lm.context_window:
        raise Unavailable("The passage is too long for the model to be asked about it.")
    digits = _digit_ids(lm.tokenizer, rendered, len(ids))
    names = inspect.signature(lm.model.forward).parameters
    only_last = {"logits_to_keep": 1} if "logits_to_keep" in names else {}
    with torch.inference_mode():
        logits = lm.model(torch.tensor([ids], device=lm.device), use_cache=False, **only_last).logits[0, -1]
    found: np.ndarray[Any, np.dtype[np.float64]] = logits[digits].double().softmax(dim=0).cpu().numpy()
    return found


def _render(tokenizer: Any, text: str) -> str:
    if getattr(tokenizer, "chat_template", None):
        message = [{"role": "user", "content": text}]
        return str(tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True))
    return f"{tokenizer.bos_token or ''}{text}\nScore: "


def _digit_ids(tokenizer: Any, rendered: str, length: int) -> list[int]:
    """The id each digit has right after the rendered prompt, where it is one token there."""
    found = []
    for digit in DIGITS:
        ids = tokenizer(rendered + digit, add_special_tokens=False)["input_ids"]
        if len(ids) != length + 1:
            raise Unavailable("This model's tokenizer has no single token for each digit.")
        found.append(int(ids[-1]))
    return found


def _safe(tokenizer: Any, text: str) -> str:
    """The text with chat control tokens broken up; bracketed numbers stay."""
    added = getattr(tokenizer, "added_tokens_decoder", {}) or {}
    for token in sorted({str(t) for t in added.values()} | set(tokenizer.all_special_tokens), key=len, reverse=True):
        if len(token) > 1 and not token.isspace():
            text = text.replace(token, "‹" + token[1:])
    return text


class LlmScore(Method):
    """One call per passage with `provenance_llm_prompt`, answered by a digit from 0 to 5."""

    name: ClassVar[str] = "llm"
    label: ClassVar[str] = "Ask the model"
    kind: ClassVar[MethodKind] = "self-report"
    meaning: ClassVar[str] = "the model's own grade afterwards, 0 to 5"
    cost: ClassVar[str] = "one short call per source"
    scale: ClassVar[Scale] = Scale("of 5", share=False, low=0.0, high=5.0)

    def unavailable(self, resources: Resources) -> str | None:
        """Why nobody can be asked, or None. A remote writer can be asked where `resources.complete` exists."""
        return None if _complete(resources) else writer_reason(resources)

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Whole numbers 0–5 as floats. The question stands in the prompt wherever it holds `{query}`.

        With a local model the digit is the likeliest of the six, and `notes` and
        `extra["expected_n"]` (n the source number) report the expected value.
        """
        began = time.perf_counter()
        complete = _complete(resources)
        if not case.passages:
            return Attribution(self.name, (), include_query, 0.0)
        if not case.answer.strip():
            return unmeasured(self.name, case, include_query, began, "The answer is empty.")
        try:
            lm = None if complete else resources.language_model()
            template = resources.llm_prompt()
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        scores: list[float | None] = []
        notes: list[str | None] = []
        extra: dict[str, float] = {}
        reason: str | None = None
        for n, passage in enumerate(case.passages, start=1):
            values = {"query": case.question, "answer": case.answer, "context": passage}
            try:
                if complete:
                    digit = ask_remote(complete, fill(template, values))
                    scores.append(None if digit is None else float(digit))
                    notes.append(None)
                    reason = reason or ("The model did not reply with a number from 0 to 5." if digit is None else None)
                elif lm is not None:
                    asked = fill(template, {key: _safe(lm.tokenizer, value) for key, value in values.items()})
                    chances = digit_probabilities(lm, asked)
                    expected = float(chances @ np.arange(6))
                    scores.append(float(chances.argmax()))
                    notes.append(f"Expected value {expected:.1f} of 5.")
                    extra[f"expected_{n}"] = expected
            except ProvenanceError as error:
                scores.append(None)
                notes.append(None)
                reason = reason or str(error)
            progress(n / len(case.passages), f"Asked about {n} of {len(case.passages)} sources")
        seconds = time.perf_counter() - began
        return Attribution(self.name, tuple(scores), include_query, seconds, reason, tuple(notes), extra)


def _complete(resources: Resources) -> Complete | None:
    """How to ask the remote writer, where there is one."""
    settings = settings_of(resources)
    remote = settings is not None and settings.provenance_endpoint is not None
    return getattr(resources, "complete", None) if remote else None
