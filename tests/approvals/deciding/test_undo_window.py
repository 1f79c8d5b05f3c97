"""The moments in which a decision can be undone, and the second transaction that carries it out.

Between the two the review says "deciding", every other door is told who and until when, no deadline passes and no rung
of the ladder is climbed; what has changed meanwhile takes the decision back.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import workflows
from approvals import AlreadyDecided, NotAllowed, claim, decide, explain, undo, withdraw
from approvals.deciding import timers
from approvals.deciding.undo_window import carry_out
from approvals.models import Review, Vote, writer
from approvals.rules.door import Door
from tests.support import review_calls
from tests.support.clocks import stopped_clock
from tests.support.races import play, settle, take_one
from tests.support.review_calls import (
    Payment,
    again,
    answers,
    ask,
    count_statements,
    find_review,
    grant,
    list_calls,
    list_events,
    list_notices,
    list_standing,
    make_absent,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows import InvalidCall, PolicyRefused
from workflows.models import Instance, Interaction
from workflows.testing import _skew, advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

PAGE = Door("page")


@pytest.fixture
def ann() -> User:
    return make_person("ann", last_name="Archer")


def begin(review: Review, outcome: str = "approve", *, actor: User, **options: Any) -> Review:
    """Decided on the page, and still to be undone."""
    recorded = decide(review, outcome, actor=actor, grace=True, door=PAGE, **options)
    assert recorded.state == "grace"
    return again(review)


def find_rule(review: Review, user: User, **options: Any) -> str:
    with pytest.raises(NotAllowed) as told:
        decide(review, "reject", actor=user, **options)
    return told.value.obstacle.rule


def find_deadline(review: Review) -> list[Any]:
    """Where the wait's end is written: instance, unit and interaction."""
    asked = Interaction.objects.select_related("unit").get(pk=review.pk)
    return [Instance.objects.get(pk=review.instance_id).due_at, asked.unit.deadline, asked.deadline]


# --- the first transaction ------------------------------------------------------------------------------------


def test_the_decision_is_recorded_and_the_resume_waits_for_the_grace_period(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.rename_actor)
    deadline = Interaction.objects.get(pk=review.pk).deadline
    recorded = decide(review, "approve", actor=ann, reason="fine", grace=True, door=PAGE)
    assert (recorded.state, recorded.outcome) == ("grace", "approve")
    row = again(review)
    assert row.effective_at is not None
    assert row.effective_at == recorded.effective_at
    assert row.decided_at is not None
    assert row.effective_at - row.decided_at == timedelta(seconds=8)
    assert (row.open, row.outcome, row.decided_by_id, row.held_deadline) == (True, "approve", ann.pk, deadline)
    assert list_standing(review) == [(f"user:{ann.pk}", "approve")]
    assert list_events(review, "voted")[0].data["effective_at"] == row.effective_at.isoformat()
    assert list_events(review, "answered") == []
    assert_awaiting(review.instance_id)
    assert list_calls() == []  # no business change yet
    assert list_notices(review, "decided") == []
    drain()
    assert_awaiting(review.instance_id)


def test_the_pump_carries_it_out_when_the_grace_is_over(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.rename_actor)
    decided_at = begin(review, actor=ann, reason="fine").decided_at
    advance("7s")
    assert_awaiting(review.instance_id)
    advance("2s")
    assert_done(review.instance_id, {"outcome": "approve", "actor": f"user:{ann.pk}"})
    row = again(review)
    assert (row.open, row.outcome, row.decided_by_id, row.decided_at) == (False, "approve", ann.pk, decided_at)
    assert [answer.reason for answer, _ in list_calls()] == ["fine"]
    [answered] = list_events(review, "answered")
    assert (answered.actor, answered.data["door"]) == (f"user:{ann.pk}", "page")
    assert [one.kind for one in list_notices(review)] == ["new", "decided"]


def test_an_answer_carried_out_later_is_the_one_that_was_given(ann: User) -> None:
    review = ask(assignees=["ann"], schema=Payment)
    begin(review, actor=ann, reason="fine", data={"amount": "1", "on": "2026-07-14"})
    advance("10s")
    assert answers[-1] is not None
    assert isinstance(answers[-1].data, Payment)
    assert answers[-1].reason == "fine"


