"""The inbox as people see it: judged by axe, by width and by touch; in its states, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from approvals import Outcome
from tests.support.browser.judges import check_axe, check_fits, check_touch
from tests.support.browser.visits import Visits
from tests.support.review_calls import ask

REASONS = ("Not covered", "Evidence is missing")
OUTCOMES: Any = (
    "approve",
    Outcome("reject", requires_reason=True, presets=REASONS),
    Outcome("later", "Ask me later", tone="warning"),
    Outcome("other", "Send elsewhere", tone="neutral"),
)
PHONE: dict[str, Any] = {"width": 375, "height": 812, "touch": True}


def ask_several() -> None:
    for number in range(4):
        ask(title=f"Refund €{number + 10}.00", groups=["finance"], outcomes=OUTCOMES)
    ask(title="Change the bank account", groups=["finance"], risk="high")


def open_card(page: Page, title: str) -> None:
    page.locator(".request[data-id] > a", has_text=title).click()
    expect(page.locator("#detail[data-id] .consequence")).to_have_text(title)


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1024, "dark")])
def test_axe_finds_nothing_beside_the_list(visit: Visits, ann: User, width: int, theme: Any) -> None:
    ask_several()
    page = visit(ann, theme=theme, width=width)
    page.goto("/approvals/")
    check_axe(page)
    page.locator(".group > summary").click()
    open_card(page, "Refund €11.00")
    check_axe(page)
    page.keyboard.press("r")
    expect(page.get_by_role("button", name="Not covered")).to_be_focused()
    check_axe(page, within=".decision-bar")
    page.keyboard.press("Escape")
    open_card(page, "Change the bank account")
    check_axe(page)
    page.locator(".filter", has_text="More").click()
    check_axe(page)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    check_axe(page)
    check_fits(page)


def test_a_phone_has_room_for_it_at_night(visit: Visits, ann: User) -> None:
    ask_several()
    page = visit(ann, theme="dark", **PHONE)
    page.goto("/approvals/")
    for title in ("Refund €11.00", "Change the bank account"):
        check_axe(page)
        check_fits(page)
        check_touch(page)
        if title.startswith("Refund"):
            page.locator(".group > summary").tap()
        page.locator(".request[data-id] > a", has_text=title).tap()
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        check_axe(page)
        check_fits(page)
        check_touch(page)
        page.go_back()


def test_what_is_empty_says_so(visit: Visits, ann: User) -> None:
    page = visit(ann)
    page.goto("/approvals/")
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    check_axe(page)
    page.goto("/approvals/?q=nothing")
    expect(page.get_by_role("link", name="Clear the filters")).to_be_visible()
    check_axe(page)


def test_it_reads_from_right_to_left(visit: Visits, ann: User, settings: Any) -> None:
    settings.LANGUAGES = [*settings.LANGUAGES, ("ar", "Arabic")]
    ask_several()
    page = visit(ann, language="ar")
    page.goto("/approvals/")
    assert page.evaluate("document.documentElement.dir") == "rtl"
    check_fits(page)
    page.set_viewport_size({"width": 375, "height": 812})
    check_fits(page)
