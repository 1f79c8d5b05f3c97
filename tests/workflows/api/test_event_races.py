"""Emit against park, and against everything else that may meet at a wait, on two real connections.

Whichever comes second waits for the first and then sees what it did, or that it never was: an event is missed
on neither side. The control shows that the lock they share is what does it.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import transaction

import workflows
from tests.support.database import db
from tests.support.folds import check_all_folds
from tests.support.races import COMMITTED, play, race, run_threads, settle, take, take_one, work
from workflows import Await, Done, Workflow, emit, step, store
from workflows.api.events import emit_event
from workflows.definitions.awaited_event import EVENT, EventSpec, event
from workflows.models import EventWait, Instance, NamedEvent, Signal
from workflows.store import Claim, Commit, Kind

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

both_ends = pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])


class Racer(Workflow):
    """Takes `paid` as often as its input says."""

    name = "event_races.racer"

    @step
    def ask(self, ctx):
        return Await(event("paid"), then="note", state={"got": []}, timeout=ctx.input.get("timeout"))

    @step
    def note(self, ctx):
        got = [*ctx.state["got"], "timed out" if ctx.timed_out else ctx.answer]
        if len(got) == ctx.input.get("times", 1):
            return Done(got)
        return Await(event("paid"), then="note", state={"got": got})


def running(**input: Any) -> tuple[Instance, Claim]:
    instance = workflows.start(Racer, input)
    return instance, take_one()


def parked(**input: Any) -> Instance:
    instance, claim = running(**input)
    settle(play(claim))
    assert fresh(instance).status == "awaiting"
    return instance


def fresh(instance: Instance) -> Instance:
    return Instance.objects.get(pk=instance.pk)


def open_waits() -> int:
    return EventWait.objects.filter(closed_at=None).count()


def park(claim: Claim) -> bool:
    """Run the step that waits; what it returns is committed with the wait."""
    return settle(play(claim))


# --- emit against park ----------------------------------------------------------------------------


@both_ends
def test_a_park_that_waited_for_an_emit_takes_the_event(rollback: bool) -> None:
    instance, claim = running()
    woke, _ = race(lambda: emit("paid", 1), lambda: park(claim), rollback=rollback)
    assert woke == 0
    assert fresh(instance).status == ("awaiting" if rollback else "runnable")
    assert open_waits() == (1 if rollback else 0)
    if not rollback:
        work()
        assert fresh(instance).result == [1]
    check_all_folds()


@both_ends
def test_an_emit_that_waited_for_a_park_wakes_it(rollback: bool) -> None:
    instance, claim = running()
    _, woke = race(lambda: park(claim), lambda: emit("paid", 1), rollback=rollback)
    assert woke == (0 if rollback else 1)
    assert fresh(instance).status == ("running" if rollback else "runnable")
    if rollback:  # the park that is tried again finds the event
        park(claim)
    work()
    assert fresh(instance).result == [1]
    assert open_waits() == 0
    check_all_folds()


def park_by_hand(claim: Claim, *, locked: bool) -> set[str]:
    with store.atomic(db()):
        if locked:
            store.lock_event(db(), claim.workspace, "paid", shared=True)
        assert store.lock_claim(db(), claim)
        wait = store.park_on_event(db(), claim, EventSpec("paid"))
        commit = Commit(claim, Kind.AWAIT, step="note", state='{"got": []}', names=(f"{EVENT}{wait}",))
        return store.commit_locked(db(), [commit])


def emit_by_hand(workspace: int, *, locked: bool) -> int:
    with transaction.atomic():
        if locked:
            store.lock_event(db(), workspace, "paid", shared=False)
        id, _ = store.insert_event(db(), workspace, "paid", "1", dedup=None, actor="")
        found = list(store.find_waits(db(), workspace, "paid", id))
        pairs = [pair for waits in found for pair in zip(waits.instances, waits.ids, strict=True)]
        return store.deliver_event(db(), "paid", id, pairs)


@pytest.mark.parametrize("locked", [True, False], ids=["locked", "control: without the lock"])
@pytest.mark.parametrize("first", ["park", "emit"])
def test_only_the_common_lock_keeps_a_park_and_an_emit_from_missing_each_other(first: str, locked: bool) -> None:
    instance, claim = running()

    def parks() -> object:
        return park_by_hand(claim, locked=locked)

    def emits() -> object:
        return emit_by_hand(claim.workspace, locked=locked)

    if first == "park":
        race(parks, emits, waits=locked)
    else:
        race(emits, parks, waits=locked)
    assert NamedEvent.objects.count() == 1
    # Without: the event is stored, the wait is open, each too late for the other, and nobody will ever look again.
    assert (fresh(instance).status, open_waits()) == (("runnable", 0) if locked else ("awaiting", 1))


def test_two_parks_on_one_event_do_not_wait_for_each_other() -> None:
    workflows.start_many(Racer, [{}, {}])
    one, two = take(2)
    race(lambda: park(one), lambda: park(two), waits=False)
    assert open_waits() == 2


def test_emits_of_other_names_and_workspaces_do_not_wait() -> None:
    workflows.workspace.create("acme")
    race(lambda: emit("paid"), lambda: emit("refunded"), waits=False)
    race(lambda: emit("paid"), lambda: emit("paid", workspace="acme"), waits=False)


# --- emit against emit ----------------------------------------------------------------------------


@both_ends
def test_of_two_emits_one_wait_takes_one_and_the_next_wait_the_other(rollback: bool) -> None:
    instance = parked(times=2)
    woke = race(lambda: emit("paid", 1), lambda: emit("paid", 2), rollback=rollback)
    assert woke == ((1, 1) if rollback else (1, 0))
    assert Signal.objects.count() == 1
    work()
    if rollback:
        assert fresh(instance).status == "awaiting"
        assert NamedEvent.objects.count() == 1
    else:
        assert fresh(instance).result == [1, 2]
    check_all_folds()


@both_ends
def test_of_two_emits_with_one_dedup_key_one_counts(rollback: bool) -> None:
    instance = parked()
    first, second = race(
        lambda: emit_event("paid", 1, dedup_key="evt"),
        lambda: emit_event("paid", 2, dedup_key="evt"),
        rollback=rollback,
    )
    assert (second.duplicate, second.woke) == ((False, 1) if rollback else (True, 0))
    assert (second.id == first.id) is not rollback
    work()
    assert fresh(instance).result == [2 if rollback else 1]


# --- emit against the rest ------------------------------------------------------------------------


@both_ends
def test_an_emit_that_waited_for_a_cancellation_wakes_nobody(rollback: bool) -> None:
    instance = parked()
    _, woke = race(lambda: workflows.cancel(instance), lambda: emit("paid", 1), rollback=rollback)
    assert woke == (1 if rollback else 0)
    assert fresh(instance).status == ("runnable" if rollback else "cancelled")
    assert Signal.objects.count() == (1 if rollback else 0)
    check_all_folds()


@both_ends
def test_a_cancellation_that_waited_for_an_emit_cancels(rollback: bool) -> None:
    instance = parked()
    race(lambda: emit("paid", 1), lambda: workflows.cancel(instance), rollback=rollback)
    assert fresh(instance).status == "cancelled"
    check_all_folds()


@both_ends
def test_a_deadline_and_an_emit_wake_a_wait_once(rollback: bool) -> None:
    instance = parked(timeout=0.000_001)
    _, woke = race(lambda: store.expire_due(db()), lambda: emit("paid", 1), rollback=rollback)
    assert woke == (1 if rollback else 0)
    work()
    assert fresh(instance).result == [1 if rollback else "timed out"]
    check_all_folds()


@both_ends
def test_a_sweep_passes_over_a_wait_that_an_emit_holds(rollback: bool) -> None:
    instance = parked(timeout=0.000_001)
    _, expired = race(lambda: emit("paid", 1), lambda: store.expire_due(db()), rollback=rollback, waits=False)
    assert expired == 0
    assert store.expire_due(db()) == (1 if rollback else 0)
    work()
    assert fresh(instance).result == ["timed out" if rollback else 1]


@both_ends
def test_a_signal_of_another_name_and_an_emit_are_both_kept(rollback: bool) -> None:
    instance = parked()
    _, woke = race(lambda: workflows.signal(instance, "noise"), lambda: emit("paid", 1), rollback=rollback)
    assert woke == 1
    assert fresh(instance).inbox == (1 if rollback else 2)
    check_all_folds()


def test_every_instance_is_handed_every_event_once_and_in_order() -> None:
    """Instances that wait again and again, senders and workers all at once: none missed, none taken twice."""
    senders, events, loops = 3, 12, 8
    instances = workflows.start_many(Racer, [{"times": senders * events}] * loops)
    seed = random.randrange(1_000_000)

    def send(number: int) -> None:
        for n in range(events):
            emit("paid", [number, n])

    def run() -> None:
        chance = random.Random(seed)
        while Instance.objects.exclude(status="done").exists():
            for claim in take(chance.randrange(1, 4)):
                settle(play(claim))

    run_threads([*[lambda n=n: send(n) for n in range(senders)], run, run])  # type: ignore[misc]
    in_order = list(NamedEvent.objects.order_by("at").values_list("data", flat=True))
    assert len(in_order) == senders * events
    for instance in instances:
        assert fresh(instance).result == in_order, f"seed {seed}"
    assert open_waits() == 0
    check_all_folds()
