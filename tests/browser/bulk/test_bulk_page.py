"""Many requests decided together in a browser: what differs, a result for each, and the way back."""

from __future__ import annotations

from decimal import Decimal

import pytest
from playwright.sync_api import expect

from approvals import decide
from approvals.models import Review, Vote
from examples.models import Invoice
from tests.support.browser.judges import check_dark, check_page
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    LATE,
    MORNING,
    PHONE,
    Desk,
    SmallRefund,
    ask,
    ask_alike,
    ask_high,
    find_row,
    make_desk,
)
from tests.support.browser.world import read_again as again


def ask_about(number: int) -> Review:
    invoice = Invoice.objects.create(number=f"A-{number}", customer="Acme", amount=Decimal(number))
    return ask(
        f"Refund €{number}.00 to Acme",
        kind=SmallRefund,
        why=LATE,
        due="8h",
        subject=invoice,
        change={"status": Invoice.Status.REFUNDED},
    )


def test_each_has_its_result_and_all_are_undone(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, changed, late = (ask_about(number) for number in (11, 12, 13, 14))
    ask_high()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.locator("#rows summary").click()
    page.get_by_role("link", name="See all 4 and decide together").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("4 ×")
    expect(page.get_by_text("4 selected")).to_be_visible()
    check_page(page)
    Invoice.objects.filter(number="A-13").update(status="refunded")
    decide(again(late), "reject", actor=desk.lena, reason="Not this one")
    page.get_by_role("button", name="Approve").click()
    results = [page.locator(f"tr[data-id='{one.pk}']") for one in (first, second, changed, late)]
    expect(results[0]).to_contain_text("Approved")
    expect(results[2]).to_contain_text("hanged")
    expect(results[3]).to_contain_text("Lena Fischer")
    check_page(page)
    assert Vote.objects.filter(actor=f"user:{desk.maya.pk}").count() == 2
    page.get_by_role("button", name="Undo all 2").click()
    expect(page.get_by_role("button", name="Undo all 2")).to_be_hidden()
    check_page(page)
    assert [again(one).outcome for one in (first, second)] == ["", ""]
    site.pass_time("10s")
    assert [again(one).open for one in (first, second, changed, late)] == [True, True, True, False]


def test_what_is_ticked_is_decided_after_the_time_to_undo(visit: Visits, site: Site, desk: Desk) -> None:
    alike = ask_alike(5)
    risky = ask_high()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.locator("#rows summary").click()
    for one in alike[:3]:
        find_row(page, one).get_by_role("checkbox").check()
    expect(page.get_by_text("3 selected.")).to_be_visible()
    expect(find_row(page, risky).get_by_role("checkbox")).to_have_count(0)
    check_page(page)
    shoot(page, "inbox-selected", whole=False)
    page.get_by_role("button", name="Decide together").click()
    page.get_by_label(f"Select {again(alike[2]).title}").uncheck()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.locator("summary", has_text="Reject").click()
    page.get_by_role("button", name="Not in the budget").click()
    expect(page.get_by_role("button", name="Undo all 2")).to_be_visible()
    site.pass_time("10s")
    assert [again(one).outcome for one in alike] == ["reject", "reject", "", "", ""]
    assert {vote.reason for vote in Vote.objects.all()} == {"Not in the budget"}
    page.get_by_role("link", name="Back to the list").click()
    expect(page.locator("#count")).to_have_text("4")


def test_a_reason_is_missing_and_nothing_is_lost(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 422")
    ask_alike(3)
    page = visit(desk.maya, **PHONE)
    page.goto("/approvals/bulk/")
    check_page(page)
    shoot(page, "bulk-phone")
    page.locator("tr[data-id]").first.get_by_role("checkbox").uncheck()
    page.locator("summary", has_text="Reject").tap()
    page.get_by_role("button", name="As written above").tap()
    expect(page.get_by_label("Reason for all of them")).to_be_focused()
    expect(page.locator("tr[data-id]").first.get_by_role("checkbox")).not_to_be_checked()
    check_page(page)
    assert Vote.objects.count() == 0


@pytest.mark.screenshots
def test_a_picture_of_ten(visit: Visits, site: Site) -> None:
    site.set_clock(MORNING)
    desk = make_desk()
    alike = ask_alike(10)
    page = visit(desk.maya)
    page.goto("/approvals/bulk/?workflow=desk.small_refund")
    decide(again(alike[6]), "reject", actor=desk.lena, reason="He has had two already")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("button", name="Undo all 9")).to_be_visible()
    check_page(page)
    shoot(page, "bulk", whole=False, docs=True)
    check_dark(page)
    shoot(page, "bulk-dark", whole=False)
