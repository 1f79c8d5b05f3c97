"""Queues, priorities, limits and rates, as an author sees them: everything through `drain()`."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from workflows import (
    Await,
    Child,
    Concurrency,
    Done,
    InvalidInput,
    InvalidOutcome,
    Machine,
    Next,
    Rate,
    Spawn,
    Stop,
    UnknownQueue,
    Workflow,
    action,
    durable,
    step,
)
from workflows.api.flow_control import change_limit, change_queue, find_queue
from workflows.engine.lanes import flow_claims
from workflows.models import Instance, TokenBucket
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

ran: list[Any] = []


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()


class FlowPlain(Workflow):
    name = "flow.plain"

    @step
    def a(self, ctx):
        ran.append(ctx.input.get("n"))
        return Done()


class FlowMail(Workflow):
    name = "flow.mail"
    queue = "flow-mail"

    @step
    def a(self, ctx):
        ran.append(ctx.input.get("n"))
        return Done()


class FlowSingle(Workflow):
    name = "flow.single"
    concurrency = Concurrency("single:{tenant}", 1, hold="instance")

    @step
    def a(self, ctx):
        ran.append(ctx.input["n"])
        return Await("go", then="b")

    @step
    def b(self, ctx):
        if ctx.awaited and ctx.awaited[0].payload == "fail":
            return Stop("so it was wanted")
        return Done()


class FlowStep(Workflow):
    name = "flow.step"
    concurrency = Concurrency("step:{tenant}", 1)

    @step
    def a(self, ctx):
        ran.append(ctx.input["n"])
        return Await("go", then="b")

    @step
    def b(self, ctx):
        return Done()


class FlowRated(Workflow):
    name = "flow.rated"
    rate = Rate("flow-rate", 2, per="1m")

    @step
    def a(self, ctx):
        ran.append(ctx.input["n"])
        return Done()


class FlowMoving(Workflow):
    name = "flow.moving"
    concurrency = Concurrency("moving:{tenant}", 3)

    @step
    def a(self, ctx):
        return Next("b", **ctx.input["to"])

    @step
    def b(self, ctx):
        return Done()


def read(instance: Instance) -> Instance:
    instance.refresh_from_db()
    return instance


# --- queues and priorities -------------------------------------------------------------------------------------------


def test_a_workflow_a_start_and_a_child_name_a_queue() -> None:
    assert workflows.start(FlowMail).queue == "flow-mail"
    assert workflows.start(FlowPlain, queue="flow-mail").queue == "flow-mail"
    assert [one.queue for one in workflows.start_many(FlowPlain, [{}, {}], queue="flow-mail")] == ["flow-mail"] * 2

    @durable(name="flow.options", queue="flow-mail", priority=3)
    def fn(ctx):
        return 1

    started = fn.start()
    assert (started.queue, started.priority) == ("flow-mail", 3)
    started = fn.options(queue="default", priority=-3).start()
    assert (started.queue, started.priority) == ("default", -3)
    drain()
    assert_done(started, 1)


def test_a_child_inherits_nothing_and_may_be_given_a_queue_and_a_priority() -> None:
    class Parent(Workflow):
        name = "flow.parent"
        queue = "flow-mail"

        @step
        def a(self, ctx):
            return Spawn([Child(FlowPlain), Child(FlowPlain, queue="flow-mail", priority=7)], then="b")

        @step
        def b(self, ctx):
            return Done()

    parent = workflows.start(Parent)
    drain()
    assert_done(parent)
    assert {(one.queue, one.priority) for one in parent.children.all()} == {(None, None), ("flow-mail", 7)}


def test_drain_goes_on_with_what_comes_to_lanes_however_long_it_takes_to_read_what_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class PatientParent(Workflow):
        name = "flow.patient-parent"
        queue = "flow-mail"

        @step
        def a(self, ctx):
            return Spawn([Child(FlowPlain)], then="b")

        @step
        def b(self, ctx):
            return Done()

    monkeypatch.setattr(flow_claims, "REST", 1e9)
    parent = workflows.start(PatientParent)
    drain()
    assert_done(parent)


def test_a_plain_instance_has_nothing_of_it_in_its_row() -> None:
    plain = workflows.start(FlowPlain, queue="default", priority=0)
    columns = ("queue", "priority", "lane", "flow_key", "gate", "rate_key", "fair_key", "holds", "slot", "queue_slot")
    drain()
    assert [getattr(read(plain), one) for one in columns] == [None] * len(columns)


def test_an_unknown_queue_is_refused_where_it_is_named() -> None:
    for call in (
        lambda: workflows.start(FlowPlain, queue="flow-nowhere"),
        lambda: workflows.start_many(FlowPlain, [{}], queue="flow-nowhere"),
        lambda: workflows.pause(queue="flow-nowhere"),
        lambda: change_queue("flow-nowhere", limit=1),
        lambda: drain(queues=["flow-nowhere"]),
    ):
        with pytest.raises(UnknownQueue, match="flow-mail"):
            call()
    assert not Instance.objects.exists()


def test_the_higher_priority_comes_first_and_age_decides_between_equals() -> None:
    for n, priority in enumerate([0, 5, None, -5, 5, 100]):
        workflows.start(FlowPlain, {"n": n}, priority=priority)
    drain()
    assert ran == [5, 1, 4, 0, 2, 3]


def test_drain_serves_the_queues_that_it_is_told() -> None:
    workflows.start(FlowPlain, {"n": "plain"})
    workflows.start(FlowMail, {"n": "mail"})
    drain(queues=["flow-mail"])
    assert ran == ["mail"]
    drain(queues=["default"])
    assert ran == ["mail", "plain"]


def test_next_changes_queue_priority_and_key_of_what_follows() -> None:
    moved = workflows.start(FlowMoving, {"tenant": 1, "to": {"queue": "flow-mail", "priority": 4, "key": "other"}})
    drain(queues=["default"])
    found = read(moved)
    assert (found.step, found.queue, found.priority, found.flow_key) == ("b", "flow-mail", 4, "other")
    drain()
    assert_done(moved)
    back = workflows.start(FlowPlain, {"tenant": 1}, priority=4)
    drain()
    assert_done(back)


def test_next_back_to_the_default_makes_a_plain_instance_of_it() -> None:
    class Back(Workflow):
        name = "flow.back"

        @step
        def a(self, ctx):
            return Next("b", queue="default", priority=0)

        @step
        def b(self, ctx):
            return Await("go", then="b")

    back = workflows.start(Back, queue="flow-mail", priority=4)
    drain()
    assert_awaiting(back, "go")
    assert (read(back).queue, back.priority, back.lane) == (None, None, None)


def test_a_changed_key_gives_up_the_slot_of_the_old_one_and_waits_for_the_new_one() -> None:
    class Changing(Workflow):
        name = "flow.changing"
        concurrency = Concurrency("changing:{tenant}", 1, hold="instance")

        @step
        def a(self, ctx):
            ran.append(ctx.input["n"])
            return Next("b", key="changing:new") if ctx.input["n"] < 2 else Next("b", priority=3)

        @step
        def b(self, ctx):
            ran.append(ctx.key)
            return Await("go", then="c")

        @step
        def c(self, ctx):
            return Done()

    first, second, third = (workflows.start(Changing, {"tenant": "a", "n": n}, key=f"k{n}") for n in range(3))
    drain()
    assert sorted(map(str, ran)) == ["0", "1", "2", "k0", "k2"]
    assert read(second).status == "runnable"
    assert (read(third).flow_key, third.priority) == ("changing:a", 3)
    workflows.signal(first, "go")
    drain()
    assert_awaiting(second, "go")
    assert_awaiting(third, "go")


def test_next_refuses_a_queue_that_is_unknown_and_a_key_without_a_limit() -> None:
    class Keyless(Workflow):
        name = "flow.keyless"

        @step
        def a(self, ctx):
            return Next("a", **ctx.input)

    for to, message in (({"queue": "flow-nowhere"}, "there is no queue 'flow-nowhere'"), ({"key": "k"}, "has none")):
        one = workflows.start(Keyless, to)
        drain()
        assert_failed(one, message)
    with pytest.raises(workflows.InvalidCall, match="from -100 to 100"):
        Next("a", priority=101)
    assert issubclass(InvalidOutcome, workflows.InvalidCall)


# --- concurrency -----------------------------------------------------------------------------------------------------


def test_a_key_held_for_an_instance_is_a_singleton_from_the_first_run_to_the_end() -> None:
    first, second, other = (workflows.start(FlowSingle, {"tenant": t, "n": n}) for n, t in enumerate("aab"))
    drain()
    assert ran == [0, 2]
    assert_awaiting(first, "go")
    assert read(second).status == "runnable"
    workflows.signal(first, "go")
    drain()
    assert_done(first)
    assert ran == [0, 2, 1]
    assert_awaiting(second, "go")
    assert_awaiting(other, "go")


@pytest.mark.parametrize("end", ["fail", "cancel"])
def test_a_held_key_is_free_after_any_end(end: str) -> None:
    first, second = (workflows.start(FlowSingle, {"tenant": "a", "n": n}) for n in range(2))
    drain()
    if end == "fail":
        workflows.signal(first, "go", "fail")
    else:
        workflows.cancel(first)
    drain()
    assert_awaiting(second, "go")
    assert ran == [0, 1]


def test_a_retried_instance_waits_for_its_key_again() -> None:
    first, second = (workflows.start(FlowSingle, {"tenant": "a", "n": n}) for n in range(2))
    drain()
    workflows.signal(first, "go", "fail")
    drain()
    workflows.retry(first)
    drain()
    assert read(first).status == "runnable"
    workflows.signal(second, "go")
    drain()
    assert_failed(first)


def test_a_key_held_for_a_step_is_free_while_the_instance_is_parked() -> None:
    first, second = (workflows.start(FlowStep, {"tenant": "a", "n": n}) for n in range(2))
    drain()
    assert ran == [0, 1]
    assert_awaiting(first, "go")
    assert_awaiting(second, "go")
    assert read(first).flow_key == "step:a"


def test_the_key_is_a_template_or_a_function_of_the_input() -> None:
    class ByFunction(Workflow):
        name = "flow.function"
        concurrency = Concurrency(lambda input: None if input["free"] else f"fn:{input['n']}", 1)

        @step
        def a(self, ctx):
            return Done()

    assert workflows.start(ByFunction, {"free": False, "n": 3}).flow_key == "fn:3"
    assert workflows.start(ByFunction, {"free": True}).lane is None
    with pytest.raises(InvalidInput, match="KeyError"):
        workflows.start(ByFunction, {})
    with pytest.raises(InvalidInput, match="tenant: is missing"):
        workflows.start(FlowSingle, {"n": 1})
    with pytest.raises(InvalidInput, match="must be text or a number"):
        workflows.start(FlowSingle, {"tenant": None, "n": 1})


def test_a_limit_is_raised_for_one_key_and_for_all_at_run_time() -> None:
    for n, tenant in enumerate("aaabbb"):
        workflows.start(FlowSingle, {"tenant": tenant, "n": n})
    change_limit("concurrency", "single:{tenant}", 2)
    drain()
    assert sorted(ran) == [0, 1, 3, 4]
    change_limit("concurrency", "single:b", 3)
    drain()
    assert sorted(ran) == [0, 1, 3, 4, 5]
    assert change_limit("concurrency", "single:b", None).limit == 2


def test_a_lowered_limit_lets_nothing_in_before_enough_has_ended() -> None:
    change_limit("concurrency", "single:a", 3)
    held = [workflows.start(FlowSingle, {"tenant": "a", "n": n}) for n in range(4)]
    drain()
    change_limit("concurrency", "single:a", 1)
    for one in held[:2]:
        workflows.signal(one, "go")
        drain()
    assert ran == [0, 1, 2]
    workflows.signal(held[2], "go")
    drain()
    assert ran == [0, 1, 2, 3]


# --- rates -----------------------------------------------------------------------------------------------------------


def test_a_rate_lets_its_burst_through_and_then_as_many_as_flow_in() -> None:
    workflows.start_many(FlowRated, [{"n": n} for n in range(5)])
    drain()
    assert ran == [0, 1]
    advance("29s")
    assert ran == [0, 1]
    advance("2s")
    assert ran == [0, 1, 2]
    advance("1m")
    assert ran == [0, 1, 2, 3, 4]


def test_a_rate_is_changed_at_run_time() -> None:
    workflows.start_many(FlowRated, [{"n": n} for n in range(5)])
    change_limit("rate", "flow-rate", "4/m")
    drain()
    assert ran == [0, 1, 2, 3]


def test_each_key_of_a_rate_has_a_bucket_and_a_weight_takes_more() -> None:
    class Weighted(Workflow):
        name = "flow.weighted"
        rate = Rate("flow-weighted", 10, per="1h", key="{tenant}", weight=5)

        @step
        def a(self, ctx):
            ran.append(ctx.input["n"])
            return Done()

    for n, tenant in enumerate("aaab"):
        workflows.start(Weighted, {"tenant": tenant, "n": n})
    drain()
    assert sorted(ran) == [0, 1, 3]
    left = {one.key: round(one.tokens) for one in TokenBucket.objects.all()}
    assert left == {"a": 0, "b": 5}


def test_a_queue_has_a_rate_and_a_limit() -> None:
    change_queue("flow-mail", rate={"count": 1, "per": "1h", "burst": 2}, limit=1)
    workflows.start_many(FlowMail, [{"n": n} for n in range(4)])
    drain()
    assert ran == [0, 1]
    assert find_queue("flow-mail").waiting == 2
    change_queue("flow-mail", rate=None)
    drain()
    assert ran == [0, 1, 2, 3]


# --- pause -----------------------------------------------------------------------------------------------------------


def test_of_a_paused_queue_nothing_is_claimed_and_signals_and_deadlines_wait() -> None:
    first, second = (workflows.start(FlowSingle, {"tenant": n, "n": n}, queue="flow-mail") for n in range(2))
    drain()
    workflows.pause(queue="flow-mail")
    workflows.signal(first, "go")
    third = workflows.start(FlowMail, {"n": 3})
    drain()
    assert read(first).status == "runnable"
    assert read(third).status == "runnable"
    assert_awaiting(second, "go")
    workflows.unpause(queue="flow-mail")
    drain()
    assert_done(first)
    assert_done(third)


@pytest.mark.parametrize("what", ["workflow", "queue"])
def test_plain_instances_are_paused_too_and_others_go_on(what: str) -> None:
    name, other = (FlowPlain, FlowMail) if what == "queue" else (FlowPlain, FlowStep)
    workflows.start_many(name, [{"n": n} for n in range(3)])
    pause = {"queue": "default"} if what == "queue" else {"workflow": name}
    workflows.pause(**pause)
    done = workflows.start(other, {"n": 9, "tenant": 1}, queue="flow-mail")
    drain()
    assert ran == [9]
    assert read(done).status != "runnable"
    workflows.unpause(**pause)
    drain()
    assert ran == [9, 0, 1, 2]


def test_a_paused_machine_and_a_function_go_on_where_they_were() -> None:
    class Paused(Machine):
        name = "flow.machine"
        priority = 2
        concurrency = Concurrency("machine", 1)
        first = action(lambda ctx: {"ok": True})

    one = workflows.start(Paused)
    workflows.pause(Paused)
    drain()
    assert read(one).status == "runnable"
    workflows.unpause("flow.machine")
    drain()
    assert_done(one, {"ok": True})


# --- what plain workflows pay ----------------------------------------------------------------------------------------


def test_a_plain_start_writes_no_column_of_flow_control() -> None:
    with CaptureQueriesContext(connection) as captured:
        workflows.start(FlowPlain)
    assert len(captured) == 1
    assert "lane" not in captured[0]["sql"]
