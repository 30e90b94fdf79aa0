"""Guide: how to read each number, and which method when."""

from __future__ import annotations

from components import guide
from components.shell import shell

shell("Guide")
guide.screen()
