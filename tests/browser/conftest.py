"""The real app in a process of its own, headless Chromium, and one answered turn that the tests share."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.driving import PATIENCE, App, Shared, Visit, add, answered, ask, go, settled
from tests.browser.writing import LAST_CROSSING, MENU, QUESTION, two_columns

ROOT = Path(__file__).parents[2]

expect.set_options(timeout=20_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        said = "Chromium is not installed; on Debian: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    return {"executable_path": found, "args": ["--no-sandbox", "--disable-dev-shm-usage"]}


@pytest.fixture(scope="session")
def app(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The app over a store of its own, started as a person would start it."""
    folder = tmp_path_factory.mktemp("app")
    (folder / "models").symlink_to((home / "models").resolve(), target_is_directory=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "provenance_home": str(folder), "provenance_method": "leave-one-out"}
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless", "true"]
    command += ["--server.port", str(port), "--server.address", "localhost", "--server.fileWatcherType", "none"]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
        try:
            url = f"http://localhost:{port}"
            _wait(url, process, folder / "output")
            yield App(url, folder, set())
        finally:
            process.terminate()
            process.wait(20)


def _wait(url: str, process: subprocess.Popen[bytes], output: Path) -> None:
    for _ in range(240):
        if process.poll() is not None:
            pytest.fail(f"The app ended: {output.read_text()}")
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1):
                return
        except OSError:
            time.sleep(0.25)
    pytest.fail("The app did not start within a minute.")


@pytest.fixture(scope="session")
def visit(app: App, browser: Browser) -> Iterator[Visit]:
    """Open an address of the app in a context of its own; every host that it asks for is noted."""
    opened: list[BrowserContext] = []

    def open_(path: str = "/", **how: Any) -> Page:
        context = browser.new_context(**{"viewport": {"width": 1440, "height": 1000}, **how})
        opened.append(context)
        context.on("request", lambda request: _note(app, request.url))
        page = context.new_page()
        page.goto(app.url + path)
        settled(page)
        return page

    yield open_
    for context in opened:
        context.close()


def _note(app: App, url: str) -> None:
    if not url.startswith(("data:", "blob:", "about:", "file:")):
        app.hosts.add(url.split("/")[2].rsplit(":", 1)[0])


@pytest.fixture(scope="session")
def shared(app: App, visit: Visit) -> Shared:
    """A two-column PDF and a menu uploaded, one question answered from them, and then the samples read."""
    page = visit()
    go(page, "Documents")
    for name, data, kind in (("harbour.pdf", two_columns(), "application/pdf"), ("menu.txt", MENU, "text/plain")):
        add(page, name, data, kind)
        step = page.locator(".steps li", has_text=name)
        expect(step).to_contain_text(re.compile(r"passages? in"), timeout=PATIENCE)
        settled(page)
    go(page, "Ask")
    ask(page, QUESTION)
    answered(page)
    logged = page.locator(".strip").inner_text().split("#")[-1]
    answer = page.locator(".answer").inner_text()
    assert LAST_CROSSING.split()[0] in answer
    environment = {**os.environ, "provenance_home": str(app.home)}
    subprocess.run([sys.executable, "-m", "provenance", "ingest", "samples"], cwd=ROOT, env=environment, check=True)
    return Shared(page, int(logged), answer)
