"""One question being answered beside the page: a thread that collects what the engine reports.

Streamlit ends a script at any click. The work goes on here, whatever the page does, and the next run of the script
picks it up where it is; only `stop` ends it, and then the engine logs the turn as stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any


class Job:
    """Runs `work(stop)` in a thread and keeps its events in order. `error` is set where it raised."""

    def __init__(self, question: str, work: Callable[[threading.Event], Iterable[Any]]) -> None:
        self.question = question
        self.stop = threading.Event()
        self.error: Exception | None = None
        self.started = time.monotonic()
        self._events: list[Any] = []
        self._done = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, args=(work,), name="answer", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether the work has ended."""
        return self._done

    def events(self, patience: float = 0.1) -> Iterator[Any]:
        """Every event from the first one on, then None about every `patience` seconds while nothing new is there."""
        at = 0
        while True:
            with self._news:
                if at >= len(self._events):
                    if self._done:
                        return
                    self._news.wait(patience)
                fresh = self._events[at:]
            at += len(fresh)
            yield from fresh or (None,)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the work to end."""
        self._thread.join(timeout)

    def _run(self, work: Callable[[threading.Event], Iterable[Any]]) -> None:
        try:
            for event in work(self.stop):
                with self._news:
                    self._events.append(event)
                    self._news.notify_all()
        except Exception as error:  # the page shows it; a thread has nobody else to tell
            self.error = error
        finally:
            with self._news:
                self._done = True
                self._news.notify_all()
