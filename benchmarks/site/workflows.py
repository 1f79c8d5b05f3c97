"""Workflows whose own code costs nothing, so that what is measured is the engine."""

from typing import Any

from approvals import Approval
from workflows import (
    Await,
    Concurrency,
    Done,
    FunctionContext,
    Next,
    Rate,
    StepContext,
    Workflow,
    durable,
    step,
)

SIGNAL = "go"


class Wait(Workflow):
    """Wait for one signal, then end."""

    @step
    def ask(self, ctx: StepContext) -> Await:
        return Await(SIGNAL, then="end")

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Expire(Workflow):
    """The same with a far deadline, so that the sweep has an index to look into."""

    @step
    def ask(self, ctx: StepContext) -> Await:
        return Await(SIGNAL, then="end", timeout="30d")

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Noop(Workflow):
    """One step of no length."""

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Keyed(Workflow):
    """One step of no length, of which a tenant may run ten at once."""

    concurrency = Concurrency("tenant:{tenant}", 10)

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Rated(Workflow):
    """One step of no length, at a rate that never binds."""

    rate = Rate("plenty", 100_000_000, per="1s")

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Single(Workflow):
    """One step of no length, and one instance at a time."""

    concurrency = Concurrency("single:{tenant}", 1, hold="instance")

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Fair(Workflow):
    """One step of no length, tenant by tenant."""

    fair_by = "{tenant}"

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


class Chain(Workflow):
    """As many steps of no length as the input says, one after the other."""

    @step
    def hop(self, ctx: StepContext) -> Next | Done:
        left = ctx.state["left"] - 1
        return Next("hop", {"left": left}) if left else Done()


class Ask(Workflow):
    """Ask a group, as a real request would: who asked, until when, and what it is about in a few words."""

    @step
    def ask(self, ctx: StepContext) -> Await:
        asked = Approval(
            "Refund €1,240.00 to Acme GmbH",
            why="Above the limit of €500.00",
            groups=["finance"],
            requester="requester",
            due="2d",
            request=ctx.input,
        )
        return Await(asked, then="end", timeout="30d")

    @step
    def end(self, ctx: StepContext) -> Done:
        return Done()


@durable
def remember(ctx: FunctionContext, calls: int) -> int:
    """As many saved calls as the input says, then one wait: what a resumption has to replay."""
    for n in range(calls):
        ctx.step(f"call-{n}", lambda n=n: {"n": n, "note": "x" * 88})
    return len(ctx.wait_for_signal("gate", timeout="30d"))


SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "number", "minimum": 0}, "reference": {"type": "string", "maxLength": 40}},
    "required": ["amount", "reference"],
}


@durable
def approve(ctx: FunctionContext, **order: Any) -> int:
    """Ask one question with a schema, then end."""
    return len(ctx.wait_for_signal("gate", timeout="30d", schema=SCHEMA))


@durable(name="bench.each")
def ask_each(ctx: FunctionContext, count: int) -> int:
    """Ask for each item of a list, all of them at once."""
    items = ({"payment": number, "note": "x" * 88} for number in range(count))
    return len(ctx.wait_for_each("pay", items, "api", concurrency=count))
