"""The inbox by keyboard alone: moving, reading, deciding, saying something, selecting; and when keys rest."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from approvals.actions import actions
from approvals.models import Comment, Preference, Snooze, Vote
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    Desk,
    ask,
    ask_alike,
    ask_form,
    ask_high,
    ask_three,
    find_detail,
    find_row,
    make_neighbours,
)
from tests.support.browser.world import read_again as again
from workflows.testing import assert_done


def test_a_morning_of_keys(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, third = ask_three()
    page = visit(desk.maya)
    keys = page.keyboard
    page.goto("/approvals/")
    expect(page.get_by_text("Choose a request to read and decide it here.")).to_be_visible()

    keys.press("j")
    expect(find_detail(page, first)).to_be_visible()
    expect(find_row(page, first).get_by_role("link")).to_be_focused()
    expect(find_row(page, first).get_by_role("link")).to_have_attribute("aria-current", "true")
    keys.press("j")
    expect(find_detail(page, second)).to_contain_text("2 of 3")
    keys.press("k")
    expect(find_detail(page, first)).to_contain_text("1 of 3")
    keys.press("k")
    expect(page.locator("#say")).to_have_text("This is the first one.")
    keys.press("Enter")
    expect(find_detail(page, first)).to_be_focused()

    keys.press("a")
    toast = page.locator("#toast")
    expect(toast).to_contain_text("“Approve”: Refund €64.00 to K. Oduya.")
    expect(page.locator("#say")).to_contain_text("Press u to undo it.")
    expect(find_detail(page, second)).to_be_focused()
    expect(find_row(page, first)).to_contain_text("“Approve” by Maya Lindqvist")
    keys.press("u")
    expect(find_detail(page, first)).to_be_visible()
    expect(page.locator("#say")).to_have_text("Undone.")
    assert again(first).outcome == ""
    expect(find_row(page, first)).to_have_attribute("data-status", "open")
    keys.press("a")
    expect(find_detail(page, second)).to_be_visible()

    keys.press("r")
    expect(find_detail(page, second).get_by_role("button", name="Not in the budget")).to_be_visible()
    keys.press("2")
    expect(find_detail(page, third)).to_be_visible()
    assert Vote.objects.get(review=second).reason == "Not in the budget"
    keys.press("r")
    keys.press("Tab")
    page.get_by_label("Another reason").fill("Ask again in 2 weeks, a j k u")
    keys.press("Control+Enter")
    expect(find_row(page, third)).to_contain_text("“Reject” by Maya Lindqvist")
    assert Vote.objects.get(review=third).reason == "Ask again in 2 weeks, a j k u"

    site.pass_time("10s")
    assert_done(first.instance, {"outcome": "approve", "reason": "", "data": None})
    assert_done(second.instance, {"outcome": "reject", "reason": "Not in the budget", "data": None})
    assert again(third).outcome == "reject"


def test_saying_asking_putting_aside_and_handing_on(visit: Visits, site: Site, desk: Desk) -> None:
    make_neighbours(desk.maya, desk.priya)
    first, second, third = ask_three()
    page = visit(desk.maya)
    keys = page.keyboard
    page.goto("/approvals/")
    keys.press("j")
    detail = find_detail(page, first)
    expect(detail).to_be_visible()

    keys.press("c")
    expect(detail.get_by_label("Your comment")).to_be_focused()
    keys.type("Just looking, ask Lena?")
    keys.press("Control+Enter")
    expect(detail.locator(".timeline")).to_contain_text("Just looking, ask Lena?")
    assert Comment.objects.filter(review=first, text="Just looking, ask Lena?").exists()
    assert Vote.objects.count() == 0

    keys.press("i")
    expect(detail.get_by_label("Your question to Ben Okafor")).to_be_focused()
    keys.type("Which account?")
    keys.press("Control+Enter")
    expect(detail.locator(".timeline")).to_contain_text("Which account?")

    keys.press("s")
    keys.press("1")
    expect(find_detail(page, second)).to_be_visible()
    assert Snooze.objects.filter(review=first, user=desk.maya).exists()

    keys.press("g")
    to = find_detail(page, second).get_by_label("Hand it on to")
    expect(to).to_be_focused()
    expect(to).to_contain_text("Priya Nair")
    to.select_option("priya")
    keys.press("Tab")  # past the login name of somebody who is not in the list
    keys.press("Tab")
    keys.type("You know him")
    keys.press("Control+Enter")
    expect(find_detail(page, third)).to_be_visible()
    expect(page.locator("#say")).to_contain_text("Handed on.")
    assert again(second).candidates.filter(principal=f"user:{desk.priya.pk}").exists()
    assert Vote.objects.count() == 0


def test_e_goes_to_the_form_and_the_edit_is_approved(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_form()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    detail = find_detail(page, review)
    expect(detail).to_be_visible()
    page.keyboard.press("e")
    expect(detail.get_by_label("Amount")).to_be_focused()
    page.keyboard.type("40")
    detail.get_by_label("Part", exact=True).fill("KX-1")
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.locator("#toast")).to_contain_text("Replace the parts of order B-118")
    site.pass_time("10s")
    assert_done(
        review.instance, {"outcome": "approve", "reason": "", "data": {"amount": 40, "lines": [{"part": "KX-1"}]}}
    )


def test_selecting_searching_theme_and_the_list_of_keys(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, third = ask_three()
    risky = ask_high()
    page = visit(desk.maya)
    keys = page.keyboard
    page.goto("/approvals/")
    keys.press("j")
    keys.press("x")
    expect(page.get_by_text("1 selected. High-risk requests are decided one by one.")).to_be_visible()
    keys.press("j")
    keys.press("j")
    keys.press("Shift+X")
    expect(page.get_by_text("3 selected.")).to_be_visible()
    for review in (first, second, third):
        expect(find_row(page, review).get_by_role("checkbox")).to_be_checked()
    expect(find_row(page, risky).get_by_role("checkbox")).to_have_count(0)
    keys.press("Escape")
    expect(page.get_by_text("3 selected.")).to_be_hidden()

    keys.press("/")
    search = page.get_by_role("searchbox", name="Search requests")
    expect(search).to_be_focused()
    keys.type("jkxua?")
    expect(search).to_have_value("jkxua?")
    expect(page.locator("dialog")).to_be_hidden()
    keys.press("Escape")

    with page.expect_response("**/approvals/theme/"):
        keys.press("t")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    with page.expect_response("**/approvals/theme/"):
        keys.press("t")
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"

    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert Vote.objects.count() == 0


def test_keys_can_be_turned_off_and_stay_off(visit: Visits, site: Site, desk: Desk) -> None:
    [first, *_] = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("?")
    with page.expect_response("**/approvals/keys/"):
        page.get_by_role("checkbox", name="Single keys are on").uncheck()
    page.keyboard.press("Escape")
    assert not Preference.objects.get(user=desk.maya).shortcuts
    for _ in ("as it is", "after a reload"):
        page.keyboard.press("j")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_hidden()
        expect(page.get_by_text("Choose a request to read and decide it here.")).to_be_visible()
        page.reload()
    expect(page.locator(":not(.key-list *) > .key:visible")).to_have_count(0)
    # Without single keys, Tab and Enter still do everything.
    find_row(page, first).get_by_role("link").focus()
    page.keyboard.press("Enter")
    expect(find_detail(page, first)).to_be_focused()
    page.keyboard.press("a")
    expect(find_detail(page, first)).to_be_visible()
    assert Vote.objects.count() == 0


def test_keys_rest_while_somebody_types_or_means_something_else(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = visit(desk.maya)
    keys = page.keyboard
    page.goto("/approvals/")
    keys.press("j")
    detail = find_detail(page, first)
    expect(detail).to_be_visible()
    reason = detail.get_by_label("Reason", exact=True)
    reason.focus()
    keys.type("arjku1sgx?t")
    expect(reason).to_have_value("arjku1sgx?t")
    keys.press("Escape")
    for modifier in ("Control", "Alt", "Meta"):
        # Not the letters that a browser takes for itself.
        for key in ("x", "g", "c", "i", "a"):
            keys.press(f"{modifier}+{key}")
    expect(detail.locator("details[open]")).to_have_count(0)
    expect(page.get_by_text("1 selected.")).to_be_hidden()
    keys.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_be_visible()
    for key in ("j", "a", "x", "t", "r", "1"):
        keys.press(key)
    keys.press("Escape")
    expect(dialog).to_be_hidden()
    expect(detail).to_be_visible()
    expect(detail.locator("details[open]")).to_have_count(0)
    assert not page.evaluate("document.documentElement.dataset.theme")
    # A key held down decides once: the next request does not go with it.
    detail.locator(".detail-scroll").focus()
    keys.down("a")
    keys.down("a")
    expect(find_detail(page, second)).to_be_visible()
    keys.down("a")
    keys.up("a")
    expect(find_detail(page, second)).to_be_visible()
    assert [vote.review_id for vote in Vote.objects.all()] == [first.pk]


#: A key as a browser tells it, of the layout that somebody types with.
PRESS = "(typed) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {bubbles: true, ...typed}))"


@pytest.mark.parametrize(
    ("down", "yes"),
    [
        ({"key": "\u3153", "code": "KeyJ"}, {"key": "\u3141", "code": "KeyA"}),  # Hangul
        ({"key": "\u043e", "code": "KeyJ"}, {"key": "\u0444", "code": "KeyA"}),  # Cyrillic
        ({"key": "j", "code": "KeyC"}, {"key": "a", "code": "KeyQ"}),  # Latin letters at other places
    ],
)
def test_keys_are_where_they_are_whatever_letters_the_layout_has(
    visit: Visits, site: Site, desk: Desk, down: dict[str, str], yes: dict[str, str]
) -> None:
    first, _, _ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.evaluate(PRESS, down)
    expect(find_detail(page, first)).to_be_visible()
    # The letter of the layout, and not what stands on that key elsewhere.
    page.evaluate(PRESS, {"key": "\u0131", "code": "KeyA"})
    page.evaluate(PRESS, {**yes, "ctrlKey": True})
    expect(find_detail(page, first)).to_be_visible()
    page.evaluate(PRESS, yes)
    expect(find_detail(page, first)).to_be_hidden()
    assert [vote.review_id for vote in Vote.objects.all()] == [first.pk]


def test_no_single_key_decides_what_is_of_high_risk(visit: Visits, site: Site, desk: Desk) -> None:
    review = ask_high()
    visit.allow("status of 403")
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    detail = find_detail(page, review)
    expect(detail.get_by_label("I have looked at what changes")).to_be_checked()
    detail.get_by_label("Reason", exact=True).fill("Called them")
    page.keyboard.press("Escape")
    expect(detail.get_by_role("button", name="Approve")).not_to_have_attribute("aria-disabled", "true")
    for key in ("a", "r", "1", "x"):
        page.keyboard.press(key)
    expect(detail.get_by_role("button", name="Approve").locator(".key")).to_have_count(0)
    expect(page.get_by_text("1 selected.")).to_be_hidden()
    assert Vote.objects.count() == 0
    detail.get_by_role("button", name="Approve").focus()
    page.keyboard.press("Enter")
    expect(find_row(page, review)).to_contain_text("“Approve” by Maya Lindqvist")
    assert not again(review).open  # and no grace


def test_a_group_opens_by_keyboard(visit: Visits, site: Site, desk: Desk) -> None:
    alike = ask_alike(3)
    other = ask("Publish the price list", due="30d")
    page = visit(desk.maya)
    page.goto("/approvals/")
    # What stands in a closed group is passed by.
    page.keyboard.press("j")
    expect(find_detail(page, other)).to_be_visible()
    page.locator("#rows summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("k")
    expect(find_detail(page, alike[2])).to_be_visible()
    expect(find_row(page, alike[2]).get_by_role("link")).to_be_focused()
    page.keyboard.press("k")
    expect(find_detail(page, alike[1])).to_be_visible()


def test_what_is_open_is_answered_or_left_before_another_key_decides(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    detail = find_detail(page, first)
    expect(detail).to_be_visible()
    reasons = detail.get_by_role("button", name="No receipt")
    page.keyboard.press("r")
    expect(reasons).to_be_visible()
    for key in "ajsg":
        page.keyboard.press(key)
    expect(reasons).to_be_visible()
    page.keyboard.press("r")
    expect(reasons).to_be_hidden()
    page.keyboard.press("r")
    page.keyboard.press("Escape")
    expect(reasons).to_be_hidden()
    assert Vote.objects.count() == 0
    page.keyboard.press("a")
    expect(find_detail(page, second)).to_be_visible()
    assert Vote.objects.get().outcome == "approve"


def test_a_key_that_ends_composing_leaves_no_field(visit: Visits, site: Site, desk: Desk) -> None:
    first, *_ = ask_three()
    page = visit(desk.maya, language="ja")
    page.goto("/approvals/")
    page.keyboard.press("j")
    reason = find_detail(page, first).locator("[name=reason]")
    reason.focus()
    # Safari says so by this number alone.
    event = "new KeyboardEvent('keydown', {key: 'Escape', keyCode: 229, bubbles: true, cancelable: true})"
    reason.evaluate(f"(field) => field.dispatchEvent({event})")
    expect(reason).to_be_focused()


def test_ctrl_and_enter_send_what_is_typed_or_lead_to_the_answers(visit: Visits, site: Site, desk: Desk) -> None:
    first, second, _ = ask_three(assignees=["maya"])
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("j")
    detail = find_detail(page, first)
    detail.get_by_label("Reason", exact=True).fill("As agreed")
    page.keyboard.press("Control+Enter")
    # Which answer it is a reason for, nobody has said yet.
    expect(detail.get_by_role("button", name="Approve")).to_be_focused()
    assert Vote.objects.count() == 0
    page.keyboard.press("Enter")
    expect(find_detail(page, second)).to_be_visible()
    assert Vote.objects.get().reason == "As agreed"

    actions.request_info(again(second), "Which account?", actor=desk.maya)
    ben = visit(desk.ben)
    ben.goto(f"/approvals/{second.pk}/")
    ben.get_by_label("Your answer").fill("The old one")
    ben.keyboard.press("Control+Enter")
    expect(ben.locator(".timeline")).to_contain_text("The old one")
    ben.locator("summary", has_text="More").first.click()
    ben.get_by_label("Withdraw this request because").fill("Asked twice")
    ben.keyboard.press("Control+Enter")
    expect(ben.locator(".timeline")).to_contain_text("Asked twice")
    assert not again(second).open


@pytest.mark.parametrize("way", ["refused", "lost"])
def test_a_switch_of_the_keys_that_did_not_arrive_goes_back(visit: Visits, site: Site, desk: Desk, way: str) -> None:
    visit.allow("ERR_FAILED|status of 403")
    ask_three()
    page = visit(desk.maya)
    page.goto("/approvals/")
    page.keyboard.press("?")
    if way == "refused":
        page.evaluate("document.querySelector('#keys-form [name=csrfmiddlewaretoken]').value = 'stale'")
    else:
        page.route("**/approvals/keys/", lambda route: route.abort())
    switch = page.get_by_role("checkbox", name="Single keys are on")
    switch.click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("That did not arrive")
    expect(switch).to_be_checked()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert not Preference.objects.filter(user=desk.maya, shortcuts=False).exists()
