"""Lists of more than one page: what is alive on the second one, and the way back to it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from approvals.models import SavedView
from tests.support.browser.judges import check_axe, check_fits, check_touch
from tests.support.browser.news import wait_for_news
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import ask, make_desk


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
    wait_for_news(page)
    expect(page.locator("#live-state")).to_be_visible()
    assert list_titles(page) == shown
    # As a page of its own it leads back to where it was found.
    page.get_by_role("link", name="Open as a page").click()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator("#rows .request-title").first).to_have_text("Refund 050")


@pytest.mark.parametrize("width", [1024, 800])
def test_on_a_tablet_every_view_can_be_touched(visit: Visits, site: Site, width: int) -> None:
    desk = make_desk()
    ask("Refund 1", groups=["Finance"])
    SavedView.objects.create(user=desk.maya, name="Refunds under €50", query="q=refund")
    page = visit(desk.maya, width=width, height=768, touch=True)
    page.goto("/approvals/")
    for name in ("Overdue", "Finance", "I asked for", "Decided", "Refunds under €50"):
        expect(page.get_by_role("link", name=name)).to_be_visible()
    check_axe(page)
    check_fits(page)
    check_touch(page)
    shoot(page, f"inbox-tablet-{width}", whole=False)
    page.get_by_role("link", name="Decided").tap()
    expect(page.get_by_role("heading", level=1, name="Decided")).to_be_visible()
