"""The Guide: each number with a live miniature, the question it answers and the one it does not."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from components import answer, callouts, numbers, session, words
from components.document_card import metric
from components.palette import source_variable
from components.receipt import block
from components.safe import Safe, el, join
from provenance.retrieval.reranker import PACKAGED_SEARCH_WEIGHT
from provenance.retrieval.search import DENSE_WEIGHT

LENGTHS = (9588, 4845, 1741)
"""The worked example: characters of three cited passages as sent."""
SCORES = (1.9, 0.8, -0.3)


def screen() -> None:
    """The whole Guide."""
    block(
        el("h1", "Guide", cls="title1"),
        el(
            "p",
            "One card, three numbers. They answer three different questions, and they are most useful where they part.",
            cls="lede soft",
        ),
    )
    _retrieval()
    _provenance()
    _length()
    _callouts()
    _citations()
    _quotes()
    _which()


def _section(title: str, does: str, does_not: str) -> None:
    block(
        el("h2", title, cls="title2"),
        el(
            "dl",
            el("dt", "It answers"),
            el("dd", does),
            el("dt", "It does not answer"),
            el("dd", does_not),
            cls="facts",
        ),
    )


def _retrieval() -> None:
    _section(
        "Retrieval",
        "How relevant did this passage look to the question, before anything was written?",
        "Did the answer use it? A passage can rank first and leave no trace in the answer.",
    )
    block(
        el(
            "div",
            metric("Retrieval", 1.0, "0.91 fused", "retrieval", "The best candidate"),
            metric("Retrieval", 0.64, "0.58 fused", "retrieval", "Ranked seventh"),
            el(
                "p",
                "The raw score, with the name of its scale: BM25 for words, cosine for meaning, fused for both "
                f"({DENSE_WEIGHT:.1f} · cosine + {1 - DENSE_WEIGHT:.1f} · BM25, each over its best). "
                "Reranked is the fused score with the reranker's joined in "
                f"({PACKAGED_SEARCH_WEIGHT:.1f} of it with the packaged reranker). "
                "The bar compares with the best candidate of the same question.",
                cls="soft small",
            ),
            cls="panel mini",
        )
    )


def _provenance() -> None:
    _section(
        "Provenance",
        "How much did this passage contribute to the answer that was just written?",
        "Is the answer right? A model can lean on a passage and misread it.",
    )
    st.caption(
        "Try it: the raw scores of three sources. A negative one counts as zero in the bar and is said in words."
    )
    columns = st.columns(3)
    scores = [
        float(column.number_input(f"Score of source {i}", -5.0, 5.0, value, 0.1, key=f"guide-score-{i}"))
        for i, (column, value) in enumerate(zip(columns, SCORES, strict=True), start=1)
    ]
    block(el("div", share_bar(scores), cls="panel"))
    kinds = [
        el("tr", el("th", kind, scope="row"), el("td", words.KINDS[kind]), el("td", claim))
        for kind, claim in (
            ("used", "The answer leaned on this passage. Read from the model itself; shares are a fair view."),
            ("supports", "This passage says what the answer says. Read from the texts; a raw score, never a share."),
            ("self-report", "Asked afterwards, the model says so. A grade from 0 to 5, to be taken with care."),
        )
    ]
    head = el("tr", *[el("th", t, scope="col") for t in ("Kind", "Where it looks", "The claim")])
    block(
        el("div", el("table", el("thead", head), el("tbody", *kinds)), cls="scroll"),
        el(
            "p",
            "Scores of one method compare within one answer only. There is no single trust score here, on purpose.",
            cls="soft small",
        ),
    )


def share_bar(scores: Sequence[float]) -> Safe:
    """The 100 % bar of a few raw scores, made by the function the cards use."""
    parts = numbers.shares(scores)
    segments, said = [], []
    for n, (score, part) in enumerate(zip(scores, parts, strict=True), start=1):
        if callouts.speaks_against(score):
            said.append(f"{n} speaks against the answer")
        if part:
            segments.append(
                el(
                    "div",
                    el("span", f"{n} · {words.share(part)}"),
                    cls="seg",
                    style=f"--c:{source_variable(n)};width:calc({part * 100:.3f}% - 2px)",
                )
            )
    if not segments:
        said.append("no source has a positive score, so there are no shares")
    text = " · ".join(said)
    return join(
        el("div", *segments, cls="bar"),
        el("p", text[:1].upper() + text[1:], cls="barnote") if text else None,
    )


def length_rows(lengths: Sequence[int]) -> list[tuple[int, int, float]]:
    """Source number, characters and length share in percent, by the engine's own function."""
    from provenance import length_shares

    return [(n, a, b) for n, (a, b) in enumerate(zip(lengths, length_shares(list(lengths)), strict=True), start=1)]


