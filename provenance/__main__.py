"""The command line: `python -m provenance COMMAND`. JSON on stdout with `--json`, messages on stderr.

Exit codes: 0 done, 1 failed, 2 wrong usage or a wrong setting.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

from provenance.errors import ProvenanceError, SettingsError
from provenance.settings import METHOD_NAMES, load_settings

if TYPE_CHECKING:
    from provenance.engine import Engine
    from provenance.records import Turn

SUFFIXES = (".pdf", ".txt", ".md", ".markdown")
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
SAMPLES = Path(__file__).parents[1] / "samples"


class UsageError(Exception):
    """The command cannot be understood; the exit code is 2."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that is not UTF-8 must not end the command
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except (UsageError, SettingsError) as error:
        _say(f"error: {error}")
        return 2
    except ProvenanceError as error:
        _say(f"failed: {error}")
        return 1
    except DBAPIError as error:
        _say(f"failed: the database: {str(error.orig).strip()}")
        return 1
    except KeyboardInterrupt:
        _say("stopped")
        return 1
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m provenance", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Any, text: str, parent: Any = commands) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = parent.add_parser(name, help=text, description=text)
        made.set_defaults(run=run)
        made.add_argument("--json", action="store_true", help="print JSON on stdout")
        return made

    ingest = command("ingest", _ingest, "Read files or folders into the store.")
    ingest.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    ingest.add_argument("--password", help="for encrypted PDFs")

    ask = command("ask", _ask, "Answer a question over the documents.")
    ask.add_argument("question")
    ask.add_argument("--docs", nargs="+", type=Path, metavar="PATH", help="read these and search only them")
    ask.add_argument("--top-k", type=int, metavar="N", help="passages sent to the model")
    ask.add_argument("--method", choices=(*METHOD_NAMES, "off"), metavar="M", help=", ".join((*METHOD_NAMES, "off")))
    ask.add_argument("--include-query", action="store_true", default=None, help="count the question too")

    attribute = command("attribute", _attribute, "Attribute answers that came from anywhere, one JSON line each.")
    attribute.add_argument("file", type=Path, help="JSON or JSON lines of {id?, question, answer, documents}")
    attribute.add_argument("--method", required=True, metavar="M[,M...]", help=", ".join(METHOD_NAMES))
    attribute.add_argument("--include-query", action="store_true", help="count the question too")

    evaluate = command("evaluate", _evaluate, "Judge methods, or retrieval, on a labelled set.")
    evaluate.add_argument("file", type=Path, nargs="?", help="JSON lines with `supporting`")
    evaluate.add_argument("--methods", metavar="M[,M...]", help=", ".join(METHOD_NAMES))
    evaluate.add_argument("--include-query", action="store_true", help="count the question too")
    evaluate.add_argument("--limit", type=int, metavar="N", help="the first N items only")
    evaluate.add_argument(
        "--causal", action="store_true", help="also top-k drop, LDS and agreement with exact leave-one-out (slow)"
    )
    evaluate.add_argument("--retrieval", type=Path, metavar="FOLDER", help="corpus.jsonl, queries.jsonl, qrels.tsv")

    log = commands.add_parser("log", help="Read, check and export the log.").add_subparsers(
        metavar="COMMAND", required=True
    )
    listed = command("list", _log_list, "One line per question, newest first.", log)
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="at most N lines")
    show = command("show", _log_show, "Everything recorded about one question.", log)
    show.add_argument("id", type=int)
    show.add_argument("--replay", action="store_true", help="search again under the recorded settings and compare")
    verify = command("verify", _log_verify, "Check every row's hash; names the first broken one.", log)
    verify.add_argument("--head", help="a head noted earlier, SEQ:HASH; finds a tail that was cut off")
    export = command("export", _log_export, "The whole log as JSON lines, or as a table, or one row as HTML.", log)
    export.add_argument("--format", choices=("jsonl", "csv", "html"), default="jsonl")
    export.add_argument("--id", type=int, help="one question only; needed for html, not for csv")

    lost = command("triage", _triage, "Say where the text that should have been used got lost.")
    lost.add_argument("id", type=int, metavar="LOG_ID")
    lost.add_argument("--expect", required=True, metavar="TEXT", help="the text that should have been used")
    lost.add_argument("--mark", action="store_true", help="count this question in the recall figures")

    moved = command("migrate", _migrate, "Move everything into another, empty database.")
    moved.add_argument("--to", required=True, metavar="URL")

    prepare = command("prepare", _prepare, "Convert the model, once, and load the sample documents.")
    prepare.add_argument("--samples", action="store_true")
    return parser


