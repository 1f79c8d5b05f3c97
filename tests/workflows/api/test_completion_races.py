"""Two connections on one question: an answer, a deadline, a cancellation, a park; exactly one of them wins.

Whoever comes second is seen waiting for the first, and then sees what it did, or that it never was. The sweep
waits for nobody: it passes a locked row by, and finds it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

import workflows
from tests.support.deadlines import make_due, make_overdue
from tests.support.folds import check_all_folds
from tests.support.races import COMMITTED, Other, Refused, forget, play, race, run_threads, settle, take, take_one, work
from workflows import (
    Await,
    Completion,
    Done,
    IdempotencyConflict,
    InteractionResolved,
    InvalidData,
    SignalCollision,
    StaleVersion,
    Stop,
    UnknownInteraction,
    Workflow,
    durable,
    step,
    store,
)
from workflows.engine.journals.store_access import Ousted
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal
from workflows.store import Claim

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

both_ends = pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])
GATE = "the-gate"


@durable(name="completion_races.gate")
def gate(ctx):
    return ctx.wait_for_signal("gate", signal=GATE, timeout="1h")


class Ask(Workflow):
    name = "completion_races.ask"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done({"answer": ctx.answer, "timed_out": ctx.timed_out})


class Leaving(Workflow):
    """Asks, goes on, and ends without having waited."""

    name = "completion_races.leaving"

    @step
    def ask(self, ctx):
        assert ctx.callback("pay").resume_token
        return workflows.Next("end")

    @step
    def end(self, ctx):
        return Stop("enough") if ctx.input["how"] == "stop" else Done("enough")


def park(workflow: Any = gate) -> Interaction:
    instance = workflows.start(workflow)
    work()
    assert Instance.objects.get(pk=instance.pk).status == "awaiting"
    return Interaction.objects.get(instance=instance)


def answer(target: Any, data: Any, **options: Any) -> Callable[[], Any]:
    return lambda: workflows.complete(target, data, **options).replayed


def sweep() -> int:
    return store.expire_due(connections["default"])


def check_one_winner(found: Interaction) -> str:
    """Interaction, unit, inbox and history tell one story; which."""
    row, unit = Interaction.objects.get(pk=found.pk), AwaitUnit.objects.get(pk=found.unit_id)
    instance = Instance.objects.get(pk=found.instance_id)
    answers = Signal.objects.filter(instance=instance, name=f"holdpoint:unit:{unit.pk}")
    kinds = [str(kind) for kind in instance.events.values_list("kind", flat=True)]
    assert {"pending": "open"}.get(row.status, str(row.status)) == str(unit.status)
    assert answers.count() == kinds.count("answered") == (row.status == "completed")
    assert kinds.count("timed_out") <= 1
    assert kinds.count("answered") + kinds.count("timed_out") <= 1
    if row.status == "completed":
        assert [one.payload for one in answers] == [row.output]
    assert instance.inbox == Signal.objects.filter(instance=instance, consumed_at=None).count()
    check_all_folds()
    return str(row.status)


# Two answers


@both_ends
def test_complete_against_complete_the_second_waits_and_is_told_that_it_is_answered(rollback):
    found = park()
    told = race(answer(GATE, "first"), answer(GATE, "second"), rollback=rollback)
    assert told == ((False, False) if rollback else (False, Refused(InteractionResolved)))
    assert check_one_winner(found) == "completed"
    work()
    assert Instance.objects.get(pk=found.instance_id).result == ("second" if rollback else "first")


@both_ends
def test_complete_against_the_same_call_again_is_a_replay(rollback):
    found = park()
    call = answer(GATE, "same", idempotency_key="k")
    assert race(call, call, rollback=rollback) == (False, not rollback)
    assert check_one_winner(found) == "completed"


def test_complete_against_another_with_the_same_key_is_a_conflict():
    found = park()
    told = race(answer(GATE, "one", idempotency_key="k"), answer(GATE, "two", idempotency_key="k"))
    assert told == (False, Refused(IdempotencyConflict))
    assert check_one_winner(found) == "completed"


@both_ends
def test_complete_against_one_that_shows_a_version(rollback):
    found = park()
    told = race(answer(GATE, "one"), answer(GATE, "two", version=found.version), rollback=rollback)
    if rollback:
        assert told == (False, False)
    else:
        assert told in ((False, Refused(StaleVersion)), (False, Refused(InteractionResolved)))
    assert check_one_winner(found) == "completed"


# An answer and the sweep


@both_ends
def test_an_answer_first_and_the_sweep_passes_the_row_by(rollback):
    found = park()
    make_due(found.instance_id)
    told = race(answer(GATE, "yes"), sweep, rollback=rollback, waits=False)
    assert told == (False, 0)
    assert sweep() == int(rollback)
    assert check_one_winner(found) == ("expired" if rollback else "completed")
    work()
    row = Instance.objects.get(pk=found.instance_id)
    assert (row.status, row.result) == (("failed", None) if rollback else ("done", "yes"))


@both_ends
def test_the_sweep_first_and_the_answer_waits_and_is_refused(rollback):
    found = park()
    make_due(found.instance_id)
    told = race(sweep, answer(GATE, "yes"), rollback=rollback)
    assert told == ((1, False) if rollback else (1, Refused(InteractionResolved)))
    assert check_one_winner(found) == ("completed" if rollback else "expired")
    assert sweep() == 0  # an armed deadline never fires after an answer, nor twice


@both_ends
def test_the_sweep_first_and_a_late_answer_fires_nothing_more(rollback):
    found = park(Ask)
    make_overdue(found)
    told = race(sweep, answer(found.pk, "late"), rollback=rollback)
    assert told == (1, Refused(InteractionResolved))
    assert check_one_winner(found) == "expired"
    assert LedgerEvent.objects.filter(instance=found.instance_id, kind="timed_out").count() == 1
    work()
    assert Instance.objects.get(pk=found.instance_id).result == {"answer": None, "timed_out": True}


@both_ends
def test_a_late_answer_first_and_the_sweep_fires_nothing_more(rollback):
    found = park(Ask)
    make_overdue(found)
    told = race(answer(found.pk, "late"), sweep, rollback=rollback, waits=False)
    assert told == (Refused(InteractionResolved), 0)
    assert sweep() == int(rollback)
    assert check_one_winner(found) == "expired"
    work()
    assert Instance.objects.get(pk=found.instance_id).result == {"answer": None, "timed_out": True}


@both_ends
def test_two_late_answers_fire_the_deadline_once(rollback):
    found = park(Ask)
    make_overdue(found)
    told = race(answer(found.pk, "late"), answer(found.pk, "later"), rollback=rollback)
    assert told == (Refused(InteractionResolved), Refused(InteractionResolved))
    assert check_one_winner(found) == "expired"
    assert sweep() == 0


# An answer and a cancellation


@both_ends
def test_an_answer_first_and_the_cancellation_waits(rollback):
    found = park()
    race(answer(GATE, "yes"), lambda: workflows.cancel(found.instance_id), rollback=rollback)
    assert Instance.objects.get(pk=found.instance_id).status == "cancelled"
    assert check_one_winner(found) == ("cancelled" if rollback else "completed")


@both_ends
def test_a_cancellation_first_and_the_answer_finds_nothing_to_answer(rollback):
    found = park()
    _, told = race(lambda: workflows.cancel(found.instance_id), answer(GATE, "yes"), rollback=rollback)
    assert told == (False if rollback else Refused(UnknownInteraction))
    assert check_one_winner(found) == ("completed" if rollback else "cancelled")


# An answer and a park


@both_ends
@pytest.mark.parametrize("workflow", [gate, Ask], ids=["function", "step"])
def test_an_answer_first_and_the_park_waits_and_sees_it(workflow, rollback):
    instance = workflows.start(workflow)
    commit = play(take_one())
    found = Interaction.objects.get(instance=instance)
    assert race(answer(found.pk, "yes"), lambda: settle(commit), rollback=rollback) == (False, True)
    row = Instance.objects.get(pk=instance.pk)
    assert row.status == ("awaiting" if rollback else "runnable")
    if rollback:
        workflows.complete(found, "yes")
    assert check_one_winner(found) == "completed"
    work()
    assert Instance.objects.get(pk=instance.pk).result in ("yes", {"answer": "yes", "timed_out": False})


@both_ends
@pytest.mark.parametrize("workflow", [gate, Ask], ids=["function", "step"])
def test_a_park_first_and_the_answer_waits_and_wakes_it(workflow, rollback):
    instance = workflows.start(workflow)
    claim = take_one()
    commit = play(claim)
    found = Interaction.objects.get(instance=instance)
    assert race(lambda: settle(commit), answer(found.pk, "yes"), rollback=rollback) == (True, False)
    row = Instance.objects.get(pk=instance.pk)
    assert (row.status, row.inbox) == ("running" if rollback else "runnable", 1)
    if rollback:
        assert settle(commit)
        assert Instance.objects.get(pk=instance.pk).status == "runnable"
    assert check_one_winner(found) == "completed"
    work()
    assert Instance.objects.get(pk=instance.pk).result in ("yes", {"answer": "yes", "timed_out": False})


@both_ends
def test_a_park_first_and_a_late_answer_fires_its_deadline(rollback):
    instance = workflows.start(Ask)
    commit = play(take_one())
    found = Interaction.objects.get(instance=instance)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_interaction SET deadline = now() - interval '1 s'")
    assert race(lambda: settle(commit), answer(found.pk, "late"), rollback=rollback) == (
        True,
        Refused(InteractionResolved),
    )
    if rollback:
        assert settle(commit)  # parks on what has expired meanwhile: only its deadline can wake it
        make_due(instance.pk)
        assert sweep() == 1
    assert check_one_winner(found) == "expired"
    work()
    assert Instance.objects.get(pk=instance.pk).result == {"answer": None, "timed_out": True}


# An answer and the end of what asked


@both_ends
@pytest.mark.parametrize("how", ["stop", "done"])
def test_the_end_first_and_the_answer_finds_nothing_to_answer(how, rollback):
    instance = workflows.start(Leaving, {"how": how})
    settle(play(take_one()))
    found = Interaction.objects.get(instance=instance)
    commit = play(take_one())
    assert race(lambda: settle(commit), answer(found.pk, "yes"), rollback=rollback) == (
        True,
        False if rollback else Refused(UnknownInteraction),
    )
    assert check_one_winner(found) == ("completed" if rollback else "cancelled")
    if rollback:
        assert settle(commit)
    assert Instance.objects.get(pk=instance.pk).status == ("failed" if how == "stop" else "done")
    assert check_one_winner(found) == ("completed" if rollback else "cancelled")


@both_ends
@pytest.mark.parametrize("how", ["stop", "done"])
def test_an_answer_first_and_the_end_leaves_it_as_it_is(how, rollback):
    instance = workflows.start(Leaving, {"how": how})
    settle(play(take_one()))
    found = Interaction.objects.get(instance=instance)
    commit = play(take_one())
    assert race(answer(found.pk, "yes"), lambda: settle(commit), rollback=rollback) == (False, True)
    assert check_one_winner(found) == ("cancelled" if rollback else "completed")
    assert Instance.objects.get(pk=instance.pk).status == ("failed" if how == "stop" else "done")


# Asking


@both_ends
def test_two_creators_of_one_signal_id_the_second_waits_and_collides(rollback):
    workflows.start(gate)
    workflows.start(gate)
    first, second = take(2)
    held, waited = race(lambda: play(first), lambda: play(second), rollback=rollback)
    assert held.kind is store.Kind.SUSPEND
    pending = Interaction.objects.filter(signal_id=GATE, status="pending")
    if rollback:
        assert waited.kind is store.Kind.SUSPEND
        assert str(pending.get().instance_id) == second.id
        assert settle(waited)
        again = play(first)  # its question was never asked: it is told now
        assert (again.kind, "SignalCollision" in again.error) == (store.Kind.STOP, True)
    else:
        assert (waited.kind, "SignalCollision" in waited.error) == (store.Kind.STOP, True)
        assert str(pending.get().instance_id) == first.id
        assert settle(held, waited)
    assert pending.count() == 1


@both_ends
def test_a_creator_against_the_answer_that_frees_the_id_waits_and_then_knows(rollback):
    found = park()
    workflows.start(gate)
    claim = take_one()
    told, opened = race(answer(GATE, "yes"), lambda: play(claim), rollback=rollback)
    assert told is False
    if rollback:
        assert "SignalCollision" in opened.error
    else:
        assert opened.kind is store.Kind.SUSPEND
    assert settle(opened)
    assert check_one_winner(found) == ("pending" if rollback else "completed")
    assert Interaction.objects.filter(signal_id=GATE, status="pending").count() == 1


@both_ends
def test_a_cancellation_first_and_the_step_opens_nothing(rollback):
    instance = workflows.start(gate)
    claim = take_one()
    _, opened = race(lambda: workflows.cancel(instance), lambda: play(claim), rollback=rollback)
    assert Interaction.objects.filter(status="pending").exists() is rollback
    if rollback:
        assert settle(opened)
        assert Instance.objects.get(pk=instance.pk).status == "awaiting"
    else:
        assert opened is store.RunEnd.LOST  # ousted: nothing of that run is committed
        assert not Interaction.objects.exists()
    check_all_folds()


@both_ends
def test_an_opening_first_and_the_cancellation_waits_and_closes_it(rollback):
    instance = workflows.start(gate)
    claim = take_one()
    commit, _ = race(lambda: play(claim), lambda: workflows.cancel(instance), rollback=rollback)
    assert Instance.objects.get(pk=instance.pk).status == "cancelled"
    assert list(Interaction.objects.values_list("status", flat=True)) == ([] if rollback else ["cancelled"])
    assert not settle(commit)
    check_all_folds()


def test_a_worker_that_lost_its_claim_opens_nothing():
    instance = workflows.start(gate)
    stale = take_one()
    forget(stale)
    assert store.reclaim(connections["default"]) == 1
    fresh = take_one()
    assert play(stale) is store.RunEnd.LOST
    assert not Interaction.objects.exists()
    assert settle(play(fresh))
    assert Interaction.objects.get().instance_id == instance.pk
    assert issubclass(Ousted, BaseException)
    assert not issubclass(Ousted, Exception)


# Many at once


@pytest.mark.parametrize("round_", range(3))
def test_of_many_answers_at_once_one_is_taken(round_):
    found = park()
    told: list[tuple[int, Any]] = []

    def call(n: int) -> None:
        try:
            told.append((n, workflows.complete(GATE, n, actor=f"p{n}")))
        except InteractionResolved:
            told.append((n, None))

    run_threads([lambda n=n: call(n) for n in range(8)])
    [winner] = [n for n, done in told if isinstance(done, Completion)]
    assert len(told) == 8
    assert Interaction.objects.get(pk=found.pk).output == winner
    assert check_one_winner(found) == "completed"
    assert LedgerEvent.objects.filter(instance=found.instance_id, kind="refused").count() == 7


def test_of_many_creators_at_once_one_asks():
    for _ in range(8):
        workflows.start(gate)
    claims = take(8)
    commits: list[Any] = []
    run_threads([lambda claim=claim: commits.append(play(claim)) for claim in claims])
    assert Interaction.objects.filter(status="pending").count() == 1
    assert sorted(commit.kind for commit in commits) == [store.Kind.STOP] * 7 + [store.Kind.SUSPEND]
    assert all(SignalCollision.__name__ in commit.error for commit in commits if commit.kind is store.Kind.STOP)
    assert settle(*commits)
    check_all_folds()


# --- late, and then not -----------------------------------------------------------------------------


class Typed(Workflow):
    """Asks for a whole number, and hands on one more."""

    name = "completion_races.typed"

    @step
    def ask(self, ctx):
        asked = ctx.callback("pay", schema={"type": "integer"}, projector=add_one)
        return Await(asked, then="end", timeout=ctx.input["timeout"])

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def add_one(request: Any, submitted: Any) -> Any:
    return submitted + 1


def test_a_late_answer_that_meets_a_deadline_armed_anew_is_checked_like_any_other(settings: Any) -> None:
    """A worker died between arming and parking, and the next one arms while the answer is looked at."""
    instance = workflows.start(Typed, {"timeout": 0.000_001})
    first = take_one()
    play(first)  # armed, and never parked
    forget(first)
    store.reclaim(connections["default"])

    def arm_anew(operation: str, interaction: Any, actor: str) -> None:
        if operation == "resume" and not armed:
            armed.append(Other(lambda: settle(play(take_longer()))).join())

    def take_longer() -> Claim:
        claim = take_one()
        claim.input = '{"timeout": 3600}'
        return claim

    armed: list[Any] = []
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": arm_anew}
    with pytest.raises(InvalidData):
        workflows.complete(f"pay-{instance.pk}", "not a number")
    assert armed == [True]
    workflows.complete(f"pay-{instance.pk}", 1)
    work()
    assert Instance.objects.get(pk=instance.pk).result == 2
