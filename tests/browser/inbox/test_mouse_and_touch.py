"""The inbox by mouse, by finger on a phone, and with nothing but pages and forms."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from approvals.models import Comment, SavedView, Snooze, Vote
from tests.support.browser.judges import check_page
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    PHONE,
    Desk,
    ask_acme,
    ask_alike,
    ask_form,
    ask_high,
    ask_three,
    find_detail,
    find_row,
)
from tests.support.browser.world import read_again as again
from workflows.testing import assert_done


def open_menu(page: Page, name: str) -> None:
    page.locator("summary", has_text=name).first.click()


# --- mouse --------------------------------------------------------------------------------------------------


def test_by_mouse(visit: Visits, site: Site, desk: Desk) -> None:
    acme = ask_acme()
    first, second, third = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    find_row(page, first).click()
    detail = find_detail(page, first)
    detail.get_by_role("button", name="Claim").click()
    expect(detail).to_contain_text("Maya Lindqvist has claimed this")
    expect(find_row(page, first)).to_contain_text("has claimed it")
    detail.get_by_role("button", name="Release").click()
    expect(detail.get_by_role("button", name="Claim")).to_be_visible()
    open_menu(page, "Reject")
    expect(detail.get_by_role("button", name="No receipt")).to_be_visible()
    page.locator("#list-title").click()
    expect(detail.get_by_role("button", name="No receipt")).to_be_hidden()
    open_menu(page, "Reject")
    detail.get_by_role("button", name="No receipt").click()

    detail = find_detail(page, second)
    expect(detail).to_be_visible()
    open_menu(page, "Snooze")
    detail.get_by_role("button", name="Tomorrow").click()
    detail = find_detail(page, third)
    expect(detail).to_be_visible()
    # What was decided is passed by: before this one nothing is left, once the list has heard of it.
    expect(find_row(page, second)).to_have_count(0)
    detail.get_by_role("button", name="Previous request").click()
    detail.get_by_role("button", name="Next request").click()

    detail = find_detail(page, acme)
    expect(detail).to_contain_text("0 of 2 approved")
    open_menu(page, "Approve because")
    detail.get_by_role("button", name="Our mistake").click()
    expect(page.locator("#say")).to_contain_text("Others still have to decide.")
    assert Vote.objects.get(review=acme).reason == "Our mistake"
    assert Snooze.objects.filter(review=second, user=desk.maya).exists()
    page.get_by_role("link", name="Snoozed 1").click()
    find_row(page, second).click()
    detail = find_detail(page, second)
    detail.get_by_role("button", name="Take it up again").click()
    expect(detail.get_by_role("button", name="Take it up again")).to_be_hidden()
    detail.get_by_role("link", name="Open as a page").click()
    expect(page.get_by_role("heading", level=1, name="Refund €86.40 to J. Marsh")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    site.pass_time("10s")
    assert_done(second.instance, {"outcome": "approve", "reason": "", "data": None})


def test_filters_narrow_the_list_and_are_kept_as_a_view(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    risky = ask_high()
    page = visit(desk.maya)
    page.goto("/approvals/")
    open_menu(page, "Risk")
    page.get_by_role("link", name="High", exact=True).click()
    expect(page).to_have_url(f"{site.url}/approvals/?risk=high")
    expect(find_row(page, risky)).to_be_visible()
    expect(find_row(page, first)).to_have_count(0)
    check_page(page)
    open_menu(page, "Keep")
    page.get_by_label("Keep this list in the rail as").fill("Careful")
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("navigation", name="Views").get_by_role("link", name="Careful 1 waiting")).to_be_visible()
    page.get_by_role("link", name="Waiting for me").click()
    page.get_by_role("searchbox").fill("linden coffee")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("#rows .request[data-id]")).to_have_count(1)
    page.get_by_role("searchbox").fill("nothing like it")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_text("Nothing here matches")).to_be_visible()
    check_page(page)
    page.get_by_role("link", name="Clear the filters").click()
    expect(page.locator("#rows .request[data-id]")).to_have_count(4)


# --- a finger -------------------------------------------------------------------------------------------------


def test_by_finger_on_a_phone(visit: Visits, site: Site, desk: Desk) -> None:
    acme = ask_acme()
    first, second, _ = ask_three()
    page = visit(desk.maya, **PHONE)
    page.goto("/approvals/")
    find_row(page, first).get_by_role("link").tap()
    expect(page.get_by_role("heading", level=1, name="Refund €64.00 to K. Oduya")).to_be_visible()
    approve = page.get_by_role("button", name="Approve")
    # The bar is under the thumb, wherever one has scrolled to.
    expect(approve).to_be_in_viewport(ratio=1)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(approve).to_be_in_viewport(ratio=1)
    expect(page.get_by_role("button", name="Comment")).to_be_in_viewport(ratio=1)
    assert page.locator("kbd:visible").count() == 0
    page.locator("summary", has_text="Reject").tap()
    check_page(page)  # list and request as they open: `test_a_day_on_a_phone`
    expect(page.get_by_role("button", name="No receipt")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="No receipt").tap()
    expect(page.get_by_role("status").first).to_contain_text("You answered “Reject”")
    check_page(page)
    page.get_by_role("button", name="Undo").tap()
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    assert again(first).outcome == ""
    approve.tap()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.get_by_role("link", name="Back to the list").tap()
    expect(find_row(page, second)).to_be_visible()

    find_row(page, acme).get_by_role("link").tap()
    for menu in ("Delegate", "Snooze", "More", "Ask", "Approve because"):
        summary = page.locator("summary", has_text=menu).first
        summary.tap()
        check_page(page, within="details[open] > .menu-panel")
        summary.tap()
    site.pass_time("10s")
    assert_done(first.instance, {"outcome": "approve", "reason": "", "data": None})


def test_a_form_with_rows_on_a_phone(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 422")
    review = ask_form()
    page = visit(desk.maya, **PHONE)
    page.goto(f"/approvals/{review.pk}/")
    check_page(page)
    page.get_by_role("button", name="Add a row").tap()
    page.get_by_label("Part", exact=True).nth(1).fill("KX-2")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("alert")).to_be_focused()
    check_page(page)
    page.get_by_role("alert").get_by_role("link", name="Amount").tap()
    expect(page.get_by_label("Amount")).to_be_focused()
    page.get_by_label("Amount").fill("3")
    page.get_by_label("Part", exact=True).nth(0).fill("KX-1")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    site.pass_time("10s")
    data = {"amount": 3, "lines": [{"part": "KX-1"}, {"part": "KX-2"}]}
    assert_done(review.instance, {"outcome": "approve", "reason": "", "data": data})


# --- pages and forms alone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("phone", [False, True])
def test_without_scripts(visit: Visits, site: Site, desk: Desk, phone: bool) -> None:
    first, second, third = ask_three()
    page = visit(desk.maya, javascript=False, **(PHONE if phone else {}))
    page.goto("/approvals/")
    find_row(page, first).get_by_role("link").click()
    page.get_by_role("button", name="Claim").click()
    expect(page.get_by_role("button", name="Release")).to_be_visible()
    page.get_by_label("Your comment").fill("A word")
    page.get_by_role("button", name="Comment").click()
    expect(page.locator(".timeline")).to_contain_text("A word")
    assert Comment.objects.filter(review=first).count() == 1
    open_menu(page, "Reject")
    page.get_by_role("button", name="Not in the budget").click()
    expect(page.get_by_role("status").first).to_contain_text("You answered “Reject”")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    assert again(first).outcome == ""
    open_menu(page, "Reject")
    page.get_by_label("Another reason").fill("Typed without a script")
    page.locator("details[open]").get_by_role("button", name="Reject", exact=True).click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    page.get_by_role("link", name="Back to the list").click()

    find_row(page, second).get_by_role("link").click()
    open_menu(page, "Ask")
    page.get_by_label("Your question to Ben Okafor").fill("Which account?")
    page.get_by_role("button", name="Send the question").click()
    expect(page.locator(".timeline")).to_contain_text("Which account?")
    open_menu(page, "Delegate")
    page.get_by_label("Or by their login name").fill("priya")
    page.get_by_role("button", name="Hand it on").click()
    expect(page.locator(".timeline")).to_contain_text("Priya Nair")

    page.goto(f"/approvals/{third.pk}/")
    open_menu(page, "Snooze")
    page.get_by_role("button", name="Tomorrow").click()
    expect(page.get_by_role("button", name="Take it up again")).to_be_visible()
    assert Snooze.objects.filter(review=third, user=desk.maya).exists()
    page.get_by_role("button", name="Approve").click()
    site.pass_time("10s")
    assert_done(first.instance, {"outcome": "reject", "reason": "Typed without a script", "data": None})
    assert_done(third.instance, {"outcome": "approve", "reason": "", "data": None})


def test_lists_without_scripts(visit: Visits, site: Site, desk: Desk) -> None:
    alike = ask_alike(4)
    first, *_ = ask_three()
    page = visit(desk.maya, javascript=False)
    page.goto("/approvals/")
    open_menu(page, "Workflow")
    page.get_by_role("link", name="Small refund").click()
    expect(find_row(page, first)).to_have_count(0)
    open_menu(page, "Keep")
    page.get_by_label("Keep this list in the rail as").fill("Small ones")
    page.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("link", name="Small ones 4 waiting")).to_be_visible()
    assert SavedView.objects.get().name == "Small ones"
    page.get_by_role("searchbox").fill("novak")
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("#rows .request[data-id]")).to_have_count(1)
    page.get_by_role("link", name="Small ones").click()
    page.locator("#rows summary").click()
    for one in alike[:2]:
        find_row(page, one).get_by_role("checkbox").check()
    page.get_by_role("button", name="Decide together").click()
    expect(page.get_by_role("row").get_by_role("checkbox", checked=True)).to_have_count(2)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("button", name="Undo all 2")).to_be_visible()
    page.get_by_role("button", name="Undo all 2").click()
    expect(page.get_by_role("button", name="Undo all 2")).to_be_hidden()
    assert not any(again(one).outcome for one in alike)
    page.goto("/approvals/")
    page.get_by_role("button", name="Theme: system").click()
    expect(page.locator("html[data-theme=light]")).to_have_count(1)
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
