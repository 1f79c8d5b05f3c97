"""Spawn: children, the barrier they form, and how their ends reach the parent."""

from typing import Any

import pytest
from django.db import connections

import workflows
from workflows import Await, Child, Done, DuplicateKey, Next, Retry, Spawn, Stop, Workflow, engine, step, store
from workflows.engine.author_calls import Host
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent
from workflows.store import Commit, Kind
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


class Worker(Workflow):
    """Ends as its input says, at once or when it is told."""

    name = "ChildWorker"

    @step
    def begin(self, ctx):
        return Await("finish", then="end") if ctx.input.get("wait") else Next("end")

    @step
    def end(self, ctx):
        how = ctx.input.get("how", "done")
        if how == "raise":
            raise ValueError("broke")
        return Stop("as asked") if how == "stop" else Done(ctx.input.get("n"))


class Boss(Workflow):
    """Spawns what its input lists and tells how it ended."""

    name = "ChildBoss"

    @step
    def begin(self, ctx):
        return Spawn([Child(Worker, one, key=one.get("key")) for one in ctx.input["children"]], then="end")

    @step
    def end(self, ctx):
        return Done([[c.status, c.result, c.error] for c in ctx.children])


def boss(*children: dict[str, Any]) -> Instance:
    instance = workflows.start(Boss, {"children": list(children)})
    drain()
    instance.refresh_from_db()
    return instance


def assert_awaiting_children(instance: Instance, pending: int) -> None:
    instance.refresh_from_db()
    assert (instance.status, instance.pending) == (Status.AWAITING_CHILDREN, pending)


# --- the barrier ------------------------------------------------------------------------------------


def test_the_parent_goes_on_when_all_children_have_ended() -> None:
    parent = boss({"n": 0, "wait": True}, {"n": 1, "wait": True}, {"n": 2, "wait": True})
    for left, child in zip((3, 2, 1), reversed(parent.children.order_by("id")), strict=True):
        assert_awaiting_children(parent, left)
        workflows.signal(child, "finish")
        drain()
    assert_done(parent, [["done", 0, None], ["done", 1, None], ["done", 2, None]])


def test_ctx_children_keep_the_order_in_which_they_were_spawned() -> None:
    parent = boss(*({"n": n, "wait": n % 2 == 0} for n in range(40)))
    for child in parent.children.filter(status="awaiting").order_by("-id"):
        workflows.signal(child, "finish")
        drain()
    assert [one[1] for one in assert_done(parent).result] == list(range(40))


def test_a_child_has_id_workflow_key_status_result_and_error() -> None:
    class ChildFields(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"n": 1}, key="c1"), Child("ChildWorker", {"how": "stop"})], then="b")

        @step
        def b(self, ctx):
            return Done([[str(c.id), c.workflow, c.key, c.status, c.result, c.error] for c in ctx.children])

    parent = workflows.start(ChildFields)
    drain()
    ids = [str(pk) for pk in parent.children.order_by("id").values_list("pk", flat=True)]
    assert_done(
        parent,
        [
            [ids[0], "ChildWorker", "c1", "done", 1, None],
            [ids[1], "ChildWorker", None, "failed", None, "as asked"],
        ],
    )


def test_children_are_ordinary_instances_with_a_parent_in_its_workspace() -> None:
    workflows.workspace.create("acme")
    parent = workflows.start(Boss, {"children": [{"wait": True}]}, workspace="acme")
    drain()
    child = parent.children.get()
    assert (child.parent, child.workspace.slug, child.input) == (parent, "acme", {"wait": True})
    assert child.events.first().kind == "started"
    assert workflows.start(Worker).parent is None


def test_many_children_are_spawned_and_counted() -> None:
    parent = boss(*({"n": n} for n in range(110)))
    assert len(assert_done(parent).result) == 110


def test_zero_children_continue_at_once() -> None:
    parent = workflows.start(Boss, {"children": []})
    assert sum(drain().values()) == 2
    assert_done(parent, [])
    assert not Instance.objects.filter(parent=parent).exists()


def test_a_child_without_an_input_has_an_empty_one() -> None:
    class ChildNoInput(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker)], then="b")

        @step
        def b(self, ctx):
            return Done()

    parent = workflows.start(ChildNoInput)
    drain()
    assert parent.children.get().input == {}


