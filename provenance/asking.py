"""The way of one question: retrieve, rerank, decide, write, attribute, check quotes, log."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from provenance.errors import ProvenanceError
from provenance.generation.citations import parse_citations
from provenance.generation.prompt import Exchange, build_prompt
from provenance.generation.refusal import REFUSAL, judge_answer, judge_retrieval
from provenance.generation.writer import LocalWriter, Written
from provenance.methods.base import Case
from provenance.methods.length import cited_lengths
from provenance.parts import Parts
from provenance.records import Answer, Candidate, Passage, Prompt, SentenceSupport, Timing, Turn
from provenance.retrieval.search import Retriever, rerank, select

_PROMPT_ROOM = 256  # tokens kept for the question and the words around the passages
_HEADER_TOKENS = 24  # a passage's number, title and separators
_CHARACTERS_PER_TOKEN = 3  # a cautious guess for an endpoint that tokenizes by itself


@dataclass(frozen=True, slots=True)
class Step:
    """A named step began ("running") or ended ("done", "skipped", "failed")."""

    name: str
    state: Literal["running", "done", "skipped", "failed"]
    seconds: float | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the answer, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The turn as it was logged. Always the last event."""

    turn: Turn


Event = Step | Token | Finished


@dataclass(frozen=True, slots=True)
class Options:
    """How one question is asked. `documents` limits the search to these ids; `follow_up` keeps that turn's sources."""

    top_k: int
    method: str
    include_query: bool = False
    documents: Collection[str] | None = None
    follow_up: Turn | None = None


class _Stopped(Exception):
    """The person pressed stop."""


