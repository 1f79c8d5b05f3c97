"""One answer: what it does, what is refused in which order, and that a refusal changes nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

import workflows
from tests.support.races import take_one
from workflows import (
    AnswerElsewhere,
    Await,
    Channel,
    Done,
    IdempotencyConflict,
    InteractionResolved,
    InvalidCall,
    InvalidData,
    Next,
    NotSerializable,
    StaleVersion,
    Stop,
    TooLarge,
    UnknownInteraction,
    Workflow,
    durable,
    step,
)
from workflows.models import AwaitUnit, Checkpoint, Instance, Interaction, LedgerEvent, Signal
from workflows.testing import _skew, advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

TABLES = (Instance, Signal, AwaitUnit, Interaction, Checkpoint, LedgerEvent)
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@durable(name="completion.gate")
def gate(ctx, schema=None, timeout="1h"):
    return [ctx.wait_for_signal("gate", signal="the-gate", timeout=timeout, schema=schema)]


class Pay(Workflow):
    name = "completion.pay"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done({"answer": ctx.answer, "answered": ctx.answered, "timed_out": ctx.timed_out})


class Owned(Channel):
    name = "owned"
    owns_answers = True
    door = "on the page /owned/"


class Held(Workflow):
    name = "completion.held"

    @step
    def ask(self, ctx):
        return Await(Owned(), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def park(workflow: Any = gate, **input: Any) -> Interaction:
    instance = workflows.start(workflow, input)
    drain()
    assert_awaiting(instance)
    return Interaction.objects.get(instance=instance)


def all_rows() -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, as it stands; xmin tells even an update that wrote the same values."""
    found = {}
    with connection.cursor() as cursor:
        for model in TABLES:
            cursor.execute(f"SELECT t.xmin::text, t.ctid::text, t::text FROM {model._meta.db_table} t ORDER BY t::text")
            found[model.__name__] = cursor.fetchall()
    return found


def refused(error: type[Exception], target: Any, data: Any = 1, **options: Any) -> Exception:
    """The completion is refused so, and not a row has changed."""
    before = all_rows()
    with pytest.raises(error) as caught:
        workflows.complete(target, data, **options)
    assert type(caught.value) is error
    assert all_rows() == before
    return caught.value


# What one answer does


@pytest.mark.parametrize("by", ["signal id", "uuid", "interaction"])
def test_it_is_addressed_by_signal_id_uuid_or_the_interaction(by):
    found = park()
    target = {"signal id": "the-gate", "uuid": found.id, "interaction": found}[by]
    done = workflows.complete(target, {"n": 1}, actor="kim")
    assert done == workflows.Completion(found.id, "the-gate", found.instance_id, replayed=False)
    drain()
    assert_done(found.instance_id, [{"n": 1}])


def test_one_answer_closes_the_interaction_and_its_unit_and_puts_one_row_into_the_inbox():
    found = park()
    before = Instance.objects.get(pk=found.instance_id)
    workflows.complete("the-gate", {"n": 1}, actor="kim")
    row = Interaction.objects.get(pk=found.pk)
    unit = AwaitUnit.objects.get(pk=found.unit_id)
    instance = Instance.objects.get(pk=found.instance_id)
    [signal] = Signal.objects.filter(instance=instance)
    [event] = instance.events.filter(kind="answered")
    assert (row.status, row.output, row.actor, row.version) == ("completed", {"n": 1}, "kim", found.version + 1)
    assert row.closed_at is not None
    assert (unit.status, unit.remaining, unit.closed_at is None, unit.released_at is None) == (
        "completed",
        0,
        False,
        False,
    )
    assert (signal.payload, signal.source, signal.consumed_at) == ({"n": 1}, "kim", None)
    assert str(row.id) in signal.dedup_key
    assert str(unit.id) in signal.name
    assert (instance.status, instance.inbox) == ("runnable", before.inbox + 1)
    assert event.seq == signal.n
    assert (event.actor, event.data["interaction"]) == ("kim", str(row.id))
    drain()
    assert Signal.objects.filter(instance=instance).count() == 1
    assert_done(instance, [{"n": 1}])


def test_a_user_may_be_the_actor():
    found = park()
    user = User.objects.create_user("kim")
    workflows.complete(found, 1, actor=user)
    assert Interaction.objects.get(pk=found.pk).actor == f"user:{user.pk}"


