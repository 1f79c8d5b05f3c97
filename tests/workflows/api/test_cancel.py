"""cancel: a whole tree at once, against whatever a worker is doing."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.races import COMMITTED, Refused, forget, play, race, settle, take, take_one
from workflows import (
    Await,
    Child,
    Done,
    InstanceCancelled,
    NoTarget,
    NotCancellable,
    NotRetryable,
    Spawn,
    Stop,
    Workflow,
    step,
    store,
)
from workflows.exceptions import InvalidCall
from workflows.models import Instance, Signal
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


class Leaf(Workflow):
    name = "cancel.leaf"

    @step
    def ask(self, ctx):
        return Await("go", then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done("leaf")


class Node(Workflow):
    """Spawns `width` children, nodes down to `depth`; then tells how they ended."""

    name = "cancel.node"

    @step
    def bear(self, ctx):
        depth, width = ctx.input["depth"], ctx.input.get("width", 2)
        kind = Leaf if depth == 1 else Node
        return Spawn([Child(kind, {"depth": depth - 1, "width": width}) for _ in range(width)], then="tell")

    @step
    def tell(self, ctx):
        return Done([[child.status, child.error] for child in ctx.children])


def tree(depth: int = 1, width: int = 2) -> Instance:
    root = workflows.start(Node, {"depth": depth, "width": width})
    drain()
    root.refresh_from_db()
    assert root.status == "awaiting_children"
    return root


def kinds(instance: Instance) -> list[str]:
    return [str(event.kind) for event in instance.events.all()]


# One instance


def test_a_parked_instance_is_cancelled_with_the_reason_and_who_did_it():
    instance = workflows.start(Leaf, key="k")
    drain()
    cancelled = workflows.cancel("k", "customer withdrew", actor="alice")
    assert (cancelled.id, cancelled.status, cancelled.error) == (
        instance.id,
        "cancelled",
        "customer withdrew",
    )
    assert cancelled.finished_at is not None
    assert cancelled.due_at is None
    last = cancelled.events.last()
    assert (last.kind, last.actor, last.data, last.status) == (
        "cancelled",
        "alice",
        "customer withdrew",
        "cancelled",
    )


def test_without_a_reason_the_error_is_empty():
    instance = workflows.cancel(workflows.start(Leaf))
    assert instance.error == ""
    with pytest.raises(InstanceCancelled, match=r"was cancelled$"):
        workflows.result(instance)


def test_result_of_a_cancelled_instance_raises_with_the_reason():
    instance = workflows.cancel(workflows.start(Leaf), "no longer wanted")
    with pytest.raises(InstanceCancelled, match="no longer wanted") as caught:
        workflows.result(instance)
    assert caught.value.instance == instance


@pytest.mark.parametrize("state", ["runnable", "sleeping", "awaiting"])
def test_an_instance_may_be_cancelled_wherever_it_stands(state):
    from django.utils import timezone

    run_at = timezone.now() + timezone.timedelta(hours=1) if state == "sleeping" else None
    instance = workflows.start(Leaf, run_at=run_at)
    if state == "awaiting":
        drain()
        instance.refresh_from_db()
    assert instance.status == state
    assert workflows.cancel(instance).status == "cancelled"
    assert advance("2h") == {}


def test_a_cancelled_instance_takes_no_signal_and_its_inbox_is_closed():
    instance = workflows.start(Leaf)
    workflows.signal(instance, "noise")
    workflows.cancel(instance)
    with pytest.raises(NoTarget):
        workflows.signal(instance, "go")
    assert Signal.objects.filter(instance=instance).count() == 1
    assert drain() == {}


# What has ended stays


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_what_has_ended_is_not_cancellable_and_unchanged(how):
    class Ends(Workflow):
        @step
        def only(self, ctx):
            return Done(1) if how == "done" else Stop("no")

    instance = workflows.start(Ends)
    if how == "cancelled":
        workflows.cancel(instance, "first")
    drain()
    before = Instance.objects.filter(pk=instance.pk).values().get()
    assert Instance.objects.get(pk=instance.pk).status == how
    with pytest.raises(NotCancellable, match=f"is {how} already") as caught:
        workflows.cancel(instance, "second")
    assert caught.value.status == how
    assert Instance.objects.filter(pk=instance.pk).values().get() == before


def test_a_cancelled_instance_cannot_be_retried():
    instance = workflows.cancel(workflows.start(Leaf))
    with pytest.raises(NotRetryable, match="cancelled"):
        workflows.retry(instance)


@pytest.mark.parametrize("target", [UUID(int=1), "nobody"])
def test_an_unknown_target_is_no_target(target):
    with pytest.raises(NoTarget):
        workflows.cancel(target)


@pytest.mark.parametrize("reason", ["nul\0", "\ud800", "x" * 10_001, None])
def test_a_reason_that_cannot_be_stored_is_refused(reason):
    instance = workflows.start(Leaf)
    with pytest.raises(InvalidCall, match="reason"):
        workflows.cancel(instance, reason)
    instance.refresh_from_db()
    assert instance.status == "runnable"


def test_a_cancel_in_a_transaction_that_is_rolled_back_never_was():
    root = tree()
    with transaction.atomic():
        workflows.cancel(root)
        transaction.set_rollback(True)
    assert set(Instance.objects.values_list("status", flat=True)) == {"awaiting_children", "awaiting"}


# A running one


def test_the_outcome_of_a_worker_whose_instance_was_cancelled_changes_nothing():
    instance = workflows.start(Leaf)
    workflows.signal(instance, "noise")
    outcome = play(take_one())
    workflows.cancel(instance, "stop it")
    before = Instance.objects.filter(pk=instance.pk).values().get()
    assert not settle(outcome)
    assert Instance.objects.filter(pk=instance.pk).values().get() == before
    assert kinds(instance)[-1] == "cancelled"
    assert before["error"] == "stop it"


def test_a_finished_step_of_a_cancelled_child_does_not_count_its_parent_down_again():
    root = tree(width=2)
    one, two = Instance.objects.filter(parent=root).order_by("id")
    workflows.signal(one, "go")
    outcome = play(take_one())
    workflows.cancel(one)
    assert not settle(outcome)
    root.refresh_from_db()
    assert (root.status, root.pending) == ("awaiting_children", 1)
    workflows.signal(two, "go")
    drain()
    assert_done(root, [["cancelled", ""], ["done", None]])


def test_an_atomic_steps_writes_are_undone_when_its_instance_was_cancelled_meanwhile():
    class Writes(Workflow):
        @step(atomic=True)
        def write(self, ctx):
            workflows.workspace.create("written")
            workflows.cancel(ctx.id, "by itself")
            return Done()

    instance = workflows.start(Writes)
    assert play(take_one()) is store.RunEnd.LOST
    instance.refresh_from_db()
    # The cancellation was part of the step's own transaction, and went with it.
    assert instance.status == "running"
    assert not workflows.models.Workspace.objects.filter(slug="written").exists()


def test_a_step_may_cancel_its_own_instance():
    class Quits(Workflow):
        @step
        def quit(self, ctx):
            workflows.cancel(ctx.id, "had enough")
            return Done("ignored")

    instance = workflows.start(Quits)
    drain()
    instance.refresh_from_db()
    assert (instance.status, instance.error, instance.result) == ("cancelled", "had enough", None)


def test_a_cancelled_running_instance_is_neither_renewed_released_nor_reclaimed():
    instance = workflows.start(Leaf)
    claim = take_one()
    workflows.cancel(instance)
    db = connections["default"]
    assert store.renew(db, [claim]) == set()
    assert store.release(db, [claim]) == set()
    forget(claim)
    assert store.reclaim(db) == 0
    instance.refresh_from_db()
    assert instance.status == "cancelled"


# Trees


@pytest.mark.parametrize(("depth", "rows"), [(1, 3), (2, 7), (4, 31)])
def test_cancelling_an_instance_cancels_its_whole_tree(depth, rows):
    root = tree(depth)
    workflows.cancel(root, "all of it", actor="alice")
    assert Instance.objects.count() == rows
    assert set(Instance.objects.values_list("status", "error", "due_at")) == {("cancelled", "all of it", None)}
    for instance in Instance.objects.all():
        assert kinds(instance).count("cancelled") == 1
        assert "child_ended" not in kinds(instance)
        assert instance.events.last().actor == "alice"
    assert drain() == {}


def test_children_that_had_ended_keep_their_ends():
    root = tree(width=3)
    one, two, three = Instance.objects.filter(parent=root).order_by("id")
    workflows.signal(one, "go")
    drain()
    workflows.cancel(root)
    assert [child.status for child in (refreshed(one), refreshed(two), refreshed(three))] == [
        "done",
        "cancelled",
        "cancelled",
    ]
    assert refreshed(one).result == "leaf"


def test_a_live_grandchild_below_an_ended_parent_of_the_tree_is_cancelled_too():
    # A tree of which every level is at another status: runnable, running, awaiting, sleeping.
    root = tree(2)
    for leaf in Instance.objects.filter(workflow="cancel.leaf")[:2]:
        workflows.signal(leaf, "go")
    claims = take(1)
    workflows.cancel(root)
    assert not Instance.objects.live().exists()
    assert not settle(play(claims[0]))
    assert not Instance.objects.live().exists()


def test_a_cancelled_child_counts_its_parent_down():
    root = tree(width=2)
    one, two = Instance.objects.filter(parent=root).order_by("id")
    workflows.cancel(one, "not this one")
    root.refresh_from_db()
    assert (root.status, root.pending) == ("awaiting_children", 1)
    workflows.cancel(two, "nor that")
    root.refresh_from_db()
    assert (root.status, root.pending) == ("runnable", 0)
    drain()
    assert_done(root, [["cancelled", "not this one"], ["cancelled", "nor that"]])
    assert kinds(root).count("child_ended") == 2


def test_a_cancelled_subtree_counts_its_parent_down_once():
    root = tree(2, width=2)
    branch = Instance.objects.filter(parent=root).order_by("id").first()
    workflows.cancel(branch)
    root.refresh_from_db()
    assert (root.status, root.pending) == ("awaiting_children", 1)
    assert Instance.objects.live().count() == 4
    assert kinds(root).count("child_ended") == 1


def test_an_only_child_cancelled_wakes_its_parent_at_once():
    root = tree(width=1)
    workflows.cancel(Instance.objects.get(parent=root))
    assert drain() == {"done": 1}
    assert_done(root, [["cancelled", ""]])


def test_a_child_cannot_be_cancelled_twice_nor_counted_twice():
    root = tree(width=2)
    one = Instance.objects.filter(parent=root).first()
    workflows.cancel(one)
    with pytest.raises(NotCancellable):
        workflows.cancel(one)
    root.refresh_from_db()
    assert root.pending == 1


def test_neighbours_are_left_alone():
    root, other = tree(), tree()
    loner = workflows.start(Leaf)
    drain()
    workflows.cancel(root)
    assert_awaiting(loner, "go")
    assert refreshed(other).status == "awaiting_children"
    assert Instance.objects.live().count() == 4


def test_the_keys_of_a_whole_tree_are_free_again():
    class Mother(Workflow):
        @step
        def bear(self, ctx):
            return Spawn([Child(Leaf, key="child")], then="bear")

    mother = workflows.start(Mother, key="mother")
    drain()
    workflows.cancel(mother)
    workflows.start(Leaf, key="mother")
    workflows.start(Leaf, key="child")


def refreshed(instance: Instance) -> Instance:
    return Instance.objects.get(pk=instance.pk)


# What it costs, and whom it meets

FAMILIES = """
    WITH parents AS (
      INSERT INTO holdpoint_instance SELECT (jsonb_populate_record(i, jsonb_build_object(
        'id', gen_random_uuid(), 'key', NULL))).* FROM holdpoint_instance i, generate_series(1, 20) WHERE i.id = %(id)s
      RETURNING id
    )
    INSERT INTO holdpoint_instance SELECT (jsonb_populate_record(i, jsonb_build_object(
      'id', gen_random_uuid(), 'key', NULL, 'parent_id', p.id, 'spawn_no', 1))).*
    FROM holdpoint_instance i, parents p, generate_series(1, 200) WHERE i.id = %(id)s
