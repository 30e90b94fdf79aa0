"""Records as plain JSON values and back, without loss."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter

R = TypeVar("R")


@cache
def _adapter(cls: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, cls))


def to_json(record: Any) -> Any:
    """A record, or a tuple of records, as JSON values: dict, list, str, int, float, bool, None.

    Tuples become lists. Text is kept as it is, lone surrogates too.
    """
    return _adapter(cast(Hashable, type(record))).dump_python(record, mode="json")


def from_json(cls: type[R], value: Any) -> R:
    """The record of class `cls` that `to_json` made `value` from. Raises pydantic.ValidationError where it is none."""
    result: R = _adapter(cast(Hashable, cls)).validate_python(value)
    return result
