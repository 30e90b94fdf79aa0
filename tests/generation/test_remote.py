from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from provenance.errors import ProvenanceError
from provenance.generation.prompt import pasted_passages
from provenance.generation.remote import RemoteWriter
from provenance.generation.writer import Written
from provenance.methods import METHODS
from provenance.methods.base import Case
from provenance.parts import Parts
from provenance.settings import Settings


class Endpoint(BaseHTTPRequestHandler):
    """Streams chat completions the way the OpenAI interface does."""

    replies: ClassVar[list[str]] = []
    bodies: ClassVar[list[dict[str, Any]]] = []
    status: ClassVar[int] = 200

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        self.end_headers()
        if self.status >= 400:
            self.wfile.write(b'{"error": "no such model"}')
            return
        text = self.replies.pop(0)
        self.wfile.write(b": a comment\n\nnot an event\n\n")
        for piece in text.split("|"):
            event = {"choices": [{"delta": {"content": piece}, "finish_reason": None}]}
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def remote(settings: Settings) -> Iterator[Settings]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Endpoint.replies, Endpoint.bodies, Endpoint.status = [], [], 200
    yield replace(settings, provenance_endpoint=f"http://127.0.0.1:{server.server_port}/v1/")
    server.shutdown()
    server.server_close()


def write(writer: RemoteWriter, stop: threading.Event | None = None) -> tuple[list[str], Written]:
    prompt = writer.build("When?", pasted_passages([("Notice", "At 21:40 [3].")]))
    stream, pieces = writer.stream(prompt, max_new_tokens=20, stop=stop), []
    try:
        while True:
            pieces.append(next(stream))
            if stop is not None:
                stop.set()
    except StopIteration as end:
        return pieces, end.value


def test_an_endpoint_streams_the_answer_and_gives_no_token_ids(remote: Settings) -> None:
    Endpoint.replies = ["At |21:40| [1]."]
    pieces, written = write(RemoteWriter(remote))
    assert pieces == ["At ", "21:40", " [1]."]
    assert (written.answer.text, written.answer.token_ids, written.readout) == ("At 21:40 [1].", (), None)
    assert "At 21:40 (3)." in Endpoint.bodies[0]["messages"][0]["content"]


def test_stopping_ends_the_answer_early(remote: Settings) -> None:
    Endpoint.replies = ["At |21:40"]
    pieces, written = write(RemoteWriter(remote), threading.Event())
    assert (pieces, written.answer.finish) == (["At "], "stopped")


def test_an_endpoint_that_refuses_is_an_error_with_its_words(remote: Settings) -> None:
    Endpoint.status = 404
    with pytest.raises(ProvenanceError, match=r"404.*no such model"):
        write(RemoteWriter(remote))


def test_an_endpoint_that_is_not_there_is_an_error_that_names_the_setting(settings: Settings) -> None:
    with pytest.raises(ProvenanceError, match="provenance_endpoint"):
        write(RemoteWriter(replace(settings, provenance_endpoint="http://127.0.0.1:9/v1")))


def test_the_endpoint_can_be_asked_for_a_self_report_and_is_asked_twice_at_most(remote: Settings) -> None:
    Endpoint.replies = ["4", "4/5", "Score: 2", "much", "8"]
    case = Case("When?", "At 21:40.", ("one", "two", "three"), ("a", "b", "c"), scratch={})
    found = METHODS["llm"].score(case, Parts(remote))
    assert found.scores == (4.0, 2.0, None)
    assert found.reason


@pytest.mark.parametrize("name", ["attention", "attention-heads", "leave-one-out", "shapley"])
def test_what_needs_the_models_inside_says_why_an_endpoint_cannot(remote: Settings, name: str) -> None:
    parts = Parts(remote)
    assert "endpoint" in str(METHODS[name].unavailable(parts))
