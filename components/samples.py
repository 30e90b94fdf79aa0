"""The sample documents and the three questions that show what the app is for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "samples"
SUFFIXES = {".pdf", ".txt", ".md"}


@dataclass(frozen=True, slots=True)
class Moment:
    """A sample question and what to look at in its answer."""

    name: str
    question: str
    look: str


def files() -> list[tuple[str, bytes]]:
    """The sample documents, by name."""
    if not FOLDER.is_dir():
        return []
    found = sorted(p for p in FOLDER.iterdir() if p.suffix.lower() in SUFFIXES and p.stem.lower() != "readme")
    return [(p.name, p.read_bytes()) for p in found]


_MOMENTS = {
    "divergence": (
        "where retrieval and provenance part",
        "Compare the retrieval bar of each card with its provenance bar.",
    ),
    "decisive": ("a short source that decides", "Look at its length share beside its provenance."),
    "unanswered": ("the documents do not say", "Receipts declines where the passages do not carry an answer."),
}


def moments() -> list[Moment]:
    """The leading sample questions of `samples/questions.json`, one for each moment of the tour."""
    path = FOLDER / "questions.json"
    if not path.is_file():
        return []
    made = []
    for item in json.loads(path.read_text(encoding="utf-8")):
        if item.get("lead") and item.get("shows") in _MOMENTS:
            name, look = _MOMENTS[item["shows"]]
            made.append(Moment(name, item["question"], " ".join(p for p in (item.get("note"), look) if p)))
    return made
