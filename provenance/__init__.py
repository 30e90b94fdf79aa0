"""Which sources an answer really used: retrieval, writing, attribution, quote checks and the log.

The public names load their modules at first use, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Engine": "provenance.engine",
    "METHODS": "provenance.methods",
    "attribute": "provenance.attribution",
    "compute_attention": "provenance.methods.attention",
    "length_shares": "provenance.methods.length",
    "load_settings": "provenance.settings",
    "parse_citations": "provenance.generation.citations",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'provenance' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
