"""Workflows that wait for a named event, for tests."""

from __future__ import annotations

from typing import Any

import workflows
from workflows import Await, Done, Next, Workflow, step
from workflows.definitions.awaited_event import event
from workflows.models import Instance
from workflows.testing import assert_awaiting, drain


class Waiter(Workflow):
    """Waits once for `paid`, with the match, schema and timeout that its input says."""

    name = "EventWaiter"

    @step
    def ask(self, ctx):
        spec = event("paid", match=ctx.input.get("match"), schema=ctx.input.get("schema"))
        return Await(spec, then="end", timeout=ctx.input.get("timeout"))

    @step
    def end(self, ctx):
        return Done("timed out" if ctx.timed_out else ctx.answer)


class Slow(Workflow):
    """Does something before it waits."""

    name = "EventSlow"

    @step
    def prepare(self, ctx):
        return Next("ask", delay="10m")

    @step
    def ask(self, ctx):
        return Await(event("paid", match={"order": 1}), then="end")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def waiting(**input: Any) -> Instance:
    instance = workflows.start(Waiter, input)
    drain()
    return assert_awaiting(instance)


def is_parked(instance: Instance) -> bool:
    return Instance.objects.get(pk=instance.pk).status == "awaiting"
