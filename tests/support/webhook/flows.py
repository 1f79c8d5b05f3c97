"""Workflows of every style whose question goes to a partner that may fail."""

from __future__ import annotations

from workflows import Await, Done, Machine, UnitFailed, Workflow, durable, step, wait_for
from workflows.channels.webhook import Webhook


class Steps(Workflow):
    name = "failing.steps"

    @step
    def ask(self, ctx):
        return Await(Webhook(ctx.input["url"]), then="end", timeout="30d")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


@durable(name="failing.function")
def function(ctx, url):
    return ctx.wait_for("ask", Webhook(url), timeout="30d")


@durable(name="failing.catching")
def catching(ctx, url):
    try:
        return ctx.wait_for("ask", Webhook(url), timeout="30d")
    except UnitFailed as error:
        told = ctx.wait_for("ask-people", "api", input=error.reason, timeout="30d")
        return ["people", told]


@durable(name="failing.each")
def each(ctx, url, items, on_item="fail"):
    found = ctx.wait_for_each("ask", items, lambda item: Webhook(f"{url}/{item}"), timeout="30d", on_item=on_item)
    return found if on_item == "fail" else [[one.status, one.output] for one in found]


class machine(Machine):  # noqa: N801
    name = "failing.machine"
    ask = wait_for(channel=lambda ctx: Webhook(ctx.input["url"]), timeout="30d")


STYLES = ("failing.steps", "failing.function", "failing.machine")
