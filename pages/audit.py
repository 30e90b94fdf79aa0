"""Audit: the log of every turn, its chain, its quotes, and where a text got lost."""

from __future__ import annotations

from components import audit
from components.shell import shell

shell("Audit")
audit.screen()
