"""Every state of the inbox, judged and pictured: light, dark, in a narrow window and on a phone.

The pictures of the documentation are made here, too.
"""

from __future__ import annotations

import gzip

import pytest
from playwright.sync_api import Page, expect

from approvals import Outcome, decide
from approvals.actions import actions
from approvals.models import Absence, Preference
from tests.support.browser.judges import check_dark, check_fits, check_page, check_touch, weigh
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    MORNING,
    PHONE,
    REASONS,
    Desk,
    ask,
    ask_acme,
    ask_day,
    ask_high,
    ask_three,
    find_row,
    make_desk,
    open_one,
)
from tests.support.browser.world import read_again as again
from workflows.clock import read_now

#: What a first visit with fifty rows may cost, and one request beside the list, compressed.
MOST, MOST_OF_ONE = 100_000, 8_000


@pytest.fixture(name="desk")
def make_a_desk(site: Site) -> Desk:
    site.set_clock(MORNING)
    return make_desk()


def _look(page: Page, light: str, dark: str, *, within: str = "", whole: bool = False, docs: str = "") -> None:
    """Judge and picture it in both themes, under a name for each; `docs` are the names that the documentation shows."""
    check_page(page, within=within)
    shoot(page, light, whole=whole, docs=light in docs.split())
    check_dark(page, within=within)
    shoot(page, dark, whole=whole, docs=dark in docs.split())
    page.emulate_media(color_scheme="light")


def _check_words(page: Page) -> None:
    """No word of a button is broken in two."""
    broken = page.locator(".decisions > .button bdi, .decisions summary bdi, .decisions .split > .button bdi")
    told = broken.evaluate_all(
        "(all) => all.filter((one) => !one.textContent.includes(' ') && one.getClientRects().length > 1)"
        ".map((one) => one.textContent)"
    )
    assert told == []


# --- the whole ------------------------------------------------------------------------------------------------


@pytest.mark.screenshots
def test_a_day_in_a_wide_window(visit: Visits, site: Site, desk: Desk) -> None:
    day = ask_day(site, desk)
    page = visit(desk.maya)
    lena = visit(desk.lena)
    lena.goto(f"/approvals/{day['acme'].pk}/")
    page.goto("/approvals/")
    check_page(page)
    detail = open_one(page, day["acme"])
    expect(detail).to_contain_text("Lena Fischer is looking")
    expect(find_row(page, day["acme"])).to_contain_text("Lena is looking")
    _look(page, "inbox", "inbox-dark", docs="inbox inbox-dark")
    # A closed answer, a menu, a group, the keys: each of them as it is open.
    page.locator("summary", has_text="Reject").click()
    _look(page, "inbox-reasons-light", "inbox-reasons-dark", within=".decision-bar")
    page.keyboard.press("Escape")
    page.locator("#rows summary").click()
    _look(page, "inbox-group-light", "inbox-group-dark", within="#rows")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    _look(page, "inbox-keys-light", "inbox-keys-dark", within="dialog[open]")
    page.keyboard.press("Escape")
    detail = open_one(page, day["high"])
    expect(detail.get_by_label("I have looked at what changes")).to_be_checked()
    _look(page, "inbox-high-light", "inbox-high-dark", within="#detail")
    open_one(page, day["form"])
    _look(page, "inbox-form-light", "inbox-form-dark", within="#detail")
    page.locator(".filter", has_text="More").click()
    _look(page, "inbox-more-light", "inbox-more-dark", within="details[name=filter][open]")


@pytest.mark.parametrize("width", [1024, 800])
def test_a_day_in_a_narrow_window(visit: Visits, site: Site, desk: Desk, width: int) -> None:
    day = ask_day(site, desk)
    page = visit(desk.maya, width=width, height=768)
    page.goto("/approvals/")
    check_page(page)
    if width > 960:
        open_one(page, day["acme"])
        for menu in ("Delegate", "Snooze", "Ask", "Reject"):
            summary = page.locator("#detail summary", has_text=menu).first
            summary.click()
            panel = page.locator("details[open] > .menu-panel").bounding_box()
            assert panel is not None
            assert panel["x"] >= 0, menu
            assert panel["x"] + panel["width"] <= width, menu
            page.keyboard.press("Escape")
    else:
        find_row(page, day["acme"]).get_by_role("link").click()
        expect(page.get_by_role("heading", level=1, name="Refund €1,240.00 to Acme GmbH")).to_be_visible()
    check_page(page)
    shoot(page, f"inbox-{width}", whole=False)


