"""Every forbidden actor at the doors of the inbox: a request's own page, and many requests together.

Each is refused by the same rule at either door, nothing of the request changes, and what somebody may not see is not
there for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

import workflows
from approvals import decide
from approvals.actions import actions
from approvals.models import Candidate, Comment, Review, Vote
from tests.support.bulk_page import AT, Browser, ask_many, read_words
from tests.support.review_calls import again, ask, find_review, grant, list_events, make_person, start, truth  # noqa: F401
from workflows.models import Workspace
from workflows.testing import drain

pytestmark = pytest.mark.django_db

HOSTILE = "</textarea><img src=x onerror=alert(1)>\u202egpj"


@dataclass
class Door:
    """One way in: `send` posts a decision about a review; what an answer says of it."""

    send: Callable[[Client, Review, str], Any]
    #: The status where the request is there, and refused.
    refused: int | None


def send_one(client: Client, review: Review, outcome: str = "approve") -> Any:
    return client.post(f"/approvals/{review.pk}/", {"outcome": outcome, "version": str(review.version)})


def send_many(client: Client, review: Review, outcome: str = "approve") -> Any:
    sent = {"outcome": outcome, "pick": str(review.pk), f"version-{review.pk}": str(review.version)}
    return client.post(AT, sent)


DOORS = {"page": Door(send_one, None), "bulk": Door(send_many, 200)}
each_door = pytest.mark.parametrize("door", DOORS.values(), ids=list(DOORS))


def login(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def check_refused(door: Door, review: Review, user: User, rule: str, status: int, words: str) -> None:
    """Told why, in the ledger, and nothing else."""
    before = again(review), Vote.objects.count(), Candidate.objects.count(), Comment.objects.count()
    answer = door.send(login(user), review, "approve")
    assert answer.status_code == (door.refused or status), answer.text
    assert words in read_words(answer.text)
    after = again(review), Vote.objects.count(), Candidate.objects.count(), Comment.objects.count()
    assert after == before
    assert (after[0].version, after[0].open) == (before[0].version, before[0].open)
    [event] = list_events(review, "refused")
    data: Any = event.data
    assert (event.actor, data["door"], data.get("rule")) == (f"user:{user.pk}", "page", rule)


@each_door
def test_a_stranger_finds_nothing(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann"], title="Secret plan")
    told, unknown = door.send(login(ben), review, "approve"), door.send(login(ben), Review(pk=uuid4()), "approve")
    assert told.status_code == unknown.status_code == 404
    assert "Secret plan" not in told.text
    assert read_words(told.text) == read_words(unknown.text)
    assert not Vote.objects.exists()


@each_door
def test_the_requester_does_not_decide(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann", "ben"], requester="ben")
    check_refused(door, review, ben, "requester", 403, "because you asked for this (four eyes)")


@each_door
def test_who_decided_an_earlier_stage_does_not_decide(ann: User, ben: User, door: Door) -> None:
    instance = start({"assignees": ["ann"]}, {"assignees": ["ann", "ben"]})
    decide(find_review(instance), "approve", actor=ann)
    drain()
    check_refused(door, find_review(instance), ann, "decided_before", 403, "you decided an earlier stage")


@each_door
def test_nobody_decides_twice(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "reject", actor=ann)
    check_refused(door, review, ann, "voted", 409, "You have decided on this already")


@each_door
def test_what_somebody_has_claimed_waits_for_them(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann", "ben"])
    actions.claim(review, actor=ben)
    check_refused(door, review, ann, "claimed", 409, "Ben has claimed this")


@each_door
def test_what_somebody_is_deciding_waits_for_that(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann", "ben"])
    decide(review, "approve", actor=ben, grace=True)
    check_refused(door, review, ann, "grace", 409, "Ben")


@each_door
def test_who_may_see_all_may_not_decide_all(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann"])
    check_refused(door, review, grant(ben, "view_review"), "not_candidate", 403, "you are not among those asked")


@each_door
def test_who_left_the_group_finds_nothing_any_more(ann: User, ben: User, door: Door) -> None:
    ann.groups.add(Group.objects.create(name="finance"))
    review = ask(groups=["finance"])
    ann.groups.clear()
    assert door.send(login(ann), review, "approve").status_code == 404
    assert again(review).open
    assert not Vote.objects.exists()


@each_door
def test_who_is_no_member_of_the_workspace_finds_nothing(ann: User, door: Door) -> None:
    review = ask(assignees=["ann"])
    workflows.workspace.create("acme")
    assert door.send(login(ann), review, "approve").status_code == 404
    Workspace.objects.get(pk=review.workspace_id).members.add(ann)
    door.send(login(ann), review, "approve")
    assert Vote.objects.count() == 1


@each_door
def test_an_account_that_was_closed_is_nobody(ann: User, door: Door) -> None:
    review = ask(assignees=["ann"])
    client = login(ann)
    User.objects.update(is_active=False)
    assert door.send(client, review, "approve").status_code == 401
    assert not Vote.objects.exists()


@each_door
def test_what_was_decided_stays_as_it_is(ann: User, ben: User, door: Door) -> None:
    review = ask(assignees=["ann", "ben"])
    decide(review, "reject", actor=ben)
    answer = door.send(login(ann), review, "approve")
    assert answer.status_code == (door.refused or 410)
    assert "Ben rejected this" in read_words(answer.text)
    assert [vote.user_id for vote in Vote.objects.all()] == [ben.pk]


@each_door
def test_an_answer_that_there_is_not_decides_nothing(ann: User, door: Door) -> None:
    review = ask(assignees=["ann"])
    assert door.send(login(ann), review, "pay").status_code == 422
    assert again(review).open


@each_door
def test_a_form_of_another_site_decides_nothing_and_is_kept(ann: User, door: Door) -> None:
    review = ask(assignees=["ann"])
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    answer = door.send(client, review, "approve")
    assert answer.status_code == 403
    assert "Nothing was sent" in answer.text
    assert not Vote.objects.exists()
    assert not list_events(review, "refused")


@each_door
def test_looking_decides_nothing(ann: User, door: Door) -> None:
    review = ask(assignees=["ann"])
    client = login(ann)
    for at in (f"/approvals/{review.pk}/", AT):
        for method, status in (("GET", 200), ("HEAD", 200), ("PUT", 405), ("PATCH", 405), ("DELETE", 405)):
            assert client.generic(method, f"{at}?outcome=approve&pick={review.pk}").status_code == status
    assert again(review).open
    assert not Vote.objects.exists()


# --- many together only -------------------------------------------------------------------------------------


def test_high_risk_is_refused_together_whatever_the_form_says(ann: User) -> None:
    review = ask(assignees=["ann"], risk="high")
    for outcome in ("approve", "reject"):
        client, words = login(ann), "The risk is high: open this request to decide it on its own."
        sent = {"outcome": outcome, "pick": str(review.pk), f"version-{review.pk}": "1", "reason": "Why", "saw": "1"}
        assert words in read_words(client.post(AT, sent).text)
    rules: list[Any] = [event.data for event in list_events(review, "refused")]
    assert [one["rule"] for one in rules] == ["high_risk_bulk"] * 2
    assert not Vote.objects.exists()


def test_what_others_may_see_is_left_out_and_the_rest_is_decided(ann: User, ben: User) -> None:
    [mine], hidden = ask_many(1), ask(assignees=["ben"], title="Secret plan")
    browser = Browser(ann)
    browser.open_picked(mine, hidden)
    assert "Secret plan" not in browser.html
    assert str(hidden.pk) not in browser.html.replace(browser.at.replace("&", "&amp;"), "")
    words = browser.press(pick=[str(mine.pk), str(hidden.pk), str(uuid4()), "nothing", "'"])
    assert "1 of 3 approved" in words
    assert "2 are not here for you any more." in words
    assert "Secret plan" not in browser.html
    [event] = list_events(hidden, "refused")
    assert (event.actor, event.data) == (f"user:{ann.pk}", {**event.data, "door": "page", "rule": "not_candidate"})


def test_nothing_of_others_is_shown_at_all(ann: User, ben: User) -> None:
    hidden = ask(assignees=["ben"])
    assert "There is nothing here for you" in Browser(ann).open(f"pick={hidden.pk}", status=404)


def test_undoing_what_is_not_ones_own_changes_nothing(ann: User, ben: User) -> None:
    hidden = ask(assignees=["ben"])
    decide(hidden, "approve", actor=ben, grace=True)
    answer = login(ann).post(AT, {"do": "undo", "undo": str(hidden.pk), f"version-{hidden.pk}": "1"})
    assert answer.status_code == 404
    assert again(hidden).effective_at is not None
    [event] = list_events(hidden, "refused")
    assert (event.actor, event.data) == (f"user:{ann.pk}", {**event.data, "door": "page", "outcome": "undo"})


def test_whatever_stands_in_a_request_is_text(ann: User) -> None:
    dan = make_person("dan", last_name="<b>Dan</b>")
    for number in range(2):
        ask(
            title=f"{HOSTILE} {number}",
            why=HOSTILE,
            requester=dan,
            assignees=["ann"],
            request={HOSTILE: f"{HOSTILE}{number}", "same": HOSTILE},
        )
    browser = Browser(ann)
    browser.open()
    browser.press(status=422, pick=[], reason=HOSTILE)
    pages = [browser.html]
    browser.open()
    browser.press(reason=HOSTILE)
    pages.append(browser.html)
    for html in pages:
        assert "<img" not in html
        assert "<b>Dan" not in html
        assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "\u202e" not in pages[1]
    assert Vote.objects.filter(reason=HOSTILE).count() == 2


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"outcome": "approve"},
        {"outcome": ["approve", "reject"], "pick": "\0"},
        {"pick": ["x" * 5_000], "version-x": "1"},
        {"do": "undo"},
        {"do": "undo", "undo": "x"},
        {"do": "\0", "reason": "\0"},
    ],
)
def test_whatever_is_sent_is_answered(ann: User, sent: dict[str, Any]) -> None:
    answer = login(ann).post(AT, sent)
    assert answer.status_code in (200, 422)


@pytest.mark.parametrize("reason", ["\0", "a\0b"])
def test_a_reason_that_cannot_be_kept_is_told(ann: User, reason: str) -> None:
    [review] = ask_many(1)
    sent = {"outcome": "approve", "pick": str(review.pk), f"version-{review.pk}": "1", "reason": reason}
    assert login(ann).post(AT, sent).status_code == 422
    assert not Vote.objects.exists()


@pytest.mark.parametrize("query", ["pick=x", "pick=%00", "list=%00&view=%F0%9F", "after=x", "q=%00", "all=2", "pick="])
def test_whatever_an_address_says_is_a_page(ann: User, query: str) -> None:
    ask_many(1)
    Browser(ann).open(query)
