"""Documents: bring files in, see what became of each, browse their pages and passages."""

from __future__ import annotations

from components import library
from components.shell import shell

shell("Documents")
library.screen()
