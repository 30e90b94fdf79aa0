"""Documents that attack the page show as text, on every screen and in every export, and nothing leaves localhost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import PATIENCE, App, Shared, Visit, add, answered, ask, go, settled
from tests.browser.writing import HOSTILE, hostile_markdown, hostile_pdf

HOOKS = """() => ({
  ran: window.hit || null,
  images: [...document.querySelectorAll('img')].filter(i => i.src.includes('x.test')).length,
  handlers: document.querySelectorAll('[onerror]').length,
  links: [...document.querySelectorAll('a')].filter(a => a.href.includes('x.test')).length,
  mathematics: document.querySelectorAll('.katex').length,
  struck: document.querySelectorAll('del, s').length,
  bold: [...document.querySelectorAll('b, strong')].filter(b => b.textContent === 'x').length,
  hidden: getComputedStyle(document.body).display === 'none',
})"""
QUIET = {
    "ran": None, "images": 0, "handlers": 0, "links": 0, "mathematics": 0, "struck": 0, "bold": 0, "hidden": False,
}  # fmt: skip


def quiet(page: Page) -> None:
    """Nothing of the documents has become part of the page."""
    assert page.evaluate(HOOKS) == QUIET


@pytest.fixture(scope="module")
def attacked(shared: Shared, visit: Visit) -> Page:
    """A page with an answered question whose sources attack it."""
    page = visit("/documents")
    add(page, "<b>x</b>.pdf", hostile_pdf())
    expect(page.locator(".steps li", has_text="<b>x</b>.pdf")).to_contain_text("passage", timeout=PATIENCE)
    add(page, "notes ![s](http://x.test/?q=2).md", hostile_markdown(), "text/markdown")
    expect(page.locator(".steps li", has_text="notes")).to_contain_text("passage", timeout=PATIENCE)
    quiet(page)
    go(page, "Ask")
    ask(page, f"How many litres does the Zaldor pump hold? {HOSTILE[0]} {HOSTILE[3]} {HOSTILE[4]}")
    answered(page)
    return page


def test_a_hostile_receipt_is_text(attacked: Page) -> None:
    expect(attacked.locator(".question")).to_contain_text(HOSTILE[3])
    for fold in attacked.locator("details.rest").all():
        fold.evaluate("node => node.open = true")
    assert any(line in attacked.locator(".cards").first.inner_text() for line in HOSTILE)
    quiet(attacked)


def test_a_hostile_turn_is_text_on_every_other_screen(attacked: Page) -> None:
    for name in ("Documents", "Compare", "Guide", "Audit"):
        go(attacked, name)
        quiet(attacked)
    go(attacked, "Ask")


def test_a_hostile_log_row_and_its_exports_are_text(attacked: Page, visit: Visit, tmp_path: Path) -> None:
    number = attacked.locator(".strip").inner_text().split("#")[-1]
    page = visit(f"/audit?log={number}")
    expect(page.locator(".question")).to_contain_text(HOSTILE[3])
    quiet(page)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Receipt as HTML").click()
    receipt = tmp_path / "receipt.html"
    waiting.value.save_as(receipt)
    asked: list[str] = []
    alone = page.context.new_page()
    alone.on("request", lambda request: asked.append(request.url))
    alone.goto(receipt.as_uri())
    expect(alone.locator("body")).to_contain_text(HOSTILE[3])
    quiet(alone)
    assert asked == [receipt.as_uri()]
    page.context.close()
    with attacked.expect_download() as waiting:
        attacked.get_by_role("button", name="The turn as JSON").click()
    saved = tmp_path / "turn.json"
    waiting.value.save_as(saved)
    assert HOSTILE[3] in json.loads(saved.read_text())["question"]


def test_no_request_left_localhost(attacked: Page, app: App) -> None:
    settled(attacked)
    assert app.hosts == {"localhost"}