def _engine() -> Engine:
    from provenance.engine import Engine

    engine = Engine(load_settings())
    engine.parts.report = _say
    return engine


def _ingest(options: argparse.Namespace) -> int:
    from provenance.output import ingested_json

    engine, rows = _engine(), []
    for path in _files(options.paths):
        row = ingested_json(engine.add(path.name, path.read_bytes(), options.password)) | {"file": str(path)}
        rows.append(row)
        if not options.json:
            _show(
                f"{path}: {row['status']}, {row['passages']} passages{'. ' + row['message'] if row['message'] else ''}"
            )
    if options.json:
        _print(rows)
    return 1 if any(row["status"] == "error" for row in rows) else 0


def _ask(options: argparse.Namespace) -> int:
    from provenance.engine import Finished, Step
    from provenance.output import turn_json, turn_text

    if not options.question.strip():
        raise UsageError("The question is empty.")
    if options.top_k is not None and not 1 <= options.top_k <= 20:
        raise UsageError("--top-k must be between 1 and 20.")
    engine = _engine()
    documents = _read_for_question(engine, options.docs) if options.docs else None
    method = options.method or engine.settings.provenance_method
    include_query = engine.settings.provenance_include_query if options.include_query is None else options.include_query
    turn = None
    for event in engine.ask(
        options.question, top_k=options.top_k, method=method, include_query=include_query, documents=documents
    ):
        if isinstance(event, Step) and event.state != "running":
            _say(f"{event.name}: {event.state}{f' in {event.seconds:.2f} s' if event.seconds is not None else ''}")
        elif isinstance(event, Finished):
            turn = event.turn
    if turn is None:
        raise ProvenanceError("The question was not finished.")
    value = turn_json(turn, method, include_query)
    if options.json:
        _print(value)
    else:
        _show(turn_text(value))
    return 1 if turn.outcome in ("failed", "stopped") else 0


def _read_for_question(engine: Engine, paths: Sequence[Path]) -> list[str]:
    ids = []
    for path in _files(paths):
        read = engine.add(path.name, path.read_bytes())
        if read.document is None:
            _say(f"{path}: {read.message}")
        else:
            ids.append(read.document.id)
    if not ids:
        raise ProvenanceError("None of the documents could be read.")
    return ids


def _attribute(options: argparse.Namespace) -> int:
    from provenance.attribution import attribute_case, read_case
    from provenance.output import attribution_json
    from provenance.parts import Parts

    methods = _method_list(options.method)
    cases = [_named(place, value, read_case) for place, value in _read_cases(options.file)]
    parts = Parts(load_settings(), _say)
    for case in cases:
        for scored in attribute_case(case, methods, parts, include_query=options.include_query):
            _print(attribution_json(case.id, scored), flush=True)
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    settings = load_settings()
    result: dict[str, Any]
    if options.retrieval is not None:
        from provenance.evaluation.retrieval import evaluate_retrieval

        result = evaluate_retrieval(options.retrieval, settings, contextual=settings.provenance_contextual)
    else:
        from provenance.evaluation.run import evaluate_file
        from provenance.parts import Parts

        if options.file is None or not options.methods:
            raise UsageError("evaluate needs FILE and --methods, or --retrieval FOLDER.")
        result = evaluate_file(
            options.file,
            _method_list(options.methods),
            Parts(settings, _say),
            include_query=options.include_query,
            limit=options.limit,
            causal=options.causal,
            progress=lambda fraction, message: _say(f"{fraction:4.0%} {message}"),
        )
    _show(json.dumps(result, ensure_ascii=False, indent=None if options.json else 2))
    return 0


