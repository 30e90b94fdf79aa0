"""“Where did it get lost?”: how far the text that should have been used came, and what moves it on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, get_args

from provenance.codec import from_json
from provenance.errors import ProvenanceError
from provenance.log.log import Log
from provenance.log.match import match
from provenance.log.quotes import locate
from provenance.log.replay import Value, recorded_documents, under_recorded
from provenance.records import Candidate, Passage, Turn
from provenance.store import Store
from provenance.store.words import normalise, words

if TYPE_CHECKING:
    from provenance.retrieval.search import Retriever

Stop = Literal[
    "not in the documents",
    "on a page without text",
    "never retrieved",
    "cut by the reranker",
    "below the top k",
    "over budget",
    "sent, use not measured",
    "sent, not used",
    "used, not cited",
    "cited",
]
STOPS: Final = get_args(Stop)
"""Every stop, from the first to the last: what came farther stands later."""

SHARES: Final = ("attention", "attention-heads", "leave-one-out", "shapley")
"""The methods whose scores can be read as shares. The registry says so too, but it imports every method."""

DEEP = 1000
"""How far down the rankings a passage is looked for."""

_NEAR = 0.8  # the share of its words by which a reworded text is taken for a passage


@dataclass(frozen=True, slots=True)
class Ranks:
    """Where each search puts the text's passage now, under the recorded settings; None is not within the first 1,000.

    `dense` is the search that was in force, `exact` reads every vector. `reachable` says whether the fusion
    sees the passage at all: it reads the first 100 of each list. `measured` is False where no search could run.
    """

    lexical: int | None = None
    dense: int | None = None
    fused: int | None = None
    exact: int | None = None
    reachable: bool = False
    measured: bool = False


@dataclass(frozen=True, slots=True)
class Triage:
    """Where a text stopped. `setting` names what moves it, `detail` says all of it in words fit for the screen.

    `share` is the passage's share of the method's positive scores and `chance` one over the
    number of sources; for a method whose scores are no shares `share` is None.
    """

    stop: Stop
    detail: str
    setting: str | None = None
    passage_id: str | None = None
    where: str | None = None
    n: int | None = None
    ranks: Ranks = Ranks()
    method: str | None = None
    share: float | None = None
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class Recall:
    """Over the marked questions whose text is in the documents: the share ranked within the first `at`, per search.

    None where `n` is 0. One minus a recall is the share the search alone has lost. `absent`
    counts the marked texts that no search could have found.
    """

    at: int
    n: int
    absent: int
    lexical: float | None
    dense: float | None
    fused: float | None


def triage(
    turn: Turn,
    expected: str,
    store: Store,
    retriever: Retriever | None,
    *,
    method: str | None = None,
    include_query: bool = False,
) -> Triage:
    """Say where the text that should have been used stopped in a recorded turn.

    Without a retriever the ranks of a text that was never retrieved are not measured. `method`
    is the attribution that judges use; by default the one computed last. Raises ProvenanceError
    for a text without words.
    """
    if not words(expected):
        raise ProvenanceError("The text to look for holds no words. Paste a sentence that should have been used.")
    passages, how = _holders(expected, turn, store)
    if not passages:
        return _absent(expected, store)
    ids = {passage.id for passage in passages}
    ranks = rank(turn, ids, retriever) if retriever else _recorded_ranks(turn, ids)
    candidates = [c for c in turn.candidates if c.passage.id in ids]
    if not candidates:
        found = _never_retrieved(turn, passages[0], ranks)
    else:
        judged = [_judge(turn, candidate, method, include_query) for candidate in candidates]
        found = max(judged, key=lambda item: STOPS.index(item.stop))
    return replace(found, ranks=ranks, detail=f"{how}{found.detail}")


def rank(turn: Turn, ids: Collection[str], retriever: Retriever) -> Ranks:
    """The best rank of any of the passages in each search, run again under the turn's settings."""
    from provenance.retrieval.search import DEPTH, fuse

    again = under_recorded(retriever, turn.settings)
    documents = recorded_documents(turn.settings)
    question = str(turn.settings.get("query") or turn.question)
    store = again.store
    lexical = [(hit.passage_id, hit.score) for hit in store.search_lexical(question, DEEP, documents)]
    vector = again.embedder.encode([question])[0]
    name = f"{again.embedder.name}@{again.embedder.revision}"
    exact = [(hit.passage_id, hit.score) for hit in store.search_dense(vector, DEEP, documents, embedder=name)]
    dense = exact
    if again.settings.provenance_search != "exact" and store.dialect == "postgresql":
        ef_search = again.settings.provenance_ef_search
        hits = store.search_dense(vector, DEEP, documents, exact=False, ef_search=ef_search, embedder=name)
        dense = [(hit.passage_id, hit.score) for hit in hits]
    # The pipeline fuses the first DEPTH of each; deeper lists only place what that leaves out.
    fused = _first(ids, fuse(lexical[:DEPTH], dense[:DEPTH]))
    reachable = fused is not None
    fused = fused or _first(ids, fuse(lexical, dense))
    return Ranks(_first(ids, lexical), _first(ids, dense), fused, _first(ids, exact), reachable, measured=True)


