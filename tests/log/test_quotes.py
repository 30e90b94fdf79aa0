"""Quote checks: a table of spans with their verdicts, on both engines."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import sqlalchemy as sa

from provenance.log.quotes import check_quotes, find_quotes
from provenance.records import Citation, Document, Page, Passage, Quote, Source
from provenance.store import Store, open_store

TEXTS = {
    "statutes": (
        "The board consists of seven members. A quorum is reached when four members are present. "
        "The budget was not approved by the assembly in May. Returns fell by -5 % in 2021 and rose by 2.5 % in 2022.",
        "The chair’s casting vote decides – unless the treasurer objects. Members pay 1,200 euros a year.",
        "The inform-\nation duty rests with the secre-\ntary. The long-\nterm plan is renewed\nevery   three years.",
        "",
    ),
    "report": (
        "The harbour café sold 10² crates; the ﬁnal count was “twelve”. Profit: −3 %. Loss: 7 %. Range: 3–5 points.",
        "We are committed to repairing, maintaining, and, where needed, replacing the pumps. "
        "The pumps will, without further notice, be replaced. So it ends … for now.",
        "In the second year the board consists of nine members. The duty is limited to > 40 hours and ½ of the days.",
    ),
    "annex": ("A quorum is reached when four members are present. The annex says so too.",),
    "scan": ("", ""),
}


def _passages() -> dict[str, tuple[Document, list[Page], list[Passage]]]:
    built = {}
    for name, texts in TEXTS.items():
        id = (name * 64)[:64]
        pages = [Page(i, text, 0, None if text else "no text on this page") for i, text in enumerate(texts, 1)]
        passages = [
            Passage(f"{id[:16]}:{p.number}:0", id, name, p.number, 0, len(p.text), p.text) for p in pages if p.text
        ]
        document = Document(id, name, f"{name}.pdf", "pdf", len(pages), len(passages), 1, len(passages))
        built[name] = (document, pages, passages)
    return built


DOCUMENTS = _passages()
STATUTES, REPORT, ANNEX = (DOCUMENTS[name][2] for name in ("statutes", "report", "annex"))
SENT = (STATUTES[0], STATUTES[1], STATUTES[2], REPORT[0], REPORT[1])
SOURCES = tuple(Source(n, passage, passage.text) for n, passage in enumerate(SENT, start=1))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('quotes') / 'receipts.sqlite3'}"
    else:
        from tests.postgres import fresh_database

        url = fresh_database(request.getfixturevalue("postgres_url"))
    opened = open_store(url)
    for document, pages, passages in DOCUMENTS.values():
        vectors = np.ones((len(passages), 2), np.float32)
        opened.add_document(document, pages, passages, vectors, embedder="tiny@1", original=b"")
    yield opened
    opened.close()


def check(store: Store | None, quote: str, cited: int, sources: tuple[Source, ...] = SOURCES) -> Quote:
    """The verdict on one quote in an answer that cites one source beside it."""
    answer = f"It says “{quote}” [{cited}]."
    at = answer.index(f"[{cited}]")
    found = check_quotes(answer, [Citation(cited, at, at + 3, "model")], sources, store)
    assert found[0].text == quote.strip()
    return found[0]


NFKC, MARKS, HYPHEN, SPACE, CLOSING = (
    "NFKC",
    "quotes and dashes",
    "hyphenated line ends",
    "white space",
    "closing punctuation",
)

# quote, the source cited beside it, verdict, what was normalised, what was omitted
TABLE: list[tuple[str, int, str, tuple[str, ...], tuple[str, ...]]] = [
    # exact
    ("The board consists of seven members.", 1, "exact", (), ()),
    ("seven members", 1, "exact", (), ()),
    ("fell by -5 %", 1, "exact", (), ()),
    ("-5 % in 2021", 1, "exact", (), ()),
    ("2.5 % in 2022", 1, "exact", (), ()),
    ("was not approved by the assembly", 1, "exact", (), ()),
    ("1,200 euros", 2, "exact", (), ()),
    ("chair’s casting vote", 2, "exact", (), ()),
    ("10² crates", 4, "exact", (), ()),
    ("Loss: 7 %", 4, "exact", (), ()),
    ("So it ends … for now", 5, "exact", (), ()),
    # normalised
    ("chair's casting vote", 2, "normalised", (MARKS,), ()),
    ("vote decides - unless the treasurer objects", 2, "normalised", (MARKS,), ()),
    ("The information duty", 3, "normalised", (HYPHEN,), ()),
    ("rests with the secretary", 3, "normalised", (HYPHEN,), ()),
    ("The long-term plan", 3, "normalised", (HYPHEN,), ()),
    ("plan is renewed every three years", 3, "normalised", (SPACE,), ()),
    (
        "information duty rests with the secretary. The longterm plan is renewed every",
        3,
        "normalised",
        (HYPHEN, SPACE),
        (),
    ),
    ("the final count", 4, "normalised", (NFKC,), ()),
    ('the final count was "twelve"', 4, "normalised", (NFKC, MARKS), ()),
    ("Profit: -3 %", 4, "normalised", (MARKS,), ()),
    ("Range: 3-5 points", 4, "normalised", (MARKS,), ()),
    ("seven\u00a0members", 1, "normalised", (SPACE,), ()),
    ("The board consists of seven members,", 1, "normalised", (CLOSING,), ()),
    # elided
    ("The board consists … four members are present", 1, "elided", (), ("of seven members. A quorum is reached when",)),
    ("repairing ... replacing the pumps", 5, "elided", (), (", maintaining, and, where needed,",)),
    ("repairing, [...] where needed, […] the pumps", 5, "elided", (), ("maintaining, and,", "replacing")),
    ("The budget was … approved", 1, "elided", (), ("not",)),
    ("the final … twelve", 4, "elided", (), ('count was "',)),
    ("The chair's … objects.", 2, "elided", (), ("casting vote decides - unless the treasurer",)),
    # elsewhere
    ("the board consists of nine members", 1, "elsewhere", (), ()),
    ("Members pay 1,200 euros a year", 1, "elsewhere", (), ()),
    ("The annex says so too", 1, "elsewhere", (), ()),
    ("Members pay 1,200\neuros", 1, "elsewhere", (SPACE,), ()),
    ("second year … nine members", 4, "elsewhere", (), ("the board consists of",)),
    ("½ of the days", 4, "elsewhere", (), ()),
    ("The inform-\nation duty", 1, "elsewhere", (), ()),
    ("the secre-\ntary. The longterm plan", 1, "elsewhere", (HYPHEN,), ()),
    # not found; the cited document has text on every page
    ("Profit: 3 %", 4, "not found", (), ()),
    ("3 %. Loss", 4, "not found", (), ()),
    ("Loss: -7 %", 4, "not found", (), ()),
    ("5 points", 4, "not found", (), ()),
    ("102 crates", 4, "not found", (), ()),
    ("10 crates", 4, "not found", (), ()),
    ("Loss: 7 ‰", 4, "not found", (), ()),
    ("The pumps will be replaced", 5, "not found", (), ()),
    ("the pumps … repairing", 5, "not found", (), ()),
    ("place the pumps", 5, "not found", (), ()),
    ("THE FINAL COUNT", 4, "not found", (), ()),
    ("1/2 of the days", 4, "not found", (), ()),
    ("hours and 12 of the days", 4, "not found", (), ()),
    ("nobody ever wrote this", 4, "not found", (), ()),
    ("board consists … the pumps", 4, "not found", (), ()),
    # cannot check: the cited document has a page without text
    ("The budget was approved by the assembly", 1, "cannot check", (), ()),
    ("Returns fell by 5 %", 1, "cannot check", (), ()),
    ("5 % in 2021", 1, "cannot check", (), ()),
    ("5 % in 2022", 1, "cannot check", (), ()),
    ("200 euros a year", 2, "cannot check", (), ()),
    ("a sentence that may stand on the scanned page", 3, "cannot check", (), ()),
]


@pytest.mark.parametrize(("quote", "cited", "verdict", "normalised", "omitted"), TABLE, ids=[row[0] for row in TABLE])
def test_a_quote_gets_its_verdict(
    store: Store, quote: str, cited: int, verdict: str, normalised: tuple[str, ...], omitted: tuple[str, ...]
) -> None:
    found = check(store, quote, cited)
    assert (found.verdict, found.normalised, found.omitted) == (verdict, normalised, omitted)
    if verdict in ("exact", "normalised", "elided"):
        assert found.n == cited
        assert found.where == f"{SOURCES[cited - 1].passage.title}, page {SOURCES[cited - 1].passage.page}"
    elif verdict == "elsewhere":
        assert found.n != cited
        assert found.where is not None
        assert found.where in (found.reason or "")
    else:
        assert (found.passage_id, found.n, found.where) == (None, None, None)


def test_the_table_covers_every_verdict_with_forty_spans() -> None:
    assert len(TABLE) >= 40
    assert {row[2] for row in TABLE} == {"exact", "normalised", "elided", "elsewhere", "not found", "cannot check"}


def test_cannot_check_names_the_pages_without_text(store: Store) -> None:
    assert "statutes, page 4" in (check(store, "nobody ever wrote this", 1).reason or "")


def test_other_documents_without_text_are_mentioned(store: Store) -> None:
    assert "3 pages of other documents have no text" in (check(store, "nobody ever wrote this", 4).reason or "")


def test_a_difference_in_case_alone_is_said(store: Store) -> None:
    assert check(store, "THE FINAL COUNT", 4).reason == "Only capital letters differ from report, page 1."


def test_a_negation_that_an_ellipsis_swallows_is_said(store: Store) -> None:
    assert "not" in (check(store, "The budget was … approved", 1).reason or "")


def test_a_quote_cut_off_after_a_negation_or_a_sign_is_said(store: Store) -> None:
    assert check(store, "approved by the assembly", 1).reason == "The text says “not” just before this."
    assert "“>”" in (check(store, "40 hours", 4).reason or "")


def test_without_a_store_only_the_sources_are_compared() -> None:
    assert check(None, "seven members", 1).verdict == "exact"
    assert check(None, "chair's casting vote", 1).verdict == "elsewhere"
    assert check(None, "The annex says so too", 1).verdict == "not found"


def test_sources_that_the_store_does_not_hold_are_compared_too(store: Store) -> None:
    pasted = Passage("pasted:1:0", "pasted", "Pasted", 1, 0, 20, "A pasted passage of text.")
    sources = (Source(1, pasted, pasted.text),)
    assert check(store, "pasted passage", 1, sources).verdict == "exact"
    assert check(store, "nobody ever wrote this", 1, sources).verdict == "not found"


def test_a_quote_that_the_sources_lack_is_looked_up_once_for_the_whole_answer(store: Store) -> None:
    asked: list[str] = []
    listener = lambda connection, cursor, text, *_: asked.append(text)  # noqa: E731
    sa.event.listen(store.engine, "before_cursor_execute", listener)
    answer = "“The annex says so too” and “nobody ever wrote this” and “seven members” and “nobody ever wrote this”."
    found = check_quotes(answer, [], SOURCES, store)
    sa.event.remove(store.engine, "before_cursor_execute", listener)
    assert [quote.verdict for quote in found] == ["elsewhere", "cannot check", "exact", "cannot check"]
    assert sum("phrase" in text for text in asked) == 2


def test_an_answer_without_quotes_has_no_quotes(store: Store) -> None:
    assert check_quotes("It isn't quoted. The board's members don't mind.", [], SOURCES, store) == ()


def test_a_quote_without_citations_may_stand_in_any_sent_source(store: Store) -> None:
    (found,) = check_quotes("It says “seven members”.", [], SOURCES, store)
    assert (found.verdict, found.n) == ("exact", 1)


def test_each_quote_is_compared_with_the_sources_of_its_own_sentence(store: Store) -> None:
    answer = "First “seven members” [1]. Then “seven members” [2]."
    citations = [Citation(1, answer.index("[1]"), 25, "model"), Citation(2, answer.index("[2]"), 51, "model")]
    assert [(q.verdict, q.n) for q in check_quotes(answer, citations, SOURCES, store)] == [
        ("exact", 1),
        ("elsewhere", 1),
    ]


def test_a_citation_behind_the_full_stop_belongs_to_the_sentence(store: Store) -> None:
    answer = "Someone says “Members pay 1,200 euros a year.” [2] Another thing [1]."
    citations = [Citation(2, answer.index("[2]"), 50, "model"), Citation(1, answer.index("[1]"), 68, "model")]
    assert [q.verdict for q in check_quotes(answer, citations, SOURCES, store)] == ["exact"]


def test_a_citation_of_a_source_that_does_not_exist_counts_for_nothing(store: Store) -> None:
    answer = "It says “seven members” [9]."
    (found,) = check_quotes(answer, [Citation(9, 24, 27, "model", exists=False)], SOURCES, store)
    assert found.verdict == "exact"


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ('He said "one two" and left.', ["one two"]),
        ("He said “one two” and left.", ["one two"]),
        ("Il dit « un deux » ici.", ["un deux"]),
        ("Er sagt „eins zwei“ dort.", ["eins zwei"]),
        ("Er sagt »eins zwei« dort.", ["eins zwei"]),
        ("Er sagt ‚eins zwei‘ dort.", ["eins zwei"]),
        ("He said 'one two' and left.", ["one two"]),
        ("He said ‘one two’ and left.", ["one two"]),
        ("“one ‘two’ three”", ["one ‘two’ three", "two"]),
        ("“one 'it isn't two' three”", ["one 'it isn't two' three", "it isn't two"]),
        ("\"He's the board's chair\" it says", ["He's the board's chair"]),
        ("It's the boards' view, isn't it", []),
        ("the '90s and the 1990's", []),
        ('a 5" pipe and a 7" pipe', []),
        ("an open “mark only", []),
        ("an open “mark\n\nand a close” elsewhere", []),
        ("“” and “ … ”", []),
        ("“one” and “two”", ["one", "two"]),
        ("", []),
    ],
)
def test_quotes_are_found_and_apostrophes_are_not(answer: str, texts: list[str]) -> None:
    assert [answer[span.start : span.stop] for span in find_quotes(answer)] == texts
