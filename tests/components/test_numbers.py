"""Every figure on the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fixtures import HEADS, LLM, SIMILARITY, documents, turn
from hypothesis import given
from hypothesis import strategies as st

from components import numbers
from provenance.records import Attribution, Mark, Turn


def attribution(*scores: float | None, method: str = "attention-heads", reason: str | None = None) -> Attribution:
    return Attribution(method, scores, False, 0.1, reason)


def cards_by_number(
    of: Turn, scores: Attribution | None, info: numbers.MethodInfo | None = HEADS
) -> dict[int, numbers.Card]:
    return {c.n: c for c in numbers.cards(of, scores, info, documents())}


def test_shares_are_parts_of_the_positive_total() -> None:
    assert numbers.shares((3.0, 1.0, -2.0)) == (0.75, 0.25, 0.0)


def test_a_missing_score_has_no_share_and_is_never_zero() -> None:
    assert numbers.shares((1.0, None)) == (1.0, None)


def test_where_nothing_is_positive_there_are_no_shares() -> None:
    assert numbers.shares((0.0, -1.0, None)) == (None, None, None)
    assert numbers.shares(()) == ()


@given(st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), max_size=20))
def test_shares_that_exist_sum_to_one(scores: list[float | None]) -> None:
    found = [s for s in numbers.shares(scores) if s is not None]
    assert not found or sum(found) == pytest.approx(1.0)


def test_an_uncited_source_has_no_length_share() -> None:
    found = cards_by_number(turn(), turn().attribution("attention-heads", False))
    assert found[3].length is None
    assert found[2].length is not None


def test_one_card_carries_three_different_numbers() -> None:
    card = cards_by_number(turn(), turn().attribution("attention-heads", False))[2]
    assert card.retrieval.score == 0.0214
    assert card.retrieval.scale == "fused"
    assert card.provenance.text == "61\u00a0%"
    assert card.length is not None
    assert card.length.percentage == pytest.approx(17.58, abs=0.01)


def test_cited_cards_come_first_and_then_by_provenance() -> None:
    assert [c.n for c in numbers.cards(turn(), turn().attributions[0], HEADS, {})] == [2, 1, 3, 4, 5]


def test_the_movement_tells_the_rank_of_retrieval_and_the_place_in_the_prompt() -> None:
    assert cards_by_number(turn(), None)[2].retrieval.movement == "retrieved 7th → sent 2nd"


def test_a_source_kept_from_an_earlier_turn_says_so() -> None:
    kept = replace(turn(), candidates=())
    got = cards_by_number(kept, None)[1].retrieval
    assert (got.score, got.movement) == (None, "kept from an earlier turn")


def test_a_scale_without_shares_shows_the_raw_score() -> None:
    found = cards_by_number(turn(), turn().attribution("similarity", False), SIMILARITY)
    assert found[2].provenance.share is None
    assert found[2].provenance.text == "0.830 cosine"
    assert found[2].provenance.fraction == pytest.approx((0.83 + 1) / 2)
    assert not found[5].provenance.against


def test_a_negative_share_is_zero_in_the_bar_and_said_in_words() -> None:
    got = cards_by_number(turn(), attribution(1.0, 1.0, -0.5, 0.0, 0.0))[3].provenance
    assert (got.share, got.text, got.against) == (0.0, "speaks against", True)
    assert got.raw.startswith("-0.500")


def test_a_negative_score_too_small_for_the_words_is_no_share_and_keeps_its_figure() -> None:
    got = cards_by_number(turn(), attribution(1.0, 1.0, -0.01, 0.0, 0.0))[3]
    assert (got.provenance.share, got.provenance.text, got.provenance.against) == (0.0, "0\u00a0%", False)
    assert got.provenance.raw.startswith("-0.010")


def test_a_source_that_was_not_measured_has_a_dash_and_the_reason() -> None:
    got = cards_by_number(turn(), turn().attribution("llm", False), LLM)[3].provenance
    assert (got.text, got.fraction) == ("—", None)
    assert got.reason == "the model gave no number for one passage"


def test_a_method_that_has_not_run_is_not_measured() -> None:
    got = cards_by_number(turn(), None, None)[1].provenance
    assert (got.text, got.raw, got.reason) == ("—", "not measured", "not measured")


def test_the_callouts_of_the_ferry() -> None:
    found = cards_by_number(turn(), turn().attribution("attention-heads", False))
    assert found[2].callout == "Short, ranked seventh, carries the answer"
    assert found[1].callout == "More length than weight"
    assert found[3].callout == "Ranked second, hardly used"


def test_no_callout_where_a_share_is_no_fair_view() -> None:
    found = cards_by_number(turn(), turn().attribution("similarity", False), SIMILARITY)
    assert all(card.callout is None for card in found.values())


def test_the_three_lengths_are_on_hover() -> None:
    card = cards_by_number(turn(), None)[2]
    said = numbers.length_hover(card)
    assert "document 1,872" in said
    assert f"passage sent {len(card.source.text):,}" in said
    assert "quoted 0" in said


def test_an_unknown_document_length_is_said() -> None:
    made = numbers.cards(turn(), None, None, {})
    assert "document: not known" in numbers.length_hover(made[0])


def test_the_funnel_counts_candidates_sent_and_cited() -> None:
    assert numbers.funnel(turn()) == (20, 5, 2)
    assert numbers.funnel(replace(turn(), candidates=())) == (None, 5, 2)
    assert numbers.dropped(turn()) == ("15 below the top 5",)


def test_who_cited_is_said() -> None:
    assert numbers.cited_words(turn()) == "2 cited by evidence"
    assert numbers.cited_words(replace(turn(), citations=())) == "none cited"


def test_an_excerpt_is_the_text_with_whole_words_marked() -> None:
    text = "The last crossing is on 18 October this year."
    pieces = numbers.excerpt(text, [Mark(1, 5, 12, 1.0)])
    assert "".join(t for t, _ in pieces) == text
    assert [t for t, marked in pieces if marked] == ["last crossing"]


def test_a_long_excerpt_shows_where_the_weight_is() -> None:
    text = "word " * 300 + "the decisive date is 18 October " + "word " * 300
    at = text.index("18 October")
    pieces = numbers.excerpt(text, [Mark(1, at, at + 10, 1.0), Mark(1, 0, 4, 0.31)])
    assert ("18 October", True) in pieces
    assert pieces[0][0] == "… "
    assert pieces[-1][0] == " …"
    assert sum(len(t) for t, _ in pieces) < 400


@given(st.text(max_size=900), st.lists(st.tuples(st.integers(0, 950), st.integers(0, 950)), max_size=6))
def test_an_excerpt_is_a_stretch_of_the_text_whatever_the_marks(text: str, spans: list[tuple[int, int]]) -> None:
    pieces = numbers.excerpt(text, [Mark(1, min(s), max(s), 1.0) for s in spans])
    shown = "".join(t for t, _ in pieces)
    assert shown.removeprefix("… ").removesuffix(" …") in text


def test_marks_are_left_out_under_the_least_weight() -> None:
    assert numbers.excerpt("one two", [Mark(1, 0, 3, 0.1)]) == (("one two", False),)


def test_pages_without_text_are_counted_in_words() -> None:
    made = list(documents().values())
    assert numbers.pages_without_text(made) == "3 of 27 pages have no text"
    assert numbers.pages_without_text([replace(made[0], pages=2, pages_with_text=1)]) == "1 of 2 pages has no text"
    assert numbers.pages_without_text([replace(made[0], pages=2, pages_with_text=2)]) is None
    assert numbers.passages_in(made[:1]) == "1 file · 9 pages · 3 passages"
