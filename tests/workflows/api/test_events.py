"""Emitting named events: whom an event wakes, whom it leaves parked, and what an emit refuses."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from django.db import connections, transaction

import workflows
from tests.support.event_waiters import Slow, Waiter, is_parked, waiting
from tests.support.folds import check_all_folds
from workflows import (
    Done,
    InvalidCall,
    NotSerializable,
    TooLarge,
    UnknownWorkspace,
    Workflow,
    emit,
    step,
    store,
)
from workflows.api.events import Emission, emit_event
from workflows.definitions.awaited_event import EVENT
from workflows.models import EventWait, Instance, NamedEvent, Signal
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


# --- who is woken ---------------------------------------------------------------------------------


def test_an_event_wakes_the_instance_that_waits_for_it_with_its_data() -> None:
    instance = waiting()
    assert emit("paid", {"amount": 5}, actor="shop") == 1
    drain()
    assert_done(instance, {"amount": 5})
    [signal] = instance.signals.all()
    told = instance.events.get(kind="signalled")
    found = NamedEvent.objects.get()
    assert (signal.source, signal.payload, signal.dedup_key) == ("shop", {"amount": 5}, f"{EVENT}{found.id}")
    assert (told.seq, told.name, told.actor) == (signal.n, signal.name, "shop")
    assert told.data == {"event": "paid", "id": str(found.id)}
    check_all_folds()


def test_the_wait_is_named_after_its_row_and_closed_by_the_event() -> None:
    instance = waiting()
    wait = EventWait.objects.get(instance=instance, closed_at=None)
    assert_awaiting(instance, "paid")
    assert Instance.objects.get().names == [f"{EVENT}{wait.id}"]
    emit("paid")
    assert EventWait.objects.get().closed_at is not None
    assert not is_parked(instance)


def test_an_event_of_another_name_wakes_nobody() -> None:
    instance = waiting()
    assert emit("refunded", {"amount": 5}) == 0
    assert is_parked(instance)


def test_an_event_that_nobody_waits_for_is_no_error() -> None:
    assert emit("paid") == 0
    assert NamedEvent.objects.count() == 1


def test_an_event_is_broadcast_to_all_that_wait() -> None:
    instances = [waiting() for _ in range(3)]
    assert emit("paid", 7) == 3
    drain()
    for instance in instances:
        assert_done(instance, 7)
    check_all_folds()


def test_an_event_reaches_more_instances_than_one_statement_takes() -> None:
    instances = workflows.start_many(Waiter, [{"match": {"n": int(n % 100 > 0)}} for n in range(510)])
    drain()
    assert emit("paid", {"n": 1}) == 504
    left = set(Instance.objects.filter(status="awaiting").values_list("pk", flat=True))
    assert [one.pk in left for one in instances] == [n % 100 == 0 for n in range(510)]


def test_an_event_stays_in_its_workspace() -> None:
    workflows.workspace.create("acme")
    here = waiting()
    with workflows.workspace("acme"):
        there = workflows.start(Waiter, {})
    drain()
    assert emit("paid", workspace="acme") == 1
    assert is_parked(here)
    assert not is_parked(there)
    assert emit("paid") == 1
    assert not is_parked(here)


def test_a_step_emits_into_the_workspace_of_its_instance() -> None:
    workflows.workspace.create("acme")

    class Emitter(Workflow):
        name = "EventEmitter"

        @step
        def only(self, ctx):
            return Done(emit("paid"))

    here = waiting()
    with workflows.workspace("acme"):
        there = workflows.start(Waiter, {})
        drain()
        emitter = workflows.start(Emitter)
    drain()
    assert_done(emitter, 1)
    assert_done(there)
    assert is_parked(here)


def test_an_instance_that_runs_or_sleeps_or_has_ended_is_left_alone() -> None:
    sleeper = workflows.start(Slow)
    ended = waiting()
    workflows.cancel(ended)
    drain()
    assert emit("paid", {"order": 1}) == 0
    assert not Signal.objects.exists()
    assert {Instance.objects.get(pk=one.pk).status for one in (sleeper, ended)} == {"sleeping", "cancelled"}


def test_a_wait_that_timed_out_takes_no_event() -> None:
    instance = waiting(timeout="1h")
    advance("1h")
    assert_done(instance, "timed out")
    assert emit("paid") == 0


def test_an_event_is_delivered_only_to_the_wait_that_the_instance_is_parked_on() -> None:
    instance = waiting()
    found = emit_event("refunded")
    assert store.deliver_event(connections["default"], "refunded", found.id, [(instance.pk, uuid4())]) == 0
    assert is_parked(instance)


# --- match ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("match", "data", "wakes"),
    [
        ({}, None, True),
        ({}, [1, 2], True),
        ({}, {"any": "thing"}, True),
        ({"order": 1}, {"order": 1, "amount": 5}, True),
        ({"order": 1}, {"order": 1.0}, True),
        ({"order": 1}, {"order": "1"}, False),
        ({"order": 1}, {"order": True}, False),
        ({"order": 1}, {"amount": 1}, False),
        ({"order": 1}, None, False),
        ({"order": 1}, ["order"], False),
        ({"order": 1}, "order", False),
        ({"order": None}, {"order": None}, True),
        ({"order": None}, {}, False),
        ({"order": {"id": 1}}, {"order": {"id": 1}}, True),
        ({"order": {"id": 1}}, {"order": {"id": 1, "more": 2}}, False),
        ({"order": [1, 2]}, {"order": [1, 2]}, True),
        ({"order": [1, 2]}, {"order": [2, 1]}, False),
        ({"b": 2, "a": 1}, {"a": 1, "b": 2, "c": 3}, True),
        ({"b": 2, "a": 1}, {"a": 1, "b": 3}, False),
        ({'a "quoted" [name]': "50%"}, {'a "quoted" [name]': "50%"}, True),
        ({"ä": "é"}, {"ä": "é"}, True),
    ],
    ids=repr,
)
def test_a_match_is_equality_of_top_level_fields(match: Any, data: Any, wakes: bool) -> None:
    early = workflows.start(Waiter, {"match": match})
    late = waiting(match=match)  # parks `early` too
    assert emit("paid", data) == (2 if wakes else 0)
    drain()
    for instance in (early, late):
        assert is_parked(instance) is not wakes


@pytest.mark.parametrize("wakes", [True, False])
def test_looking_back_matches_like_waking(wakes: bool) -> None:
    pairs = test_a_match_is_equality_of_top_level_fields.pytestmark[0].args[1]
    for match, data, expected in pairs:
        if expected is wakes:
            NamedEvent.objects.all()._raw_delete("default")
            instance = workflows.start(Waiter, {"match": match})
            emit("paid", data)
            drain()
            assert is_parked(instance) is not wakes, (match, data)


def test_waits_with_different_fields_are_found_by_one_emit() -> None:
    matches: list[dict[str, Any]] = [{}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}, {"a": 2}, {"c": 3}, {"a": 1, "c": 3}]
    instances = [waiting(match=match) for match in matches]
    assert emit("paid", {"a": 1, "b": 2}) == 4
    assert [is_parked(one) for one in instances] == [False] * 4 + [True] * 3


def test_values_whose_hashes_collide_are_told_apart() -> None:
    instance = waiting(match={"order": 1})
    with connections["default"].cursor() as cursor:
        cursor.execute("""UPDATE holdpoint_event_wait SET hash = jsonb_hash_extended('{"order": 2}', 0)""")
    assert emit("paid", {"order": 2}) == 0
    assert is_parked(instance)


# --- dedup, transactions, arguments ---------------------------------------------------------------


def test_a_repeated_dedup_key_does_nothing_twice() -> None:
    first = emit_event("paid", 1, dedup_key="evt_1")
    instance = waiting()
    assert emit_event("paid", 2, dedup_key="evt_1") == Emission(first.id, woke=0, started=0, duplicate=True)
    assert is_parked(instance)
    assert NamedEvent.objects.count() == 1
    assert not emit_event("refunded", dedup_key="evt_1").duplicate
    workflows.workspace.create("acme")
    assert not emit_event("paid", dedup_key="evt_1", workspace="acme").duplicate


def test_events_without_a_key_are_never_duplicates() -> None:
    assert [emit_event("paid", 1).duplicate for _ in range(2)] == [False, False]


def test_an_emit_that_the_caller_rolls_back_was_never_made() -> None:
    instance = waiting()
    with transaction.atomic():
        assert emit("paid", dedup_key="evt_1") == 1
        transaction.set_rollback(True)
    assert is_parked(instance)
    assert not NamedEvent.objects.exists()
    assert emit("paid", dedup_key="evt_1") == 1


@pytest.mark.parametrize(
    ("arguments", "more", "error"),
    [
        (("",), {}, InvalidCall),
        (("n" * 201,), {}, InvalidCall),
        (("holdpoint:unit:1",), {}, InvalidCall),
        ((5,), {}, InvalidCall),
        (("paid", object()), {}, NotSerializable),
        (("paid", float("nan")), {}, NotSerializable),
        (("paid", "x" * 600_000), {}, TooLarge),
        (("paid",), {"dedup_key": ""}, InvalidCall),
        (("paid",), {"dedup_key": "k" * 201}, InvalidCall),
        (("paid",), {"actor": 5}, InvalidCall),
        (("paid",), {"workspace": "nowhere"}, UnknownWorkspace),
    ],
)
def test_a_bad_argument_stores_nothing(arguments: Any, more: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        emit(*arguments, **more)
    assert not NamedEvent.objects.exists()