def test_spawn_consumes_what_the_step_was_handed() -> None:
    class ChildConsumes(Workflow):
        @step
        def a(self, ctx):
            return Await("go", then="b")

        @step
        def b(self, ctx):
            return Spawn([Child(Worker)] if ctx.input["some"] else [], then="c")

        @step
        def c(self, ctx):
            return Done([s.name for s in ctx.inbox])

    for some in (True, False):
        parent = workflows.start(ChildConsumes, {"some": some})
        drain()
        workflows.signal(parent, "other")
        workflows.signal(parent, "go")
        drain()
        assert_done(parent, ["other"])


def test_a_parent_takes_signals_while_it_waits_for_its_children() -> None:
    parent = boss({"wait": True})
    assert not workflows.signal(parent, "anything").woke
    assert drain() == {}
    assert_awaiting_children(parent, 1)


# --- how children end -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "ended"),
    [("stop", ["failed", None, "as asked"]), ("raise", ["failed", None, "ValueError: broke"])],
)
def test_a_failed_child_has_ended_and_the_parent_decides(how: str, ended: list[Any]) -> None:
    parent = boss({"n": 1}, {"how": how})
    assert_done(parent, [["done", 1, None], ended])


def test_a_cancelled_child_counts_its_parent_down() -> None:
    parent = boss({"n": 1}, {"wait": True}, {"wait": True})
    first, second = parent.children.filter(status="awaiting").order_by("id")
    workflows.cancel(first, "not needed")
    assert_awaiting_children(parent, 1)
    workflows.cancel(second)
    drain()
    assert_done(parent, [["done", 1, None], ["cancelled", None, "not needed"], ["cancelled", None, ""]])


def test_a_child_cancelled_while_it_runs_counts_its_parent_down_once() -> None:
    class ChildCancelsItself(Workflow):
        @step
        def a(self, ctx):
            workflows.cancel(ctx.id)
            return Done("too late")

    class ChildCancelParent(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(ChildCancelsItself), Child(Worker, {"wait": True})], then="b")

        @step
        def b(self, ctx):
            return Done([c.status for c in ctx.children])

    parent = workflows.start(ChildCancelParent)
    drain()
    assert_awaiting_children(parent, 1)
    workflows.signal(parent.children.get(workflow="ChildWorker"), "finish")
    drain()
    assert_done(parent, ["cancelled", "done"])


def test_a_waiting_parent_is_counted_down_once() -> None:
    parent = boss({"wait": True, "n": 1}, {"wait": True, "n": 2})
    child = parent.children.order_by("id").first()
    workflows.signal(child, "finish")
    db = connections["default"]
    [stale] = store.claim(db, 1, lease=0.0)
    store.reclaim(db)
    drain()
    assert_awaiting_children(parent, 1)
    for kind in (Kind.DONE, Kind.STOP):
        engine.settle(db, [Commit(stale, kind, result="1", error="stale")])
    with pytest.raises(workflows.NotCancellable):
        workflows.cancel(child)
    assert_awaiting_children(parent, 1)


def test_children_that_end_in_one_batch_are_all_counted() -> None:
    parent = boss(*({"wait": True, "n": n} for n in range(3)))
    for child in parent.children.all():
        workflows.signal(child, "finish")
    db = connections["default"]
    claims = store.claim(db, 10)
    ended = engine.settle(db, [engine.run(one, Host(db, "default")) for one in claims])
    assert len(ended) == 3
    events = LedgerEvent.objects.filter(instance=parent, kind="child_ended")
    assert [one.data for one in events] == [3]
    drain()
    assert_done(parent, [["done", 0, None], ["done", 1, None], ["done", 2, None]])


def test_the_same_batch_may_end_children_of_several_parents() -> None:
    parents = [boss({"wait": True, "n": n}) for n in range(3)]
    for child in Instance.objects.filter(parent__isnull=False):
        workflows.signal(child, "finish")
    db = connections["default"]
    claims = store.claim(db, 10)
    engine.settle(db, [engine.run(one, Host(db, "default")) for one in claims])
    drain()
    for n, parent in enumerate(parents):
        assert_done(parent, [["done", n, None]])


def test_a_child_that_retries_and_sleeps_has_not_ended() -> None:
    class ChildSlow(Workflow):
        @step
        def a(self, ctx):
            return Done(ctx.attempt) if ctx.attempt == 2 else Retry(delay="1m")

    class ChildPatient(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(ChildSlow)], then="b")

        @step
        def b(self, ctx):
            return Done(ctx.children[0].result)

    parent = workflows.start(ChildPatient)
    advance("1m")
    assert_awaiting_children(parent, 1)
    advance("1m")
    assert_done(parent, 2)


