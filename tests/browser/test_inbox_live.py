"""What happens on the page while it is open: others decide, look and ask; time runs out; the way back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from approvals import actions, decide
from approvals.models import Vote
from tests.browser.judging import check_axe
from tests.browser.picturing import shoot
from tests.browser.served import Site
from tests.browser.visiting import Visits
from tests.browser.world import Desk, ask, ask_alike, ask_high, ask_three, find_detail, find_row, make_desk
from tests.browser.world import read_again as again
from workflows.testing import assert_done

pytestmark = [pytest.mark.browser, pytest.mark.django_db]


@pytest.fixture(name="desk")
def make_a_desk(site: Site) -> Desk:
    return make_desk()


def wait_for_news(page: Page) -> None:
    """Let the page's clock go on until it has asked again."""
    with page.expect_response("**/approvals/live/**"):
        page.clock.fast_forward(5_100)


def open_inbox(visit: Visits, user: object, address: str = "/approvals/") -> Page:
    page = visit(user)
    page.clock.install()
    page.goto(address)
    return page


def test_what_another_decides_turns_grey_and_nothing_moves(visit: Visits, site: Site, desk: Desk) -> None:
    _, second, third = ask_three()
    maya, lena = open_inbox(visit, desk.maya), visit(desk.lena)
    find_row(maya, second).click()
    expect(find_detail(maya, second)).to_be_visible()
    reason = find_detail(maya, second).get_by_label("Reason", exact=True)
    reason.fill("Half a sentence")
    place = reason.bounding_box()

    lena.goto("/approvals/")
    find_row(lena, second).click()
    expect(find_detail(lena, second)).to_contain_text("Maya Lindqvist is looking")
    wait_for_news(maya)
    expect(find_detail(maya, second)).to_contain_text("Lena Fischer is looking")
    expect(find_row(maya, second)).to_contain_text("Lena is looking")
    find_detail(lena, second).get_by_role("button", name="Approve").click()
    expect(lena.locator("#toast")).to_be_visible()
    site.pass_time("10s")

    wait_for_news(maya)
    row = find_row(maya, second)
    expect(row).to_contain_text("“Approve” by Lena Fischer, Today")
    expect(row).to_have_class(re.compile("request-decided"))
    expect(maya.locator("#count")).to_have_text("2")
    expect(maya).to_have_title("2 · Waiting for me · Holdpoint")
    expect(maya.get_by_role("link", name="Waiting for me 2 waiting")).to_be_visible()
    banner = find_detail(maya, second).locator("[data-changed]")
    expect(banner).to_contain_text("Changed since you opened it")
    expect(reason).to_be_focused()
    expect(reason).to_have_value("Half a sentence")
    assert place is not None
    check_axe(maya)
    shoot(maya, "inbox-changed", whole=False)
    # Whoever sends it all the same reads who was first, and keeps what they wrote.
    visit.allow("status of 410")
    find_detail(maya, second).get_by_role("button", name="Approve").click()
    detail = find_detail(maya, second)
    expect(detail).to_contain_text("Lena Fischer approved this today at")
    expect(detail).to_contain_text("Half a sentence")
    check_axe(maya)
    shoot(maya, "inbox-late", whole=False)
    assert Vote.objects.count() == 1
    # What was decided leaves the list after a while, and j goes on with what waits.
    maya.locator(".detail-scroll").focus()
    maya.keyboard.press("j")
    expect(find_detail(maya, third)).to_be_visible()


