"""`/approvals/bulk/`: many requests decided together, each by itself, with a result for each."""

from __future__ import annotations

import doctest
import re
import time
from importlib import import_module
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals import Outcome, decide
from approvals.actions import actions
from approvals.models import Review, Vote
from approvals.web.bulk import bulk_run
from tests.support.bulk_page import AT, Browser, ask_many, read_words
from tests.support.review_calls import (
    again,
    ask,
    ask_all,
    fail_always,
    list_events,
    list_standing,
    make_person,
    meet_another_server,
    truth,  # noqa: F401 (a fixture)
)
from workflows.testing import advance

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("module", ["comparison", "bulk_data", "bulk_page", "totals"])
def test_what_the_docstrings_say_is_so(module: str) -> None:
    ran = doctest.testmod(import_module(f"approvals.web.bulk.{module}"))
    assert ran.attempted > 0
    assert ran.failed == 0


# --- the page -----------------------------------------------------------------------------------------------


def test_it_sums_up_what_they_share_and_shows_what_differs(ann: User) -> None:
    ask_many(3)
    words = Browser(ann).open()
    assert "3 × " in words
    assert "Amount : €7.50 in all" in words
    assert "€1.50" in words
    assert "The same in all of them Rule late" in words


def test_a_stranger_is_led_to_the_login_and_a_post_of_theirs_is_401(ann: User) -> None:
    assert Client().get(AT).status_code == 302
    assert Client().post(AT, {"outcome": "approve"}).status_code == 401
    browser = Browser(ann)
    assert browser.client.put(AT).status_code == 405


def test_what_was_picked_is_ticked_and_nothing_else_is_there(ann: User) -> None:
    one, other, third = ask_many(3)
    browser = Browser(ann)
    browser.open_picked(one, other)
    assert browser.ticked == [str(one.pk), str(other.pk)]
    assert str(third.pk) not in browser.html
    browser.open(f"pick={one.pk}&all=1")
    assert len(browser.ticked) == 3


def test_a_list_is_that_of_its_filters(ann: User) -> None:
    ask_many(2, risk="medium")
    [low] = ask_many(1)
    browser = Browser(ann)
    browser.open("risk=low")
    assert browser.ticked == [str(low.pk)]
    browser.open("list=risk%3Dmedium")
    assert len(browser.ticked) == 2


def test_high_risk_stands_apart_with_the_reason(ann: User) -> None:
    [risky] = ask_many(1, risk="high")
    ask_many(2)
    browser = Browser(ann)
    words = browser.open()
    assert "To be decided on their own Refund 1 The risk is high: open this request to decide it on its own." in words
    assert f'value="{risky.pk}"' not in browser.html
    assert len(browser.ticked) == 2
    words = browser.press()
    assert "2 of 2 approved" in words
    assert "more match this list" not in words
    assert "To be decided on their own Refund 1" in words


def test_what_has_to_be_filled_in_stands_apart(ann: User) -> None:
    schema = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}
    [form] = ask_many(1, schema=schema)
    [open_one] = ask_many(1, schema={"type": "object", "properties": {"note": {"type": "string"}}})
    browser = Browser(ann)
    assert "It has a form to fill in: open this request to decide it on its own." in browser.open()
    assert browser.ticked == [str(open_one.pk)]
    browser.press()
    assert list_standing(open_one) == [(f"user:{ann.pk}", "approve")]
    assert Vote.objects.get().data == {}
    assert again(form).open


def test_what_is_not_theirs_to_decide_cannot_be_ticked(ann: User) -> None:
    ben = make_person("ben")
    own, claimed, fine = ask(assignees=["ann", "ben"], requester="ann"), *ask_many(2, assignees=["ann", "ben"])
    actions.claim(claimed, actor=ben)
    browser = Browser(ann)
    browser.open_picked(own, claimed, fine)
    assert browser.ticked == [str(fine.pk)]
    assert "Not yours to decide now. See why" in browser.told(own)
    assert "Not yours to decide now." in browser.told(claimed)


def test_what_was_decided_says_so(ann: User) -> None:
    done, fine = ask_many(2)
    decide(done, "approve", actor=ann)
    browser = Browser(ann)
    browser.open_picked(done, fine)
    assert "“Approve” by Ann" in browser.told(done)
    assert browser.ticked == [str(fine.pk)]


