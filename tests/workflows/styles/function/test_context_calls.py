"""What a durable function may call on `ctx`: what each call does, once, and what it refuses."""

import contextlib
import itertools
import uuid

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

import workflows
from tests.support.clocks import stopped_clock
from workflows import (
    ChildCancelled,
    ChildFailed,
    Machine,
    SignalTimeoutError,
    Stop,
    Workflow,
    action,
    durable,
    step,
)
from workflows.models import Checkpoint, Instance, Interaction, NamedEvent
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

_numbers = itertools.count()


def run(body, input=None, *, max_attempts=5, **options):
    """Start `body` as a function of its own and run whatever can run now."""
    name = f"calls.{next(_numbers)}"
    instance = workflows.start(durable(name=name, max_attempts=max_attempts)(body), input, **options)
    drain()
    instance.refresh_from_db()
    return instance


def pending(instance):
    return Interaction.objects.get(instance=instance, status="pending")


def answer(instance, data):
    workflows.complete(pending(instance), data)
    drain()


# --- step and atomic -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["step", "atomic"])
def test_a_step_hands_its_arguments_on_whatever_they_are_called(call):
    def body(ctx):
        return getattr(ctx, call)("a", lambda *args, **kw: [args, kw], 1, 2, id=3, fn=4, self=5)

    assert_done(run(body), [[1, 2], {"id": 3, "fn": 4, "self": 5}])


@pytest.mark.parametrize("call", ["step", "atomic"])
def test_none_is_a_result_that_is_saved_like_any_other(call):
    ran = []

    def body(ctx):
        got = getattr(ctx, call)("a", lambda: ran.append(1))
        ctx.sleep("nap", "1m")
        return got

    instance = run(body)
    advance("1m")
    assert_done(instance, None)
    assert ran == [1]


def test_the_writes_of_atomic_and_its_checkpoint_stand_together():
    def body(ctx):
        pk = ctx.atomic("write", lambda: Group.objects.create(name="written").pk)
        ctx.sleep("nap", "1m")
        return pk

    instance = run(body)
    advance("1m")
    assert_done(instance, Group.objects.get(name="written").pk)


def test_an_exception_in_atomic_rolls_its_writes_back():
    def write():
        Group.objects.create(name="half")
        raise RuntimeError("no")

    instance = run(lambda ctx: ctx.atomic("write", write), max_attempts=1)
    assert_failed(instance, "RuntimeError: no")
    assert not Group.objects.exists()
    assert not Checkpoint.objects.exists()


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_a_block_that_a_function_leaves_open_is_rolled_back_and_what_its_calls_saved_before_stands(calls):
    def body(ctx):
        for n in range(calls):
            ctx.atomic(f"{n}", lambda n=n: Group.objects.create(name=f"{n}").pk)
        transaction.atomic().__enter__()
        Group.objects.create(name="lost")

    instance = run(body)
    assert_failed(instance, "LeftTransactionOpen")
    assert list(Group.objects.order_by("name").values_list("name", flat=True)) == [f"{n}" for n in range(calls)]
    assert Checkpoint.objects.count() == calls
    assert_done(run(lambda ctx: ctx.atomic("next", lambda: "as ever")), "as ever")


def test_a_result_of_atomic_that_cannot_be_stored_rolls_its_writes_back():
    instance = run(lambda ctx: ctx.atomic("write", lambda: Group.objects.create(name="half")))
    assert_failed(instance, "NotSerializable")
    assert not Group.objects.exists()


def test_an_exception_of_atomic_may_be_caught_and_the_function_goes_on():
    Group.objects.create(name="taken")

    def body(ctx):
        try:
            ctx.atomic("write", lambda: Group.objects.create(name="taken").pk)
        except IntegrityError:
            return Group.objects.count()

    assert_done(run(body), 1)


def test_a_call_inside_the_function_of_another_is_refused_with_the_way_out():
    def body(ctx):
        ctx.step("outer", lambda: ctx.step("inner", lambda: 1))

    assert_failed(run(body, max_attempts=1), "inside the function of 'outer'")
    assert not Checkpoint.objects.exists()


@pytest.mark.parametrize("call", ["step", "atomic", "wait_for_signal", "callback", "sleep", "launch", "emit", "invoke"])
def test_every_call_is_refused_inside_transaction_atomic_with_the_hint(call):
    class Any(Workflow):
        name = "calls.any"

        @step
        def go(self, ctx):
            return Stop("no")

    def body(ctx):
        with transaction.atomic():
            match call:
                case "step" | "atomic":
                    getattr(ctx, call)("a", lambda: 1)
                case "wait_for_signal" | "callback":
                    getattr(ctx, call)("a", timeout="1h")
                case "sleep":
                    ctx.sleep("a", "1h")
                case "launch" | "invoke":
                    getattr(ctx, call)("a", Any)
                case "emit":
                    ctx.emit("a", "said")

    instance = run(body, max_attempts=1)
    assert_failed(instance, "inside transaction.atomic()")
    assert_failed(instance, "ctx.atomic(id, fn)")
    assert not Checkpoint.objects.exists()
    assert not Interaction.objects.exists()
    assert Instance.objects.count() == 1


