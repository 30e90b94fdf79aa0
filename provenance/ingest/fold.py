"""Character clean-up: compatibility forms folded, invisible controls taken out and counted."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Folding these would change what is said: 10² is not 102, 1½ is not 11/2, ① is not 1, ™ is not TM.
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>")
_BIDI_AND_INVISIBLE = frozenset(
    "\u200b\u2060\ufeff\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
SOFT_HYPHEN = "\u00ad"


def fold(text: str) -> tuple[str, int]:
    """The text with ligatures and compatibility forms folded, and how many characters were taken out.

    Taken out: control characters but tab and line feed, NUL, lone surrogates, Unicode
    non-characters, invisible joiners and direction marks. CR LF and CR become LF, other line
    and paragraph separators too. NFKC, except for the forms whose folding changes a
    number (superscripts, subscripts, fractions, circled numbers), then NFC.
    """
    if text.isascii() and text.isprintable():
        return text, 0
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = [_fold_one(c) for c in text]
    removed = sum(part is None for part in kept)
    return unicodedata.normalize("NFC", "".join(part for part in kept if part is not None)), removed


@lru_cache(maxsize=8192)
def _fold_one(char: str) -> str | None:
    """What stands for one character; None where it is taken out."""
    if char in "\n\t":
        return char
    if char in "\u2028\u2029\u0085\u000b\u000c":
        return "\n"
    category = unicodedata.category(char)
    if category in ("Cc", "Cs") or char in _BIDI_AND_INVISIBLE or (ord(char) & 0xFFFE) == 0xFFFE:
        return None
    if 0xFDD0 <= ord(char) <= 0xFDEF:
        return None
    form = unicodedata.decomposition(char)
    if not form.startswith("<") or form.startswith(_KEPT_FORMS):
        return char
    folded = unicodedata.normalize("NFKC", char)
    # A free-standing accent would become a space and a combining mark; a squared unit would lose its exponent.
    if len(folded) > 1 and folded[0] == " ":
        return char
    if any(unicodedata.decomposition(c).startswith(_KEPT_FORMS) for c in _one_step(form)):
        return char
    return folded


def _one_step(form: str) -> list[str]:
    return [chr(int(code, 16)) for code in form.split()[1:]]
