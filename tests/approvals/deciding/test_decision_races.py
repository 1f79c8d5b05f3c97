"""Two connections on one review: deciders, the clock, a cancellation, an undo, the sweep; exactly one of them wins.

Whoever comes second is seen waiting for the first, and then sees what it did, or that it never was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, connections, transaction

import workflows
from approvals import AlreadyDecided, NotAllowed, Stale, claim, decide, reassign, undo, withdraw
from approvals.deciding import stranding, timers
from approvals.deciding.undo_window import carry_out
from approvals.models import Notice, Review, Vote, writer
from tests.support import review_calls
from tests.support.deadlines import make_overdue
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import Other, Refused, play, race, run_threads, settle, take_one, work
from tests.support.review_calls import (
    again,
    ask,
    find_review,
    grant,
    list_events,
    list_standing,
    make_absent,
    make_person,
    start,
)
from tests.support.review_races import (  # noqa: F401 (fixtures)
    COMMITTED_PEOPLE,
    both_ends,
    commit_people,
    find,
    park,
    say,
)
from workflows import store
from workflows.models import Instance, Interaction, Signal
from workflows.testing import _skew

pytestmark = COMMITTED_PEOPLE


@pytest.fixture
def clock() -> Iterator[None]:
    """Whoever moves the engine's clock for everybody gives it back."""
    yield
    with connection.cursor() as cursor:
        for name, body, volatility in (
            ("holdpoint_now", "statement_timestamp()", "STABLE"),
            ("holdpoint_clock", "clock_timestamp()", "VOLATILE"),
        ):
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS timestamptz LANGUAGE sql {volatility} "
                f"PARALLEL SAFE AS 'SELECT {body}'"
            )


def pass_time(seconds: float, review: Review) -> None:
    """As if the end of the grace and the rungs of the ladder had come so much nearer."""
    row, back = again(review), timedelta(seconds=seconds)
    rungs = [{**one, "at": (datetime.fromisoformat(one["at"]) - back).isoformat()} for one in row.rungs or ()]
    writer.update_review(
        row,
        effective_at=None if row.effective_at is None else row.effective_at - back,
        next_at=None if row.next_at is None else row.next_at - back,
        rungs=rungs or None,
    )


def begin(review: Review, name: str = "ann") -> None:
    assert decide(review.pk, "approve", actor=find(name), grace=True).state == "grace"


def tell_story(review: Review) -> dict[str, int]:
    """How often each of what may happen once has happened."""
    kinds = [str(row.kind) for row in Instance.objects.get(pk=review.instance_id).events.all()]
    story = {kind: kinds.count(kind) for kind in ("voted", "reversed", "answered", "timed_out", "cancelled")}
    answers = Signal.objects.filter(instance=review.instance_id, name__startswith="holdpoint:unit:").count()
    assert answers == story["answered"] == (Interaction.objects.get(pk=review.pk).status == "completed")
    assert story["answered"] + story["timed_out"] <= 1
    assert story["voted"] == Vote.objects.filter(review=review, reverses=None).count()
    return {kind: count for kind, count in story.items() if count}


# --- two deciders ---------------------------------------------------------------------------------------------


@both_ends
def test_two_deciders_at_once_one_wins_and_the_other_is_told_who_and_when(rollback: bool) -> None:
    review = park()
    first, second = race(say(review, "ann"), say(review, "ben", "reject"), rollback=rollback)
    assert first == "decided"
    if rollback:
        assert second == "decided"
        assert (again(review).outcome, again(review).decided_by_id) == ("reject", find("ben").pk)
    else:
        assert second == ("decided already", "Ann", True, "approve")
        assert [row.actor for row in list_events(review, "refused")] == [f"user:{find('ben').pk}"]
    assert tell_story(review) == {"voted": 1, "answered": 1}


@both_ends
def test_two_deciders_where_two_are_needed_both_count_and_one_closes(rollback: bool) -> None:
    review = park(quorum=2)
    told = race(say(review, "ann"), say(review, "ben"), rollback=rollback)
    assert told == ("open", "open" if rollback else "decided")
    assert len(list_standing(review)) == (1 if rollback else 2)
    assert [vote.verdict["counts"]["approve"] for vote in Vote.objects.order_by("at")] == ([1] if rollback else [1, 2])


