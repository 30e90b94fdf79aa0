"""The heat map and the figures of agreement, as pure functions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fixtures import HEADS, INFOS, turn

from components import charts
from components.numbers import MethodInfo
from components.palette import contrast
from provenance.records import Attribution

LOSS = MethodInfo("leave-one-out", "Leave one out", "used", "nats per answer token", True)
KNOWN = {**INFOS, LOSS.name: LOSS}


def scored(*scores: float | None, method: str = "leave-one-out") -> Attribution:
    return Attribution(method, scores, False, 0.1)


def drawn(*, dark: bool = False) -> dict[str, Any]:
    """The heat map of the ferry as the browser gets it."""
    of = turn()
    done = (*of.attributions, scored(0.4, 0.0, -0.01, -0.3, None))
    figure: dict[str, Any] = json.loads(charts.heat_map(done, KNOWN, of.sources, dark).to_json())
    return figure


def test_a_column_head_breaks_before_its_bracket_and_stays_narrow() -> None:
    assert charts.head("Attention (calibrated heads)") == "Attention<br>(calibrated heads)"
    for line in charts.head("Attention, calibrated heads of this one model").split("<br>"):
        assert len(line) <= charts.HEAD_WIDTH


def test_a_hostile_label_is_text_in_a_column_head() -> None:
    assert "<img" not in charts.head("<img src=x>")


def test_every_source_names_its_page_and_every_method_has_a_column() -> None:
    figure = drawn()["data"][0]
    assert figure["y"][0] == "1 · Annual report, p. 9"
    assert len(figure["x"]) == 4


@pytest.mark.parametrize("dark", [False, True])
def test_every_figure_of_the_heat_map_can_be_read_on_its_colour(dark: bool) -> None:
    figure = drawn(dark=dark)
    ground, full = (stop[1] for stop in figure["data"][0]["colorscale"])
    notes = figure["layout"]["annotations"]
    assert len(notes) == 20
    for note in notes:
        value = figure["data"][0]["z"][note["y"]][note["x"]]
        assert contrast(note["font"]["color"], charts.blend(ground, full, value or 0.0)) >= 4.5


def test_a_cell_says_against_only_where_the_effect_is_large_enough() -> None:
    rows = charts.heat_words([scored(0.4, 0.0, -0.01, -0.3, None)], KNOWN, 5)
    assert [row[0] for row in rows] == ["100\u00a0%", "0\u00a0%", "0\u00a0%", "against", "—"]


def test_where_nothing_is_positive_the_cell_keeps_the_raw_score() -> None:
    assert charts.heat_words([scored(0.0, -0.01)], KNOWN, 2) == [["0.000"], ["-0.010"]]


def test_a_cosine_of_nothing_has_no_colour_and_a_missing_score_none_at_all() -> None:
    values = charts.heat_values([scored(-0.2, 0.0, 0.5, None, method="similarity")], KNOWN, 4)
    assert values == [[0.0], [0.0], [0.5], [None]]


def test_the_words_of_the_chart_name_the_first_source_of_each_method() -> None:
    said = charts.heat_alt(turn().attributions, INFOS, turn().sources)
    assert f"{HEADS.label}: source 2 first" in said


def test_rank_agreement_is_spearmans_and_needs_three_sources() -> None:
    assert charts.rank_agreement((1, 2, 3), (10, 20, 30)) == pytest.approx(1.0)
    assert charts.rank_agreement((1, 2, 3), (3, 2, 1)) == pytest.approx(-1.0)
    assert charts.rank_agreement((1, 2, 2, 4), (1, 3, 2, 4)) == pytest.approx(0.9487, abs=1e-4)
    assert charts.rank_agreement((1, 2, None), (1, 2, 3)) is None
    assert charts.rank_agreement((1, 1, 1), (1, 2, 3)) is None


def test_agreement_is_said_in_words_with_a_true_minus() -> None:
    assert charts.agreement_words(0.9) == "+0.90 · strong"
    assert charts.agreement_words(-0.5) == "−0.50 · opposite, fair"
    assert charts.agreement_words(0.0) == "+0.00 · none"
    assert charts.agreement_words(None) == "—"


def test_two_equal_best_sources_are_no_single_first() -> None:
    assert charts.same_first((1.0, 2.0), (3.0, 4.0)) is True
    assert charts.same_first((1.0, 2.0), (4.0, 3.0)) is False
    assert charts.same_first((2.0, 2.0), (4.0, 3.0)) is None
