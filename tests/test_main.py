"""The command line as scripts use it: a process, its exit code, JSON on stdout and nothing else there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from provenance.log import Log, verify_jsonl
from provenance.records import Answer, Candidate, Citation, Prompt, Source, Span, Turn
from provenance.store import open_store
from tests.log.ferry import document_of

ROOT = Path(__file__).parents[1]
Run = Callable[..., subprocess.CompletedProcess[str]]
NOTICE = "The last evening sailing leaves Port Ellary at 21:40."


@pytest.fixture(scope="module")
def own_home(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    (folder / "models").symlink_to(home / "models", target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def run(own_home: Path) -> Run:
    def made(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "provenance", *arguments],
            cwd=ROOT,
            env={**os.environ, "provenance_home": str(own_home), **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return made


@pytest.fixture(scope="module")
def asked(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("docs")
    (folder / "notice.txt").write_text(NOTICE, encoding="utf-8")
    (folder / "menu.md").write_text("# Menu\n\nA cup of tea costs £2.", encoding="utf-8")
    (folder / "notes.xyz").write_text("not read", encoding="utf-8")
    question = "When does the last evening sailing leave Port Ellary?"
    done = run("ask", question, "--docs", str(folder), "--method", "attention", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_ask_prints_the_documented_object(asked: dict[str, Any]) -> None:
    assert {"question", "answer", "log_id", "sources", "quotes", "timings"} <= set(asked)
    assert "21:40" in asked["answer"]
    assert [source["n"] for source in asked["sources"]] == [1, 2]
    for source in asked["sources"]:
        assert {"n", "title", "page", "passage_id", "text", "cited"} <= set(source)
        assert {"rank", "score", "scale"} <= set(source["retrieval"])
        assert set(source["provenance"]) == {"method", "score", "reason"}
        assert source["provenance"]["method"] == "attention"
        assert isinstance(source["provenance"]["score"], float)
        share = source["_attribution_length_percentage"]
        assert (share is None) == (not source["cited"])
    cited = [source for source in asked["sources"] if source["cited"]]
    assert [source["text"] for source in cited] == [NOTICE]
    assert (cited[0]["_attribution_length"], cited[0]["_attribution_length_percentage"]) == (len(NOTICE), 100.0)


def test_ingest_prints_one_object_per_file_and_fails_where_one_is_unreadable(run: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad.pdf"
    good.write_text("Seals live on the Calf Rock.", encoding="utf-8")
    bad.write_bytes(b"%PDF-1.7 and nothing more")
    # Elsewhere, for the recorded ranking is replayed later and more passages change BM25's figures.
    done = run("ingest", str(good), str(bad), "--json", DATABASE_URL=f"sqlite:///{tmp_path / 'other.sqlite3'}")
    assert done.returncode == 1
    first, second = json.loads(done.stdout)
    names = {"file", "status", "pages", "pages_with_text", "characters", "passages", "seconds", "message"}
    assert names <= set(first)
    assert (first["file"], first["status"], first["passages"]) == (str(good), "ok", 1)
    assert (second["status"], second["passages"]) == ("error", 0)
    assert second["message"]


def test_attribute_prints_one_line_per_case_and_method(run: Run, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    documents = [{"title": "a", "text": NOTICE}, {"text": "Tea costs £2. {braces} \ud83d"}]
    rows = [{"id": "x", "question": "When?", "answer": "At 21:40.", "documents": documents}]
    rows.append({"question": "When?", "answer": "", "documents": documents})
    cases.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    done = run("attribute", str(cases), "--method", "similarity,attention", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    order = [("x", "similarity"), ("x", "attention"), (None, "similarity"), (None, "attention")]
    assert [(line["id"], line["method"]) for line in lines] == order
    for line in lines:
        assert set(line) == {"id", "method", "scores", "reason", "seconds"}
        assert len(line["scores"]) == 2
        assert line["reason"] or None not in line["scores"]
    assert lines[0]["scores"][0] > lines[0]["scores"][1]
    assert lines[2]["scores"] == [None, None]


def test_the_log_can_be_listed_shown_verified_replayed_and_exported(run: Run, asked: dict[str, Any]) -> None:
    id = str(asked["log_id"])
    listed = json.loads(run("log", "list", "--json").stdout)
    assert asked["log_id"] in [row["id"] for row in listed]
    shown = json.loads(run("log", "show", id, "--replay", "--json").stdout)
    assert shown["turn"]["answer"]["text"] == asked["answer"]
    assert shown["events"][0]["event"] == "started"
    assert shown["replay"] == {"same": True, "differences": []}
    verified = run("log", "verify", "--json")
    assert (verified.returncode, json.loads(verified.stdout)["ok"]) == (0, True)
    rows = [json.loads(line) for line in run("log", "export").stdout.splitlines()]
    assert len(rows) == json.loads(verified.stdout)["rows"]
    assert run("log", "export", "--format", "html", "--id", id).stdout.lower().startswith("<!doctype html")


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[tuple[Log, dict[str, str]]]:
    """A log of one turn over one document, and the environment in which the commands read it."""
    store = open_store(f"sqlite:///{tmp_path / 'receipts.sqlite3'}")
    document, pages, passages = document_of("Time\x1b[2Jtable", ("The ferry leaves at 21:40.", "Dogs on a lead."))
    store.add_document(document, pages, passages, np.ones((2, 2), np.float32), embedder="tiny@1", original=b"bytes")
    sources = (Source(1, passages[0], passages[0].text),)
    prompt = Prompt("…", (), sources, (Span(0, 1),), (Span(0, 1),), "When?", Span(1, 2), None, "Answer.")
    question = "When\x1b[31m\r\ndoes it \u202eleave? \udcff"
    turn = Turn(
        None, question, "", "answered", tuple(Candidate(p, sent=1 if p.page == 1 else None) for p in passages),
        prompt, Answer("At 21:40 [1].", (), "writer", "1"), citations=(Citation(1, 9, 12, "model"),), quotes=(),
    )  # fmt: skip
    log = Log(store)
    log.finish(log.start(question, {}), turn)
    yield log, {"DATABASE_URL": str(store.engine.url)}
    store.close()


def test_a_shown_turn_names_its_documents_that_were_deleted_since(
    run: Run, audited: tuple[Log, dict[str, str]]
) -> None:
    log, environment = audited
    assert json.loads(run("log", "show", "1", "--json", **environment).stdout)["deleted"] == []
    document = log.store.documents()[0]
    log.store.delete_document(document.id)
    (gone,) = json.loads(run("log", "show", "1", "--json", **environment).stdout)["deleted"]
    at = log.deleted_documents()[document.id]
    assert gone == {
        "document_id": document.id,
        "title": document.title,
        "deleted_at": at,
        "sources": [1],
        "candidates": 2,
    }
    assert f"table ({at[:10]}, sent as [1])" in run("log", "show", "1", **environment).stdout
    assert "2 of 2 candidates deleted since" in run("log", "list", **environment).stdout


def test_nothing_that_is_logged_reaches_the_terminal_as_a_command(
    run: Run, audited: tuple[Log, dict[str, str]]
) -> None:
    _, environment = audited
    for arguments, encoding in ((["log", "list"], "ascii"), (["log", "show", "1"], "utf-8")):
        done = run(*arguments, PYTHONIOENCODING=encoding, **environment)
        assert done.returncode == 0, done.stderr
        assert not set("\x1b\r\u202e") & set(done.stdout)
        if arguments[1] == "list":
            assert len(done.stdout.splitlines()) == 1
    plain, ascii_only = (run("log", "export", PYTHONIOENCODING=e, **environment).stdout for e in ("utf-8", "ascii"))
    assert verify_jsonl(plain.splitlines()).ok
    assert plain == ascii_only


def test_verify_names_the_broken_row_and_the_last_whole_one(run: Run, audited: tuple[Log, dict[str, str]]) -> None:
    log, environment = audited
    head = log.head()
    assert run("log", "verify", "--head", str(head), **environment).returncode == 0
    with log.store.writing() as connection:
        connection.execute(sa.text("DROP TRIGGER log_no_update"))
        connection.execute(sa.text("UPDATE log SET payload = '{' WHERE seq = 2"))
    done = run("log", "verify", **environment)
    assert done.returncode == 1
    assert "Row 2 is broken" in done.stdout
    assert "Last whole row: 1:" in done.stdout
    found = json.loads(run("log", "verify", "--json", **environment).stdout)
    assert (found["ok"], found["broken"], found["head"][:2]) == (False, 2, "1:")
    shown = run("log", "show", "1", **environment)
    assert (shown.returncode, "Row 2 of the log cannot be read" in shown.stdout) == (0, True)


def test_a_moved_log_is_verified_where_it_arrives(
    run: Run, audited: tuple[Log, dict[str, str]], tmp_path: Path
) -> None:
    log, environment = audited
    done = run("migrate", "--to", f"sqlite:///{tmp_path / 'moved.sqlite3'}", "--json", **environment)
    assert (done.returncode, json.loads(done.stdout)["log"]) == (0, 2)
    assert "The chain of the log is whole: 2 rows." in done.stderr
    with log.store.writing() as connection:
        connection.execute(sa.text("DROP TRIGGER log_no_update"))
        connection.execute(sa.text("UPDATE log SET at = 'never' WHERE seq = 1"))
    done = run("migrate", "--to", f"sqlite:///{tmp_path / 'again.sqlite3'}", **environment)
    assert (done.returncode, "broken, as it was before: row 1" in done.stderr) == (1, True)


def test_triage_says_where_the_expected_text_stopped(run: Run, asked: dict[str, Any]) -> None:
    id = str(asked["log_id"])
    found = json.loads(run("triage", id, "--expect", "leaves Port Ellary at 21:40", "--json").stdout)
    assert found["stop"] == "cited"
    absent = json.loads(run("triage", id, "--expect", "The moon is made of cheese", "--json").stdout)
    assert absent["stop"] == "not in the documents"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["ask"],
        ["ask", "  "],
        ["ask", "Why?", "--top-k", "0"],
        ["ask", "Why?", "--method", "magic"],
        ["ingest", "no/such/file.pdf"],
        ["attribute", "no/such/file.jsonl", "--method", "similarity"],
        ["attribute", "README.md", "--method", "magic"],
        ["evaluate"],
        ["log", "export", "--format", "html"],
        ["log", "export", "--format", "csv", "--id", "1"],
        ["log", "list", "--limit", "0"],
        ["log", "verify", "--head", "nonsense"],
        ["migrate", "--to", "nonsense"],
        ["migrate", "--to", "postgresql://nobody@127.0.0.1:1/none"],
    ],
)
def test_wrong_usage_is_exit_code_2_with_words_on_stderr(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()


def test_a_wrong_setting_is_exit_code_2_and_names_it(run: Run) -> None:
    done = run("log", "list", provenance_top_k="many")
    assert done.returncode == 2
    assert "provenance_top_k" in done.stderr


def test_what_is_not_there_is_exit_code_1(run: Run) -> None:
    for arguments in (
        ["log", "show", "9999"],
        ["log", "show", "9" * 40],
        ["log", "export", "--id", "9999"],
        ["log", "export", "--format", "html", "--id", "9999"],
        ["triage", "9999", "--expect", "x"],
    ):
        done = run(*arguments)
        assert done.returncode == 1
        assert "9999" in done.stderr
        assert done.stdout == ""
