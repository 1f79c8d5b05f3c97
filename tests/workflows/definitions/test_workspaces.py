"""Workspaces: every call means exactly one, and never reaches into another."""

from __future__ import annotations

import threading

import pytest

import workflows
from workflows import Await, Child, Done, DuplicateKey, NoTarget, Spawn, UnknownWorkspace, Workflow, step
from workflows.exceptions import InvalidCall
from workflows.models import Instance, LedgerEvent, Signal, Workspace
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


class Waiter(Workflow):
    name = "workspaces.waiter"

    @step
    def ask(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done(ctx.workspace)


@pytest.fixture
def acme() -> Workspace:
    return workflows.workspace.create("acme")


# Which one is meant


def test_there_is_a_default_workspace_that_needs_no_name():
    instance = workflows.start(Waiter)
    assert instance.workspace.slug == "default"
    workflows.signal(instance, "go")
    drain()
    assert_done(instance, "default")


def test_a_call_may_name_it(acme):
    assert workflows.start(Waiter, workspace="acme").workspace == acme
    [one] = workflows.start_many(Waiter, [{}], workspace="acme")
    assert one.workspace == acme


def test_inside_the_with_block_it_is_meant_and_afterwards_no_more(acme):
    with workflows.workspace("acme"):
        inside = workflows.start(Waiter, key="k")
        assert workflows.signal("k", "go").refused is None
    outside = workflows.start(Waiter, key="k")
    assert (inside.workspace.slug, outside.workspace.slug) == ("acme", "default")


def test_blocks_nest_and_a_named_one_wins(acme):
    workflows.workspace.create("inner")
    with workflows.workspace("acme"):
        with workflows.workspace("inner"):
            assert workflows.start(Waiter).workspace.slug == "inner"
            assert workflows.start(Waiter, workspace="default").workspace.slug == "default"
        assert workflows.start(Waiter).workspace.slug == "acme"


def test_the_block_ends_with_an_exception_too(acme):
    with pytest.raises(RuntimeError), workflows.workspace("acme"):
        raise RuntimeError
    assert workflows.start(Waiter).workspace.slug == "default"


def test_inside_a_step_it_is_the_instances(acme):
    class Starts(Workflow):
        @step
        def begin(self, ctx):
            other = workflows.start(Waiter, key="made-in-step")
            workflows.signal("made-in-step", "noise")
            return Done([ctx.workspace, other.workspace.slug])

    instance = workflows.start(Starts, workspace="acme")
    with workflows.workspace("default"):
        drain()
    assert_done(instance, ["acme", "acme"])
    assert Signal.objects.get().workspace == acme
    assert workflows.start(Waiter).workspace.slug == "default"


def test_children_belong_to_their_parents_workspace(acme):
    class Mother(Workflow):
        @step
        def bear(self, ctx):
            return Spawn([Child(Waiter, key="child")], then="end")

        @step
        def end(self, ctx):
            return Done()

    workflows.start(Mother, workspace="acme")
    drain()
    assert set(Instance.objects.values_list("workspace__slug", flat=True)) == {"acme"}
    with pytest.raises(NoTarget):
        workflows.signal("child", "go")
    assert workflows.signal("child", "go", workspace="acme").woke


def test_rows_below_an_instance_carry_its_workspace(acme):
    instance = workflows.start(Waiter, workspace="acme")
    workflows.signal(instance, "go")
    drain()
    assert set(LedgerEvent.objects.values_list("workspace_id", flat=True)) == {acme.id}
    assert set(Signal.objects.values_list("workspace_id", flat=True)) == {acme.id}


def test_threads_do_not_see_each_others_block(acme):
    seen = []
    with workflows.workspace("acme"):
        from workflows.definitions.workspace import current_workspace

        thread = threading.Thread(target=lambda: seen.append(current_workspace()))
        thread.start()
        thread.join()
        assert current_workspace() == "acme"
    assert seen == ["default"]


# A slug that does not exist


@pytest.mark.parametrize(
    "call",
    [
        lambda: workflows.start(Waiter, workspace="nowhere"),
        lambda: workflows.start_many(Waiter, [{}], workspace="nowhere"),
        lambda: workflows.start_many(Waiter, [{}], keys=["k"], workspace="nowhere", on_duplicate="return"),
        lambda: workflows.signal("k", "go", workspace="nowhere"),
        lambda: workflows.signal_many([("k", "go")], workspace="nowhere"),
        lambda: workflows.cancel("k", workspace="nowhere"),
        lambda: workflows.result("k", workspace="nowhere"),
        lambda: workflows.retry(Instance.objects.get(key="k"), workspace="nowhere"),
    ],
    ids=["start", "start_many", "start_many-return", "signal", "signal_many", "cancel", "result", "retry"],
)
def test_a_slug_that_does_not_exist_is_an_error_at_every_call(call):
    workflows.start(Waiter, key="k")
    with pytest.raises(UnknownWorkspace, match=r"no workspace 'nowhere'; make it with workflows.workspace.create"):
        call()
    assert Instance.objects.count() == 1
    assert not Signal.objects.exists()


def test_a_block_with_a_slug_that_does_not_exist_is_an_error_at_the_first_call_in_it():
    with workflows.workspace("nowhere"), pytest.raises(UnknownWorkspace):
        workflows.start(Waiter, key="k")


@pytest.mark.parametrize("slug", ["", " ", None, 5, "nul\0"])
def test_what_is_no_slug_is_refused(slug):
    with pytest.raises(InvalidCall, match="slug"), workflows.workspace(slug):
        pass


# Making one


def test_create_returns_the_first_one_again(acme):
    assert workflows.workspace.create("acme") == acme
    assert workflows.workspace.create("named", name="A name").name == "A name"
    assert Workspace.objects.count() == 3


@pytest.mark.parametrize("slug", ["a b", "a/b", "ä", "", "x" * 101, "a.b", None])
def test_create_refuses_what_is_no_slug(slug):
    with pytest.raises(InvalidCall):
        workflows.workspace.create(slug)


# Keys, and tenants that do not see each other


def test_keys_are_unique_per_workspace_and_address_only_there(acme):
    here = workflows.start(Waiter, key="k")
    there = workflows.start(Waiter, key="k", workspace="acme")
    with pytest.raises(DuplicateKey) as caught:
        workflows.start(Waiter, key="k", workspace="acme")
    assert caught.value.instance == there
    drain()
    workflows.signal("k", "go", workspace="acme")
    drain()
    assert_done(there)
    assert_awaiting(here, "go")


def test_a_foreign_instance_is_no_target_by_uuid_or_key(acme):
    foreign = workflows.start(Waiter, key="k", workspace="acme")
    drain()
    for target in (foreign.id, "k"):
        with pytest.raises(NoTarget):
            workflows.signal(target, "go")
        with pytest.raises(NoTarget):
            workflows.cancel(target)
        with pytest.raises(NoTarget):
            workflows.result(target)
    with pytest.raises(NoTarget):
        workflows.retry(foreign.id)
    assert [answer.refused for answer in workflows.signal_many([(foreign.id, "go"), ("k", "go")])] == ["no_target"] * 2
    assert_awaiting(foreign, "go")
    assert not Signal.objects.exists()


def test_an_instance_object_says_itself_where_it_lives(acme):
    foreign = workflows.start(Waiter, workspace="acme")
    drain()
    assert workflows.signal(foreign, "go").woke


def test_an_instance_object_is_refused_by_a_call_that_names_another_workspace(acme):
    foreign = workflows.start(Waiter, workspace="acme")
    drain()
    with pytest.raises(NoTarget):
        workflows.signal(foreign, "go", workspace="default")
    assert workflows.signal_many([(foreign, "go")], workspace="default")[0].refused == "no_target"
    with pytest.raises(NoTarget):
        workflows.cancel(foreign, workspace="default")
    assert_awaiting(foreign, "go")


def test_a_step_does_not_reach_a_foreign_instance_by_its_uuid(acme):
    class Reaches(Workflow):
        @step
        def reach(self, ctx):
            from uuid import UUID

            try:
                workflows.signal(UUID(ctx.input["target"]), "go")
            except NoTarget:
                return Done("refused")
            return Done("reached")

    home = workflows.start(Waiter)
    drain()
    instance = workflows.start(Reaches, {"target": str(home.id)}, workspace="acme")
    drain()
    assert_done(instance, "refused")
    assert_awaiting(home, "go")


def test_a_duplicate_is_not_told_to_a_foreign_workspace(acme):
    foreign = workflows.start(Waiter, workspace="acme")
    workflows.signal(foreign, "go", dedup_key="evt")
    with pytest.raises(NoTarget):
        workflows.signal(foreign.id, "go", dedup_key="evt")
    [answer] = workflows.signal_many([(foreign.id, "go", None, "evt")])
    assert (answer.id, answer.refused) == (None, "no_target")
