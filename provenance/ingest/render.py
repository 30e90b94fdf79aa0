"""A PDF page as a picture, with passages marked on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from provenance.errors import ProvenanceError
from provenance.ingest.limits import Limits

_PICTURE = Path(__file__).with_name("picture.py")


class Box(NamedTuple):
    """A marked rectangle in pixels of the picture, from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """The picture of one page. `reason` says why there are no boxes although a highlight was asked for."""

    png: bytes
    width: int
    height: int
    boxes: tuple[Box, ...]
    reason: str | None = None


def render_page(
    data: bytes,
    page: int,
    highlights: Sequence[str] = (),
    *,
    password: str | None = None,
    scale: float = 2.0,
    seconds: float = 30.0,
    limits: Limits | None = None,
) -> RenderedPage:
    """Draw page `page` (from 1) of a PDF and mark the words of each passage in `highlights`.

    `scale` is pixels per point; a huge page gets fewer. The passage is found by its letters and
    digits, so joined hyphens, folded ligatures and dropped headers do not matter. Runs in a
    child process. Raises ProvenanceError, with a sentence, where the page cannot be drawn.
    """
    orders = {
        "bytes": len(data),
        "page": page,
        "highlights": list(highlights),
        "password": password,
        "scale": scale,
        "cpu_seconds": max(1, int(seconds)),
        "memory_bytes": (limits or Limits()).memory_bytes,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_PICTURE)],
            input=json.dumps(orders).encode("ascii") + b"\n" + data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=2 * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ProvenanceError("This page cannot be drawn: it takes too long.") from None
    line, _, png = done.stdout.partition(b"\n")
    try:
        record = json.loads(line)
    except ValueError:
        raise ProvenanceError("This page cannot be drawn: the PDF is damaged.") from None
    if "problem" in record:
        raise ProvenanceError(record["problem"])
    boxes = tuple(Box(*box) for box in record["boxes"])
    return RenderedPage(png, record["width"], record["height"], boxes, record["reason"])
