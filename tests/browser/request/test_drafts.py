"""Nothing that is typed is lost: by going on, by a reload, by errors, by a site that fails, by a login that is over."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from approvals.actions.actions import comment
from approvals.models import Comment, Vote
from examples.models import Supplier
from tests.support.browser.judges import check_axe, check_page
from tests.support.browser.news import wait_for_news
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits, wait_for_held
from tests.support.browser.world import (
    PHONE,
    Desk,
    ask_form,
    ask_high,
    ask_three,
    find_detail,
    find_row,
    make_neighbours,
    open_one,
)
from tests.support.browser.world import read_again as again
from workflows.testing import assert_done


def read_kept(page: Page) -> str:
    """Whatever this browser keeps."""
    kept: str = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie])")
    return kept


def test_a_draft_comes_back_and_is_gone_once_it_was_sent(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    open_one(page, first).get_by_label("Reason", exact=True).fill("Half a reason")
    open_one(page, second).get_by_label("Your comment").fill("Half a comment")
    expect(open_one(page, first).get_by_label("Reason", exact=True)).to_have_value("Half a reason")
    page.reload()
    detail = open_one(page, second)
    expect(detail.get_by_label("Your comment")).to_have_value("Half a comment")
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("")
    detail.get_by_role("button", name="Comment").click()
    expect(detail.locator(".timeline")).to_contain_text("Half a comment")
    expect(detail.get_by_label("Your comment")).to_have_value("")
    detail = open_one(page, first)
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("Half a reason")
    detail.get_by_role("button", name="Approve").click()
    expect(page.locator("#toast")).to_be_visible()
    expect(find_detail(page, second)).to_be_visible()
    assert "Half a" not in read_kept(page)
    assert Vote.objects.get().reason == "Half a reason"
    # Undone, it is asked anew; and nothing from before is sent by accident.
    page.keyboard.press("u")
    expect(find_detail(page, first).get_by_label("Reason", exact=True)).to_have_value("")


def test_rows_that_were_added_come_back_too(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_form()
    other, *_ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    detail = open_one(page, review)
    detail.get_by_label("Amount").fill("40")
    detail.get_by_role("button", name="Add a row").click()
    parts = detail.get_by_label("Part", exact=True)
    expect(parts).to_have_count(2)
    parts.nth(0).fill("KX-1")
    parts.nth(1).fill("KX-2")
    open_one(page, other)
    page.reload()
    detail = open_one(page, review)
    parts = detail.get_by_label("Part", exact=True)
    expect(parts).to_have_count(2)
    expect(parts.nth(1)).to_have_value("KX-2")
    expect(detail.get_by_label("Amount")).to_have_value("40")
    detail.get_by_role("button", name="Approve").click()
    expect(page.locator("#toast")).to_be_visible()
    site.pass_time("10s")
    data = {"amount": 40, "lines": [{"part": "KX-1"}, {"part": "KX-2"}]}
    assert_done(review.instance, {"outcome": "approve", "reason": "", "data": data})


def test_rows_that_were_added_on_its_own_page_come_back_too(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_form()
    page = visit(desk.maya, **PHONE)
    page.goto(f"/approvals/{review.pk}/")
    page.get_by_role("button", name="Add a row").tap()
    parts = page.get_by_label("Part", exact=True)
    expect(parts).to_have_count(2)
    parts.nth(0).fill("KX-1")
    parts.nth(1).fill("KX-2")
    page.get_by_role("link", name="Back").first.tap()
    expect(find_row(page, review)).to_be_visible()
    held: list[Route] = []
    page.route(
        f"**/approvals/{review.pk}/**",
        lambda route: held.append(route) if route.request.method == "POST" else route.continue_(),
    )
    find_row(page, review).get_by_role("link").tap()
    # As long as they have not come, nothing that is typed drives them out of the draft.
    page.get_by_label("Amount").fill("4")
    page.wait_for_load_state()
    wait_for_held(page, held)
    page.get_by_role("link", name="Back").first.tap()
    expect(find_row(page, review)).to_be_visible()
    page.unroute_all()
    find_row(page, review).get_by_role("link").tap()
    expect(parts).to_have_count(2)
    expect(parts.nth(1)).to_have_value("KX-2")
    expect(page.get_by_label("Amount")).to_have_value("4")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    site.pass_time("10s")
    data = {"amount": 4, "lines": [{"part": "KX-1"}, {"part": "KX-2"}]}
    assert_done(review.instance, {"outcome": "approve", "reason": "", "data": data})


def test_who_was_chosen_to_hand_it_on_to_is_still_chosen(visit: Visits, site: Site, desk: Desk) -> None:
    make_neighbours(desk.maya, desk.priya)
    first, second, _ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    detail = open_one(page, first)
    page.keyboard.press("g")
    to = detail.get_by_label("Hand it on to")
    expect(to).to_contain_text("Priya Nair")
    to.select_option("priya")
    detail.get_by_label("A word to them").fill("You know him")
    open_one(page, second)
    open_one(page, first)
    detail.locator("summary", has_text="Delegate").click()
    expect(to).to_contain_text("Choose somebody")
    expect(to).to_contain_text("Priya Nair")
    expect(to).to_have_value("priya")
    expect(to.locator("option[value=priya]")).to_have_count(1)
    detail.get_by_role("button", name="Hand it on").click()
    expect(page.locator("#say")).to_contain_text("Handed on.")
    assert again(first).candidates.filter(principal=f"user:{desk.priya.pk}").exists()


def test_what_is_typed_before_the_scripts_have_come_is_newer_than_the_draft(
    visit: Visits, site: Site, desk: Desk
) -> None:
    first, *_ = ask_three()
    page = visit(desk.maya)
    page.goto(f"/approvals/{first.pk}/")
    page.get_by_label("Reason", exact=True).fill("Before")
    page.get_by_label("Your comment").fill("Half a word")
    held: list[Route] = []
    page.route("**/drafts.js", lambda route: held.append(route))
    page.reload(wait_until="commit")
    page.get_by_label("Reason", exact=True).fill("After")
    wait_for_held(page, held)
    held[0].continue_()
    expect(page.get_by_label("Your comment")).to_have_value("Half a word")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("After")


def test_a_draft_is_its_authors_alone(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    open_one(page, first).get_by_label("Your comment").fill("Ben is not to read this")
    mine = page.context.cookies()
    bens = visit(desk.ben).context.cookies()
    page.context.clear_cookies()
    page.context.add_cookies(bens)  # type: ignore[arg-type]
    page.goto(f"/approvals/{first.pk}/")
    expect(page.get_by_label("Your comment")).to_have_value("")
    page.context.add_cookies(mine)  # type: ignore[arg-type]
    page.goto(f"/approvals/{first.pk}/")
    expect(page.get_by_label("Your comment")).to_have_value("Ben is not to read this")


def test_a_browser_that_keeps_nothing_keeps_it_as_long_as_the_page(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = visit(desk.maya)
    page.add_init_script(
        "Object.defineProperty(window, 'sessionStorage', {get() { throw new DOMException('no', 'SecurityError') }})"
    )
    page.clock.install()
    page.goto("/approvals/")
    open_one(page, first).get_by_label("Reason", exact=True).fill("Half a reason")
    open_one(page, second)
    expect(open_one(page, first).get_by_label("Reason", exact=True)).to_have_value("Half a reason")
    page.get_by_label("Reason", exact=True).fill("")
    page.locator("#list-title").click()
    # Nor is that told as a lost connection.
    comment(again(first), "The bank says no", actor=desk.lena)
    for _ in range(3):
        wait_for_news(page)
    expect(find_detail(page, first)).to_contain_text("The bank says no")
    expect(page.locator("#live-state")).to_have_text("Live")


def test_the_new_version_of_a_page_is_read_without_sending_the_last_form_again(
    visit: Visits, site: Site, desk: Desk
) -> None:
    first, *_ = ask_three()
    page = visit(desk.maya)
    page.clock.install()
    page.goto(f"/approvals/{first.pk}/")
    page.get_by_label("Reason", exact=True).fill("Half a reason")
    page.get_by_label("Your comment").fill("A word")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_role("heading", name="Your comment is there.")).to_be_visible()
    comment(again(first), "The bank says no", actor=desk.lena)
    wait_for_news(page)
    page.get_by_role("button", name="Read the new version").click()
    expect(page.locator(".timeline")).to_contain_text("The bank says no")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("Half a reason")
    assert Comment.objects.filter(text="A word").count() == 1


def test_errors_are_at_their_fields_in_the_pane(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 422")
    review = ask_form()
    page = visit(desk.maya, theme="dark")
    page.goto("/approvals/")
    detail = open_one(page, review)
    detail.get_by_label("Reason", exact=True).fill("Seen")
    detail.get_by_label("Pieces").fill("many")
    detail.get_by_role("button", name="Approve").click()
    expect(detail.get_by_role("alert")).to_be_focused()
    expect(detail.get_by_label("Amount")).to_have_attribute("aria-invalid", "true")
    expect(detail.get_by_label("Pieces")).to_have_value("many")
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("Seen")
    check_axe(page)
    shoot(page, "inbox-form-errors", whole=False)
    detail.get_by_role("alert").get_by_role("link", name="Amount").click()
    expect(detail.get_by_label("Amount")).to_be_focused()
    expect(detail.get_by_label("Amount")).to_be_in_viewport()
    assert Vote.objects.count() == 0


def test_a_password_is_never_kept(visit: Visits, site: Site, desk: Desk, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    visit.allow("status of 403")
    desk.maya.set_password("maya's own")
    desk.maya.save()
    review = ask_high()
    page = visit(desk.maya)
    page.goto("/approvals/")
    detail = open_one(page, review)
    reason, password = detail.get_by_label("Reason", exact=True), detail.get_by_label("Your password")
    reason.fill("Called them")
    password.press_sequentially("another one")
    assert "Called them" in read_kept(page)
    assert "another one" not in read_kept(page)
    detail.get_by_role("button", name="Approve").click()
    expect(detail.get_by_text("That is not your password. Nothing was decided.")).to_be_visible()
    expect(password).to_have_value("")
    expect(password).to_be_focused()
    expect(reason).to_have_value("Called them")
    check_axe(page)
    password.press_sequentially("maya's own")
    detail.get_by_role("button", name="Approve").click()
    expect(find_row(page, review)).to_contain_text("“Approve” by Maya Lindqvist")
    assert "maya's own" not in read_kept(page)


def test_what_changed_meanwhile_is_shown_and_nothing_is_decided(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 409")
    review = ask_high()
    page = visit(desk.maya, theme="dark")
    page.goto("/approvals/")
    detail = open_one(page, review)
    detail.get_by_label("Reason", exact=True).fill("Called them")
    Supplier.objects.update(account="IE99 NEWB 0001")
    expect(detail.get_by_label("I have looked at what changes")).to_be_checked()
    detail.get_by_role("button", name="Approve").click()
    expect(detail.get_by_text("Changed since you opened it")).to_be_visible()
    expect(detail.locator(".banner").first).to_be_focused()
    expect(detail.locator(".banner").first).to_contain_text("IE99 NEWB 0001")
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("Called them")
    check_axe(page)
    shoot(page, "inbox-stale", whole=False)
    assert Vote.objects.count() == 0


@pytest.mark.parametrize("way", ["500", "offline", "401"])
def test_a_decision_that_does_not_arrive_is_still_there(visit: Visits, site: Site, desk: Desk, way: str) -> None:
    visit.allow("status of (500|401)|ERR_INTERNET_DISCONNECTED|htmx.min.js")  # htmx tells of each, too
    first, *_ = ask_three()
    page = visit(desk.maya, theme="light" if way == "500" else "dark")
    page.goto("/approvals/")
    detail = open_one(page, first)
    cookies = page.context.cookies()
    detail.get_by_label("Reason", exact=True).fill("I have my reasons")
    if way == "500":
        page.route(f"**/approvals/{first.pk}/", lambda route: route.fulfill(status=500, body="<h1>Server Error</h1>"))
    elif way == "offline":
        page.context.set_offline(True)
    else:
        page.context.clear_cookies(name="sessionid")
    detail.get_by_role("button", name="Approve").click()
    banner = detail.get_by_role("alert")
    expect(banner).to_be_focused()
    expect(banner).to_contain_text("no longer logged in" if way == "401" else "what you typed is all here")
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("I have my reasons")
    check_axe(page, within="" if way == "500" else "#detail")
    shoot(page, f"inbox-failed-{way}", whole=False)
    assert Vote.objects.count() == 0
    page.unroute_all()
    page.context.set_offline(False)
    page.context.add_cookies(cookies)  # type: ignore[arg-type]  # as if logged in again in another tab
    detail.get_by_role("button", name="Approve").click()
    expect(page.locator("#toast")).to_be_visible()
    assert Vote.objects.get().reason == "I have my reasons"


def test_an_ended_session_leads_from_a_page_of_its_own_to_the_login_and_back(
    visit: Visits, site: Site, desk: Desk
) -> None:
    visit.allow("status of 401")
    desk.maya.set_password("hers")
    desk.maya.save()
    first, *_ = ask_three()
    page = visit(desk.maya, **PHONE)
    page.goto(f"/approvals/{first.pk}/?view=today")
    page.get_by_label("Reason", exact=True).fill("I have my reasons")
    page.context.clear_cookies(name="sessionid")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("heading", level=1, name="You are no longer logged in")).to_be_visible()
    expect(page.get_by_text("I have my reasons")).to_be_visible()
    check_page(page)
    shoot(page, "request-logged-out-phone", whole=False)
    page.get_by_role("link", name="Log in again").tap()
    page.get_by_label("Name").fill("maya")
    page.get_by_label("Password").fill("hers")
    page.get_by_role("button", name="Sign in").tap()
    expect(page).to_have_url(f"{site.url}/approvals/{first.pk}/?view=today")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("I have my reasons")
    assert Vote.objects.count() == 0


def test_waiting_failing_and_an_address_of_one_of_them(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 500")
    first, second, third = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    held: list[Route] = []
    page.route(f"**/approvals/{first.pk}/", lambda route: held.append(route))
    find_row(page, first).get_by_role("link").click()
    expect(page.locator("#detail [aria-busy=true]")).to_be_visible()
    expect(page.locator("#detail")).to_contain_text("Refund €64.00 to K. Oduya")
    check_axe(page)
    shoot(page, "inbox-loading", whole=False)
    wait_for_held(page, held)
    # Whoever goes on meanwhile sees what they went to, and never what comes late.
    expect(open_one(page, second)).to_be_visible()
    held[0].continue_()
    expect(find_detail(page, second)).to_be_visible()
    page.route(f"**/approvals/{third.pk}/", lambda route: route.fulfill(status=500, body="<h1>Server Error</h1>"))
    find_row(page, third).get_by_role("link").click()
    expect(page.locator("#detail").get_by_role("alert")).to_contain_text("This request could not be loaded")
    check_axe(page)
    shoot(page, "inbox-failed", whole=False)
    page.unroute_all()
    page.locator("#detail").get_by_role("button", name="Try again").click()
    expect(find_detail(page, third)).to_be_visible()
    assert json.loads(page.evaluate("JSON.stringify(location.hash)")) == f"#{third.pk}"
    page.reload()
    expect(find_detail(page, third)).to_be_visible()
    assert again(first).open
