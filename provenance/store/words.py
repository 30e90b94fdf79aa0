"""Text as words: what the two full-text indexes hold, and how a quote and a passage are brought to one form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from provenance.records import Passage

_WORD = re.compile(r"\w+")
_HYPHEN_END = re.compile(r"(?<=[^\W\d_])[-\u2010\u00ad][ \t]*\r?\n[ \t]*(?=[^\W\d_])")
_SPACE = re.compile(r"\s+")
_QUOTES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u2039\u203a`\u00b4", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    }
)
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d", "-"))
_INVISIBLE = str.maketrans(dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>", "<circle>")

STOP_WORDS = frozenset(
    word
    for line in (
        "a about above after again all also am an and any are aren as at be because been before being below between",
        "both but by can could couldn d did didn do does doesn doing don down during each few for from further had has",
        "have haven having he her here hers him his how i if in into is isn it its itself just let ll m me more most",
        "my of off on once only or other our ours out over own re s same she should shouldn so some such t than that",
        "the their theirs them then there these they this those through to too under until up ve very was wasn we were",
        "what when where which while who whom whose why will with would wouldn you your yours",
    )
    for word in line.split()
)
"""English words that say nothing about what a question is about, and the pieces "don't" falls into."""

STEPS = ("NFKC", "quotes and dashes", "hyphenated line ends", "white space")
"""What may be normalised when a quote is compared with a passage, in the order it is done."""


def index_text(passage: Passage, contextual: bool) -> str:
    """What is indexed of a passage: its text, below the document's title and the heading if `contextual`."""
    if not contextual:
        return passage.text
    return "\n".join(part for part in (passage.title, passage.heading, passage.text) if part)


def words(text: str) -> list[str]:
    """The words of a text in order, case and accents folded: runs of letters, digits and underscores."""
    folded = unicodedata.normalize("NFKD", text).casefold()
    return _WORD.findall("".join(c for c in folded if not unicodedata.combining(c)))


def content_words(query: str) -> list[str]:
    """The distinct words of a query that are not stop words; all of them where every word is one."""
    found = list(dict.fromkeys(words(query)))
    return [word for word in found if word not in STOP_WORDS] or found


def normalise(text: str, steps: Iterable[str] = STEPS) -> str:
    """A text after the named `STEPS`. Signs, digits, case and words never change.

    Superscripts, subscripts, fractions and circled numbers keep their form, because
    NFKC would turn 10² into 102.
    """
    return _normalise(text, frozenset(steps))


# A check compares each quote of an answer with the same passages, in several forms.
@lru_cache(maxsize=512)
def _normalise(text: str, chosen: frozenset[str]) -> str:
    if "NFKC" in chosen:
        text = _nfkc(text)
    if "hyphenated line ends" in chosen:
        text = _HYPHEN_END.sub("", text)
    if "quotes and dashes" in chosen:
        text = text.translate(_QUOTES).translate(_DASHES)
    if "white space" in chosen:
        text = _SPACE.sub(" ", text.translate(_INVISIBLE)).strip()
    return text


def has_hyphenated_line_end(text: str) -> bool:
    """Whether a word of the text is cut by a hyphen at the end of a line."""
    return _HYPHEN_END.search(text) is not None


def phrase_words(text: str) -> str:
    """The words of a text as the phrase index holds them, one blank between two: all its `phrase_forms`."""
    return " ".join(phrase_forms(text))


def phrase_forms(text: str) -> list[str]:
    """The normalised words of a text, one blank between two; nothing where it has no word.

    A text with hyphenated line ends has two forms, with the words joined and with them
    apart: nobody knows whether the hyphen belongs to the word.
    """
    forms = [" ".join(words(normalise(text)))]
    if has_hyphenated_line_end(text):
        forms.append(" ".join(words(normalise(text, [s for s in STEPS if s != "hyphenated line ends"]))))
    return [form for form in forms if form]


def _nfkc(text: str) -> str:
    if text.isascii():
        return text
    kept = [i for i, c in enumerate(text) if unicodedata.decomposition(c).startswith(_KEPT_FORMS)]
    parts, last = [], 0
    for i in kept:
        parts += [unicodedata.normalize("NFKC", text[last:i]), text[i]]
        last = i + 1
    return "".join(parts) + unicodedata.normalize("NFKC", text[last:])
