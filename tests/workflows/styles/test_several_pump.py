"""Several questions under real pumps, each with a connection of its own: answers that come at the same moment."""

import threading
from typing import Any

import pytest
from django.db import connections

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from workflows import Await, Done, Machine, Workflow, action, any_of, parallel, question, step, wait_for
from workflows.models import Checkpoint, Instance, Interaction
from workflows.testing import assert_done

pytestmark = pytest.mark.django_db(transaction=True)

MANY = 12


class First(Workflow):
    name = "several.pumped"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(any_of(ok=question("chat"), paid="paid"), then="tell")

    @step
    def tell(self, ctx: Any) -> Any:
        return Done(sorted(ctx.answers))


class Both(Machine):
    name = "several.pumped.both"
    both = parallel(a=wait_for(channel="chat"), b=wait_for(signal="paid"))
    last = action(lambda ctx: [ctx.steps.both.a, ctx.steps.both.b])


def answer_at_once(instances: list[Instance]) -> None:
    """Complete every question in one thread, and send every signal in another."""
    ready = threading.Barrier(2)
    refused: list[BaseException] = []

    def complete() -> None:
        ready.wait(30)
        for asked in Interaction.objects.filter(status="pending"):
            try:
                workflows.complete(asked, "yes")
            except (workflows.UnknownInteraction, workflows.InteractionResolved) as error:
                refused.append(error)  # the signal was first
        connections.close_all()

    thread = threading.Thread(target=complete)
    thread.start()
    ready.wait(30)
    workflows.signal_many([(one, "paid", 1) for one in instances])
    thread.join(60)
    assert not thread.is_alive()


def test_of_two_answers_at_once_each_instance_takes_what_came_and_ends_once() -> None:
    some = workflows.start_many(First, [{} for _ in range(MANY)])
    with pumping(2):
        wait_until(lambda: Interaction.objects.filter(status="pending").count() == MANY, "the questions")
        answer_at_once(some)
        wait_until(lambda: not Instance.objects.live().exists(), "their ends")
    for one in some:
        assert assert_done(one).result in (["ok"], ["paid"], ["ok", "paid"])
    assert not Interaction.objects.filter(status="pending").exists()
    assert Checkpoint.objects.values("instance_id").distinct().count() <= MANY


def test_branches_that_are_answered_at_once_are_joined_once() -> None:
    some = workflows.start_many(Both, [{} for _ in range(MANY)])
    with pumping(2):
        asking = Interaction.objects.filter(status="pending", unit__step="both.a")
        wait_until(lambda: asking.count() == MANY, "the questions")
        answer_at_once(some)
        wait_until(lambda: not Instance.objects.live().exists(), "their ends")
    for one in some:
        assert_done(one, ["yes", 1])
