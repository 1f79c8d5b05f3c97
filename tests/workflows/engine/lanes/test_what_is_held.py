"""What holds a slot or a token, and for how long: each outcome of a step, each wait, and what is begun twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connections, transaction

import workflows
from tests.support.races import COMMITTED, forget, play, settle
from workflows import (
    Await,
    Child,
    Concurrency,
    Done,
    Machine,
    Next,
    Rate,
    Retry,
    Spawn,
    Stop,
    Workflow,
    action,
    collect,
    event,
    expand,
    step,
    store,
    wait_for,
)
from workflows.api.flow_control import change_queue
from workflows.engine.lanes import flow_claims
from workflows.engine.lanes.flow_claims import FlowClaims
from workflows.models import Instance, TokenBucket
from workflows.testing import advance, assert_done, drain
from workflows.worker.claim_schedule import ClaimSchedule

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()


class HeldChild(Workflow):
    name = "what-held.child"
    queue = "held-children"

    @step
    def a(self, ctx):
        return Await("grown", then="b")

    @step
    def b(self, ctx):
        return Done()


#: What the first run of a step may come to; all of them leave the instance where it runs no more.
OUTCOMES = {
    "next": lambda: Next("b", delay="1h"),
    "await": lambda: Await("go", then="b"),
    "retry": lambda: Retry(delay="1h"),
    "spawn": lambda: Spawn([Child(HeldChild)], then="b"),
    "stop": lambda: Stop("enough"),
    "done": lambda: Done(),
    "raise": lambda: 1 / 0,
}
WAITS = ("next", "await", "retry", "spawn")


def act(ctx: Any) -> Any:
    ran.append(ctx.input["n"])
    return OUTCOMES[ctx.input["does"]]()


class HeldStep(Workflow):
    name = "what-held.step"
    concurrency = Concurrency("what-held.step", 1)

    @step
    def a(self, ctx):
        return act(ctx)

    @step
    def b(self, ctx):
        return Done()


class HeldWhole(HeldStep):
    name = "what-held.whole"
    concurrency = Concurrency("what-held.whole", 1, hold="instance")


@pytest.mark.django_db
@pytest.mark.parametrize("does", OUTCOMES)
def test_a_park_and_any_outcome_of_a_step_release_its_key(does: str) -> None:
    workflows.start(HeldStep, {"n": 1, "does": does})
    workflows.start(HeldStep, {"n": 2, "does": "done"})
    drain()
    assert ran == [1, 2]


@pytest.mark.django_db
@pytest.mark.parametrize("does", WAITS)
def test_a_key_held_for_an_instance_is_held_through_each_kind_of_wait(does: str) -> None:
    first = workflows.start(HeldWhole, {"n": 1, "does": does})
    workflows.start(HeldWhole, {"n": 2, "does": "done"})
    drain()
    assert ran == [1]
    workflows.cancel(first)
    drain()
    assert ran == [1, 2]


# --- tokens ----------------------------------------------------------------------------------------------------------


class HeldRated(Workflow):
    name = "what-held.rated"
    rate = Rate("held-rate", 2, per="10h")
    max_attempts = 5

    @step
    def a(self, ctx):
        ran.append(ctx.input["n"])
        return Retry(delay=0) if ctx.attempt == 0 else Done()


@pytest.mark.django_db
def test_a_run_that_is_tried_again_takes_tokens_again() -> None:
    one = workflows.start(HeldRated, {"n": 1})
    workflows.start(HeldRated, {"n": 2})
    drain()
    assert ran in ([1, 1], [1, 2])
    advance("10h")
    assert len(ran) == 4
    assert_done(one)


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_worker_that_dies_takes_the_tokens_of_what_it_had_begun_with_it() -> None:
    workflows.start_many(HeldRated, [{"n": 1}, {"n": 2}])
    db, flow = connections["default"], FlowClaims()
    flow.refresh(db)
    claims = flow.take(db, flow.look(db), 10, 60.0)
    assert len(claims) == 2
    forget(*claims)
    assert store.reclaim(db) == 2
    assert flow.take(db, flow.look(db), 10, 60.0) == []
    assert TokenBucket.objects.get().tokens < 1


# --- what the database holds, and how soon what is set is in force ---------------------------------------------------


def take_all(flow: FlowClaims | None = None) -> list[store.Claim]:
    db, flow = connections["default"], flow or FlowClaims()
    flow.refresh(db, patience=0.0)
    return flow.take(db, flow.look(db), 500, 60.0)


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_key_that_a_waiting_instance_holds_cannot_be_committed_for_another_whatever_a_claim_admits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workflows.start(HeldWhole, {"n": 1, "does": "await"})
    for claim in take_all():
        assert settle(play(claim))
    assert Instance.objects.get().status == "awaiting"
    workflows.start(HeldWhole, {"n": 2, "does": "done"})
    assert take_all() == []
    monkeypatch.setattr(flow_claims, "find_free", lambda taken, cap, count: list(range(1, min(cap, count) + 1)))
    monkeypatch.setattr(FlowClaims, "_is_open", lambda self, lane: True)
    monkeypatch.setattr(FlowClaims, "_find_room", lambda self, lane: 5)
    with pytest.raises(IntegrityError, match="holdpoint_slot"), transaction.atomic():
        take_all()
    assert not Instance.objects.filter(status="running").exists()


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_limited_queue_never_runs_more_than_its_limit_on_all_workers_together() -> None:
    change_queue("held-queue", limit=2)
    workflows.start_many(HeldQueue, [{}] * 10)
    first, second = take_all(), take_all()
    assert (len(first), len(second)) == (2, 0)
    assert settle(play(first[0]))
    assert len(take_all()) == 1


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_limit_of_the_default_queue_holds_what_uses_nothing_of_flow_control() -> None:
    change_queue("default", limit=2)
    workflows.start_many(HeldPlain, [{}] * 10)
    workers = [ClaimSchedule(), ClaimSchedule()]

    def take_turns() -> list[store.Claim]:
        return [claim for _ in range(3) for one in workers for claim in one.take(connections["default"])]

    claims = take_turns()
    assert len(claims) == 2
    assert settle(play(claims[0]))
    assert len(take_turns()) == 1


class HeldPlain(Workflow):
    name = "what-held.plain"

    @step
    def a(self, ctx):
        return Done()


SET: dict[str, Callable[[], Any]] = {
    "a workflow is paused": lambda: workflows.pause(HeldQueue),
    "a queue is paused": lambda: workflows.pause(queue="held-queue"),
    "a queue's limit": lambda: change_queue("held-queue", limit=1),
    "a queue's rate": lambda: change_queue("held-queue", rate="1/h"),
}


@COMMITTED
@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("what", SET)
def test_what_is_set_is_in_force_within_five_seconds_on_a_worker_that_is_never_idle(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule, db = ClaimSchedule(), connections["default"]
    schedule.learn(1, 1.0, unknown=0)  # one at a time
    workflows.start_many(HeldQueue, [{}] * 5)
    for claim in schedule.take(db):
        assert settle(play(claim))
    SET[what]()
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 4.9)
    begun = 0
    for _ in range(4):
        schedule.notified = True  # somebody waits for it, which makes a worker look at other things less often
        begun += len(schedule.take(db))
    assert begun == (1 if what in ("a queue's limit", "a queue's rate") else 0)


# --- pauses ----------------------------------------------------------------------------------------------------------


class HeldPaused(Workflow):
    name = "what-held.paused"

    @step
    def a(self, ctx):
        waits = {
            "signal": lambda: Await("go", then="b"),
            "answer": lambda: Await(ctx.callback("partner"), then="b"),
            "deadline": lambda: Await("never", then="b", timeout="1h"),
            "event": lambda: Await(event("what-held.came"), then="b"),
            "child": lambda: Spawn([Child(HeldChild)], then="b"),
            "delay": lambda: Next("b", delay="1h"),
        }
        return waits[ctx.input["for"]]()

    @step
    def b(self, ctx):
        ran.append(ctx.input["for"])
        return Done(ctx.timed_out)


def come(what: str, one: Instance) -> None:
    match what:
        case "signal":
            assert workflows.signal(one, "go").woke
        case "answer":
            workflows.complete(one.interactions.get(), {"yes": True})
        case "event":
            assert workflows.emit("what-held.came") == 1
        case "child":
            workflows.signal(one.children.get(), "grown")
        case _:
            advance("1h")


@pytest.mark.django_db
@pytest.mark.parametrize("paused", ["workflow", "queue", "default"])
@pytest.mark.parametrize("what", ["signal", "answer", "deadline", "event", "child", "delay"])
def test_what_comes_for_a_paused_one_is_accepted_and_waits(what: str, paused: str) -> None:
    one = workflows.start(HeldPaused, {"for": what}, queue="held-queue" if paused == "queue" else None)
    drain()
    pause = {"workflow": {"workflow": HeldPaused}, "queue": {"queue": "held-queue"}, "default": {"queue": "default"}}
    workflows.pause(**pause[paused])
    come(what, one)
    drain()
    one.refresh_from_db()
    assert (str(one.status), one.step, ran) == ("runnable", "b", [])
    workflows.unpause(**pause[paused])
    drain()
    assert ran == [what]
    assert_done(one, what == "deadline")


class HeldLines(Machine):
    name = "what-held.lines"

    names = expand(lambda ctx: [1, 2])
    asked = wait_for(channel="desk", each=True)
    use = action(lambda ctx: ran.append(ctx.item))
    total = collect(lambda ctx: len(ctx.items))


@pytest.mark.django_db
def test_the_lines_of_a_paused_workflows_items_wait_too() -> None:
    one = workflows.start(HeldLines)
    drain()
    workflows.pause(HeldLines)
    for asked in one.interactions.all():
        workflows.complete(asked, "yes")
    drain()
    assert ran == []
    workflows.unpause(HeldLines)
    drain()
    assert sorted(ran) == [1, 2]
    assert_done(one, 2)


class HeldQueue(Workflow):
    """Makes the queue known."""

    name = "what-held.queue"
    queue = "held-queue"

    @step
    def a(self, ctx):
        return Done()
