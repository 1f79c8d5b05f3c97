"""Answers that come late or not at all: no key decides another request than the one that is read, nothing that is typed
meanwhile is lost, and who has gone on is told what was not taken."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from approvals.actions import actions
from approvals.models import Comment, Review, Vote
from tests.support.browser.judges import check_axe
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits, wait_for_held
from tests.support.browser.world import Desk, ask_acme, ask_three, find_detail, find_row, make_neighbours
from tests.support.browser.world import read_again as again


def open_inbox(visit: Visits, desk: Desk, review: Review, **options: Any) -> Page:
    page = visit(desk.maya, **options)
    # Chromium takes a moment to begin to listen, and what is asked for meanwhile goes by: not later, then.
    page.route("**/nothing", lambda route: route.abort())
    page.goto("/approvals/")
    find_row(page, review).get_by_role("link").click()
    expect(find_detail(page, review)).to_be_visible()
    return page


def hold(page: Page, review: Review, method: str) -> list[Route]:
    """Requests of this kind for it, which wait from now on until they are let go."""
    held: list[Route] = []
    page.route(
        f"**/approvals/{review.pk}/**",
        lambda route: held.append(route) if route.request.method == method else route.continue_(),
    )
    return held


def list_votes() -> list[str]:
    return [vote.review.title for vote in Vote.objects.filter(standing=True).select_related("review")]


def let_go(page: Page, route: Route) -> None:
    """And wait until the page has had time to make something of it."""
    with page.expect_event("requestfinished", lambda request: request == route.request):
        route.continue_()
    page.wait_for_timeout(150)


# --- the pane is for one request --------------------------------------------------------------------------------


def test_what_was_asked_for_before_the_undo_never_takes_its_place(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    held = hold(page, second, "GET")
    page.keyboard.press("a")
    wait_for_held(page, held)
    page.keyboard.press("u")
    expect(find_detail(page, first)).to_be_focused()
    expect(find_row(page, first).get_by_role("link")).to_have_attribute("aria-current", "true")
    held[0].continue_()
    page.wait_for_timeout(150)
    expect(find_detail(page, first)).to_be_visible()
    page.keyboard.press("a")
    expect(page.locator("#toast")).to_contain_text(first.title)
    assert list_votes() == [first.title]


def test_a_late_undo_does_not_take_the_pane_from_what_was_opened_meanwhile(
    visit: Visits, site: Site, desk: Desk
) -> None:
    first, second, third = ask_three()
    page = open_inbox(visit, desk, first)
    page.keyboard.press("a")
    expect(find_detail(page, second)).to_be_visible()
    expect(page.locator("#toast")).to_contain_text(first.title)
    held = hold(page, first, "POST")
    page.keyboard.press("u")
    wait_for_held(page, held)
    # While it is on its way, no key decides what still stands there.
    page.keyboard.press("a")
    find_row(page, third).get_by_role("link").click()
    expect(find_detail(page, third)).to_be_visible()
    let_go(page, held[0])
    expect(page.locator("#toast")).to_contain_text("Undone.")
    expect(find_detail(page, third)).to_be_visible()
    assert list_votes() == []


def test_an_undo_that_does_not_arrive_leaves_everything_as_it_was(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("ERR_FAILED")
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    page.keyboard.press("a")
    detail = find_detail(page, second)
    detail.get_by_label("Reason", exact=True).fill("Half a reason")
    page.keyboard.press("Escape")
    held = hold(page, first, "POST")
    page.keyboard.press("u")
    wait_for_held(page, held)
    held[0].abort()
    expect(detail.get_by_role("alert")).to_be_focused()
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("Half a reason")
    expect(find_row(page, second).get_by_role("link")).to_have_attribute("aria-current", "true")
    page.unroute_all()
    # It can be tried again as long as there is time.
    page.keyboard.press("u")
    expect(find_detail(page, first)).to_be_visible()
    assert list_votes() == []


def test_after_an_undo_the_address_names_what_is_open(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    page.keyboard.press("a")
    expect(find_detail(page, second)).to_be_visible()
    page.keyboard.press("u")
    expect(find_detail(page, first)).to_be_visible()
    page.reload()
    expect(find_detail(page, first)).to_be_visible()


def test_a_late_answer_does_not_take_the_pane_from_what_is_opening(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    comment, opening = hold(page, first, "POST"), hold(page, second, "GET")
    find_detail(page, first).get_by_label("Your comment").fill("A word")
    page.get_by_role("button", name="Comment").click()
    wait_for_held(page, comment)
    find_row(page, second).get_by_role("link").click()
    expect(page.locator("#detail [aria-busy=true]")).to_be_visible()
    let_go(page, comment[0])
    expect(page.locator("#say")).to_contain_text("Your comment is there.")
    expect(find_detail(page, first)).to_have_count(0)
    page.keyboard.press("a")
    let_go(page, opening[0])
    expect(find_detail(page, second)).to_be_visible()
    assert list_votes() == []
    assert Comment.objects.get().text == "A word"


# --- what is on its way -----------------------------------------------------------------------------------------


def test_it_is_seen_that_something_is_on_its_way_and_nothing_typed_then_is_lost(
    visit: Visits, site: Site, desk: Desk
) -> None:
    first, *_ = ask_three()
    page = open_inbox(visit, desk, first)
    detail = find_detail(page, first)
    held = hold(page, first, "POST")
    detail.get_by_label("Reason", exact=True).fill("first")
    detail.get_by_role("button", name="Claim").click()
    wait_for_held(page, held)
    busy = page.locator("#detail > [aria-busy=true]")
    expect(busy).to_have_count(1)
    shown = "(form) => getComputedStyle(form, '::before')"
    assert busy.evaluate(f"{shown}.borderTopStyle") == "solid"
    page.wait_for_function(f"(form) => ({shown})(form).opacity === '1'", arg=busy.element_handle())
    shoot(page, "inbox-on-its-way", whole=False)
    reason = detail.get_by_label("Reason", exact=True)
    reason.click()
    page.keyboard.press("End")
    page.keyboard.type(" second")
    detail.get_by_label("Your comment").fill("third")
    reason.focus()
    let_go(page, held[0])
    expect(detail).to_contain_text("Maya Lindqvist has claimed this")
    expect(page.locator("#detail > [aria-busy=true]")).to_have_count(0)
    expect(reason).to_be_focused()
    page.keyboard.type(" fourth")
    expect(reason).to_have_value("first second fourth")
    expect(detail.get_by_label("Your comment")).to_have_value("third")
    page.reload()
    expect(reason).to_have_value("first second fourth")


def test_the_colleagues_are_asked_for_beside_all_else_and_again_if_they_did_not_come(
    visit: Visits, site: Site, desk: Desk
) -> None:
    make_neighbours(desk.maya, desk.priya)
    visit.allow("ERR_FAILED|htmx.min.js")
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    held: list[Route] = []
    page.route("**/colleagues/**", lambda route: held.append(route))
    page.keyboard.press("g")
    wait_for_held(page, held)
    page.keyboard.press("Escape")
    find_detail(page, first).get_by_role("button", name="Approve").click()
    expect(find_detail(page, second)).to_be_visible()
    assert list_votes() == [first.title]

    page.keyboard.press("g")
    wait_for_held(page, held, 2)
    held[1].abort()
    expect(page.locator("#detail").get_by_role("alert")).to_be_visible()
    page.unroute_all()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    to = find_detail(page, second).get_by_label("Hand it on to")
    expect(to).to_contain_text("Priya Nair")
    # Once is enough.
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.wait_for_timeout(100)
    assert to.locator("option", has_text="Priya Nair").count() == 1


def test_one_stays_where_one_was_after_a_word(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_acme()
    page = open_inbox(visit, desk, review, height=700)
    detail = find_detail(page, review)
    pane = detail.locator(".detail-scroll")
    detail.get_by_label("Your comment").fill("A word at the foot")
    before = pane.evaluate("(pane) => pane.scrollTop")
    assert before > 100
    detail.get_by_role("button", name="Comment").click()
    expect(detail.locator(".timeline")).to_contain_text("A word at the foot")
    expect(detail.get_by_role("button", name="Comment")).to_be_focused()
    expect(detail.get_by_text("A word at the foot")).to_be_in_viewport()
    assert abs(pane.evaluate("(pane) => pane.scrollTop") - before) < 2
    # Sent from its field, keys do something again: it is not the field that has the focus.
    detail.get_by_label("Your comment").fill("Another one")
    page.keyboard.press("Control+Enter")
    expect(detail.locator(".timeline")).to_contain_text("Another one")
    expect(detail.get_by_role("button", name="Comment")).to_be_focused()


def test_what_is_typed_while_a_word_is_on_its_way_is_still_there(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    detail = find_detail(page, first)
    held = hold(page, first, "POST")
    detail.get_by_label("Your comment").fill("A word")
    detail.get_by_role("button", name="Comment").click()
    wait_for_held(page, held)
    detail.get_by_label("Reason", exact=True).fill("Half a reason")
    let_go(page, held[0])
    expect(detail.locator(".timeline")).to_contain_text("A word")
    expect(detail.get_by_label("Your comment")).to_have_value("")
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("Half a reason")
    find_row(page, second).get_by_role("link").click()
    expect(find_detail(page, second)).to_be_visible()
    find_row(page, first).get_by_role("link").click()
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("Half a reason")


# --- who has gone on --------------------------------------------------------------------------------------------


def expect_lost(page: Page, review: Review, told: str) -> Locator:
    lost = page.locator(".toast[role=alert]")
    expect(lost).to_contain_text(review.title)
    expect(lost).to_contain_text(told)
    return lost


@pytest.mark.parametrize("way", ["offline", "refused", "logged out", "failed"])
def test_who_has_gone_on_is_told_what_was_not_taken(visit: Visits, site: Site, desk: Desk, way: str) -> None:
    visit.allow("ERR_FAILED|status of (401|409|500)|htmx.min.js")
    first, second, _ = ask_three()
    page = open_inbox(visit, desk, first)
    page.locator(".detail-scroll").focus()
    if way == "refused":
        actions.claim(again(first), actor=desk.lena)
    find_detail(page, first).get_by_label("Reason", exact=True).fill("I have my reasons")
    page.keyboard.press("Escape")
    held = hold(page, first, "POST")
    page.keyboard.press("a")
    wait_for_held(page, held)
    page.keyboard.press("j")
    detail = find_detail(page, second)
    expect(detail).to_be_visible()
    cookies = page.context.cookies()
    if way == "offline":
        held[0].abort()
        told = "That did not arrive"
    elif way == "refused":
        held[0].continue_()
        told = "Nothing was decided"
    elif way == "failed":
        held[0].fulfill(status=500, body="<h1>Server Error</h1>")
        told = "That did not arrive"
    else:
        page.context.clear_cookies(name="sessionid")
        held[0].continue_(headers={**held[0].request.headers, "cookie": ""})
        told = "You are no longer logged in."
    lost = expect_lost(page, first, told)
    # What is open is not disturbed by it.
    expect(detail).to_be_visible()
    expect(detail.get_by_role("alert")).to_have_count(0)
    check_axe(page, within="" if way == "offline" else ".toast[role=alert]")
    shoot(page, f"inbox-lost-{way.replace(' ', '-')}", whole=False)
    assert list_votes() == []
    page.unroute_all()
    page.context.add_cookies(cookies)  # type: ignore[arg-type]
    lost.get_by_role("link", name="Open").click()
    expect(lost).to_have_count(0)
    detail = find_detail(page, first)
    if way != "refused":
        expect(detail.get_by_label("Reason", exact=True)).to_have_value("I have my reasons")


def test_a_refusal_in_the_pane_is_told_there_alone(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 409")
    first, *_ = ask_three()
    page = open_inbox(visit, desk, first)
    actions.claim(again(first), actor=desk.lena)
    find_detail(page, first).get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Nothing was decided")).to_be_visible()
    expect(page.locator(".toast[role=alert]")).to_have_count(0)
