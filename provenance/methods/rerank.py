"""Support by cross-encoder: does the passage say what the answer says?"""

from __future__ import annotations

import time
from typing import ClassVar

from provenance.errors import ProvenanceError
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.thread import settings_of, unmeasured
from provenance.records import Attribution, MethodKind


class Rerank(Method):
    """FlashRank with the answer, instead of the question, as what the passages are ranked against."""

    name: ClassVar[str] = "rerank"
    label: ClassVar[str] = "Reranker"
    kind: ClassVar[MethodKind] = "supports"
    meaning: ClassVar[str] = "how well it matches the answer, by a cross-encoder"
    cost: ClassVar[str] = "under 0.5 s"
    scale: ClassVar[Scale] = Scale("reranker score, 0 to 1", share=False, low=0.0, high=1.0)

    def unavailable(self, resources: Resources) -> str | None:
        """Why no reranker can be had here, or None; no weights are loaded."""
        from provenance.retrieval.reranker import load_reranker

        settings = settings_of(resources)
        if settings is None:
            return None
        try:
            load_reranker(settings)
        except ProvenanceError as error:
            return str(error)
        return None

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Score every passage against the answer, or against question and answer on two lines."""
        began = time.perf_counter()
        if not case.answer.strip():
            return unmeasured(self.name, case, include_query, began, "The answer is empty.")
        left = f"{case.question}\n{case.answer}" if include_query else case.answer
        try:
            scores = resources.reranker().score(left, case.passages)
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        return Attribution(self.name, tuple(scores), include_query, time.perf_counter() - began)
