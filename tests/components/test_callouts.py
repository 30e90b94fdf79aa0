"""The words where numbers part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from components.callouts import CARRIES, HARDLY_USED, Standing, callout, rules

PLAIN = Standing(rank=3, sent=5, share=0.2, largest=False, length=None, cited=2)


def test_numbers_that_agree_say_nothing() -> None:
    assert callout(PLAIN) is None


def test_a_single_source_says_nothing() -> None:
    assert callout(replace(PLAIN, sent=1, share=1.0, largest=True)) is None


def test_what_was_not_measured_says_nothing() -> None:
    assert callout(replace(PLAIN, share=None, rank=1)) is None


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (replace(PLAIN, rank=1, share=0.05), "Ranked first, hardly used"),
        (replace(PLAIN, rank=3, share=0.05), None),
        (replace(PLAIN, rank=5, share=0.6, largest=True), "Ranked fifth, carries the answer"),
        (replace(PLAIN, rank=5, share=0.6, largest=True, length=0.1), "Short, ranked fifth, carries the answer"),
        (replace(PLAIN, rank=1, share=0.6, largest=True, length=0.1), "Short passage, carries the answer"),
        (replace(PLAIN, rank=1, share=0.6, largest=True), "Carries the answer"),
        (replace(PLAIN, rank=1, share=0.25, length=0.9), "Long passage, small contribution"),
        (replace(PLAIN, rank=3, share=0.05, length=0.5), "Cited, hardly used"),
        (replace(PLAIN, rank=1, share=0.0, raw=-0.1), "Speaks against the answer"),
        (replace(PLAIN, rank=None, share=0.6, largest=True), "Carries the answer"),
    ],
)
def test_each_parting_has_its_words(standing: Standing, said: str | None) -> None:
    assert callout(standing) == said


def test_the_thresholds_are_the_ones_in_the_guide() -> None:
    text = " ".join(rule for _, rule in rules())
    assert f"{HARDLY_USED:g} of an even share" in text
    assert f"{CARRIES:g} even shares" in text
