"""A login that is over, and a line that is: the page says which, keeps what is there, and sends nothing twice."""

from __future__ import annotations

import pytest
from django.conf import settings
from django.shortcuts import resolve_url
from playwright.sync_api import Page, Route, expect

from approvals.models import Vote
from tests.support.browser.judges import check_axe
from tests.support.browser.news import wait_for_news
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import PHONE, Desk, ask_three, find_detail, find_row

OVER = "You are no longer logged in."


def lead_to_login(page: Page, address: str, method: str = "GET") -> None:
    """What a proxy, or a middleware of the project's, makes of whoever is not logged in."""

    def lead(route: Route) -> None:
        if route.request.method != method:
            return route.fallback()
        return route.fulfill(status=302, headers={"location": resolve_url(settings.LOGIN_URL)})

    page.route(address, lead)


def test_a_login_page_never_takes_the_place_of_a_request(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    find_row(page, first).get_by_role("link").click()
    detail = find_detail(page, first)
    detail.get_by_label("Reason", exact=True).fill("A long reason")
    lead_to_login(page, f"**/approvals/{first.pk}/**", "POST")
    detail.get_by_role("button", name="Approve").click()
    expect(detail.get_by_role("alert")).to_contain_text(OVER)
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("A long reason")
    expect(page.get_by_label("Password")).to_have_count(0)
    assert Vote.objects.count() == 0

    lead_to_login(page, f"**/approvals/{second.pk}/**")
    find_row(page, second).get_by_role("link").click()
    alert = page.locator("#detail").get_by_role("alert")
    expect(alert).to_contain_text("This request could not be loaded")
    expect(alert).to_contain_text(OVER)
    check_axe(page)
    shoot(page, "inbox-led-away", whole=False)
    page.unroute_all()
    alert.get_by_role("button", name="Try again").click()
    expect(find_detail(page, second)).to_be_visible()


def test_an_answer_that_is_not_ours_is_no_answer(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    find_row(page, first).get_by_role("link").click()
    detail = find_detail(page, first)
    detail.get_by_label("Reason", exact=True).fill("A long reason")
    page.route(
        f"**/approvals/{first.pk}/**",
        lambda route: route.fulfill(status=200, content_type="text/html", body="<h1>Back soon</h1>"),
    )
    detail.get_by_role("button", name="Approve").click()
    expect(detail.get_by_role("alert")).to_contain_text("That did not arrive")
    expect(detail.get_by_label("Reason", exact=True)).to_have_value("A long reason")


@pytest.mark.parametrize("way", ["401", "led away"])
def test_a_list_says_that_the_login_is_over_and_stops_asking(visit: Visits, site: Site, desk: Desk, way: str) -> None:
    visit.allow("status of 401")
    first, *_ = ask_three()
    page = visit(desk.maya)
    page.clock.install()
    page.goto("/approvals/")
    cookies = page.context.cookies()
    if way == "401":
        page.context.clear_cookies(name="sessionid")
    else:
        lead_to_login(page, "**/approvals/live/**")
    wait_for_news(page)
    expect(page.locator("#live-state")).to_have_text("Logged out")
    expect(page.locator("#say")).to_contain_text(OVER)
    check_axe(page)
    shoot(page, f"inbox-logged-out-{way.replace(' ', '-')}", whole=False)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.fast_forward(200_000)
    page.wait_for_timeout(200)
    assert asked == []
    # Whoever comes back from logging in in another tab finds it alive.
    page.unroute_all()
    page.context.add_cookies(cookies)  # type: ignore[arg-type]
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#live-state")).to_have_text("Live")
    expect(find_row(page, first)).to_be_visible()


def test_news_that_are_none_are_a_failure(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    page = visit(desk.maya)
    page.clock.install()
    page.goto("/approvals/")
    page.route("**/live/**", lambda route: route.fulfill(status=200, content_type="text/html", body="<h1>Soon</h1>"))
    for seconds in (6, 11):
        wait_for_news(page, seconds)
    expect(page.locator("#live-state")).to_have_text("Offline")
    expect(find_row(page, first)).to_be_visible()


@pytest.mark.parametrize("where", ["list", "request"])
def test_a_phone_shows_that_it_is_offline(visit: Visits, site: Site, desk: Desk, where: str) -> None:
    visit.allow("ERR_INTERNET_DISCONNECTED")
    first, *_ = ask_three()
    page = visit(desk.maya, **PHONE)
    page.clock.install()
    page.goto("/approvals/" if where == "list" else f"/approvals/{first.pk}/")
    page.context.set_offline(True)
    for seconds in (6, 11):
        wait_for_news(page, seconds)
    state = page.get_by_text("Offline", exact=True)
    expect(state).to_be_visible()
    expect(state).to_be_in_viewport(ratio=1)
    at = "['x', 'y'].map((way) => it.getBoundingClientRect()[way] + 4)"
    assert state.evaluate(f"(it) => document.elementFromPoint(...{at}) === it")
    check_axe(page)
    shoot(page, f"offline-phone-{where}", whole=False)
    page.context.set_offline(False)
    expect(state).to_be_hidden()
    expect(page.locator("#say")).to_have_text("Connected again.")
