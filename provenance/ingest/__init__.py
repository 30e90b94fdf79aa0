"""Bytes of a file to pages and passages."""

from provenance.ingest.files import EXTENSIONS, NO_TEXT, Ingested, ingest_bytes
from provenance.ingest.limits import Limits

__all__ = ["EXTENSIONS", "NO_TEXT", "Ingested", "Limits", "ingest_bytes"]