def test_only_answers_that_all_of_them_take_are_offered(ann: User) -> None:
    ask_many(1, outcomes=("approve", Outcome("hold", presets=("Later", "Too dear")), "reject"))
    ask_many(1, outcomes=("approve", Outcome("reject", requires_reason=True)))
    browser = Browser(ann)
    words = browser.open()
    assert re.findall(r'name="outcome" value="(\w+)', browser.html) == ["approve", "reject"]
    assert "Some of them take other answers too" in words
    assert "Needed for “Reject”." in words
    ask_many(1, outcomes=("yes", "no"))
    assert "They share no answer" in browser.open()


def test_nothing_there_says_so(ann: User) -> None:
    assert "Nothing here can be decided together." in Browser(ann).open()


@pytest.mark.parametrize("n", [2, 30])
def test_showing_costs_the_same_however_many_there_are(ann: User, n: int) -> None:
    requester = make_person("dan")
    ask_all([{"assignees": ["ann"], "subject": requester, "change": {"first_name": "Zoe"}, "requester": "dan"}] * n)
    browser = Browser(ann)
    browser.open()
    with CaptureQueriesContext(connection) as captured:
        browser.open()
    assert len(captured) <= 15, [one["sql"][:90] for one in captured]
    assert len(browser.ticked) == n


