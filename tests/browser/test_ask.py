"""Ask, as a person uses it: three numbers on a card, the switcher, links, the page dialog, stop, the tour."""

from __future__ import annotations

import re
from io import BytesIO

import pypdfium2
import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Page, expect

from tests.browser.driving import PATIENCE, Shared, Visit, answered, ask, go, settled
from tests.browser.writing import LAST_CROSSING, two_columns


def figures(page: Page) -> dict[str, str]:
    """The three figures of the first card, by name."""
    lines = page.locator(".card").first.locator(".metric")
    return {line.locator(".name").inner_text(): line.locator(".value").inner_text() for line in lines.all()}


def choose(page: Page, method: str) -> None:
    """Switch the method in the sidebar."""
    page.locator(".st-key-rail").get_by_role("radiogroup").get_by_text(method, exact=True).click()
    expect(page.locator(".barhead")).to_contain_text(method.lower(), timeout=PATIENCE)
    settled(page)


def test_one_card_shows_retrieval_provenance_and_length_share(shared: Shared) -> None:
    found = figures(shared.page)
    assert re.fullmatch(r"[01](\.\d+)?\sfused", found["Retrieval"])
    assert re.fullmatch(r"\d+\s%", found["Provenance"])
    assert re.fullmatch(r"\d+\.\d\d\s%", found["Length share"])
    assert len(set(found.values())) == 3


def test_switching_the_method_changes_the_provenance_and_keeps_the_answer(shared: Shared) -> None:
    before = figures(shared.page)
    choose(shared.page, "Similarity")
    after = figures(shared.page)
    assert after["Provenance"] != before["Provenance"]
    assert "cosine" in after["Provenance"] or "similarity" in after["Provenance"]
    assert after["Retrieval"].endswith("fused")
    assert shared.page.locator(".answer").inner_text() == shared.answer
    choose(shared.page, "Leave one out")
    assert figures(shared.page) == before


def test_hovering_a_sentence_lights_its_card_and_nothing_else(shared: Shared) -> None:
    page = shared.page
    sentence = page.locator(".sentence[data-ns]").first
    number = (sentence.get_attribute("data-ns") or "").split()[0]
    expect(page.locator(".card.lit")).to_have_count(0)
    sentence.hover()
    expect(page.locator(f'.card[data-ns="{number}"]')).to_have_class(re.compile(r"\blit\b"))
    page.locator(".strip").hover()
    expect(page.locator(".card.lit")).to_have_count(0)


def test_a_keyboard_reaches_the_same_links(shared: Shared) -> None:
    page = shared.page
    chip = page.locator(".answer .chip[data-ns]").first
    number = chip.get_attribute("data-ns")
    page.locator(".sentence").first.focus()
    page.keyboard.press("Tab")
    expect(page.locator(f'.card[data-ns="{number}"]')).to_have_class(re.compile(r"\blit\b"))
    page.keyboard.press("Escape")


def test_the_page_dialog_marks_the_passage_in_its_column(shared: Shared) -> None:
    page = shared.page
    page.locator(".card", has_text=LAST_CROSSING).first.get_by_role("button", name="Show on page").click()
    dialog = page.get_by_role("dialog")
    image = dialog.locator("img").first
    expect(image).to_be_visible(timeout=60_000)
    expect(dialog).to_contain_text("harbour")
    address = image.evaluate("node => node.src")
    drawn = Image.open(BytesIO(page.request.get(address).body())).convert("RGB")
    with pypdfium2.PdfDocument(two_columns()) as document:
        sheet = document[0]
        scale = drawn.width / sheet.get_width()
        plain = sheet.render(scale=scale).to_pil().convert("RGB").resize(drawn.size)
        words = sheet.get_textpage()
        found = words.search(LAST_CROSSING).get_next()
        assert found is not None
        left, bottom, right, top = words.get_rect(0) if words.count_rects(*found) else (0, 0, 0, 0)
        height = sheet.get_height()
    marked = ImageChops.difference(drawn, plain).convert("L").point(lambda v: 255 if v > 24 else 0)
    box = tuple(round(v * scale) for v in (left, height - top, right, height - bottom))
    inside = marked.crop(box)
    assert sum(inside.histogram()[255:]) > 0.4 * inside.width * inside.height
    margin = marked.crop((0, 0, round(25 * scale), drawn.height))
    assert margin.getbbox() is None
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)


