"""Asks real questions until it is killed.

Run: python -m tests.log.asker DATABASE_URL KILLS ASKS [--tiny]
The models load once. Then, KILLS times over, a forked process asks one question after
another, and is killed (SIGKILL) at a random moment after ASKS of them have begun. The
number of every turn that had begun is printed, one a line. `--tiny` lets a writer of
random weights answer, which takes a small part of the time.
"""

from __future__ import annotations

import os

# Set before torch loads: a process that has started threads cannot be forked safely.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import random
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from provenance.engine import Engine
from provenance.log import Log
from provenance.parts import Parts
from provenance.records import Turn
from provenance.settings import Settings, load_settings
from provenance.store import Store
from tests.conftest import OwnParts

QUESTION = "When does the last evening ferry leave?"
NOTES = {
    "timetable.txt": "The last evening ferry leaves the pier at 21:40. It says “no dogs on deck”.",
    "menu.txt": "A cup of tea costs two pounds and a bun costs one pound.",
}


def settings_for(url: str) -> Settings:
    """Few tokens and no reranker, so that an ask is short; everything else is the default."""
    return replace(load_settings(env_file=None), database_url=url, provenance_max_new_tokens=6, rerank=False)


def load(settings: Settings, *, tiny: bool) -> Parts:
    """The models, with the packaged writer or one of random weights."""
    parts = Parts(settings)
    if tiny:
        from tests.methods.tiny_models import tiny_model

        parts._lm = tiny_model("llama")
    return parts


class TellingLog(Log):
    """A log that writes the number of a turn to a pipe as soon as it has begun one."""

    def __init__(self, store: Store, begun: int) -> None:
        super().__init__(store)
        self._begun = begun

    def begin(self, question: str, settings: Mapping[str, str | int | float | bool | None]) -> Turn:
        turn = super().begin(question, settings)
        os.write(self._begun, f"{turn.id}\n".encode())
        return turn


def ask_forever(settings: Settings, models: Parts, begun: int) -> NoReturn:
    """Ask one question after another."""
    engine = Engine(settings)
    engine.parts = OwnParts(settings, models)
    engine.parts.log = TellingLog(engine.store, begun)
    while True:
        list(engine.ask(QUESTION))


def main(url: str, kills: int, asks: int, tiny: bool = False) -> list[int]:
    """The numbers of the turns that had begun before their process was killed."""
    settings = settings_for(url)
    models = load(settings, tiny=tiny)
    engine = Engine(settings)
    engine.parts = OwnParts(settings, models)
    for name, text in NOTES.items():
        engine.add(name, text.encode())
    for _ in range(2):  # the first ask is slower than those to come
        start = time.perf_counter()
        list(engine.ask(QUESTION))
        usual = time.perf_counter() - start
    engine.store.close()
    begun: list[int] = []
    chance = random.Random(7)
    for _ in range(kills):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                ask_forever(settings, models, write)
            finally:
                os._exit(1)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            begun += [int(lines.readline()) for _ in range(asks)]
            time.sleep(chance.uniform(0.0, 1.5 * usual))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            begun += [int(line) for line in lines if line.endswith("\n")]
    return begun


if __name__ == "__main__":
    print(*main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), "--tiny" in sys.argv), sep="\n")