@dataclass
class Asking:
    """One question on its way. `run` yields the events; whatever happens, the log gets the turn's outcome.

    `cases` receives the finished case under the turn's id, so that later methods can
    share what was read and cached while the answer was written.
    """

    parts: Parts
    question: str
    options: Options
    stop: threading.Event
    cases: dict[int, Case] = field(default_factory=dict)
    _timings: list[Timing] = field(default_factory=list)

    def run(self) -> Iterator[Event]:
        """Answer the question. Ends with exactly one Finished, unless the caller closes the iterator."""
        turn = self.parts.log.begin(self.question, self._settings_in_force())
        turn_id = turn.id
        assert turn_id is not None  # the log has given it one
        if self.options.follow_up is not None:
            turn = replace(turn, sources_from=self.options.follow_up.id)
        self._turn = turn
        try:
            yield from self._answer()
        except _Stopped:
            self._turn = replace(self._turn, outcome="stopped", reason="stopped by the person asking")
        except GeneratorExit:
            self._turn = replace(self._turn, outcome="stopped", reason="the page was closed while the answer was made")
            raise
        except ProvenanceError as error:
            self._turn = replace(self._turn, outcome="failed", reason=str(error))
        except Exception as error:
            self._turn = replace(self._turn, outcome="failed", reason=f"{type(error).__name__}: {error}")
            raise
        except BaseException:
            self._turn = replace(self._turn, outcome="stopped", reason="the program was interrupted")
            raise
        finally:
            began = time.perf_counter()
            self._turn = replace(self._turn, timings=tuple(self._timings))
            self.parts.log.finish(turn_id, self._turn)
        yield Step("Log", "done", time.perf_counter() - began, f"logged as #{turn_id}")
        yield Finished(self._turn)

    def _answer(self) -> Iterator[Event]:
        kept = self.options.follow_up
        if kept is None:
            yield from self._retrieve()
            yield from self._decide()
            if self._turn.outcome == "refused":
                return
        else:
            chosen = tuple(
                Candidate(source.passage, sent=n, dropped=None) for n, source in enumerate(kept.sources, start=1)
            )
            self._turn = replace(self._turn, candidates=chosen)
            yield Step("Retrieve", "skipped", detail=f"sources kept from #{kept.id}")
        yield Step("Prompt", "running")
        with self._timed("Prompt") as taken:  # the first time, the writer is loaded here
            prompt = self._prompt()
        self._turn = replace(self._turn, prompt=prompt)
        sent = f"{len(prompt.sources)} passage{'' if len(prompt.sources) == 1 else 's'} sent"
        yield Step("Prompt", "done", taken(), sent)
        written = yield from self._write(prompt)
        if written.answer.finish == "stopped":
            self._turn = replace(self._turn, answer=written.answer, draft=None)
            self._read_citations()
            raise _Stopped
        if kept is not None:
            self._turn = replace(self._turn, answer=written.answer, outcome="answered")
            self._read_citations()
            yield Step("Attribute", "skipped", detail="a follow-up fetches nothing, so no provenance is computed")
            yield from self._check_quotes()
            return
        case = self._case(prompt, written)
        self._turn = replace(self._turn, answer=written.answer, outcome="answered")
        self._read_citations()
        yield from self._attribute(case)
        if self._turn.outcome == "answered":
            yield from self._check_quotes()

    def _retrieve(self) -> Iterator[Event]:
        yield Step("Retrieve", "running")
        settings = replace(self.parts.settings, rerank=False)
        with self._timed("Retrieve") as taken:
            retriever = Retriever(self.parts.store, self.parts.embedder(), None, settings)
            candidates = retriever.search(self.question, self.options.documents)
        self._turn = replace(self._turn, candidates=candidates)
        yield Step("Retrieve", "done", taken(), f"{len(candidates)} candidates")
        self._check_stop()
        reranker, why = self.parts.search_reranker()
        if reranker is None or not candidates:
            yield Step("Rerank", "skipped", detail=why or "nothing to rerank")
        else:
            yield Step("Rerank", "running")
            try:
                with self._timed("Rerank") as taken:
                    candidates = rerank(self.question, candidates, reranker, contextual=settings.provenance_contextual)
                yield Step("Rerank", "done", taken(), reranker.name)
            except ProvenanceError as error:
                yield Step("Rerank", "failed", detail=str(error))
        self._turn = replace(self._turn, candidates=candidates)
        self._check_stop()

    def _decide(self) -> Iterator[Event]:
        """Refuse the question before anything is written where the documents do not answer it; nothing is sent then."""
        yield Step("Decide", "running")
        texts = [candidate.passage.text for candidate in self._turn.candidates]
        with self._timed("Decide") as taken:
            verdict = judge_retrieval(self.question, texts[: self.options.top_k], texts, self.parts.embedder())
        if verdict.refuse:
            nothing_sent = tuple(replace(c, dropped="the question was refused") for c in self._turn.candidates)
            self._turn = replace(self._turn, candidates=nothing_sent)
            self._refuse(verdict.reason or "", None)
            yield Step("Decide", "done", taken(), "the documents do not answer")
        else:
            yield Step("Decide", "done", taken(), "a passage comes close enough")
            self._check_stop()

    def _prompt(self) -> Prompt:
        """Choose what is sent, freeze the numbers, and render the prompt."""
        settings, kept = self.parts.settings, self.options.follow_up
        history: tuple[Exchange, ...] = ()
        if kept is not None and kept.answer is not None:
            history = (Exchange(kept.question, kept.answer.text),)
        writer = self.parts.writer()
        if isinstance(writer, LocalWriter):
            lm = writer.lm
            room = lm.context_window - settings.provenance_max_new_tokens - _PROMPT_ROOM
            budget = max(0, min(settings.provenance_context_tokens, room))

            def cost(candidate: Candidate) -> int:
                return len(lm.tokenizer(candidate.passage.text, add_special_tokens=False)["input_ids"]) + _HEADER_TOKENS
        else:
            budget = settings.provenance_context_tokens

            def cost(candidate: Candidate) -> int:
                return len(candidate.passage.text) // _CHARACTERS_PER_TOKEN + _HEADER_TOKENS

        if kept is None:
            chosen = select(self._turn.candidates, self.options.top_k, budget, cost)
            self._turn = replace(self._turn, candidates=chosen)
        passages: list[Passage] = [c.passage for c in self._turn.candidates if c.sent is not None]
        if isinstance(writer, LocalWriter):
            return build_prompt(writer.lm, self.question, passages, history=history)
        return writer.build(self.question, passages, history=history)

    def _write(self, prompt: Prompt) -> Generator[Event, None, Written]:
        yield Step("Write", "running")
        self._check_stop()
        with self._timed("Write") as taken:
            stream = self.parts.writer().stream(
                prompt, max_new_tokens=self.parts.settings.provenance_max_new_tokens, stop=self.stop
            )
            try:
                while True:
                    yield Token(next(stream))
            except StopIteration as end:
                written: Written = end.value
            finally:
                stream.close()
        speed = written.answer.tokens_per_second
        detail = f"{speed:.0f} tokens a second" if speed else None
        yield Step("Write", "done", taken(), detail)
        return written

    def _case(self, prompt: Prompt, written: Written) -> Case:
        local = bool(prompt.token_ids)
        case = Case(
            question=self.question,
            answer=written.answer.text,
            passages=tuple(source.text for source in prompt.sources),
            titles=tuple(source.passage.title for source in prompt.sources),
            prompt=prompt if local else None,
            answer_ids=written.answer.token_ids if local else None,
            readout=written.readout,
            scratch={"cache": written.cache} if written.cache is not None else {},
        )
        if self._turn.id is not None:
            self.cases[self._turn.id] = case
        return case

    def _refuse(self, reason: str, draft: Answer | None) -> None:
        model = draft.model if draft else "none"
        answer = Answer(REFUSAL, (), model, draft.revision if draft else "", finish="none")
        self._turn = replace(
            self._turn, outcome="refused", answer=answer, draft=draft, reason=reason, citations=(), lengths=()
        )

    def _read_citations(self) -> None:
        """The numbers the model wrote, and the lengths of what they cite."""
        turn = self._turn
        if turn.answer is not None and self.parts.settings.provenance_model_citations:
            self._turn = replace(turn, citations=parse_citations(turn.answer.text, turn.sources))
            self._measure_lengths()

    def _measure_lengths(self) -> None:
        self._turn = replace(self._turn, lengths=cited_lengths(self._turn.sources, self._turn.cited))

    def _attribute(self, case: Case) -> Iterator[Event]:
        from provenance.methods.sentences import sentence_support

        yield Step("Attribute", "running")
        self._check_stop()
        with self._timed("Attribute") as taken:
            sentences = sentence_support(case, self.parts)
            verdict = judge_answer(sentences)
            label = "no answer to attribute"
            if not verdict.refuse:
                label = self._score(case, sentences)
        if verdict.refuse:
            self._refuse(verdict.reason or "", self._turn.answer)
        yield Step("Attribute", "done", taken(), label)
        self._check_stop()

    def _score(self, case: Case, sentences: tuple[SentenceSupport, ...]) -> str:
        """Put citations, marks and the chosen method's scores into the turn; returns the method's label."""
        from provenance.methods import METHODS
        from provenance.methods.sentences import evidence_citations, marks

        cited = self._turn.citations
        if self.parts.settings.provenance_evidence_citations and not any(citation.exists for citation in cited):
            cited = (*cited, *evidence_citations(sentences))
        self._turn = replace(self._turn, sentences=sentences, citations=cited, marks=marks(case, sentences, self.parts))
        self._measure_lengths()
        method = METHODS.get(self.options.method)
        if method is None:
            return "provenance is off"
        scored = method.score(case, self.parts, include_query=self.options.include_query)
        self._turn = replace(self._turn, attributions=(scored,))
        return method.label

    def _check_quotes(self) -> Iterator[Event]:
        from provenance.log.quotes import check_quotes

        yield Step("Check quotes", "running")
        turn = self._turn
        with self._timed("Check quotes") as taken:
            text = turn.answer.text if turn.answer else ""
            quotes = check_quotes(text, turn.citations, turn.sources, self.parts.store)
        self._turn = replace(turn, quotes=quotes)
        yield Step("Check quotes", "done", taken(), f"{len(quotes)} quoted" if quotes else "no quotes to check")

    def _settings_in_force(self) -> dict[str, str | int | float | bool | None]:
        """What is needed to make the same ranking and the same answer again."""
        from provenance.log.replay import search_settings

        parts, options = self.parts, self.options
        settings = replace(parts.settings, provenance_top_k=options.top_k)
        found: dict[str, str | int | float | bool | None] = {}
        with suppress(ProvenanceError):
            retriever = Retriever(parts.store, parts.embedder(), parts.search_reranker()[0], settings)
            found = search_settings(retriever, options.documents)
        return found | {
            "writer": settings.provenance_endpoint_model
            if settings.provenance_endpoint
            else settings.provenance_model or "packaged default",
            "endpoint": settings.provenance_endpoint,
            "decoding": "greedy",
            "seed": None,
            "max_new_tokens": settings.provenance_max_new_tokens,
            "context_tokens": settings.provenance_context_tokens,
            "model_citations": settings.provenance_model_citations,
            "evidence_citations": settings.provenance_evidence_citations,
            "method": options.method,
            "include_query": options.include_query,
        }

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise _Stopped

    @contextmanager
    def _timed(self, name: str) -> Iterator[Any]:
        """Time a step; the seconds so far are what the yielded function returns."""
        began = time.perf_counter()
        try:
            yield lambda: self._timings[-1].seconds
        finally:
            self._timings.append(Timing(name, time.perf_counter() - began))
