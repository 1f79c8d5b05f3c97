"""A population for whoever calls every address: instances and questions in every status there is.

Lives here: the workflows, their rows, and what names them. What must not: calls over HTTP, assertions about answers.
The rows are committed, because a server in other threads has to see them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from django.contrib.auth.models import User
from django.db import connections

import workflows
from approvals import Approval, decide
from approvals.models import Review
from tests.support.pumps import pumping
from workflows import (
    Await,
    Child,
    Concurrency,
    DispatchFailed,
    Done,
    Next,
    Rate,
    SignalTimeoutError,
    Spawn,
    Stop,
    Workflow,
    durable,
    event,
    step,
    store,
)
from workflows.definitions.channel import Channel
from workflows.lifecycle import Status
from workflows.models import Instance, Interaction
from workflows.testing import drain

SCHEMA = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}
ANSWER = {"amount": 5}

#: What partners were given.
TOKENS: list[str] = []


class OpenapiOrder(Workflow):
    name = "openapi-order"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        told = ctx.awaited[0].payload
        return Stop("as asked") if told == "stop" else Done(told)


class OpenapiForEvent(Workflow):
    name = "openapi-for-event"

    @step
    def ask(self, ctx):
        return Await(event("openapi.closed"), then="end")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


class OpenapiLater(Workflow):
    name = "openapi-later"

    @step
    def begin(self, ctx):
        return Next("end", delay="1d")

    @step
    def end(self, ctx):
        return Done()


class OpenapiFamily(Workflow):
    name = "openapi-family"

    @step
    def begin(self, ctx):
        return Spawn([Child(OpenapiOrder)], then="end")

    @step
    def end(self, ctx):
        return Done()


class OpenapiPay(Workflow):
    name = "openapi-pay"

    @step
    def ask(self, ctx):
        pay = ctx.callback("pay", schema=ctx.input["schema"])
        TOKENS.append(pay.resume_token)
        return Await(pay, then="end", timeout=ctx.input["timeout"])

    @step
    def end(self, ctx):
        return Done(ctx.answer)


class OpenapiDesk(Channel):
    name = "openapi-desk"
    owns_answers: ClassVar[bool] = True
    door = "at the desk"


@durable(name="openapi-question")
def question(ctx, signal, timeout="1d", schema=None):
    try:
        return ctx.wait_for_signal("gate", signal=signal, timeout=timeout, schema=schema)
    except SignalTimeoutError:
        return None


@durable(name="openapi-desk")
def desk(ctx):
    return ctx.wait_for("desk", OpenapiDesk(), assignee="ann", group="desk")


class OpenapiPost(Channel):
    """Nothing arrives, and each try has its row."""

    name = "openapi-post"
    sends: ClassVar[bool] = True
    keeps_log: ClassVar[bool] = True
    config: ClassVar = {}

    @classmethod
    def dispatch(cls, question):
        raise DispatchFailed("the line is cut", retry_after=6 * 3600)


@durable(name="openapi-post")
def post(ctx):
    return ctx.wait_for("post", OpenapiPost())


@durable(name="openapi-items")
def items(ctx):
    return len(ctx.wait_for_each("each", [1, 2], "api", on_item="partial"))


class OpenapiApprove(Workflow):
    name = "openapi-approve"

    @step
    def ask(self, ctx):
        return Await(Approval("Pay the invoice", request={"total": "12.50"}, **ctx.input), then="end", timeout="1d")

    @step
    def end(self, ctx):
        return Done()


NAMES = ("openapi-order", "openapi-for-event", "openapi-later", "openapi-family")


class OpenapiLimited(Workflow):
    """Never started: what can be set of it at run time."""

    name = "openapi/limited"
    queue = "openapi"
    concurrency = Concurrency("openapi-{customer}", 5)
    rate = Rate("openapi", 5, per="1s", key="{customer}")
    fair_by = "{customer}"

    @step
    def end(self, ctx):
        return Done()


@dataclass
class Population:
    """What there is, by status."""

    instances: dict[str, list[str]] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    questions: dict[str, list[Interaction]] = field(default_factory=dict)
    #: Those of a channel that takes the answers itself.
    owned: list[Interaction] = field(default_factory=list)
    #: Those that are sent in vain, twice each.
    sent: list[Interaction] = field(default_factory=list)
    #: Items that failed, of units that go on.
    items: list[Interaction] = field(default_factory=list)
    #: Names of schedules that tick once in a lifetime.
    schedules: list[str] = field(default_factory=list)
    #: Tokens by what became of their question.
    tokens: dict[str, list[str]] = field(default_factory=dict)
    #: The question of a review that has a vote.
    voted: Interaction = field(init=False)
    #: Ids by how they stand: "open", "voted" (by the person, and others have to), "decided".
    reviews: dict[str, list[str]] = field(default_factory=dict)
    #: Whom the reviews ask.
    person: Any = None


def populate(count: int) -> Population:
    """At least so many of each."""
    TOKENS.clear()
    keys = [f"openapi/{n}" for n in range(count)]
    workflows.start_many("openapi-order", [{}] * count, keys=keys)
    for status in ("done", "failed", "cancelled"):
        end(workflows.start_many("openapi-order", [{}] * count), status)
    for name in ("openapi-later", "openapi-family", "openapi-for-event"):
        workflows.start_many(name, [{}] * count)
    tokens = {status: ask(status, count) for status in ("pending", "completed", "expired", "cancelled")}
    workflows.start_many("openapi-desk", [{}] * count)
    drain()
    workflows.start_many("openapi-order", [{}] * count)
    store.claim(connections["default"], count)
    workflows.start_many("openapi-order", [{}] * count)
    found = Population(keys=keys, tokens=tokens)
    for status in Status:
        found.instances[status] = [
            str(pk) for pk in Instance.objects.filter(status=status).order_by("pk").values_list("pk", flat=True)
        ]
    for state in tokens:
        rows = Interaction.objects.filter(status=state, owned=False).order_by("pk")
        found.questions[state] = list(rows.exclude(channel="callback"))
    found.owned = list(Interaction.objects.filter(owned=True).order_by("pk"))
    ask_people(found, count)
    send_in_vain(found, count)
    found.schedules = [f"openapi-{n}" for n in range(count)]
    for name in found.schedules:
        workflows.schedule(name, "openapi-order", every="30000d", overlap="allow")
    fail_items(found, count)
    there = found.instances | found.questions | found.reviews
    missing = [name for name, rows in there.items() if len(rows) < count]
    assert not missing, f"too few are {missing}"
    return found


def send_in_vain(found: Population, count: int) -> None:
    started = workflows.start_many("openapi-post", [{}] * count)
    drain()
    found.sent = list(Interaction.objects.filter(instance__in=started).order_by("pk"))
    for one in found.sent:
        workflows.redrive(one)
    drain()


def fail_items(found: Population, count: int) -> None:
    started = workflows.start_many("openapi-items", [{}] * count)
    drain()
    found.items = list(Interaction.objects.filter(instance__in=started, index=0).order_by("pk"))
    for one in found.items:
        workflows.fail(one, "no")


def ask_people(found: Population, count: int) -> None:
    """Reviews that ask one person, or one of two; another one asked for them."""
    found.person = User.objects.create_user("openapi-ann")
    other, dan = User.objects.create_user("openapi-ben"), User.objects.create_user("openapi-dan")
    names = [found.person.username, other.username]
    for state, many in (("open", 8 * count), ("voted", count), ("decided", count)):
        options = {"assignees": names, "quorum": 2} if state == "voted" else {"assignees": names[:1], "due": "1h"}
        started = workflows.start_many("openapi-approve", [options] * many, actor=dan)
        drain()
        rows = list(Review.objects.filter(instance__in=started).order_by("pk"))
        for review in rows if state != "open" else ():
            decide(review, "approve", actor=found.person)
        found.reviews[state] = [str(review.pk) for review in rows]
        if state == "voted":
            found.voted = rows[0].interaction
    drain()


def end(started: list[Instance], status: str) -> None:
    drain()
    for one in started:
        if status == "cancelled":
            workflows.cancel(one, "not wanted")
        else:
            workflows.signal(one, "paid", "stop" if status == "failed" else 5)
    drain()


def ask(status: str, count: int) -> list[str]:
    """Questions by signal id and by link, in this status, the first three of each with a schema; the links' tokens."""
    before, timeout = len(TOKENS), 0.05 if status == "expired" else "1d"
    inputs: list[Any] = [{"timeout": timeout, "schema": SCHEMA if n < 3 else None} for n in range(count)]
    named = [{**one, "signal": f"openapi-{status}-{n}"} for n, one in enumerate(inputs)]
    started = workflows.start_many("openapi-question", named) + workflows.start_many("openapi-pay", inputs)
    drain()
    for found in Interaction.objects.filter(instance__in=started, status="pending"):
        if status == "completed":
            workflows.complete(found, ANSWER)
        elif status == "cancelled":
            workflows.cancel(found.instance_id)
    if status == "expired":
        with pumping():
            while Interaction.objects.filter(instance__in=started, status="pending").exists():
                pass
    drain()
    return TOKENS[before:]