def _log_list(options: argparse.Namespace) -> int:
    from provenance.output import summary_text

    if options.limit < 1:
        raise UsageError("--limit must be at least 1.")
    summaries = _engine().log.turns(limit=options.limit)
    if options.json:
        _print([asdict(summary) for summary in summaries])
    else:
        _show("\n".join(summary_text(summary) for summary in summaries) or "The log is empty.")
    return 0


def _log_show(options: argparse.Namespace) -> int:
    from provenance.codec import to_json
    from provenance.output import deleted_text, turn_json, turn_text

    engine = _engine()
    turn = _logged(engine, options.id)
    deleted = engine.log.deleted_since(turn)
    events = [asdict(event) for event in engine.log.events(options.id)]
    method, include_query = str(turn.settings.get("method", "off")), bool(turn.settings.get("include_query"))
    replayed: dict[str, Any] | None = None
    if options.replay:
        from provenance.log.replay import replay

        found = replay(engine.log, options.id, engine.retriever())
        replayed = {"same": found.same, "differences": [asdict(item) for item in found.differences]}
    if options.json:
        gone = [asdict(document) for document in deleted]
        _print({"turn": to_json(turn), "events": events, "deleted": gone, "replay": replayed})
        return 0
    _show(f"{turn.question}\n\n{turn_text(turn_json(turn, method, include_query))}")
    for document in deleted:
        _show(deleted_text(document))
    for event in events:
        _show(f"{event['at']}  {event['event']}  {event['hash']}")
    if replayed is not None:
        _show("Replay: the same ranking" if replayed["same"] else "Replay: differs")
        for item in replayed["differences"]:
            _show(f"  {item['what']}: recorded {item['recorded']}, now {item['now']}")
    return 0


def _logged(engine: Engine, turn_id: int) -> Turn:
    turn = engine.turn(turn_id)
    if turn is None:
        raise ProvenanceError(f"There is no turn {turn_id} in the log.")
    return turn


def _log_verify(options: argparse.Namespace) -> int:
    from provenance.log.verification import Head

    try:
        expected = None if options.head is None else Head.parse(options.head)
    except ValueError as error:
        raise UsageError(f"--head: {error}") from error
    found = _engine().log.verify(expected)
    if options.json:
        _print({**asdict(found), "head": str(found.head) if found.head else None})
    else:
        broken = f"Row {found.broken} is broken: {found.reason}"
        _show(f"{found.rows:,} rows, the chain is whole." if found.ok else broken)
        if found.head:
            _show(f"{'Head' if found.ok else 'Last whole row'}: {found.head}")
    return 0 if found.ok else 1


def _log_export(options: argparse.Namespace) -> int:
    from provenance.log.export import export_csv, export_jsonl
    from provenance.log.receipt import export_receipt

    if options.format == "html" and options.id is None:
        raise UsageError("--format html needs --id.")
    if options.format == "csv" and options.id is not None:
        raise UsageError("--format csv lists every question; leave --id out.")
    engine = _engine()
    log = engine.log
    if options.id is not None:
        _logged(engine, options.id)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(
            encoding="utf-8", newline=""
        )  # the hashes are over UTF-8, and a table ends its own lines
    if options.format == "jsonl":
        sys.stdout.writelines(export_jsonl(log, options.id))
    elif options.format == "csv":
        sys.stdout.write(export_csv(log))
    else:
        sys.stdout.write(export_receipt(log, options.id))
    return 0


