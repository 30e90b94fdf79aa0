"""Text from outside that Unicode does not allow."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """The text with NUL and lone surrogates, which no tokenizer and no database takes, as U+FFFD; the length stays."""
    return "".join("\ufffd" if c == "\0" or "\ud800" <= c <= "\udfff" else c for c in text)
