"""A small corpus in a real store, and turns over it: everything of a question but the writer's words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from provenance.log import Log, search_settings
from provenance.records import Answer, Candidate, Citation, Document, Outcome, Page, Passage, Prompt, Source, Span, Turn
from provenance.retrieval.embedder import Embedder
from provenance.retrieval.search import Retriever, select
from provenance.settings import Settings
from provenance.store import Store

QUESTION = "When does the last evening ferry leave?"
LAST = "The last evening ferry leaves the pier at 21:40 in summer."
EARLY = "The first morning ferry leaves the pier at 06:15."
FARE = "A bicycle ticket costs three pounds."
TEXTS: Mapping[str, Sequence[str]] = {
    "Timetable": (LAST, EARLY, "In fog no ferry leaves before the harbour master says so."),
    "Handbook": (
        FARE,
        "The evening bar closes when the ship is moored.",
        "Dogs travel on the open deck and must be on a lead.",
    ),
    "Minutes": (
        "The board approved the budget for a new engine.",
        "The treasurer reported a surplus of four per cent.",
        "The next meeting is held in March in the town hall.",
    ),
}


def fill(store: Store, embedder: Embedder, texts: Mapping[str, Sequence[str]] = TEXTS) -> None:
    """Add one document per title, one passage per page; an empty text is a page without text."""
    for title, pages in texts.items():
        document, read, passages = document_of(title, pages)
        vectors = embedder.encode([passage.text for passage in passages])
        store.add_document(document, read, passages, vectors, embedder=key(embedder), original=title.encode())


def key(embedder: Embedder) -> str:
    """What the store calls an embedder."""
    return f"{embedder.name}@{embedder.revision}"


def document_of(title: str, texts: Sequence[str]) -> tuple[Document, list[Page], list[Passage]]:
    """The records of a document whose id is its title over and over."""
    id = (title * 64)[:64]
    pages = [Page(n, text, 0, None if text else "no text on this page") for n, text in enumerate(texts, start=1)]
    read = [page for page in pages if page.text]
    passages = [Passage(f"{id[:16]}:{p.number}:0", id, title, p.number, 0, len(p.text), p.text) for p in read]
    size = sum(len(text) for text in texts)
    document = Document(id, title, f"{title}.pdf", "pdf", len(pages), len(read), size, len(read))
    return document, pages, passages


def ask(
    log: Log,
    retriever: Retriever,
    answer: str = "It leaves at 21:40 [1].",
    *,
    question: str = QUESTION,
    cited: Sequence[int] = (1,),
    documents: Collection[str] | None = None,
    budget: int = 1000,
    outcome: Outcome = "answered",
    change: Callable[[tuple[Candidate, ...]], Sequence[Candidate]] = lambda candidates: candidates,
) -> Turn:
    """Search, choose and log as a question does; the answer is given. A passage costs one token a character."""
    settings = search_settings(retriever, documents) | {"context_tokens": budget}
    id = log.start(question, settings)
    found = tuple(change(retriever.search(question, documents)))
    chosen = select(found, retriever.settings.provenance_top_k, budget, lambda c: len(c.passage.text))
    sent = [c.passage for c in chosen if c.sent is not None]
    sources = tuple(Source(n, passage, passage.text) for n, passage in enumerate(sent, start=1))
    text = "\n".join(source.text for source in sources) + f"\n{question}"
    spans = tuple(Span(n, n + 1) for n in range(len(sources)))
    prompt = Prompt(text, (), sources, spans, spans, question, Span(len(sources), len(sources) + 1), None, "Answer.")
    citations = tuple(Citation(n, len(answer), len(answer), "evidence", exists=n <= len(sources)) for n in cited)
    turn = Turn(
        id,
        question,
        "",
        outcome,
        candidates=chosen,
        prompt=prompt,
        answer=Answer(answer, (), "written by hand", "1"),
        citations=citations,
        settings=settings,
    )
    log.finish(id, turn)
    logged = log.turn(id)
    assert logged is not None
    return logged


def searching(store: Store, embedder: Embedder, **changes: object) -> Retriever:
    """A retriever of five candidates, of which three are sent, without a reranker, unless the changes say otherwise."""
    settings = Settings(provenance_candidates=5, provenance_top_k=3, rerank=False)
    return Retriever(store, embedder, None, replace(settings, **changes))  # type: ignore[arg-type]
