"""Support by embedding: how close the passage is in meaning to the answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from provenance.errors import ProvenanceError
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.thread import settings_of, unmeasured
from provenance.records import Attribution, MethodKind

if TYPE_CHECKING:
    from provenance.retrieval.embedder import Embedder


def window_cosines(embedder: Embedder, lefts: Sequence[str], passages: Sequence[str]) -> npt.NDArray[np.float64]:
    """Cosine of every left side with every passage; shape (lefts, passages).

    A passage longer than the embedder reads counts as its closest window, a left side
    that long as the mean over its windows.
    """
    left_windows = [embedder.windows(left) for left in lefts]
    passage_windows = [embedder.windows(passage) for passage in passages]
    texts = [text for windows in (*left_windows, *passage_windows) for text in windows]
    vectors = embedder.encode(texts)
    split = sum(len(windows) for windows in left_windows)
    cosines = vectors[:split].astype(np.float64) @ vectors[split:].astype(np.float64).T
    result = np.zeros((len(lefts), len(passages)))
    row = 0
    for i, windows in enumerate(left_windows):
        column = 0
        for j, others in enumerate(passage_windows):
            block = cosines[row : row + len(windows), column : column + len(others)]
            result[i, j] = block.max(axis=1).mean()
            column += len(others)
        row += len(windows)
    return result


class Similarity(Method):
    """Cosine of answer and passage embeddings; with the question, the mean of both cosines."""

    name: ClassVar[str] = "similarity"
    label: ClassVar[str] = "Similarity"
    kind: ClassVar[MethodKind] = "supports"
    meaning: ClassVar[str] = "how close in meaning to the answer"
    cost: ClassVar[str] = "under 0.5 s"
    scale: ClassVar[Scale] = Scale("cosine, −1 to 1", share=False, low=-1.0, high=1.0)

    def unavailable(self, resources: Resources) -> str | None:
        """Why there is no embedder here, or None. A hub model that was never fetched counts as available."""
        from provenance.retrieval.embedder import packaged_embedder_missing

        settings = settings_of(resources)
        if settings is not None and settings.provenance_similarity_llm is None:
            return packaged_embedder_missing()
        return None

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Score every passage."""
        began = time.perf_counter()
        if not case.passages:
            return Attribution(self.name, (), include_query, 0.0)
        if not case.answer.strip():
            return unmeasured(self.name, case, include_query, began, "The answer is empty.")
        lefts = [case.answer, case.question] if include_query and case.question.strip() else [case.answer]
        try:
            cosines = window_cosines(resources.embedder(), lefts, case.passages)
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        scores = tuple(float(score) for score in cosines.mean(axis=0))
        return Attribution(self.name, scores, include_query, time.perf_counter() - began)
