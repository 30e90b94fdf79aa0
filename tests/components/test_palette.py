"""One palette: the theme file says what the components draw, and every tone can be read."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from components.palette import SOURCES, TONES, contrast, source_tone

THEME = tomllib.loads((Path(__file__).parents[2] / ".streamlit" / "config.toml").read_text("utf-8"))["theme"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_file_and_the_palette_agree(scheme: str) -> None:
    for option, tone in {
        "primaryColor": "accent",
        "backgroundColor": "ground",
        "secondaryBackgroundColor": "sunken",
        "textColor": "ink",
        "borderColor": "line",
    }.items():
        assert THEME[scheme][option] == getattr(TONES[tone], scheme), option


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_number_can_be_read_on_the_colour_of_its_source_and_words_on_every_ground(scheme: str) -> None:
    on = getattr(TONES["on"], scheme)
    assert all(contrast(on, getattr(tone, scheme)) >= 4.5 for tone in SOURCES)
    for ground in ("ground", "raised", "sunken"):
        for ink in ("ink", "soft", "warn", "bad", "good"):
            assert contrast(getattr(TONES[ink], scheme), getattr(TONES[ground], scheme)) >= 4.5, (ink, ground)


def test_the_ninth_source_starts_the_colours_over() -> None:
    assert source_tone(9) == source_tone(1) == SOURCES[0]
