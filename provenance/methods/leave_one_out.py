"""Leave-one-out: how much less likely the answer is without each passage.

Δ_i = f(all) − f(all without D_i), divided by |A|, where f is the answer's log-probability.
"""

from __future__ import annotations

import time
from typing import ClassVar, Literal

import numpy as np

from provenance.errors import ProvenanceError
from provenance.generation.models import LanguageModel
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.likelihood import FloatArray, Likelihood, all_but_one, likelihood_of
from provenance.methods.thread import unmeasured, writer_reason
from provenance.records import Attribution, MethodKind, Prompt

Mode = Literal["fast", "exact"]


def effects(likelihood: Likelihood, mode: Mode = "fast", progress: Progress = silent) -> FloatArray:
    """Δ per passage and answer token, in nats; shape (N, |A|). Summed over tokens and divided by |A| it is the score.

    Fast hides a passage from the question and the answer (the direct effect); exact removes its
    text. Fast raises Unavailable for a hybrid model.
    """
    n = len(likelihood.prompt.block_tokens)
    masks = np.vstack([np.ones((1, n), dtype=bool), all_but_one(n)])
    rows = likelihood.masked(masks, progress) if mode == "fast" else likelihood.exact(masks, progress)
    return rows[:1] - rows[1:]


def beyond_window(lm: LanguageModel, prompt: Prompt) -> tuple[bool, ...]:
    """For each passage: whether neither the question nor the answer is within a sliding window of it.

    All False where no layer of the model has a window.
    """
    window = getattr(lm.model.config.get_text_config(), "sliding_window", None)
    start = prompt.block_tokens[-1].stop - window if window and prompt.block_tokens else 0
    return tuple(block.stop <= start for block in prompt.block_tokens)


class LeaveOneOut(Method):
    """The causal reference. `mode` "fast" masks a passage, "exact" removes its text and runs again."""

    name: ClassVar[str] = "leave-one-out"
    label: ClassVar[str] = "Leave one out"
    kind: ClassVar[MethodKind] = "used"
    meaning: ClassVar[str] = "what the answer loses without it (direct effect)"
    cost: ClassVar[str] = "one short pass per source"
    scale: ClassVar[Scale] = Scale("nats per answer token", share=True)

    def __init__(self, mode: Mode = "fast") -> None:
        self.mode: Mode = mode

    def unavailable(self, resources: Resources) -> str | None:
        """Why no passage can be hidden from the writer here, or None."""
        return writer_reason(resources)

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Nats per answer token that each passage adds; negative where the answer is likelier without it.

        Only the answer's likelihood counts, so `include_query` changes nothing. `extra["exact"]` is 1
        where the text was removed: on request, or because the model is hybrid.
        """
        began = time.perf_counter()
        if not case.passages:
            return Attribution(self.name, (), include_query, 0.0)
        try:
            lm = resources.language_model()
            likelihood = likelihood_of(lm, case)
            if not likelihood.answer_ids:
                return unmeasured(self.name, case, include_query, began, "The answer is empty.")
            mode: Mode = "exact" if lm.hybrid else self.mode
            per_token = effects(likelihood, mode, progress).mean(axis=1)
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        return Attribution(
            self.name,
            tuple(float(value) for value in per_token),
            include_query,
            time.perf_counter() - began,
            notes=_notes(lm, likelihood.prompt),
            extra={"exact": float(mode == "exact")},
        )


def _notes(lm: LanguageModel, prompt: Prompt) -> tuple[str | None, ...]:
    far = beyond_window(lm, prompt)
    if not any(far):
        return ()
    note = "Beyond the sliding window: some layers of the model no longer saw this source."
    return tuple(note if is_far else None for is_far in far)
