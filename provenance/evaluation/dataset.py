"""Labelled answers: which passages are known to support them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from provenance.attribution import GivenCase, read_case, to_case
from provenance.errors import ProvenanceError
from provenance.methods.base import Case


@dataclass(frozen=True, slots=True)
class Item:
    """One labelled case. `supporting` are the places of the supporting passages, from 0, ascending."""

    id: str
    given: GivenCase
    supporting: tuple[int, ...]

    def case(self) -> Case:
        """A fresh case with caches of its own."""
        return to_case(self.given)


def read_items(path: Path) -> tuple[Item, ...]:
    """Read JSON lines of `{id?, question, answer, documents:[{title?, text}], supporting:[indices]}`.

    An item without an id is called by its line. Raises ProvenanceError naming file, line and fault.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ProvenanceError(f"{path} cannot be read: {error}") from error
    items = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            items.append(read_item(json.loads(line), f"line {number}"))
        except ValueError as error:
            raise ProvenanceError(f"Line {number} of {path} is not JSON: {error}") from error
        except ProvenanceError as error:
            raise ProvenanceError(f"Line {number} of {path}: {error}") from error
    if not items:
        raise ProvenanceError(f"{path} holds no items.")
    return tuple(items)


def read_item(value: Any, name: str) -> Item:
    """An item from parsed JSON. `name` is its id where it has none. Raises ProvenanceError."""
    given = read_case(value)
    supporting = value.get("supporting")
    count = len(given.documents)
    if not isinstance(supporting, list):
        raise ProvenanceError("An item needs 'supporting', the indices of the supporting documents, counted from 0.")
    for place in supporting:
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < count:
            raise ProvenanceError(f"'supporting' names document {place!r}, but there are {count}, counted from 0.")
    return Item(given.id or name, given, tuple(sorted(set(supporting))))


def cut(item: Item, passages: int) -> Item:
    """The item with at most so many passages: all supporting ones, and the first others, in their order.

    Never fewer than the supporting ones.
    """
    others = [i for i in range(len(item.given.documents)) if i not in item.supporting]
    kept = sorted([*item.supporting, *others[: max(0, passages - len(item.supporting))]])
    given = item.given
    documents = tuple(given.documents[i] for i in kept)
    return Item(
        item.id,
        GivenCase(given.id, given.question, given.answer, documents),
        tuple(kept.index(i) for i in item.supporting),
    )