@both_ends
def test_the_same_person_twice_in_n_of_m_counts_once(rollback: bool) -> None:
    review = park(quorum=2)
    told = race(say(review, "ann"), say(review, "ann"), rollback=rollback)
    assert told == ("open", "open" if rollback else "voted")
    assert list_standing(review) == [(f"user:{find('ann').pk}", "approve")]
    assert again(review).open


@both_ends
def test_a_substitute_and_whoever_is_back_count_once(rollback: bool) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2, run=work)
    make_absent(find("ann"), find("cid"))
    told = race(say(review, "cid"), say(review, "ann"), rollback=rollback)
    assert told == ("open", "open" if rollback else "voted")
    assert len(list_standing(review)) == 1


@both_ends
def test_two_votes_that_lose_it_together_give_one_answer(rollback: bool) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2, run=work)
    told = race(say(review, "ann"), say(review, "ben", "reject"), rollback=rollback)
    assert told == ("open", "open" if rollback else "decided")
    assert again(review).outcome == ("" if rollback else "reject")


@both_ends
def test_a_decider_waits_for_one_in_grace_and_is_told(rollback: bool) -> None:
    review = park()
    told = race(say(review, "ann", grace=True), say(review, "ben"), rollback=rollback)
    assert told == ("grace", "decided" if rollback else "grace")


@pytest.mark.parametrize("round_", range(3))
def test_of_many_deciders_at_once_one_answers(round_: int) -> None:
    for n in range(8):
        make_person(f"p{n}", "board")
    review = ask(groups=["board"], quorum=3, run=work)
    told: list[Any] = []
    run_threads([lambda n=n: told.append(say(review, f"p{n}")()) for n in range(8)])  # type: ignore[misc]
    assert sorted(str(one) for one in told if isinstance(one, str)) == ["decided", "open", "open"]
    assert len([one for one in told if isinstance(one, tuple)]) == 5
    assert tell_story(review) == {"voted": 3, "answered": 1}


# --- a decision and the clock ---------------------------------------------------------------------------------


def expire() -> int:
    return store.expire_due(connections["default"])


@both_ends
def test_a_late_decision_first_and_the_sweep_passes_it_by(rollback: bool) -> None:
    review = park(timeout="1h")
    make_overdue(Interaction.objects.get(pk=review.pk))
    told = race(say(review, "ann"), expire, rollback=rollback, waits=False)
    assert told == (("decided already", "", False, ""), 0)
    assert expire() == int(rollback)
    assert tell_story(review) == {"timed_out": 1}
    assert not again(review).open


@both_ends
def test_the_sweep_first_and_the_decision_waits_and_is_refused(rollback: bool) -> None:
    review = park(timeout="1h")
    make_overdue(Interaction.objects.get(pk=review.pk))
    told = race(expire, say(review, "ann"), rollback=rollback)
    assert told == (1, ("decided already", "", False, ""))
    assert tell_story(review) == {"timed_out": 1}


@both_ends
def test_a_decision_in_time_first_and_the_sweep_passes_it_by(rollback: bool) -> None:
    """The instance's moment has come, the question's own comes a moment later: whoever is first has it."""
    review = park(timeout="1h")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 s'")
    told = race(say(review, "ann"), expire, rollback=rollback, waits=False)
    assert told == ("decided", 0)
    assert expire() == int(rollback)
    assert tell_story(review) == ({"timed_out": 1} if rollback else {"voted": 1, "answered": 1})


@both_ends
def test_a_deadline_does_not_pass_a_decision_that_is_beginning_its_grace(rollback: bool) -> None:
    review = park(timeout="1h")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 s'")
    told = race(say(review, "ann", grace=True), expire, rollback=rollback, waits=False)
    assert told == ("grace", 0)
    assert expire() == int(rollback)  # no deadline is armed any more
    assert again(review).open is not rollback


# --- a decision and a cancellation ----------------------------------------------------------------------------


def stop(review: Review) -> Callable[[], str]:
    return lambda: str(workflows.cancel(review.instance_id).status)


