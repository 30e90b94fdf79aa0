"""Every screen under axe-core, light and dark: no serious or critical violation that is ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.driving import Shared, Visit, settled

SCREENS = ("/?turn={turn}", "/", "/documents", "/compare", "/audit?log={turn}", "/guide")
STREAMLITS = ("stFileUploader", "stDataFrame", "stChatInput", "stToolbar", "stTextArea", "stDecoration")
"""Parts that Streamlit draws whole; what axe finds inside them cannot be mended here."""


def axe(page: Page) -> list[dict[str, Any]]:
    """Serious and critical violations with the nodes that are ours."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None
    assert found.origin is not None
    page.add_script_tag(path=Path(found.origin).with_name("axe.min.js"))
    violations = page.evaluate(
        """async parts => {
          const result = await axe.run(document, { resultTypes: ['violations'] });
          return result.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => ({
            rule: v.id,
            nodes: v.nodes.filter(n => {
              const node = document.querySelector(n.target[0]);
              return !node || !parts.some(p => node.closest(`[data-testid="${p}"]`));
            }).map(n => n.html.slice(0, 200) + ' | ' + (n.failureSummary || '').slice(0, 200)),
          }));
        }""",
        list(STREAMLITS),
    )
    return [v for v in violations if v["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_screen_has_a_serious_violation(shared: Shared, visit: Visit, scheme: str) -> None:
    page = visit("/guide", color_scheme=scheme)
    for path in SCREENS:
        page.goto(page.url.split("/", 3)[0] + "//" + page.url.split("/", 3)[2] + path.format(turn=shared.turn))
        settled(page)
        page.wait_for_timeout(600)
        assert axe(page) == [], path
    page.goto(page.url.split("/audit")[0].split("/guide")[0] + f"/?turn={shared.turn}")
    settled(page)
    page.locator(".card").get_by_role("button", name="Show on page").first.click()
    expect(page.get_by_role("dialog").get_by_text("The passage as in the document")).to_be_visible()
    settled(page)
    page.wait_for_timeout(600)
    assert axe(page) == [], "the page dialog"
    page.context.close()
