"""A measured figure beside its baseline, and the table that shows many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Judged = Literal["value", "ratio"]
_HEADER = ("figure", "measured", "baseline", "ratio", "goal", "")


@dataclass(frozen=True, slots=True)
class Goal:
    """What the value itself, or its ratio to the baseline, should be: at most `limit`, or at least."""

    limit: float
    of: Judged = "ratio"
    least: bool = False

    def met(self, number: float) -> bool:
        """Whether a number reaches the goal."""
        return number >= self.limit if self.least else number <= self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. `value` is None where it could not be measured; `note` then says why.

    `beside` is what `baseline` names, in the same unit and from the same run.
    """

    figure: str
    value: float | None
    unit: str = ""
    baseline: str = ""
    beside: float | None = None
    goal: Goal | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Value ÷ baseline, or None where either is missing or the baseline is 0."""
        return self.value / self.beside if self.value is not None and self.beside else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None without a goal or without the number it is about."""
        number = None if self.goal is None else self.ratio if self.goal.of == "ratio" else self.value
        return None if self.goal is None or number is None else self.goal.met(number)


def table(rows: Sequence[Row]) -> str:
    """The rows as aligned text, one to a line."""
    cells = [_HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    lines.insert(1, "  ".join("-" * width for width in widths).rstrip())
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    goal = ""
    if row.goal is not None:
        goal = f"{'≥' if row.goal.least else '≤'} {_number(row.goal.limit)}{' ×' if row.goal.of == 'ratio' else ''}"
    verdict = {True: "met", False: "missed", None: ""}[row.met]
    beside = f"{_number(row.beside)} {row.unit}".strip() if row.beside is not None else ""
    return (
        row.figure,
        f"{_number(row.value)} {row.unit}".strip() if row.value is not None else "–",
        f"{row.baseline}: {beside}" if row.baseline and beside else row.baseline or beside,
        f"{_number(row.ratio)} ×" if row.ratio is not None else "",
        goal,
        "; ".join(part for part in (verdict, row.note) if part),
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 100 else f"{value:.3g}" if size >= 0.01 or size == 0 else f"{value:.1e}"
