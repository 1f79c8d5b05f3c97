"""An instance's ledger tells its row: folding the events gives what the row says, always."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import pytest
from django.db import connections

import workflows
from tests.two_connections import forget, play, settle, take_one
from workflows import Await, Child, Done, Next, Retry, Spawn, Stop, Workflow, step, store
from workflows.models import Instance, LedgerEvent
from workflows.testing import advance, drain

CONSUMING = {"advanced", "done", "spawned"}
SETTING_NAMES = {"advanced", "done", "spawned", "parked"}


@dataclass
class Folded:
    """What the events say. A claim is no event, so `running` cannot be told from `runnable`."""

    status: str = ""
    step: str | None = None
    attempt: int = 0
    names: list[str] | None = None
    due_at: datetime | None = None
    timed_out: bool = False
    pending: int = 0
    received: int = 0
    error: str | None = None
    seq: int = 0


def fold(events: Iterable[LedgerEvent]) -> Folded:
    """Read the events in their order; nothing but their columns is used."""
    folded = Folded()
    for event in events:
        kind = str(event.kind)
        assert event.seq > folded.seq, "numbers do not ascend"
        folded.seq = event.seq
        was, folded.status = folded.status, _waiting(event.status)
        if kind == "signalled":
            folded.received += 1
        elif kind == "child_ended":
            folded.pending -= event.data
        elif event.name is not None:
            folded.step = event.name
        if kind in SETTING_NAMES:
            folded.names = event.data if kind == "parked" else None
            folded.timed_out = False
            folded.attempt = 0
        if kind == "retried":
            folded.attempt += 1
        if kind == "timed_out":
            folded.timed_out = True
        if kind == "spawned":
            folded.pending = event.data["children"] if isinstance(event.data, dict) else event.data or 0
        if kind in ("failed", "cancelled"):
            folded.error = event.data or ""
        if kind == "reopened":
            folded.attempt, folded.error = 0, None
        if event.due_at is not None or folded.status != was:
            folded.due_at = event.due_at
    return folded


def _waiting(status: str) -> str:
    return "runnable" if status == "running" else str(status)


def check_fold(instance: Instance) -> None:
    """The row is what its events say, column by column."""
    row = Instance.objects.get(pk=instance.pk)
    folded = fold(row.events.all())
    assert folded.status == _waiting(row.status)
    assert folded.step == row.step
    assert folded.attempt == row.attempt
    assert folded.names == row.names
    assert folded.timed_out == row.timed_out
    assert folded.pending == row.pending
    assert folded.received == row.signals.count()
    assert folded.seq <= row.seq
    assert folded.error == (row.error if row.ended else None)
    if row.status in ("awaiting", "sleeping", "awaiting_children"):
        assert folded.due_at == row.due_at
    numbers = set(row.events.filter(kind="signalled").values_list("seq", flat=True))
    assert numbers == set(row.signals.values_list("n", flat=True)), "a signal and its event share their number"


def check_all_folds() -> int:
    """Every instance there is; how many."""
    instances = list(Instance.objects.all())
    for instance in instances:
        check_fold(instance)
    return len(instances)


class Child1(Workflow):
    name = "fold.child"

    @step
    def ask(self, ctx):
        return Await("end", then="end")

    @step
    def end(self, ctx):
        return Stop("child failed") if ctx.awaited[0].payload == "badly" else Done()


class Story(Workflow):
    name = "fold.story"

    @step
    def ask(self, ctx):
        return Await(["b", "a"], then="work", timeout="1h")

    @step
    def work(self, ctx):
        if ctx.attempt < 2:
            return Retry(delay="1m")
        return Next("bear", delay="5m")

    @step
    def bear(self, ctx):
        return Spawn([Child(Child1, key=f"child-{n}") for n in range(3)], then="finish")

    @step
    def finish(self, ctx):
        return Stop("a child failed") if any(c.status != "done" for c in ctx.children) else Done("fine")


@pytest.mark.django_db
def test_at_every_turn_of_a_long_story_the_events_tell_the_row():
    instance = workflows.start(Story, key="story")
    moves = [
        drain,
        lambda: workflows.signal(instance, "noise"),
        lambda: workflows.signal(instance, "a"),
        lambda: workflows.signal(instance, "b"),
        drain,
        lambda: workflows.signal(instance, "a"),
        lambda: advance("1m"),
        lambda: advance("2m"),
        lambda: advance("5m"),
        drain,
        lambda: workflows.signal("child-0", "end"),
        drain,
        lambda: workflows.signal_many([("child-1", "end", "badly"), ("child-2", "noise"), ("child-2", "end")]),
        drain,
        lambda: workflows.retry(instance),
        lambda: workflows.cancel(instance, "enough"),
    ]
    check_fold(instance)
    for move in moves:
        move()
        check_all_folds()
    assert Instance.objects.get(pk=instance.pk).status == "cancelled"
    assert {"started", "signalled", "parked", "retried", "woke", "advanced", "spawned", "child_ended"} <= {
        str(event.kind) for event in instance.events.all()
    }


@pytest.mark.django_db
def test_a_timeout_a_dead_worker_and_a_released_claim_are_told_too():
    instance = workflows.start(Story)
    drain()
    advance("1h")
    check_fold(instance)
    assert fold(instance.events.all()).timed_out
    advance("1m")
    claim = None
    while claim is None:
        advance("1m")
        instance.refresh_from_db()
        if instance.status == "runnable":
            claim = take_one()
        elif instance.status == "awaiting_children":
            break
    check_fold(instance)
    other = workflows.start(Story)
    dead = take_one()
    workflows.signal(other, "a")
    check_fold(other)
    forget(dead)
    assert store.reclaim(connections["default"]) == 1
    check_fold(other)
    released = take_one()
    store.release(connections["default"], [released])
    check_fold(other)
    assert settle(play(take_one()))
    check_fold(other)


@pytest.mark.django_db
def test_a_park_that_found_its_answer_still_tells_the_names_it_waited_for():
    instance = workflows.start(Story)
    workflows.signal(instance, "a")
    assert settle(play(take_one()))
    folded = fold(instance.events.all())
    assert (folded.status, folded.names, folded.due_at) == ("runnable", ["a", "b"], None)
    check_fold(instance)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["raises", "exits", "unknown step", "nonsense"])
def test_a_run_that_goes_wrong_is_told(how):
    class Wrong(Workflow):
        name = "fold.wrong"

        @step
        def only(self, ctx):
            if how == "raises":
                raise RuntimeError("broken")
            if how == "exits":
                raise SystemExit(1)
            return Next("nowhere") if how == "unknown step" else 5

    instance = workflows.start(Wrong)
    drain()
    check_fold(instance)
    advance("10m")
    check_fold(instance)
    assert fold(instance.events.all()).status == "failed"


@pytest.mark.django_db
def test_the_numbers_of_the_consumed_signals_can_be_folded():
    """Counts: which signals each outcome consumed, so that the inbox can be told from the events alone."""
    instance = workflows.start(Story)
    drain()
    workflows.signal(instance, "noise")
    workflows.signal(instance, "a")
    advance("10m")
    instance.refresh_from_db()
    assert instance.inbox == 1
    consumed = [n for event in instance.events.all() if str(event.kind) in CONSUMING for n in _numbers(event)]
    assert consumed == [signal.n for signal in instance.signals.all() if signal.consumed_at is not None]


def _numbers(event: LedgerEvent) -> list[int]:
    """The consumed signals as an event names them: a list, alone or beside other data."""
    data = event.data.get("consumed", []) if isinstance(event.data, dict) else event.data
    return data if isinstance(data, list) else []