"""


def test_finding_the_descendants_reads_no_table_however_large_other_families_are():
    root = tree(width=1)
    with connection.cursor() as cursor:
        cursor.execute(FAMILIES, {"id": root.pk})
        cursor.execute("ANALYZE holdpoint_instance")
    with CaptureQueriesContext(connections["default"]) as captured:
        workflows.cancel(root)
    looked = [one["sql"] for one in captured if "RECURSIVE" in one["sql"]]
    assert looked
    with connection.cursor() as cursor:  # an ordinary one: it may read whole tables, if it thinks it must
        for sql in looked:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert "Seq Scan" not in plan, plan
            assert "holdpoint_children" in plan, plan
    assert Instance.objects.filter(status="cancelled").count() == 2


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_key_that_changes_hands_while_we_wait_means_its_new_holder():
    first = workflows.start(Leaf, key="k")

    def hand_over() -> UUID:
        workflows.cancel(first, "makes room")
        return workflows.start(Leaf, key="k").pk

    second, cancelled = race(hand_over, lambda: workflows.cancel("k", "meant whoever has it").pk)
    assert cancelled == second
    errors = Instance.objects.in_bulk([first.pk, second])
    assert {id: one.error for id, one in errors.items()} == {first.pk: "makes room", second: "meant whoever has it"}


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_key_that_nobody_holds_any_more_once_we_have_waited_is_no_target():
    first = workflows.start(Leaf, key="k")
    _, cancelled = race(lambda: workflows.cancel(first), lambda: workflows.cancel("k"))
    assert cancelled == Refused(NoTarget)