@pytest.mark.screenshots
def test_a_day_on_a_phone(visit: Visits, site: Site, desk: Desk) -> None:
    day = ask_day(site, desk)
    page = visit(desk.maya, **PHONE)
    page.goto("/approvals/")
    _look(page, "inbox-phone", "inbox-phone-dark", docs="inbox-phone")
    page.goto(f"/approvals/{day['high'].pk}/")
    _look(page, "request-high-phone-light", "request-high-phone-dark")
    page.goto(f"/approvals/{day['acme'].pk}/")
    expect(page.get_by_role("button", name="Approve")).to_be_in_viewport(ratio=1)
    _look(page, "request-phone", "request-phone-dark", docs="request-phone")
    shoot(page, "request-phone-whole-light")


@pytest.mark.screenshots
def test_one_request_as_a_page(visit: Visits, site: Site, desk: Desk) -> None:
    day = ask_day(site, desk)
    actions.request_info(again(day["acme"]), "Which card was it paid with?", actor=desk.maya)
    page = visit(desk.maya)
    page.goto(f"/approvals/{day['acme'].pk}/")
    _look(page, "request", "request-dark", whole=True, docs="request")
    requester = visit(desk.ben)
    requester.goto(f"/approvals/{day['acme'].pk}/")
    expect(requester.get_by_text("You were asked")).to_be_visible()
    _look(requester, "request-requester-light", "request-requester-dark", whole=True)


@pytest.mark.screenshots
def test_nothing_waits(visit: Visits, site: Site, desk: Desk) -> None:
    ask("Open payroll reports to J. Weber", requester="maya", assignees=["ben"])
    page = visit(desk.maya)
    page.goto("/approvals/")
    expect(page.get_by_role("heading", name="Nothing waits for you")).to_be_visible()
    check_page(page)
    shoot(page, "inbox-empty", whole=False, docs=True)
    phone = visit(desk.maya, theme="dark", **PHONE)
    phone.goto("/approvals/")
    check_page(phone)
    shoot(phone, "inbox-empty-phone-dark", whole=False)


# --- what may not be, and what is over ----------------------------------------------------------------------------


def test_what_may_not_be_answered_stays_beside_the_rule(visit: Visits, site: Site, desk: Desk) -> None:
    mine = ask("Refund my own train ticket", requester="maya", due="2h")
    claimed, over, shut = ask_three()
    actions.claim(claimed, actor=desk.lena)
    decide(over, "reject", actor=desk.lena, reason="Not in the budget")
    actions.withdraw(shut, actor=desk.ben)
    page = visit(desk.maya)
    page.goto(f"/approvals/?view=group-{desk.finance.pk}")
    detail = open_one(page, mine)
    approve = detail.get_by_role("button", name="Approve")
    expect(approve).to_be_disabled()
    expect(detail.locator(f"#{approve.get_attribute('aria-describedby')}")).to_contain_text("you asked")
    _look(page, "inbox-refused-light", "inbox-refused-dark")
    detail = open_one(page, claimed)
    expect(detail).to_contain_text("Lena Fischer has claimed this")
    _look(page, "inbox-claimed-light", "inbox-claimed-dark")
    page.goto(f"/approvals/{over.pk}/")
    expect(page.get_by_role("status").first).to_contain_text("Lena Fischer rejected this")
    _look(page, "request-over-light", "request-over-dark")
    page.goto(f"/approvals/{shut.pk}/")
    _look(page, "request-shut-light", "request-shut-dark")


