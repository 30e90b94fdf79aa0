"""An OpenAI-compatible endpoint (Ollama, vLLM, …) as the writer.

It gives text only: no attention and no token probabilities, so the methods that
need them say that they are not available.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import httpx2 as httpx

from provenance.errors import ProvenanceError
from provenance.generation.prompt import NUMBERED, Exchange, Wording, plain_prompt
from provenance.generation.writer import Written
from provenance.records import Answer, Passage, Prompt
from provenance.settings import Settings

_REPLY_TOKENS = 16  # a number and a word or two
_TIMEOUT = httpx.Timeout(connect=10.0, read=120.0, write=30.0, pool=10.0)


class RemoteWriter:
    """Writes with the model that `provenance_endpoint` serves."""

    def __init__(self, settings: Settings) -> None:
        if not settings.provenance_endpoint:
            raise ProvenanceError("provenance_endpoint is not set.")
        self.address = settings.provenance_endpoint.rstrip("/") + "/chat/completions"
        self.name = settings.provenance_endpoint_model or "default"
        self._key = settings.provenance_endpoint_key

    def build(
        self,
        question: str,
        passages: Sequence[Passage],
        *,
        history: Sequence[Exchange] = (),
        wording: Wording = NUMBERED,
    ) -> Prompt:
        """The prompt without token spans: the endpoint tokenizes by itself."""
        return plain_prompt(question, passages, history=history, wording=wording)

    def stream(
        self, prompt: Prompt, *, max_new_tokens: int, stop: threading.Event | None = None
    ) -> Generator[str, None, Written]:
        """Yield the answer as it arrives. Raises ProvenanceError where the endpoint fails, saying what it said."""
        text, finish = "", "end"
        began = time.perf_counter()
        try:
            with self._post(prompt.text, max_new_tokens) as response:
                for piece, reason in _pieces(response.iter_lines()):
                    if stop is not None and stop.is_set():
                        finish = "stopped"
                        break
                    if reason == "length":
                        finish = "length"
                    if piece:
                        text += piece
                        yield piece
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        seconds = time.perf_counter() - began
        words = len(text.split())
        ended: dict[str, Literal["end", "length", "stopped"]] = {"length": "length", "stopped": "stopped"}
        answer = Answer(
            text=text,
            token_ids=(),
            model=self.name,
            revision="endpoint",
            finish=ended.get(finish, "end"),
            tokens_per_second=words / seconds if words and seconds > 0 else None,
        )
        return Written(answer)

    def complete(self, text: str) -> str:
        """The reply to one message, for the `llm` method. Raises ProvenanceError as `stream` does."""
        try:
            with self._post(text, _REPLY_TOKENS) as response:
                return "".join(piece for piece, _ in _pieces(response.iter_lines()))
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    @contextmanager
    def _post(self, text: str, max_tokens: int) -> Iterator[httpx.Response]:
        body = {
            "model": self.name,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
        }
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        with httpx.stream("POST", self.address, json=body, headers=headers, timeout=_TIMEOUT) as response:
            if response.status_code >= 400:
                response.read()
                raise ProvenanceError(
                    f"The endpoint {self.address} answered {response.status_code}: {response.text[:300]}"
                )
            yield response

    def _unreachable(self, error: httpx.HTTPError) -> ProvenanceError:
        return ProvenanceError(
            f"The endpoint {self.address} could not be reached: {error}. Check provenance_endpoint and its server."
        )


def _pieces(lines: Iterator[str]) -> Iterator[tuple[str, str | None]]:
    """The text deltas and finish reasons of a server-sent event stream; lines that are no event are passed over."""
    for line in lines:
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            return
        try:
            event: Any = json.loads(data)
            choice = event["choices"][0]
        except (ValueError, KeyError, IndexError, TypeError):
            continue
        delta = choice.get("delta") or {}
        yield str(delta.get("content") or ""), choice.get("finish_reason")