def test_at_most_two_hundred_are_shown_and_the_rest_is_told(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("approvals.web.bulk.bulk_views", "approvals.web.bulk.bulk_form"):
        monkeypatch.setattr(f"{module}.MOST", 3)
    ask_many(5)
    browser = Browser(ann)
    assert "2 more match this list." in browser.open("all=1")
    assert len(browser.ticked) == 3
    words = browser.press()
    assert "3 of 3 approved" in words
    assert "2 more match this list. Go on with the next ones" in words
    assert Review.objects.filter(effective_at__isnull=True).count() == 2


# --- deciding -----------------------------------------------------------------------------------------------


def test_each_is_decided_with_grace_and_has_its_result(ann: User) -> None:
    one, other, third = ask_many(3)
    browser = Browser(ann)
    browser.open()
    words = browser.press(pick=[str(one.pk), str(other.pk)], reason="Both are late")
    assert "2 of 2 approved" in words
    assert "Approved" in browser.told(one)
    assert "Approved" not in browser.told(third)
    assert again(third).effective_at is None
    for review in (one, other):
        vote = Vote.objects.get(review=review)
        assert (vote.door, vote.reason, vote.standing) == ("page", "Both are late", True)
        assert again(review).effective_at is not None
    assert "Undo all 2" in words
    assert browser.ticked == []


def test_each_further_one_costs_the_same(ann: User) -> None:
    def cost(n: int) -> int:
        reviews = ask_many(n)
        browser = Browser(ann)
        browser.open_picked(*reviews)
        with CaptureQueriesContext(connection) as captured:
            browser.press()
        return len(captured)

    cost(1)
    assert cost(6) - cost(2) <= 4 * 16


def test_the_same_form_sent_again_decides_nothing_twice(ann: User) -> None:
    ask_many(2)
    browser = Browser(ann)
    browser.open()
    sent = browser.fill(outcome="approve")
    browser.post(sent)
    votes = list(Vote.objects.values_list("pk", flat=True))
    answer = browser.post(sent)
    assert "Nothing was decided" in answer.text
    assert "2 were decided before." in answer.text
    assert "You answered “Approve”" in answer.text
    assert "Undo all 2" in answer.text
    assert list(Vote.objects.values_list("pk", flat=True)) == votes


def test_one_that_was_decided_meanwhile_is_left_and_the_others_are_fine(ann: User) -> None:
    ben = make_person("ben")
    one, other, third = ask_many(3, assignees=["ann", "ben"])
    browser = Browser(ann)
    browser.open()
    decide(other, "reject", actor=ben)
    words = browser.press()
    assert "2 of 3 approved" in words
    assert "1 was decided before." in words
    assert "Ben" in browser.told(other)
    assert "rejected" in browser.told(other).lower()
    assert list_standing(other) == [(f"user:{ben.pk}", "reject")]
    assert list_standing(one) == list_standing(third) == [(f"user:{ann.pk}", "approve")]


def test_one_that_changed_since_it_was_shown_is_left_and_not_ticked_again(ann: User) -> None:
    dan = make_person("dan")
    changed = ask(assignees=["ann"], subject=dan, change={"first_name": "Zoe"}, title="Rename Dan")
    [fine] = ask_many(1)
    browser = Browser(ann)
    browser.open()
    User.objects.filter(pk=dan.pk).update(first_name="Daniel")
    words = browser.press()
    assert "1 of 2 approved" in words
    assert "1 stays as it was." in words
    assert "This changed since you opened it" in browser.told(changed)
    assert "See the difference" in browser.told(changed)
    assert browser.ticked == []
    assert again(changed).open
    assert again(fine).outcome == "approve"


@pytest.mark.parametrize("leave_out", ["version", "seen"])
def test_what_was_not_shown_is_not_decided(ann: User, leave_out: str) -> None:
    review = ask(assignees=["ann"], subject=make_person("dan"), change={"first_name": "Zoe"})
    browser = Browser(ann)
    browser.open()
    sent: dict[str, Any] = {f"{leave_out}-{review.pk}": "7"}
    browser.press(**sent)
    assert "This changed since you opened it" in browser.told(review)
    assert not Vote.objects.exists()


def test_a_reason_is_asked_for_before_anything_is_tried(ann: User) -> None:
    ask_many(2, outcomes=("approve", Outcome("reject", requires_reason=True, presets=("No receipt",))))
    browser = Browser(ann)
    browser.open()
    [first, _] = browser.ticked
    words = browser.press("reject", 422, pick=[first], reason="  ")
    assert "Write why, or choose a reason." in words
    assert browser.ticked == [first]
    assert not Vote.objects.exists()
    assert "1 of 1 rejected" in browser.press("reject:No receipt", pick=[first])
    assert Vote.objects.get().reason == "No receipt"


def test_a_reason_that_is_too_long_is_told_and_kept(ann: User) -> None:
    ask_many(1)
    browser = Browser(ann)
    browser.open()
    browser.press(status=422, reason="x" * 4_001)
    assert "x" * 4_001 in browser.html
    assert not Vote.objects.exists()


@pytest.mark.parametrize(("outcome", "pick", "words"), [("approve", [], "Tick at least one"), ("pay", None, "buttons")])
def test_what_says_nothing_does_nothing(ann: User, outcome: str, pick: Any, words: str) -> None:
    [review] = ask_many(1)
    browser = Browser(ann)
    browser.open()
    told = browser.press(outcome, 422, pick=[str(review.pk)] if pick is None else pick, reason="Why not")
    assert words in told
    assert "Why not" in browser.html
    assert not Vote.objects.exists()


def test_more_than_two_hundred_at_once_are_refused(ann: User) -> None:
    [review] = ask_many(1)
    browser = Browser(ann)
    browser.open()
    told = browser.press(status=422, pick=[str(review.pk), *(str(uuid4()) for _ in range(200))])
    assert "At most 200 at a time" in told
    assert not Vote.objects.exists()


def test_what_is_not_begun_in_time_is_left_ticked(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_run, "SECONDS", 0.0)
    reviews = ask_many(3)
    browser = Browser(ann)
    browser.open()
    words = browser.press(reason="Late")
    assert "1 of 3 approved" in words
    assert "2 were not begun in time and are still ticked: send them now." in words
    assert browser.ticked == [str(one.pk) for one in reviews[1:]]
    assert "Late</textarea>" in browser.html
    browser.press()
    browser.press()
    assert Vote.objects.count() == 3


def test_code_of_the_project_that_fails_leaves_the_others_be(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 0}
    [bad] = ask_many(1, on_decision=fail_always)
    [worse] = ask_many(1, on_decision=meet_another_server)
    [good] = ask_many(1)
    browser = Browser(ann)
    browser.open()
    words = browser.press()
    assert "1 of 3 approved" in words
    assert "the books are closed" in browser.told(bad)
    assert "hunter2" not in browser.html
    assert again(bad).open
    assert again(worse).open
    assert not again(good).open


def test_where_more_votes_are_needed_it_says_so_and_can_be_undone(ann: User) -> None:
    make_person("ben")
    [review] = ask_many(1, assignees=["ann", "ben"], quorum=2)
    browser = Browser(ann)
    browser.open()
    assert "others still have to decide" in browser.press()
    browser.undo()
    assert list_standing(review) == []


# --- undoing ------------------------------------------------------------------------------------------------


def test_all_are_undone_together_with_a_result_for_each(ann: User) -> None:
    one, other = ask_many(2)
    browser = Browser(ann)
    browser.open()
    browser.press()
    words = browser.undo()
    assert "2 of 2 undone" in words
    assert "Undone. Nothing was carried out." in browser.told(one)
    assert list_standing(one) == list_standing(other) == []
    assert again(one).effective_at is None
    [event] = list_events(one, "reversed")
    assert event.data is not None
    assert event.data["door"] == "page"
    assert browser.ticked == []


NAP = 0.5
#: When the policy was asked, one time for each answer.
asked: list[float] = []


def take_their_time(operation: str, interaction: Any, actor: str) -> None:
    """A site's policy that asks somebody far away."""
    if operation == "resume":
        asked.append(time.monotonic())
        time.sleep(NAP)


def test_the_first_can_be_undone_as_long_as_one_alone_however_long_the_others_take(
    ann: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_run, "FEW", bulk_run.SECONDS)  # or the last one's turn may not come
    ask_many(3)
    browser = Browser(ann)
    browser.open()
    asked.clear()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": take_their_time}
    browser.press()
    told = re.search(r'data-seconds="(\d+)"', browser.html)
    assert told is not None
    assert int(told[1]) >= 8
    # Each was given what was left until one end for all, at a moment before it was asked about and after the nap of the
    # one before: so the end lies between these two, for all of them, and however long this machine took.
    left = [(one.effective_at - one.decided_at).total_seconds() for one in Review.objects.order_by("decided_at")]
    assert len(left) == len(asked) == 3
    at_most = [seconds + at for seconds, at in zip(left, asked, strict=True)]
    at_least = [seconds + at + NAP for seconds, at in zip(left[1:], asked, strict=False)]
    assert max(at_least) <= min(at_most) + 0.00001  # moments have no more digits
    assert left[0] - left[2] >= 2 * NAP


def test_what_can_no_longer_be_undone_is_not_offered(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 0}
    ask_many(2)
    browser = Browser(ann)
    browser.open()
    browser.press()
    assert "Undo all" not in read_words(browser.html)


def test_what_was_carried_out_meanwhile_stays(ann: User) -> None:
    one, other = ask_many(2)
    browser = Browser(ann)
    browser.open()
    browser.press()
    advance("1m")
    words = browser.undo()
    assert "Nothing was undone" in words
    assert "You approved this" in browser.told(one)
    assert not again(other).open


def test_somebody_elses_decision_is_not_undone(ann: User) -> None:
    ben = make_person("ben")
    [review] = ask_many(1, assignees=["ann", "ben"])
    browser = Browser(ann)
    browser.open()
    decide(review, "approve", actor=ben, grace=True)
    sent = browser.fill(do="undo", undo=str(review.pk))
    assert "Nothing was undone" in browser.post(sent).text
    assert list_standing(review) == [(f"user:{ben.pk}", "approve")]


def test_what_is_not_undone_in_time_can_be_undone_next(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_many(3)
    browser = Browser(ann)
    browser.open()
    browser.press()
    monkeypatch.setattr(bulk_run, "SECONDS", 0.0)
    assert "1 of 3 undone" in browser.undo()
    assert "1 of 2 undone" in browser.undo()
    browser.undo()
    assert not Vote.objects.filter(standing=True).exists()


def test_the_same_form_again_after_an_undo_decides_nothing(ann: User) -> None:
    made = [ask(title=f"Refund {n}", assignees=["ann"]) for n in range(3)]
    browser = Browser(ann)
    browser.open_picked(*made)
    sent = browser.fill(outcome="approve")
    browser.press("approve")
    browser.undo()
    words = browser._read(browser.post(sent), 200)
    assert "You have undone your decision since this was shown" in words
    assert not Vote.objects.filter(standing=True).exists()
    browser.open_picked(*made)
    browser.press("approve")
    assert Vote.objects.filter(standing=True).count() == 3