@pytest.mark.parametrize("data", [None, False, 0, "", [], {}, 1.5, "text", [None], {"a": {"b": [1]}}])
@pytest.mark.parametrize("workflow", [gate, Pay], ids=["function", "step"])
def test_any_json_is_data_and_none_too(workflow, data):
    found = park(workflow)
    workflows.complete(found, data)
    row = Interaction.objects.get(pk=found.pk)
    assert (row.status, row.output) == ("completed", data)
    drain()
    expected = [data] if workflow is gate else {"answer": data, "answered": True, "timed_out": False}
    assert_done(found.instance_id, expected)


def test_a_value_is_handed_over_as_its_json_says():
    from datetime import date
    from decimal import Decimal

    found = park()
    workflows.complete(found, {"day": date(2026, 2, 3), "price": Decimal("1.10"), "id": (1, 2)})
    drain()
    assert_done(found.instance_id, [{"day": "2026-02-03", "price": "1.10", "id": [1, 2]}])


def test_a_plain_signal_of_the_same_name_never_satisfies_the_wait():
    found = park()
    for name in ("the-gate", "gate", str(found.unit_id), str(found.id)):
        with pytest.raises(workflows.NoReader):
            workflows.signal(found.instance_id, name, {"n": 666})
    assert drain() == {}
    assert_awaiting(found.instance_id, "the-gate")
    workflows.complete("the-gate", {"n": 1})
    drain()
    assert_done(found.instance_id, [{"n": 1}])


def test_the_names_and_dedup_keys_of_the_engines_own_signals_are_refused():
    found = park()
    target = found.instance_id
    for reserved in (f"holdpoint:unit:{found.unit_id}", "holdpoint:", "holdpoint:event:x"):
        before = all_rows()
        with pytest.raises(InvalidCall, match="holdpoint:"):
            workflows.signal(target, reserved, 1)
        with pytest.raises(InvalidCall, match="holdpoint:"):
            workflows.signal(target, "fine", 1, dedup_key=reserved)
        with pytest.raises(InvalidCall, match="holdpoint:"):
            workflows.signal_many([(target, reserved, 1)])
        with pytest.raises(InvalidCall, match="holdpoint:"):
            workflows.signal_many([(target, "fine", 1, reserved)])
        with pytest.raises(InvalidCall, match="holdpoint:"):
            Await(reserved, then="end")
        assert all_rows() == before
    workflows.complete(found, "real")
    drain()
    assert_done(target, ["real"])


def test_an_answer_of_one_visit_does_not_answer_the_next():
    class Loop(Workflow):
        name = "completion.loop"

        @step
        def ask(self, ctx):
            return Await(ctx.callback("pay"), then="note", timeout="1h")

        @step
        def note(self, ctx):
            got = [*ctx.state.get("got", []), ctx.answer]
            return Done(got) if len(got) == 2 else Next("ask", {"got": got})

    first = park(Loop)
    workflows.complete(first, "one")
    drain()
    assert_awaiting(first.instance_id)
    refused(InteractionResolved, first, "again")
    workflows.complete(first.signal_id, "two")
    drain()
    assert_done(first.instance_id, ["one", "two"])


def test_an_answer_before_the_park_is_kept_in_the_function_style_too():
    @durable(name="completion.early")
    def early(ctx):
        cb = ctx.callback("pay", timeout="1h")
        ctx.step("hand out", lambda: workflows.complete(f"pay-{ctx.id}", "early") and None)
        return cb.wait()

    instance = workflows.start(early)
    drain()
    assert_done(instance, "early")


def test_inside_the_callers_rolled_back_transaction_it_never_happened():
    found = park()
    before = all_rows()
    with transaction.atomic():
        workflows.complete("the-gate", 1, actor="kim", idempotency_key="k")
        assert Interaction.objects.get(pk=found.pk).status == "completed"
        transaction.set_rollback(True)
    assert all_rows() == before
    assert drain() == {}
    assert_awaiting(found.instance_id)
    assert workflows.complete("the-gate", 2, idempotency_key="k").replayed is False
    drain()
    assert_done(found.instance_id, [2])


# The checks, each alone


def test_unknown_foreign_and_cancelled_are_told_alike():
    found = park()
    workflows.cancel(found.instance_id)
    errors = [
        refused(UnknownInteraction, "nobody-asked"),
        refused(UnknownInteraction, uuid.uuid4()),
        refused(UnknownInteraction, found),
        refused(UnknownInteraction, found.id),
        refused(UnknownInteraction, "the-gate"),
    ]
    assert len({str(one) for one in errors}) == 1


