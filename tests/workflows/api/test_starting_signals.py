"""A signal that starts its instance first, when no live one holds the key."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

import workflows
from tests.support.races import COMMITTED, race, run_threads
from workflows import (
    Await,
    Done,
    InvalidCall,
    NoReader,
    NotSerializable,
    UnknownWorkflow,
    UnknownWorkspace,
    Workflow,
    durable,
    step,
)
from workflows.models import Instance, LedgerEvent, Signal
from workflows.testing import assert_done, drain

db = pytest.mark.django_db


class StartedBySignal(Workflow):
    name = "starting.order"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done({"input": ctx.input, "paid": [one.payload for one in ctx.awaited]})


def send(payload=None, **options):
    return workflows.signal("order-7", "paid", payload, start=StartedBySignal, **options)


@db
def test_the_instance_is_started_when_no_live_one_holds_the_key_and_takes_the_signal():
    told = send(5, input={"order": 7}, actor="shop")
    row = Instance.objects.get()
    assert (row.key, row.started_by, told.id, told.duplicate) == ("order-7", "shop", f"{row.pk}:2", False)
    assert [str(one.kind) for one in LedgerEvent.objects.order_by("seq")] == ["started", "signalled"]
    drain()
    assert_done(row, {"input": {"order": 7}, "paid": [5]})


@db
def test_a_live_holder_takes_the_signal_and_nothing_is_started():
    held = workflows.start(StartedBySignal, {"order": 1}, key="order-7")
    drain()
    assert send(5, input={"order": 7}).woke
    drain()
    assert_done(held, {"input": {"order": 1}, "paid": [5]})
    assert Instance.objects.count() == 1


@db
def test_a_signal_that_finds_its_holder_costs_what_a_plain_one_costs(django_assert_num_queries):
    workflows.start(StartedBySignal, key="order-7")
    with django_assert_num_queries(1):
        workflows.signal("order-7", "paid")
    with django_assert_num_queries(1):
        send()


@db
def test_a_signal_with_a_dedup_key_that_came_already_is_a_duplicate_and_starts_nothing():
    first, again = send(5, dedup_key="evt_1"), send(6, dedup_key="evt_1")
    assert (again.id, again.duplicate) == (first.id, True)
    assert (Instance.objects.count(), Signal.objects.count()) == (1, 1)


@db
def test_a_duplicate_starts_nothing_after_its_instance_has_ended():
    first = send(5, dedup_key="evt_1")
    drain()
    again = send(6, dedup_key="evt_1")
    assert (again.id, again.duplicate, again.woke) == (first.id, True, False)
    assert (Instance.objects.count(), LedgerEvent.objects.filter(kind="started").count()) == (1, 1)
    assert not send(6, dedup_key="evt_2").duplicate
    assert Instance.objects.count() == 2


@db
def test_it_is_part_of_the_callers_transaction():
    with transaction.atomic():
        send()
        transaction.set_rollback(True)
    assert not Instance.objects.exists()
    with transaction.atomic():
        send()
        send(2)
    assert Signal.objects.filter(instance=Instance.objects.get()).count() == 2


@durable(name="starting.function")
def reads_nothing(ctx):
    return None


@db
@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidCall, lambda: workflows.signal("k", "paid", input={})),
        (InvalidCall, lambda: workflows.signal(Instance(), "paid", start=StartedBySignal)),
        (UnknownWorkflow, lambda: workflows.signal("k", "paid", start="nobody")),
        (UnknownWorkspace, lambda: workflows.signal("k", "paid", start=StartedBySignal, workspace="nowhere")),
        (NoReader, lambda: workflows.signal("k", "paid", start=reads_nothing)),
        (InvalidCall, lambda: workflows.signal("k", "", start=StartedBySignal)),
        (NotSerializable, lambda: workflows.signal("k", "paid", start=StartedBySignal, input={"a": object()})),
    ],
)
def test_what_cannot_be_started_or_sent_is_refused_and_nothing_is_stored(error, call):
    with pytest.raises(error):
        call()
    assert not Instance.objects.exists()


@db
def test_an_input_that_cannot_be_stored_is_refused_also_where_a_live_instance_holds_the_key():
    workflows.start(StartedBySignal, key="order-7")
    with pytest.raises(NotSerializable):
        send(input={"a": object()})
    assert not Signal.objects.exists()


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_two_callers_make_one_instance_and_two_signals():
    told = race(lambda: send(1), lambda: send(2))
    row = Instance.objects.get()
    assert sorted(one.id for one in told) == [f"{row.pk}:2", f"{row.pk}:3"]
    assert LedgerEvent.objects.filter(kind="started", instance=row).count() == 1
    assert sorted(Signal.objects.filter(instance=row).values_list("payload", flat=True)) == [1, 2]


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_two_callers_of_one_dedup_key_make_one_instance_and_one_signal():
    first, second = race(lambda: send(1, dedup_key="evt"), lambda: send(2, dedup_key="evt"))
    assert (second.id, second.duplicate) == (first.id, True)
    assert (Instance.objects.count(), Signal.objects.get().payload) == (1, 1)


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_the_second_caller_starts_the_instance_when_the_first_rolls_back():
    _, told = race(lambda: send(1), lambda: send(2), rollback=True)
    row = Instance.objects.get()
    assert (told.id, Signal.objects.get().payload) == (f"{row.pk}:2", 2)


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_start_of_the_key_meanwhile_takes_the_signal():
    held, told = race(lambda: workflows.start(StartedBySignal, key="order-7"), lambda: send(2))
    assert told.id == f"{held.pk}:2"


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_holder_that_ends_meanwhile_is_followed_by_a_new_one():
    held = workflows.start(StartedBySignal, key="order-7")
    left = [True]

    def end(execute, sql, params, many, context):
        if "INTO holdpoint_signal(" in sql and left:
            left.clear()
            run_threads([lambda: workflows.cancel(held)])
        return execute(sql, params, many, context)

    with connection.execute_wrapper(end):
        told = send(2)
    row = Instance.objects.exclude(pk=held.pk).get()
    assert told.id == f"{row.pk}:2"
