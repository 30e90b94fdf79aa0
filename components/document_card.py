"""The document card: retrieval, provenance and length share of one source, side by side."""

from __future__ import annotations

import re

from components import words
from components.numbers import Card, MethodInfo, excerpt, length_hover
from components.palette import source_variable
from components.safe import Safe, el, join
from provenance.records import Turn


def card(item: Card, info: MethodInfo | None) -> Safe:
    """One source with its three numbers, what was quoted from it and the words that mattered."""
    passage = item.source.passage
    stages = " · ".join(item.retrieval.stages)
    return el(
        "article",
        _header(item),
        el("p", f"{cited(item)} · {item.retrieval.movement}", cls="sub", title=stages or None),
        _retrieval(item),
        _provenance(item, info),
        _length(item),
        el("p", item.callout, cls="callout") if item.callout else None,
        el("p", item.provenance.note, cls="method") if item.provenance.note else None,
        quotes(item),
        el("blockquote", *_excerpt(item), cls="excerpt"),
        _foot(item),
        cls="card",
        style=f"--c:{source_variable(item.n)}",
        data_ns=item.n,
        data_kind="card",
        tabindex=0,
        id=f"card-{item.n}",
        aria_label=f"Source {item.n}: {passage.title}, page {passage.page}, {cited(item)}",
    )


def _header(item: Card) -> Safe:
    passage = item.source.passage
    return el(
        "div",
        el("span", item.n, cls="chip", style=f"--c:{source_variable(item.n)}"),
        el("span", passage.title, cls="title"),
        el("span", f"page {passage.page}", cls="page"),
        cls="head",
    )


def cited(item: Card) -> str:
    """`cited by the model`, `cited by evidence`, or `sent, not cited`."""
    if item.cited_by is None:
        return "sent, not cited"
    return "cited by the model" if item.cited_by == "model" else "cited by evidence"


def metric(name: str, fraction: float | None, value: str, kind: str, title: str, *, in_words: bool = False) -> Safe:
    """One line: a name, a bar, a figure. The bar is left empty where there is no fraction."""
    fill = el("div", cls=f"fill {kind}", style=f"width:{fraction * 100:.2f}%") if fraction else None
    return el(
        "div",
        el("span", name, cls="name"),
        el("div", fill, cls="track", aria_hidden="true"),
        el("span", value, cls="value words" if in_words else "value", data_metric=kind),
        cls="metric",
        title=title,
    )


def _retrieval(item: Card) -> Safe:
    got = item.retrieval
    value = words.DASH if got.score is None else f"{words.score(got.score)} {got.scale}"
    title = " · ".join(got.stages) or got.scale
    return metric("Retrieval", got.fraction, value, "retrieval", f"How it looked to the question. {title}")


def _provenance(item: Card, info: MethodInfo | None) -> Safe:
    got = item.provenance
    title = f"{words.KINDS[info.kind].capitalize()}. " if info else ""
    title += f"Raw score {got.raw}" if got.reason is None else f"{got.raw}: {got.reason}"
    line = metric("Provenance", got.fraction, got.text, "provenance", title, in_words=got.against)
    if info is None:
        return join(line, el("p", got.reason, cls="method"))
    named = f"{words.inside(info.label)} · {info.kind}: {words.KINDS[info.kind]}"
    if got.reason is not None:
        named = f"{words.inside(info.label)} · {got.reason}"
    return join(line, el("p", named, cls="hide"), el("p", named, cls="method") if got.reason else None)


def _length(item: Card) -> Safe:
    if item.length is None:
        return metric("Length share", None, words.DASH, "length", f"Not cited, so it has none. {length_hover(item)}")
    part = item.length.percentage
    title = f"{words.percentage(part)} of the cited characters: volume, not importance. {length_hover(item)}"
    return metric("Length share", part / 100, words.percentage(part), "length", title)


def quotes(item: Card) -> Safe | None:
    """A badge per quote of this source, with the verdict in words."""
    if not item.quotes:
        return None
    badges = []
    for quote in item.quotes:
        sign, said = words.VERDICTS[quote.verdict]
        tone = "good" if quote.verdict in ("exact", "normalised") else "warn" if quote.verdict != "not found" else "bad"
        detail = [f"“{quote.text}”", *quote.normalised, quote.where or "", quote.reason or ""]
        badges.append(el("span", f"{sign} {said}", cls=f"badge {tone}", title=" · ".join(d for d in detail if d)))
    return el("div", *badges, cls="badges")


def _excerpt(item: Card) -> list[object]:
    pieces = excerpt(item.source.passage.text, item.marks)
    return [el("mark", text) if marked else re.sub(r"\n\s*\n", "\n", text) for text, marked in pieces]


def _foot(item: Card) -> Safe:
    passage = item.source.passage
    whole = f" of {item.document_characters:,}" if item.document_characters else ""
    return el(
        "div",
        el("span", f"{len(item.source.text):,}{whole} characters sent", title=length_hover(item)),
        el(
            "button",
            "Show on page →",
            cls="go",
            type="button",
            data_page=item.n,
            aria_label=f"Show on page: {passage.title}, page {passage.page}",
        ),
        cls="foot",
    )


def card_grid(items: list[Card], info: MethodInfo | None) -> Safe:
    """Cards in a grid that folds to one column on a telephone."""
    return el("div", *[card(item, info) for item in items], cls="cards")


def not_cited(items: list[Card], info: MethodInfo | None, *, open_: bool = False) -> Safe | None:
    """The sources that were sent and not cited, collapsed."""
    if not items:
        return None
    names = words.listed([str(i.n) for i in sorted(items, key=lambda i: i.n)])
    return el(
        "details",
        el("summary", f"Sent, not cited: {len(items)} ({names})"),
        card_grid(items, info),
        cls="rest",
        open=open_,
    )


def cards_block(turn: Turn, items: tuple[Card, ...], info: MethodInfo | None) -> Safe:
    """The cited cards, open, then the others. Where nothing is cited the others are open."""
    first = [i for i in items if i.cited_by is not None]
    rest = [i for i in items if i.cited_by is None]
    return join(card_grid(first, info) if first else None, not_cited(rest, info, open_=not first))