def test_a_stale_version_is_refused_and_the_current_one_taken():
    found = park()
    told = refused(StaleVersion, found, version=found.version + 1)
    assert (told.shown, told.current) == (found.version + 1, found.version)
    refused(StaleVersion, found, version=0)
    assert workflows.complete(found, 1, version=found.version).replayed is False


def test_a_channel_that_owns_its_answers_refuses_every_other_door_and_names_the_right_one():
    found = park(Held)
    told = refused(AnswerElsewhere, found)
    assert Owned.door in str(told)
    refused(AnswerElsewhere, found.signal_id)
    refused(AnswerElsewhere, found.id, idempotency_key="k", version=found.version)
    assert_awaiting(found.instance_id)


@pytest.mark.parametrize("how", ["completed", "expired"])
def test_what_is_resolved_stays_so(how):
    found = park()
    if how == "completed":
        workflows.complete(found, "first")
    else:
        advance("1h")
    for target in (found, found.id, "the-gate"):
        told = refused(InteractionResolved, target, "second")
        assert told.how == how
    drain()
    if how == "completed":
        assert_done(found.instance_id, ["first"])


def test_data_that_the_schema_refuses_is_told_by_field():
    found = park(schema=NUMBER)
    told = refused(InvalidData, found, {"n": "x"})
    assert list(told.errors) == ["n"]
    refused(InvalidData, found, None)
    refused(InvalidData, found, {})
    workflows.complete(found, {"n": 3})
    drain()
    assert_done(found.instance_id, [{"n": 3}])


@pytest.mark.parametrize("cardinality", ["ONE_TO_MANY", "MANY_TO_MANY"])
def test_a_list_cardinality_accepts_only_a_list(cardinality):
    @durable(name="completion.list")
    def lists(ctx):
        return ctx.wait_for("items", "api", cardinality=cardinality)

    found = park(lists)
    for bad in ({"0": 1}, "ab", 7, None, True):
        assert isinstance(refused(InvalidData, found, bad), InvalidData)
    workflows.complete(found, [1, "two", None])
    drain()
    assert_done(found.instance_id, [1, "two", None])


