"""A child that lives on is joined again by the call that is made anew, and never started twice."""

import contextlib

import pytest

import workflows
from workflows import ChildCancelled, SignalTimeoutError, durable
from workflows.models import Checkpoint, Instance, Interaction
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

charged = []


@durable(name="rejoined.child")
def child(ctx):
    ctx.step("charge", lambda: charged.append(1))
    return ctx.wait_for_signal("confirm", timeout="30d")


@pytest.fixture(autouse=True)
def fresh():
    charged.clear()


def begin(body, **options):
    instance = workflows.start(durable(name="rejoined.parent", **options)(body))
    drain()
    return instance


def children(instance):
    return Instance.objects.filter(parent=instance)


def confirm(answer):
    workflows.complete(Interaction.objects.get(status="pending"), answer)
    drain()


def begin_and_lose():
    """A parent that failed because its child took too long."""
    instance = begin(lambda ctx: ctx.invoke("sub", child, timeout="1h"))
    advance("1h")
    assert_failed(instance, "SignalTimeoutError")
    return instance


def test_a_retry_waits_for_the_child_that_still_lives_and_starts_no_second_one():
    instance = begin_and_lose()
    workflows.retry(instance)
    drain()
    instance.refresh_from_db()
    assert (instance.status, instance.pending) == ("awaiting_children", 1)
    confirm("yes")
    assert_done(instance, "yes")
    assert charged == [1]
    assert children(instance).count() == 1
    assert not Checkpoint.objects.filter(instance=instance, position__lt=0).exists()


def test_its_time_begins_anew_and_may_pass_again_as_often_as_it_is_retried():
    instance = begin_and_lose()
    for _ in range(3):
        workflows.retry(instance)
        advance("59m")
        instance.refresh_from_db()
        assert instance.status == "awaiting_children"
        advance("2m")
        assert_failed(instance, "SignalTimeoutError")
    workflows.retry(instance)
    drain()
    confirm("late")
    assert_done(instance, "late")
    assert charged == [1]


def test_a_child_that_ended_before_the_retry_is_started_anew():
    instance = begin_and_lose()
    confirm("too late")
    workflows.retry(instance)
    drain()
    assert charged == [1, 1]
    assert children(instance).count() == 2
    confirm("now")
    assert_done(instance, "now")


def test_a_child_that_ends_between_the_retry_and_the_run_is_joined_as_it_ended():
    def body(ctx):
        try:
            return ctx.invoke("sub", child, timeout="1h")
        except ChildCancelled:
            return "cancelled"

    instance = begin(body)
    advance("1h")
    assert_failed(instance, "SignalTimeoutError")
    workflows.retry(instance)
    workflows.cancel(children(instance).get())
    drain()
    assert_done(instance, "cancelled")
    assert charged == [1]


def test_a_call_on_the_failing_path_joins_its_child_too_when_the_run_is_repeated():
    tries = []

    def fail_once():
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no luck")
        return "fine"

    def body(ctx):
        try:
            told = ctx.step("work", fail_once)
        finally:
            with contextlib.suppress(SignalTimeoutError):
                ctx.invoke("clean up", child, timeout="1h")
        return told

    instance = begin(body)
    advance("1h")  # it gives up waiting, so that the error gets out and the run is repeated
    advance("5m")
    instance.refresh_from_db()
    assert instance.status == "awaiting_children"
    assert tries == [1, 1]
    assert charged == [1]
    confirm("cleaned")
    assert_done(instance, "fine")
    assert children(instance).count() == 1


def test_the_child_can_be_cancelled_with_its_parent_after_it_was_joined_again():
    instance = begin_and_lose()
    workflows.retry(instance)
    drain()
    workflows.cancel(instance)
    assert children(instance).get().status == "cancelled"