@both_ends
def test_a_decision_first_and_the_cancellation_waits(rollback: bool) -> None:
    review = park()
    told = race(say(review, "ann"), stop(review), rollback=rollback)
    assert told == ("decided", "cancelled")
    assert tell_story(review) == ({"cancelled": 1} if rollback else {"voted": 1, "answered": 1, "cancelled": 1})
    assert again(review).outcome == ("" if rollback else "approve")


@both_ends
def test_a_cancellation_first_and_the_decision_waits_and_is_refused(rollback: bool) -> None:
    review = park(on_decision=review_calls.rename_actor)
    told = race(stop(review), say(review, "ann"), rollback=rollback)
    assert told == ("cancelled", "decided" if rollback else ("decided already", "", False, ""))
    assert find("ann").last_name == ("approve" if rollback else "")


@both_ends
def test_a_withdrawal_first_and_the_decision_waits_and_is_refused(rollback: bool) -> None:
    review = park(requester="cid")
    first, second = race(lambda: withdraw(review, actor=find("cid")).open, say(review, "ann"), rollback=rollback)
    assert first is False
    assert second == ("decided" if rollback else ("decided already", "Cid", True, "withdrawn"))


@both_ends
def test_a_cancellation_against_the_carrying_out_has_one_winner(rollback: bool) -> None:
    review = park()
    begin(review)
    pass_time(9, review)
    told = race(stop(review), lambda: carry_out(review.pk), rollback=rollback)
    assert told == ("cancelled", rollback)
    assert tell_story(review) == ({"voted": 1, "answered": 1} if rollback else {"voted": 1, "cancelled": 1})


# --- undo, and what carries it out ----------------------------------------------------------------------------


def take_back(review: Review, name: str = "ann") -> Callable[[], Any]:
    def call() -> Any:
        try:
            return undo(review.pk, actor=find(name)).effective_at is None
        except (AlreadyDecided, NotAllowed) as refused:
            return type(refused)

    return call


@both_ends
def test_an_undo_first_and_the_carrying_out_waits_and_finds_nothing(rollback: bool, clock: None) -> None:
    review = park()
    begin(review)

    def carry_out_later() -> bool:
        _skew(connection, 9)  # the undo came in time; now the grace is over
        return carry_out(review.pk)

    told = race(take_back(review), carry_out_later, rollback=rollback)
    assert told == (True, rollback)
    assert tell_story(review) == ({"voted": 1, "answered": 1} if rollback else {"voted": 1, "reversed": 1})
    assert carry_out(review.pk) is False


@both_ends
def test_the_carrying_out_first_and_the_undo_waits_and_is_too_late(rollback: bool) -> None:
    review = park()
    begin(review)
    pass_time(9, review)
    told = race(lambda: carry_out(review.pk), take_back(review), rollback=rollback)
    assert told == (True, AlreadyDecided)  # also where it was not carried out after all: its time is over
    assert tell_story(review) == ({"voted": 1} if rollback else {"voted": 1, "answered": 1})
    assert carry_out(review.pk) is rollback


@both_ends
def test_two_sweeps_carry_out_once(rollback: bool) -> None:
    review = park(on_decision=review_calls.note_call)
    begin(review)
    pass_time(9, review)
    told = race(lambda: carry_out(review.pk), lambda: carry_out(review.pk), rollback=rollback)
    assert told == (True, rollback)
    assert tell_story(review) == {"voted": 1, "answered": 1}


@both_ends
def test_two_undos_take_it_back_once(rollback: bool) -> None:
    review = park()
    begin(review)
    told = race(take_back(review), take_back(review), rollback=rollback)
    assert told == (True, True if rollback else NotAllowed)
    assert tell_story(review) == {"voted": 1, "reversed": 1}


@both_ends
def test_a_decision_waits_for_an_undo_and_sees_it(rollback: bool) -> None:
    review = park()
    begin(review)
    told = race(take_back(review), say(review, "ben", "reject"), rollback=rollback)
    assert told == (True, "grace" if rollback else "decided")


# --- the ladder -----------------------------------------------------------------------------------------------


