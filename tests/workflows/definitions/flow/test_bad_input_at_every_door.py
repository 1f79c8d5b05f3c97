"""What could never run is an error at every door by which it can be written, and says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import (
    Child,
    Concurrency,
    Done,
    InvalidDefinition,
    InvalidInput,
    Machine,
    Rate,
    Spawn,
    UnknownQueue,
    Workflow,
    action,
    child,
    durable,
    step,
)
from workflows.api.flow_control import change_limit
from workflows.models import Instance, Limit, Queue, Schedule
from workflows.testing import assert_failed, drain

pytestmark = pytest.mark.django_db

YAML = """
name: doors.yaml
{option}
stages: [{{only: {{sleep: 1s}}}}]
"""


class DoorKeyed(Workflow):
    name = "doors.keyed"
    concurrency = Concurrency("doors:{tenant}", 5)
    rate = Rate("doors-rate", 100, per="1m", weight=10)

    @step
    def a(self, ctx: Any) -> Done:
        return Done()


class DoorChild(Workflow):
    """Starts the child that its input describes."""

    name = "doors.child"

    @step
    def a(self, ctx: Any) -> Spawn:
        return Spawn([Child(DoorKeyed, ctx.input["input"], queue=ctx.input.get("queue"))], then="b")

    @step
    def b(self, ctx: Any) -> Done:
        return Done()


@durable(name="doors.asks", max_attempts=1)
def ask_child(ctx: Any, input: Any, queue: str | None = None) -> None:
    ctx.ask("kid", child(DoorKeyed, input, queue=queue)).result()


# --- an unknown queue --------------------------------------------------------------------------------


@pytest.mark.parametrize("parent", ["doors.child", "doors.asks"])
def test_a_child_in_an_unknown_queue_fails_its_parent_with_the_queues_there_are(parent: str) -> None:
    one = workflows.start(parent, {"input": {"tenant": 1}, "queue": "nowhere"})
    drain()
    assert_failed(one, "there is no queue 'nowhere' (there are: ")
    assert not Instance.objects.filter(workflow="doors.keyed").exists()


def test_an_unknown_queue_is_refused_by_options_rest_and_the_worker() -> None:
    with pytest.raises(UnknownQueue, match=r"there are: .*default"):
        ask_child.options(queue="nowhere").start(input={})
    problem(Api(make_key()).patch("/v1/queues/nowhere", {"paused": True}), 404, "not-found")
    with pytest.raises(CommandError, match=r"there is no queue 'nowhere' .*Name it in a workflow"):
        call_command("workflow_worker", queues=["nowhere"])
    assert not Queue.objects.exists()


# --- limits and weights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("concurrency: {key: k, limit: 0}", "line 3: concurrency: the limit of a Concurrency must be a whole number"),
        ("rate: {name: doors-y, count: 5, per: 1m, weight: 6}", "line 3: rate: weight 6 .* above its burst of 5"),
        ("cron: 0 0 30 2 *", "never fires"),
        ("accepts: {order: int}\nfair_by: '{customer}'", "fair_by= names the field 'customer'.*it has order"),
        ("queue: a b", "is no name of a queue"),
        ("priority: 500", "from -100 to 100"),
    ],
)
def test_a_yaml_machine_is_refused_with_the_line(option: str, message: str) -> None:
    with pytest.raises(InvalidDefinition, match=message):
        Machine.from_yaml(YAML.format(option=option))


def test_a_limit_of_0_and_a_burst_below_a_weight_are_refused_by_the_command() -> None:
    for arguments, message in (
        (["--concurrency", "doors:7", "0"], "from 1 to"),
        (["--rate", "doors-rate", "9/m"], "a burst of at least 10"),
    ):
        with pytest.raises(CommandError, match=message):
            call_command("workflows", "limit", *arguments)
    assert not Limit.objects.exists()


def test_a_limit_of_0_is_refused_by_rest_for_a_key_too() -> None:
    told = problem(Api(make_key()).patch("/v1/limits/concurrency/doors:7", {"limit": 0}), 400, "invalid-request")
    assert "greater than or equal to 1" in told["errors"]["limit"][0]
    assert not Limit.objects.exists()
    assert change_limit("concurrency", "doors:7", 1).limit == 1


# --- a key of a field that is not there ---------------------------------------------------------------


START: dict[str, Callable[[], Any]] = {
    "start": lambda: workflows.start(DoorKeyed),
    "start_many": lambda: workflows.start_many(DoorKeyed, [{"tenant": 1}, {}]),
    "signal": lambda: workflows.signal("k", "go", start=DoorKeyed),
    "schedule": lambda: workflows.schedule("doors", DoorKeyed, every="1h"),
    "fork": lambda: workflows.fork(workflows.start(DoorKeyed, {"tenant": 1}), input={"order": 1}),
}


@pytest.mark.parametrize("door", START)
def test_an_input_without_the_field_of_a_key_is_refused_and_named(door: str) -> None:
    with pytest.raises(InvalidInput, match="tenant: is missing, and the key of its Concurrency is made of it"):
        START[door]()
    assert Instance.objects.count() == (door == "fork")
    assert not Schedule.objects.exists()


def test_an_input_without_the_field_of_a_key_is_refused_over_rest_and_names_it() -> None:
    api = Api(make_key())
    told = problem(api.post("/v1/instances", {"workflow": "doors.keyed", "input": {}}), 422, "invalid-input")
    assert "is missing" in told["errors"]["tenant"][0]
    problem(
        api.post("/v1/schedules", {"name": "doors", "workflow": "doors.keyed", "every": "1h"}), 422, "invalid-input"
    )
    assert not Instance.objects.exists()


@pytest.mark.parametrize("parent", ["doors.child", "doors.asks"])
def test_a_child_without_the_field_of_a_key_fails_its_parent_and_names_it(parent: str) -> None:
    one = workflows.start(parent, {"input": {}})
    drain()
    assert_failed(one, "tenant: is missing")


@pytest.mark.parametrize("style", ["function", "steps", "machine"])
def test_a_declared_schedule_whose_key_its_empty_input_cannot_make_is_refused(style: str) -> None:
    options: dict[str, Any] = {"every": "1h", "concurrency": Concurrency("doors-tick:{tenant}", 1)}
    make: dict[str, Callable[[], Any]] = {
        "function": lambda: durable(name="doors.tick", **options)(lambda ctx, tenant="a": None),
        "steps": lambda: type("DoorTick", (Workflow,), {"a": step(lambda self, ctx: Done()), **options}),
        "machine": lambda: type("DoorTick", (Machine,), {"a": action(lambda ctx: 1), **options}),
    }
    with pytest.raises(InvalidDefinition, match=r"starts it with \{\}, and .*tenant: is missing"):
        make[style]()


# --- a fork at a point that is not there ----------------------------------------------------------------


def test_a_fork_at_a_point_that_is_not_there_is_refused_by_the_command_with_those_there_are() -> None:
    one = workflows.start(DoorKeyed, {"tenant": 1})
    drain()
    with pytest.raises(CommandError, match="there are: 'a'"):
        call_command("workflows", "fork", str(one.pk), "--at", "b")
    assert Instance.objects.count() == 1