def test_the_open_request_says_that_it_changed(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    page = open_inbox(visit, desk.maya)
    find_row(page, first).click()
    detail = find_detail(page, first)
    detail.get_by_label("Your comment").fill("I was about to")
    actions.comment(again(first), "The bank says no", actor=desk.lena)
    actions.claim(again(first), actor=desk.lena)
    wait_for_news(page)
    banner = detail.locator("[data-changed]")
    expect(banner).to_be_visible()
    # It is not for Maya to decide any more; it stays where it is, and says who has it.
    expect(find_row(page, first)).to_contain_text("Lena has claimed it")
    banner.get_by_role("button", name="Read the new version").click()
    expect(detail).to_contain_text("The bank says no")
    expect(detail.locator("[data-changed]")).to_have_count(0)
    expect(detail.get_by_label("Your comment")).to_have_value("I was about to")


def test_an_untouched_request_is_read_anew_by_itself(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    page = open_inbox(visit, desk.maya)
    find_row(page, first).click()
    expect(find_detail(page, first)).to_be_visible()
    find_row(page, first).get_by_role("link").focus()
    decide(again(first), "reject", actor=desk.lena, reason="Twice the same")
    wait_for_news(page)
    expect(find_detail(page, first)).to_contain_text("Twice the same")
    expect(find_row(page, first).get_by_role("link")).to_be_focused()


def test_a_new_request_appears_and_is_announced(visit: Visits, site: Site, desk: Desk) -> None:
    page = open_inbox(visit, desk.maya)
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    review = ask("Refund €64.00 to K. Oduya", due="1h")
    site.go_on()
    wait_for_news(page)
    row = find_row(page, review)
    expect(row).to_be_visible()
    expect(page.locator("#count")).to_have_text("1")
    expect(page.get_by_role("link", name="Waiting for me 1 waiting")).to_be_visible()
    expect(page.locator("#live-state")).to_have_text("Live")
    expect(page.locator("#say")).to_contain_text("K. Oduya")
    page.keyboard.press("j")
    expect(find_detail(page, review)).to_be_visible()
    # The focus stays on its row while others come before it.
    soon = ask("Refund €9.00 to A. Novak", due="10m")
    risky = ask_high(due="5m")
    wait_for_news(page)
    expect(find_row(page, soon)).to_be_visible()
    expect(find_row(page, risky)).to_be_visible()
    expect(row.get_by_role("link")).to_be_focused()
    assert page.locator("#rows .request").evaluate_all("(rows) => rows.map((one) => one.dataset.id)") == [
        str(one.pk) for one in (risky, soon, review)
    ]


def test_an_open_group_and_what_is_ticked_stay(visit: Visits, site: Site, desk: Desk) -> None:
    alike = ask_alike(4)
    page = open_inbox(visit, desk.maya)
    page.locator("#rows summary").click()
    find_row(page, alike[1]).get_by_role("checkbox").check()
    decide(again(alike[0]), "approve", actor=desk.lena)
    wait_for_news(page)
    expect(page.locator("#rows")).to_contain_text("3 × Small refund")
    expect(find_row(page, alike[1])).to_be_visible()
    expect(find_row(page, alike[1]).get_by_role("checkbox")).to_be_checked()
    expect(page.get_by_text("1 selected.")).to_be_visible()
    expect(find_row(page, alike[0])).to_contain_text("“Approve” by Lena Fischer")


def test_a_page_that_lost_the_connection_says_so(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("ERR_INTERNET_DISCONNECTED")
    first, *_ = ask_three()
    page = open_inbox(visit, desk.maya)
    wait_for_news(page)
    expect(page.locator("#live-state")).to_have_text("Live")
    page.context.set_offline(True)
    for seconds in (6, 11):
        with page.expect_event("requestfailed"):
            page.clock.fast_forward(seconds * 1000)
    expect(page.locator("#live-state")).to_have_text("Offline")
    expect(page.locator("#say")).to_contain_text("The connection is gone.")
    expect(find_row(page, first)).to_be_visible()
    check_axe(page)
    shoot(page, "inbox-offline", whole=False)
    page.context.set_offline(False)
    expect(page.locator("#live-state")).to_have_text("Live")
    expect(page.locator("#say")).to_have_text("Connected again.")


# --- undo -------------------------------------------------------------------------------------------------


def test_undo_counts_down_and_is_over_when_it_is_over(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, third = ask_three()
    page = open_inbox(visit, desk.maya)
    page.keyboard.press("j")
    expect(find_detail(page, first)).to_be_visible()
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))
    with page.expect_response(f"**/approvals/{first.pk}/"):
        page.keyboard.press("a")
    toast = page.locator("#toast")
    expect(toast).to_contain_text("It takes effect in 8 s.")
    page.clock.run_for(3_000)
    expect(toast).to_contain_text("It takes effect in 5 s.")
    expect(find_detail(page, second)).to_be_visible()
    # It still works when one has gone on, by a click as well as by the key.
    page.keyboard.press("j")
    page.clock.run_for(200)
    expect(find_detail(page, third)).to_be_visible()
    shoot(page, "inbox-toast", whole=False)
    toast.get_by_role("button", name="Undo").click()
    expect(find_detail(page, first)).to_be_visible()
    expect(toast).to_contain_text("Undone.")
    assert again(first).outcome == ""
    page.clock.run_for(5_000)
    expect(toast).to_be_hidden()

    page.keyboard.press("a")
    expect(toast).to_contain_text("It takes effect in 8 s.")
    page.clock.run_for(9_000)
    expect(toast).to_be_hidden()
    site.pass_time("10s")
    assert_done(first.instance, {"outcome": "approve", "reason": "", "data": None})
    # There is nothing left to undo, and the key does nothing.
    page.keyboard.press("u")
    assert not again(first).open


def test_two_decisions_are_undone_one_after_the_other(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, third = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    for one, following in ((first, second), (second, third)):
        expect(find_detail(page, one)).to_be_visible()
        page.keyboard.press("a")
        expect(find_detail(page, following)).to_be_visible()
    page.keyboard.press("u")
    expect(find_detail(page, second)).to_be_visible()
    page.keyboard.press("u")
    expect(find_detail(page, first)).to_be_visible()
    assert [again(one).outcome for one in (first, second)] == ["", ""]


def test_whoever_undoes_too_late_is_told(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    visit.allow("status of (403|409|410)")
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    expect(find_detail(page, first)).to_be_visible()
    page.keyboard.press("a")
    expect(find_detail(page, second)).to_be_visible()
    site.pass_time("10s")
    page.keyboard.press("u")
    expect(find_detail(page, first)).to_contain_text("You approved this")
    expect(page.locator("#toast")).to_be_hidden()
    assert not again(first).open
