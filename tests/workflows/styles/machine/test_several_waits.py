"""Machines that wait for several questions at once: `wait_for(any_of={…})` and `wait_for(all_of={…})`."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections

import workflows
from tests.support.races import forget, play, settle, take
from workflows import (
    InvalidDefinition,
    Machine,
    action,
    callback,
    child,
    durable,
    event,
    expand,
    flow,
    parallel,
    question,
    received,
    sleep,
    store,
    wait_for,
)
from workflows.models import Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@dataclass
class Payment:
    amount: int


@durable(name="several.machine.pack")
def pack(ctx: Any, box: int) -> Any:
    if box < 0:
        raise ValueError("no such box")
    return {"packed": box}


def run(machine: Any, input: Any = None, **options: Any) -> Instance:
    one = workflows.start(machine, {} if input is None else input, **options)
    drain()
    one.refresh_from_db()
    return one


def pending(step: str) -> Interaction:
    return Interaction.objects.get(status="pending", unit__step=step)


class Gate(Machine):
    name = "several.machine.gate"
    before = action(lambda ctx: {"about": ctx.input.get("about", "it")})
    gate = wait_for(
        any_of={
            "ok": lambda ctx: question("chat", input={"about": ctx.steps.before.about}),
            "paid": question("api", schema=Payment),
            "stopped": "stop",
            "came": event("came", {"n": 1}),
        },
        timeout="1d",
        on_timeout="late",
    )
    last = action(lambda ctx: [ctx.steps.gate.paid.amount if "paid" in ctx.steps.gate else dict(ctx.steps.gate)])
    late = flow(action(lambda ctx: "late"))


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (lambda one: workflows.complete(pending("gate.ok"), "yes"), [{"ok": "yes"}]),
        (lambda one: workflows.complete(pending("gate.paid"), {"amount": 5}), [5]),
        (lambda one: workflows.signal(one, "stop", "please"), [{"stopped": "please"}]),
        (lambda one: workflows.emit("came", {"n": 1}), [{"came": {"n": 1}}]),
    ],
)
def test_the_stage_is_left_with_the_first_answer_and_the_others_are_withdrawn(answer: Any, result: Any) -> None:
    one = run(Gate, {"about": "the order"})
    assert pending("gate.ok").request == {"about": "the order"}
    answer(one)
    drain()
    assert_done(one, result)
    assert not Interaction.objects.filter(status="pending").exists()


def test_the_time_of_the_stage_runs_its_flow_and_withdraws_all() -> None:
    one = run(Gate)
    advance("1d")
    assert_done(one, "late")
    assert not Interaction.objects.filter(status="pending").exists()


class Slow(Machine):
    name = "several.machine.slow"
    nap = sleep("1d")


class All(Machine):
    name = "several.machine.all"
    gate = wait_for(
        all_of={
            "ok": question("chat"),
            "partner": callback(),
            "plain": received("x", "y"),
            "packed": child(pack, {"box": 1}),
            "late": sleep("1h"),
        },
        timeout="2d",
    )
    last = action(lambda ctx: dict(ctx.steps.gate))


def test_all_of_waits_for_each_of_them() -> None:
    one = run(All)
    workflows.signal(one, "y", 1)
    workflows.complete(pending("gate.partner"), "p")
    advance("2h")
    assert_awaiting(one)
    workflows.complete(pending("gate.ok"), "yes")
    drain()
    assert_done(one, {"ok": "yes", "partner": "p", "plain": 1, "packed": {"packed": 1}, "late": None})


def test_a_retry_after_the_time_was_over_keeps_the_answers_and_asks_the_rest_anew() -> None:
    one = run(All)
    workflows.complete(pending("gate.partner"), "p")
    advance("3d")
    assert_failed(one, "stage 'gate' had no answer within its timeout of 2d")
    workflows.retry(one)
    drain()
    assert_awaiting(one)
    workflows.complete(pending("gate.ok"), "yes")
    workflows.signal(one, "x", 2)
    drain()
    assert_done(one, {"ok": "yes", "partner": "p", "plain": 2, "packed": {"packed": 1}, "late": None})
    assert Interaction.objects.filter(unit__step="gate.partner").count() == 1


def test_what_failed_fails_the_stage_and_a_retry_asks_it_anew() -> None:
    class Broken(Machine):
        gate = wait_for(any_of={"ok": question("chat"), "partner": callback()})

    one = run(Broken)
    workflows.fail(pending("gate.partner"), "the partner is gone")
    drain()
    assert_failed(one, "the partner is gone")
    workflows.retry(one)
    drain()
    assert_awaiting(one)
    workflows.complete(pending("gate.partner"), "back")
    drain()
    assert_done(one, {"partner": "back"})


def test_a_branch_of_parallel_waits_for_several_signals_included() -> None:
    class Branched(Machine):
        both = parallel(
            a=[
                wait_for(any_of={"paid": "paid", "ok": question("chat")}),
                action(lambda ctx: sorted(ctx.steps["both.a.0"])),
            ],
            b=wait_for(all_of={"x": "x", "paid": "paid"}),
        )

    one = run(Branched)
    workflows.signal(one, "paid", 5)
    drain()
    workflows.signal(one, "x", 6)
    drain()
    assert_done(one, {"a": ["paid"], "b": {"x": 6, "paid": 5}})
    assert str(Interaction.objects.get(unit__step="both.a.0.ok").status) == "cancelled"


def test_several_waits_are_written_with_the_same_words_in_yaml() -> None:
    machine = Machine.from_yaml(
        """
