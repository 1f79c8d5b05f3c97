"""POST /v1/approvals/{id}/decide: who may, what each refusal is, and calls that come again."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

import workflows
from approvals import Outcome, decide
from approvals.actions import actions
from approvals.models import Absence, Review, Vote
from tests.support import review_calls
from tests.support.api_calls import Api, make_key, problem
from tests.support.rest_reviews import login
from tests.support.review_calls import (
    again,
    ask,
    find_review,
    list_events,
    list_standing,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows.models import LedgerEvent, StoredAnswer, Workspace
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

KEY = {"Idempotency-Key": "k"}


def send(user: User, review: Review, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    return login(user).post(f"/v1/approvals/{review.pk}/decide", body, headers)


# --- taken ----------------------------------------------------------------------------------------------------


def test_the_one_person_asked_decides_and_the_instance_goes_on(ann: User) -> None:
    review = ask(assignees=["ann"])
    response = send(ann, review, {"outcome": "reject", "reason": " Not within budget ", "version": 1})
    vote = Vote.objects.get()
    assert response.status_code == 200
    assert response.json() == {
        "id": str(review.pk),
        "instance": str(review.instance_id),
        "vote": str(vote.pk),
        "status": "decided",
        "outcome": "reject",
        "version": 1,
    }
    assert (vote.door, vote.automated, vote.reason, vote.actor) == (
        "api",
        False,
        "Not within budget",
        f"user:{ann.pk}",
    )
    drain()
    assert_done(review.instance_id, {"outcome": "reject", "actor": f"user:{ann.pk}"})
    [event] = list_events(review, "answered")
    assert (event.actor, event.data["door"]) == (f"user:{ann.pk}", "api")


def test_there_is_no_grace_over_http(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 60}
    review = ask(assignees=["ann"])
    assert send(ann, review, {"outcome": "approve"}).json()["status"] == "decided"
    assert again(review).effective_at is None
    assert not again(review).open


def test_a_vote_that_is_not_the_last_one_needed_leaves_it_open(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2)
    told = send(ann, review, {"outcome": "approve"}).json()
    assert (told["status"], told["outcome"]) == ("open", None)
    assert send(ben, review, {"outcome": "approve"}).json()["status"] == "decided"


def test_the_form_goes_with_the_answer(ann: User) -> None:
    review = ask(assignees=["ann"], schema={"amount": float})
    told = problem(send(ann, review, {"outcome": "approve", "data": {"amount": "x"}}), 422, "invalid-data")
    assert list(told["errors"]) == ["amount"]
    assert list(problem(send(ann, review, {"outcome": "approve"}), 422, "invalid-data")["errors"]) == ["data"]
    assert again(review).open
    assert send(ann, review, {"outcome": "approve", "data": {"amount": 4.5}}).status_code == 200
    drain()
    answer = review_calls.answers[-1]
    assert answer is not None
    assert answer.data == {"amount": 4.5}


def test_a_substitute_decides_for_who_is_away(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ben"])
    Absence.objects.create(user=ben, substitute=ann, since=timezone.now())
    assert send(ann, review, {"outcome": "approve"}).status_code == 200
    assert Vote.objects.get().on_behalf_of_id == ben.pk


# --- refused --------------------------------------------------------------------------------------------------


def test_a_rule_that_forbids_it_is_403_and_named(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"], requester="ben")
    told = problem(send(ben, review, {"outcome": "approve"}), 403, "forbidden-by-rule")
    assert told["rule"] == "requester"
    assert told["detail"] == "You can’t decide because you asked for this (four eyes). Ann or Ben can."
    assert not Vote.objects.exists()
    [event] = list_events(review, "refused")
    assert (event.actor, event.data["rule"], event.data["door"]) == (f"user:{ben.pk}", "requester", "api")


def test_who_decided_an_earlier_stage_is_refused(ann: User) -> None:
    make_person("ben")
    instance = start({"assignees": ["ann", "ben"]}, {"assignees": ["ann", "ben"]})
    assert send(ann, find_review(instance), {"outcome": "approve"}).status_code == 200
    drain()
    told = problem(send(ann, find_review(instance), {"outcome": "approve"}), 403, "forbidden-by-rule")
    assert told["rule"] == "decided_before"


def test_who_may_look_but_was_not_asked_is_403_and_who_may_not_look_404(ann: User) -> None:
    viewer = review_calls.grant(make_person("viewer"), "view_review")
    review = ask(assignees=["ann"])
    told = problem(send(viewer, review, {"outcome": "approve"}), 403, "forbidden-by-rule")
    assert told["rule"] == "not_candidate"
    stranger = make_person("stranger")
    told = send(stranger, review, {"outcome": "approve"})
    assert told.content == send(stranger, Review(pk=uuid.uuid4()), {"outcome": "approve"}).content
    problem(told, 404, "not-found")
    refused = [(event.actor, event.data["rule"]) for event in list_events(review, "refused")]
    assert refused == [(f"user:{viewer.pk}", "not_candidate"), (f"user:{stranger.pk}", "not_candidate")]


@pytest.mark.parametrize("how", ["decided", "grace", "late", "unknown outcome"])
def test_who_may_not_look_learns_nothing_of_how_it_stands(ann: User, how: str) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    if how in ("decided", "grace"):
        decide(review, "approve", actor=ann, grace=how == "grace")
    elif how == "late":
        advance("2h")
    body = {"outcome": "nothing" if how == "unknown outcome" else "approve", "version": 7}
    told = send(make_person("stranger"), review, body)
    assert problem(told, 404, "not-found")
    assert told.content == send(ann, Review(pk=uuid.uuid4()), body).content


def test_voting_twice_is_409(ann: User) -> None:
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2)
    send(ann, review, {"outcome": "approve"})
    told = problem(send(ann, review, {"outcome": "reject"}), 409, "not-now")
    assert told["rule"] == "voted"
    assert list_standing(review) == [(f"user:{ann.pk}", "approve")]


def test_what_somebody_is_at_is_409(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"])
    actions.claim(review, actor=ben)
    told = problem(send(ann, review, {"outcome": "approve"}), 409, "not-now")
    assert told["rule"] == "claimed"
    assert told["detail"] == "Ben has claimed this. Others can decide once it is released."


def test_what_somebody_is_deciding_is_409_and_says_until_when(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=["ann", "ben"])
    decide(review, "approve", actor=ben, grace=True)
    told = problem(send(ann, review, {"outcome": "approve"}), 409, "not-now")
    assert told["rule"] == "grace"
    assert told["by"] == "Ben"
    effective_at = again(review).effective_at
    assert effective_at is not None
    assert datetime.fromisoformat(told["until"]) == effective_at
    assert "Ben is deciding this: “Approve”. It can be undone until" in told["detail"]


def test_another_version_is_409_and_so_is_a_subject_that_has_changed(ann: User, order: Any) -> None:
    review = ask(assignees=["ann"], subject=order, change={"note": "x"})
    problem(send(ann, review, {"outcome": "approve", "version": 9}), 409, "stale-version")
    order.amount = 5
    order.save()
    told = problem(send(ann, review, {"outcome": "approve", "version": 1}), 409, "stale-version")
    assert told["difference"] == {"Amount": ["€1,240.00", "€5.00"]}
    shown = login(ann).get(f"/v1/approvals/{review.pk}").json()
    assert (shown["version"], shown["drift"]) == (2, [])
    assert send(ann, review, {"outcome": "approve", "version": shown["version"]}).status_code == 200


def test_what_is_over_is_410_and_says_who_decided(ann: User) -> None:
    ben = make_person("ben")
    decided, withdrawn, cancelled, late = (
        ask(assignees=["ann", "ben"], requester=None, timeout="1h") for _ in range(4)
    )
    decide(decided, "reject", actor=ben)
    told = problem(send(ann, decided, {"outcome": "approve"}), 410, "resolved")
    assert (told["outcome"], told["decided_by"]) == ("reject", "Ben")
    assert told["decided_at"] == login(ann).get(f"/v1/approvals/{decided.pk}").json()["decided_at"]
    actions.withdraw(withdrawn, actor=review_calls.grant(ben, "withdraw_review"))
    workflows.cancel(cancelled.instance_id)
    advance("2h")
    for review in (withdrawn, cancelled, late):
        problem(send(ann, review, {"outcome": "approve", "version": 1}), 410, "resolved")
    assert list_standing(decided) == [(f"user:{ben.pk}", "reject")]


@pytest.mark.no_fold(reason="the deadline is moved by hand")
def test_a_deadline_that_has_passed_is_410_and_fires(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    with connection.cursor() as cursor:
        for table in ("interaction", "unit"):
            cursor.execute(f"UPDATE holdpoint_{table} SET deadline = now() - interval '1 s'")
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 s'")
    problem(send(ann, review, {"outcome": "approve"}, KEY), 410, "resolved")
    told = LedgerEvent.objects.filter(instance=review.instance_id).order_by("seq")
    assert [event.kind for event in told][-2:] == ["timed_out", "refused"]


def test_a_stale_version_is_told_before_that_it_is_over_or_that_there_is_no_such_outcome(ann: User) -> None:
    review = ask(assignees=["ann"])
    problem(send(ann, review, {"outcome": "nothing", "version": 9}), 409, "stale-version")
    send(ann, review, {"outcome": "approve"})
    problem(send(ann, review, {"outcome": "approve", "version": 9}), 409, "stale-version")
    problem(send(ann, review, {"outcome": "approve", "version": 1}), 410, "resolved")


def test_an_outcome_that_is_none_and_a_reason_that_is_missing_are_422(ann: User) -> None:
    review = ask(assignees=["ann"], outcomes=["approve", Outcome("reject", requires_reason=True)])
    told = problem(send(ann, review, {"outcome": "aprove"}), 422, "invalid-decision")
    assert told["errors"] == {"outcome": ["must be one of approve, reject"]}
    for reason in ("", "   "):
        told = problem(send(ann, review, {"outcome": "reject", "reason": reason}), 422, "invalid-decision")
        assert told["errors"] == {"reason": ["is required for this outcome"]}
    assert again(review).open


def test_what_the_sites_own_code_refuses_is_409_and_nothing_changed(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.rename_and_raise)
    told = problem(send(ann, review, {"outcome": "approve"}), 409, "not-carried-out")
    assert "no such account" in told["detail"]
    assert again(review).open
    assert not Vote.objects.exists()
    assert User.objects.get(pk=ann.pk).last_name == ""


def refuse(operation: str, interaction: Any, actor: str) -> Any:
    return "not today" if operation == "resume" else True


def test_the_sites_policy_is_asked_too(ann: User, settings: Any) -> None:
    review = ask(assignees=["ann"])
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": f"{__name__}.refuse"}
    problem(send(ann, review, {"outcome": "approve"}), 403, "refused")
    assert again(review).open


@pytest.mark.parametrize(
    "body",
    [
        [],
        "approve",
        {},
        {"outcome": ""},
        {"outcome": "x" * 65},
        {"outcome": 1},
        {"outcome": "approve", "reason": None},
        {"outcome": "approve", "reason": "x" * 4001},
        {"outcome": "approve", "version": "1"},
        {"outcome": "approve", "version": True},
        {"outcome": "approve", "grace": True},
        {"outcome": "approve", "override": True},
        {"outcome": "approve", "actor": "user:1"},
    ],
)
def test_a_body_of_another_shape_is_400_before_anything_is_looked_for(ann: User, body: Any) -> None:
    review = ask(assignees=["ann"])
    first = send(ann, review, body)
    problem(first, 400, "invalid-request")
    assert send(ann, Review(pk=uuid.uuid4()), body).content == first.content
    assert again(review).open


# --- how carefully --------------------------------------------------------------------------------------------


def test_high_risk_takes_the_version_that_was_looked_at_and_a_reason(ann: User) -> None:
    review = ask(assignees=["ann"], risk="high")
    told = problem(send(ann, review, {"outcome": "approve", "reason": "seen"}), 403, "forbidden-by-rule")
    assert (told["rule"], "`version`" in told["detail"]) == ("high_risk_diff", True)
    told = problem(send(ann, review, {"outcome": "approve", "version": 1}), 422, "invalid-decision")
    assert list(told["errors"]) == ["reason"]
    assert send(ann, review, {"outcome": "approve", "reason": "seen", "version": 1}).status_code == 200


def test_where_the_password_is_wanted_again_high_risk_is_approved_elsewhere(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    review = ask(assignees=["ann"], risk="high")
    body = {"outcome": "approve", "reason": "seen", "version": 1}
    told = problem(send(ann, review, body), 403, "forbidden-by-rule")
    assert (told["rule"], "in the inbox" in told["detail"]) == ("reauthenticate", True)
    # Saying no is never harder than it is.
    assert send(ann, review, {**body, "outcome": "reject"}).status_code == 200


# --- who is no person -----------------------------------------------------------------------------------------

ACTIONS = ("decide", "claim", "release", "delegate", "comment", "request_info", "undo")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_key_decides_nothing_whatever_its_scopes(ann: User, action: str) -> None:
    review = ask(assignees=["ann"])
    for scopes in ((), ("admin",), ("read", "complete")):
        api = Api(make_key(*scopes))
        for path in (f"/v1/approvals/{review.pk}", f"/v1/approvals/{uuid.uuid4()}"):
            told = problem(api.post(f"{path}/{action}", raw=b"{"), 403, "forbidden")
            assert told["detail"].startswith("A person decides, and not a key: log in")
    problem(Api().post(f"/v1/approvals/{review.pk}/{action}", {}), 401, "unauthorized")


@pytest.mark.parametrize("action", ACTIONS)
def test_a_page_elsewhere_cannot_make_a_person_decide(ann: User, action: str) -> None:
    """The browser would send the cookie; without the token of a page of ours nothing happens."""
    review = ask(assignees=["ann"])
    api = login(ann, enforce_csrf_checks=True)
    body = {"decide": {"outcome": "approve"}, "delegate": {"to": "ann"}}.get(action, {})
    assert "CSRF" in problem(api.post(f"/v1/approvals/{review.pk}/{action}", body), 403, "forbidden")["detail"]
    assert again(review).open


# --- calls that come again ------------------------------------------------------------------------------------


def test_the_same_call_again_is_told_the_same_and_votes_once(ann: User) -> None:
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2)
    first = send(ann, review, {"outcome": "approve"}, KEY)
    again_told = send(ann, review, {"outcome": "approve"}, KEY)
    assert first.content == again_told.content
    assert [one.headers.get("Idempotency-Replayed") for one in (first, again_told)] == [None, "true"]
    problem(send(ann, review, {"outcome": "reject"}, KEY), 409, "idempotency-conflict")
    assert Vote.objects.count() == StoredAnswer.objects.count() == 1


def test_nobody_is_told_what_a_colleague_was_told_under_the_same_key(ann: User) -> None:
    """Or their vote would be lost, and they would think it was not."""
    ben, stranger = make_person("ben"), make_person("stranger")
    review = ask(assignees=["ann", "ben"], quorum=2)
    assert send(ann, review, {"outcome": "approve"}, KEY).json()["status"] == "open"
    told = send(ben, review, {"outcome": "approve"}, KEY)
    assert (told.json()["status"], "Idempotency-Replayed" in told.headers) == ("decided", False)
    problem(send(stranger, review, {"outcome": "approve"}, KEY), 404, "not-found")
    assert Vote.objects.count() == 2


def test_a_refusal_is_not_kept_but_what_it_left_behind_is(ann: User) -> None:
    review = ask(assignees=["ann"], outcomes=["approve", Outcome("reject", requires_reason=True)])
    problem(send(ann, review, {"outcome": "reject"}, KEY), 422, "invalid-decision")
    assert len(list_events(review, "refused")) == 1
    assert not StoredAnswer.objects.exists()
    assert send(ann, review, {"outcome": "reject", "reason": "no"}, KEY).status_code == 200


def test_a_call_with_a_key_that_was_stale_can_be_made_anew(ann: User, order: Any) -> None:
    review = ask(assignees=["ann"], subject=order, change={"note": "x"})
    order.amount = 5
    order.save()
    problem(send(ann, review, {"outcome": "approve"}, KEY), 409, "stale-version")
    assert again(review).version == 2
    assert send(ann, review, {"outcome": "approve"}, KEY).status_code == 200


def test_a_replay_comes_before_that_it_is_over(ann: User) -> None:
    review = ask(assignees=["ann"])
    first = send(ann, review, {"outcome": "approve"}, KEY)
    drain()
    assert send(ann, review, {"outcome": "approve"}, KEY).content == first.content
    problem(send(ann, review, {"outcome": "approve"}), 410, "resolved")


def test_in_another_workspace_nothing_is_decided(ann: User) -> None:
    workflows.workspace.create("acme")
    for one in Workspace.objects.all():
        one.members.add(ann)
    review = ask(assignees=["ann"])
    api = login(ann)
    path = f"/v1/approvals/{review.pk}/decide"
    problem(api.post(f"{path}?workspace=acme", {"outcome": "approve"}), 404, "not-found")
    assert not list_events(review, "refused")
    assert api.post(f"{path}?workspace=default", {"outcome": "approve"}).status_code == 200
