"""One file's bytes to a document, its pages and its passages."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from provenance.ingest.fold import fold
from provenance.ingest.layout import LaidPage, RawPage, lay_out
from provenance.ingest.limits import Limits
from provenance.ingest.passages import Count, cut
from provenance.ingest.pdf import read_pdf
from provenance.ingest.plain import decode, looks_binary, markdown_pages, text_pages
from provenance.records import Document, DocumentKind, IngestStatus, Page, Passage

NO_TEXT = "no text on this page"

_KINDS: dict[str, DocumentKind] = {
    ".pdf": "pdf",
    ".txt": "txt",
    ".text": "txt",
    ".md": "md",
    ".markdown": "md",
}
EXTENSIONS = tuple(_KINDS)
_USELESS_TITLE = re.compile(
    r"^(?:untitled.*|document\d*|microsoft word.*|.*\.(?:docx?|tex|dvi|indd|pptx?|pdf|qxd|rtf))$", re.I
)
_MAGIC = (
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"PK\x03\x04", "a ZIP archive or an Office file"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"{\\rtf", "an RTF file"),
    (b"%!PS", "a PostScript file"),
)


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of one file.

    `ok`: every page has text. `partial`: something is missing, `message` says what (pages
    without text, pages that could not be read, text over a limit). `error`: nothing can be used,
    `document` is None and `message` says why; `needs_password` where a password would help.
    """

    file: str
    status: IngestStatus
    document: Document | None
    pages: tuple[Page, ...]
    passages: tuple[Passage, ...]
    seconds: float
    message: str | None
    needs_password: bool = False


def ingest_bytes(
    filename: str,
    data: bytes,
    *,
    count_tokens: Count,
    password: str | None = None,
    limits: Limits | None = None,
) -> Ingested:
    """Read a PDF, text or Markdown file. Never raises for any bytes; stores nothing.

    `count_tokens` counts the embedder's tokens of a text. The document's id is the
    SHA-256 of `data`, so it does not depend on the file's name.
    """
    started = time.monotonic()
    limits = limits or Limits()
    name = _clean_name(filename)

    def refuse(message: str, needs_password: bool = False, pages: tuple[Page, ...] = ()) -> Ingested:
        return Ingested(name, "error", None, pages, (), time.monotonic() - started, message, needs_password)

    kind = _KINDS.get(PurePath(name).suffix.lower())
    if kind is None:
        return refuse(f"{name} is not a PDF, text or Markdown file.")
    if not data:
        return refuse(f"{name} is empty.")
    if len(data) > limits.file_bytes:
        return refuse(f"{name} is larger than {limits.file_bytes / 1e6:,.0f} MB.")
    if kind == "pdf":
        if b"%PDF-" not in data[:8192] and b"%PDF-" not in data:
            return refuse(f"{name} is not a PDF: it looks like {_looks_like(data)}.")
        content = read_pdf(data, password=password, limits=limits)
        if content.problem is not None:
            return refuse(f"{name} {content.problem}.", content.needs_password)
        if not content.pages:
            return refuse(f"{name} has no pages.")
        raw, laid, title, total = content.pages, lay_out(content.pages), content.title, content.page_count
    else:
        if looks_binary(data):
            return refuse(f"{name} is not text: it looks like {_looks_like(data)}.")
        text = decode(data)
        short = text[: limits.document_characters]
        cut_off = (
            f"the file has more than {limits.document_characters:,} characters" if len(short) < len(text) else None
        )
        if kind == "md":
            laid = markdown_pages(short, limits)
            raw = tuple(RawPage(page.number, ()) for page in laid)
        else:
            raw = text_pages(short, limits)
            laid = lay_out(raw)
        if cut_off and raw:
            raw = (*raw[:-1], replace(raw[-1], cut=cut_off))
        title, total = _heading_title(laid) if kind == "md" else None, len(raw)
    pages = tuple(_page(r, p) for r, p in zip(raw, laid, strict=True))
    if all(page.problem for page in raw):
        reasons = list(dict.fromkeys(page.problem for page in raw if page.problem))
        return refuse(f"No page of {name} could be read: {reasons[0]}.", pages=pages)
    if kind != "pdf" and not any(page.text for page in pages):
        return refuse(f"{name} has no text.")
    document_id = hashlib.sha256(data).hexdigest()
    title = _clean_title(title) or _name_title(name)
    passages = cut(laid, document_id, title, count_tokens, limits)
    message = _shortfall(raw, pages, total)
    document = Document(
        id=document_id,
        title=title,
        filename=name,
        kind=kind,
        pages=total,
        pages_with_text=sum(bool(page.text) for page in pages),
        characters=sum(len(page.text) for page in pages),
        passages=len(passages),
    )
    status: IngestStatus = "partial" if message else "ok"
    return Ingested(name, status, document, pages, passages, time.monotonic() - started, message)


def _page(raw: RawPage, laid: LaidPage) -> Page:
    reason = None
    if not laid.text:
        reason = f"could not be read: {raw.problem or raw.cut}" if raw.problem or raw.cut else NO_TEXT
    return Page(raw.number, laid.text, laid.removed, reason)


def _shortfall(raw: Sequence[RawPage], pages: Sequence[Page], total: int) -> str | None:
    """What is missing from the document, in sentences; None where nothing is."""
    unread = [page.number for page in raw if page.problem]
    empty = [page.number for page in pages if page.reason == NO_TEXT]
    said = []
    if empty and len(empty) == len(pages):
        said.append("There is no text on any page: it looks scanned.")
    elif empty:
        said.append(f"There is no text on {_listed(empty)}.")
    if unread:
        reason = next(page.problem for page in raw if page.problem)
        said.append(f"{_listed(unread).capitalize()} could not be read: {reason}.")
    for reason in dict.fromkeys(page.cut for page in raw if page.cut and not page.problem):
        numbers = [page.number for page in raw if page.cut == reason]
        said.append(f"{_listed(numbers).capitalize()} {'is' if len(numbers) == 1 else 'are'} not whole: {reason}.")
    if total > len(pages):
        said.append(f"Only the first {len(pages):,} of {total:,} pages were read.")
    return " ".join(said) or None


def _listed(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"page {numbers[0]}"
    shown = ", ".join(str(n) for n in numbers[:5])
    return f"pages {shown} and {len(numbers) - 5} more" if len(numbers) > 5 else f"pages {shown}"


def _looks_like(data: bytes) -> str:
    for start, what in _MAGIC:
        if data.startswith(start):
            return what
    if re.match(rb"\s*(?:<!doctype html|<html|<\?xml|<head|<body)", data[:500], re.I):
        return "a web page"
    return "something else" if looks_binary(data) else "plain text"


def _clean_name(filename: str) -> str:
    name = fold(re.split(r"[/\\]", filename)[-1])[0].replace("\n", " ").strip()
    return name or "unnamed"


def _clean_title(title: str | None) -> str | None:
    text = " ".join(fold(title or "")[0].split())[:200].strip()
    return None if not text or _USELESS_TITLE.match(text) or not any(c.isalnum() for c in text) else text


def _name_title(name: str) -> str:
    stem = re.sub(r"[_\s]+", " ", PurePath(name).stem).strip()
    return stem or name


def _heading_title(pages: Sequence[LaidPage]) -> str | None:
    """The first heading of a Markdown file, where it is of the first level."""
    for page in pages:
        for block in page.blocks:
            line = page.text[block.start : block.stop]
            if block.heading and re.match(r"^ {0,3}#\s", line):
                return re.sub(r"^\s*#\s+|\s+#+\s*$", "", line).strip("*_ ")
        break
    return None
