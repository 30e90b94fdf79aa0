"""One measurement in a process of its own, so that nothing another one left behind counts.

A measurement is a function `module:name` that takes keyword arguments and returns a dictionary
that JSON can hold.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

_MARK = "measured: "


class MeasurementFailed(Exception):
    """The child process ended without a result; the message is the end of what it said."""


def in_child(function: str, **arguments: Any) -> dict[str, Any]:
    """Call `module:name` in a new Python process. Raises MeasurementFailed where that fails or is killed."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", function, json.dumps(arguments)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_MARK):
            result: dict[str, Any] = json.loads(line.removeprefix(_MARK))
            return result
    said = (done.stderr or done.stdout).strip().splitlines()
    raise MeasurementFailed(f"{function} ended with {done.returncode}: {said[-1] if said else 'nothing was said'}")


class AddedMemory:
    """The most resident memory while a `with` block ran: `peak`, and `bytes` of it on top of what was there before.

    Linux keeps that maximum and can reset it. Elsewhere only the maximum since the process
    began is known, so a block that stays below an earlier peak reads as 0.
    """

    def __enter__(self) -> AddedMemory:
        self.bytes = self.peak = 0
        self._resets = _reset_peak()
        self._before = psutil.Process().memory_info().rss if self._resets else _peak()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.peak = _kernel_peak() if self._resets else _peak()
        self.bytes = max(0, self.peak - self._before)


def _reset_peak() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _kernel_peak() > 0
    except OSError:
        return False


def _kernel_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(function: str, arguments: str) -> None:
    module, name = function.split(":")
    result = getattr(import_module(module), name)(**json.loads(arguments))
    print(_MARK + json.dumps(result, allow_nan=False), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