def _triage(options: argparse.Namespace) -> int:
    from provenance.log.triage import mark, recall, triage

    engine = _engine()
    turn = _logged(engine, options.id)
    found = triage(turn, options.expect, engine.store, engine.retriever())
    if options.mark:
        mark(engine.log, options.id, options.expect, found)
    figures = recall(engine.log)
    if options.json:
        _print({"log_id": options.id, **asdict(found), "recall": asdict(figures)})
    else:
        _show(f"{found.stop}: {found.detail}")
        if found.setting:
            _show(f"What moves it: {found.setting}")
        for name in ("lexical", "dense", "fused"):
            share = getattr(figures, name)
            if share is not None:
                _show(f"recall@{figures.at}, {name}: {share:.2f}, lost {1 - share:.2f} (n = {figures.n})")
    return 0


def _migrate(options: argparse.Namespace) -> int:
    from provenance.log import Log
    from provenance.store import open_store
    from provenance.store.migrate import migrate

    engine = _engine()
    try:
        target = open_store(options.to)
    except SettingsError as error:
        raise UsageError(str(error).replace("DATABASE_URL", "--to")) from error
    try:
        copied = migrate(engine.store, target, lambda fraction, message: _say(f"{fraction:4.0%} {message}"))
        found = Log(target).verify()
    finally:
        target.close()
    if options.json:
        _print(copied)
    else:
        _show(", ".join(f"{count:,} {name}" for name, count in copied.items()))
    if not found.ok:
        raise ProvenanceError(f"Everything was moved, but the log is broken, as it was before: row {found.broken}.")
    _say(f"The chain of the log is whole: {found.rows:,} rows.")
    return 0


def _prepare(options: argparse.Namespace) -> int:
    from provenance.generation.models import is_prepared

    engine = _engine()
    try:
        if not is_prepared(engine.settings):
            engine.parts.language_model()
    except ProvenanceError as error:  # the app says so on the page and works for everything else
        _say(str(error))
    known = {document.id for document in engine.documents()}
    added = 0
    if options.samples and not known:
        for path in _files([SAMPLES]):
            _say(f"Reading {path.name}")
            added += engine.add(path.name, path.read_bytes()).document is not None
    if options.json:
        _print({"documents": len(known) + added, "added": added})
    return 0


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """The readable files among the paths; of a folder, those with a known ending, hidden ones left out."""
    for path in paths:
        if path.is_dir():
            inside = [p for p in sorted(path.iterdir()) if p.is_file() and not p.name.startswith(".")]
            yield from (p for p in inside if p.suffix.lower() in SUFFIXES and p.stem.lower() != "readme")
        elif path.is_file():
            yield path
        else:
            raise UsageError(f"{path} is not a file or folder.")


def _read_cases(path: Path) -> list[tuple[int, Any]]:
    """The numbered JSON values of a file: one object, a list of them, or one to a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    try:
        value = json.loads(text)
        return list(enumerate(value if isinstance(value, list) else [value], start=1))
    except ValueError:
        pass
    cases = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                cases.append((number, json.loads(line)))
            except ValueError as error:
                raise UsageError(f"Line {number} of {path} is not JSON: {error}") from error
    return cases


def _named(place: int, value: Any, read: Any) -> Any:
    try:
        return read(value)
    except ProvenanceError as error:
        raise UsageError(f"Case {place}: {error}") from error


def _method_list(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in METHOD_NAMES]
    if unknown or not names:
        raise UsageError(f"{unknown[0] if unknown else text!r} is not a method; choose from {', '.join(METHOD_NAMES)}.")
    return names


def _print(value: Any, flush: bool = False) -> None:
    # Lone surrogates cannot be printed as UTF-8; as JSON escapes they can.
    print(json.dumps(value, ensure_ascii=True, allow_nan=False), flush=flush)


def _show(text: str) -> None:
    print(_plain(text))


def _say(message: str) -> None:
    print(_plain(message), file=sys.stderr, flush=True)


def _plain(text: str) -> str:
    """Text as a terminal may get it: nothing of a document moves the cursor, hides a line or turns the direction."""
    return _UNPRINTABLE.sub("\ufffd", text)


if __name__ == "__main__":
    sys.exit(main())
