"""The citation row of every answer: the chained log, quote checks, triage, replay and exports."""

from provenance.log.events import Event
from provenance.log.export import export_csv, export_jsonl, verify_jsonl
from provenance.log.log import DeletedDocument, Log, Summary
from provenance.log.quotes import check_quotes, find_quotes
from provenance.log.receipt import export_receipt
from provenance.log.replay import Difference, Replay, replay, search_settings
from provenance.log.triage import Ranks, Recall, Triage, mark, recall, triage
from provenance.log.verification import Head, Verification

__all__ = [
    "DeletedDocument",
    "Difference",
    "Event",
    "Head",
    "Log",
    "Ranks",
    "Recall",
    "Replay",
    "Summary",
    "Triage",
    "Verification",
    "check_quotes",
    "export_csv",
    "export_jsonl",
    "export_receipt",
    "find_quotes",
    "mark",
    "recall",
    "replay",
    "search_settings",
    "triage",
    "verify_jsonl",
]
