"""Attributing an answer that came from anywhere: question, answer, passages in; scores out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from provenance.errors import ProvenanceError
from provenance.methods.base import Case, Progress, Resources, silent
from provenance.records import Attribution
from provenance.unicode import well_formed


@dataclass(frozen=True, slots=True)
class GivenCase:
    """One case from outside. `documents` are (title, text) pairs in candidate order."""

    id: str | None
    question: str
    answer: str
    documents: tuple[tuple[str | None, str], ...]


def read_case(value: Any) -> GivenCase:
    """A case from parsed JSON: `{id?, question, answer, documents:[{title?, text}]}`.

    Raises ProvenanceError with a sentence that names what is wrong.
    """
    if not isinstance(value, dict):
        raise ProvenanceError("A case must be a JSON object with question, answer and documents.")
    for key in ("question", "answer"):
        if not isinstance(value.get(key), str):
            raise ProvenanceError(f"A case needs {key!r}, a text.")
    documents = value.get("documents")
    if not isinstance(documents, list):
        raise ProvenanceError("A case needs 'documents', a list of objects with a text.")
    pairs: list[tuple[str | None, str]] = []
    for place, document in enumerate(documents, start=1):
        text = document.get("text") if isinstance(document, dict) else None
        title = document.get("title") if isinstance(document, dict) else None
        if not isinstance(text, str):
            raise ProvenanceError(f"Document {place} of the case has no 'text'.")
        pairs.append((title if isinstance(title, str) and title.strip() else None, text))
    given = value.get("id")
    return GivenCase(None if given is None else str(given), value["question"], value["answer"], tuple(pairs))


def to_case(given: GivenCase) -> Case:
    """What the methods get of a case from outside; its texts are made well-formed here."""
    return Case(
        question=well_formed(given.question),
        answer=well_formed(given.answer),
        passages=tuple(well_formed(text) for _, text in given.documents),
        titles=tuple(well_formed(title or f"Passage {n}") for n, (title, _) in enumerate(given.documents, start=1)),
        scratch={},
    )


def attribute(
    question: str,
    answer: str,
    documents: Sequence[str | tuple[str | None, str]],
    methods: Sequence[str] = ("similarity",),
    *,
    include_query: bool = False,
    resources: Resources | None = None,
    progress: Progress = silent,
) -> list[Attribution]:
    """Score every document's contribution to the answer, by each method in turn.

    `documents` are texts or (title, text) pairs. `resources` default to the parts that the
    environment's settings name; give the same ones to several calls and the models load once.
    Raises ProvenanceError for an unknown method name; what cannot be measured is None with a reason.
    """
    pairs = tuple(item if isinstance(item, tuple) else (None, item) for item in documents)
    return attribute_case(
        GivenCase(None, question, answer, pairs), methods, resources, include_query=include_query, progress=progress
    )


def attribute_case(
    given: GivenCase,
    methods: Sequence[str],
    resources: Resources | None = None,
    *,
    include_query: bool = False,
    progress: Progress = silent,
) -> list[Attribution]:
    """As `attribute`, for a case that was read from JSON."""
    from provenance.methods import METHODS

    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ProvenanceError(f"{unknown[0]!r} is not a provenance method; choose from {', '.join(METHODS)}.")
    if resources is None:
        from provenance.parts import Parts
        from provenance.settings import load_settings

        resources = Parts(load_settings())
    case = to_case(given)
    scored = []
    for place, name in enumerate(methods):
        progress(place / len(methods), name)
        reason = METHODS[name].unavailable(resources)
        if reason is not None:
            scored.append(Attribution(name, (None,) * len(case.passages), include_query, 0.0, reason))
        else:
            scored.append(METHODS[name].score(case, resources, include_query=include_query))
    progress(1.0, "done")
    return scored
