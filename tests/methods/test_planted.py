from collections import Counter

import pytest

from provenance.methods.planted import SHAPES, identical_prompts, planted_prompts
from provenance.methods.wording import words


def test_the_same_seed_gives_the_same_prompts_and_another_seed_others() -> None:
    assert planted_prompts(12, 5) == planted_prompts(12, 5)
    assert not {p.question for p in planted_prompts(12, 5)} & {p.question for p in planted_prompts(12, 6)}


def test_the_gold_passage_goes_round_all_places_evenly() -> None:
    places = Counter((len(p.passages), p.gold[0]) for p in planted_prompts(90, 1, 5, 8))
    for size in range(5, 9):
        counts = [places[size, place] for place in range(size)]
        assert max(counts) - min(counts) <= 1


def test_every_shape_of_answer_is_dealt() -> None:
    assert {p.shape for p in planted_prompts(48, 1)} == set(SHAPES)


@pytest.mark.parametrize("seed", [1, 2])
def test_only_the_gold_passage_holds_the_value(seed: int) -> None:
    for planted in planted_prompts(60, seed):
        value = f" {' '.join(words(planted.value))} "
        holders = [i for i, text in enumerate(planted.passages) if value in f" {' '.join(words(text))} "]
        assert holders == [planted.gold[0]]


def test_titles_and_passages_are_as_many_and_no_two_passages_are_alike() -> None:
    for planted in planted_prompts(30, 3):
        assert len(planted.titles) == len(planted.passages) == len(set(planted.passages))
        assert planted.value in planted.answer


def test_an_answer_from_two_sources_takes_a_value_from_each() -> None:
    for planted in planted_prompts(60, 4):
        if planted.shape == "two sources":
            first, second = planted.gold
            assert first != second
            assert planted.value in planted.passages[first]
            assert planted.value not in planted.passages[second]


def test_identical_passages_differ_by_their_place_only() -> None:
    for planted in identical_prompts(3, 1, 4):
        assert len(set(planted.passages)) == len(set(planted.titles)) == 1
        assert planted.gold == (0, 1, 2, 3)
        assert planted.value in planted.passages[0]


def test_a_text_answers_only_with_the_planted_value_alone() -> None:
    for planted in planted_prompts(40, 3):
        assert planted.answered_by(planted.answer)
        assert planted.answered_by(f"It is {planted.value.upper()}.")
        assert not planted.answered_by("Nobody knows.")
        assert not planted.answered_by(f"x{planted.value}x")
        assert not planted.answered_by(f"{planted.others[0]}, {planted.value}")
        assert all(any(other in text for text in planted.passages) for other in planted.others)
