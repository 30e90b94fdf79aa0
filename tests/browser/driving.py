"""What a person does with the app, in the words of the tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

PATIENCE = 180_000
"""Milliseconds for what the models do; a page of the app itself gets Playwright's own patience."""

Visit = Callable[..., Page]


@dataclass(frozen=True)
class App:
    """The running app: its address, its home, and the hosts that its pages asked for."""

    url: str
    home: Path
    hosts: set[str]


@dataclass(frozen=True)
class Shared:
    """The page with one answered turn on it, the turn's number, and its answer as shown."""

    page: Page
    turn: int
    answer: str


def settled(page: Page) -> None:
    """Wait until the script of the page has run to its end."""
    expect(page.locator(".st-key-rail")).to_be_visible(timeout=60_000)
    expect(page.locator('.stApp[data-test-script-state="notRunning"]')).to_be_visible(timeout=PATIENCE)


def go(page: Page, name: str) -> None:
    """Follow a link of the sidebar; the session stays."""
    page.locator(".st-key-rail").get_by_role("link", name=name, exact=True).click()
    expect(page).to_have_title(f"{name} · Receipts")
    settled(page)


def ask(page: Page, question: str) -> None:
    """Send a question; does not wait for the answer."""
    box = page.get_by_test_id("stChatInputTextArea")
    box.fill(question)
    box.press("Enter")


def answered(page: Page) -> None:
    """Wait for the receipt of the question that was asked."""
    expect(page.locator(".answer .sentence").first).to_be_visible(timeout=PATIENCE)
    settled(page)


def add(page: Page, name: str, data: bytes, kind: str = "application/pdf") -> None:
    """Upload a file on the Documents screen."""
    page.locator('input[type="file"]').first.set_input_files({"name": name, "mimeType": kind, "buffer": data})
