"""The citation row of every answer: the chained log, quote checks, triage, and exports."""

from provenance.log.events import Event
from provenance.log.log import Log, Summary
from provenance.log.verification import Head, Verification

__all__ = ["Event", "Head", "Log", "Summary", "Verification"]
