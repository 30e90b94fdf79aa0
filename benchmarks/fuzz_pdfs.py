"""Damages good PDFs at random and ingests them: `python benchmarks/fuzz_pdfs.py [--count N] [--seed S]`.

Fails (exit 1) on an exception, on a file that takes longer than its limit, on a parser that takes
more memory than its limit, and on a passage that is not a slice of its page.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from provenance.ingest import Ingested, Limits, ingest_bytes  # noqa: E402

LIMITS = Limits(page_seconds=3, document_seconds=20, memory_bytes=600_000_000, restarts=2)
FOLDERS = (ROOT / "samples", ROOT / "../shared/data/pdfs/good")
LARGEST = 300_000  # bytes; larger files only make the run slow


def mutate(data: bytes, other: bytes, random_: random.Random) -> tuple[str, bytes]:
    """One damaged copy and the name of the damage."""
    kind = random_.choice(("flip", "flip", "cut off", "cut out", "splice", "digits", "repeat"))
    changed = bytearray(data)
    at = random_.randrange(len(data))
    if kind == "flip":
        for _ in range(random_.choice((1, 4, 32, 256))):
            changed[random_.randrange(len(changed))] = random_.randrange(256)
    elif kind == "cut off":
        del changed[at:]
    elif kind == "cut out":
        del changed[at : at + random_.randrange(1, 4000)]
    elif kind == "splice":
        start = random_.randrange(len(other))
        changed[at : at + 2000] = other[start : start + random_.randrange(1, 4000)]
    elif kind == "digits":  # lengths, offsets and object numbers
        places = [i for i, byte in enumerate(changed) if 48 <= byte <= 57]
        for i in random_.sample(places, min(len(places), 12)):
            changed[i] = random_.randrange(48, 58)
    else:
        changed[at:at] = changed[at : at + random_.randrange(1, 2000)] * random_.randrange(2, 40)
    return kind, bytes(changed)


def faults(result: Ingested, seconds: float) -> list[str]:
    """What is wrong with an outcome."""
    found = []
    if seconds > LIMITS.document_seconds + 10:
        found.append(f"took {seconds:.0f} s")
    pages = {page.number: page.text for page in result.pages}
    if any(p.text != pages[p.page][p.start : p.end] for p in result.passages):
        found.append("a passage is not a slice of its page")
    if result.status != "ok" and not result.message:
        found.append("no message")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    if memory > LIMITS.memory_bytes:
        found.append(f"the parser took {memory / 1e6:.0f} MB")
    return found


def main() -> int:
    """Run and print a tally."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2024)
    options = parser.parse_args()
    random_ = random.Random(options.seed)
    seeds = [p.read_bytes() for folder in FOLDERS for p in sorted(folder.glob("*.pdf")) if p.stat().st_size < LARGEST]
    outcomes: Counter[str] = Counter()
    slowest, failed = 0.0, 0
    for i in range(options.count):
        kind, data = mutate(random_.choice(seeds), random_.choice(seeds), random_)
        started = time.monotonic()
        try:
            result = ingest_bytes(f"{i}.pdf", data, count_tokens=lambda text: len(text) // 4, limits=LIMITS)
            wrong = faults(result, time.monotonic() - started)
            outcomes[result.status] += 1
        except Exception:
            wrong = [traceback.format_exc()]
        slowest = max(slowest, time.monotonic() - started)
        if wrong:
            failed += 1
            print(f"file {i} ({kind}): {'; '.join(wrong)}")
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{options.count} damaged files: {dict(outcomes)}; slowest {slowest:.1f} s; parser at most {memory:.0f} MB")
    print("no faults" if not failed else f"{failed} with faults")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
