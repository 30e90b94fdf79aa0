"""The words where numbers part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components import callouts
from components.callouts import AGAINST, Standing, among, callout, rules, speaks_against

PLAIN = Standing(rank=3, sent=5, share=0.2, largest=False, length=None, cited=2)
FIRST = replace(PLAIN, share=0.6, largest=True)
LONG = replace(PLAIN, length=0.82, among_cited=0.4)


def test_numbers_that_agree_say_nothing() -> None:
    assert callout(PLAIN) is None


def test_a_single_source_says_nothing() -> None:
    assert callout(replace(PLAIN, sent=1, share=1.0, largest=True)) is None


def test_what_was_not_measured_says_nothing() -> None:
    assert callout(replace(PLAIN, share=None, rank=1)) is None
    assert callout(replace(PLAIN, share=None, raw=-2.0)) is None


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (replace(PLAIN, rank=1, share=0.05), "Ranked first, hardly used"),
        (replace(PLAIN, rank=2, share=0.0), "Ranked second, hardly used"),
        (replace(PLAIN, rank=3, share=0.05), None),
        (replace(PLAIN, rank=None, share=0.05), None),
        (replace(FIRST, rank=5), "Ranked fifth, carries the answer"),
        (replace(FIRST, rank=5, length=0.1), "Short, ranked fifth, carries the answer"),
        (replace(FIRST, rank=1, length=0.1), "Short passage, carries the answer"),
        (replace(FIRST, rank=1, length=1.0, cited=1), "Carries the answer"),
        (replace(FIRST, rank=None), "Carries the answer"),
        (replace(PLAIN, rank=3, share=0.05, length=0.5, among_cited=0.4), "Cited, hardly used"),
        (replace(LONG, share=0.12, among_cited=0.2), "Long passage, small contribution"),
        (replace(PLAIN, rank=1, share=0.0, raw=-0.1), "Speaks against the answer"),
    ],
)
def test_each_parting_has_its_words(standing: Standing, said: str | None) -> None:
    assert callout(standing) == said


def test_a_contribution_above_an_even_share_is_never_called_small() -> None:
    said = callout(replace(LONG, share=0.34, among_cited=0.41))
    assert said == "More length than weight"


@pytest.mark.parametrize(("share", "small"), [(0.15, True), (0.16, False), (0.2, False), (0.25, False)])
def test_small_begins_clearly_below_the_even_share(share: float, small: bool) -> None:
    said = callout(replace(LONG, share=share, among_cited=0.4))
    assert (said == "Long passage, small contribution") is small


def test_length_is_compared_with_the_weight_among_the_cited_passages() -> None:
    uncited_took_half = replace(PLAIN, share=0.2, length=0.42, cited=3, among_cited=0.42)
    assert callout(uncited_took_half) is None
    assert callout(replace(uncited_took_half, among_cited=None)) is None


def test_the_only_cited_passage_is_neither_long_nor_short() -> None:
    assert callout(replace(LONG, cited=1, length=1.0, among_cited=1.0)) is None


@pytest.mark.parametrize(
    ("sent", "share", "hardly"), [(2, 0.25, False), (2, 0.1, True), (5, 0.1, True), (20, 0.03, False)]
)
def test_a_quarter_of_two_passages_is_not_hardly_used(sent: int, share: float, hardly: bool) -> None:
    assert (callout(replace(PLAIN, rank=1, sent=sent, share=share)) == "Ranked first, hardly used") is hardly


@pytest.mark.parametrize(
    ("sent", "share", "carries"), [(20, 0.09, False), (20, 0.34, True), (5, 0.34, False), (2, 0.6, False)]
)
def test_the_largest_share_carries_the_answer_only_when_it_is_large(sent: int, share: float, carries: bool) -> None:
    assert (callout(replace(FIRST, sent=sent, share=share)) == "Carries the answer") is carries


@pytest.mark.parametrize(("raw", "against"), [(-0.01, False), (-AGAINST / 2, False), (-AGAINST, True), (-3.0, True)])
def test_an_effect_too_small_for_the_words_does_not_speak_against(raw: float, against: bool) -> None:
    assert speaks_against(raw) is against
    assert (callout(replace(PLAIN, share=0.0, raw=raw)) == "Speaks against the answer") is against
    assert speaks_against(None) is False


@given(
    st.integers(2, 30).flatmap(
        lambda sent: st.builds(
            Standing,
            rank=st.none() | st.integers(1, 40),
            sent=st.just(sent),
            share=st.floats(0, 1),
            largest=st.booleans(),
            length=st.none() | st.floats(0, 1),
            cited=st.integers(1, sent),
            among_cited=st.none() | st.floats(0, 1),
            raw=st.floats(-2, 2),
        )
    )
)
def test_words_never_contradict_the_share(standing: Standing) -> None:
    said, share = callout(standing) or "", standing.share
    assert share is not None
    if "small" in said or "hardly" in said:
        assert share < 1 / standing.sent
    if "carries" in said.lower():
        assert standing.largest
        assert share > 1 / standing.sent
    if "against" in said:
        assert standing.raw is not None
        assert standing.raw < 0


def test_a_share_among_the_cited_needs_every_one_of_them() -> None:
    assert among({1: 0.3, 4: 0.1}, 4) == pytest.approx(0.25)
    assert among({1: 0.3, 4: None}, 1) is None
    assert among({1: 0.3}, 2) is None
    assert among({1: 0.0}, 1) is None
    assert among({}, 1) is None


@pytest.mark.parametrize("name", ["HARDLY_USED", "SMALL", "CARRIES", "SHORT", "LONG", "SMALL_FOR_LENGTH", "AGAINST"])
def test_every_threshold_is_in_the_guide(name: str) -> None:
    text = " ".join(rule for _, rule in rules())
    assert f" {getattr(callouts, name):g} " in text


def test_the_guide_lists_every_kind_of_words() -> None:
    kinds = {
        callout(standing)
        for standing in (
            replace(PLAIN, rank=1, share=0.05),
            replace(FIRST, rank=7),
            replace(FIRST, rank=1, length=0.1),
            FIRST,
            LONG,
            replace(LONG, share=0.1),
            replace(PLAIN, share=0.05, length=0.5),
            replace(PLAIN, share=0.0, raw=-1.0),
        )
    }
    assert kinds == {name for name, _ in rules()}
