"""One's own decision once it is made: how long it can be undone, and that nobody is warned of it themselves."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from approvals.actions import actions
from tests.support.browser.news import open_inbox, wait_for_news
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import PHONE, Desk, ask, ask_alike, ask_three, find_detail, find_row
from tests.support.browser.world import read_again as again
from workflows.testing import assert_done

# --- one's own decision -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["key", "mouse", "typing", "page", "phone"])
def test_nobody_is_warned_of_what_they_decided_themselves(visit: Visits, site: Site, desk: Desk, how: str) -> None:
    review = ask("Refund A", due="2h")
    page = visit(desk.maya, **(PHONE if how == "phone" else {}))
    page.clock.install()
    if how in ("page", "phone"):
        page.goto(f"/approvals/{review.pk}/")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("button", name="Undo")).to_be_visible()
    else:
        page.goto("/approvals/")
        find_row(page, review).get_by_role("link").click()
        expect(find_detail(page, review)).to_be_visible()
        if how == "key":
            page.keyboard.press("a")
        else:
            find_detail(page, review).get_by_role("button", name="Approve").click()
        expect(find_detail(page, review).get_by_role("button", name="Undo")).to_be_visible()
        expect(find_row(page, review)).to_contain_text("“Approve” by Maya Lindqvist")
    if how == "typing":
        page.get_by_label("Your comment").press_sequentially("Half a wo")
    site.pass_time("10s")
    wait_for_news(page)
    expect(page.locator(".banner")).to_have_count(1)
    expect(page.locator(".banner")).to_contain_text("You approved this today at")
    expect(page.get_by_text("Changed since you opened it")).to_have_count(0)
    expect(page.locator("#say")).not_to_contain_text("Changed since")
    if how == "typing":
        page.keyboard.type("rd")
        expect(page.get_by_label("Your comment")).to_have_value("Half a word")
    # It is known now: nothing is said with the next news either.
    actions.comment(again(review), "Thank you", actor=desk.ben)
    wait_for_news(page)
    page.wait_for_timeout(100)
    expect(page.get_by_text("Changed since you opened it")).to_have_count(0)


def test_another_s_act_in_between_is_told_all_the_same(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask("Refund A", due="2h")
    page = open_inbox(visit, desk.maya, f"/approvals/{review.pk}/")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    actions.withdraw(again(review), actor=desk.ben)
    wait_for_news(page)
    expect(page.locator(".banner")).to_contain_text("withdr")


@pytest.mark.parametrize("where", ["page", "together"])
def test_when_it_takes_effect_nothing_offers_to_undo_it(visit: Visits, site: Site, desk: Desk, where: str) -> None:
    reviews = ask_alike(2)
    page = open_inbox(visit, desk.maya)
    if where == "page":
        page.goto(f"/approvals/{reviews[0].pk}/")
    else:
        page.goto("/approvals/bulk/?" + "&".join(f"pick={one.pk}" for one in reviews))
    page.get_by_role("button", name="Approve").click()
    undo = page.get_by_role("button", name="Undo")
    banner = page.locator("[data-undo-until]")
    expect(banner).to_contain_text("it can be undone")
    undo.focus()
    page.clock.run_for(9_000)
    expect(undo).to_be_hidden()
    expect(banner).to_contain_text("It takes effect now.")
    expect(banner).not_to_contain_text("it can be undone")
    assert page.evaluate("document.activeElement !== document.body")


# --- undo -------------------------------------------------------------------------------------------------


def test_undo_counts_down_and_is_over_when_it_is_over(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, third = ask_three()
    page = open_inbox(visit, desk.maya)
    page.keyboard.press("j")
    expect(find_detail(page, first)).to_be_visible()
    page.clock.pause_at(page.evaluate("Date.now() / 1000") + 60)
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
