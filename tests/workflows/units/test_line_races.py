"""Two connections that meet on a line's beginning, and runs that end badly while their stream is open."""

from typing import Any

import pytest
from django.db import connections, transaction

import workflows
from tests.support.races import COMMITTED, Other, forget, play, settle, take_one, work
from workflows import Machine, action, collect, durable, expand, store, wait_for
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import assert_done
from workflows.units import unit_sweep

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


@durable(name="lines.raced")
def raced(ctx: Any, items: int) -> Any:
    return ctx.wait_for_each("pay", range(items), "api", then=lambda ctx, item, output: [item, output])


def begin(items: int) -> Instance:
    instance = workflows.start(raced, {"items": items})
    work()
    return instance


def finish() -> None:
    while work() + unit_sweep.work():
        pass


def test_a_line_that_begins_while_its_instance_is_cancelled_is_cancelled_too() -> None:
    instance = begin(2)
    with transaction.atomic():
        workflows.complete(f"pay.0-{instance.pk}", "a")  # its line is written, and nobody sees it yet
        other = Other(lambda: workflows.cancel(instance))
        other.wait_until_blocked()
    other.join()
    [line] = Instance.objects.filter(parent=instance)
    assert (line.status, AwaitUnit.objects.get().status) == ("cancelled", "cancelled")


def test_a_line_that_is_retried_while_its_instance_is_cancelled_is_cancelled_too() -> None:
    @durable(name="lines.raced.failing", max_attempts=1)
    def failing(ctx: Any) -> Any:
        return ctx.wait_for_each("pay", [1, 2], "api", then=lambda ctx, item, output: 1 / output, on_item="partial")

    instance = workflows.start(failing)
    work()
    workflows.complete(f"pay.0-{instance.pk}", 0)
    work()
    [line] = Instance.objects.filter(parent=instance, status="failed")
    with transaction.atomic():
        workflows.retry(line)
        other = Other(lambda: workflows.cancel(instance))
        other.wait_until_blocked()
    other.join()
    assert Instance.objects.get(pk=line.pk).status == "cancelled"


class Asked(Machine):
    name = "lines.raced.asked"
    numbers = expand(lambda ctx: range(2))
    pay = wait_for(channel="api", each=True)
    all = collect(lambda ctx: ctx.items)


class Doubled(Machine):
    name = "lines.raced.doubled"
    numbers = expand(lambda ctx: range(2))
    double = action(lambda ctx: ctx.item * 2)
    all = collect(lambda ctx: ctx.items)


def die_before_parking(instance: Instance) -> None:
    """Its workers open its stream and die, until it is given up; what its lines would do nobody does."""
    while not Instance.objects.get(pk=instance.pk).ended:
        with connections["default"].cursor() as cursor:  # the oldest comes first
            cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 h' WHERE id = %s", [instance.pk])
        claim = take_one()
        assert claim.id == str(instance.pk)
        commit = play(claim)
        assert commit is not None
        if commit.kind is store.Kind.STOP:
            settle(commit)
        else:
            forget(claim)
            store.reclaim(connections["default"])


def test_a_machine_that_was_given_up_before_it_parked_asks_anew_when_it_is_retried() -> None:
    instance = workflows.start(Asked)
    die_before_parking(instance)
    assert AwaitUnit.objects.get().status == "cancelled"
    workflows.retry(instance)
    work()
    for asked in Interaction.objects.filter(instance=instance, status="pending"):
        workflows.complete(asked, asked.index * 10)
    finish()
    assert_done(instance, [0, 10])


def test_the_lines_of_a_machine_that_is_given_up_are_cancelled_and_begin_anew_when_it_is_retried() -> None:
    instance = workflows.start(Doubled)
    die_before_parking(instance)
    assert set(Instance.objects.filter(parent=instance).values_list("status", flat=True)) == {"cancelled"}
    workflows.retry(instance)
    finish()
    assert_done(instance, [0, 2])
