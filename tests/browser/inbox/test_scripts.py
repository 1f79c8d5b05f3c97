"""What the inbox's scripts do: keys, going on, undo, drafts; and that all of it works without them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from playwright.sync_api import Page, Route, expect

from approvals import Outcome, decide
from approvals.models import Comment, Preference, Review, Vote
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.review_calls import ask, make_person

REASONS = ("Not covered", "Evidence is missing")
OUTCOMES: Any = ("approve", Outcome("reject", requires_reason=True, presets=REASONS))


def ask_for(title: str, **more: Any) -> Review:
    return ask(title=title, groups=["finance"], **({"outcomes": OUTCOMES} | more))


def expect_card(page: Page, title: str) -> None:
    expect(page.locator("#detail[data-id] .consequence")).to_have_text(title)


def open_inbox(visit: Visits, user: User, title: str, **options: Any) -> Page:
    page = visit(user, **options)
    page.goto("/approvals/")
    page.locator(".request-link", has_text=title).click()
    expect_card(page, title)
    return page


def list_votes(review: Review) -> list[str]:
    return [one.outcome for one in Vote.objects.filter(review=review, standing=True)]


def test_one_key_approves_and_the_next_one_opens(visit: Visits, site: Site, ann: User) -> None:
    first, second = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.keyboard.press("a")
    expect_card(page, "Second")
    expect(page.locator("#toast")).to_contain_text("First")
    expect(page.locator(f'.request[data-id="{first.pk}"]')).to_have_class("request request-decided")
    assert (list_votes(first), list_votes(second)) == (["approve"], [])
    # The way back leads to what was decided, though another one is open.
    page.keyboard.press("u")
    expect_card(page, "First")
    expect(page.locator("#detail")).to_have_attribute("data-status", "open")
    assert list_votes(first) == []


def test_a_key_that_is_pressed_twice_decides_once(visit: Visits, site: Site, ann: User) -> None:
    first, second = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.keyboard.press("a")
    page.keyboard.press("a")
    expect_card(page, "Second")
    expect(page.locator("#toast")).to_contain_text("First")
    assert (list_votes(first), list_votes(second)) == (["approve"], [])


def test_who_goes_on_at_once_is_still_offered_the_way_back(visit: Visits, site: Site, ann: User) -> None:
    first, _ = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    held: list[Route] = []
    page.route(f"**/{first.pk}/**", lambda route: held.append(route))
    page.keyboard.press("a")
    page.keyboard.press("j")
    expect_card(page, "Second")
    held[0].continue_()
    page.unroute(f"**/{first.pk}/**")
    expect(page.locator("#toast")).to_contain_text("First")
    expect_card(page, "Second")
    page.keyboard.press("u")
    expect_card(page, "First")
    assert list_votes(first) == []


def test_r_and_a_number_reject_with_a_ready_reason(visit: Visits, site: Site, ann: User) -> None:
    review, _ = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.keyboard.press("r")
    page.keyboard.press("2")
    expect_card(page, "Second")
    vote = Vote.objects.get(review=review)
    assert (vote.outcome, vote.reason) == ("reject", "Evidence is missing")


def test_a_reason_of_ones_own_is_sent_with_ctrl_and_enter(visit: Visits, site: Site, ann: User) -> None:
    review, _ = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.keyboard.press("r")
    page.get_by_label("Another reason").fill("a u r 1")  # keys rest while one types
    page.keyboard.press("Control+Enter")
    expect_card(page, "Second")
    assert Vote.objects.get(review=review).reason == "a u r 1"


def test_no_key_decides_what_is_of_high_risk(visit: Visits, site: Site, ann: User) -> None:
    review = ask_for("First", risk="high", outcomes=("approve", "reject"))
    page = open_inbox(visit, ann, "First")
    expect(page.get_by_label("I have looked at what changes")).to_be_checked()
    approve = page.get_by_role("button", name="Approve")
    expect(approve).to_have_attribute("aria-disabled", "true")
    for key in "ar1":
        page.keyboard.press(key)
    # Pressed too early it leads to what is missing.
    approve.click(force=True)
    expect(page.get_by_label("Reason", exact=True)).to_be_focused()
    assert list_votes(review) == []
    page.keyboard.type("They were called.")
    approve.click()
    expect(page.locator("#detail[data-status=decided]")).to_be_visible()
    assert list_votes(review) == ["approve"]


def test_keys_that_are_turned_off_do_nothing(visit: Visits, site: Site, ann: User) -> None:
    review = ask_for("First")
    page = open_inbox(visit, ann, "First")
    page.keyboard.press("?")
    with page.expect_response("**/keys/"):
        page.get_by_label("Single keys are on.").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not Preference.objects.get(user=ann).shortcuts
    assert list_votes(review) == []


def test_what_is_typed_is_there_again_until_it_was_taken(visit: Visits, site: Site, ann: User) -> None:
    review, _ = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.get_by_label("Your comment").fill("Half a thought")
    page.get_by_label("Reason", exact=True).fill("And another")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect_card(page, "Second")
    expect(page.get_by_label("Your comment")).to_have_value("")
    page.keyboard.press("k")
    expect_card(page, "First")
    expect(page.get_by_label("Your comment")).to_have_value("Half a thought")
    page.get_by_role("button", name="Comment").click()
    expect(page.get_by_label("Your comment")).to_have_value("")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("And another")
    assert Comment.objects.get(review=review).text == "Half a thought"
    page.reload()
    expect_card(page, "First")
    expect(page.get_by_label("Your comment")).to_have_value("")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("And another")


def test_rows_that_were_added_are_kept_too(visit: Visits, site: Site, ann: User) -> None:
    lines = {"type": "array", "title": "Lines", "items": {"type": "object", "properties": {"part": {"type": "string"}}}}
    ask_for("First", schema={"type": "object", "properties": {"lines": lines}})
    ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.get_by_role("button", name="Add a row").click()
    page.get_by_label("Part").fill("KX-1")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect_card(page, "Second")
    page.keyboard.press("k")
    expect(page.get_by_label("Part")).to_have_value("KX-1")


def test_a_card_that_is_left_cannot_be_decided_while_the_next_one_loads(visit: Visits, site: Site, ann: User) -> None:
    visit.allow("ERR_FAILED")
    first, second = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.route(f"**/{second.pk}/**", lambda route: route.abort())
    page.keyboard.press("j")
    page.keyboard.press("a")
    expect(page.get_by_role("alert")).to_contain_text("could not be loaded")
    page.keyboard.press("a")
    page.unroute(f"**/{second.pk}/**")
    page.get_by_role("button", name="Try again").click()
    expect_card(page, "Second")
    assert (list_votes(first), list_votes(second)) == ([], [])


def test_a_form_that_did_not_arrive_stays_as_it_is(visit: Visits, site: Site, ann: User) -> None:
    visit.allow("status of 503|Error Code 503")
    review = ask_for("First")
    page = open_inbox(visit, ann, "First")
    page.get_by_label("Reason", exact=True).fill("As agreed")

    def fail(route: Route) -> None:
        route.fulfill(status=503) if route.request.method == "POST" else route.continue_()

    page.route(f"**/{review.pk}/**", fail)
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("That did not arrive")
    expect(page.get_by_label("Reason", exact=True)).to_have_value("As agreed")
    page.unroute(f"**/{review.pk}/**")
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("#toast")).to_contain_text("First")
    assert list_votes(review) == ["approve"]


def test_what_somebody_else_decides_greys_out_and_takes_nothing_away(visit: Visits, site: Site, ann: User) -> None:
    cid = make_person("cid", "finance")
    review, _ = ask_for("First"), ask_for("Second")
    page = open_inbox(visit, ann, "First")
    page.get_by_label("Reason", exact=True).fill("I was writing")
    decide(review, "approve", actor=cid)
    expect(page.locator(f'.request[data-id="{review.pk}"]')).to_have_class("request request-decided")
    expect(page.get_by_role("heading", name="Changed since you opened it")).to_be_visible()
    expect(page.get_by_label("Reason", exact=True)).to_be_focused()
    expect(page.get_by_label("Reason", exact=True)).to_have_value("I was writing")
    expect(page.locator("#say")).to_contain_text("Cid")


def test_ticked_rows_lead_to_where_they_are_decided_together(visit: Visits, site: Site, ann: User) -> None:
    reviews = [ask_for(title, why=title) for title in ("First", "Second", "Third")]
    page = open_inbox(visit, ann, "First")
    page.keyboard.press("x")
    page.keyboard.press("j")
    expect_card(page, "Second")
    page.keyboard.press("Shift+X")
    expect(page.locator("#picked")).to_contain_text("2 selected")
    with page.expect_navigation():
        page.get_by_role("button", name="Decide together").click()
    assert all(str(one.pk) in page.url for one in reviews[:2])
    assert str(reviews[2].pk) not in page.url


def test_it_works_without_scripts(visit: Visits, site: Site, ann: User) -> None:
    review = ask_for("First")
    page = visit(ann, javascript=False)
    page.goto("/approvals/")
    page.locator(".request-link", has_text="First").click()
    page.get_by_label("Your comment").fill("Looked at it")
    page.get_by_role("button", name="Comment").click()
    page.locator("summary", has_text="Reject").click()
    page.get_by_role("button", name="Not covered").click()
    page.get_by_role("button", name="Undo").click()
    assert list_votes(review) == []
    assert Comment.objects.get(review=review).text == "Looked at it"
    page.get_by_role("button", name="Approve", exact=True).click()
    assert list_votes(review) == ["approve"]