# --- trees ------------------------------------------------------------------------------------------


class Tree(Workflow):
    name = "ChildTree"

    @step
    def grow(self, ctx):
        depth = ctx.input["depth"]
        if not depth:
            return Await("fall", then="leaf")
        return Spawn([Child(Tree, {"depth": depth - 1})] * ctx.input.get("wide", 1), then="sum")

    @step
    def leaf(self, ctx):
        return Done(1)

    @step
    def sum(self, ctx):
        return Done(1 + sum(c.result or 0 for c in ctx.children))


def test_children_may_have_children() -> None:
    root = workflows.start(Tree, {"depth": 4, "wide": 2})
    drain()
    leaves = Instance.objects.filter(status="awaiting")
    assert leaves.count() == 2
    for leaf in leaves:
        workflows.signal(leaf, "fall")
    drain()
    assert_done(root, 9)


def test_cancelling_an_instance_cancels_all_its_children_in_one_go() -> None:
    root = workflows.start(Tree, {"depth": 3, "wide": 3})
    other = workflows.start(Tree, {"depth": 1})
    drain()
    workflows.cancel(root, "the whole tree", actor="ann")
    cancelled = Instance.objects.filter(status="cancelled")
    assert cancelled.count() == 10
    assert {one.error for one in cancelled} == {"the whole tree"}
    assert LedgerEvent.objects.filter(kind="cancelled", actor="ann").count() == 10
    assert drain() == {}
    assert_awaiting_children(other, 1)


def test_cancelling_a_branch_lets_the_rest_of_the_tree_go_on() -> None:
    root = workflows.start(Tree, {"depth": 2, "wide": 2})
    drain()
    branch = root.children.order_by("id").first()
    workflows.cancel(branch)
    assert_awaiting_children(root, 1)
    workflows.signal(Instance.objects.get(status="awaiting"), "fall")
    drain()
    assert_done(root, 3)


def test_children_that_had_ended_stay_as_they_were_when_the_parent_is_cancelled() -> None:
    parent = boss({"n": 1}, {"how": "stop"}, {"wait": True})
    workflows.cancel(parent)
    assert sorted(parent.children.values_list("status", flat=True)) == ["cancelled", "done", "failed"]


def test_an_ended_parent_is_not_moved_by_its_children() -> None:
    class ChildRestless(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"wait": True})], then="b")

        @step
        def b(self, ctx):
            return Done()

    parent = workflows.start(ChildRestless)
    drain()
    workflows.cancel(parent)
    before = Instance.objects.filter(pk=parent.pk).values().get()
    drain()
    assert Instance.objects.filter(pk=parent.pk).values().get() == before


# --- spawning more than once --------------------------------------------------------------------------


def test_ctx_children_are_those_of_the_latest_spawn() -> None:
    class ChildTwice(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"n": n}) for n in (1, 2)], then="b", state=[])

        @step
        def b(self, ctx):
            return Spawn([Child(Worker, {"n": 3})], then="c", state=[[c.result for c in ctx.children]])

        @step
        def c(self, ctx):
            return Next("d", [*ctx.state, [c.result for c in ctx.children]])

        @step
        def d(self, ctx):
            return Done([*ctx.state, [c.result for c in ctx.children]])

    parent = workflows.start(ChildTwice)
    drain()
    assert_done(parent, [[1, 2], [3], [3]])


def test_ctx_children_are_none_after_a_spawn_of_none() -> None:
    class ChildThenNone(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"n": 1})], then="b")

        @step
        def b(self, ctx):
            return Spawn([], then="c")

        @step
        def c(self, ctx):
            return Done([c.result for c in ctx.children])

    parent = workflows.start(ChildThenNone)
    drain()
    assert_done(parent, [])


def test_ctx_children_are_none_before_any_spawn() -> None:
    class ChildNever(Workflow):
        @step
        def a(self, ctx):
            return Done(list(ctx.children))

    instance = workflows.start(ChildNever)
    drain()
    assert_done(instance, [])


def test_ctx_children_come_again_when_the_step_is_retried() -> None:
    class ChildRetried(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"n": 7})], then="b")

        @step
        def b(self, ctx):
            return Done([c.result for c in ctx.children]) if ctx.attempt else Retry(delay=0)

    parent = workflows.start(ChildRetried)
    drain()
    assert_done(parent, [7])


