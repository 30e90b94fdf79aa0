"""The one palette: a colour per source, and the quiet tones around them, for light and dark.

Source colours are spread so that neighbours differ in lightness and hue for the common kinds of colour
blindness, and a number always stands beside the colour. Light tones carry white text, dark tones black text,
each at 4.5 : 1 or better.
"""

from __future__ import annotations

from typing import NamedTuple


class Tone(NamedTuple):
    """One colour in the two themes, as `#rrggbb`."""

    light: str
    dark: str


SOURCES: tuple[Tone, ...] = (
    Tone("#0b6e8f", "#4fb0d6"),  # teal
    Tone("#b35c00", "#eca04f"),  # orange
    Tone("#6a4a94", "#b99ae0"),  # purple
    Tone("#3c7327", "#8cc26f"),  # green
    Tone("#a8326e", "#ee8fbd"),  # rose
    Tone("#3a55b4", "#93a9f4"),  # blue
    Tone("#6f6400", "#d0c254"),  # olive
    Tone("#7c4a33", "#d3a189"),  # brown
)

TONES: dict[str, Tone] = {
    "ground": Tone("#fcfcfa", "#14181b"),
    "raised": Tone("#ffffff", "#1c2024"),
    "sunken": Tone("#f3f3ef", "#1c2024"),
    "track": Tone("#ebebe7", "#2b3035"),
    "line": Tone("#dcdcd6", "#31373d"),
    "ink": Tone("#1f2226", "#e8eaed"),
    "soft": Tone("#5c6269", "#a3abb3"),
    "accent": Tone("#0b6e8f", "#4fb0d6"),
    "grey": Tone("#666c73", "#9aa2a9"),
    "warn": Tone("#8a5a00", "#e3b050"),
    "bad": Tone("#a92b2b", "#f2938c"),
    "good": Tone("#2f6f3a", "#84c78e"),
    "mark": Tone("#fdeeb0", "#5a4a14"),
    "on": Tone("#ffffff", "#101214"),
}


def source_tone(n: int) -> Tone:
    """The colour of source `n` (numbered from 1); numbers past the palette start over."""
    return SOURCES[(n - 1) % len(SOURCES)]


def css_variables() -> str:
    """Every tone as a custom property that follows the theme's `color-scheme`."""
    tones = {**TONES, **{f"s{i}": tone for i, tone in enumerate(SOURCES, start=1)}}
    return "".join(f"--rc-{name}:light-dark({tone.light},{tone.dark});" for name, tone in tones.items())


def source_variable(n: int) -> str:
    """The custom property that holds the colour of source `n`."""
    return f"var(--rc-s{(n - 1) % len(SOURCES) + 1})"


def contrast(first: str, second: str) -> float:
    """The WCAG 2 contrast ratio of two `#rrggbb` colours, 1 to 21."""
    a, b = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (a + 0.05) / (b + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
