"""What somebody filled in, in a browser: on the card, in the history, on the page of a link; phone and dark as well."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from approvals import decide
from approvals.access.personal_links import make_link
from approvals.models import Review, Vote
from tests.support.browser.judges import check_dark, check_page
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.link_pages import ask
from tests.support.review_calls import make_person

PHONE: dict[str, Any] = {"width": 375, "height": 720, "touch": True}
SCREENS: dict[str, Any] = {"desktop": {}, "phone": PHONE}
TERMS = {
    "type": "object",
    "properties": {
        "amount": {"type": "string", "format": "decimal", "default": "9600.00", "title": "Value"},
        "currency": {"const": "EUR"},
        "months": {"type": "integer", "default": 12, "title": "Runs for months"},
        "renewal": {
            "enum": ["it ends", "it renews for a year"],
            "default": "it ends",
            "title": "At the end of the term",
        },
        "note": {"type": "string", "title": "Note for the other side"},
    },
    "required": ["amount", "currency", "months", "renewal"],
}
ASKED = {"amount": "9600.00", "currency": "EUR", "months": 12, "renewal": "it ends"}


def make_edited() -> tuple[Review, Any]:
    """Three have agreed, and then Maya has changed it."""
    names = {"maya": "Lindqvist", "lena": "Fischer", "tom": "Becker", "ann": "Archer"}
    people = {name: make_person(name, last_name=last, email=f"{name}@shop.example") for name, last in names.items()}
    review = ask(
        assignees=list(people),
        quorum=3,
        schema=TERMS,
        title="Sign with Studio Fjord",
        why="The old contract ends in July.",
    )
    for name in ("lena", "tom"):
        decide(review, "approve", actor=people[name], data=ASKED)
    edited = {**ASKED, "amount": "9000.00", "renewal": "it renews for a year"}
    decide(
        review, "approve", actor=people["maya"], data=edited, reason="Fjord agreed to last year’s price on the phone."
    )
    return review, people["ann"]


@pytest.mark.parametrize("screen", SCREENS)
def test_card_and_history_show_what_was_changed_and_by_whom(visit: Visits, site: Site, screen: str) -> None:
    review, ann = make_edited()
    page = visit(ann, **SCREENS[screen])
    page.goto(f"/approvals/{review.pk}/")
    expect(page.get_by_text("Maya Lindqvist answered with changes")).to_be_visible()
    expect(page.get_by_text("€9,000.00").first).to_be_visible()
    check_page(page)
    shoot(page, f"card-edited-{screen}-light")
    if screen == "desktop":
        check_dark(page)
        shoot(page, "card-edited-desktop-dark")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Others still have to")
    vote = Vote.objects.get(review=review, user=ann)
    assert (vote.data["amount"], vote.changed_from) == ("9000.00", None)


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_of_a_link_shows_it_too(visit: Visits, site: Site, screen: str) -> None:
    review, ann = make_edited()
    page = visit(**SCREENS[screen])
    page.goto(make_link(review, ann))
    expect(page.get_by_text("Maya Lindqvist answered with changes")).to_be_visible()
    check_page(page)
    shoot(page, f"link-edited-{screen}-light")
    if screen == "desktop":
        check_dark(page)
        shoot(page, "link-edited-desktop-dark")


def test_a_draft_brings_back_what_was_typed_and_not_what_others_have_changed_since(visit: Visits, site: Site) -> None:
    names = ("maya", "lena", "tom")
    maya, lena, _ = (make_person(name) for name in names)
    review = ask(assignees=list(names), quorum=3, schema=TERMS)
    page = visit(lena)
    page.goto(f"/approvals/{review.pk}/")
    page.get_by_label("Reason", exact=True).fill("Asked the lawyer")
    page.get_by_label("Runs for months").fill("24")
    decide(review, "approve", actor=maya, data={**ASKED, "amount": "9000.00", "renewal": "it renews for a year"})
    page.goto(f"/approvals/{review.pk}/")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("Asked the lawyer")
    expect(page.get_by_label("Runs for months")).to_have_value("24")
    expect(page.get_by_label("Value")).to_have_value("9000.00")
    expect(page.get_by_label("it renews for a year")).to_be_checked()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("status").first).to_contain_text("Others still have to")
    vote = Vote.objects.get(review=review, user=lena)
    assert vote.data == {**ASKED, "amount": "9000.00", "months": 24, "renewal": "it renews for a year"}