def mark(log: Log, turn_id: int, expected: str, found: Triage, note: str = "") -> None:
    """Record that a person says a turn should have used this text, and where it stopped (event "marked")."""
    log.append(turn_id, "marked", {"expected": expected, "note": note, "triage": asdict(found)})


def recall(log: Log, at: int = 20) -> Recall:
    """Recall over all marked questions; the last mark of one text in one turn counts."""
    last: dict[tuple[int | None, str], tuple[str, Ranks]] = {}
    for event in log.events_named("marked"):
        try:
            found = event.payload["triage"]
            stop, ranks = str(found["stop"]), from_json(Ranks, found["ranks"])
        except (ValueError, TypeError, KeyError):
            continue  # a damaged row marks nothing; verifying the log names it
        last[event.turn_id, normalise(str(event.payload.get("expected", "")))] = stop, ranks
    present = [ranks for stop, ranks in last.values() if stop not in STOPS[:2]]
    measured = [ranks for ranks in present if ranks.measured]

    def share(search: str) -> float | None:
        places = [getattr(ranks, search) for ranks in measured]
        return sum(place is not None and place <= at for place in places) / len(places) if places else None

    return Recall(at, len(measured), len(last) - len(present), share("lexical"), share("dense"), share("fused"))


def _holders(expected: str, turn: Turn, store: Store) -> tuple[list[Passage], str]:
    """The passages that hold the text, and a remark where they hold it only nearly."""
    recorded = {c.passage.id: c.passage for c in turn.candidates}
    held = [p for p in recorded.values() if match(expected, p.text)]
    held += [p for p, _ in locate(expected, store) if p.id not in recorded]
    if held:
        return held, ""
    spread = _across(expected, store)
    if spread:
        return spread, "The text runs over several passages. "
    near = _nearest(expected, store)
    if near is None:
        return [], ""
    passage, share = near
    remark = f"No passage holds the text word for word; the nearest one holds {share:.0%} of its words. "
    return [passage], remark


def _across(expected: str, store: Store) -> list[Passage]:
    """The passages of a page that together hold a text longer than one of them."""
    parts = words(normalise(expected))
    if len(parts) < 6:
        return []
    begins = store.find_phrase(" ".join(parts[:6])) + store.find_phrase(" ".join(parts[-6:]))
    wanted = set(parts)
    for document_id, number in dict.fromkeys((p.document_id, p.page) for p in begins):
        page = next((p for p in store.pages(document_id) if p.number == number), None)
        if page is None or not match(expected, page.text):
            continue
        inside = [p for p in store.passages(document_id) if p.page == number]
        scored = [(len(wanted & set(words(p.text))), p) for p in inside]
        return [p for share, p in sorted(scored, key=lambda item: -item[0]) if share * 2 >= len(set(words(p.text)))]
    return []


