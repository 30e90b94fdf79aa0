import json
import re
from pathlib import Path

import pypdf
import pytest

from provenance.ingest import Ingested, ingest_bytes
from samples.build import build

SAMPLES = Path(__file__).parents[1] / "samples"
QUESTIONS = json.loads((SAMPLES / "questions.json").read_text("utf-8"))
SOURCES = sorted((SAMPLES / "sources").glob("*.src"))


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(scope="module")
def ingested() -> dict[str, Ingested]:
    paths = [p for p in sorted(SAMPLES.iterdir()) if p.suffix in (".pdf", ".md", ".txt")]
    return {p.name: ingest_bytes(p.name, p.read_bytes(), count_tokens=words) for p in paths}


def test_there_are_six_documents_of_three_kinds_and_all_are_read_whole(ingested: dict[str, Ingested]) -> None:
    assert len(ingested) >= 6
    assert all(result.status == "ok" for result in ingested.values())
    assert {result.document.kind for result in ingested.values() if result.document} == {"pdf", "txt", "md"}
    assert len({result.document.id for result in ingested.values() if result.document}) == len(ingested)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_sample_pdf_is_what_its_source_makes(source: Path, tmp_path: Path) -> None:
    built = build(source, tmp_path)
    kept = SAMPLES / f"{source.stem}.pdf"
    assert built.read_bytes() == kept.read_bytes()
    assert 2 <= len(pypdf.PdfReader(kept).pages) <= 12


def test_running_headers_and_page_numbers_of_the_samples_are_dropped(ingested: dict[str, Ingested]) -> None:
    for result in ingested.values():
        if result.document and result.document.kind == "pdf":
            for page in result.pages:
                assert not re.search(r"^Page \d+$", page.text, re.MULTILINE)
                assert " · Annual Report 2024" not in page.text


def test_the_columns_of_the_newsletter_are_read_in_order(ingested: dict[str, Ingested]) -> None:
    text = ingested["the-heron-winter-2024.pdf"].pages[0].text
    first, last = text.index("Kittiwake is ordered"), text.index("A day with the night watch")
    assert first < text.index("From the galley") < last
    assert "five minutes faster than today." in text


def test_there_are_questions_enough_of_both_kinds_and_three_leads() -> None:
    assert sum(q["answerable"] for q in QUESTIONS) >= 25
    assert sum(not q["answerable"] for q in QUESTIONS) >= 25
    assert [q["shows"] for q in QUESTIONS if q.get("lead")] == ["divergence", "decisive", "unanswered"]
    assert len({q["question"] for q in QUESTIONS}) == len(QUESTIONS)


@pytest.mark.parametrize("question", [q for q in QUESTIONS if q["answerable"]], ids=lambda q: q["question"])
def test_an_expected_answer_stands_in_the_documents_it_names(
    question: dict[str, str], ingested: dict[str, Ingested]
) -> None:
    core = question["expected"].split(",")[0].removeprefix("the ").removeprefix("up to ")
    for name in question["documents"]:
        assert any(core.lower() in passage.text.lower() for passage in ingested[name].passages), name


def test_the_decisive_notice_is_short_and_the_old_time_stands_elsewhere(ingested: dict[str, Ingested]) -> None:
    (notice,) = [p for p in ingested["notice-board.txt"].passages if "21:40" in p.text]
    (report,) = [p for p in ingested["annual-report-2024.pdf"].passages if "20:15" in p.text]
    assert len(notice.text) < 0.2 * len(report.text)
    others = [p.text for result in ingested.values() for p in result.passages if p != notice]
    assert not any("21:40" in text for text in others)


def test_the_report_speaks_of_the_bicycle_ticket_without_its_price(ingested: dict[str, Ingested]) -> None:
    passages = [p.text for p in ingested["annual-report-2024.pdf"].passages if p.heading == "Bicycles and visitors"]
    assert max(text.count("bicycle ticket") for text in passages) >= 4
    assert not any("£" in text for text in passages)
