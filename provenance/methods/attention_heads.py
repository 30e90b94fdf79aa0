"""Attention of the heads that carry provenance, chosen per model by calibration."""

from __future__ import annotations

import time
from typing import ClassVar

from provenance.errors import ProvenanceError
from provenance.methods.base import Case, Method, Progress, Resources, Scale, silent
from provenance.methods.calibration import Calibration, ensure_calibration
from provenance.methods.thread import case_readout, state_folder, unmeasured, writer_reason
from provenance.records import Attribution, MethodKind


class AttentionHeads(Method):
    """Share of the calibrated heads' attention that falls on each source while the answer is written."""

    name: ClassVar[str] = "attention-heads"
    label: ClassVar[str] = "Attention (calibrated heads)"
    kind: ClassVar[MethodKind] = "used"
    meaning: ClassVar[str] = "what the heads that read the sources looked at"
    cost: ClassVar[str] = "no extra pass"
    scale: ClassVar[Scale] = Scale("share of the calibrated heads' attention", share=True, low=0.0, high=1.0)

    def unavailable(self, resources: Resources) -> str | None:
        """Why the writer's attention cannot be read here, or None."""
        return writer_reason(resources)

    def score(
        self, case: Case, resources: Resources, *, include_query: bool = False, progress: Progress = silent
    ) -> Attribution:
        """Score every passage. A model that was never calibrated is calibrated first, once, which takes a minute."""
        began = time.perf_counter()
        if not case.passages:
            return Attribution(self.name, (), include_query, 0.0)
        try:
            lm = resources.language_model()
            calibration = ensure_calibration(lm, state_folder(resources), progress)
            readout = case_readout(case, lm, calibration.layers)
            scores = calibration.scores(readout, include_query)
        except ProvenanceError as error:
            return unmeasured(self.name, case, include_query, began, str(error))
        return Attribution(
            self.name,
            tuple(float(score) for score in scores),
            include_query,
            time.perf_counter() - began,
            notes=_position_notes(case, calibration),
            extra={
                "mass_on_passages": float(scores.sum()),
                "position_spread": calibration.figures.position_spread,
            },
        )


def _position_notes(case: Case, calibration: Calibration) -> tuple[str | None, ...]:
    """Says of passages with the same text that this method tells them apart by their place."""
    if not calibration.position_bound:
        return ()
    notes = []
    for index, text in enumerate(case.passages):
        twins = [i + 1 for i, other in enumerate(case.passages) if i != index and other == text]
        numbers = ", ".join(str(n) for n in twins)
        notes.append(f"Same text as source {numbers}: between them this method goes by their place." if twins else None)
    return tuple(notes) if any(notes) else ()