def _nearest(expected: str, store: Store) -> tuple[Passage, float] | None:
    wanted = set(words(expected))
    found = store.get_passages([hit.passage_id for hit in store.search_lexical(expected, 20)])
    scored = [(len(wanted & set(words(passage.text))) / len(wanted), passage) for passage in found]
    share, passage = max(scored, key=lambda item: item[0], default=(0.0, None))
    return (passage, share) if passage is not None and share >= _NEAR else None


def _absent(expected: str, store: Store) -> Triage:
    blind = store.pages_without_text()
    if not blind:
        return Triage("not in the documents", "No document holds this text. Add the document that does.", "documents")
    shown = "; ".join(f"{document.title}, page {number}" for document, number in blind[:4])
    more = f" and {len(blind) - 4} more" if len(blind) > 4 else ""
    detail = (
        f"No page with text holds it, but {len(blind)} of the pages have no text and were never "
        f"indexed ({shown}{more}): it may stand there. Add the document again with a text layer."
    )
    return Triage("on a page without text", detail, "documents")


def _never_retrieved(turn: Turn, passage: Passage, ranks: Ranks) -> Triage:
    where = f"{passage.title}, page {passage.page}"
    looked = int(_number(turn.settings, "candidates") or len(turn.candidates))
    base = Triage("never retrieved", "", passage_id=passage.id, where=where)
    documents = recorded_documents(turn.settings)
    if documents is not None and passage.document_id not in documents:
        detail = f"It stands in {where}, but the question was asked of other documents only."
        return replace(base, detail=detail, setting="documents")
    if not ranks.measured:
        detail = f"It stands in {where}; the search looked at {looked} candidates. Its rank was not measured."
        return replace(base, detail=detail, setting="provenance_candidates")
    placed = ", ".join(
        f"{name} rank {value}" if value else f"{name} rank beyond {DEEP:,}"
        for name, value in (("lexical", ranks.lexical), ("dense", ranks.dense), ("fused", ranks.fused))
    )
    detail = (
        f"It stands in {where}: {placed}; looked at {looked}; exact search rank {ranks.exact or f'beyond {DEEP:,}'}."
    )
    if ranks.exact and ranks.exact <= looked and (ranks.dense is None or ranks.dense > looked):
        return replace(base, detail=f"{detail} The approximate index missed it.", setting="provenance_ef_search")
    if ranks.fused and ranks.reachable:
        if ranks.fused <= looked:
            return replace(base, detail=f"{detail} Asked again it is found: the documents have changed since.")
        advice = f" With {ranks.fused} candidates it is among them."
        return replace(base, detail=detail + advice, setting="provenance_candidates")
    advice = " Neither search sees it for this question: ask with its words, or index with another embedder."
    return replace(base, detail=detail + advice, setting="provenance_similarity_llm")


def _judge(turn: Turn, candidate: Candidate, method: str | None, include_query: bool) -> Triage:
    passage = candidate.passage
    where = f"{passage.title}, page {passage.page}"
    base = Triage("cited", "", passage_id=passage.id, where=where, n=candidate.sent)
    if candidate.sent is None:
        return _dropped(turn, candidate, base)
    n = candidate.sent
    cited = n in turn.cited
    base = _use(turn, n, base, method, include_query)
    measure = _measure(base)
    if cited:
        return replace(base, stop="cited", detail=f"It was sent as source {n} and cited. {measure}")
    if base.method is None or base.stop == "sent, use not measured":
        detail = f"It was sent as source {n} and not cited. {measure}"
        return replace(base, stop="sent, use not measured", detail=detail, setting="provenance_method")
    if base.stop == "sent, not used":
        detail = f"It was sent as source {n}, but the answer does not lean on it. {measure}"
        advice = "Fewer passages beside it, or another writer, may bring it out."
        return replace(base, detail=f"{detail} {advice}", setting="provenance_top_k")
    detail = f"It was sent as source {n} and used, but not cited. {measure} Another writer may cite it."
    return replace(base, detail=detail, setting="provenance_model")


