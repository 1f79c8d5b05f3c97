"""The page of a resume address in a browser: answered with and without scripts, by finger, light and dark."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.answer_pages import PageFree, handed, park, snapshot
from tests.support.browser.judges import check_page
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from workflows.testing import assert_awaiting, assert_done

PHONE: dict[str, Any] = {"width": 375, "height": 720, "touch": True}
ANSWER = {"count": 2, "note": "One box was open", "lines": [{"part": "KX-1"}, {"part": "KX-2"}]}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_partner_answers_by_phone(visit: Visits, site: Site, theme: Any) -> None:
    instance = park()
    page = visit(theme=theme, **PHONE)
    page.goto(handed["url"])
    check_page(page)
    shoot(page, f"resume-phone-{theme}")
    page.get_by_label("Count").fill("2")
    page.get_by_label("Note").fill("One box was open")
    page.get_by_label("Part").fill("KX-1")
    page.get_by_role("button", name="Add a row").tap()
    expect(page.get_by_label("Part")).to_have_count(2)
    check_page(page)
    page.get_by_label("Part").last.fill("KX-2")
    page.get_by_role("button", name="Send the answer").tap()
    expect(page.get_by_role("status")).to_be_visible()
    expect(page.get_by_role("button", name="Send the answer")).to_have_count(0)
    check_page(page)
    shoot(page, f"resume-answered-phone-{theme}")
    site.go_on()
    assert_done(instance, {"answer": ANSWER, "timed_out": False})


def test_it_is_answered_without_scripts(visit: Visits, site: Site) -> None:
    instance = park(PageFree)
    page = visit(javascript=False)
    page.goto(handed["url"])
    shoot(page, "resume-free")
    page.get_by_role("textbox").fill("Yes, go on")
    page.get_by_role("button", name="Send the answer").click()
    expect(page.get_by_role("status")).to_be_visible()
    page.reload()
    expect(page.get_by_role("status")).to_be_visible()
    site.go_on()
    assert_done(instance, "Yes, go on")


def test_what_is_wrong_is_told_and_nothing_typed_is_lost(visit: Visits, site: Site) -> None:
    visit.allow("status of 422")
    instance = park()
    page = visit(theme="dark")
    page.goto(handed["url"])
    page.get_by_label("Count").fill("none")
    page.get_by_label("Note").fill("One box was open")
    page.get_by_role("button", name="Send the answer").click()
    summary = page.get_by_role("alert")
    expect(summary).to_be_focused()
    check_page(page)
    shoot(page, "resume-wrong-dark")
    expect(page.get_by_label("Note")).to_have_value("One box was open")
    summary.get_by_role("link", name="Count").click()
    expect(page.get_by_label("Count")).to_be_in_viewport()
    expect(page.get_by_label("Count")).to_have_value("none")
    assert_awaiting(instance)


def test_whatever_is_opened_ahead_answers_nothing(visit: Visits, site: Site) -> None:
    park()
    before = snapshot()
    page = visit()
    page.goto(handed["url"])
    looks = {"Accept": "text/html", "Sec-Purpose": "prefetch;prerender"}
    assert page.request.get(handed["url"], headers=looks).ok
    assert page.request.head(handed["url"], headers=looks).ok
    page.reload()
    page.get_by_label("Count").fill("2")
    page.get_by_label("Count").press("Enter")
    expect(page.get_by_label("Count")).to_have_value("2")
    assert snapshot() == before


def test_who_was_later_keeps_what_they_wrote(visit: Visits, site: Site) -> None:
    visit.allow("status of (409|410)")
    park(PageFree)
    early, late = visit(), visit(**PHONE)
    for page, words in ((early, "Yes, go on"), (late, "No, wait")):
        page.goto(handed["url"])
        page.get_by_role("textbox").fill(words)
    for page in (early, late):
        page.get_by_role("button", name="Send the answer").click()
        expect(page.get_by_role("status")).to_be_visible()
    expect(late.get_by_role("status")).to_contain_text("No, wait")
    check_page(late)
    shoot(late, "resume-late-phone")


def test_an_address_that_leads_nowhere_is_a_page_too(visit: Visits, site: Site) -> None:
    visit.allow("status of 404")
    page = visit(**PHONE)
    page.goto("/resume/nothing")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    check_page(page)
    shoot(page, "resume-nothing-phone")
