"""The plain-words line of a card: where retrieval, provenance and length part.

The thresholds stand here and nowhere else; the Guide prints them from here. They compare with the *even share*,
1 ÷ (number of sent passages), because a share of 20 % is ordinary among five passages and a lot among twenty.
Words for little are held to the even share of five passages at most: a quarter of two is not "hardly used".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from components.words import ordinal_word

EVEN_AT_MOST = 0.2
"""What "hardly" and "small" compare with at most, however few passages were sent."""
HARDLY_USED = 0.5
"""At most this many even shares: the answer hardly used the passage."""
SMALL = 0.75
"""At most this many even shares: a small contribution."""
CARRIES = 1.75
"""At least this many even shares, and the largest share of all: the passage carries the answer."""
CARRIES_AT_LEAST = 1 / 3
"""No passage carries the answer with less than this share of the whole."""
RANKED_HIGH = 2
"""Retrieval ranked it this high or higher."""
RANKED_LOW = 4
"""Retrieval ranked it this low or lower."""
SHORT = 0.5
"""At most this many even shares of the cited characters: a short passage."""
LONG = 1.25
"""At least this many even shares of the cited characters: a long passage."""
SMALL_FOR_LENGTH = 0.6
"""Among the cited passages, provenance at most this many times the length share: less weight than length."""
AGAINST = 0.05
"""Nats per answer token. A passage that makes the answer less likely by less than this is not said to speak
against it: over a sentence of twenty tokens it is a factor of e, which a change of wording brings about."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the callout looks at. Shares are 0..1; None where not measured or, for the last three, not cited.

    `rank` is the place in retrieval, `share` that of all `sent` passages, `length` and `among_cited` the length
    share and the provenance share among the `cited` ones, `raw` the score on the method's own scale.
    """

    rank: int | None
    sent: int
    share: float | None
    largest: bool
    length: float | None
    cited: int
    among_cited: float | None = None
    raw: float | None = None


def speaks_against(raw: float | None) -> bool:
    """Whether a negative score is large enough for the words. Only effects in nats per token can be negative."""
    return raw is not None and raw <= -AGAINST


def among(shares: Mapping[int, float | None], n: int) -> float | None:
    """The share of source `n` as a part of these; None where `n` is not one of them or any was not measured."""
    own, known = shares.get(n), [s for s in shares.values() if s is not None]
    total = sum(known)
    return own / total if own is not None and len(known) == len(shares) and total > 0 else None


def callout(standing: Standing) -> str | None:
    """The sentence for one card, or None where the numbers agree or too little was measured."""
    s = standing
    if s.share is None or s.sent < 2:
        return None
    if speaks_against(s.raw):
        return "Speaks against the answer"
    if s.largest and s.share >= max(CARRIES / s.sent, CARRIES_AT_LEAST):
        return _carries(s)
    little = min(1 / s.sent, EVEN_AT_MOST)
    if _more_length_than_weight(s):
        return "Long passage, small contribution" if s.share <= SMALL * little else "More length than weight"
    if s.share <= HARDLY_USED * little:
        if s.rank is not None and s.rank <= RANKED_HIGH:
            return f"Ranked {ordinal_word(s.rank)}, hardly used"
        if s.length is not None:
            return "Cited, hardly used"
    return None


def _carries(s: Standing) -> str:
    short = s.length is not None and s.cited > 1 and s.length <= SHORT / s.cited
    if s.rank is not None and s.rank >= RANKED_LOW:
        place = f"anked {ordinal_word(s.rank)}, carries the answer"
        return f"Short, r{place}" if short else f"R{place}"
    return "Short passage, carries the answer" if short else "Carries the answer"


def _more_length_than_weight(s: Standing) -> bool:
    if s.length is None or s.among_cited is None or s.cited < 2:
        return False
    return s.length >= LONG / s.cited and s.among_cited <= SMALL_FOR_LENGTH * s.length


def rules() -> tuple[tuple[str, str], ...]:
    """Each callout with the rule behind it, in words, for the Guide. The first that fits is said."""
    least = f"{CARRIES_AT_LEAST:.0%}".replace("%", "\u00a0%")
    return (
        (
            "Speaks against the answer",
            f"the answer is likelier without the passage, by at least {AGAINST:g} nats per answer token; "
            "a smaller effect is too small for the words and reads 0\u00a0%",
        ),
        (
            "Carries the answer",
            f"the largest share of provenance, at least {CARRIES:g} even shares and at least {least}",
        ),
        ("Ranked seventh, carries the answer", f"the same, from place {RANKED_LOW} or lower in retrieval"),
        (
            "Short passage, carries the answer",
            f"the same, with at most {SHORT:g} of an even share of the cited characters",
        ),
        (
            "More length than weight",
            f"at least {LONG:g} even shares of the cited characters, "
            f"and among the cited passages provenance of at most {SMALL_FOR_LENGTH:g} of the length share",
        ),
        (
            "Long passage, small contribution",
            f"the same, with at most {SMALL:g} of an even share of provenance",
        ),
        (
            "Ranked first, hardly used",
            f"among the first {RANKED_HIGH} of retrieval, and at most {HARDLY_USED:g} of an even share of provenance",
        ),
        ("Cited, hardly used", f"cited, and at most {HARDLY_USED:g} of an even share of provenance"),
    )