@both_ends
def test_a_decision_first_and_the_rung_waits_and_is_not_climbed(rollback: bool) -> None:
    review = park(escalate=[("1h", ("outcome", "reject"))])
    pass_time(3601, review)
    told = race(say(review, "ann"), lambda: timers.take_rung(review.pk), rollback=rollback)
    assert told == ("decided", rollback)
    assert again(review).outcome == ("reject" if rollback else "approve")
    assert tell_story(review) == ({"answered": 1} if rollback else {"voted": 1, "answered": 1})


@both_ends
def test_a_grace_first_and_the_rung_waits_and_is_not_climbed(rollback: bool) -> None:
    review = park(escalate=[("1h", ("outcome", "reject"))])
    pass_time(3601, review)
    told = race(say(review, "ann", grace=True), lambda: timers.take_rung(review.pk), rollback=rollback)
    assert told == ("grace", rollback)


@both_ends
def test_the_rung_first_and_the_decision_waits_and_is_refused(rollback: bool) -> None:
    review = park(escalate=[("1h", ("outcome", "reject"))])
    pass_time(3601, review)
    told = race(lambda: timers.take_rung(review.pk), say(review, "ann"), rollback=rollback)
    assert told == (True, "decided" if rollback else ("decided already", "", True, "reject"))


@both_ends
def test_two_sweeps_climb_a_rung_once(rollback: bool) -> None:
    review = park(remind=["1h", "2h"])
    pass_time(3601, review)
    told = race(lambda: timers.take_rung(review.pk), lambda: timers.take_rung(review.pk), rollback=rollback)
    assert told == (True, rollback)
    assert again(review).rung == 1


@both_ends
def test_whoever_is_no_longer_asked_when_their_turn_comes_is_refused(rollback: bool) -> None:
    """Who may decide is read under the locks, not before the wait for them."""
    make_person("dot", "board")
    review = park(escalate=[("1h", ("reassign", "board"))])
    pass_time(3601, review)
    told = race(lambda: timers.take_rung(review.pk), say(review, "ann"), rollback=rollback)
    assert told == (True, "decided" if rollback else "not_candidate")


# --- claims ---------------------------------------------------------------------------------------------------


def hold(review: Review, name: str) -> Callable[[], Any]:
    def call() -> Any:
        try:
            return claim(review.pk, actor=find(name)).claimed_by_id == find(name).pk
        except NotAllowed as refused:
            return refused.obstacle.rule

    return call


@both_ends
def test_two_claims_at_once_have_one_winner(rollback: bool) -> None:
    review = park()
    told = race(hold(review, "ann"), hold(review, "ben"), rollback=rollback)
    assert told == (True, True if rollback else "claimed")
    assert again(review).claimed_by_id == find("ben" if rollback else "ann").pk


@both_ends
def test_a_decision_waits_for_a_claim_and_sees_it(rollback: bool) -> None:
    review = park()
    told = race(hold(review, "ann"), say(review, "ben"), rollback=rollback)
    assert told == (True, "decided" if rollback else "claimed")


# --- the subject ----------------------------------------------------------------------------------------------


def rename(subject: Group) -> Callable[[], int]:
    return lambda: Group.objects.filter(pk=subject.pk).update(name="renamed")


@both_ends
def test_a_subject_that_is_being_changed_is_waited_for_and_the_decision_is_stale(rollback: bool) -> None:
    subject = Group.objects.create(name="subject")
    review = park(subject=subject)
    told = race(rename(subject), say(review, "ann"), rollback=rollback)
    assert told == (1, "decided" if rollback else Refused(Stale))
    assert again(review).version == (1 if rollback else 2)


@both_ends
def test_a_change_of_the_subject_waits_for_the_decision_about_it(rollback: bool) -> None:
    subject = Group.objects.create(name="subject")
    review = park(subject=subject)
    assert race(say(review, "ann"), rename(subject), rollback=rollback) == ("decided", 1)


