"""What happens on the page while it is open: others decide, look and ask; time runs out; the way back."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from approvals import decide
from approvals.actions import actions
from approvals.models import Review, SavedView, Vote
from tests.support.browser.judges import check_axe
from tests.support.browser.news import open_inbox, wait_for_news
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    LATE,
    Desk,
    SmallRefund,
    ask,
    ask_acme,
    ask_alike,
    ask_high,
    ask_three,
    find_detail,
    find_row,
)
from tests.support.browser.world import read_again as again


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


def tick(page: Page, review: Review) -> Locator:
    box = find_row(page, review).get_by_role("checkbox")
    box.check(force=True)
    return box


def test_what_is_overdue_moves_up_and_keeps_its_tick_its_mark_and_the_focus(
    visit: Visits, site: Site, desk: Desk
) -> None:
    first, second, third = ask("Refund A", due="2h"), ask("Refund B", due="3h"), ask("Refund C", due="30h")
    page = open_inbox(visit, desk.maya)
    find_row(page, first).get_by_role("link").click()
    expect(find_detail(page, first)).to_be_visible()
    ticks = [tick(page, one) for one in (first, second)]
    link = find_row(page, first).get_by_role("link")
    link.focus()
    site.pass_time("150m")
    wait_for_news(page)
    expect(page.get_by_role("region", name="Overdue").locator(f"[data-id='{first.pk}']")).to_be_visible()
    for one in ticks:
        expect(one).to_be_checked()
    expect(page.get_by_text("2 selected.")).to_be_visible()
    expect(link).to_have_attribute("aria-current", "true")
    expect(link).to_be_focused()
    expect(page.locator("#rows .request[data-id]")).to_have_count(3)
    assert again(third).open


def test_a_group_that_takes_in_what_is_ticked_opens(visit: Visits, site: Site, desk: Desk) -> None:
    alike = ask_alike(2)
    page = open_inbox(visit, desk.maya)
    find_row(page, alike[0]).get_by_role("link").click()
    expect(find_detail(page, alike[0])).to_be_visible()
    ticks = [tick(page, one) for one in alike]
    link = find_row(page, alike[0]).get_by_role("link")
    link.focus()
    request = {"customer": "Z. Zed", "amount": "99.00", "currency": "EUR", "rule": "late, first claim"}
    third = ask("Refund €99.00 to Z. Zed", kind=SmallRefund, why=LATE, due="8h", request=request)
    wait_for_news(page)
    expect(page.locator("#rows summary")).to_contain_text("3 × Small refund")
    expect(find_row(page, third)).to_be_visible()
    for one in ticks:
        expect(one).to_be_checked()
    expect(link).to_have_attribute("aria-current", "true")
    expect(link).to_be_focused()
    # And what falls apart again loses nothing either.
    decide(third, "approve", actor=desk.lena)
    decide(alike[1], "approve", actor=desk.lena)
    wait_for_news(page)
    expect(ticks[0]).to_be_checked()
    expect(link).to_be_focused()


def test_what_is_open_in_a_request_stays_open(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_acme()
    page = open_inbox(visit, desk.maya)
    find_row(page, review).get_by_role("link").click()
    detail = find_detail(page, review)
    detail.locator("summary", has_text="Raw data").click()
    page.evaluate("document.activeElement.blur()")  # as in Safari, where a click gives no focus
    actions.comment(again(review), "The bank says no", actor=desk.lena)
    wait_for_news(page)
    expect(detail.locator("[data-changed]")).to_be_visible()
    assert detail.locator("details.raw").evaluate("(raw) => raw.open")


def test_the_title_keeps_the_whole_name_of_a_list(visit: Visits, site: Site, desk: Desk) -> None:
    ask_three()
    SavedView.objects.create(user=desk.maya, name="Cafés · small", query="q=refund")
    page = open_inbox(visit, desk.maya, "/approvals/?q=refund")
    expect(page).to_have_title("3 · Cafés · small · Holdpoint")
    ask("Refund €9.00 to A. Novak", due="10m")
    wait_for_news(page)
    expect(page).to_have_title("4 · Cafés · small · Holdpoint")


def test_a_page_that_lost_the_connection_says_so(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("ERR_INTERNET_DISCONNECTED")
    first, *_ = ask_three()
    page = open_inbox(visit, desk.maya)
    wait_for_news(page)
    expect(page.locator("#live-state")).to_have_text("Live")
    page.context.set_offline(True)
    for seconds in (6, 11):
        wait_for_news(page, seconds)
    expect(page.locator("#live-state")).to_have_text("Offline")
    expect(page.locator("#say")).to_contain_text("The connection is gone.")
    expect(find_row(page, first)).to_be_visible()
    check_axe(page)
    shoot(page, "inbox-offline", whole=False)
    page.context.set_offline(False)
    expect(page.locator("#live-state")).to_have_text("Live")
    expect(page.locator("#say")).to_have_text("Connected again.")
