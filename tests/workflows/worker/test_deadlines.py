"""A deadline that cannot fire, because of somebody's lock or of a trigger, delays no other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, Other
from workflows import Await, Done, Workflow, step
from workflows.lifecycle import Status
from workflows.models import Instance, Interaction, Worker

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SECONDS = 60.0


class Asking(Workflow):
    name = "deadlines.asking"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("yes"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.timed_out)


class Sleeping(Workflow):
    name = "deadlines.sleeping"

    @step
    def wait(self, ctx):
        return Await("nothing", then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.timed_out)


def park(asking: int, sleeping: int) -> tuple[list[Instance], list[Instance]]:
    asked, slept = workflows.start_many(Asking, [{}] * asking), workflows.start_many(Sleeping, [{}] * sleeping)
    with pumping():
        ids = [one.pk for one in (*asked, *slept)]
        wait_until(
            lambda: Instance.objects.filter(pk__in=ids, status=Status.AWAITING).count(),
            "all to wait",
            is_it=lambda count: count == len(ids),
        )
    return asked, slept


def make_due(instances: list[Instance]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE id = ANY(%s) AND status = 3",
            [[one.pk for one in instances]],
        )


def wait_for_all(instances: list[Instance], what: str) -> None:
    ids = [one.pk for one in instances]
    wait_until(
        lambda: Instance.objects.filter(pk__in=ids, status=Status.DONE).count(),
        what,
        seconds=SECONDS,
        is_it=lambda count: count == len(ids),
    )


@contextmanager
def locked_row(instance: Instance) -> Iterator[None]:
    with transaction.atomic():
        Interaction.objects.select_for_update().get(instance=instance)
        yield


@contextmanager
def locked_table(instance: Instance) -> Iterator[None]:
    """As while an index is built."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE holdpoint_interaction IN SHARE MODE")
        yield


@contextmanager
def refusing_trigger(instance: Instance) -> Iterator[None]:
    """As somebody's own, on one row."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION tests_refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'not this one'; END $$"
        )
        cursor.execute(
            "CREATE TRIGGER tests_refuse BEFORE UPDATE ON holdpoint_interaction FOR EACH ROW "
            f"WHEN (OLD.instance_id = '{instance.pk}') EXECUTE FUNCTION tests_refuse()"
        )
        try:
            yield
        finally:
            cursor.execute("DROP TRIGGER tests_refuse ON holdpoint_interaction; DROP FUNCTION tests_refuse()")


@pytest.mark.parametrize("hindrance", [locked_row, locked_table, refusing_trigger])
def test_a_deadline_that_cannot_fire_delays_no_other(hindrance, caplog):
    asked, slept = park(5, 40)
    guilty, others = asked[2], [*asked[:2], *asked[3:]]
    with pumping():
        wait_until(Worker.objects.exists, "the pump")
        with hindrance(guilty):
            # On another connection: this one may be in the transaction that hinders.
            theirs = slept if hindrance is locked_table else [*slept, *others]
            answer = Other(lambda: (make_due([*asked, *slept]), wait_for_all(theirs, "the others"))).join()
            assert answer == (None, None)
            assert Instance.objects.filter(pk=guilty.pk, status=Status.AWAITING).exists()
        wait_for_all(asked, "those that were hindered")
    assert "lost the database" not in caplog.text
    assert caplog.text.count(f"the deadline of instance {guilty.pk} cannot fire") <= 1
    assert Interaction.objects.filter(status="expired").count() == 5
