"""Asks real questions until it is killed.

Run: python -m tests.log.asker DATABASE_URL KILLS ASKS
The models load once. Then, KILLS times over, a forked process asks one question after
another, and is killed (SIGKILL) at a random moment after ASKS of them have begun. How
many had begun is printed.
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
from dataclasses import replace
from typing import NoReturn

from provenance.engine import Engine
from provenance.parts import Parts
from provenance.settings import Settings, load_settings
from tests.conftest import OwnParts

QUESTION = "When does the last evening ferry leave?"
NOTES = {
    "timetable.txt": "The last evening ferry leaves the pier at 21:40. It says “no dogs on deck”.",
    "menu.txt": "A cup of tea costs two pounds and a bun costs one pound.",
}


def settings_for(url: str) -> Settings:
    """Few tokens and no reranker, so that an ask is short; everything else is the default."""
    return replace(load_settings(env_file=None), database_url=url, provenance_max_new_tokens=6, rerank=False)


def ask_forever(settings: Settings, models: Parts, begun: int) -> NoReturn:
    """Ask; write a line to `begun` as soon as a question's first step is seen, which comes after its row."""
    engine = Engine(settings)
    engine.parts = OwnParts(settings, models)
    while True:
        for i, _ in enumerate(engine.ask(QUESTION)):
            if i == 0:
                os.write(begun, b"\n")


def main(url: str, kills: int, asks: int) -> int:
    """How many questions had begun before their process was killed."""
    settings = settings_for(url)
    models = Parts(settings)
    engine = Engine(settings)
    engine.parts = OwnParts(settings, models)
    for name, text in NOTES.items():
        engine.add(name, text.encode())
    list(engine.ask("Warm the models."))
    engine.store.close()
    begun = 0
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
            begun += sum(lines.readline() == "\n" for _ in range(asks))
            time.sleep(chance.uniform(0.0, 0.5))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            begun += sum(1 for _ in lines)
    return begun


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
