"""The inbox under other conditions than a wide window and a mouse: low windows, fingers, paper, a system's own colours,
and files that a host of its own serves."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.staticfiles.finders import find
from playwright.sync_api import Page, Route, expect

from approvals import decide
from approvals.models import Preference, Vote
from examples.demo.papers import LETTER, PHOTO
from tests.support.browser.judges import check_axe, check_fits, check_page, check_touch
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    MORNING,
    PHONE,
    Desk,
    ask,
    ask_acme,
    ask_alike,
    ask_high,
    find_detail,
    find_row,
)
from tests.support.browser.world import read_again as again

FILES = "https://files.example/media/"


# --- low windows: a wide one at 400 %, and a phone held sideways ----------------------------------------------------

ZOOMED: dict[str, Any] = {"width": 320, "height": 256}
SIDEWAYS: dict[str, Any] = {"width": 844, "height": 390, "touch": True}
LOW = {"zoomed": ZOOMED, "sideways": SIDEWAYS}
each_low = pytest.mark.parametrize("low", LOW)
#: Goes through everything that can have the focus by the keyboard, and tells what is not on the screen when it has it.
FIND_HIDDEN = """() => {
  const one = document.activeElement;
  if (one === document.body) return null;
  const box = one.getBoundingClientRect();
  const at = [[box.left + box.width / 2, box.top + box.height / 2], [box.left + 4, box.top + 4],
    [box.left + 4, box.bottom - 4]];
  const isSeen = at.some(([x, y]) => {
    const top = document.elementFromPoint(x, y);
    return top && (one.contains(top) || top.contains(one) || top.closest("label")?.contains(one));
  });
  return [one.outerHTML.slice(0, 120), isSeen];
}"""


def walk(page: Page, *, most: int = 60) -> list[str]:
    """Press Tab from the top to the end; what had the focus and could not be seen."""
    hidden, seen = [], 0
    for _ in range(most):
        page.keyboard.press("Tab")
        found = page.evaluate(FIND_HIDDEN)
        if found is None:
            break
        seen += 1
        if not found[1]:
            hidden.append(found[0])
    assert seen > 5
    return hidden


@each_low
@pytest.mark.parametrize("ask_one", [ask_acme, ask_high])
def test_in_a_low_window_no_bar_is_in_the_way(
    visit: Visits, site: Site, desk: Desk, settings: Any, low: str, ask_one: Any
) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    desk.maya.set_password("secret")
    desk.maya.save()
    review = ask_one()
    page = visit(desk.maya, **LOW[low])
    page.goto(f"/approvals/{review.pk}/")
    check_page(page)
    assert walk(page) == []
    stuck = page.evaluate(
        "[...document.querySelectorAll('body *')].filter((one) => one.offsetHeight && !one.closest('.skip') &&"
        " ['sticky', 'fixed'].includes(getComputedStyle(one).position)).map((one) => one.className)"
    )
    assert stuck == []
    page.get_by_role("heading", level=1).scroll_into_view_if_needed()
    shoot(page, f"request-{'high-' if review.risk == 'high' else ''}{low}", whole=False)


@each_low
def test_in_a_low_window_the_list_is_read_by_scrolling(visit: Visits, site: Site, desk: Desk, low: str) -> None:
    alike = ask_alike(6)
    ask_high()
    page = visit(desk.maya, **LOW[low])
    page.goto("/approvals/")
    check_page(page)
    page.locator("#rows summary").click()
    check_page(page, within="#rows")
    assert walk(page) == []
    last = find_row(page, alike[-1]).get_by_role("link")
    last.scroll_into_view_if_needed()
    box = last.bounding_box()
    assert box is not None
    assert box["height"] < LOW[low]["height"] / 2
    shoot(page, f"inbox-{low}", whole=False)
    page.goto("/approvals/bulk/")
    check_page(page)
    assert walk(page) == []
    shoot(page, f"bulk-{low}", whole=False)


# --- fingers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("low", ["sideways", "tablet"])
def test_a_finger_hits_everything_and_no_field_is_zoomed_to(visit: Visits, site: Site, desk: Desk, low: str) -> None:
    high, acme = ask_high(), ask_acme()
    ask_alike(3)
    page = visit(desk.maya, **({"width": 1180, "height": 820, "touch": True} if low == "tablet" else SIDEWAYS))
    for place in ("", f"{high.pk}/", f"{acme.pk}/", "bulk/", "settings/", "views/", "?risk=low"):
        page.goto(f"/approvals/{place}")
        check_fits(page)
        check_touch(page)
    page.goto("/approvals/")
    page.locator("#rows summary").tap()
    check_page(page)
    shoot(page, f"inbox-finger-{low}", whole=False)


def test_rows_are_selected_on_a_phone_and_decided_together(visit: Visits, site: Site, desk: Desk) -> None:
    alike = ask_alike(4)
    acme, high = ask_acme(), ask_high()
    for javascript in (True, False):
        page = visit(desk.maya, javascript=javascript, **PHONE)
        page.goto("/approvals/")
        page.locator("#rows summary").tap()
        expect(find_row(page, acme).get_by_role("checkbox")).to_be_hidden()
        page.get_by_label("Select", exact=True).tap()
        expect(find_row(page, acme).get_by_role("checkbox")).to_be_visible()
        expect(find_row(page, high).get_by_role("checkbox")).to_have_count(0)
        if javascript:
            check_page(page)
            shoot(page, "inbox-select-phone", whole=False)
        for one in alike[:2]:
            find_row(page, one).get_by_role("checkbox").tap()
        together = page.get_by_role("button", name="Decide together")
        expect(together).to_be_in_viewport(ratio=1)
        if javascript:
            expect(page.get_by_text("2 selected.")).to_be_visible()
            check_page(page)
            shoot(page, "inbox-selected-phone", whole=False)
            page.get_by_role("button", name="Clear").tap()
            expect(together).to_be_hidden()
            expect(find_row(page, acme).get_by_role("checkbox")).to_be_hidden()
            page.get_by_label("Select", exact=True).tap()
            for one in alike[:2]:
                find_row(page, one).get_by_role("checkbox").tap()
        together.tap()
        expect(page.get_by_role("heading", level=1)).to_contain_text("2 ×")
    page.get_by_role("button", name="Approve").tap()
    expect(page.get_by_role("status").first).to_contain_text("2 of 2")
    assert {vote.review_id for vote in Vote.objects.all()} == {one.pk for one in alike[:2]}


def test_a_phone_shows_all_that_differs(visit: Visits, site: Site, desk: Desk) -> None:
    facts = [
        {"customer": f"C{number}", "amount": f"{number}.00", "currency": "EUR", "account": f"DE1{number}", "city": city}
        for number, city in ((1, "Graz"), (2, "Bonn"), (3, "Linz"))
    ]
    asked = [ask(f"Refund {one['customer']}", why="Late.", request=one) for one in facts]
    for options in (PHONE, {"width": 1024}):
        page = visit(desk.maya, **options)
        page.goto("/approvals/bulk/")
        row = page.locator(f"tr[data-id='{asked[0].pk}']")
        for text in ("C1", "€1.00", "DE11", "Graz"):
            expect(row.get_by_text(text, exact=True).locator("visible=true")).to_have_count(1)
        label = row.get_by_text("Account", exact=True)
        if options is PHONE:
            expect(label).to_be_visible()
        else:
            expect(label).to_be_hidden()
        check_page(page)
        shoot(page, f"bulk-differing-{'phone' if options is PHONE else 'narrow'}", whole=False)


# --- long titles ------------------------------------------------------------------------------------------------------

LONG = "Credit the account of Mittelrheinische Baustoffhandelsgesellschaft Huber & Söhne of €1,240,000.00"
FIND_CUT = """(all) => all
  .filter((one) => one.scrollWidth > one.clientWidth + 1 || one.scrollHeight > one.clientHeight + 1)
  .map((one) => one.textContent)"""


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_no_amount_and_no_time_is_cut(visit: Visits, site: Site, desk: Desk, language: str) -> None:
    Preference.objects.create(user=desk.maya, language=language)
    first, second = ask(LONG, due="2h"), ask("Refund €64.00 to K. Oduya", due="3h")
    page = visit(desk.maya, language=language)
    page.goto("/approvals/")
    shown = page.locator(".request-title, .request-when, .request-decided .request-meta")

    def look_at_all_widths(when: str) -> None:
        for width in (1440, 1024, 375):
            page.set_viewport_size({"width": width, "height": 900})
            assert shown.evaluate_all(FIND_CUT) == [], width
            check_fits(page)
            shoot(page, f"inbox-long-{when}-{language}-{width}", whole=False)

    look_at_all_widths("open")
    expect(find_row(page, first).locator(".request-title")).to_be_visible()
    page.evaluate("document.documentElement.dataset.seen = 1")  # the list is this one, and not a new one
    decide(again(second), "reject", actor=desk.lena, reason="Not in the budget")
    page.evaluate("document.dispatchEvent(new CustomEvent('holdpoint:ask'))")
    expect(find_row(page, second)).to_have_class(re.compile("request-decided"))
    look_at_all_widths("decided")


# --- paper, and a system's own colours --------------------------------------------------------------------------------

#: What is left of a sheet of A4 between its margins, in px.
SHEET = {"width": 718, "height": 1040}


def print_out(page: Page, name: str) -> None:
    """As on paper, to be looked at."""
    page.emulate_media(media="print")
    page.set_viewport_size(SHEET)  # type: ignore[arg-type]
    shoot(page, name)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_is_printed_is_the_request_in_ink_on_paper(visit: Visits, site: Site, desk: Desk, theme: Any) -> None:
    site.set_clock(MORNING)
    acme = ask_acme()
    page = visit(desk.maya)
    page.context.add_cookies([{"name": "holdpoint_theme", "value": theme, "url": site.url}])
    page.goto("/approvals/")
    find_row(page, acme).get_by_role("link").click()
    expect(find_detail(page, acme)).to_be_visible()
    for way in ("pane", "page"):
        if way == "page":
            page.emulate_media(media="screen")
            page.goto(f"/approvals/{acme.pk}/")
        print_out(page, f"print-{way}-{theme}")
        sentence = page.locator(".consequence")
        expect(sentence).to_be_visible()
        expect(page.get_by_text("The carrier confirmed")).to_be_visible()
        expect(page.get_by_role("cell", name="€1,240.00")).to_be_visible()
        for hidden in (".rail", ".list", ".decision-bar", ".page-tools", ".detail-tools"):
            assert page.locator(hidden).locator("visible=true").count() == 0, hidden
        assert sentence.evaluate("(one) => getComputedStyle(one).color") == "rgb(29, 27, 24)"
        assert sentence.evaluate("(one) => getComputedStyle(one.closest('.holdpoint')).backgroundColor") in (
            "rgb(255, 255, 255)",
            "rgba(0, 0, 0, 0)",
        )


def test_where_none_is_open_the_list_is_printed(visit: Visits, site: Site, desk: Desk) -> None:
    site.set_clock(MORNING)
    acme = ask_acme()
    page = visit(desk.maya)
    page.goto("/approvals/")
    print_out(page, "print-list")
    expect(find_row(page, acme)).to_be_visible()
    expect(page.get_by_role("heading", level=1, name="Waiting for me")).to_be_visible()
    expect(page.get_by_text("Choose a request")).to_be_hidden()


def test_a_systems_own_colours_leave_the_hold_line_its_shapes(visit: Visits, site: Site, desk: Desk) -> None:
    site.set_clock(MORNING)
    acme = ask_acme()
    decide(acme, "approve", actor=desk.lena)
    page = visit(desk.maya, theme="dark", forced_colors="active")
    page.goto(f"/approvals/{acme.pk}/")

    def read(what: str, name: str, pseudo: str = "") -> str:
        found = page.locator(what).first
        return str(found.evaluate(f"(one) => getComputedStyle(one, '{pseudo}').{name}"))

    ink, paper = read("body", "color"), read("body", "backgroundColor")
    assert ink != paper
    dot = ".holdline li"
    assert [read(f"{dot}.is-{kind}", "backgroundColor", "::before") for kind in ("past", "now")] == [ink, ink]
    assert read(f"{dot}:last-child", "backgroundColor", "::before") == paper
    assert {read(f"{dot}:nth-child({n})", "borderTopColor", "::before") for n in (1, 2, 3)} == {ink}
    assert read(".hold-bar", "backgroundColor") == ink
    drawn = {"yes": "fill", "open": "stroke", "bar": "stroke"}
    assert {read(f".gauge-{kind}", name) for kind, name in drawn.items()} == {ink}
    check_axe(page, without=("color-contrast",))
    shoot(page, "request-forced-colours", whole=False)


# --- files ----------------------------------------------------------------------------------------------------


def test_what_a_host_of_the_projects_files_serves_can_be_looked_at(
    visit: Visits, site: Site, desk: Desk, settings: Any
) -> None:
    visit.allow("asked another host: https://files.example/media/")
    settings.MEDIA_URL = FILES
    review = ask("Refund the parcel", evidence=[("The letter", f"{FILES}letter.pdf"), ("Photo", f"{FILES}photo.png")])
    page = visit(desk.maya)
    page.route(f"{FILES}**", _serve)
    page.goto("/approvals/")
    find_row(page, review).get_by_role("link").click()
    detail = find_detail(page, review)
    with page.expect_response(f"{FILES}letter.pdf") as told:
        detail.locator("summary", has_text="The letter").click()
    assert told.value.ok
    detail.locator("summary", has_text="Photo").click()
    expect(detail.get_by_role("img", name="Photo")).to_be_visible()
    page.wait_for_timeout(500)  # a violation of the policy is told once the frame has tried


def _serve(route: Route) -> None:
    name = LETTER if route.request.url.endswith(".pdf") else PHOTO
    route.fulfill(path=str(find(name)))
