"""Charts: plotly figures made by pure functions, each with the words and the table that say the same.

The heat map uses one hue from light to dark, which reads in every kind of colour vision, and writes each value.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from components import words
from components.callouts import speaks_against
from components.numbers import MethodInfo, scale_fraction, shares
from components.palette import TONES, contrast
from components.safe import chart_text
from provenance.records import Attribution, Source

HEAD_WIDTH = 18
"""Characters in one line of a column head."""


def heat_values(
    attributions: Sequence[Attribution], infos: Mapping[str, MethodInfo], n_sources: int
) -> list[list[float | None]]:
    """One row per source, one column per method: the share within the method, or the score from 0 up its own scale."""
    columns: list[Sequence[float | None]] = []
    for attribution in attributions:
        info = infos[attribution.method]
        if info.share:
            columns.append(shares(attribution.scores))
        else:
            from_zero = replace(info, low=0.0)  # a cosine of 0 says nothing: it gets no colour
            columns.append(
                [None if s is None else scale_fraction(s, from_zero, attribution.scores) for s in attribution.scores]
            )
    return [[column[i] if i < len(column) else None for column in columns] for i in range(n_sources)]


def heat_words(attributions: Sequence[Attribution], infos: Mapping[str, MethodInfo], n_sources: int) -> list[list[str]]:
    """The figure of every cell as it is written: a share in percent, or a raw score."""
    made = []
    for i in range(n_sources):
        row = []
        for attribution in attributions:
            value = attribution.scores[i] if i < len(attribution.scores) else None
            if value is None:
                row.append(words.DASH)
            elif infos[attribution.method].share:
                part = shares(attribution.scores)[i]
                figure = words.score(value) if part is None else words.share(part)
                row.append("against" if speaks_against(value) else figure)
            else:
                row.append(words.score(value))
        made.append(row)
    return made


def heat_map(
    attributions: Sequence[Attribution], infos: Mapping[str, MethodInfo], sources: Sequence[Source], dark: bool
) -> Any:
    """Sources × methods as a plotly figure; colour compares within a column only."""
    import plotly.graph_objects as go

    values = heat_values(attributions, infos, len(sources))
    figures = heat_words(attributions, infos, len(sources))
    ground, full = ("#1c2024", "#4fb0d6") if dark else ("#f3f3ef", "#0b6e8f")
    ink = TONES["ink"].dark if dark else TONES["ink"].light
    names = [f"{s.n} · {chart_text(s.passage.title, 24)}, p. {s.passage.page}" for s in sources]
    labels = [head(infos[a.method].label) for a in attributions]
    raw = [
        [
            f"{words.score(a.scores[i])} {chart_text(infos[a.method].unit)}"
            if a.scores[i] is not None
            else "not measured"
            for a in attributions
        ]
        for i in range(len(sources))
    ]
    figure = go.Figure(
        go.Heatmap(
            z=values,
            x=labels,
            y=names,
            customdata=raw,
            colorscale=[[0, ground], [1, full]],
            zmin=0,
            zmax=1,
            xgap=3,
            ygap=3,
            showscale=False,
            hoverongaps=False,
            hovertemplate="%{y}<br>%{x}<br>%{customdata}<extra></extra>",
        )
    )
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            under = blend(ground, full, value or 0.0)
            colour = max(
                "#000000", "#ffffff", key=lambda c: contrast(c, under)
            )  # one of them has 4.5 : 1 on any colour
            figure.add_annotation(x=j, y=i, text=figures[i][j], showarrow=False, font={"color": colour, "size": 13})
    figure.update_layout(
        height=110 + 44 * len(sources),
        margin={"l": 0, "r": 0, "t": 8, "b": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": ink, "size": 13, "family": "Source Sans, sans-serif"},
        yaxis={"autorange": "reversed", "fixedrange": True, "automargin": True, "showgrid": False, "ticks": ""},
        xaxis={"side": "top", "fixedrange": True, "automargin": True, "showgrid": False, "ticks": "", "tickangle": 0},
    )
    return figure


def head(label: str) -> str:
    """A column head in lines short enough to stand beside its neighbours; `<br>` is plotly's own line break."""
    lines = [line for part in label.replace(" (", "\n(").split("\n") for line in textwrap.wrap(part, HEAD_WIDTH)]
    return "<br>".join(chart_text(line) for line in lines)


def blend(first: str, second: str, part: float) -> str:
    """The colour `part` of the way from the first to the second, as the colour scale draws it."""
    mixed = (round(int(first[i : i + 2], 16) * (1 - part) + int(second[i : i + 2], 16) * part) for i in (1, 3, 5))
    return "#" + "".join(f"{v:02x}" for v in mixed)


def heat_alt(attributions: Sequence[Attribution], infos: Mapping[str, MethodInfo], sources: Sequence[Source]) -> str:
    """What the heat map shows, in one or two sentences."""
    said = []
    for attribution in attributions:
        known = [(s, i) for i, s in enumerate(attribution.scores) if s is not None]
        if known:
            best = max(known)[1]
            said.append(f"{infos[attribution.method].label}: source {sources[best].n} first")
    return f"Scores of {len(sources)} sources under {len(attributions)} methods. " + "; ".join(said) + "."


def rank_agreement(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    """Spearman's rank correlation over the sources both methods scored, ties averaged; None where it is undefined."""
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    if len(pairs) < 3:
        return None
    left, right = _ranks([a for a, _ in pairs]), _ranks([b for _, b in pairs])
    mean = (len(pairs) + 1) / 2
    top = sum((a - mean) * (b - mean) for a, b in zip(left, right, strict=True))
    size = math.sqrt(sum((a - mean) ** 2 for a in left) * sum((b - mean) ** 2 for b in right))
    return top / size if size > 0 else None


def same_first(first: Sequence[float | None], second: Sequence[float | None]) -> bool | None:
    """Whether both methods put the same source first; None where one of them has no single first."""
    tops = []
    for scores in (first, second):
        known = [s for s in scores if s is not None]
        if not known or known.count(max(known)) > 1:
            return None
        tops.append(scores.index(max(known)))
    return tops[0] == tops[1]


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(v) + 1 + ordered.index(v) + ordered.count(v)) / 2 for v in values]


def agreement_words(value: float | None) -> str:
    """A correlation in words beside its figure."""
    if value is None:
        return "—"
    size = abs(value)
    name = "strong" if size >= 0.7 else "fair" if size >= 0.4 else "weak" if size >= 0.2 else "none"
    sign = "opposite, " if value <= -0.2 else ""
    return f"{value:+.2f} · {sign}{name}".replace("-", "−")
