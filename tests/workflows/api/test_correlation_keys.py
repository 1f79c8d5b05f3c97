"""Correlation keys: unique among the live instances of a workspace, free again when their holder ends."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import transaction

import workflows
from workflows import Await, Child, Done, DuplicateKey, NoTarget, NotRetryable, Spawn, Stop, Workflow, step
from workflows.exceptions import InvalidCall
from workflows.models import Instance, LedgerEvent
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


class Holder(Workflow):
    """Waits for "end", whose payload says how to end."""

    name = "keys.holder"

    @step
    def ask(self, ctx):
        return Await("end", then="end")

    @step
    def end(self, ctx):
        return Done() if ctx.awaited[0].payload == "done" else Stop("asked to")


def end(instance: Instance, how: str) -> None:
    if how == "cancelled":
        workflows.cancel(instance)
    else:
        workflows.signal(instance, "end", how)
        drain()
    instance.refresh_from_db()
    assert instance.status == how


def test_a_second_live_instance_is_refused_and_the_error_names_the_first():
    first = workflows.start(Holder, key="order-1")
    with pytest.raises(DuplicateKey, match=str(first.id)) as caught:
        workflows.start(Holder, {"another": "input"}, key="order-1")
    assert caught.value.instance == first
    assert caught.value.key == "order-1"
    assert Instance.objects.count() == 1
    assert LedgerEvent.objects.count() == 1


def test_the_key_is_shared_by_all_workflows_of_a_workspace():
    class Another(Workflow):
        name = "keys.another"

        @step
        def ask(self, ctx):
            return Done()

    first = workflows.start(Holder, key="k")
    with pytest.raises(DuplicateKey) as caught:
        workflows.start(Another, key="k")
    assert caught.value.instance == first


def test_a_refused_start_does_not_break_the_callers_transaction():
    with transaction.atomic():
        workflows.start(Holder, key="k")
        with pytest.raises(DuplicateKey):
            workflows.start(Holder, key="k")
        workflows.start(Holder, key="k2")
    assert Instance.objects.count() == 2


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_a_key_is_free_again_when_its_instance_ends(how):
    first = workflows.start(Holder, key="k")
    drain()
    end(first, how)
    second = workflows.start(Holder, key="k")
    drain()
    assert workflows.signal("k", "end", "done").id.startswith(str(second.id))
    drain()
    assert_done(second)


@pytest.mark.parametrize(
    "key", ["a" * 200, "ünï→💡", "order 1", "../..", "%s", "1", str(UUID(int=1)), "a:b/c?d#e", "\uff21"]
)
def test_any_text_may_be_a_key(key):
    instance = workflows.start(Holder, key=key)
    drain()
    assert instance.key == key
    assert workflows.signal(key, "end", "done").woke
    drain()
    assert_done(instance)


def test_keys_are_compared_exactly():
    workflows.start(Holder, key="k")
    for other in ("K", "k ", " k"):
        workflows.start(Holder, key=other)
    assert Instance.objects.count() == 4


@pytest.mark.parametrize("key", ["", "  ", "a" * 201, "nul\0", "\ud800", 5, UUID(int=1)])
def test_a_key_that_cannot_be_stored_is_refused_and_nothing_is_stored(key):
    with pytest.raises(InvalidCall, match="key"):
        workflows.start(Holder, key=key)
    assert not Instance.objects.exists()


def test_instances_without_a_key_do_not_collide():
    assert len({workflows.start(Holder).id for _ in range(3)}) == 3


def test_a_start_that_was_rolled_back_leaves_its_key_free():
    with transaction.atomic():
        workflows.start(Holder, key="k")
        transaction.set_rollback(True)
    workflows.start(Holder, key="k")


# start_many


def test_start_many_raises_for_a_taken_key_and_starts_none():
    first = workflows.start(Holder, key="b")
    with pytest.raises(DuplicateKey) as caught:
        workflows.start_many(Holder, [{}] * 3, keys=["a", "b", None])
    assert caught.value.instance == first
    assert Instance.objects.count() == 1


def test_start_many_raises_for_a_key_given_twice_and_starts_none():
    with pytest.raises(DuplicateKey):
        workflows.start_many(Holder, [{}] * 2, keys=["a", "a"])
    assert not Instance.objects.exists()


def test_start_many_can_return_the_holders_instead():
    first = workflows.start(Holder, {"n": 0}, key="b")
    found = workflows.start_many(
        Holder, [{"n": n} for n in range(4)], keys=["a", "b", "a", None], on_duplicate="return"
    )
    assert [one.key for one in found] == ["a", "b", "a", None]
    assert found[1] == first
    assert found[0] == found[2]
    assert [one.input["n"] for one in found] == [0, 0, 0, 3]
    assert Instance.objects.count() == 3


def test_start_many_wants_a_key_for_each_input_or_none_at_all():
    with pytest.raises(InvalidCall, match="2 entries for 3 inputs"):
        workflows.start_many(Holder, [{}] * 3, keys=["a", "b"])
    with pytest.raises(InvalidCall, match="on_duplicate"):
        workflows.start_many(Holder, [{}], on_duplicate="ignore")


# retry and children


def test_a_failed_instance_whose_key_was_taken_again_cannot_be_retried():
    first = workflows.start(Holder, key="k")
    drain()
    end(first, "failed")
    second = workflows.start(Holder, key="k")
    with pytest.raises(NotRetryable, match="another live instance holds the key 'k'"):
        workflows.retry(first)
    first.refresh_from_db()
    assert first.status == "failed"
    workflows.cancel(second)
    workflows.retry(first)
    with pytest.raises(DuplicateKey) as caught:
        workflows.start(Holder, key="k")
    assert caught.value.instance == first


def test_a_refused_retry_does_not_break_the_callers_transaction():
    first = workflows.start(Holder, key="k")
    drain()
    end(first, "failed")
    with transaction.atomic():
        workflows.start(Holder, key="k")
        with pytest.raises(NotRetryable):
            workflows.retry(first)
        workflows.start(Holder, key="k2")
    assert Instance.objects.count() == 3


def test_a_child_whose_key_is_taken_is_duplicate_key_to_handle_and_nothing_is_spawned():
    class Mother(Workflow):
        @step
        def bear(self, ctx):
            return Spawn([Child(Holder), Child(Holder, key="taken")], then="bear")

        def handle(self, error, ctx):
            return Done([type(error).__name__, str(error.instance.id)])

    holder = workflows.start(Holder, key="taken")
    mother = workflows.start(Mother)
    drain()
    assert_done(mother, ["DuplicateKey", str(holder.id)])
    assert Instance.objects.count() == 2


def test_a_childs_key_addresses_the_child():
    class Mother(Workflow):
        @step
        def bear(self, ctx):
            return Spawn([Child(Holder, key="child")], then="after")

        @step
        def after(self, ctx):
            return Done([child.key for child in ctx.children])

    mother = workflows.start(Mother)
    drain()
    workflows.signal("child", "end", "done")
    drain()
    assert_done(mother, ["child"])
    with pytest.raises(NoTarget):
        workflows.signal("child", "end")


def test_a_live_holder_is_addressed_by_key_in_cancel_and_result():
    first = workflows.start(Holder, key="k")
    drain()
    assert_awaiting(first, "end")
    assert workflows.cancel("k").id == first.id
    with pytest.raises(NoTarget):
        workflows.cancel("k")