@pytest.mark.parametrize("seconds", [1, 30, 2.5])
def test_the_site_says_how_long_it_can_be_undone(ann: User, settings: Any, seconds: float) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": seconds}
    row = begin(ask(assignees=["ann"]), actor=ann)
    assert row.effective_at is not None
    assert row.decided_at is not None
    assert (row.effective_at - row.decided_at).total_seconds() == seconds


def test_there_is_no_grace_where_the_site_wants_none(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 0}
    assert decide(ask(assignees=["ann"]), "approve", actor=ann, grace=True).state == "decided"


def test_there_is_no_grace_for_high_risk_for_programs_and_where_nobody_asks_for_it(ann: User) -> None:
    high = ask(assignees=["ann"], risk="high")
    assert decide(high, "approve", actor=ann, reason="fine", grace=True).state == "decided"
    agent = Door("mcp", is_automated=True)
    assert decide(ask(assignees=["ann"]), "approve", actor=ann, grace=True, door=agent).state == "decided"
    assert decide(ask(assignees=["ann"]), "approve", actor=ann).state == "decided"


def test_only_the_closing_vote_has_a_grace(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    assert decide(review, "approve", actor=ann, grace=True).state == "open"
    assert again(review).effective_at is None
    begin(review, actor=ben)
    advance("10s")
    assert_done(review.instance_id)


def test_there_is_no_grace_before_the_instance_is_parked(ann: User) -> None:
    instance = start({"assignees": ["ann"]}, run=lambda: None)
    commit = play(take_one())  # it has asked, and does not wait yet
    review = find_review(instance)
    assert decide(review, "approve", actor=ann, grace=True).state == "decided"
    assert settle(commit)
    drain()
    assert_done(instance)


# --- in between -----------------------------------------------------------------------------------------------


def test_every_other_door_is_told_who_decides_and_until_when(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    row = begin(review, actor=ann)
    with pytest.raises(NotAllowed) as told:
        decide(review, "reject", actor=ben)
    assert told.value.obstacle.rule == "grace"
    assert row.effective_at is not None
    assert str(told.value) == (
        f"Ann Archer is deciding this: “Approve”. It can be undone until {row.effective_at:%H:%M:%S}."
    )
    with pytest.raises(NotAllowed, match="Ann Archer"):
        claim(review, actor=ben)
    assert find_rule(review, ann) == "grace"
    assert find_rule(review, grant(ben, "override_review"), override=True, reason="no") == "grace"
    assert list(Review.objects.for_user(ben)) == []
    assert {one.data["rule"] for one in list_events(review, "refused")} == {"grace"}


def test_a_deadline_that_passes_in_the_grace_does_not_fire(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    advance("3595s")
    begin(review, actor=ann)
    assert find_deadline(review) == [None, None, None]
    advance("7s")
    assert_awaiting(review.instance_id)
    advance("2s")
    assert_done(review.instance_id, {"outcome": "approve", "actor": f"user:{ann.pk}"})
    assert [row.data["what"] for row in list_events(review, "rescheduled")] == ["grace"]


def test_a_wait_without_a_deadline_has_a_grace_too(ann: User) -> None:
    review = ask(assignees=["ann"], timeout=None)
    begin(review, actor=ann)
    undo(review, actor=ann)
    assert find_deadline(review) == [None, None, None]
    assert list_events(review, "rescheduled") == []
    begin(review, actor=ann)
    advance("10s")
    assert_done(review.instance_id)


def test_no_rung_is_climbed_in_the_grace(ann: User) -> None:
    review = ask(assignees=["ann"], escalate=[("5s", ("outcome", "reject"))])
    begin(review, actor=ann)
    advance("10s")
    assert answers[-1] is not None
    assert answers[-1].outcome == "approve"


def test_a_rung_that_is_due_in_the_grace_does_not_keep_the_pump_busy(ann: User) -> None:
    review = ask(assignees=["ann"], remind=["1h"])
    begin(review, actor=ann)
    writer.update_review(again(review), next_at=review.created_at)
    seconds = timers.seconds_to_next(connection)
    assert seconds is not None
    assert seconds > 0
    assert timers.work() == 0


def test_a_cancellation_wins_and_what_was_not_carried_out_is_not_decided(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.rename_actor)
    begin(review, actor=ann)
    workflows.cancel(review.instance_id)
    row = again(review)
    assert (row.open, row.outcome, row.decided_at, row.decided_by_id) == (False, "", None, None)
    advance("10s")
    assert list_calls() == []
    assert list_events(review, "answered") == []
    with pytest.raises(AlreadyDecided):
        undo(review, actor=ann)


def test_a_withdrawal_wins_too(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], actor=ben)
    begin(review, actor=ann)
    withdraw(review, actor=ben)
    row = again(review)
    assert (row.open, row.outcome, row.decided_by_id) == (False, "withdrawn", ben.pk)
    advance("10s")
    assert Instance.objects.get(pk=review.instance_id).status == "cancelled"


def test_a_withdrawal_with_an_outcome_of_its_own_wins_too(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], actor=ben, outcomes=("approve", "reject", "withdraw"))
    begin(review, actor=ann)
    withdraw(review, actor=ben, reason="bought elsewhere")
    advance("10s")
    assert_done(review.instance_id, {"outcome": "withdraw", "actor": f"user:{ben.pk}"})
    assert answers[-1] is not None
    assert answers[-1].reason == "bought elsewhere"


# --- undo -----------------------------------------------------------------------------------------------------


def test_undo_adds_a_reversing_vote_deletes_nothing_and_restores_the_deadline(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    before = find_deadline(review)
    begin(review, actor=ann, reason="fine")
    undo(review, actor=ann, door=PAGE)
    row = again(review)
    assert (row.open, row.outcome, row.decided_at, row.decided_by_id, row.effective_at, row.held_deadline) == (
        True,
        "",
        None,
        None,
        None,
        None,
    )
    assert find_deadline(review) == before
    first, second = Vote.objects.order_by("at")
    assert (first.standing, first.reason, second.standing, second.reverses_id, second.door) == (
        False,
        "fine",
        False,
        first.pk,
        "page",
    )
    [reversed_] = list_events(review, "reversed")
    assert reversed_.actor == f"user:{ann.pk}"
    assert (reversed_.data["vote"], reversed_.data["door"]) == (str(first.pk), "page")
    assert [row.data["what"] for row in list_events(review, "rescheduled")] == ["grace", "undo"]
    assert list_notices(review, "reopened") == []  # who undid it knows
    advance("10s")
    assert_awaiting(review.instance_id)
    assert list(Review.objects.for_user(ann)) == list(Review.objects.for_user(ben)) == [review]
    assert decide(review, "reject", actor=ann).state == "decided"


def test_only_the_decider_undoes(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    begin(review, actor=ann)
    with pytest.raises(NotAllowed) as told:
        undo(review, actor=ben)
    assert told.value.obstacle.rule == "voted"
    assert [(row.actor, row.data["outcome"]) for row in list_events(review, "refused")] == [(f"user:{ben.pk}", "undo")]
    assert again(review).effective_at is not None


def test_who_voted_before_does_not_undo_the_decision_of_who_came_last(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "approve", actor=ann)
    begin(review, actor=ben)
    with pytest.raises(NotAllowed):
        undo(review, actor=ann)
    undo(review, actor=ben)
    undo(review, actor=ann)
    assert list_standing(review) == []


def test_undo_comes_in_time_or_not_at_all(ann: User) -> None:
    review = ask(assignees=["ann"])
    begin(review, actor=ann)
    _skew(connection, 8.5)  # and no pump has looked yet
    with pytest.raises(AlreadyDecided) as told:
        undo(review, actor=ann)
    assert (told.value.by, told.value.outcome) == ("Ann Archer", "approve")
    assert [row.data["outcome"] for row in list_events(review, "refused")] == ["undo"]
    drain()
    assert_done(review.instance_id)
    with pytest.raises(AlreadyDecided):
        undo(review, actor=ann)


def test_an_undo_after_the_held_deadline_has_passed_lets_it_pass(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h")
    advance("3598s")
    begin(review, actor=ann)
    _skew(connection, 4)
    undo(review, actor=ann)
    with pytest.raises(AlreadyDecided):  # too late now
        decide(review, "approve", actor=ann)
    drain()
    assert_done(review.instance_id, {"timed_out": True})
    assert not again(review).open


def test_decided_undone_and_decided_again_as_often_as_one_likes(ann: User) -> None:
    review = ask(assignees=["ann"])
    for outcome in ("approve", "reject", "approve"):
        begin(review, outcome, actor=ann)
        undo(review, actor=ann)
    begin(review, "reject", actor=ann)
    advance("10s")
    assert_done(review.instance_id, {"outcome": "reject", "actor": f"user:{ann.pk}"})
    assert Vote.objects.filter(review=review).count() == 7
    assert answers[-1] is not None
    assert len(answers[-1].decisions) == 1


def test_a_rung_that_became_due_in_the_grace_is_climbed_after_an_undo(ann: User) -> None:
    review = ask(assignees=["ann"], remind=["5s"])
    advance("3s")
    begin(review, actor=ann)
    advance("4s")
    assert list_notices(review, "reminder") == []
    undo(review, actor=ann)
    drain()
    assert len(list_notices(review, "reminder")) == 1


def test_undo_is_explained_to_whoever_may_not(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    assert explain(review, ann)["undo"] is not None
    begin(review, actor=ann)
    assert explain(review, ann)["undo"] is None
    told = explain(review, ben)
    assert told["undo"] is not None
    assert told["decide"] is not None
    assert told["decide"].rule == "grace"


def test_undoing_takes_a_user(ann: User) -> None:
    with pytest.raises(InvalidCall):
        undo(ask(assignees=["ann"]), actor="ann")


# --- the second transaction -----------------------------------------------------------------------------------


def check_reopened(review: Review, decider: User, told: str, **expected: Any) -> None:
    """It waits again as before, and the decider is told why."""
    row = again(review)
    assert (row.open, row.outcome, row.decided_at, row.effective_at, row.held_deadline) == (True, "", None, None, None)
    assert row.decided_by_id is None
    [notice] = list_notices(review, "reopened")
    assert notice.to == [f"user:{decider.pk}"]
    assert told in notice.data["reason"]
    first, second = Vote.objects.filter(review=review).order_by("at")
    assert (first.standing, second.standing, second.reverses_id, second.door, second.user_id) == (
        False,
        False,
        first.pk,
        "time",
        None,
    )
    assert told in second.reason
    [reversed_] = list_events(review, "reversed")
    assert reversed_.actor == "holdpoint"
    assert None not in find_deadline(review)
    assert_awaiting(review.instance_id)
    assert list_events(review, "answered") == []


def test_a_subject_that_changed_meanwhile_reopens_it_with_its_deadline(ann: User, shop: Any) -> None:
    order = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask(assignees=["ann"], subject=order)
    before = find_deadline(review)
    begin(review, actor=ann)
    shop.Order.objects.update(amount="400.00")
    advance("10s")
    check_reopened(review, ann, "this changed since it was opened: Amount")
    assert find_deadline(review) == before


def test_a_subject_that_is_gone_meanwhile_reopens_it(ann: User, shop: Any) -> None:
    order = shop.Order.objects.create(code="A-1")
    review = ask(assignees=["ann"], subject=order)
    begin(review, actor=ann)
    shop.Order.objects.all().delete()
    advance("10s")
    check_reopened(review, ann, "this changed")


def _leave_group(user: User) -> None:
    user.groups.clear()


def _deactivate(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def _delete(user: User) -> None:
    User.objects.filter(pk=user.pk).delete()


@pytest.mark.parametrize("leave", [_leave_group, _deactivate, _delete])
def test_a_decider_who_may_not_any_more_reopens_it(leave: Any) -> None:
    cid = make_person("cid", "board")
    review = ask(groups=["board"])
    begin(review, actor=cid)
    leave(User.objects.get(pk=cid.pk))
    advance("10s")
    check_reopened(review, cid, "no longer among those asked")


def test_a_substitute_whose_absence_was_called_off_reopens_it(ann: User, ben: User) -> None:
    make_absent(ann, ben)
    review = ask(assignees=["ann"])
    begin(review, actor=ben)
    ann.holdpoint_absences.all().delete()  # type: ignore[attr-defined]
    advance("10s")
    check_reopened(review, ben, "no longer among those asked")


def test_a_substitute_who_still_is_one_carries_it_out(ann: User, ben: User) -> None:
    make_absent(ann, ben)
    review = ask(assignees=["ann"])
    begin(review, actor=ben)
    advance("10s")
    assert_done(review.instance_id, {"outcome": "approve", "actor": f"user:{ben.pk}"})


@pytest.mark.parametrize("function", [review_calls.rename_and_raise, review_calls.break_a_constraint])
def test_an_on_decision_that_raises_in_the_second_transaction_reopens_it(ann: User, function: Any) -> None:
    review = ask(assignees=["ann"], on_decision=function)
    begin(review, actor=ann)
    advance("10s")
    check_reopened(review, ann, "the decision could not be carried out")
    assert User.objects.get(pk=ann.pk).last_name == "Archer"


def _refuse(operation: str, interaction: Any, actor: str) -> Any:
    return "not on Sundays" if operation == "resume" else None


def test_a_site_that_refuses_in_the_second_transaction_reopens_it(ann: User, settings: Any) -> None:
    review = ask(assignees=["ann"])
    begin(review, actor=ann)
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": _refuse}
    advance("10s")
    check_reopened(review, ann, "not on Sundays")
    with pytest.raises(PolicyRefused):
        decide(review, "approve", actor=ann)


def test_what_was_reopened_can_be_decided_again(ann: User) -> None:
    trouble = make_person("trouble")
    review = ask(assignees=["ann"], on_decision=review_calls.fail_once)
    begin(review, actor=ann)
    advance("10s")
    check_reopened(review, ann, "trouble")
    trouble.delete()
    begin(review, actor=ann)
    advance("10s")
    assert_done(review.instance_id)
    assert len(list_calls()) == 1


def test_an_override_has_its_grace_and_is_recorded_as_one(ann: User, ben: User) -> None:
    chief = grant(ben, "override_review")
    review = ask(assignees=["ann"])
    begin(review, actor=chief, override=True, reason="board said so")
    advance("10s")
    assert_done(review.instance_id, {"outcome": "approve", "actor": f"user:{chief.pk}"})
    assert list_events(review, "answered")[0].data["override"] == "board said so"


def test_an_override_by_who_has_lost_the_right_meanwhile_reopens_it(ann: User, ben: User) -> None:
    chief = grant(ben, "override_review")
    review = ask(assignees=["ann"])
    begin(review, actor=chief, override=True, reason="board said so")
    chief.user_permissions.clear()
    advance("10s")
    check_reopened(review, chief, "no longer")


def test_one_that_cannot_be_moved_on_does_not_keep_others_from_their_turn(ann: User, caplog: Any) -> None:
    stuck, fine = ask(assignees=["ann"], on_decision=review_calls.lose_the_server), ask(assignees=["ann"])
    begin(stuck, actor=ann)
    begin(fine, actor=ann)
    advance("10s")
    assert_done(fine.instance_id)
    row = again(stuck)
    assert (row.open, row.outcome) == (True, "approve")
    assert f"review {stuck.pk} could not be moved on; it is tried again in 60 s" in caplog.text
    review_calls.give_the_server_back()
    advance("61s")
    assert_done(stuck.instance_id)


def test_many_at_once_are_carried_out_in_one_sweep(ann: User) -> None:
    reviews = [ask(assignees=["ann"]) for _ in range(7)]
    for review in reviews:
        begin(review, actor=ann)
    _skew(connection, 9)
    assert timers.work() == 7
    assert timers.work() == 0
    drain()
    for review in reviews:
        assert_done(review.instance_id)


def test_carrying_out_what_is_not_due_does_nothing(ann: User) -> None:
    review = ask(assignees=["ann"])
    assert carry_out(review.pk) is False
    begin(review, actor=ann)
    assert carry_out(review.pk) is False
    _skew(connection, 9)
    assert carry_out(review.pk) is True
    assert carry_out(review.pk) is False


def test_carrying_out_commits_business_change_completion_and_resume_together(ann: User) -> None:
    review = ask(assignees=["ann"], on_decision=review_calls.rename_actor)
    begin(review, actor=ann)
    _skew(connection, 9)
    with transaction.atomic():
        assert carry_out(review.pk)
        assert User.objects.get(pk=ann.pk).last_name == "approve"
        transaction.set_rollback(True)
    assert User.objects.get(pk=ann.pk).last_name == "Archer"
    assert again(review).effective_at is not None
    assert_awaiting(review.instance_id)


def test_beginning_and_carrying_out_cost_a_known_number_of_statements(ann: User) -> None:
    review = ask(assignees=["ann"])
    sent = count_statements(lambda: begin(review, actor=ann))
    assert len(sent) == 14, "\n".join(sql[:200] for sql in sent)
    _skew(connection, 9)
    sent = count_statements(lambda: carry_out(review.pk))
    assert len(sent) == 11, "\n".join(sql[:200] for sql in sent)


def test_looking_whether_anything_is_due_costs_one_statement(ann: User) -> None:
    with stopped_clock():
        begin(ask(assignees=["ann"]), actor=ann)
        with CaptureQueriesContext(connection) as captured:
            seconds = timers.seconds_to_next(connection)
    assert (len(captured), seconds) == (1, 8)
