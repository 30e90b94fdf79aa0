"""What one file may cost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one file. Sizes in bytes or characters, times in seconds, passages in embedder tokens.

    `passage_tokens` is the size aimed at and `max_passage_tokens` the size never passed; it lies
    under the embedder's 256 so that the two special tokens and a short heading still fit.
    """

    file_bytes: int = 200_000_000
    pages: int = 3000
    page_characters: int = 200_000
    document_characters: int = 10_000_000
    page_seconds: float = 10.0  # processor time of the parser for one page
    document_seconds: float = 180.0  # wall clock for the whole file
    memory_bytes: int = 1_000_000_000  # address space the parser may take
    restarts: int = 3  # times the parser is started again behind a page that killed it
    passage_tokens: int = 180
    max_passage_tokens: int = 240
