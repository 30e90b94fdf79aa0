"""The provenance methods, by name, in the order the switcher lists them."""

from __future__ import annotations

from provenance.methods.base import Method


def _methods() -> dict[str, Method]:
    found: list[Method] = []
    return {method.name: method for method in found}


METHODS: dict[str, Method] = _methods()
