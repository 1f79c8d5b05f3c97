"""Lines under real pumps, each with a connection of its own, and under workers that die."""

import contextlib
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

import workflows
from tests.support.apps.hosted.workflows import HostedStream, hosted_lines
from tests.support.processes import wait_until, workflow_worker
from tests.support.pumps import pumping
from workflows import Machine, action, collect, durable, expand
from workflows.models import AwaitUnit, Checkpoint, Instance, Interaction, LedgerEvent
from workflows.testing import assert_done

pytestmark = pytest.mark.django_db(transaction=True)


class Thousand(Machine):
    name = "lines.pumped"
    numbers = expand(lambda ctx: range(ctx.input["items"]))
    double = action(lambda ctx: ctx.item * 2)
    plus = action(lambda ctx: ctx.steps.double + 1)
    all = collect(lambda ctx: ctx.items)


@durable(name="lines.pumped.then")
def then_pumped(ctx: Any, items: int) -> Any:
    return ctx.wait_for_each("pay", range(items), "api", then=lambda ctx, item, output: [item, output])


def ended(instance: Instance) -> bool:
    return not Instance.objects.live().filter(pk=instance.pk).exists()


def answer_all(instance: Instance) -> None:
    for asked in Interaction.objects.filter(instance=instance, status="pending", queued=False).order_by("-index"):
        workflows.complete(asked, asked.index * 10)


def test_a_thousand_items_go_through_their_lines_and_come_back_in_order() -> None:
    one = workflows.start(Thousand, {"items": 1000})
    with pumping(2):
        wait_until(lambda: ended(one), "its end")
    assert_done(one, [n * 2 + 1 for n in range(1000)])
    unit = AwaitUnit.objects.get()
    assert (unit.total, unit.answered, unit.remaining, unit.seq) == (1000, 1000, 0, len(list_events(unit)))


def list_events(unit: AwaitUnit) -> list[int]:
    return list(LedgerEvent.objects.filter(instance_id=unit.pk).values_list("seq", flat=True))


def test_no_more_lines_are_under_way_than_the_concurrency_says() -> None:
    most: list[int] = []

    class Few(Machine):
        name = "lines.few"
        numbers = expand(lambda ctx: range(20), concurrency=3)
        count = action(lambda ctx: most.append(Instance.objects.live().filter(unit__isnull=False).count()))
        all = collect(lambda ctx: len(ctx.items))

    one = workflows.start(Few)
    with pumping(2):
        wait_until(lambda: ended(one), "its end")
    assert_done(one, 20)
    assert max(most) <= 3


def test_answers_and_lines_that_end_meet_without_harm() -> None:
    some = [workflows.start(then_pumped, {"items": 30}) for _ in range(3)]
    with pumping(2):
        for one in some:
            wait_until(Interaction.objects.filter(instance=one).exists, "the questions")
            answer_all(one)
        wait_until(lambda: all(map(ended, some)), "their ends")
    for one in some:
        assert_done(one, [[n, n * 10] for n in range(30)])


def test_a_caller_who_holds_a_unit_holds_up_its_own_lines_only() -> None:
    held, free = workflows.start(then_pumped, {"items": 3}), workflows.start(then_pumped, {"items": 2})
    with pumping():
        wait_until(lambda: Interaction.objects.count() == 5, "the questions")
    answer_all(held)
    answer_all(free)
    with contextlib.ExitStack() as stack:
        with transaction.atomic():
            AwaitUnit.objects.select_for_update().get(instance=held)  # as an answer in a long transaction does
            stack.enter_context(pumping())
            wait_until(lambda: ended(free), "the end of the other one")
            assert Instance.objects.live().filter(unit__isnull=False).count() == 3
        wait_until(lambda: ended(held), "its end")
    assert_done(held, [[n, n * 10] for n in range(3)])
    assert_done(free, [[n, n * 10] for n in range(2)])


@pytest.mark.kill
def test_a_worker_that_is_killed_in_the_middle_of_lines_does_nothing_twice() -> None:
    one = workflows.start(hosted_lines, {"items": 40, "seconds": 0.05})
    with workflow_worker() as first:
        wait_until(lambda: Interaction.objects.count() == 40, "the questions")
        answer_all(one)
        wait_until(lambda: Group.objects.count() >= 10, "some bookings")
        first.kill()
    assert not ended(one)
    with workflow_worker():
        wait_until(lambda: ended(one), "its end")
    assert_done(one, [[n, n * 10] for n in range(40)])
    assert Group.objects.count() == 40
    assert Checkpoint.objects.filter(name="book").count() == 40


@pytest.mark.kill
def test_a_worker_that_is_killed_in_the_middle_of_a_stream_does_nothing_twice() -> None:
    one = workflows.start(HostedStream, {"items": 40, "seconds": 0.05})
    with workflow_worker() as first:
        wait_until(lambda: Group.objects.count() >= 10, "some bookings")
        first.kill()
    assert not ended(one)
    with workflow_worker():
        wait_until(lambda: ended(one), "its end")
    assert_done(one, list(range(40)))
    assert Group.objects.count() == 40