def test_a_parent_may_spawn_again_and_again() -> None:
    class ChildRounds(Workflow):
        @step
        def a(self, ctx):
            done = [c.result for c in ctx.children]
            if done == [19]:
                return Done(done)
            return Spawn(
                [Child(Worker, {"n": ctx.state.get("n", 0)})], then="a", state={"n": ctx.state.get("n", 0) + 1}
            )

    parent = workflows.start(ChildRounds)
    drain()
    assert_done(parent, [19])
    assert parent.children.count() == 20


def test_a_parent_may_spawn_more_often_than_a_small_number_holds() -> None:
    class ChildYears(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"n": 1})], then="b")

        @step
        def b(self, ctx):
            return Done([c.result for c in ctx.children])

    parent = workflows.start(ChildYears)
    store.fetch(connections["default"], "UPDATE holdpoint_instance SET spawns = 32767 RETURNING 1", {})
    drain()
    assert_done(parent, [1])


# --- taken keys ---------------------------------------------------------------------------------------


class Keyed(Workflow):
    name = "ChildKeyed"
    errors: list[Exception] = []

    @step
    def a(self, ctx):
        return Spawn([Child(Worker, {"wait": True}, key=key) for key in ctx.input["keys"]], then="b")

    @step
    def b(self, ctx):
        return Done([c.key for c in ctx.children])

    def handle(self, error, ctx):
        Keyed.errors.append(error)
        return Stop(str(error))


def test_a_child_whose_key_is_taken_is_duplicate_key_to_handle_and_nothing_is_spawned() -> None:
    Keyed.errors.clear()
    holder = workflows.start(Worker, {"wait": True}, key="taken")
    drain()
    parent = workflows.start(Keyed, {"keys": ["free", None, "taken", "also free"]})
    drain()
    [error] = Keyed.errors
    assert isinstance(error, DuplicateKey)
    assert (error.key, error.instance) == ("taken", holder)
    assert_failed(parent, "taken")
    assert Instance.objects.count() == 2
    assert not Instance.objects.filter(key__in=["free", "also free"]).exists()
    assert not LedgerEvent.objects.filter(kind="spawned").exists()


def test_handle_may_spawn_again_with_other_keys() -> None:
    class ChildKeyRepair(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Worker, {"n": 1}, key="taken")], then="b")

        @step
        def b(self, ctx):
            return Done([c.key for c in ctx.children])

        def handle(self, error, ctx):
            return Spawn([Child(Worker, {"n": 1}, key=f"{error.key}-2")], then="b")

    workflows.start(Worker, {"wait": True}, key="taken")
    parent = workflows.start(ChildKeyRepair)
    drain()
    assert_done(parent, ["taken-2"])


def test_a_parent_cannot_give_its_own_key_to_a_child() -> None:
    Keyed.errors.clear()
    parent = workflows.start(Keyed, {"keys": ["mine"]}, key="mine")
    drain()
    assert_failed(parent, "mine")
    assert Keyed.errors[0].instance == parent


def test_a_childs_key_addresses_it_and_is_free_again_when_it_ends() -> None:
    parent = workflows.start(Keyed, {"keys": ["c1", "c2"]})
    drain()
    for key in ("c1", "c2"):
        assert workflows.signal(key, "finish").woke
    drain()
    assert_done(parent, ["c1", "c2"])
    assert workflows.start(Worker, key="c1").key == "c1"


def test_a_childs_key_may_be_held_in_another_workspace() -> None:
    workflows.workspace.create("acme")
    workflows.start(Worker, {"wait": True}, key="c1", workspace="acme")
    parent = workflows.start(Keyed, {"keys": ["c1"]})
    drain()
    assert_awaiting_children(parent, 1)


# --- atomicity ----------------------------------------------------------------------------------------


def test_a_spawn_whose_claim_was_lost_starts_no_children() -> None:
    class ChildLost(Workflow):
        @step
        def a(self, ctx):
            workflows.cancel(ctx.id)
            return Spawn([Child(Worker)], then="b")

        @step
        def b(self, ctx):
            return Done()

    workflows.start(ChildLost)
    drain()
    assert Instance.objects.get().status == Status.CANCELLED


def test_children_and_park_are_one_commit() -> None:
    parent = boss({"wait": True}, {"wait": True})
    spawned = parent.events.get(kind="spawned")
    assert spawned.data == {"children": 2}
    assert (spawned.status, spawned.name) == (Status.AWAITING_CHILDREN, "end")
    assert {child.spawn_no for child in parent.children.all()} == {1}
    for child in parent.children.all():
        assert_awaiting(child, "finish")