def _length() -> None:
    _section(
        "Length share",
        "Of the characters of all cited passages, as sent to the model, how many are this passage's?",
        "Was it important? Length share is volume, not importance, and is drawn hatched for that reason.",
    )
    st.caption("The worked example, computed live: three cited passages of these lengths.")
    columns = st.columns(3)
    lengths = [
        int(column.number_input(f"Characters of source {i}", 0, 100_000, value, key=f"guide-length-{i}"))
        for i, (column, value) in enumerate(zip(columns, LENGTHS, strict=True), start=1)
    ]
    rows = length_rows(lengths)
    total = sum(lengths)
    lines = [
        metric(f"{n} · {size:,}", part / 100, words.percentage(part), "length", f"100 · {size:,} ÷ {total:,}")
        for n, size, part in rows
    ]
    block(
        el(
            "div",
            *lines,
            el(
                "p",
                f"Together {total:,} characters, {sum(r[2] for r in rows):.2f} %. Each share is rounded to two "
                "decimals, so the total may read 99.99 or 100.01. Layout markup is not counted, citing a passage "
                "twice changes nothing, and a passage that is not cited has a dash, never 0 %.",
                cls="soft small",
            ),
            cls="panel mini",
        )
    )


def _callouts() -> None:
    rows = [el("tr", el("th", name, scope="row"), el("td", rule)) for name, rule in callouts.rules()]
    head = el("tr", el("th", "The card says", scope="col"), el("th", "when", scope="col"))
    block(
        el("h2", "Where the numbers part", cls="title2"),
        el(
            "p",
            "A line in words appears on a card where its numbers disagree. An even share is 1 ÷ the number of passages "
            f"sent: 20\u00a0% among five; where the words say small or hardly, it counts as "
            f"{words.share(callouts.EVEN_AT_MOST)} at most. "
            "The line appears only under methods of which a share is a fair view.",
        ),
        el("div", el("table", el("thead", head), el("tbody", *rows)), cls="scroll"),
    )


def _citations() -> None:
    block(
        el("h2", "Citations", cls="title2"),
        el(
            "dl",
            el("dt", answer.chip(1, by="model", title="example")),
            el(
                "dd",
                "Cited: by the model, where it wrote a valid number itself; otherwise by evidence, per sentence.",
            ),
            el("dt", answer.chip(1, hollow=True, title="example")),
            el("dd", "The sentence leans on this source most, but it is not cited."),
            el("dt", answer.chip(9, exists=False)),
            el("dd", "The answer names a number that was not sent. It is shown and never counted."),
            el("dt", el("span", answer.NO_SUPPORT, cls="warn")),
            el("dd", "No passage supports the sentence enough. Read it with care."),
            cls="facts",
        ),
    )


def _quotes() -> None:
    meaning = {
        "exact": "Letter for letter in the cited passage.",
        "normalised": "The same after folding quotes, dashes, hyphenated line ends or blanks; the badge says which. "
        "Signs, numbers and negation are never folded.",
        "elided": "An ellipsis leaves words out; the pieces stand in order in one passage.",
        "elsewhere": "In another passage than the cited one; the badge says where.",
        "not found": "In no document.",
        "cannot check": "The page has no text to compare with.",
    }
    rows = [
        el("tr", el("td", sign), el("th", said.capitalize(), scope="row"), el("td", meaning[verdict]))
        for verdict, (sign, said) in words.VERDICTS.items()
    ]
    head = el("tr", el("th", "", scope="col"), el("th", "Verdict", scope="col"), el("th", "What it means", scope="col"))
    block(
        el("h2", "Quotes", cls="title2"),
        el("div", el("table", el("thead", head), el("tbody", *rows)), cls="scroll"),
    )


WHEN = (
    (
        "A demo, or a first look",
        "attention-heads",
        "Read while the answer is written, from the few heads that carry the signal in this model.",
    ),
    (
        "A decision hangs on it",
        "leave-one-out",
        "It asks what the answer loses without the passage: the causal reference.",
    ),
    (
        "Sources repeat each other",
        "shapley",
        "Leave one out gives twins almost nothing, because either can replace the other; Shapley shares the credit.",
    ),
    (
        "The writer is remote, or was another system",
        "similarity",
        "It needs only the texts. So does rerank, which reads answer and passage together.",
    ),
    ("You want the model's own word", "llm", "Self-report: slow, easily flattered, sometimes revealing."),
    (
        "You compare with RAG Me Up",
        "attention",
        "Last-layer attention as it defines it: a weak signal in small models.",
    ),
)


def _which() -> None:
    infos = session.method_infos()
    statuses = {s.name: s for s in session.engine().method_status()}
    rows = []
    for situation, name, why in WHEN:
        if name not in infos:
            continue
        status = statuses.get(name)
        rows.append(
            el(
                "tr",
                el("th", situation, scope="row"),
                el(
                    "td",
                    el("b", infos[name].label),
                    el("br"),
                    el("span", status.cost if status else "", cls="soft small"),
                ),
                el("td", why),
            )
        )
    head = el("tr", *[el("th", t, scope="col") for t in ("When", "Use", "Because")])
    block(
        el("h2", "Which method when", cls="title2"),
        el("div", el("table", el("thead", head), el("tbody", *rows)), cls="scroll"),
    )