def _dropped(turn: Turn, candidate: Candidate, base: Triage) -> Triage:
    top_k = _number(turn.settings, "top_k")
    place = next(i for i, c in enumerate(turn.candidates, start=1) if c.passage.id == candidate.passage.id)
    if "budget" in (candidate.dropped or ""):
        allowed = _number(turn.settings, "context_tokens")
        room = f" of {int(allowed):,} tokens" if allowed else ""
        detail = f"It came to place {place}, but what was left of the context budget{room} did not hold it."
        return replace(base, stop="over budget", detail=detail, setting="provenance_context_tokens")
    fused, reranked = candidate.fused, candidate.reranked
    sent = int(top_k or sum(c.sent is not None for c in turn.candidates))
    if fused and reranked and fused.rank <= sent < reranked.rank:
        detail = f"The search put it at rank {fused.rank}, the reranker at {reranked.rank}; {sent} were sent."
        return replace(base, stop="cut by the reranker", detail=detail, setting="rerank")
    if reranked:
        seen = f" (the search had it at rank {fused.rank})" if fused else ""
        detail = f"The reranker put it at rank {reranked.rank}{seen}; {sent} were sent."
        return replace(base, stop="cut by the reranker", detail=detail, setting="provenance_top_k")
    detail = f"It came to place {place}; {sent} were sent. With top_k at {place} it is sent too."
    return replace(base, stop="below the top k", detail=detail, setting="provenance_top_k")


def _use(turn: Turn, n: int, base: Triage, method: str | None, include_query: bool) -> Triage:
    """Whether the method says that the answer used source n more than chance would have it."""
    if method is None:
        attribution = turn.attributions[-1] if turn.attributions else None
    else:
        attribution = turn.attribution(method, include_query)
    name = method or (attribution.method if attribution else None)
    unmeasured = replace(base, stop="sent, use not measured", method=name)
    if attribution is None or n > len(attribution.scores):
        return unmeasured
    score, scores = attribution.scores[n - 1], [s for s in attribution.scores if s is not None]
    if score is None:
        return unmeasured
    chance = 1.0 / len(attribution.scores)
    used = score > sum(scores) / len(scores)
    share = None
    if attribution.method in SHARES:
        total = sum(max(s, 0.0) for s in scores)
        share = max(score, 0.0) / total if total > 0 else 0.0
        # One source alone has the whole of the shares, and chance gives it no less.
        used = share > chance or (len(attribution.scores) == 1 and score > 0)
    stop: Stop = "used, not cited" if used else "sent, not used"
    return replace(base, stop=stop, method=name, share=share, chance=chance)


def _measure(found: Triage) -> str:
    if found.method is None:
        return "No provenance was computed for this turn."
    if found.share is not None and found.chance is not None:
        return f"By {found.method} its share is {found.share:.0%}; chance is {found.chance:.0%}."
    if found.chance is None:
        return f"{found.method} has no score for it."
    side = "above" if found.stop == "used, not cited" else "not above"
    return f"By {found.method} its score is {side} the mean of the sources."


def _recorded_ranks(turn: Turn, ids: Collection[str]) -> Ranks:
    found: Sequence[Candidate] = [c for c in turn.candidates if c.passage.id in ids]

    def best(stage: str) -> int | None:
        return min((getattr(c, stage).rank for c in found if getattr(c, stage)), default=None)

    return Ranks(best("lexical"), best("dense"), best("fused"), None, best("fused") is not None, measured=bool(found))


def _first(ids: Collection[str], hits: Sequence[tuple[str, float]]) -> int | None:
    return next((place for place, (id, _) in enumerate(hits, start=1) if id in ids), None)


def _number(settings: dict[str, Value], name: str) -> float | None:
    value = settings.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
