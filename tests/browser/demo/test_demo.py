"""The demo in a browser: one click logs in as one of its people, and whoever asked watches what becomes of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Response, expect

import workflows
from approvals.testing import decide
from examples.demo.people import PEOPLE, make_people
from examples.models import Invoice
from tests.support.browser.judges import check_page
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import MORNING, PHONE, ask_three
from workflows.models import Instance

WINDOWS: dict[str, Any] = {"desktop": {}, "phone": PHONE}
each_look = pytest.mark.parametrize(("window", "theme"), [("desktop", "light"), ("phone", "dark")])


@pytest.fixture(name="people")
def make_the_people(site: Site, settings: Any) -> dict[str, User]:
    settings.DEBUG = True
    site.set_clock(MORNING)
    return make_people()


@pytest.fixture(name="small")
def start_a_small_refund(site: Site, people: dict[str, User]) -> Instance:
    """One that waits for Finance, of Ben's."""
    invoice = Invoice.objects.create(number="A-20801", customer="Hotel Astoria", amount=Decimal("264.00"))
    given = {"invoice": invoice.pk, "amount": "31.20", "why": "One towel was missing."}
    started: Instance = workflows.start("small_refund", given, actor=people["ben"])
    site.go_on()
    return started


@each_look
def test_one_click_logs_in_as_one_of_its_people(
    visit: Visits, site: Site, people: dict[str, User], window: str, theme: Any
) -> None:
    ask_three()
    page = visit(theme=theme, **WINDOWS[window])
    page.goto("/approvals/?view=mine")
    expect(page.get_by_role("heading", level=1, name="Who are you today?")).to_be_visible()
    for person in PEOPLE:
        expect(page.get_by_role("button", name=person.name)).to_contain_text(str(person.note))
    expect(page.get_by_role("button", name="Maya Lindqvist")).to_contain_text("3 wait.")
    check_page(page)
    shoot(page, f"login-demo-{window}-{theme}")
    page.get_by_text("Sign in with a name and password").click()
    check_page(page, within="details[open]")
    shoot(page, f"login-demo-password-{window}-{theme}")
    page.get_by_role("button", name="Maya Lindqvist").click()
    expect(page).to_have_url(f"{site.url}/approvals/?view=mine")
    expect(page.get_by_role("link", name="Refund €64.00 to K. Oduya")).to_be_visible()
    expect(page.locator("#count")).to_have_text("3")


def test_one_click_is_enough_without_scripts(visit: Visits, site: Site, people: dict[str, User]) -> None:
    page = visit(javascript=False, **PHONE)
    page.goto("/")
    page.get_by_role("button", name="Samir Haddad").tap()
    expect(page).to_have_url(f"{site.url}/approvals/")


@each_look
def test_its_pages_are_fine(
    visit: Visits, site: Site, people: dict[str, User], small: Instance, window: str, theme: Any
) -> None:
    page = visit(people["ben"], theme=theme, **WINDOWS[window])
    page.goto("/demo/")
    check_page(page)
    # What is open says how it is closed, and the others how they are opened.
    first, second = page.locator("#refund summary"), page.locator("#account summary")
    expect(first.get_by_text("Close")).to_be_visible()
    expect(first.get_by_text("Fill it in")).to_be_hidden()
    expect(second.get_by_text("Fill it in")).to_be_visible()
    shoot(page, f"demo-{window}-{theme}")
    second.click()
    expect(second.get_by_text("Fill it in")).to_be_hidden()
    check_page(page, within="#account")
    page.goto(f"/demo/{small.pk}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Hotel Astoria")
    check_page(page)
    shoot(page, f"demo-instance-{window}-{theme}")


def test_whoever_watches_keeps_their_place(visit: Visits, site: Site, people: dict[str, User], small: Instance) -> None:
    page = visit(people["ben"])
    page.goto(f"/demo/{small.pk}/")
    told, link = page.get_by_role("status").element_handle(), page.get_by_role("link", name="the request")
    link.focus()

    def is_quiet(answer: Response) -> bool:
        return "seen=" in answer.url and answer.status == 204

    page.wait_for_event("response", is_quiet)
    expect(link).to_be_focused()
    # Something happens, and the link is there all the same: so it is still the place of whoever had it.
    workflows.signal(small, "revised", {"body": ""}, actor=people["ben"])
    page.wait_for_event("response", lambda answer: "seen=" in answer.url and answer.status == 200)
    expect(page.get_by_role("row", name="A signal came")).to_be_visible()
    expect(link).to_be_focused()
    decide(small, "approve", actor=people["ana"])
    site.go_on()
    expect(page.get_by_role("status")).to_contain_text("Refund paid")
    assert told.evaluate("(one) => one.isConnected && one.textContent").startswith("Refund paid")
    check_page(page)