name: several.yaml
stages:
  - gate:
      wait for:
        any_of:
          ok: {channel: chat, input: {text: "May we?"}, schema: {agreed: bool}}
          partner: {callback: true}
          paid: {signal: paid}
          came: {event: came, match: {n: 1}}
          packed: {child: several.machine.slow}
          late: {sleep: 3h}
        timeout: 1d
  - all:
      wait_for: {all_of: {made: !function make, x: {signal: [x, y]}}}
""",
        functions={"make": lambda ctx: question("chat", input=sorted(ctx.steps.gate))},
    )
    one = run(machine)
    assert pending("gate.ok").request == {"text": "May we?"}
    workflows.signal(one, "paid", 1)
    drain()
    asked = pending("all.made")
    assert asked.request == ["paid"]
    workflows.complete(asked, 1)
    workflows.signal(one, "y", 2)
    drain()
    assert_done(one, {"made": 1, "x": 2})


def define(**members: Any) -> type[Machine]:
    return type("SeveralDefined", (Machine,), members)


WRONG: dict[str, tuple[Any, str]] = {
    "nothing": (lambda: {"wrong": wait_for(any_of={})}, "stage 'wrong': any_of needs at least one question"),
    "an unknown kind": (lambda: {"wrong": wait_for(all_of={"a": 7})}, "'a' is about 7"),
    "no ids": (lambda: {"wrong": wait_for(any_of=["a"])}, "takes questions by their ids"),
    "a word of ours": (lambda: {"wrong": wait_for(any_of={"END": "x"})}, "'END' cannot be an id in any_of"),
    "an underscore": (lambda: {"wrong": wait_for(any_of={"_a": "x"})}, "'_a' cannot be an id"),
    "both": (lambda: {"wrong": wait_for(any_of={"a": "x"}, all_of={"a": "x"})}, "any_of= and all_of=: leave one"),
    "a schema beside": (
        lambda: {"wrong": wait_for(any_of={"a": "x"}, schema=int)},
        "schema= does not stand beside",
    ),
    "a channel beside": (
        lambda: {"wrong": wait_for(all_of={"a": "x"}, channel="api")},
        "channel= does not stand",
    ),
    "a flow that never runs": (
        lambda: {"wrong": wait_for(any_of={"a": "x"}, on_timeout="side"), "side": flow(action(lambda ctx: 1))},
        "can never happen without a timeout",
    ),
    "signals in a stream": (
        lambda: {"a": expand(lambda ctx: []), "wrong": wait_for(any_of={"a": "x", "b": question("api")})},
        "a signal is addressed to the machine's instance",
    ),
    "a function of too much": (lambda: {"wrong": wait_for(any_of={"a": lambda a, b: a})}, "is called with ctx alone"),
}


@pytest.mark.parametrize("case", WRONG)
def test_several_waits_that_cannot_be_are_refused_when_the_class_is_made(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(InvalidDefinition, match=message):
        define(**make())


def test_a_function_may_not_make_a_wait_for_a_signal() -> None:
    class Hidden(Machine):
        max_attempts = 1
        gate = wait_for(any_of={"a": lambda ctx: received("x"), "b": question("chat")})

    assert_failed(run(Hidden), "which signals a machine reads has to be known beforehand")


def test_a_crash_before_every_commit_asks_nothing_twice() -> None:
    one = workflows.start(All)
    died = set[str]()

    def run_dying() -> None:
        while claims := take():
            [claim] = claims
            result = play(claim)
            if claim.id in died:
                died.remove(claim.id)
                settle(result)
            else:
                died.add(claim.id)
                forget(claim)
                store.reclaim(connections["default"])

    run_dying()
    workflows.complete(pending("gate.partner"), "p")
    run_dying()
    workflows.signal(one, "y", 1)
    run_dying()
    advance("2h")
    workflows.complete(pending("gate.ok"), "yes")
    run_dying()
    drain()
    assert_done(one, {"ok": "yes", "partner": "p", "plain": 1, "packed": {"packed": 1}, "late": None})
    assert Interaction.objects.count() == 2
    assert Instance.objects.filter(parent=one).count() == 1
