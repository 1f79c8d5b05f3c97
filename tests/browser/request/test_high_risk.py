"""Where the risk is high: the change has to have been on the screen, all of it, and a reason has to be there."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from approvals import Outcome
from approvals.models import Review, Vote
from examples.models import Article
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    PHONE,
    REASONS,
    BankAccount,
    Desk,
    ask,
    ask_high,
    find_detail,
    find_row,
)

SAW = "I have looked at what changes"
READY: Any = (
    Outcome("approve", presets=("I called them", "Letter checked")),
    Outcome("reject", requires_reason=True, presets=REASONS),
)


def ask_long() -> Review:
    """One whose change is longer than any screen, and is one row of the table."""
    before = "\n\n".join(f"Paragraph {n} says something that fills a line of its own." for n in range(80))
    article = Article.objects.create(title="Terms", body=before)
    change = {"body": before.replace("says something", "says something else")}
    given: dict[str, Any] = {"subject": article, "change": change, "risk": "high", "requester": "priya"}
    return ask("Publish the new terms", kind=BankAccount, **given)


def wait_for_frames(page: Page) -> None:
    """What is on the screen now has been drawn, and looked at by the page: it does so in the frame after a move."""
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


@pytest.mark.parametrize("where", ["pane", "page", "phone"])
def test_a_long_change_has_been_seen_when_its_last_line_was(visit: Visits, site: Site, desk: Desk, where: str) -> None:
    review = ask_long()
    page = visit(desk.maya, **(PHONE if where == "phone" else {}))
    if where == "pane":
        page.goto("/approvals/")
        find_row(page, review).get_by_role("link").click()
        expect(find_detail(page, review)).to_be_visible()
    else:
        page.goto(f"/approvals/{review.pk}/")
    saw = page.get_by_label(SAW)
    wait_for_frames(page)
    expect(saw).not_to_be_checked()
    scroller = page.locator(".detail-scroll" if where == "pane" else "html")
    last = page.locator(".diff-lines > li").last
    bar = page.locator(".decision-bar")
    for _ in range(100):
        behind = last.evaluate("(line) => line.getBoundingClientRect().bottom") - bar.evaluate(
            "(bar) => bar.getBoundingClientRect().top"
        )
        if behind < -10:
            break
        # Behind the bar is not on the screen.
        assert behind <= 0 or not saw.is_checked()
        scroller.evaluate("(box, by) => box.scrollBy({top: by, behavior: 'instant'})", min(200, behind + 12))
        wait_for_frames(page)
    expect(saw).to_be_checked()


def test_what_was_jumped_over_has_not_been_seen(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_long()
    page = visit(desk.maya)
    page.goto(f"/approvals/{review.pk}/")
    expect(page.get_by_label(SAW)).not_to_be_checked()
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    wait_for_frames(page)
    expect(page.get_by_label(SAW)).not_to_be_checked()


def test_a_change_behind_the_bar_has_not_been_seen(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_high()
    page = visit(desk.maya, **PHONE)
    page.goto(f"/approvals/{review.pk}/")
    page.locator("[data-change]").evaluate(
        "(change) => scrollBy({top: change.getBoundingClientRect().top"
        " - document.querySelector('.decision-bar').getBoundingClientRect().top + 2, behavior: 'instant'})"
    )
    wait_for_frames(page)
    expect(page.get_by_label(SAW)).not_to_be_checked()
    page.locator("[data-change] tbody").evaluate("(change) => change.scrollIntoView({block: 'center'})")
    expect(page.get_by_label(SAW)).to_be_checked()


def test_a_ready_reason_is_a_reason_for_its_own_answer(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_high(outcomes=READY)
    page = visit(desk.maya)
    page.goto("/approvals/")
    find_row(page, review).get_by_role("link").click()
    detail = find_detail(page, review)
    approve = detail.get_by_role("button", name="Approve")
    expect(detail.get_by_label(SAW)).to_be_checked()
    expect(approve).to_have_attribute("aria-disabled", "true")
    detail.get_by_label("No receipt").check()
    expect(approve).to_have_attribute("aria-disabled", "true")
    approve.click(force=True)
    expect(detail.get_by_label("Reason", exact=True)).to_be_focused()
    assert Vote.objects.count() == 0
    detail.get_by_label("I called them").check()
    approve.click()
    expect(find_row(page, review)).to_contain_text("“Approve” by Maya Lindqvist")
    assert Vote.objects.get().reason == "I called them"
