"""Every figure beside its baseline, measured in the same run.

Run: python -m benchmarks [NAME ...] [--quick] [--json]
Each name is a module of this package with `run(quick: bool) -> list[Row]`; without names all are run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from importlib import import_module

from benchmarks.table import Row, table

MODULES = ("attention", "decoding", "ablation", "accuracy", "fusion", "store", "log", "reranking", "screens")


def run(name: str, quick: bool) -> list[Row]:
    """The rows of one module."""
    rows: list[Row] = import_module(f"benchmarks.{name}").run(quick)
    return rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODULES))
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer repeats")
    parser.add_argument("--json", action="store_true", help="one JSON object per row instead of tables")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        parser.error(f"{unknown[0]!r} is not a benchmark; choose from {', '.join(MODULES)}")
    for name in options.names or MODULES:
        began = time.perf_counter()
        rows = run(name, options.quick)
        if options.json:
            for row in rows:
                print(json.dumps({"benchmark": name, **asdict(row), "ratio": row.ratio, "met": row.met}), flush=True)
        else:
            print(f"{name} ({time.perf_counter() - began:.0f} s)\n{table(rows)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
