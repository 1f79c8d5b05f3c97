"""A lease ends when its worker does, and not because others keep the row busy."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import connection, connections, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, Other, count_blocked, forget, take_one
from workflows import Done, Workflow, step, store
from workflows.lifecycle import Status
from workflows.models import Instance, Renewal
from workflows.worker import pump
from workflows.worker.lease_keeper import RENEW_EVERY

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SECONDS = 60.0
ran: Counter[str] = Counter()
during: dict[str, Callable[[], None]] = {}


@pytest.fixture(autouse=True)
def _count_anew() -> None:
    ran.clear()
    during.clear()


class Busy(Workflow):
    """Counts its runs, and does what the test wants done during one of them."""

    name = "leases.busy"

    @step
    def a(self, ctx):
        ran[str(ctx.id)] += 1
        during.get(ctx.input.get("role", ""), lambda: None)()
        return Done()


def end_lease(instance: Instance) -> None:
    """As if all renewals of the row itself had been in vain."""
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE id = %s", [instance.pk])


def test_a_worker_keeps_its_lease_while_others_keep_the_row_busy() -> None:
    instance = workflows.start(Busy, {"role": "long"})
    go_on = threading.Event()
    during["long"] = lambda: go_on.wait(3 * SECONDS) and None
    try:
        with pumping():
            wait_until(lambda: ran[str(instance.pk)], "the step", seconds=SECONDS)
            with transaction.atomic():
                workflows.signal(instance, "busy")  # holds the row at every look of the keeper
                other = Other(lambda: wait_until(Renewal.objects.exists, "the lease to be kept", seconds=SECONDS))
                other.join()
            # The caller is gone, and the first to see the row free is a worker that takes back what has died.
            end_lease(instance)
            assert store.reclaim(connections["default"]) == 0
            go_on.set()
            wait_until(
                lambda: Instance.objects.filter(pk=instance.pk, status=Status.DONE).exists(), "the end", seconds=SECONDS
            )
    finally:
        go_on.set()
    assert ran == {str(instance.pk): 1}


def test_a_row_that_was_held_is_renewed_as_soon_as_it_is_free() -> None:
    instance = workflows.start(Busy, {"role": "long"})
    go_on = threading.Event()
    during["long"] = lambda: go_on.wait(3 * SECONDS) and None

    def read_lease() -> object:
        return Instance.objects.values_list("due_at", flat=True).get(pk=instance.pk)

    try:
        with pumping():
            wait_until(lambda: ran[str(instance.pk)], "the step", seconds=SECONDS)
            before = read_lease()
            with transaction.atomic():
                workflows.signal(instance, "busy")
                Other(lambda: wait_until(Renewal.objects.exists, "a renewal in vain", seconds=SECONDS)).join()
            wait_until(read_lease, "the renewal", seconds=RENEW_EVERY / 2, is_it=lambda due: due != before)
            go_on.set()
    finally:
        go_on.set()


def test_a_lease_kept_beside_its_row_ends_too() -> None:
    instance = workflows.start(Busy)
    claim = take_one()
    with transaction.atomic():
        workflows.signal(instance, "busy")
        assert Other(lambda: store.renew(connections["default"], [claim], lease=0.0)).join() == set()
    forget(claim)
    assert store.reclaim(connection) == 1
    # And one that a dead worker has kept for longer says nothing of whoever has the row now.
    claim = take_one()
    with transaction.atomic():
        workflows.signal(instance, "busy")
        assert Other(lambda: store.renew(connections["default"], [claim])).join() == set()
    store.release(connection, [claim])
    forget(take_one())
    assert store.reclaim(connection) == 1


def test_leases_that_have_ended_beside_their_rows_are_forgotten() -> None:
    instance = workflows.start(Busy)
    claim = take_one()
    with transaction.atomic():
        workflows.signal(instance, "busy")
        for lease in (60.0, -3600.0):
            Other(lambda: store.renew(connections["default"], [claim], lease)).join()  # noqa: B023
            assert store.forget_renewals(connection) == (lease < 0)


def test_an_outcome_that_the_keeper_gives_back_late_is_committed_and_not_run_again() -> None:
    """The keeper is kept waiting by a caller, and meanwhile the pump ends its batch and begins the next."""

    def last_until_the_keeper_waits() -> None:
        wait_until(count_blocked, "the keeper to wait for the caller's row", seconds=SECONDS)
        after.append(workflows.start(Busy))

    def wait_for_the_next_batch() -> None:
        wait_until(lambda: after and is_done(after[0]), "the next batch", seconds=SECONDS)
        wait_until(count_blocked, "the keeper to give up", seconds=SECONDS, is_it=lambda count: count == 0)

    after: list[Instance] = []
    ran_quick = threading.Event()
    during.update({"quick": ran_quick.set, "long": last_until_the_keeper_waits})
    quick = workflows.start(Busy, {"role": "quick"})
    long = workflows.start(Busy, {"role": "long"})
    with pumping():
        assert ran_quick.wait(SECONDS)
        with transaction.atomic():
            Instance.objects.select_for_update(no_key=True).get(pk=quick.pk)
            Other(wait_for_the_next_batch).join()
        wait_until(lambda: is_done(quick) and is_done(long), "all", seconds=SECONDS)
    assert ran == {str(one.pk): 1 for one in (quick, long, *after)}
    assert [event.kind for event in quick.events.all()] == ["started", "done"]


def test_an_outcome_whose_row_was_held_is_committed_while_the_next_step_of_the_batch_takes_long(monkeypatch) -> None:
    monkeypatch.setattr(pump, "COMMIT_EVERY", -1.0)  # after each step, and not after a fifth of a second of them
    held, go_on = threading.Event(), threading.Event()
    during.update(quick=lambda: held.wait(SECONDS) and None, long=lambda: go_on.wait(3 * SECONDS) and None)
    quick, long = workflows.start_many(Busy, [{"role": "quick"}, {"role": "long"}])
    try:
        with pumping():
            wait_until(lambda: ran[str(quick.pk)], "the quick step", seconds=SECONDS)
            with transaction.atomic():
                Instance.objects.select_for_update(no_key=True).get(pk=quick.pk)
                held.set()
                Other(lambda: wait_until(lambda: ran[str(long.pk)], "the long step", seconds=SECONDS)).join()
            wait_until(lambda: is_done(quick), "the outcome of the quick one", seconds=SECONDS)
            assert not is_done(long)
            go_on.set()
            wait_until(lambda: is_done(long), "the end", seconds=SECONDS)
    finally:
        go_on.set()
    assert ran == {str(quick.pk): 1, str(long.pk): 1}
    assert [event.kind for event in quick.events.all()] == ["started", "done"]


def is_done(instance: Instance) -> bool:
    return Instance.objects.filter(pk=instance.pk, status=Status.DONE).exists()
