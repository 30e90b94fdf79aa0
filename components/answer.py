"""The answer: its sentences, the chips in it, the strip under it, and the bar of what it leaned on."""

from __future__ import annotations

from collections.abc import Sequence

from components import words
from components.numbers import Card, MethodInfo, cited_words, dropped, funnel, scale_ends
from components.palette import source_variable
from components.safe import Safe, el, join
from provenance.records import Attribution, Citation, SentenceSupport, Turn

NO_SUPPORT = "no source supports this"
CLOSE = 0.03
"""Dots of the scale closer than this stand in two rows, so that none hides another."""
WIDE = 0.13
"""A segment of the bar from this share on has room for its figure; from twice as much on for a title too."""


def question(text: str) -> Safe:
    """The question as asked."""
    return el("div", el("span", "Question: ", cls="hide"), text, cls="question")


def chip(n: int, *, exists: bool = True, by: str | None = None, hollow: bool = False, title: str = "") -> Safe:
    """A source number. Hollow: leaned on, not cited. A number the prompt never offered says so in words."""
    if not exists:
        return el(
            "span", f"{n} · no such source", cls="chip none", title="The answer names a source that was not sent."
        )
    what = f"Source {n}" + (f", {title}" if title else "")
    how = (
        "the sentence leans on it, not cited" if hollow else f"cited by {'the model' if by == 'model' else 'evidence'}"
    )
    return el(
        "button",
        n,
        cls="chip hollow" if hollow else "chip",
        type="button",
        style=f"--c:{source_variable(n)}",
        data_ns=n,
        data_kind="chip",
        title=f"{what} · {how}",
        aria_label=f"{what}, {how}",
    )


def answer(turn: Turn) -> Safe:
    """The answer with its sentences linked to their sources and its citations as chips.

    The words are those of the record, in order; a written marker such as `[1, 3]` is drawn as its chips.
    """
    if turn.answer is None:
        return Safe("")
    titles = {s.n: f"{s.passage.title}, page {s.passage.page}" for s in turn.sources}
    spans = [(s.start, s.end, s) for s in sorted(turn.sentences, key=lambda s: s.start)]
    parts: list[Safe] = []
    at = 0
    text = turn.answer.text
    for start, end, sentence in spans:
        start, end = max(start, at), min(end, len(text))
        if start > at:
            parts.append(_run(text, at, start, turn.citations, titles, last=False))
        if end > start:
            parts.append(_sentence(text, start, end, sentence, turn, titles))
            at = end
    rest = [c for c in turn.citations if not at or c.start > at or c.end > at]  # a sentence has drawn those at its end
    parts.append(_run(text, at, len(text), rest, titles, last=True))
    return el("div", *parts, cls="answer", role="group", aria_label="Answer")


def _sentence(text: str, start: int, end: int, sentence: SentenceSupport, turn: Turn, titles: dict[int, str]) -> Safe:
    cited = {c.n for c in turn.citations if c.exists and _inside(c, start, end)}
    linked = sorted(cited | ({sentence.best} if sentence.best else set()))
    lead = sentence.shares[sentence.best - 1] if sentence.best and sentence.best <= len(sentence.shares) else None
    if sentence.best:
        hint = f"Leans most on source {sentence.best}, {titles.get(sentence.best, '')}"
        hint += f" ({words.share(lead)} of this sentence)" if lead is not None else ""
    else:
        hint = (sentence.reason or "support not measured").capitalize()
    body = start + len(text[start:end].rstrip())
    pieces = [
        el("span", _run(text, start, body, turn.citations, titles, last=False), cls="words"),
        _run(text, body, end, turn.citations, titles, last=True),
    ]
    if sentence.best and sentence.best not in cited:
        pieces.append(chip(sentence.best, hollow=True, title=titles.get(sentence.best, "")))
    elif sentence.best is None and not cited and sentence.reason == NO_SUPPORT:
        pieces.append(el("span", NO_SUPPORT, cls="aside"))
    unsupported = sentence.best is None and not cited and sentence.reason == NO_SUPPORT
    return el(
        "span",
        *pieces,
        cls="sentence unsupported" if unsupported else "sentence",
        tabindex=0,
        role="note",
        data_ns=" ".join(map(str, linked)) or None,
        data_kind="sentence",
        title=hint,
        aria_label=f"{text[start:end].strip()} — {hint}",
    )


