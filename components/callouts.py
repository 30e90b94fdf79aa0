"""The plain-words line of a card: where retrieval, provenance and length part.

The thresholds stand here and nowhere else; the Guide prints them from here. They compare with the *even share*,
1 ÷ (number of sent passages), because a share of 20 % is ordinary among five passages and a lot among twenty.
"""

from __future__ import annotations

from dataclasses import dataclass

from components.words import ordinal_word

HARDLY_USED = 0.5
"""At most this many even shares: the answer hardly used the passage."""
CARRIES = 1.75
"""At least this many even shares, and the largest share of all: the passage carries the answer."""
RANKED_HIGH = 2
"""Retrieval ranked it this high or higher."""
RANKED_LOW = 4
"""Retrieval ranked it this low or lower."""
SHORT = 0.5
"""At most this many even shares of the cited characters: a short passage."""
LONG = 1.25
"""At least this many even shares of the cited characters: a long passage."""
SMALL_FOR_LENGTH = 0.6
"""Provenance at most this many times the length share: a small contribution for its length."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What the callout looks at. Shares are 0..1; None where not measured or, for length, not cited."""

    rank: int | None
    sent: int
    share: float | None
    largest: bool
    length: float | None
    cited: int
    raw: float | None = None


def callout(standing: Standing) -> str | None:
    """The sentence for one card, or None where the numbers agree or too little was measured."""
    s = standing
    if s.share is None or s.sent < 2:
        return None
    if s.raw is not None and s.raw < 0:
        return "Speaks against the answer"
    even = 1 / s.sent
    short = s.length is not None and s.cited > 1 and s.length <= SHORT / s.cited
    long = s.length is not None and s.cited > 1 and s.length >= LONG / s.cited
    if s.largest and s.share >= CARRIES * even:
        if s.rank is not None and s.rank >= RANKED_LOW:
            place = f"anked {ordinal_word(s.rank)}, carries the answer"
            return f"Short, r{place}" if short else f"R{place}"
        if short:
            return "Short passage, carries the answer"
        return "Carries the answer"
    if long and s.length is not None and s.share <= SMALL_FOR_LENGTH * s.length:
        return "Long passage, small contribution"
    if s.share <= HARDLY_USED * even:
        if s.rank is not None and s.rank <= RANKED_HIGH:
            return f"Ranked {ordinal_word(s.rank)}, hardly used"
        if s.length is not None:
            return "Cited, hardly used"
    return None


def rules() -> tuple[tuple[str, str], ...]:
    """Each callout with the rule behind it, in words, for the Guide."""
    return (
        (
            "Ranked first, hardly used",
            f"among the first {RANKED_HIGH} of retrieval, and at most {HARDLY_USED:g} of an even share of provenance",
        ),
        (
            "Ranked seventh, carries the answer",
            f"place {RANKED_LOW} or lower in retrieval, the largest share, and at least {CARRIES:g} even shares",
        ),
        (
            "Short passage, carries the answer",
            f"as above at any place, with at most {SHORT:g} of an even share of the cited characters",
        ),
        (
            "Long passage, small contribution",
            f"at least {LONG:g} even shares of the cited characters, "
            f"and provenance at most {SMALL_FOR_LENGTH:g} of the length share",
        ),
        ("Cited, hardly used", f"cited, and at most {HARDLY_USED:g} of an even share of provenance"),
        ("Speaks against the answer", "the method found that the answer is likelier without the passage"),
    )
