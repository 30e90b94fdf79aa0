from __future__ import annotations

from benchmarks.table import Goal, Row, table


def test_a_goal_is_judged_on_the_ratio_or_on_the_value() -> None:
    assert Row("time", 2.0, "s", "plain pass", 4.0, Goal(0.5)).met is True
    assert Row("time", 2.1, "s", "plain pass", 4.0, Goal(0.5)).met is False
    assert Row("memory", 7.0, "GiB", goal=Goal(6.0, of="value")).met is False
    assert Row("agreement", 0.9, goal=Goal(0.85, of="value", least=True)).met is True


def test_a_figure_that_was_not_measured_is_neither_met_nor_missed() -> None:
    row = Row("time", None, "s", "plain pass", 4.0, Goal(0.5), note="it does not fit")
    assert row.met is None
    assert row.ratio is None
    assert table([row]).splitlines()[-1].endswith("≤ 0.5 ×  it does not fit")


def test_a_baseline_of_zero_has_no_ratio() -> None:
    assert Row("added memory", 3.0, "MiB", "plain pass", 0.0).ratio is None


def test_the_table_shows_figure_baseline_ratio_goal_and_verdict() -> None:
    line = table([Row("time", 1234.5, "s", "plain pass", 1000.0, Goal(1.05))]).splitlines()[-1]
    cells = [part.strip() for part in line.split("  ") if part.strip()]
    assert cells == ["time", "1,234 s", "plain pass: 1,000 s", "1.23 ×", "≤ 1.05 ×", "missed"]