def _inside(citation: Citation, start: int, end: int) -> bool:
    return start <= citation.start < end or (citation.start == citation.end and start < citation.start <= end)


def _run(text: str, start: int, end: int, citations: Sequence[Citation], titles: dict[int, str], *, last: bool) -> Safe:
    """`text[start:end]` with the citations that begin in it as chips; zero-width ones at `end` only where `last`."""
    parts: list[object] = []
    at = start
    here = [c for c in citations if (start <= c.start < end) or (last and c.start == c.end == end)]
    groups: dict[tuple[int, int], list[Citation]] = {}
    for citation in sorted(here, key=lambda c: (c.start, c.end)):
        if citation.start == citation.end == start and not last:
            continue
        groups.setdefault((citation.start, citation.end), []).append(citation)
    for (low, high), group in groups.items():
        if low > at:
            parts.append(text[at:low])
        if low == high and low > 0 and not text[low - 1].isspace():
            parts.append("\u00a0")
        parts.extend(chip(c.n, exists=c.exists, by=c.by, title=titles.get(c.n, "")) for c in group)
        at = max(at, min(high, end))
    parts.append(text[at:end])
    return join(*parts)


def strip(turn: Turn, attribution: Attribution | None, info: MethodInfo | None) -> Safe:
    """`5 passages sent · 3 cited · 2 of 3 quotes exact · attention heads 0.4 s · logged as #42`."""
    _, sent, _ = funnel(turn)
    items: list[Safe] = []
    if turn.sources_from is not None:
        items.append(join(el("b", sent), f" sources kept from #{turn.sources_from}, nothing fetched"))
    else:
        items.append(join(el("b", sent), " passage sent" if sent == 1 else " passages sent"))
    items.append(_bold_number(cited_words(turn)))
    items.append(_bold_number(words.quote_count(turn)))
    if info is not None and attribution is not None:
        items.append(join(f"{words.inside(info.label)} ", el("b", words.seconds(attribution.seconds))))
    if turn.answer and turn.answer.finish == "length":
        items.append(el("span", "cut at the length limit", cls="warn"))
    if turn.id is not None:
        items.append(join("logged as ", el("b", f"#{turn.id}")))
    dot = el("span", "·", cls="dot", aria_hidden="true")
    return el("p", *[piece for item in items for piece in (dot, item)][1:], cls="strip")


def _bold_number(text: str) -> Safe:
    first, _, rest = text.partition(" ")
    return join(el("b", first), f" {rest}") if first.isdigit() else join(text)


def funnel_words(turn: Turn) -> Safe:
    """`20 candidates → 5 sent → 3 cited`, with what was dropped on hover."""
    looked, sent, cited = funnel(turn)
    text = f"{sent} sent → {cited} cited"
    if looked is not None:
        text = f"{words.count(looked, 'candidate')} → {text}"
    return el("span", text, title=" · ".join(dropped(turn)) or None, cls="num")


def bar(turn: Turn, cards: Sequence[Card], attribution: Attribution | None, info: MethodInfo | None) -> Safe:
    """What the answer leaned on: one 100 % bar of shares, or for a method without shares its own scale."""
    if not turn.sources:
        return Safe("")
    if attribution is None or info is None:
        return el("div", el("span", "No provenance measured"), funnel_words(turn), cls="barhead")
    if info.share:
        return _share_bar(turn, cards, attribution, info)
    return _scale_strip(turn, cards, attribution, info)


