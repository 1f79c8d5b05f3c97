"""What a review of the whole found: requests through a child, failing code of the project, claims, long reasons."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import AlreadyDecided, Approval, DecisionFailed, NotAllowed, claim, decide, delegate
from approvals.models import Review
from examples.models import Supplier
from tests.support import review_calls
from tests.support.review_calls import again, answers, ask, list_events, list_notices, make_person, truth  # noqa: F401
from workflows import Await, Child, Done, Spawn, Workflow, step
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


class Inner(Workflow):
    name = "mended-inner"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Pay", permission="holdpoint_approvals.decide_review"), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer.outcome)


class Outer(Workflow):
    name = "mended-outer"

    @step
    def begin(self, ctx: Any) -> Any:
        return Spawn([Child(Inner, {})], then="end")

    @step
    def end(self, ctx: Any) -> Any:
        return Done()


class AboutSupplier(Workflow):
    name = "mended-supplier"

    @step
    def ask(self, ctx: Any) -> Any:
        subject = Supplier.objects.get(pk=ctx.input["supplier"])
        return Await(Approval("Take them on", subject=subject, assignees=["ann"]), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer.outcome)


def test_nobody_approves_what_they_asked_for_through_a_child(ann: User) -> None:
    ann = review_calls.grant(ann, "decide_review")
    workflows.start(Outer, {}, actor=ann)
    drain()
    review = Review.objects.get()
    assert review.requester_id == ann.pk
    with pytest.raises(NotAllowed, match="four eyes"):
        decide(review, "approve", actor=ann)


def test_another_database_that_is_away_takes_a_decision_back_and_the_deadline_passes(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.meet_another_server, timeout="1h")
    decide(review, "approve", actor=ann, grace=True)
    advance("10s")
    row = again(review)
    assert (row.open, row.outcome, row.effective_at) == (True, "", None)
    assert [one.data["reason"] for one in list_notices(review, "reopened")]
    advance("1h")
    assert not again(review).open


def test_what_an_error_says_of_the_sites_inside_is_told_to_nobody(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.meet_another_server)
    with pytest.raises(DecisionFailed) as refused:
        decide(review, "approve", actor=ann)
    told = [str(refused.value), *(str(row.data) for row in list_events(review, "refused"))]
    assert not any("hunter2" in text for text in told)
    assert "OperationalError" in told[0]


def test_an_answer_by_time_that_goes_on_failing_ends_the_ladder_and_is_told(ann: User) -> None:
    ben = make_person("ben")
    review = ask(
        assignees=["ann"],
        requester=ben,
        escalate=[("1h", ("outcome", "reject"))],
        on_decision=review_calls.fail_always,
        timeout="7d",
    )
    advance("3h")
    row = again(review)
    assert (row.open, row.next_at) == (True, None)
    [notice] = list_notices(review, "reopened")
    assert notice.to == [f"user:{ann.pk}", f"user:{ben.pk}"]
    assert "the books are closed" in notice.data["reason"]
    assert [event.data["what"] for event in list_events(review, "handled")] == ["escalation failed"]


def test_very_many_long_reasons_do_not_keep_the_last_vote_out() -> None:
    people = [make_person(f"p{n}") for n in range(60)]
    review = ask(assignees=[one.username for one in people], quorum="all")
    for one in people[:-1]:
        assert decide(review, "approve", actor=one, reason="é" * 4000).state == "open"
    assert decide(review, "approve", actor=people[-1], reason="é" * 4000).state == "decided"
    drain()
    assert_done(review.instance_id)


def test_a_decision_that_comes_too_late_is_in_the_history(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    from workflows.testing import _db, _skew

    _skew(_db(), 3601)
    with pytest.raises(AlreadyDecided):
        decide(review, "approve", actor=ann)
    assert [row.data["refused"] for row in list_events(review, "refused")] == ["AlreadyDecided"]


def test_a_claim_goes_with_the_account_of_who_made_it(ann: User) -> None:
    make_person("ben", "finance")
    cid = make_person("cid", "finance")
    review = ask(groups=["finance"])
    claim(review, actor=cid)
    ben = User.objects.get(username="ben")
    assert list(Review.objects.for_user(ben)) == []
    User.objects.filter(pk=cid.pk).update(is_active=False)
    assert list(Review.objects.for_user(ben)) == [review]
    assert decide(review, "approve", actor=ben).state == "decided"


def test_a_share_is_not_handed_to_who_is_asked_already() -> None:
    ben, cid = make_person("ben", "finance"), make_person("cid", "finance")
    review = ask(groups=["finance"], quorum=2)
    with pytest.raises(NotAllowed, match="asked already"):
        delegate(review, to=cid, actor=ben)


def test_about_a_subject_that_is_gone_one_can_still_say_no(ann: User) -> None:
    supplier = Supplier.objects.create(name="Fjord", country="Norway")
    instance = workflows.start(AboutSupplier, {"supplier": supplier.pk})
    drain()
    review = Review.objects.get()
    supplier.delete()
    with pytest.raises(Exception, match="changed since it was opened"):
        decide(review, "approve", actor=ann)
    decide(review, "reject", actor=ann)
    drain()
    assert_done(instance, "reject")
