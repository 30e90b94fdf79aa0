"""The running app in a headless browser: the first paint after a start, and switching the method.

The app is started as a person starts it, over the sample documents in a store of its own. A paint is
timed from the start of the process until the page's first sentence is visible in a browser that is open
already; a switch from the click until the cards name the other method, on the browser's own clock.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.samples import sample_questions
from benchmarks.table import Goal, Row
from provenance.settings import load_settings

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).parents[1]
STARTS, QUICK_STARTS = 3, 1
SWITCHES, QUICK_SWITCHES = 10, 4
QUESTIONS, QUICK_QUESTIONS = 3, 1
HEAVY = ("libtorch", "tokenizers", "sentence_transformers", "onnxruntime")
"""What the mapped files of a process are searched for: the libraries behind torch, transformers and flashrank."""

_SEEN = "() => { const said = document.querySelector('h1.hero'); return !!said && said.offsetHeight > 0; }"
_SWITCH = """async ([label, said]) => {
  const radio = [...document.querySelectorAll('.st-key-rail [role=radiogroup] label')]
    .find(node => node.innerText.startsWith(label));
  const roots = () => [...document.querySelectorAll('*')].flatMap(node => node.shadowRoot ? [node.shadowRoot] : []);
  const named = () => roots().some(
    root => [...root.querySelectorAll('.card p.hide')].some(p => p.textContent.startsWith(said)));
  if (!radio || named()) throw new Error(`cannot switch to ${label}`);
  const began = performance.now();
  radio.click();
  while (!named()) {
    if (performance.now() - began > 60000) throw new Error(`no card names ${label}`);
    await new Promise(requestAnimationFrame);
  }
  return performance.now() - began;
}"""
"""Clicks on a method and waits, frame by frame, until a card names it; the cards stand in a shadow tree."""


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def started(home: Path, port: int) -> Iterator[tuple[str, int, float]]:
    """The app over `home`: its address, its process and the moment before it was started."""
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    command += ["--server.port", str(port), "--server.address", "localhost", "--server.fileWatcherType", "none"]
    environment = {**os.environ, "provenance_home": str(home), "DATABASE_URL": ""}
    began = time.perf_counter()
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://localhost:{port}", process.pid, began
    finally:
        process.terminate()
        process.wait(20)


def painted(page: Page, address: str, began: float) -> float:
    """Open the app as soon as it listens; seconds from `began` until its first sentence is visible."""
    host, port = address.rsplit("/", 1)[1].split(":")
    while time.perf_counter() - began < 60:  # a browser that tries itself would slow the start down
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            break
        except OSError:
            time.sleep(0.02)
    page.goto(address, wait_until="commit")
    page.wait_for_function(_SEEN, timeout=60_000)  # asks at every frame; a locator asks twice a second
    return time.perf_counter() - began


def heavy(process: int) -> list[str]:
    """Which model libraries a process has mapped; Linux only, elsewhere nothing is found."""
    try:
        mapped = Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return []
    return [name for name in HEAVY if name in mapped]


def switch(page: Page, label: str) -> float:
    """Click on a method; milliseconds until a card names it."""
    from components import words

    taken: float = page.evaluate(_SWITCH, [label, words.inside(label)])
    return taken


def run(quick: bool) -> list[Row]:
    """The first paint, a switch between stored scores, and a switch that has similarity computed."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        return [Row("first paint", None, "s", note="playwright is not installed")]
    if chromium is None:
        return [Row("first paint", None, "s", note="Chromium is not installed")]
    with tempfile.TemporaryDirectory(prefix="receipts-screens-") as folder, sync_playwright() as play:
        home = Path(folder)
        kept = load_settings().provenance_home / "models"
        if kept.is_dir():
            (home / "models").symlink_to(kept.resolve(), target_is_directory=True)
        environment = {**os.environ, "provenance_home": folder, "DATABASE_URL": ""}
        subprocess.run(
            [sys.executable, "-m", "provenance", "ingest", "samples"],
            cwd=ROOT, env=environment, check=True, capture_output=True,
        )  # fmt: skip
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"])
        page = browser.new_page(viewport={"width": 1440, "height": 1000})
        paints, found = [], set()
        port = free_port()  # one for all starts: the browser keeps Streamlit's own scripts by address
        for _ in range(1 + (QUICK_STARTS if quick else STARTS)):
            with started(home, port) as (address, process, began):
                paints.append(painted(page, address, began))
                found |= set(heavy(process))
        warm = paints[1:]  # the first one fills the caches
        with started(home, port) as (address, _, began):
            painted(page, address, began)
            fresh, stored = _switches(page, quick)
        browser.close()
    loaded = f"loaded before it: {', '.join(sorted(found))}" if found else "no model library loaded before it"
    return [
        Row(
            "first paint", median(warm), "s", goal=Goal(2.0, of="value"),
            note=f"process start to first sentence in the browser, median of {len(warm)} after one more; {loaded}",
        ),
        Row(
            "method switch, scores stored", median(stored), "ms", goal=Goal(300, of="value"),
            note=f"click to cards of the other method, median of {len(stored)}, slowest {max(stored):.0f} ms",
        ),
        Row(
            "method switch to similarity, nothing stored", median(fresh), "ms", goal=Goal(500, of="value"),
            note=f"five sources, as above, median of {len(fresh)}, slowest {max(fresh):.0f} ms",
        ),
    ]  # fmt: skip


def _switches(page: Page, quick: bool) -> tuple[list[float], list[float]]:
    """Milliseconds of the switches to similarity when nothing is stored, and of those when all is."""
    from tests.browser.driving import PATIENCE, settled

    wanted = QUICK_QUESTIONS if quick else QUESTIONS
    before, after = "Attention (calibrated heads)", "Similarity"
    fresh: list[float] = []
    for question in (q["question"] for q in sample_questions() if q["answerable"]):
        settled(page)
        box = page.get_by_test_id("stChatInputTextArea")
        box.fill(question)
        box.press("Enter")
        page.locator(".question", has_text=question).first.wait_for(timeout=PATIENCE)
        page.locator(".strip").first.wait_for(timeout=PATIENCE)
        settled(page)
        if page.locator(".card").count():  # a question that is refused has no cards
            fresh.append(switch(page, after))
            settled(page)
            switch(page, before)
        if len(fresh) == wanted:
            break
    stored = []
    for n in range(QUICK_SWITCHES if quick else SWITCHES):
        settled(page)
        stored.append(switch(page, after if n % 2 == 0 else before))
    return fresh, stored