@pytest.mark.parametrize("cardinality", ["ONE_TO_ONE", "MANY_TO_ONE"])
def test_the_others_accept_whatever_their_schema_does(cardinality):
    @durable(name="completion.one")
    def one(ctx):
        return ctx.wait_for("item", "api", cardinality=cardinality)

    found = park(one)
    workflows.complete(found, {"a": 1})
    drain()
    assert_done(found.instance_id, {"a": 1})


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "bad",
    [
        nest(33),
        {"a": "\0"},
        {"\0": 1},
        "\ud800",
        {"\udfff": 1},
        float("nan"),
        float("inf"),
        [-float("inf")],
        10**4300,
        {1: {2: object()}},
        {("a", "b"): 1},
        object(),
        b"bytes",
        {1, 2},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_stored_is_refused_at_the_python_door(bad):
    found = park()
    refused(NotSerializable, found, bad)
    refused(NotSerializable, "nobody-asked", bad)  # 400 comes before 404
    workflows.complete(found, nest(32))
    drain()
    assert Interaction.objects.get(pk=found.pk).output == nest(32)


def test_one_answer_is_512_kib_at_most():
    found = park(Pay)
    limit = 512 * 1024
    told = refused(TooLarge, found, "x" * (limit - 1))
    assert str(limit) in str(told)
    refused(TooLarge, found, "é" * (limit // 2))
    refused(TooLarge, "nobody-asked", "x" * limit)  # 413 comes before 404
    workflows.complete(found, "x" * (limit - 2))
    drain()
    assert len(assert_done(found.instance_id).result["answer"]) == limit - 2


# Idempotency


def test_the_same_call_again_is_told_the_same_before_and_after_the_instance_went_on():
    found = park()
    first = workflows.complete("the-gate", {"n": 1}, idempotency_key="k", actor="kim")
    before = all_rows()
    again = workflows.complete("the-gate", {"n": 1}, idempotency_key="k", actor="lee")
    assert (first.replayed, again.replayed) == (False, True)
    assert (first.id, first.signal_id, first.instance) == (again.id, again.signal_id, again.instance)
    assert all_rows() == before
    drain()
    assert_done(found.instance_id, [{"n": 1}])
    before = all_rows()
    assert workflows.complete("the-gate", {"n": 1}, idempotency_key="k") == again
    assert all_rows() == before


def test_a_replay_comes_before_every_other_check():
    found = park(schema=NUMBER)
    workflows.complete(found, {"n": 1}, idempotency_key="k", version=1)
    assert workflows.complete(found, {"n": 1}, idempotency_key="k", version=1).replayed
    advance("2h")
    assert workflows.complete(found, {"n": 1}, idempotency_key="k", version=1).replayed


def test_a_replay_is_recognised_when_the_id_was_taken_anew():
    first = park()
    workflows.complete("the-gate", "one", idempotency_key="k1")
    second = park()
    before = all_rows()
    told = workflows.complete("the-gate", "one", idempotency_key="k1")
    assert (told.replayed, told.id) == (True, first.id)
    refused(IdempotencyConflict, "the-gate", "two", idempotency_key="k1")
    assert all_rows() == before
    assert workflows.complete("the-gate", "two", idempotency_key="k2").id == second.id
    # Both are told apart for good.
    assert workflows.complete("the-gate", "one", idempotency_key="k1").id == first.id
    assert workflows.complete("the-gate", "two", idempotency_key="k2").id == second.id


def test_other_data_with_the_same_key_is_a_conflict():
    found = park()
    workflows.complete(found, 1, idempotency_key="k")
    told = refused(IdempotencyConflict, found, 2, idempotency_key="k")
    assert "'k'" in str(told)
    refused(IdempotencyConflict, found, None, idempotency_key="k")
    refused(IdempotencyConflict, found, True, idempotency_key="k")


def test_a_key_belongs_to_the_address_that_it_came_with():
    """As it does over HTTP: one key for the signal id, another for the interaction, even when both mean the same."""
    found = park()
    workflows.complete("the-gate", 1, idempotency_key="k")
    refused(InteractionResolved, found, 1, idempotency_key="k")
    assert workflows.complete("the-gate", 1, idempotency_key="k").replayed


def test_without_a_key_or_with_another_a_second_answer_is_refused():
    found = park()
    workflows.complete(found, 1, idempotency_key="k")
    refused(InteractionResolved, found, 1)
    refused(InteractionResolved, found, 1, idempotency_key="K")


def test_a_key_means_something_within_its_workspace_only():
    workflows.workspace.create("acme")
    here = park()
    there = workflows.start(gate, workspace="acme")
    drain()
    workflows.complete("the-gate", 1, idempotency_key="k")
    told = workflows.complete("the-gate", 2, idempotency_key="k", workspace="acme")
    assert (told.replayed, told.instance) == (False, there.id)
    assert workflows.complete("the-gate", 1, idempotency_key="k").instance == here.instance_id


def test_a_refused_answer_uses_up_no_key():
    """Only answers that were taken are stored: the same key may come again with better data."""
    found = park(schema=NUMBER)
    refused(InvalidData, found, {}, idempotency_key="k")
    refused(StaleVersion, found, {"n": 1}, idempotency_key="k", version=9)
    assert workflows.complete(found, {"n": 1}, idempotency_key="k").replayed is False


def test_an_answer_that_came_too_late_uses_up_no_key_either():
    first = park()
    _skew(connection, 3601)
    with pytest.raises(InteractionResolved):
        workflows.complete("the-gate", "one", idempotency_key="k")
    refused(InteractionResolved, first, "other", idempotency_key="k")
    drain()
    second = park()
    told = workflows.complete("the-gate", "two", idempotency_key="k")
    assert (told.replayed, told.id) == (False, second.id)


@pytest.mark.parametrize("bad", ["", " ", "k" * 256, "\0", 7, b"k"])
def test_a_key_that_is_none_is_refused(bad):
    found = park()
    refused(InvalidCall, found, 1, idempotency_key=bad)


# Their order


def test_the_checks_come_in_the_order_that_is_promised():
    """Each call breaks every later rule too, and is told of the first."""
    found = park(Held)
    everything = {"version": 9, "idempotency_key": "k"}
    with pytest.raises(TooLarge):
        workflows.complete("nobody-asked", "x" * 600_000, **everything)
    refused(UnknownInteraction, "nobody-asked", object_free := {"any": 1}, **everything)
    refused(StaleVersion, found, object_free, **everything)
    refused(AnswerElsewhere, found, object_free)
    advance("2h")
    refused(AnswerElsewhere, found, object_free)  # 409 before 410
    typed = park(schema=NUMBER)
    workflows.complete(typed, {"n": 1})
    refused(InteractionResolved, typed, {"n": "x"})  # 410 before 422


def test_a_stale_version_is_told_before_that_it_is_resolved():
    found = park()
    workflows.complete(found, 1)
    refused(StaleVersion, found, 1, version=99)


def test_cancelled_comes_before_everything_but_a_replay():
    found = park(Held)
    workflows.cancel(found.instance_id)
    refused(UnknownInteraction, found, None, version=9, idempotency_key="k")


# Refusals of somebody who has a name


def make_refusals() -> list[tuple[str, Callable[[], Any]]]:
    typed, held = park(schema=NUMBER), park(Held)
    return [
        ("StaleVersion", lambda: workflows.complete(typed, {"n": 1}, version=9, actor="kim")),
        ("AnswerElsewhere", lambda: workflows.complete(held, {"n": 1}, actor="kim")),
        ("InvalidData", lambda: workflows.complete(typed, {}, actor="kim")),
        ("", lambda: workflows.complete(typed, {"n": 1}, actor="lee", idempotency_key="k")),
        ("InteractionResolved", lambda: workflows.complete(typed, {"n": 1}, actor="kim")),
        ("IdempotencyConflict", lambda: workflows.complete(typed, {"n": 2}, actor="kim", idempotency_key="k")),
    ]


def test_a_refusal_by_a_named_actor_is_a_row_of_the_ledger_and_nothing_else():
    for name, call in make_refusals():
        interactions, signals = all_rows()["Interaction"], Signal.objects.count()
        before = LedgerEvent.objects.filter(kind="refused").count()
        if not name:
            call()
            continue
        with pytest.raises(workflows.WorkflowError):
            call()
        rows = LedgerEvent.objects.filter(kind="refused")
        assert rows.count() == before + 1, name
        latest = rows.order_by("at").last()
        assert (latest.actor, latest.data["refused"]) == ("kim", name)
        assert latest.data["interaction"]
        assert latest.data["reason"]
        assert all_rows()["Interaction"] == interactions
        assert Signal.objects.count() == signals


def test_a_refusal_inside_a_rolled_back_transaction_leaves_no_row():
    found = park(schema=NUMBER)
    with transaction.atomic():
        with pytest.raises(InvalidData):
            workflows.complete(found, {}, actor="kim")
        transaction.set_rollback(True)
    assert not LedgerEvent.objects.filter(kind="refused").exists()


def test_a_refusal_while_a_step_runs_does_not_void_its_outcome():
    found = park(schema=NUMBER)
    workflows.complete(found, {"n": 1})
    claim = take_one()
    with pytest.raises(InteractionResolved):
        workflows.complete(found, {"n": 2}, actor="kim")
    from tests.support.races import play, settle

    assert settle(play(claim))
    assert_done(found.instance_id, [{"n": 1}])


# After the deadline


@pytest.mark.parametrize("workflow", [gate, Pay], ids=["function", "step"])
def test_a_completion_after_the_deadline_is_refused_and_fires_it_in_that_very_transaction(workflow):
    found = park(workflow)
    _skew(connection, 3601)
    with pytest.raises(InteractionResolved) as told:
        workflows.complete(found, 1, actor="kim")
    assert told.value.how == "expired"
    instance = Instance.objects.get(pk=found.instance_id)
    assert (instance.status, instance.timed_out, instance.inbox) == ("runnable", True, 0)
    assert Interaction.objects.get(pk=found.pk).status == "expired"
    assert Interaction.objects.get(pk=found.pk).output is None
    assert AwaitUnit.objects.get(pk=found.unit_id).status == "expired"
    assert not Signal.objects.filter(instance=instance).exists()
    assert instance.events.filter(kind="timed_out").count() == 1
    drain()
    if workflow is gate:
        assert_failed(instance, "SignalTimeoutError")
    else:
        assert_done(instance, {"answer": None, "answered": False, "timed_out": True})
    assert instance.events.filter(kind="timed_out").count() == 1


def test_a_late_answer_that_is_invalid_too_is_told_that_it_is_late():
    found = park(schema=NUMBER)
    _skew(connection, 3601)
    with pytest.raises(InteractionResolved):
        workflows.complete(found, {})
    assert Instance.objects.get(pk=found.instance_id).timed_out


def test_rolled_back_a_late_completion_fires_nothing():
    found = park()
    _skew(connection, 3601)
    with transaction.atomic():
        with pytest.raises(InteractionResolved):
            workflows.complete(found, 1)
        transaction.set_rollback(True)
    assert_awaiting(found.instance_id)
    drain()  # the sweep
    assert_failed(found.instance_id, "SignalTimeoutError")


@pytest.mark.parametrize("workflow", [gate, Pay], ids=["function", "step"])
def test_a_late_completion_of_a_wait_that_a_dead_worker_left_unparked(workflow):
    """Asked and armed, then the worker died: the deadline passes before anybody parks."""
    from tests.support.races import forget, play
    from workflows import store

    instance = workflows.start(workflow)
    claim = take_one()
    assert isinstance(play(claim), store.Commit)  # the question stands; the park is never committed
    found = Interaction.objects.get(instance=instance)
    forget(claim)
    assert store.reclaim(connection) == 1
    _skew(connection, 3601)
    with pytest.raises(InteractionResolved):
        workflows.complete(found, 1)
    row = Instance.objects.get(pk=instance.pk)
    assert (row.status, row.timed_out) == ("runnable", False)
    drain()
    if workflow is gate:
        assert_failed(instance, "SignalTimeoutError")
    else:
        assert_awaiting(instance)  # the step ran again, and asks anew


def test_an_answer_during_a_run_that_dies_is_handed_to_the_next_run():
    from tests.support.races import forget, play
    from workflows import store

    for workflow, result in ((gate, [5]), (Pay, {"answer": 5, "answered": True, "timed_out": False})):
        instance = workflows.start(workflow)
        claim = take_one()
        play(claim)
        workflows.complete(Interaction.objects.get(instance=instance), 5)
        forget(claim)
        assert store.reclaim(connection) == 1
        drain()
        assert_done(instance, result)
        assert Interaction.objects.filter(instance=instance).count() == 1


# What a stop and a cancel do to what is asked


@pytest.mark.parametrize("end", [Done(1), Stop("no")], ids=["done", "failed"])
def test_whatever_ends_an_instance_closes_what_it_still_asks(end):
    class Leaves(Workflow):
        name = "completion.leaves"

        @step
        def ask(self, ctx):
            assert ctx.callback("pay").resume_url
            return end

    instance = workflows.start(Leaves)
    drain()
    found = Interaction.objects.get(instance=instance)
    assert (found.status, AwaitUnit.objects.get().status) == ("cancelled", "cancelled")
    refused(UnknownInteraction, found)


def test_a_cancel_that_is_rolled_back_closes_nothing():
    found = park()
    before = all_rows()
    with transaction.atomic():
        workflows.cancel(found.instance_id)
        refused(UnknownInteraction, found)
        transaction.set_rollback(True)
    assert all_rows() == before
    workflows.complete(found, 1)
    drain()
    assert_done(found.instance_id, [1])


def test_cancelling_a_parent_cancels_what_its_children_ask_and_every_deadline():
    class Parent(Workflow):
        name = "completion.parent"

        @step
        def bear(self, ctx):
            return workflows.Spawn([workflows.Child(Pay) for _ in range(3)], then="end")

        @step
        def end(self, ctx):
            return Done()

    parent = workflows.start(Parent)
    drain()
    assert Interaction.objects.filter(status="pending").count() == 3
    workflows.cancel(parent)
    assert set(Interaction.objects.values_list("status", flat=True)) == {"cancelled"}
    assert set(AwaitUnit.objects.values_list("status", flat=True)) == {"cancelled"}
    assert set(Instance.objects.values_list("status", "due_at")) == {("cancelled", None)}
    assert advance("2h") == {}
    for found in Interaction.objects.all():
        refused(UnknownInteraction, found)


def test_retry_asks_anew_what_the_failure_closed():
    class Fails(Workflow):
        name = "completion.fails"
        broken = True

        @step
        def ask(self, ctx):
            return Await(ctx.callback("pay"), then="end", timeout="1h") if not self.broken else self.fail(ctx)

        def fail(self, ctx):
            assert ctx.callback("pay").resume_url
            raise RuntimeError("broken")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    instance = workflows.start(Fails)
    drain()
    assert_failed(instance, "broken")
    first = Interaction.objects.get()
    Fails.broken = False
    workflows.retry(instance)
    drain()
    refused(UnknownInteraction, first)
    second = Interaction.objects.get(status="pending")
    assert second.signal_id == first.signal_id
    assert second.token_hash != first.token_hash
    workflows.complete(second.signal_id, "paid")
    drain()
    assert_done(instance, "paid")
