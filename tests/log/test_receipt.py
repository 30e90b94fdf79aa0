"""The HTML receipt: whole, offline, on A4, and nothing in it but text."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pypdf import PdfReader

from provenance.errors import ProvenanceError
from provenance.log import Log, export_receipt
from provenance.records import Answer, Attribution, Candidate, Citation, Passage, Quote, Source, Stage, Turn
from provenance.store import open_store
from tests.log.ferry import document_of
from tests.log.test_log import ANSWERED
from tests.test_codec import PROMPT

HOSTILE = (
    "<script>document.title='run'</script><img src=http://evil.test/x.png onerror=alert(1)>"
    "<style>*{display:none}</style></div></body>&amp; ![](http://evil.test/y.png) \u202ekcab\u202c \0"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Elements(HTMLParser):
    """Every element and attribute of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    store = open_store(f"sqlite:///{tmp_path / 'receipts.sqlite3'}")
    yield Log(store)
    store.close()


def logged(log: Log, turn: Turn) -> int:
    id = log.start(turn.question, {"top_k": 5, "search": "exact"})
    log.finish(id, turn)
    return id


def hostile_turn() -> Turn:
    passage = Passage("d:1:0", "d" * 64, HOSTILE, 1, 0, len(HOSTILE), HOSTILE, HOSTILE)
    return replace(
        ANSWERED,
        question=HOSTILE,
        candidates=(Candidate(passage, Stage(1, 2.0), dropped=HOSTILE), Candidate(passage, sent=1)),
        prompt=replace(PROMPT, sources=(Source(1, passage, HOSTILE),)),
        answer=Answer(HOSTILE, (5,), HOSTILE, HOSTILE),
        citations=(Citation(1, 0, 3, "model"), Citation(9, 0, 3, "model", exists=False)),
        attributions=(Attribution(HOSTILE, (None,), True, 0.1, HOSTILE),),
        quotes=(Quote(HOSTILE, 0, 3, "elided", "d:1:0", 1, HOSTILE, (HOSTILE,), (HOSTILE,), HOSTILE),),
        settings={"name": HOSTILE, HOSTILE: None},
        reason=HOSTILE,
    )


def test_it_carries_the_hash_of_its_row_and_everything_of_the_turn(log: Log) -> None:
    id = logged(log, ANSWERED)
    log.attributed(id, Attribution("rerank", (0.123456,), False, 0.1))
    log.quoted(id, [Quote("due", 6, 9, "normalised", "d:1:0", 1, "Title, page 1", ("NFKC",))])
    row = log.events(id)[1]
    text = Elements(export_receipt(log, id)).text
    assert f"Row {row.seq}, SHA-256{row.hash}" in text
    assert all(event.hash in text for event in log.events(id))
    for shown in ("What is due?", "It is due [1].", "some text", "0.1235", "100.00 % (9 characters)", "normalised"):
        assert shown in text, shown
    assert ANSWERED.prompt is not None
    assert ANSWERED.prompt.hash in text
    assert ANSWERED.candidates[0].passage.text_hash in text


def test_nothing_in_it_runs_or_is_fetched_whatever_the_documents_say(log: Log) -> None:
    page = export_receipt(log, logged(log, hostile_turn()))
    found = Elements(page)
    plain = Elements(export_receipt(log, logged(log, ANSWERED)))
    assert set(found.tags) <= set(plain.tags) | {"bdi"}
    assert found.attributes == {"lang", "charset", "http-equiv", "content", "name", "class"}
    assert (found.tags.count("style"), found.tags.count("html"), found.tags.count("body")) == (1, 1, 1)
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|javascript:", page.split("</style>")[0])
    assert found.text.count("<script>document.title='run'</script>") >= 10
    assert not set("\u202e\u202c\0") & set(page)


def test_a_document_that_was_deleted_is_said_to_be(log: Log) -> None:
    document, pages, passages = document_of("d", ["some text"])
    log.store.add_document(document, pages, passages, [[1.0, 0.0]], embedder="tiny@1", original=b"")
    assert passages[0].document_id == ANSWERED.candidates[0].passage.document_id
    id = logged(log, ANSWERED)
    before = export_receipt(log, id)
    log.store.delete_document(document.id)
    after = export_receipt(log, id)
    assert "document deleted" not in before
    assert "(document deleted 20" in Elements(after).text
    assert "some text" in after


@pytest.mark.parametrize("outcome", ["started", "refused", "stopped", "failed"])
def test_a_turn_without_an_answer_has_a_receipt_too(log: Log, outcome: str) -> None:
    id = log.start("What is due?", {})
    if outcome != "started":
        log.finish(id, Turn(None, "What is due?", "", outcome, reason="because"))  # type: ignore[arg-type]
    text = Elements(export_receipt(log, id)).text
    assert f"— no answer: {outcome}" in text
    assert "— not checked." in text


def test_a_turn_that_is_not_there_has_none(log: Log) -> None:
    with pytest.raises(ProvenanceError, match="no turn 7"):
        export_receipt(log, 7)


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_prints_it_on_a4_without_a_network_and_runs_nothing(log: Log, tmp_path: Path) -> None:
    id = logged(log, hostile_turn())
    page, printed = tmp_path / "receipt.html", tmp_path / "receipt.pdf"
    page.write_text(export_receipt(log, id), encoding="utf-8")
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"]
    profile = [f"--user-data-dir={tmp_path / 'profile'}", "--no-pdf-header-footer", f"--print-to-pdf={printed}"]
    subprocess.run([str(CHROMIUM), *options, *profile, page.as_uri()], check=True, capture_output=True, timeout=90)
    pdf = PdfReader(printed)
    assert {(round(float(p.mediabox.width)), round(float(p.mediabox.height))) for p in pdf.pages} == {(595, 842)}
    assert pdf.metadata is not None
    assert pdf.metadata.title == f"Receipt {id}"
    text = re.sub(r"\s+", "", "".join(p.extract_text() for p in pdf.pages))
    assert log.events(id)[-1].hash in text
    assert "<script>document.title='run'</script>" in text