def test_compare_fills_in(shared: Shared) -> None:
    page = shared.page
    go(page, "Compare")
    expect(page.locator(".js-plotly-plot").first).to_be_visible(timeout=PATIENCE)
    table = page.locator("table.heat").first
    for name in ("Leave one out", "Similarity"):
        expect(table).to_contain_text(name)
    expect(page.get_by_text("Agreement with leave one out").first).to_be_visible()
    go(page, "Ask")
    assert page.locator(".answer").inner_text() == shared.answer


def test_a_link_opens_a_stored_turn_read_only(shared: Shared, visit: Visit) -> None:
    page = visit(f"/?turn={shared.turn}")
    expect(page.get_by_text("read only")).to_be_visible()
    assert page.locator(".answer").inner_text() == shared.answer
    page.context.close()


def test_a_link_to_the_log_opens_the_row(shared: Shared, visit: Visit) -> None:
    page = visit(f"/audit?log={shared.turn}")
    expect(page.get_by_role("heading", name=f"#{shared.turn}")).to_be_visible()
    page.get_by_role("button", name="Verify the log").click()
    expect(page.get_by_text("the chain is intact")).to_be_visible()
    page.context.close()


def test_a_turn_that_does_not_exist_is_said(visit: Visit, shared: Shared) -> None:
    page = visit("/?turn=99999")
    expect(page.get_by_text("There is no turn #99999")).to_be_visible()
    page.context.close()


def test_stopping_leaves_a_logged_turn_and_a_usable_page(shared: Shared, visit: Visit) -> None:
    page = visit()
    ask(page, "What did the cooperative do in 2024, and how many passengers did its ferries carry?")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".outcome")).to_contain_text("Stopped", timeout=PATIENCE)
    number = page.locator(".strip").inner_text().split("#")[-1]
    settled(page)
    go(page, "Audit")
    page.goto(f"{page.url.split('/audit')[0]}/audit?log={number}")
    settled(page)
    expect(page.locator(".outcome")).to_contain_text("Stopped")
    go(page, "Ask")
    expect(page.get_by_test_id("stChatInputTextArea")).to_be_enabled()
    page.context.close()


def test_on_a_phone_a_link_of_the_sidebar_closes_it(shared: Shared, visit: Visit) -> None:
    page = visit("/guide", viewport={"width": 390, "height": 844})
    settled(page)
    sidebar = page.get_by_test_id("stSidebar")
    page.get_by_test_id("stExpandSidebarButton").click()
    expect(sidebar).to_have_attribute("data-collapsed", "false")
    sidebar.get_by_role("link", name="Documents").click()
    expect(sidebar).to_have_attribute("data-collapsed", "true")
    expect(page.get_by_role("heading", name="Documents", exact=True)).to_be_in_viewport()
    page.context.close()


@pytest.mark.parametrize("width", [390])
def test_a_telephone_sees_the_whole_card(shared: Shared, visit: Visit, width: int) -> None:
    page = visit(f"/?turn={shared.turn}", viewport={"width": width, "height": 844})
    expect(page.locator(".card").first).to_be_visible()
    beyond = page.evaluate("() => document.querySelector('[data-testid=stMain]').scrollWidth - window.innerWidth")
    assert beyond <= 0
    page.context.close()


def test_the_tour_walks_through_three_moments(shared: Shared, visit: Visit) -> None:
    page = visit()
    page.get_by_role("button", name="Show me the three moments").click()
    for moment in (1, 2, 3):
        expect(page.get_by_text(f"Moment {moment} of 3")).to_be_visible(timeout=PATIENCE)
        answered(page) if moment < 3 else settled(page)
        if moment < 3:
            page.get_by_role("button", name="Next moment").click()
    expect(page.locator(".question")).to_contain_text("captain")
    page.get_by_role("button", name="End the tour").click()
    expect(page.get_by_text("Moment 3 of 3")).to_have_count(0)
    page.context.close()