def test_what_is_not_there_for_somebody(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 404")
    review = ask("Refund €64.00 to K. Oduya", assignees=["lena"])
    page = visit(desk.maya, **PHONE)
    page.goto(f"/approvals/{review.pk}/")
    expect(page.get_by_role("heading", level=1, name="There is nothing here for you")).to_be_visible()
    check_page(page)
    shoot(page, "request-none-phone", whole=False)
    page.get_by_role("link", name="To the inbox").tap()
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()


def test_settings_and_saved_views(visit: Visits, site: Site, desk: Desk) -> None:
    visit.allow("status of 422")
    Absence.objects.create(user=desk.maya, substitute=desk.lena, since=read_now(), note="Walking in the Dolomites")
    for theme, options in (("light", {}), ("dark", PHONE)):
        page = visit(desk.maya, theme=theme, **options)  # type: ignore[arg-type]
        page.goto("/approvals/settings/")
        expect(page.get_by_role("heading", level=1, name="Settings")).to_be_visible()
        check_page(page)
        shoot(page, f"settings-{theme}")
        page.goto("/approvals/views/")
        check_page(page)
        shoot(page, f"saved-{theme}")


def test_the_login(visit: Visits, site: Site, desk: Desk) -> None:
    page = visit(**PHONE)
    page.goto("/approvals/?risk=high")
    page.get_by_label("Password").wait_for()
    _look(page, "login-phone-light", "login-phone-dark")


# --- languages and weight ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["de", "ja"])
def test_long_words_have_room(visit: Visits, site: Site, desk: Desk, language: str) -> None:
    Preference.objects.create(user=desk.maya, language=language)
    day = ask_day(site, desk)
    phone = visit(desk.maya, language=language, **PHONE)
    for place in ("", day["acme"].pk, day["high"].pk, "bulk"):
        phone.goto(f"/approvals/{place}/" if place else "/approvals/")
        check_fits(phone)
        check_touch(phone)
        if language == "de":  # Japanese breaks a line anywhere
            _check_words(phone)
        shoot(phone, f"phone-{language}-{str(place)[-4:]}", whole=False)
    wide = visit(desk.maya, language=language, width=1024)
    wide.goto("/approvals/")
    open_one(wide, day["acme"])
    check_page(wide)  # what is said to who does not see it is translated, too
    shoot(wide, f"inbox-1024-{language}", whole=False)


def test_it_is_light(visit: Visits, site: Site, desk: Desk) -> None:
    for number in range(50):
        ask(f"Refund €{number}.00 to customer {number}", why=f"Case {number}", requester="ben")
    page = visit(desk.maya)
    weight = weigh(page, "/approvals/")
    assert page.locator("#rows .request[data-id]").count() == 50
    assert weight.compressed <= MOST, weight
    assert weight.requests <= 12, weight
    with page.expect_response(lambda answer: "/approvals/" in answer.url and "live" not in answer.url) as told:
        page.keyboard.press("j")
    sent = told.value.body()
    assert len(gzip.compress(sent)) <= MOST_OF_ONE


def test_many_answers_find_room(visit: Visits, site: Site, desk: Desk) -> None:
    acme = ask_acme()
    many = ask(
        "Sign with Studio Fjord",
        outcomes=(
            Outcome("approve", presets=REASONS),
            Outcome("reject", requires_reason=True, presets=REASONS),
            Outcome("request_changes", requires_reason=True),
            Outcome("legal", "Hand it to the legal department first", tone="warning"),
            Outcome("postpone", "Postpone until the next meeting", tone="neutral"),
        ),
        risk="medium",
    )
    high = ask_high()
    for options in ({"width": 1024}, PHONE):
        page = visit(desk.maya, **options)
        for review in (acme, many, high):
            page.goto(f"/approvals/{review.pk}/")
            check_fits(page)
            _check_words(page)
            assert page.locator(".decision-bar").evaluate("(bar) => bar.getBoundingClientRect().height") < 300
        page.goto(f"/approvals/{many.pk}/")
        more = page.locator("summary", has_text="More outcomes")
        if more.is_visible():
            more.click()
        postpone = page.get_by_role("button", name="Postpone until the next meeting").locator("visible=true")
        expect(postpone).to_have_count(1)
        check_page(page)
        shoot(page, f"request-many-{'phone' if options is PHONE else 'desktop'}", whole=False)
        check_dark(page, within=".decision-bar")
