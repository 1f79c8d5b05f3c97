"""The page of a one-person link in a browser: decided with and without scripts, by mouse and finger, light and dark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from approvals import decide
from approvals.access.personal_links import make_link
from approvals.actions import actions
from approvals.models import Review, Vote
from tests.support.browser.judges import check_axe, check_page
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.link_pages import SCHEMA, ask, make_ann, make_ben, snapshot  # noqa: F401 (two are fixtures)
from workflows.testing import assert_done

MORNING = datetime(2026, 11, 18, 9, 41, tzinfo=UTC)
PHONE: dict[str, Any] = {"width": 375, "height": 720, "touch": True}


@pytest.mark.parametrize(("phone", "theme"), [(False, "light"), (True, "dark")])
def test_it_is_decided_in_a_browser(visit: Visits, site: Site, ann: User, phone: bool, theme: Any) -> None:
    review = ask(assignees=["ann"], schema=SCHEMA)
    page = visit(theme=theme, **(PHONE if phone else {}))
    page.goto(make_link(review, ann))
    check_page(page)
    shoot(page, f"link-{'phone' if phone else 'desktop'}-{theme}")
    page.get_by_role("button", name="Add a row").click()
    page.get_by_label("Part").fill("KX-1")
    check_page(page)
    page.get_by_label("Amount").fill("40")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("You approved this")
    check_page(page)
    shoot(page, f"link-decided-{'phone' if phone else 'desktop'}-{theme}")
    site.go_on()
    assert_done(review.instance, {"outcome": "approve", "data": {"amount": 40, "lines": [{"part": "KX-1"}]}})


def test_it_is_decided_without_scripts(visit: Visits, site: Site, ann: User) -> None:
    review = ask(assignees=["ann"], schema=SCHEMA)
    page = visit(javascript=False, **PHONE)
    page.goto(make_link(review, ann))
    page.get_by_role("button", name="Add a row").tap()
    page.get_by_label("Part").fill("KX-1")
    page.get_by_label("Amount").fill("40")
    page.get_by_role("button", name="Reject").tap()
    expect(page.get_by_role("status")).to_contain_text("You rejected this")
    site.go_on()
    assert_done(review.instance, {"outcome": "reject", "data": {"amount": 40, "lines": [{"part": "KX-1"}]}})


def test_whatever_is_opened_ahead_decides_nothing(visit: Visits, site: Site, ann: User) -> None:
    address = make_link(ask(assignees=["ann"]), ann) + "?outcome=approve"
    before = snapshot()
    page = visit()
    page.goto(address)
    # As the mails of many providers are looked at, and as browsers load what one might open next.
    for headers in ({}, {"Sec-Purpose": "prefetch;prerender"}):
        assert page.request.get(address, headers=headers).ok
        assert page.request.head(address, headers=headers).ok
    page.reload()
    page.goto("/v1/docs")
    page.go_back()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    assert snapshot() == before


def test_enter_in_a_field_decides_nothing(visit: Visits, site: Site, ann: User) -> None:
    page = visit()
    page.goto(make_link(ask(assignees=["ann"], schema=SCHEMA), ann))
    before = snapshot()
    page.get_by_label("Amount").fill("40")
    page.get_by_label("Amount").press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Add a row")).to_be_focused()  # and still here, so nothing was sent
    expect(page.get_by_label("Amount")).to_have_value("40")
    assert snapshot() == before


def test_the_keyboard_is_enough(visit: Visits, site: Site, ann: User) -> None:
    page = visit()
    page.goto(make_link(ask(assignees=["ann"]), ann))
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    expect(page.get_by_role("link", name="Skip to content")).to_be_in_viewport()
    check_axe(page)
    approve = page.get_by_role("button", name="Approve")
    for _ in range(10):
        if approve.evaluate("(one) => one === document.activeElement"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("You approved this")


def test_what_is_wrong_is_told_where_it_is_wrong(visit: Visits, site: Site, ann: User) -> None:
    visit.allow("status of 422")
    page = visit(**PHONE)
    page.goto(make_link(ask(assignees=["ann"], schema=SCHEMA), ann))
    page.get_by_label("Reason").fill("Seen")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("alert")).to_contain_text("One thing needs you.")
    expect(page.get_by_role("alert")).to_be_focused()
    expect(page).to_have_title("Error: Refund €40.00 · Holdpoint")
    check_page(page)
    shoot(page, "link-wrong-phone")
    page.get_by_role("alert").get_by_role("link", name="Amount").tap()
    amount = page.get_by_label("Amount")
    expect(amount).to_be_in_viewport()
    expect(amount).to_have_attribute("aria-invalid", "true")
    amount.fill("40")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("status")).to_contain_text("Seen")
    assert Vote.objects.get().reason == "Seen"


def test_high_risk_takes_a_look_and_a_password(visit: Visits, site: Site, ann: User, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    visit.allow("status of (403|422)")
    page = visit(theme="dark", **PHONE)
    page.goto(make_link(ask(assignees=["ann"], risk="high"), ann))
    check_page(page)
    shoot(page, "link-high-phone-dark")
    looked, password, approve = (
        page.get_by_label("I have looked at what happens"),
        page.get_by_label("Your password"),
        page.get_by_role("button", name="Approve"),
    )
    page.get_by_label("Reason").fill("Checked with the bank")
    password.fill("ann's own")
    approve.tap()
    expect(looked).to_be_focused()
    expect(looked).to_be_in_viewport()
    expect(password).to_have_value("")
    check_page(page)
    looked.check()
    password.fill("another")
    approve.tap()
    expect(page.get_by_text("That is not your password. Nothing was decided.")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("Checked with the bank")
    check_page(page)
    password.fill("ann's own")
    approve.tap()
    expect(page.get_by_role("status")).to_contain_text("You approved this")


def test_who_is_too_late_keeps_what_they_wrote(visit: Visits, site: Site, ann: User, ben: User) -> None:
    visit.allow("status of 410")
    review = ask(assignees=["ann", "ben"])
    page = visit()
    page.goto(make_link(review, ann))
    page.get_by_label("Reason").fill("I had my reasons")
    decide(review, "reject", actor=ben, reason="Not in the budget")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("status")).to_contain_text("Ben Okafor rejected this today at")
    expect(page.get_by_role("status")).to_contain_text("I had my reasons")
    check_page(page)
    shoot(page, "link-late")


def test_the_requester_answers_reminds_and_withdraws(visit: Visits, site: Site, ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    actions.request_info(review, "Which account?", actor=ann)
    page = visit(theme="dark")
    page.goto(make_link(Review.objects.get(pk=review.pk), ben))
    check_page(page)
    shoot(page, "link-requester-dark")
    page.get_by_label("Your answer").fill("Account 4711")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_text("Account 4711")).to_be_visible()
    page.get_by_text("Withdraw this request").click()
    check_page(page)
    page.get_by_role("button", name="Withdraw it").click()
    expect(page.get_by_role("status")).to_contain_text("You withdrew this")
    check_page(page)


@pytest.mark.screenshots
def test_a_picture_of_it_on_a_phone(visit: Visits, site: Site, ann: User, ben: User) -> None:
    site.set_clock(MORNING)
    review = ask(assignees=["ann"], title="Refund €1,240.00 to Acme GmbH", requester="ben", about="ben")
    site.pass_time("20m")
    page = visit(**PHONE)
    page.goto(make_link(review, ann))
    expect(page.get_by_text("Ben Okafor").first).to_be_visible()
    shoot(page, "link-phone", docs=True)
