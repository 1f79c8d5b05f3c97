"""Lists of more than one page: what is alive on the second one, and the way back to it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.served import Site
from tests.browser.visiting import Visits
from tests.browser.world import ask, make_desk

pytestmark = [pytest.mark.browser, pytest.mark.django_db]


def list_titles(page: Page) -> list[str]:
    return page.locator("#rows .request-title").all_inner_texts()


def test_the_second_page_stays_the_second_page_while_it_is_alive(visit: Visits, site: Site) -> None:
    desk = make_desk()
    for number in range(60):
        ask(f"Refund {number:03}", why=f"Case {number}", due=f"{number + 1}h")
    page = visit(desk.maya)
    page.clock.install()
    page.goto("/approvals/")
    page.get_by_role("link", name="Show the next ones").click()
    expect(page.locator("#rows .request-title").first).to_have_text("Refund 050")
    shown = list_titles(page)
    page.keyboard.press("j")
    expect(page.locator("#detail[data-id] .consequence")).to_have_text("Refund 050")
    with page.expect_response("**/approvals/live/**"):
        page.clock.fast_forward(5_100)
    expect(page.locator("#live-state")).to_be_visible()
    assert list_titles(page) == shown
    # As a page of its own it leads back to where it was found.
    page.get_by_role("link", name="Open as a page").click()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator("#rows .request-title").first).to_have_text("Refund 050")
