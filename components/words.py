"""Numbers in words and figures, the same everywhere. A value that is None is never a number."""

from __future__ import annotations

from provenance.records import Turn

DASH = "—"
NBSP = "\u00a0"

# fmt: off
ORDINALS = (
    "zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
    "nineteenth", "twentieth",
)
# fmt: on


def ordinal(rank: int) -> str:
    """`7` → `7th`."""
    if 10 <= rank % 100 <= 20:
        return f"{rank}th"
    return f"{rank}{({1: 'st', 2: 'nd', 3: 'rd'}).get(rank % 10, 'th')}"


def ordinal_word(rank: int) -> str:
    """`7` → `seventh`; past twenty, figures."""
    return ORDINALS[rank] if 0 < rank < len(ORDINALS) else ordinal(rank)


def share(value: float | None) -> str:
    """A share 0..1 as whole percent; small ones as `< 1 %` so that they never read as nothing."""
    if value is None:
        return DASH
    if value == 0:
        return f"0{NBSP}%"
    if value < 0.01:
        return f"<{NBSP}1{NBSP}%"
    return f"{value * 100:.0f}{NBSP}%"


def percentage(value: float | None) -> str:
    """A percentage with two decimals, as the length share is stored."""
    return DASH if value is None else f"{value:.2f}{NBSP}%"


def score(value: float | None) -> str:
    """A raw score in three significant figures, without an exponent where a person can read it."""
    if value is None:
        return DASH
    size = abs(value)
    if size >= 100:
        return f"{value:.0f}"
    if size >= 10:
        return f"{value:.1f}"
    if size >= 1:
        return f"{value:.2f}"
    if size >= 0.001 or value == 0:
        return f"{value:.3f}"
    return f"{value:.1e}"


def seconds(value: float | None) -> str:
    """`0.04 s`, `3.1 s`, `1 min 5 s`; what took time at all never reads as nothing: `< 0.01 s`."""
    if value is None:
        return DASH
    if 0 < value < 0.005:
        return f"<{NBSP}0.01{NBSP}s"
    if value < 0.095:
        return f"{value:.2f}{NBSP}s"
    if value < 60:
        return f"{value:.1f}{NBSP}s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes}{NBSP}min {rest}{NBSP}s"


def count(n: int, one: str, many: str | None = None) -> str:
    """`1 passage`, `1,204 passages`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def inside(label: str) -> str:
    """A label as it stands inside a sentence: `leave one out`, but `Shapley`, which is a name."""
    return label if label.startswith("Shapley") else label[:1].lower() + label[1:]


def listed(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else " and ".join((", ".join(items[:-1]), items[-1])) if items else ""


def quote_count(turn: Turn) -> str:
    """`2 of 3 quotes exact`, `no quotes to check`, `quotes not checked`."""
    if turn.quotes is None:
        return "quotes not checked"
    if not turn.quotes:
        return "no quotes to check"
    exact = sum(q.verdict == "exact" for q in turn.quotes)
    return f"{exact} of {count(len(turn.quotes), 'quote')} exact"


VERDICTS: dict[str, tuple[str, str]] = {
    "exact": ("✓", "quote exact"),
    "normalised": ("✓", "quote exact after normalising"),
    "elided": ("…", "quote with words left out"),
    "elsewhere": ("↗", "quote found elsewhere"),
    "not found": ("✗", "quote not found"),
    "cannot check": ("?", "quote cannot be checked"),
}
"""Sign and words of each verdict of the quote check."""

OUTCOMES: dict[str, str] = {
    "started": "… not finished",
    "answered": "✓ answered",
    "refused": "○ refused",
    "stopped": "■ stopped",
    "failed": "✗ failed",
}

KINDS: dict[str, str] = {
    "used": "what the model read",
    "supports": "what the text says",
    "self-report": "what the model says of itself",
}
