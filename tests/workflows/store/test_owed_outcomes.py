"""An outcome that meets a row which a caller holds waits by itself: no deadline, claim or outcome of another waits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED
from workflows import Await, Child, Done, Spawn, Workflow, durable, event, step
from workflows.models import Instance
from workflows.testing import assert_done

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

ran: Counter[str] = Counter()
#: Called by a step that is about to return its outcome: its row is held from here on.
hold: list[Callable[[Any], None]] = []


@pytest.fixture(autouse=True)
def _begin() -> None:
    ran.clear()
    hold.clear()


@contextmanager
def caller(what: Callable[[], None] | None = None) -> Iterator[Callable[[], None]]:
    """Takes the row of whoever asks, in a transaction of another connection, until it is told to end.

    Or, when the first one asks, what it is told to take.
    """
    ends, threads = threading.Event(), []

    def take(id: Any) -> None:
        begun = threading.Event()
        if what is not None and threads:
            return

        def keep() -> None:
            try:
                with transaction.atomic():
                    Instance.objects.select_for_update().get(pk=id) if what is None else what()
                    begun.set()
                    ends.wait(120)
            finally:
                connection.close()

        threads.append(threading.Thread(target=keep, daemon=True))
        threads[-1].start()
        assert begun.wait(60)

    hold.append(take)
    try:
        yield ends.set
    finally:
        hold.clear()
        ends.set()
        for one in threads:
            one.join(60)


def note(ctx: Any, kind: str) -> None:
    ran[kind] += 1
    for take in hold:
        take(ctx.id)


@durable(name="owed.child")
def child(ctx):
    return "child"


class Steps(Workflow):
    name = "owed.steps"

    @step
    def first(self, ctx):
        note(ctx, ctx.input)
        match ctx.input:
            case "spawn":
                return Spawn([Child(child, {})], then="last")
            case "taken":
                return Spawn([Child(child, {}, key="owed-key")], then="last")
            case "callback":
                return Await(ctx.callback("pay"), then="last", timeout="1h")
            case "event":
                return Await(event("owed.event"), then="last", timeout="1h")
        raise AssertionError(ctx.input)

    @step
    def last(self, ctx):
        return Done("last")

    def handle(self, error, ctx):
        return Done(type(error).__name__)


@durable(name="owed.invokes")
def invokes(ctx):
    note(ctx, "invoke") if not ran["invoke"] else None
    return ctx.invoke("child", child)


@durable(name="owed.asks")
def asks(ctx):
    note(ctx, "ask") if not ran["ask"] else None
    ctx.wait_for_signal("gate", timeout="1h")


@durable(name="owed.saves")
def saves(ctx):
    ctx.step("before", lambda: None)
    return ctx.step("work", lambda: note(ctx, "save"))


class Unrelated(Workflow):
    name = "owed.unrelated"

    @step
    def first(self, ctx):
        return Await("never", then="last", timeout="0.2s")

    @step
    def last(self, ctx):
        return Done(ctx.timed_out)


def reload(instance: Instance) -> Instance:
    return Instance.objects.get(pk=instance.pk)


KINDS = {
    "spawn": (Steps, "spawn"),
    "callback": (Steps, "callback"),
    "taken": (Steps, "taken"),
    "invoke": (invokes, {}),
    "ask": (asks, {}),
    "save": (saves, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_deadlines_claims_and_outcomes_of_others_go_on_while_a_caller_holds_the_row(kind):
    workflow, input = KINDS[kind]
    if kind == "taken":
        workflows.start(Unrelated, key="owed-key", run_at=in_an_hour())
    with caller() as let_go, pumping():
        instance = workflows.start(workflow, input)
        wait_until(lambda: ran[kind], "the step to run")
        other = workflows.start(Unrelated)
        wait_until(lambda: reload(other), "the other one", is_it=lambda one: one.ended)  # the row is held until then
        assert_done(other, True)
        assert reload(instance).status == "running"
        let_go()
        wait_until(
            lambda: reload(instance),
            "the outcome",
            is_it=lambda one: one.ended or (one.status == "awaiting" and kind in ("callback", "ask")),
        )
    assert ran[kind] == 1, "the step was over, and is not run again"
    if kind == "taken":
        assert_done(instance, "DuplicateKey")
    kinds = [str(one.kind) for one in instance.events.all()]
    assert not {"failed", "reclaimed", "run_failed"} & set(kinds)


@pytest.mark.parametrize("kind", ["spawn", "callback", "event"])
def test_as_many_as_a_caller_holds_at_once_keep_nobody_else_waiting(kind):
    """Each waited for in vain for a moment, and again each second, would take all of a worker's time."""
    many = workflows.start_many(Steps, [kind] * 300)
    rows = Instance.objects.filter(pk__in=[one.pk for one in many])

    def hold_all() -> None:
        if kind == "event":
            workflows.emit("owed.event")
        else:
            list(rows.select_for_update())

    with caller(hold_all) as let_go, pumping():
        wait_until(lambda: ran[kind], "the steps to run")
        for _ in range(3):
            other = workflows.start(Unrelated)
            wait_until(lambda: reload(other), "the other one", seconds=10.0, is_it=lambda one: one.ended)  # noqa: B023
            assert_done(other, True)
        let_go()
        left = rows.exclude(status="done" if kind != "callback" else "awaiting")
        wait_until(lambda: not left.exists(), "the outcomes")
    assert ran[kind] == 300, "no step is run again"


def in_an_hour() -> Any:
    from datetime import timedelta

    from django.utils import timezone

    return timezone.now() + timedelta(hours=1)