def test_a_decision_that_loses_a_deadlock_is_made_again() -> None:
    """Somebody holds the subject and then waits for the instance: one of the two has to give way."""
    subject = Group.objects.create(name="subject")
    review = park(subject=subject)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL deadlock_timeout = '60s'")  # so that it is the decision that finds out
        Group.objects.select_for_update().get(pk=subject.pk)
        other = Other(say(review, "ann"))
        other.wait_until_blocked()  # it has the instance, and waits for the subject
        assert not workflows.signal(review.instance_id, "paid").woke  # waits for the instance
    assert other.join() == "decided"
    assert tell_story(review) == {"voted": 1, "answered": 1}


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Another alias. What is at it has no transaction in common with the engine's."""
    known: Any = connections.databases
    known["elsewhere"] = {**connections["default"].settings_dict}
    other = connections["elsewhere"]
    del known["elsewhere"]  # a test may connect only to what it named, or to what nobody knows
    other.ensure_connection()
    known["elsewhere"] = other.settings_dict
    yield "elsewhere"
    other.close()
    del connections["elsewhere"]
    del known["elsewhere"]


@pytest.mark.parametrize("grace", [False, True])
def test_a_subject_in_another_database_is_read_and_compared_though_it_cannot_be_held(
    elsewhere: str, grace: bool
) -> None:
    subject = Group.objects.create(name="subject")
    review = park(subject=Group.objects.using(elsewhere).get())
    assert review.subject_using == elsewhere
    rename(subject)()
    with pytest.raises(Stale):
        decide(review.pk, "approve", actor=find("ann"))
    assert again(review).version == 2
    assert decide(review.pk, "approve", actor=find("ann"), grace=grace).state == ("grace" if grace else "decided")
    if grace:
        pass_time(9, review)
        assert carry_out(review.pk)
    assert again(review).outcome == "approve"


# --- a park ---------------------------------------------------------------------------------------------------


@both_ends
def test_a_decision_before_the_park_waits_for_it_or_is_kept_for_it(rollback: bool) -> None:
    instance = start({"assignees": ["ann"]}, run=lambda: None)
    commit = play(take_one())
    review = find_review(instance)
    told = race(lambda: settle(commit), say(review, "ann"), rollback=rollback)
    assert told == (True, "decided")
    if rollback:
        assert settle(commit)
    work()
    assert Instance.objects.get(pk=instance.pk).status == "done"


@both_ends
def test_a_grace_waits_for_the_park_and_holds_its_deadline(rollback: bool) -> None:
    """Whether it can be undone is looked up under the lock: what is not parked could not be held."""
    instance = start({"assignees": ["ann"]}, run=lambda: None)
    commit = play(take_one())
    review = find_review(instance)
    told = race(lambda: settle(commit), say(review, "ann", grace=True), rollback=rollback)
    assert told == (True, "decided" if rollback else "grace")
    if rollback:
        assert settle(commit)


# --- a real pump ----------------------------------------------------------------------------------------------


def test_a_pump_carries_out_climbs_and_goes_on_by_itself(settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 0.3, "EMAIL": False}
    decided, silent = park(), park(escalate=[("1h", ("outcome", "reject"))])
    begin(decided)
    pass_time(3601, silent)
    with pumping(2):
        for review in (decided, silent):
            wait_until(lambda review=review: Instance.objects.get(pk=review.instance_id).status == "done", "it is done")
    assert (again(decided).outcome, again(silent).outcome) == ("approve", "reject")
    assert tell_story(decided) == {"voted": 1, "answered": 1}
    assert tell_story(silent) == {"answered": 1}


# --- nobody is left ---------------------------------------------------------------------------------------


@both_ends
def test_of_two_pumps_that_see_that_nobody_is_left_one_tells(rollback: bool) -> None:
    review = park(requester=find("ann"))
    User.objects.update(is_active=False)
    first, second = race(stranding.work, stranding.work, rollback=rollback)
    assert (first, second) == (1, 1 if rollback else 0)
    assert again(review).stranded_at is not None
    assert [row.data["what"] for row in list_events(review, "handled")] == ["stranded"]
    assert Notice.objects.filter(review=review, kind="stranded").count() == 1


@both_ends
def test_what_is_handed_on_while_a_pump_looks_waits_for_them(rollback: bool) -> None:
    review = park()
    User.objects.update(is_active=False)
    eve, boss = make_person("eve"), grant(make_person("boss"), "reassign_review")
    race(lambda: reassign(review.pk, users=[eve], actor=boss), stranding.work, rollback=rollback)
    assert (again(review).stranded_at is None) is not rollback