def test_the_authors_own_transaction_is_free_between_the_calls():
    def body(ctx):
        with transaction.atomic():
            Group.objects.create(name="plain")
        return ctx.step("a", lambda: 1)

    assert_done(run(body), 1)
    assert Group.objects.exists()


# --- sleep ---------------------------------------------------------------------------------------


def test_a_sleep_ends_at_its_moment_and_not_before():
    seen = []

    def body(ctx):
        seen.append(ctx.now)
        ctx.sleep("nap", "1h")
        return "woke"

    with stopped_clock():
        instance = run(body)
    assert instance.status == "sleeping"
    deadline = Checkpoint.objects.get(instance=instance).deadline
    assert instance.due_at == deadline
    assert (deadline - seen[0]).total_seconds() == 3600
    advance("59m")
    assert len(seen) == 1
    advance("1m")
    assert_done(instance, "woke")
    assert seen[-1] >= deadline


def test_a_signal_does_not_end_a_sleep():
    instance = run(lambda ctx: ctx.sleep("nap", "1h"))
    with pytest.raises(workflows.NoReader):
        workflows.signal(instance, "hello")
    drain()
    assert Instance.objects.get(pk=instance.pk).status == "sleeping"
    advance("1h")
    assert_done(instance)


@pytest.mark.parametrize("duration", [-1, "soon", None])
def test_a_sleep_that_cannot_be_read_is_refused_at_the_call(duration):
    assert run(lambda ctx: ctx.sleep("nap", duration), max_attempts=1).status == "failed"
    assert not Checkpoint.objects.exists()


# --- invoke, launch, emit ------------------------------------------------------------------------


@durable(name="calls.double")
def double(ctx, n):
    ctx.sleep("nap", "5m")
    return n * 2


class Failing(Workflow):
    name = "calls.failing"

    @step
    def go(self, ctx):
        return Stop("no luck")


class Doubling(Machine):
    name = "calls.doubling"
    only = action(lambda ctx: ctx.input["n"] * 2)


def test_invoke_returns_the_result_of_a_workflow_of_any_style():
    def body(ctx):
        return [
            ctx.invoke("a", double, {"n": 1}),
            ctx.invoke("b", Doubling, {"n": 2}),
            ctx.invoke("c", "calls.double", {"n": 3}),
        ]

    instance = run(body)
    assert instance.status == "awaiting_children"
    advance("10m")
    assert_done(instance, [2, 4, 6])
    assert Instance.objects.filter(parent=instance).count() == 3


def test_invoke_raises_child_failed_with_the_reason_and_uncaught_fails_at_once():
    instance = run(lambda ctx: ctx.invoke("bad", Failing))
    drain()
    assert_failed(instance, "ChildFailed")
    assert_failed(instance, "no luck")
    assert not [event for event in instance.events.all() if event.kind == "run_failed"]


def test_invoke_raises_child_cancelled_which_uncaught_fails_at_once():
    caught = run(lambda ctx: _catch(ctx, ChildCancelled))
    uncaught = run(lambda ctx: ctx.invoke("c", double, {"n": 1}))
    for parent in (caught, uncaught):
        workflows.cancel(Instance.objects.get(parent=parent), "enough")
    drain()
    assert "enough" in assert_done(caught).result
    assert_failed(uncaught, "ChildCancelled")


def _catch(ctx, error):
    try:
        return ctx.invoke("c", double, {"n": 1})
    except error as caught:
        return str(caught)


def test_a_failed_child_raises_on_every_replay():
    raised = []

    def body(ctx):
        try:
            ctx.invoke("bad", Failing)
        except ChildFailed:
            raised.append(1)
        ctx.sleep("nap", "1m")
        return "on"

    instance = run(body)
    advance("1m")
    assert_done(instance, "on")
    assert raised == [1, 1]


def test_an_invoke_that_times_out_raises_and_the_child_goes_on():
    instance = run(lambda ctx: ctx.invoke("c", double, {"n": 1}, timeout="1m"))
    advance("1m")
    assert_failed(instance, "SignalTimeoutError")
    child = Instance.objects.get(parent=instance)
    assert child.status == "sleeping"
    advance("5m")
    assert_done(child, 2)


