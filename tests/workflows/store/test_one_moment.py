"""One moment for a stamp and for what is counted from it: a statement that writes both reads the clock once.

The clock of these tests moves on by a second with every reading, so two readings never give the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

import workflows
from tests.support.clocks import moving_clock
from tests.support.races import play, settle, take_one
from tests.support.webhook.secrets import OLD
from workflows import Await, Done, Retry, Webhook, Workflow, durable, event, question, received, step
from workflows.models import AwaitUnit, Checkpoint, Instance, Interaction, LedgerEvent
from workflows.testing import drain

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def clock_that_moves_with_every_reading(db: None) -> Iterator[None]:
    """It begins half an hour ago: what is stamped with it is due at once, and what is counted from it is not."""
    with moving_clock(HOUR / 2):
        yield


def run(function: object, name: str) -> Instance:
    started: Instance = durable(name=f"moment-{name}", signals=True)(function).start()
    drain()
    return started


def told(instance: Instance, kind: str) -> tuple[datetime, datetime | None]:
    event = LedgerEvent.objects.get(instance=instance.pk, kind=kind)
    return event.at, event.due_at


def test_the_deadline_of_a_question_is_counted_from_the_moment_it_was_asked_at(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "WEBHOOK_SECRETS": {"default": OLD}}

    def pay(ctx):
        return ctx.wait_for("pay", Webhook("https://bank.example/"), timeout="1h")

    instance = durable(name="moment-pay")(pay).start()
    assert settle(play(take_one()))  # nobody sends it
    asked = Interaction.objects.get(instance=instance)
    unit = AwaitUnit.objects.get(instance=instance)
    assert asked.deadline == asked.created_at + HOUR
    assert (unit.created_at, unit.deadline) == (asked.created_at, asked.deadline)
    assert asked.dispatch_at == asked.created_at
    assert Checkpoint.objects.get(instance=instance).saved_at == asked.created_at
    assert told(instance, "asked") == (asked.created_at, asked.deadline)


@pytest.mark.parametrize("wait", ["sleep", "event"])
def test_the_deadline_of_a_call_is_counted_from_the_moment_it_was_saved_at(wait: str) -> None:
    def call(ctx):
        return ctx.sleep("nap", "1h") if wait == "sleep" else ctx.wait_for_event("paid", event="paid", timeout="1h")

    saved = Checkpoint.objects.get(instance=run(call, wait))
    assert saved.deadline == saved.saved_at + HOUR


@pytest.mark.parametrize(
    "what", [received("paid"), event("paid"), question("api")], ids=["signal", "event", "question"]
)
def test_the_deadline_of_one_of_several_questions_is_counted_from_the_moment_it_was_asked_at(what: object) -> None:
    instance = run(lambda ctx: ctx.wait_any(ctx.ask("one", what, timeout="1h")).id, "several")
    at, deadline = told(instance, "asked")
    assert deadline == at + HOUR
    for saved in Checkpoint.objects.filter(instance=instance, name="one", deadline__isnull=False):
        assert (saved.saved_at, saved.deadline) == (at, deadline)


class MomentPark(Workflow):
    name = "moment.park"

    @step
    def ask(self, ctx):
        return Await("go", then="end", timeout="1h") if ctx.input["how"] == "await" else Retry(delay="1h")

    @step
    def end(self, ctx):
        return Done()


@pytest.mark.parametrize(("how", "kind"), [("await", "parked"), ("retry", "retried")])
def test_a_park_ends_so_long_after_the_moment_that_the_history_has_for_it(how: str, kind: str) -> None:
    instance = workflows.start(MomentPark, {"how": how})
    drain()
    at, deadline = told(instance, kind)
    assert deadline == at + HOUR == Instance.objects.get(pk=instance.pk).due_at


def test_a_fork_leaves_a_wait_exactly_as_long_as_it_had_at_the_point() -> None:
    def wait(ctx):
        ctx.step("before", int)
        one = ctx.ask("one", received("paid"), timeout="1h")
        ctx.step("after", int)
        return ctx.wait_any(one).id

    first = run(wait, "forked")
    before = Checkpoint.objects.get(instance=first, position=1)
    fork = workflows.fork(first, at="after")
    copied = Checkpoint.objects.get(instance=fork, position=1)
    point = Checkpoint.objects.get(instance=first, name="after")
    assert fork.due_at == fork.created_at == told(fork, "started")[0]
    assert copied.deadline - fork.created_at == before.deadline - point.saved_at