def _share_bar(turn: Turn, cards: Sequence[Card], attribution: Attribution, info: MethodInfo) -> Safe:
    head = el(
        "div", el("span", f"What the answer leaned on · {words.inside(info.label)}"), funnel_words(turn), cls="barhead"
    )
    measured = [c for c in cards if c.provenance.share]
    if not measured:
        why = attribution.reason or "no source has a positive score"
        return join(head, el("div", cls="bar", aria_hidden="true"), el("p", why.capitalize(), cls="barnote"))
    ordered = sorted(measured, key=lambda c: -(c.provenance.share or 0))
    segments = [_segment(card) for card in ordered]
    notes = _notes(cards, attribution)
    return join(
        head,
        el("div", *segments, cls="bar", role="group", aria_label="Share of each source"),
        el("p", notes, cls="barnote") if notes else None,
    )


def _segment(card: Card) -> Safe:
    part = card.provenance.share or 0.0
    figure = words.share(part)
    name = f"{card.n} · {figure}" if part >= WIDE else f"{card.n}" if part >= 0.035 else ""
    passage = card.source.passage
    full = f"Source {card.n}, {passage.title}, page {passage.page}: {figure}, raw {card.provenance.raw}"
    return el(
        "button",
        el("span", name),
        el("span", passage.title, cls="of") if part >= 2 * WIDE else None,
        cls="seg" if part >= WIDE else "seg thin",
        type="button",
        style=f"--c:{source_variable(card.n)};width:calc({part * 100:.3f}% - 2px)",
        data_ns=card.n,
        data_kind="seg",
        title=full,
        aria_label=full,
    )


def _notes(cards: Sequence[Card], attribution: Attribution) -> str:
    said = []
    against = [c.n for c in cards if c.provenance.against]
    if against:
        numbers = words.listed([str(n) for n in sorted(against)])
        said.append(f"{numbers} {'speaks' if len(against) == 1 else 'speak'} against the answer")
    missing = sorted(c.n for c in cards if c.provenance.reason and c.provenance.text == words.DASH)
    if missing:
        said.append(
            f"{words.listed([str(n) for n in missing])} not measured: {attribution.reason or 'no reason given'}"
        )
    mass = attribution.extra.get("mass_on_passages")
    if mass is not None:
        said.append(f"{words.share(mass)} of the attention read went to the passages")
    text = " · ".join(said)
    return text[:1].upper() + text[1:]


def _scale_strip(turn: Turn, cards: Sequence[Card], attribution: Attribution, info: MethodInfo) -> Safe:
    low, high = scale_ends(info, attribution.scores)
    dots, before, low_row = [], -1.0, False
    for card in sorted(cards, key=lambda c: c.provenance.fraction or 0.0):
        if card.provenance.fraction is None:
            continue
        low_row = card.provenance.fraction - before < CLOSE and not low_row
        before = card.provenance.fraction
        full = f"Source {card.n}, {card.source.passage.title}: {card.provenance.raw}"
        dots.append(
            el(
                "button",
                card.n,
                cls="chip dot",
                type="button",
                style=f"--c:{source_variable(card.n)};left:{before * 100:.2f}%;top:{72 if low_row else 28}%",
                data_ns=card.n,
                data_kind="chip",
                title=full,
                aria_label=full,
            )
        )
    notes = _notes(cards, attribution)
    return join(
        el(
            "div",
            el("span", f"{_claim(info)} · {words.inside(info.label)}, {info.unit} — a scale, not shares"),
            funnel_words(turn),
            cls="barhead",
        ),
        el("div", el("div", cls="axis"), *dots, cls="scale", role="group", aria_label=f"Scores, {info.unit}"),
        el("div", el("span", words.score(low)), el("span", words.score(high)), cls="ends num"),
        el("p", notes, cls="barnote") if notes else None,
    )


def _claim(info: MethodInfo) -> str:
    return "What the model says it used" if info.kind == "self-report" else "What says the same as the answer"
