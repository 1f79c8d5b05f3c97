"""What time does to a review: reminders, escalation, the answer at the end; and nothing after somebody has decided."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

import workflows
from approvals import AlreadyDecided, Calendar, NotAllowed, claim, decide, delegate, register_calendar, withdraw
from approvals.cards.timeline import list_entries
from approvals.deciding import timers
from approvals.models import Candidate, Review, writer
from approvals.reviews.case import Case
from approvals.rules import calendar
from tests.support import review_calls
from tests.support.clocks import stopped_clock
from tests.support.review_calls import (
    again,
    answers,
    ask,
    find_review,
    list_asked,
    list_calls,
    list_events,
    list_notices,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows import store
from workflows.clock import read_now
from workflows.definitions.sweeps import list_sweeps
from workflows.exceptions import PolicyRefused
from workflows.models import Instance, Interaction
from workflows.store.ledger.retention import prune
from workflows.testing import _skew, advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def board() -> Group:
    return Group.objects.create(name="board")


def list_rungs(review: Review) -> list[tuple[str, Any]]:
    """What time has done, as the history tells it."""
    rows = [row for row in list_events(review, "handled") if row.data["what"] == "escalated"]
    assert all(row.actor == "time" for row in rows)
    return [(row.data["do"], row.data.get("to") or row.data.get("outcome")) for row in rows]


# --- the ladder -----------------------------------------------------------------------------------------------


def test_remind_add_reassign_and_answer_in_their_order(ann: User, board: Group) -> None:
    cid = make_person("cid")
    review = ask(
        assignees=["ann"],
        remind=["1h"],
        escalate=[("2h", ("add", "board")), ("3h", ("reassign", "user", "cid")), ("4h", ("outcome", "reject"))],
    )
    advance("61m")
    assert list_asked(review) == [f"user:{ann.pk}"]
    assert [notice.to for notice in list_notices(review, "reminder")] == [None]
    advance("1h")
    assert list_asked(review) == [f"user:{ann.pk}", f"group:{board.pk}"]
    assert [notice.to for notice in list_notices(review, "escalation")] == [[f"group:{board.pk}"]]
    advance("1h")
    assert list_asked(review) == [f"user:{cid.pk}"]
    assert [notice.to for notice in list_notices(review, "escalation")][1:] == [[f"user:{cid.pk}"]]
    assert list(Review.objects.for_user(ann)) == []
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=ann)
    assert again(review).open
    advance("1h")
    assert_done(review.instance_id, {"outcome": "reject", "actor": "time"})
    assert list_rungs(review) == [
        ("remind", None),
        ("add", f"group:{board.pk}"),
        ("reassign", f"user:{cid.pk}"),
        ("outcome", "reject"),
    ]
    assert len(list_notices(review, "reminder")) == 1


def test_the_answer_at_the_end_is_times_own(ann: User) -> None:
    review = ask(
        assignees=["ann"],
        escalate=[("1h", ("outcome", "reject"))],
        on_decision=review_calls.note_call,
        schema={"type": "integer"},
    )
    advance("2h")
    row = again(review)
    assert (row.open, row.outcome, row.decided_by_id, row.next_at) == (False, "reject", None, None)
    assert row.decided_at is not None
    answer = answers[-1]
    assert answer is not None
    assert (answer.outcome, answer.actor, answer.reason, answer.data, answer.decisions) == (
        "reject",
        "time",
        "",
        None,
        (),
    )
    assert [one for one, _ in list_calls()] == [answer]  # the business change is made as by anybody
    [answered] = list_events(review, "answered")
    assert (answered.actor, answered.data["door"]) == ("time", "time")
    assert len(list_notices(review, "decided")) == 1
    with pytest.raises(AlreadyDecided) as told:
        decide(review, "approve", actor=ann)
    assert (told.value.by, told.value.outcome) == ("", "reject")


def test_votes_that_did_not_reach_the_rule_are_told_with_the_answer_at_the_end(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=[ann, ben], quorum=2, escalate=[("1h", ("outcome", "reject"))])
    decide(review, "approve", actor=ann, reason="fine")
    advance("2h")
    answer = answers[-1]
    assert answer is not None
    assert (answer.outcome, answer.actor, answer.reason) == ("reject", "time", "")
    assert [one.outcome for one in answer.decisions] == ["approve"]


def test_without_an_outcome_at_the_end_nothing_is_ever_approved_by_silence(ann: User) -> None:
    review = ask(assignees=["ann"], remind=["1h"], due="2h", timeout=None)
    advance("400d")
    assert again(review).open
    assert_awaiting(review.instance_id)


def test_nothing_happens_after_a_decision(ann: User, board: Group) -> None:
    review = ask(assignees=["ann"], remind=["1h"], escalate=[("2h", ("add", "board")), ("3h", ("outcome", "reject"))])
    decide(review, "approve", actor=ann)
    assert again(review).next_at is None
    advance("4h")
    assert list_rungs(review) == []
    assert list_asked(review) == [f"user:{ann.pk}"]
    assert_done(review.instance_id, {"outcome": "approve", "actor": f"user:{ann.pk}"})


def test_a_rung_that_comes_after_the_deadline_does_nothing(ann: User) -> None:
    review = ask(assignees=["ann"], timeout="1h", escalate=[("1h", ("outcome", "approve"))])
    _skew(connection, 3601)
    timers.work()
    assert again(review).open
    drain()
    assert_done(review.instance_id, {"timed_out": True})


def test_after_a_pause_nobody_gets_all_the_reminders(ann: User) -> None:
    review = ask(assignees=["ann"], remind=["1h", "2h", "3h"])
    _skew(connection, 3 * 3600 + 1)
    drain()
    assert len(list_notices(review, "reminder")) == 1
    assert (again(review).rung, again(review).next_at) == (3, None)


def test_after_a_pause_each_change_of_who_is_asked_is_still_made(ann: User, board: Group) -> None:
    review = ask(assignees=["ann"], remind=["1h"], escalate=[("2h", ("add", "board")), ("3h", ("add", "user", "ann"))])
    _skew(connection, 3 * 3600 + 1)
    drain()
    assert [do for do, _ in list_rungs(review)] == ["remind", "add", "add"]
    assert list_asked(review) == [f"user:{ann.pk}", f"group:{board.pk}"]


@pytest.mark.parametrize("do", ["add", "reassign"])
def test_a_claim_does_not_outlive_an_escalation(ann: User, board: Group, do: str) -> None:
    dot = make_person("dot", "board")
    review = ask(assignees=["ann"], escalate=[("1h", (do, "board"))])
    claim(review, actor=ann)
    advance("2h")
    assert again(review).claimed_by_id is None
    assert list(Review.objects.for_user(dot)) == [review]
    assert decide(review, "approve", actor=dot).state == "decided"


def test_a_group_that_is_added_counts_in_percent_from_then_on(ann: User) -> None:
    ben, dot = make_person("ben"), make_person("dot", "board")
    review = ask(assignees=[ann, ben], quorum="all", escalate=[("1h", ("add", "board"))])
    decide(review, "approve", actor=ann)
    advance("2h")
    assert decide(review, "approve", actor=ben).state == "open"
    assert decide(review, "approve", actor=dot).state == "decided"


def test_a_share_that_was_handed_on_is_gone_when_time_asks_others_instead(ann: User, board: Group) -> None:
    ben = make_person("ben")
    make_person("dot", "board")
    review = ask(assignees=["ann"], escalate=[("1h", ("reassign", "board"))])
    delegate(review, to=ben, actor=ann)
    advance("2h")
    assert list_asked(review) == [f"group:{board.pk}"]


@pytest.mark.parametrize("who", ["nobody", "whoever asked", "somebody who has left"])
def test_time_hands_nothing_on_to_people_of_whom_nobody_can_decide(ann: User, board: Group, who: str) -> None:
    dot = make_person("dot", *(["board"] if who != "nobody" else []))
    review = ask(assignees=["ann"], requester="dot", escalate=[("1h", ("reassign", "board"))])
    if who == "somebody who has left":
        User.objects.filter(pk=dot.pk).update(is_active=False)
    advance("2h")
    assert list_asked(review) == [f"user:{ann.pk}", f"group:{board.pk}"]
    assert list_rungs(review) == [("add", f"group:{board.pk}")]
    assert decide(review, "approve", actor=ann).state == "decided"


def test_time_hands_nothing_on_to_people_who_are_too_few(ann: User) -> None:
    ben, cid = make_person("ben"), make_person("cid")
    review = ask(assignees=[ann, ben], quorum=2, escalate=[("1h", ("add", "user", "cid"))])
    writer.update_review(review, rungs=[{**rung, "do": "reassign"} for rung in again(review).rungs or []])
    advance("2h")
    assert list_rungs(review) == [("add", f"user:{cid.pk}")]
    assert decide(review, "approve", actor=cid).state == "open"
    assert decide(review, "approve", actor=ben).outcome == "approve"


@pytest.mark.parametrize("do", ["add", "reassign"])
def test_time_asks_nobody_whose_answer_would_count_in_no_group(ann: User, board: Group, do: str) -> None:
    fin = make_person("fin", "finance")
    make_person("dot", "board")
    review = ask(quorum={"finance": 1}, escalate=[("1h", "remind")])
    rungs = [{**rung, "do": do, "group": "board", "principal": f"group:{board.pk}"} for rung in review.rungs or []]
    writer.update_review(review, rungs=rungs)
    advance("2h")
    assert list_rungs(review) == [("remind", None)]
    assert len(list_notices(review, "reminder")) == 1
    assert decide(review, "approve", actor=fin).state == "decided"


# --- people who leave -----------------------------------------------------------------------------------------


def list_judged(review: Review) -> list[tuple[Any, Any]]:
    return [
        (row.data["state"], row.data["outcome"])
        for row in list_events(review, "handled")
        if row.data["what"] == "judged anew"
    ]


def test_a_rule_that_is_reached_because_somebody_left_is_answered(ann: User) -> None:
    ben, cid, dot = (make_person(name, "board") for name in ("ben", "cid", "dot"))
    review = ask(groups=["board"], quorum="all", timeout=None, on_decision=review_calls.note_call)
    decide(review, "approve", actor=ben, reason="fine")
    decide(review, "approve", actor=cid, reason="fine by me")
    advance("6m")
    assert again(review).open
    dot.groups.clear()
    advance("10m")
    row = again(review)
    assert (row.open, row.outcome, row.decided_by_id) == (False, "approve", None)
    assert (answers[-1].outcome, answers[-1].actor, answers[-1].reason) == ("approve", "time", "fine by me")
    assert list_judged(review) == [("decided", "approve")]
    assert len(list_calls()) == 1
    told = [entry.what for entry in list_entries(Case(row), ann)]
    assert "Those who may still decide have agreed" in told


def test_a_rule_that_is_out_of_reach_because_somebody_left_is_answered(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=[ann, ben], quorum=2, timeout=None)
    decide(review, "approve", actor=ann)
    User.objects.filter(pk=ben.pk).update(is_active=False)
    advance("10m")
    assert (again(review).outcome, list_judged(review)) == ("reject", [("lost", "reject")])


def test_too_few_are_no_lost_vote_for_time_either(ann: User) -> None:
    ben, cid = make_person("ben", "board"), make_person("cid", "board")
    review = ask(groups=["board"], quorum=2, timeout=None)
    decide(review, "approve", actor=ben)
    cid.groups.clear()
    advance("3d")
    assert (again(review).open, list_judged(review)) == (True, [])
    cid.groups.set([Group.objects.get(name="board")])
    assert decide(review, "approve", actor=cid).state == "decided"


def test_votes_are_looked_at_soon_and_then_less_and_less_often(ann: User) -> None:
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2, timeout=None)
    assert again(review).next_at is None
    recorded = decide(review, "approve", actor=ann)
    assert recorded.vote is not None

    def wait() -> timedelta:
        moment = again(review).next_at
        assert moment is not None
        return moment - read_now()

    assert timedelta(minutes=4) < wait() <= timedelta(minutes=5)
    advance("8h")
    assert timedelta(minutes=20) < wait() <= timedelta(minutes=68)
    advance("30d")
    assert timedelta(hours=12) < wait() <= timedelta(days=1)
    assert list_rungs(review) == []


def test_a_rung_comes_in_its_time_between_two_looks(ann: User) -> None:
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2, remind=["3m", "2d"])
    decide(review, "approve", actor=ann)
    advance("4m")
    assert len(list_notices(review, "reminder")) == 1
    advance("2d")
    assert len(list_notices(review, "reminder")) == 2


def test_what_votes_lead_to_and_the_projects_code_refuses_does_not_stop_the_ladder(ann: User) -> None:
    ben = make_person("ben")
    review = ask(assignees=[ann, ben], quorum="all", timeout=None, remind=["1h"], on_decision=review_calls.fail_always)
    decide(review, "approve", actor=ann)
    User.objects.filter(pk=ben.pk).update(is_active=False)
    advance("2h")
    assert again(review).open
    assert len(list_notices(review, "reminder")) == 1


def test_votes_about_what_has_changed_since_are_not_answered_by_time(ann: User, board: Group) -> None:
    ben = make_person("ben")
    review = ask(assignees=[ann, ben], quorum="all", timeout=None, subject=board)
    decide(review, "approve", actor=ann)
    Group.objects.filter(pk=board.pk).update(name="council")
    User.objects.filter(pk=ben.pk).update(is_active=False)
    advance("1h")
    assert (again(review).open, list_judged(review)) == (True, [])


# --- the site's say -------------------------------------------------------------------------------------------


def _refuse_answers(operation: str, interaction: Any, actor: str) -> Any:
    return f"not by {actor}" if operation == "resume" else None


@pytest.fixture
def closed_shop(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": _refuse_answers}


def test_the_policy_of_the_site_may_refuse_what_time_answers(ann: User, closed_shop: None) -> None:
    review = ask(assignees=["ann"], escalate=[("1h", ("outcome", "approve"))])
    advance("90m")
    row = again(review)
    assert (row.open, row.outcome) == (True, "")
    assert Instance.objects.get(pk=review.instance_id).status == "awaiting"
    advance("2h")
    [notice] = list_notices(review, "reopened")
    assert "not by time" in str(notice.data)
    assert again(review).next_at is None


def test_the_policy_of_the_site_may_refuse_what_votes_amount_to(ann: User, settings: Any) -> None:
    ben = make_person("ben")
    review = ask(assignees=[ann, ben], quorum="all", timeout=None)
    decide(review, "approve", actor=ann)
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": _refuse_answers}
    User.objects.filter(pk=ben.pk).update(is_active=False)
    advance("1h")
    assert again(review).open


def test_the_policy_of_the_site_may_refuse_a_withdrawal_that_is_an_answer(ann: User, closed_shop: None) -> None:
    make_person("ben")
    review = ask(assignees=["ann"], requester="ben", outcomes=["approve", "withdraw", "reject"])
    with pytest.raises(PolicyRefused, match="not by user:"):
        withdraw(review, actor=User.objects.get(username="ben"))
    assert again(review).open
    [row] = list_events(review, "refused")
    assert (row.data["refused"], row.data["outcome"]) == ("PolicyRefused", "withdraw")


# --- business time --------------------------------------------------------------------------------------------


@pytest.fixture
def office(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(calendar, "_registered", dict(calendar._registered))
    register_calendar("office", Calendar("Europe/Berlin"))
    return "office"


def move_to(text: str) -> None:
    """The engine's clock goes on to that moment of UTC, however far ahead."""
    _skew(connection, (datetime.fromisoformat(text).replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds())


def test_rungs_and_due_are_business_time_and_frozen_when_requested(ann: User, office: str) -> None:
    move_to("2027-07-16T14:00")  # a Friday, 16:00 in Berlin
    review = ask(assignees=["ann"], calendar=office, due="2h", remind=["90m"], timeout=None)
    assert review.due_at is not None
    assert review.next_at is not None
    monday = datetime(2027, 7, 19, 8, 0, tzinfo=UTC)
    assert timedelta() <= review.due_at - monday < timedelta(minutes=1)
    assert abs(review.next_at - monday + timedelta(minutes=30)) < timedelta(minutes=1)
    del calendar._registered[office]  # as after a deploy
    register_calendar(office, Calendar("Asia/Tokyo"))
    advance("60h")
    assert list_notices(review, "reminder") == []
    advance("6h")
    assert len(list_notices(review, "reminder")) == 1
    assert again(review).due_at == review.due_at


def test_due_stands_with_the_review_and_with_everybody_asked(ann: User) -> None:
    review = ask(assignees=["ann"], groups=[Group.objects.create(name="board")], due="2d")
    assert review.due_at == review.created_at + timedelta(days=2)
    assert set(Candidate.objects.filter(review=review).values_list("due_at", flat=True)) == {review.due_at}
    advance("3d")
    assert again(review).open  # it is when an answer is wanted, not when the wait ends


# --- what fails -----------------------------------------------------------------------------------------------


def test_an_answer_by_time_that_fails_is_tried_again_a_minute_later(ann: User, caplog: Any) -> None:
    trouble = make_person("trouble")
    review = ask(
        assignees=["ann"], escalate=[("1h", ("outcome", "reject"))], on_decision=review_calls.fail_once, timeout=None
    )
    advance("61m")
    row = again(review)
    assert (row.open, row.rung) == (True, 0)
    assert list_rungs(review) == []
    assert f"review {review.pk} could not be moved on; it is tried again in 60 s" in caplog.text
    assert decide(ask(assignees=["ann"]), "approve", actor=ann).state == "decided"
    trouble.delete()
    advance("30s")
    assert again(review).open
    advance("31s")
    assert_done(review.instance_id, {"outcome": "reject", "actor": "time"})
    assert list_rungs(review) == [("outcome", "reject")]


def test_one_that_fails_does_not_keep_others_from_their_turn(ann: User) -> None:
    make_person("trouble")
    ladder: dict[str, Any] = {"assignees": ["ann"], "escalate": [("1h", ("outcome", "reject"))]}
    stuck = [ask(**ladder, on_decision=review_calls.fail_once) for _ in range(3)]
    fine = ask(**ladder)
    advance("61m")
    assert_done(fine.instance_id)
    assert all(again(one).open for one in stuck)


def test_a_review_that_was_pruned_meanwhile_is_passed_by(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, fine = (ask(assignees=["ann"], remind=["1h"]) for _ in range(2))
    monkeypatch.setattr(timers, "BATCH", 2)
    _skew(connection, 3601)
    due = timers._list_due()
    first = next(due)
    assert first[1] == gone.pk
    workflows.cancel(gone.instance_id)  # between the look and the turn
    assert sum(one.trees for one in prune(connection, older_than=0.0)) == 1
    monkeypatch.setattr(timers, "_list_due", lambda: iter([first, (timers.take_rung, fine.pk)]))
    assert timers.work() == 1


def test_what_is_closed_is_never_due(ann: User) -> None:
    review = ask(assignees=["ann"], remind=["1h"])
    workflows.cancel(review.instance_id)
    assert timers.seconds_to_next(connection) is None
    assert timers.take_rung(review.pk) is False


# --- many -----------------------------------------------------------------------------------------------------


def test_many_that_are_due_at_once_are_done_in_a_few_turns(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timers, "BATCH", 4)
    reviews = [ask(assignees=["ann"], remind=["1h"]) for _ in range(10)]
    _skew(connection, 3601)
    assert [timers.work() for _ in range(4)] == [4, 4, 2, 0]
    assert all(len(list_notices(review, "reminder")) == 1 for review in reviews)


def test_the_pump_knows_when_the_next_is_due(ann: User) -> None:
    assert timers.seconds_to_next(connection) is None
    with stopped_clock():
        ask(assignees=["ann"], remind=["2h"])
        ask(assignees=["ann"], remind=["1h"])
        assert timers.seconds_to_next(connection) == 3600
    assert "reviews" in [sweep.name for sweep in list_sweeps()]


def test_looking_for_what_is_due_reads_heads_of_partial_indexes(ann: User) -> None:
    ask(assignees=["ann"], remind=["1h"])
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = "\n".join(row[0] for row in store.fetch(connection, f"EXPLAIN {timers._NEXT}", {}))
    assert "holdpoint_review_next" in plan
    assert "holdpoint_review_effective" in plan
    assert "Seq Scan" not in plan


def test_a_function_that_waits_again_after_a_crash_has_the_same_rungs(ann: User) -> None:
    instance = start({"assignees": ["ann"], "remind": ["1h"]})
    review = find_review(instance)
    moment = review.next_at
    workflows.signal(instance, "anything")
    drain()
    assert again(review).next_at == moment
    assert Interaction.objects.filter(instance=instance).count() == 1
    assert Instance.objects.get(pk=instance.pk).status == "awaiting"
