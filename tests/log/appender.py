"""Appends rows to a log, one transaction each; several of these run at once.

Run: python -m tests.log.appender DATABASE_URL NUMBER ROWS
"""

from __future__ import annotations

import sys

from provenance.log import Log
from provenance.store import open_store


def main(url: str, number: int, rows: int) -> None:
    """Begin one turn and add notes to it, `rows` rows in all."""
    log = Log(open_store(url))
    id = log.start(f"writer {number}", {})
    for i in range(rows - 1):
        log.append(id, "note", {"writer": number, "i": i, "text": "x" * 300})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
