"""Takes the pictures in this folder: every screen of the running app, light and dark.

`make screenshots`, or `python docs/screenshots.py [ADDRESS]` for an app that runs already with the samples loaded.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

HERE = Path(__file__).parent
QUESTION = "How much money does the reserve fund hold?"
PATIENCE = 300_000
LARGEST = 150_000


@contextmanager
def served() -> Iterator[str]:
    """The app over an empty store that uses the models of this machine's own home."""
    sys.path.insert(0, str(HERE.parent))
    from provenance.settings import load_settings

    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        kept = load_settings().provenance_home
        for name in ("models", "calibration"):
            if (kept / name).is_dir():
                (Path(folder) / name).symlink_to(kept / name, target_is_directory=True)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
        command += ["--server.port", str(port), "--server.fileWatcherType", "none"]
        process = subprocess.Popen(
            command, cwd=HERE.parent, env={**os.environ, "provenance_home": folder}, stdout=subprocess.DEVNULL
        )
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=1)
                    break
                except OSError:
                    time.sleep(0.25)
            yield f"http://localhost:{port}"
        finally:
            process.terminate()
            process.wait(20)


def settled(page: Page) -> None:
    """Wait until the script has ended and the drawing is still."""
    expect(page.locator(".st-key-rail").first).to_be_attached(timeout=60_000)
    expect(page.locator('.stApp[data-test-script-state="notRunning"]')).to_be_visible(timeout=PATIENCE)
    page.wait_for_timeout(900)


def shoot(page: Page, name: str, *, tallest: int = 1500) -> None:
    """The whole page up to `tallest` pixels, as a PNG with few colours."""
    size = page.viewport_size or {"width": 1440, "height": 900}
    needed = page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], min(needed, tallest))})
    page.wait_for_timeout(500)
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    page.set_viewport_size(size)
    for colours in (256, 128, 64):
        few = picture.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(HERE / f"{name}.png", optimize=True)
        if (HERE / f"{name}.png").stat().st_size < LARGEST:
            break
    print(f"{name}.png {(HERE / f'{name}.png').stat().st_size // 1000} KB", flush=True)


def answered(page: Page, address: str) -> str:
    """Load the samples where there are none, ask the question; returns the turn's number."""
    page.goto(address)
    settled(page)
    load = page.get_by_role("button", name="Load the sample documents")
    if load.count():
        load.click()
    expect(page.get_by_role("radiogroup", name="Try one of these")).to_be_visible(timeout=PATIENCE)
    settled(page)
    box = page.get_by_test_id("stChatInputTextArea")
    box.fill(QUESTION)
    box.press("Enter")
    expect(page.locator(".card").first).to_be_visible(timeout=PATIENCE)
    settled(page)
    return page.locator(".strip").inner_text().split("#")[-1]


def take(browser: Browser, address: str, scheme: str, turn: str) -> None:
    """Every screen in one colour scheme."""
    wide = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    wide.goto(f"{address}/?turn={turn}")
    settled(wide)
    wide.get_by_role("button", name="Work with it").click()
    settled(wide)
    shoot(wide, f"ask-{scheme}")
    wide.locator(".card").get_by_role("button", name="Show on page").first.click()
    expect(wide.get_by_role("dialog")).to_be_visible()
    settled(wide)
    shoot(wide, f"page-{scheme}", tallest=900)
    wide.keyboard.press("Escape")
    for name in ("Compare", "Documents", "Guide"):
        wide.locator(".st-key-rail").get_by_role("link", name=name, exact=True).click()
        expect(wide).to_have_title(f"{name} · Receipts")
        settled(wide)
        every = wide.get_by_role("button", name="Run all")
        if name == "Compare" and every.count():
            every.click()
            expect(every).to_have_count(0, timeout=PATIENCE)
            settled(wide)
        shoot(wide, f"{name.lower()}-{scheme}")
    wide.goto(f"{address}/audit?log={turn}")
    settled(wide)
    wide.get_by_role("button", name="Verify the log").click()
    settled(wide)
    shoot(wide, f"audit-{scheme}")
    wide.close()
    narrow = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    narrow.goto(f"{address}/?turn={turn}")
    settled(narrow)
    shoot(narrow, f"phone-{scheme}")
    narrow.close()


def main() -> None:
    """Take all pictures."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    given = sys.argv[1] if len(sys.argv) > 1 else None
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if given:
            _all(browser, given)
        else:
            with served() as address:
                _all(browser, address)
        browser.close()


def _all(browser: Browser, address: str) -> None:
    turn = answered(browser.new_page(viewport={"width": 1440, "height": 900}), address)
    for scheme in ("light", "dark"):
        take(browser, address, scheme, turn)


if __name__ == "__main__":
    main()
