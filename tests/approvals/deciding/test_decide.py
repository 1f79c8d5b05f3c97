"""`decide()`: what one decision writes, what it refuses, and that a refused one changes nothing but the ledger."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction

import workflows
from approvals import (
    AlreadyDecided,
    Answer,
    Approval,
    DecisionFailed,
    NotAllowed,
    Outcome,
    ReasonRequired,
    Stale,
    UnknownOutcome,
    UnknownReview,
    comment,
    decide,
    request_info,
    snooze,
    withdraw,
)
from approvals.models import Candidate, Comment, Delivery, Notice, Review, Snooze, Vote
from approvals.reviews.case import Case
from tests.support import review_calls
from tests.support.review_calls import (
    Payment,
    again,
    answers,
    ask,
    count_statements,
    find_review,
    list_calls,
    list_events,
    list_notices,
    make_person,
    refused,
    truth,  # noqa: F401 (a fixture)
)
from workflows import (
    AnswerElsewhere,
    Await,
    Done,
    InvalidCall,
    InvalidData,
    Machine,
    PolicyRefused,
    Workflow,
    action,
    durable,
    step,
    wait_for,
)
from workflows.api.completions.completion import complete_at
from workflows.clock import read_now
from workflows.definitions.decision import Decision
from workflows.models import Instance, Interaction, Signal
from workflows.store.ledger.retention import prune
from workflows.testing import _skew, advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return make_person("ann", last_name="Archer")


# --- one transaction ------------------------------------------------------------------------------------------


def test_vote_ledger_business_change_completion_and_resume_commit_in_one_transaction(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.rename_actor)
    with transaction.atomic():
        assert decide(review, "approve", actor=ann, reason="fine").state == "decided"
        assert User.objects.get(pk=ann.pk).last_name == "approve"
        assert Instance.objects.get(pk=review.instance_id).status == "runnable"
        transaction.set_rollback(True)  # the caller fails afterwards
    assert again(review).open
    assert User.objects.get(pk=ann.pk).last_name == "Archer"
    assert not Vote.objects.exists()
    assert not list_events(review, "voted") + list_events(review, "answered")
    assert_awaiting(review.instance_id)

    decide(review, "approve", actor=ann, reason="fine")
    [vote] = Vote.objects.all()
    assert (vote.outcome, vote.reason, vote.actor, vote.door, vote.standing, vote.automated, vote.override) == (
        "approve",
        "fine",
        f"user:{ann.pk}",
        "python",
        True,
        False,
        False,
    )
    [voted], [answered] = list_events(review, "voted"), list_events(review, "answered")
    assert voted.seq < answered.seq
    assert (voted.actor, voted.data["vote"], voted.data["reason"]) == (vote.actor, str(vote.pk), "fine")
    assert (answered.actor, answered.data["door"]) == (vote.actor, "python")
    assert Signal.objects.filter(instance=review.instance_id).count() == 1
    done = again(review)
    assert (done.open, done.outcome, done.decided_by_id, done.decided_at) == (False, "approve", ann.pk, vote.at)
    assert [notice.kind for notice in list_notices(review)] == ["new", "decided"]
    drain()
    assert_done(review.instance_id, {"outcome": "approve", "actor": f"user:{ann.pk}"})


def test_on_decision_is_handed_the_typed_answer_and_the_instance(ann: User) -> None:
    review = ask(assignees=["ann"], schema=Payment, on_decision=review_calls.rename_actor)
    decide(review, "approve", actor=ann, data={"amount": "12.50", "on": "2026-07-14"}, reason="fine")
    [(answer, instance)] = list_calls()
    assert answer.data == Payment(Decimal("12.50"), date(2026, 7, 14))
    assert (answer.outcome, answer.reason, answer.actor) == ("approve", "fine", f"user:{ann.pk}")
    assert instance == Instance.objects.get(pk=review.instance_id)
    drain()
    assert answers == [answer]  # the workflow is handed the very same


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (review_calls.rename_and_raise, "ValueError: no such account"),
        (review_calls.break_a_constraint, "IntegrityError"),
        (review_calls.swallow_a_failure, "a statement of its own failed"),
    ],
)
def test_an_on_decision_that_raises_is_told_and_nothing_is_recorded(ann: User, function: Any, told: str) -> None:
    review = ask(assignees=["ann"], on_decision=function)
    assert told in str(refused(DecisionFailed, review, actor=ann))
    assert User.objects.get(pk=ann.pk).last_name == "Archer"
    assert list(Review.objects.for_user(ann)) == [review]


def test_an_on_decision_may_refuse_by_itself(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.refuse_as_stale)
    assert refused(Stale, review, actor=ann).difference == {"Stock": ("12", "0")}


def test_what_an_on_decision_is_refused_elsewhere_is_not_said_of_this_review(ann: User, ben: User) -> None:
    other = ask(assignees=["ben"])
    review = ask(assignees=["ann"], on_decision=review_calls.decide_another)
    with pytest.raises(DecisionFailed, match=r"NotAllowed.* Ben can"):
        decide(review, "approve", actor=ann)
    assert again(review).open
    assert again(other).open


def test_an_on_decision_that_ends_the_instance_has_nothing_left_to_answer(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.cancel_it)
    refused(AlreadyDecided, review, actor=ann)
    assert_awaiting(review.instance_id)


def test_who_is_refused_within_a_callers_own_transaction_can_go_on_in_it(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"])
    with transaction.atomic():
        ben.groups.add(Group.objects.create(name="before"))
        with pytest.raises(NotAllowed):
            decide(review, "approve", actor=ben)
        with pytest.raises(DecisionFailed):
            decide(ask(assignees=["ann"], on_decision=review_calls.break_a_constraint), "approve", actor=ann)
        decide(review, "approve", actor=ann)
    assert not again(review).open
    assert [row.actor for row in list_events(review, "refused")] == [f"user:{ben.pk}"]


@pytest.mark.parametrize("how", ["review", "interaction", "uuid", "text"])
def test_a_review_is_addressed_as_row_interaction_or_id(ann: User, how: str) -> None:
    review = ask(assignees=["ann"])
    target: Any = {
        "review": review,
        "interaction": Interaction.objects.get(pk=review.pk),
        "uuid": review.pk,
        "text": str(review.pk),
    }[how]
    assert decide(target, "approve", actor=ann).review == review


@pytest.mark.parametrize("target", ["nonsense", 7, None, "00000000-0000-7000-8000-000000000000"])
def test_what_is_no_review_is_told(ann: User, target: Any) -> None:
    with pytest.raises(UnknownReview):
        decide(target, "approve", actor=ann)


def test_whoever_decides_on_an_instance_is_told_how_to_find_its_review(ann: User) -> None:
    instance = ask(assignees=["ann"]).instance
    with pytest.raises(InvalidCall, match=r"Review\.objects\.get\(instance=…, open=True\).*approvals\.testing\.decide"):
        decide(instance, "approve", actor=ann)  # type: ignore[arg-type]


def test_an_interaction_that_is_no_approval_is_no_review(ann: User) -> None:
    @durable(name="review_calls.callback")
    def wait(ctx: Any) -> Any:
        return ctx.callback("pay", timeout="1h").wait()

    workflows.start(wait)
    drain()
    with pytest.raises(UnknownReview):
        decide(Interaction.objects.get(), "approve", actor=ann)


@pytest.mark.parametrize("actor", ["ann", None, "", 7])
def test_only_a_saved_user_decides(ann: User, actor: Any) -> None:
    review = ask(assignees=["ann"])
    for one in (actor, User(username="unsaved")):
        with pytest.raises(InvalidCall, match="saved user"):
            decide(review, "approve", actor=one)


def test_a_reason_is_text_within_its_limit(ann: User) -> None:
    review = ask(assignees=["ann"])
    for reason in ("x" * 4001, "a\0b", "\ud800"):
        with pytest.raises(InvalidCall):
            decide(review, "approve", actor=ann, reason=reason)
    decide(review, "approve", actor=ann, reason="x" * 4000)


# --- outcomes -------------------------------------------------------------------------------------------------

MANY = (
    "approve",
    Outcome("edit_and_approve"),
    Outcome("request_changes", requires_reason=True),
    Outcome("escalate", label="To the board", tone="warning"),
    Outcome("reject", requires_reason=True, presets=("No receipt", "Wrong cost centre")),
)


@pytest.mark.parametrize("outcome", ["approve", "edit_and_approve", "request_changes", "escalate", "reject"])
def test_outcomes_are_a_list_per_approval_and_each_of_them_answers(ann: User, outcome: str) -> None:
    review = ask(assignees=["ann"], outcomes=MANY)
    decide(review, outcome, actor=ann, reason="No receipt")
    drain()
    assert_done(review.instance_id, {"outcome": outcome, "actor": f"user:{ann.pk}"})
    assert answers[-1].reason == "No receipt"


def test_each_outcome_keeps_label_tone_requires_reason_and_presets(ann: User) -> None:
    review = ask(assignees=["ann"], outcomes=MANY)
    shown = {one.name: (one.label, one.tone, one.requires_reason, one.presets) for one in Case(again(review)).outcomes}
    assert shown == {
        "approve": ("Approve", "positive", False, ()),
        "edit_and_approve": ("Edit and approve", "positive", False, ()),
        "request_changes": ("Request changes", "warning", True, ()),
        "escalate": ("To the board", "warning", False, ()),
        "reject": ("Reject", "negative", True, ("No receipt", "Wrong cost centre")),
    }


@pytest.mark.parametrize("reason", ["", "   "])
def test_an_outcome_that_requires_a_reason_is_refused_without_one(ann: User, reason: str) -> None:
    review = ask(assignees=["ann"], outcomes=MANY)
    assert refused(ReasonRequired, review, "reject", actor=ann, reason=reason).outcome == "reject"
    assert decide(review, "reject", actor=ann, reason="No receipt").state == "decided"


def test_an_outcome_that_was_not_offered_is_refused_and_told_which_there_are(ann: User) -> None:
    review = ask(assignees=["ann"], outcomes=("ship", "hold"))
    assert refused(UnknownOutcome, review, "approve", actor=ann).known == ("ship", "hold")
    decide(review, "ship", actor=ann)


@pytest.mark.parametrize("outcome", ["a\0b", "\ud800", "", None, 7, ["approve"], "x" * 500])
def test_whatever_is_no_outcome_is_refused_and_can_be_told(ann: User, outcome: Any) -> None:
    review = ask(assignees=["ann"])
    with pytest.raises(UnknownOutcome):
        decide(review, outcome, actor=ann)
    assert len(list_events(review, "refused")) == 1


# --- the form -------------------------------------------------------------------------------------------------


def test_schema_data_is_checked_like_at_every_door_and_the_fields_are_told(ann: User) -> None:
    review = ask(assignees=["ann"], schema=Payment)
    wrong = {"amount": "a lot"}
    told = refused(InvalidData, review, actor=ann, data=wrong)

    class Elsewhere(Workflow):
        name = "review_calls.elsewhere"

        @step
        def wait(self, ctx: Any) -> Any:
            return Await(ctx.callback("pay", schema=Payment), then="end", timeout="1h")

        @step
        def end(self, ctx: Any) -> Any:
            return Done()

    other = workflows.start(Elsewhere)
    drain()
    with pytest.raises(InvalidData) as door:
        workflows.complete(Interaction.objects.get(instance=other), wrong)
    assert told.errors == door.value.errors
    assert set(told.errors) == {"amount", "on"}
    assert refused(InvalidData, review, actor=ann).errors == {"data": ["is required"]}  # nothing was sent at all


def test_what_nobody_asked_for_is_refused(ann: User) -> None:
    review = ask(assignees=["ann"])
    refused(InvalidData, review, actor=ann, data={"amount": 1})


def test_the_last_outcome_does_without_the_form(ann: User) -> None:
    review = ask(assignees=["ann"], schema=Payment)
    refused(InvalidData, review, "reject", actor=ann, data={"amount": "a lot"})  # but what is given is checked
    decide(review, "reject", actor=ann)
    drain()
    assert (answers[-1].outcome, answers[-1].data) == ("reject", None)


def test_an_only_outcome_needs_the_form(ann: User) -> None:
    review = ask(assignees=["ann"], schema=Payment, outcomes=("pay",))
    refused(InvalidData, review, "pay", actor=ann)


SEEN: list[Any] = []


@durable(name="review_calls.function")
def ask_in_function(ctx: Any) -> Any:
    SEEN.append(ctx.wait_for("gate", Approval("Pay", assignees=["ann"], schema=Payment), timeout="1h"))
    return SEEN[-1].outcome


class AskInSteps(Workflow):
    name = "review_calls.steps"

    @step
    def gate(self, ctx: Any) -> Any:
        return Await(Approval("Pay", assignees=["ann"], schema=Payment), then="end", timeout="1h")

    @step
    def end(self, ctx: Any) -> Any:
        SEEN.append(ctx.answer)
        return Done(ctx.answer.outcome)


class AskInMachine(Machine):
    name = "review_calls.machine"
    gate = wait_for(channel=Approval("Pay", assignees=["ann"], schema=Payment), timeout="1h")
    end = action(lambda ctx: SEEN.append(ctx.steps.gate) or ctx.steps.gate.outcome)


class AskLate(Machine):
    """What it asks is known only when it gets there."""

    name = "review_calls.machine_late"
    who = action(lambda ctx: ["ann"])
    gate = wait_for(channel=lambda ctx: Approval("Pay", assignees=ctx.steps.who, schema=Payment), timeout="1h")
    between = action(lambda ctx: None)
    end = action(lambda ctx: SEEN.append(ctx.steps.gate) or ctx.steps.gate.outcome)


STYLES = {"steps": AskInSteps, "function": ask_in_function, "machine": AskInMachine, "a machine's function": AskLate}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_the_answer_is_one_frozen_typed_value_in_every_style(ann: User, style: Any) -> None:
    SEEN.clear()
    instance = workflows.start(style)
    drain()
    review = find_review(instance)
    vote = decide(review, "approve", actor=ann, reason="fine", data={"amount": "1240.00", "on": "2026-07-14"}).vote
    drain()
    assert_done(instance, "approve")
    assert vote is not None
    who = f"user:{ann.pk}"
    assert SEEN[-1] == Answer(
        outcome="approve",
        data=Payment(Decimal("1240.00"), date(2026, 7, 14)),
        reason="fine",
        actor=who,
        decisions=(Decision(who, "approve", "fine", vote.at, data=Payment(Decimal("1240.00"), date(2026, 7, 14))),),
    )
    with pytest.raises(AttributeError):
        SEEN[-1].outcome = "reject"


def test_data_and_reason_are_those_of_a_vote_that_agrees_though_another_one_closed_it(ann: User, ben: User) -> None:
    people = [ann, ben, *(make_person(name) for name in ("cid", "dot", "eve"))]
    review = ask(assignees=people, quorum="40%", schema=Payment)
    decide(review, "approve", actor=ann, reason="fine", data={"amount": "1", "on": "2026-07-14"})
    User.objects.filter(username__in=["cid", "dot", "eve"]).update(is_active=False)
    # Of the two who are left one is enough, so both outcomes have reached it. It is the later one by the rule; and
    # the vote for it is also the one that closes it, so ask for the other order too.
    assert decide(review, "reject", actor=ben, reason="no").outcome == "reject"
    drain()
    assert (answers[-1].outcome, answers[-1].reason, answers[-1].data) == ("reject", "no", None)

    User.objects.update(is_active=True)
    review = ask(assignees=people, quorum="40%", schema=Payment, outcomes=("reject", "approve"))
    decide(review, "approve", actor=ann, reason="fine", data={"amount": "1", "on": "2026-07-14"})
    User.objects.filter(username__in=["cid", "dot", "eve"]).update(is_active=False)
    data = {"amount": "2", "on": "2026-07-15"}
    assert decide(review, "reject", actor=ben, reason="no", data=data).outcome == "approve"
    drain()
    assert (answers[-1].reason, answers[-1].data) == ("fine", Payment(Decimal(1), date(2026, 7, 14)))


def test_a_lost_vote_gives_the_reason_of_whoever_voted_for_the_answer(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "reject", actor=ann, reason="Not within budget")
    assert decide(review, "approve", actor=ben, reason="Looks good").outcome == "reject"
    drain()
    assert (answers[-1].outcome, answers[-1].reason) == ("reject", "Not within budget")
    assert [(one.outcome, one.reason) for one in answers[-1].decisions] == [
        ("reject", "Not within budget"),
        ("approve", "Looks good"),
    ]


def test_an_answer_that_nobody_voted_for_has_no_reason_and_no_data(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2, outcomes=("red", "blue", "neither"), schema=Payment)
    data = {"amount": "1", "on": "2026-07-14"}
    decide(review, "red", actor=ann, reason="I like red", data=data)
    decide(review, "blue", actor=ben, reason="I like blue", data=data)
    drain()
    assert (answers[-1].outcome, answers[-1].reason, answers[-1].data) == ("neither", "", None)


# --- the site's say -------------------------------------------------------------------------------------------


def _refuse(operation: str, interaction: Any, actor: str) -> Any:
    return "not on Sundays" if operation == "resume" else None


def test_the_policy_of_the_site_may_refuse_a_decision(ann: User, settings: Any) -> None:
    review = ask(assignees=["ann"])
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": _refuse}
    told = refused(PolicyRefused, review, actor=ann)
    assert "not on Sundays" in str(told)


# --- time and others ------------------------------------------------------------------------------------------


def test_a_decision_after_the_deadline_is_refused_and_fires_it(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    _skew(connection, 3601.0)  # the sweep has not looked yet
    with pytest.raises(AlreadyDecided) as told:
        decide(review, "approve", actor=ann)
    assert (told.value.by, told.value.outcome) == ("", "")
    assert Interaction.objects.get(pk=review.pk).status == "expired"
    assert Instance.objects.get(pk=review.instance_id).status == "runnable"
    assert [row.actor for row in list_events(review, "timed_out")] == [f"user:{ann.pk}"]
    assert not Vote.objects.exists()
    drain()
    assert_done(review.instance_id, {"timed_out": True})


def test_a_late_decision_within_a_callers_transaction_fires_the_deadline_too(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    _skew(connection, 3601.0)
    with transaction.atomic(), pytest.raises(AlreadyDecided):
        decide(review, "approve", actor=ann)
    drain()
    assert_done(review.instance_id, {"timed_out": True})


def test_a_deadline_that_passes_closes_the_review(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    advance("2h")
    assert_done(review.instance_id, {"timed_out": True})
    refused(AlreadyDecided, review, actor=ann)


@pytest.mark.parametrize("by", ["id", "signal_id", "python"])
def test_every_other_door_is_told_where_the_answer_belongs(ann: User, by: str) -> None:
    review = ask(assignees=["ann"])
    interaction = Interaction.objects.get(pk=review.pk)
    data, where = {"outcome": "approve"}, {"workspace": interaction.workspace_id, "door": "api", "actor": "key:1"}
    call: Any = {
        "python": lambda: workflows.complete(interaction, data),
        "id": lambda: complete_at("id", interaction.pk, data, **where),
        "signal_id": lambda: complete_at("signal_id", interaction.signal_id, data, **where),
    }[by]
    with pytest.raises(AnswerElsewhere, match=r"inbox.*/decide"):
        call()
    assert again(review).open


def test_a_cancellation_closes_it_everywhere(ann: User) -> None:
    review = ask(assignees=["ann"], remind=["1h"])
    workflows.cancel(review.instance_id)
    assert not Candidate.objects.filter(open=True).exists()
    assert list(Review.objects.for_user(ann)) == []
    refused(AlreadyDecided, review, actor=ann)
    advance("2h")
    assert list_notices(review, "reminder") == []


def test_a_withdrawal_says_who_withdrew(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], actor=ben)
    withdraw(review, actor=ben, reason="bought elsewhere")
    assert refused(AlreadyDecided, review, actor=ann).outcome == "withdrawn"


class Failing(Workflow):
    name = "review_calls.failing"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Pay", assignees=["ann"]), then="end", timeout="1h")

    @step
    def end(self, ctx: Any) -> Any:
        if User.objects.filter(username="trouble").exists():
            raise ValueError("trouble")
        return Done(ctx.answer.outcome)


def test_the_retry_of_a_failed_instance_keeps_the_answer_that_was_given(ann: User) -> None:
    trouble = make_person("trouble")
    instance = workflows.start(Failing)
    drain()
    decide(find_review(instance), "approve", actor=ann)
    drain()
    assert Instance.objects.get(pk=instance.pk).status == "failed"
    trouble.delete()
    workflows.retry(instance)
    drain()
    assert_done(instance, "approve")


class Overdue(Workflow):
    name = "review_calls.overdue"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Pay", assignees=["ann"]), then="end", timeout="1h")

    @step
    def end(self, ctx: Any) -> Any:
        if ctx.answer is None and User.objects.filter(username="trouble").exists():
            raise ValueError("nobody answered")
        return workflows.Next("ask") if ctx.answer is None else Done(ctx.answer.outcome)


def test_the_retry_of_a_failed_instance_asks_anew_with_a_new_review(ann: User) -> None:
    trouble = make_person("trouble")
    instance = workflows.start(Overdue)
    drain()
    first = find_review(instance)
    advance("2h")
    assert Instance.objects.get(pk=instance.pk).status == "failed"
    refused(AlreadyDecided, first, actor=ann)
    trouble.delete()
    workflows.retry(instance)
    drain()
    second = find_review(instance)
    assert second != first
    assert list(Review.objects.for_user(ann)) == [second]
    decide(second, "approve", actor=ann)
    drain()
    assert_done(instance, "approve")


def test_pruning_leaves_nothing_of_a_review(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], actor=make_person("cid"), quorum=2)
    comment(review, "Is this right?", actor=ann)
    request_info(review, "Which account?", actor=ann)
    snooze(review, until=read_now() + timedelta(hours=1), actor=ben)
    decide(review, "approve", actor=ann)
    decide(review, "approve", actor=ben)
    drain()
    assert_done(review.instance_id)
    for model in (Review, Candidate, Vote, Comment, Snooze, Notice):
        assert model.objects.exists(), model
    for _ in prune(connection, older_than=0.0):
        pass
    for model in (Review, Candidate, Vote, Comment, Snooze, Notice, Delivery):
        assert not model.objects.exists(), model


# --- cost -----------------------------------------------------------------------------------------------------


def test_one_decision_costs_a_known_number_of_statements(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    sent = count_statements(lambda: decide(review, "approve", actor=ann))
    assert len(sent) == 14, "\n".join(sql[:200] for sql in sent)
