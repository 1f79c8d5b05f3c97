"""POST /v1/approvals/{id}/claim, release, delegate, comment, request_info, undo; and who is refused at every door."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import decide
from approvals.actions import actions
from approvals.models import Candidate, Comment, Review, Vote
from approvals.rules.door import Door
from tests.support.api_calls import problem
from tests.support.rest_reviews import login
from tests.support.review_calls import (
    again,
    ask,
    find_review,
    grant,
    list_events,
    list_notices,
    list_standing,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows.models import Workspace
from workflows.testing import advance, assert_awaiting, drain

pytestmark = pytest.mark.django_db


def act(user: User, review: Any, action: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
    path = f"/v1/approvals/{getattr(review, 'pk', review)}/{action}"
    return login(user).post(path, headers=headers, raw=b"") if body is None else login(user).post(path, body, headers)


# --- claim and release ----------------------------------------------------------------------------------------


def test_who_claims_is_shown_and_others_wait(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"])
    told = act(ann, review, "claim")
    assert (told.status_code, told.json()["claimed_by"], told.json()["claimed_by_name"]) == (200, "ann", "Ann")
    assert act(ann, review, "claim", {}).json()["claimed_by"] == "ann"
    assert problem(act(ben, review, "claim"), 409, "not-now")["rule"] == "claimed"
    assert problem(act(ben, review, "release"), 409, "not-now")["rule"] == "claimed"
    assert login(ben).get("/v1/approvals").json()["results"] == []
    assert act(ann, review, "release").json()["claimed_by"] is None
    assert act(ann, review, "release").status_code == 200
    assert act(ben, review, "claim").status_code == 200
    assert [event.data["what"] for event in list_events(review, "handled")] == ["claimed", "released", "claimed"]
    assert {event.data["door"] for event in list_events(review, "handled")} == {"api"}


def test_who_may_reassign_releases_the_claim_of_another(ann: User) -> None:
    boss = grant(grant(make_person("boss"), "reassign_review"), "view_review")
    review = ask(assignees=["ann"])
    act(ann, review, "claim")
    assert act(boss, review, "release").json()["claimed_by"] is None


# --- delegate -------------------------------------------------------------------------------------------------


def test_a_share_is_handed_on_and_the_other_decides_in_place(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann"])
    assert act(ann, review, "delegate", {"to": "ben", "reason": " On the road "}).status_code == 200
    [event] = list_events(review, "handled")
    assert (event.data["what"], event.data["to"], event.data["reason"]) == (
        "delegated",
        f"user:{ben.pk}",
        "On the road",
    )
    assert problem(act(ann, review, "decide", {"outcome": "approve"}), 403, "forbidden-by-rule")
    assert act(ben, review, "decide", {"outcome": "approve"}).status_code == 200
    assert Vote.objects.get().on_behalf_of_id == ann.pk


def test_it_is_handed_on_to_nobody_who_could_not_decide(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann"], requester="ben")
    told = problem(act(ann, review, "delegate", {"to": "ben"}), 403, "forbidden-by-rule")
    assert "four eyes" in told["detail"]
    ben.is_active = False
    ben.save()
    assert "can’t log in" in problem(act(ann, review, "delegate", {"to": "ben"}), 403, "forbidden-by-rule")["detail"]


def test_who_is_in_another_workspace_only_is_told_as_who_is_not(ann: User) -> None:
    Workspace.objects.get().members.add(ann)
    zoe = make_person("zoe", last_name="Zimmer")
    workflows.workspace.create("acme").members.add(zoe)
    review = ask(assignees=["ann"])
    theirs, nobodys = (act(ann, review, "delegate", {"to": name}) for name in ("zoe", "eve"))
    assert theirs.content.replace(b"zoe", b"~") == nobodys.content.replace(b"eve", b"~")
    problem(theirs, 422, "invalid-decision")
    assert [one.principal for one in Candidate.objects.all()] == [f"user:{ann.pk}"]


# --- comment and ask ------------------------------------------------------------------------------------------


def test_a_comment_is_said_also_once_it_is_decided(ann: User) -> None:
    review = ask(assignees=["ann"])
    told = act(ann, review, "comment", {"text": " Within budget? "})
    comment = Comment.objects.get()
    assert told.status_code == 200
    assert {name: told.json()[name] for name in ("id", "approval", "kind", "text")} == {
        "id": str(comment.pk),
        "approval": str(review.pk),
        "kind": "comment",
        "text": "Within budget?",
    }
    decide(review, "approve", actor=ann)
    assert act(ann, review, "comment", {"text": "Good."}).status_code == 200


def test_a_question_goes_to_who_asked(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"], requester="ben")
    assert act(ann, review, "request_info", {"text": "Which account?"}).json()["kind"] == "question"
    assert [notice.to for notice in list_notices(review, "question")] == [[f"user:{ben.pk}"]]
    assert problem(act(ben, review, "request_info", {"text": "Why?"}), 403, "forbidden-by-rule")["rule"] == "requester"
    nobodys = ask(assignees=["ann"])
    told = problem(act(ann, nobodys, "request_info", {"text": "Why?"}), 403, "forbidden-by-rule")
    assert told["detail"] == "No person asked for this, so there is nobody to ask."


# --- undo -----------------------------------------------------------------------------------------------------


def test_a_decision_of_the_page_is_taken_back_within_its_grace(ann: User) -> None:
    instance = start({"assignees": ["ann"]})
    review = find_review(instance)
    decide(review, "approve", actor=ann, grace=True, door=Door("page"))
    told = act(ann, review, "undo")
    assert (told.status_code, told.json()["status"], told.json()["outcome"]) == (200, "open", None)
    advance("1m")
    assert_awaiting(instance)
    assert list_standing(review) == []
    assert [event.data["door"] for event in list_events(review, "reversed")] == ["api"]


def test_what_is_carried_out_is_410_and_what_is_another_persons_409(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"])
    decide(review, "approve", actor=ann, grace=True, door=Door("page"))
    assert problem(act(ben, review, "undo"), 409, "not-now")["rule"] == "voted"
    advance("1m")
    problem(act(ann, review, "undo"), 410, "resolved")
    over_http = ask(assignees=["ann", "ben"])
    act(ann, over_http, "decide", {"outcome": "approve"})
    problem(act(ann, over_http, "undo"), 410, "resolved")


def test_a_vote_is_taken_back_while_others_still_have_to_decide(ann: User) -> None:
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2)
    act(ann, review, "decide", {"outcome": "approve"})
    assert act(ann, review, "undo").status_code == 200
    assert act(ann, review, "decide", {"outcome": "reject"}).status_code == 200


# --- every door x every forbidden actor -----------------------------------------------------------------------

BODIES: dict[str, Any] = {
    "decide": {"outcome": "approve"},
    "claim": {},
    "release": {},
    "delegate": {"to": "gus"},
    "comment": {"text": "?"},
    "request_info": {"text": "?"},
    "undo": {},
}
EACH = pytest.mark.parametrize("action", BODIES)


def make_people() -> None:
    """Who asks, and whom it is handed on to."""
    make_person("dan")
    make_person("gus")


@EACH
def test_a_stranger_finds_nothing_at_any_address_and_the_attempt_is_in_the_ledger(ann: User, action: str) -> None:
    stranger = make_person("eve")
    make_people()
    review = ask(assignees=["ann"], requester="dan")
    if action == "release":
        actions.claim(review, actor=ann)
    before = again(review).version, Candidate.objects.count(), Comment.objects.count()
    told = act(stranger, review, action, BODIES[action])
    unknown = act(stranger, uuid.uuid4(), action, BODIES[action])
    assert (told.content, told.status_code) == (unknown.content, 404)
    assert tell_headers(told) == tell_headers(unknown)
    assert (again(review).version, Candidate.objects.count(), Comment.objects.count()) == before
    assert [event.actor for event in list_events(review, "refused")] == [f"user:{stranger.pk}"]


def tell_headers(response: Any) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name != "Date"}


@EACH
def test_who_asked_does_not_decide_and_is_told_why(ann: User, action: str) -> None:
    ben = make_person("ben")
    make_people()
    review = ask(assignees=["ann", "ben"], requester="ben")
    told = act(ben, review, action, BODIES[action])
    if action in ("comment", "release"):
        assert told.status_code == 200
        return
    kind = (409, "not-now") if action == "undo" else (403, "forbidden-by-rule")
    assert problem(told, *kind)["rule"] == ("voted" if action == "undo" else "requester")
    assert [event.actor for event in list_events(review, "refused")] == [f"user:{ben.pk}"]


@EACH
def test_who_left_the_group_finds_nothing_any_more(ann: User, action: str) -> None:
    cid = make_person("cid", "finance")
    make_people()
    review = ask(groups=["finance"], requester="dan")
    assert act(cid, review, "claim").status_code == 200
    actions.release(review, actor=cid)
    actions.claim(review, actor=make_person("fay", "finance"))
    cid.groups.clear()
    problem(act(cid, review, action, BODIES[action]), 404, "not-found")


@EACH
def test_an_account_that_was_closed_is_a_stranger(ann: User, action: str) -> None:
    make_people()
    review = ask(assignees=["ann"], requester="dan")
    api = login(ann)
    User.objects.update(is_active=False)
    problem(api.post(f"/v1/approvals/{review.pk}/{action}", BODIES[action]), 401, "unauthorized")
    assert not Vote.objects.exists()


@EACH
def test_what_was_decided_stays_as_it_is(ann: User, action: str) -> None:
    ben = make_person("ben")
    make_people()
    review = ask(assignees=["ann", "ben"], requester="dan")
    decide(review, "approve", actor=ben)
    drain()
    told = act(ann, review, action, BODIES[action])
    if action == "comment":
        assert told.status_code == 200
    else:
        problem(told, 410, "resolved")
    assert list_standing(review) == [(f"user:{ben.pk}", "approve")]


@EACH
def test_the_same_call_again_is_told_the_same_and_done_once(ann: User, action: str) -> None:
    make_people()
    review = ask(assignees=["ann"], requester="dan")
    if action == "undo":
        decide(review, "approve", actor=ann, grace=True)
    key = {"Idempotency-Key": "k"}
    first, second = (act(ann, review, action, BODIES[action], key) for _ in range(2))
    assert (first.status_code, first.content) == (200, second.content)
    assert second.headers["Idempotency-Replayed"] == "true"
    done = sum(len(list_events(review, kind)) for kind in ("handled", "voted", "reversed"))
    assert done == (0 if action == "release" else 2 if action == "undo" else 1)


@EACH
@pytest.mark.parametrize("body", [[], "x", {"unknown": 1}, {"text": ""}, {"text": "  "}, {"to": ""}, {"to": 5}])
def test_a_body_of_another_shape_is_400_whatever_the_address_says(ann: User, action: str, body: Any) -> None:
    first = act(ann, ask(assignees=["ann"]), action, body)
    problem(first, 400, "invalid-request")
    assert act(ann, uuid.uuid4(), action, body).content == first.content


@EACH
def test_looking_decides_nothing(ann: User, action: str) -> None:
    review = ask(assignees=["ann"])
    api = login(ann)
    for method in ("GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE"):
        assert api.call(method, f"/v1/approvals/{review.pk}/{action}").status_code == 405
    assert Review.objects.get().open
    assert not list_events(review, "handled")
