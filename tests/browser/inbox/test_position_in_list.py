"""Where one is in a list: the next one, the one before, and how many there are."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import Desk, ask, ask_alike, ask_three, find_detail, find_row


def test_where_the_list_is_alone_keys_move_in_it_and_enter_opens(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, third = ask_three()
    page = visit(desk.maya, width=900)
    page.goto("/approvals/")
    for review in (first, second, third):
        page.keyboard.press("j")
        expect(find_row(page, review).get_by_role("link")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("#say")).to_have_text("This is the last one.")
    page.keyboard.press("k")
    expect(find_row(page, second).get_by_role("link")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name=second.title)).to_be_visible()
    page.go_back()
    expect(find_row(page, first)).to_be_visible()
    # One goes on from where one was.
    page.keyboard.press("j")
    expect(find_row(page, third).get_by_role("link")).to_be_focused()


def test_the_place_in_the_list_is_told_where_it_is_known(visit: Visits, site: Site, desk: Desk) -> None:
    first = ask("Single 1", due="1h")
    ask_alike(5)
    last = ask("Single 2", due="20h")
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    expect(find_detail(page, first).locator("[data-position]")).to_have_text("1 of 7")
    page.keyboard.press("j")
    expect(find_detail(page, last).locator("[data-position]")).to_have_text("7 of 7")
    for number in range(46):
        ask(f"Thing {number:02d}", due=f"{number + 30}h", why=f"Because {number}")
    page.goto("/approvals/")
    page.get_by_role("link", name="Show the next ones").click()
    page.wait_for_url("**after=**")
    page.keyboard.press("j")
    detail = page.locator("#detail[data-id]")
    expect(detail).to_be_visible()
    expect(detail.locator("[data-position]")).to_have_text("")
