"""The frozen records that flow from a file to a card.

Every other module imports these and nothing here imports another module of the
engine. Offsets are half-open and count Unicode characters unless a name says
tokens. A value that could not be measured is None, and a `reason` beside it
says why in words fit for the screen.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

DocumentKind = Literal["pdf", "txt", "md"]
IngestStatus = Literal["ok", "partial", "error"]
Outcome = Literal["started", "answered", "refused", "stopped", "failed"]
MethodKind = Literal["used", "supports", "self-report"]
CitedBy = Literal["model", "evidence"]
Verdict = Literal["exact", "normalised", "elided", "elsewhere", "not found", "cannot check"]


class Span(NamedTuple):
    """A half-open range `[start, stop)`."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a document after cleaning. `number` counts from 1.

    `removed` counts the control characters, NULs and lone surrogates taken out.
    `reason` is set where `text` is empty: "no text on this page", "could not be read: …".
    """

    number: int
    text: str
    removed: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One ingested file. `id` is the SHA-256 of its bytes, so the same bytes are one document."""

    id: str
    title: str
    filename: str
    kind: DocumentKind
    pages: int
    pages_with_text: int
    characters: int
    passages: int
    added_at: str | None = None  # ISO 8601, UTC; set by the store


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one page: `text == page.text[start:end]`, never across pages.

    `id` is `"{document_id[:16]}:{page}:{start}"`. `heading` is the nearest heading
    above the passage, or None.
    """

    id: str
    document_id: str
    title: str  # of the document
    page: int
    start: int
    end: int
    text: str
    heading: str | None = None

    @property
    def text_hash(self) -> str:
        """SHA-256 of the text, hex."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class Stage:
    """Where one retrieval stage put a candidate: `rank` counts from 1, `score` is on that stage's own scale."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage that retrieval considered, with its place at every stage.

    A stage is None where that stage did not return the passage. `sent` is the
    source number it got in the prompt, or None; `dropped` then says why
    ("below the top 5", "over the context budget").
    """

    passage: Passage
    lexical: Stage | None = None
    dense: Stage | None = None
    fused: Stage | None = None
    reranked: Stage | None = None
    sent: int | None = None
    dropped: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """One numbered passage of a prompt. The number → passage map is frozen here.

    `text` is the passage exactly as it stands in the prompt (bracketed numbers
    neutralised); `passage.text` is what the document says.
    """

    n: int
    passage: Passage
    text: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered chat thread up to the turn marker of the answer, tokenized once.

    `passage_tokens[i]` is the token span of `sources[i].text`; `block_tokens[i]` is the
    wider span of everything that goes away with that source (number, title, text,
    separator). Blocks are disjoint, in order, and all end before `question_tokens`.
    `system` and `instruction` are the words used around the passages.
    """

    text: str
    token_ids: tuple[int, ...]
    sources: tuple[Source, ...]
    passage_tokens: tuple[Span, ...]
    block_tokens: tuple[Span, ...]
    question: str
    question_tokens: Span
    system: str | None
    instruction: str

    @property
    def hash(self) -> str:
        """SHA-256 of the rendered text, hex."""
        return hashlib.sha256(self.text.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What the writer wrote. `token_ids` are the generated ids (never re-tokenized), without end markers.

    `token_ids` is empty where the writer does not tell (a remote endpoint).
    """

    text: str
    token_ids: tuple[int, ...]
    model: str
    revision: str
    finish: Literal["end", "length", "stopped", "none"] = "end"
    tokens_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """One mention of a source number. `start:end` is its place in the answer text.

    `exists` is False for a number that the prompt never offered. Evidence
    citations have `start == end`, at the end of the sentence they belong to.
    """

    n: int
    start: int
    end: int
    by: CitedBy
    exists: bool = True


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """One sentence of the answer and what its words lean on.

    `shares[i]` is the share of source i + 1 (sums to 1 over the sources, None where
    not measured). `best` is the number of the source that supports the sentence, or
    None: then `reason` says "no source supports this" or why it was not measured. `also`
    are the numbers of the other sources that support it, better ones first.
    """

    start: int
    end: int
    shares: tuple[float | None, ...]
    best: int | None
    evidence: float | None = None
    reason: str | None = None
    also: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a source's passage text that mattered for the answer; `weight` in 0..1."""

    n: int
    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class Attribution:
    """Scores of one method for one turn, in source order.

    `scores[i]` is None where the method could not score source i;
    `reason` then says why, in words fit for the screen.
    `extra` holds named figures of the method (e.g. `mass_on_passages`), all finite.
    """

    method: str
    scores: tuple[float | None, ...]
    include_query: bool
    seconds: float
    reason: str | None = None
    notes: tuple[str | None, ...] = ()  # one per source where the method has something to say
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LengthShare:
    """Characters of a cited source as sent, layout markup removed, and its share of the cited total in percent."""

    n: int
    length: int
    percentage: float


@dataclass(frozen=True, slots=True)
class Quote:
    """One quoted span of the answer and what the check found."""

    text: str
    start: int
    end: int
    verdict: Verdict
    passage_id: str | None = None
    n: int | None = None  # the source number, where the passage was sent
    where: str | None = None  # "Annual report, page 9"
    normalised: tuple[str, ...] = ()  # what was normalised to make it match
    omitted: tuple[str, ...] = ()  # the words an ellipsis left out
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one named step."""

    step: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Turn:
    """One question with everything that was recorded about its answer.

    `quotes` is None where the check has not run; an empty tuple means the answer
    quotes nothing. `sources_from` is the id of the turn whose sources a follow-up
    kept: then nothing was fetched and no provenance is computed. `draft` is what the
    model wrote where the answer was withheld (outcome "refused").
    `settings` are the search and generation settings in force.
    """

    id: int | None
    question: str
    asked_at: str
    outcome: Outcome
    candidates: tuple[Candidate, ...] = ()
    prompt: Prompt | None = None
    answer: Answer | None = None
    draft: Answer | None = None
    citations: tuple[Citation, ...] = ()
    sentences: tuple[SentenceSupport, ...] = ()
    marks: tuple[Mark, ...] = ()
    lengths: tuple[LengthShare, ...] = ()
    attributions: tuple[Attribution, ...] = ()
    quotes: tuple[Quote, ...] | None = None
    timings: tuple[Timing, ...] = ()
    settings: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    sources_from: int | None = None
    reason: str | None = None

    @property
    def sources(self) -> tuple[Source, ...]:
        """The numbered sources the prompt offered."""
        return self.prompt.sources if self.prompt else ()

    @property
    def cited(self) -> tuple[int, ...]:
        """The numbers of the existing sources the answer cites, ascending, each once."""
        return tuple(sorted({c.n for c in self.citations if c.exists}))

    def attribution(self, method: str, include_query: bool) -> Attribution | None:
        """The stored scores of one method, or None where it has not run."""
        for item in self.attributions:
            if item.method == method and item.include_query == include_query:
                return item
        return None