def test_the_late_end_of_a_child_does_not_disturb_the_next_invoke():
    def body(ctx):
        with contextlib.suppress(SignalTimeoutError):
            ctx.invoke("slow", double, {"n": 1}, timeout="4m")
        return ctx.invoke("next", double, {"n": 2})

    instance = run(body)
    advance("4m")
    assert Instance.objects.filter(parent=instance).count() == 2
    advance("61s")
    assert Instance.objects.get(parent=instance, spawn_no=1).status == "done"
    instance.refresh_from_db()
    assert (instance.status, instance.pending) == ("awaiting_children", 1)
    advance("4m")
    assert_done(instance, 4)


def test_the_late_end_of_a_child_does_not_end_another_wait():
    def body(ctx):
        with contextlib.suppress(SignalTimeoutError):
            ctx.invoke("slow", double, {"n": 1}, timeout="4m")
        return ctx.wait_for_signal("gate", timeout="1h")

    instance = run(body)
    advance("4m")
    advance("1m")
    advance("1m")
    assert_awaiting(instance, "gate")
    answer(instance, 7)
    assert_done(instance, 7)


def test_an_invoke_that_timed_out_raises_on_every_replay_even_when_the_child_is_done_by_then():
    raised = []

    def body(ctx):
        try:
            ctx.invoke("slow", double, {"n": 1}, timeout="4m")
        except SignalTimeoutError:
            raised.append(1)
        ctx.sleep("nap", "1h")
        return "on"

    instance = run(body)
    advance("2h")
    assert_done(instance, "on")
    assert raised == [1, 1]


def test_cancelling_the_parent_cancels_the_invoked_child():
    instance = run(lambda ctx: ctx.invoke("c", double, {"n": 1}))
    workflows.cancel(instance)
    assert Instance.objects.get(parent=instance).status == "cancelled"


def test_launch_returns_the_id_at_once_and_the_other_one_outlives_its_starter():
    instance = run(lambda ctx: str(ctx.launch("other", double, {"n": 4})))
    assert_done(instance)
    other = Instance.objects.get(pk=instance_result(instance))
    assert other.parent_id is None
    assert str(instance.pk) in other.started_by
    advance("5m")
    assert_done(other, 8)


def instance_result(instance):
    return Instance.objects.get(pk=instance.pk).result


def test_launch_gives_the_same_uuid_in_every_run():
    seen = []

    def body(ctx):
        seen.append(ctx.launch("other", double, {"n": 4}))
        ctx.sleep("nap", "1m")

    run(body)
    advance("1m")
    assert len(seen) == 2
    assert len(set(seen)) == 1
    assert isinstance(seen[0], uuid.UUID)
    assert Instance.objects.filter(workflow="calls.double").count() == 1


def test_emit_happens_once_and_tells_how_many_woke():
    waiting = run(lambda ctx: ctx.wait_for_event("w", event="go", timeout="1h"))

    def body(ctx):
        woke = ctx.emit("say", "go", {"n": 1})
        ctx.sleep("nap", "1m")
        return woke

    instance = run(body)
    advance("1m")
    assert_done(instance, 1)
    assert_done(waiting, {"n": 1})
    assert NamedEvent.objects.count() == 1


def test_a_function_may_wait_for_what_it_emitted_itself():
    def body(ctx):
        ctx.emit("say", "go", 1)
        return ctx.wait_for_event("w", event="go", timeout="1h")

    assert_done(run(body), 1)


def test_launch_emit_and_invoke_stay_in_the_workspace_of_their_instance():
    workflows.workspace.create("acme")

    def body(ctx):
        ctx.launch("l", double, {"n": 1})
        ctx.emit("e", "go", 1)
        return [ctx.invoke("i", double, {"n": 2}), ctx.workspace]

    instance = run(body, workspace="acme")
    advance("5m")
    assert_done(instance, [4, "acme"])
    assert set(Instance.objects.values_list("workspace__slug", flat=True)) == {"acme"}
    assert NamedEvent.objects.get().workspace.slug == "acme"


def test_a_child_that_ends_between_the_deadline_and_the_run_is_no_timeout():
    from django.db import connection

    from workflows import store

    instance = run(lambda ctx: ctx.invoke("c", double, {"n": 1}, timeout="5m"))
    child = Instance.objects.get(parent=instance)
    # Both are due in the same moment, the child runs first.
    Checkpoint.objects.get(instance=child)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 h' WHERE id = %s", [instance.pk])
    assert store.expire_due(connection) == 1
    instance.refresh_from_db()
    assert (instance.status, instance.timed_out) == ("runnable", True)
    workflows.cancel(child, "ended")
    drain()
    assert_failed(instance, "ChildCancelled")
