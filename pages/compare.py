"""Compare: every method on one answer, and how far they agree."""

from __future__ import annotations

from components import comparison
from components.shell import shell

shell("Compare")
comparison.screen()
