"""Defining workflows: what a class must be, how it is found again, and how versions live together."""

import subprocess
import sys
from typing import Any

import pytest
from django.db import connections

import workflows
from workflows import (
    Await,
    Done,
    DuplicateWorkflow,
    InvalidDefinition,
    InvalidDuration,
    Next,
    UnknownWorkflow,
    Workflow,
    engine,
    step,
    store,
)
from workflows.definitions import registry
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain
from workflows.values.back_off import PUT_BACK

pytestmark = pytest.mark.django_db


def define(label: str, /, **attributes: Any) -> Any:
    """A workflow class made from its attributes; one step `a` unless others are given."""

    def a(self, ctx):
        return Done()

    body = {"a": step(a), "__qualname__": f"define.<locals>.{label}", **attributes}
    return type(label, (Workflow,), body)


# --- names and versions ---------------------------------------------------------------------------


def test_the_name_defaults_to_the_class_name_and_the_version_to_1() -> None:
    class DefinitionPlain(Workflow):
        @step
        def a(self, ctx):
            return Done()

    assert (DefinitionPlain.definition.name, DefinitionPlain.definition.version) == ("DefinitionPlain", 1)
    assert registry.find("DefinitionPlain", 1) is DefinitionPlain.definition


def test_a_workflow_is_started_by_class_or_by_name() -> None:
    class DefinitionNamed(Workflow):
        name = "ship the order"
        version = 3

        @step
        def a(self, ctx):
            return Done()

    for given in (DefinitionNamed, "ship the order"):
        instance = workflows.start(given)
        assert (instance.workflow, instance.version) == ("ship the order", 3)


@pytest.mark.parametrize("given", ["DefinitionNobody", "", None, 5, object(), Workflow, Done, int])
def test_starting_what_is_no_workflow_says_so_and_stores_nothing(given: Any) -> None:
    with pytest.raises(UnknownWorkflow, match=r"no workflow .* is registered"):
        workflows.start(given)
    assert not Instance.objects.exists()


def test_an_unknown_workflow_is_told_which_ones_there_are() -> None:
    define("DefinitionKnown")
    with pytest.raises(UnknownWorkflow, match="DefinitionKnown"):
        workflows.start("DefinitionUnknown")


def test_a_name_means_the_highest_version_and_a_class_its_own() -> None:
    first = define("DefinitionVersions", version=1)
    define("DefinitionVersions3", name="DefinitionVersions", version=3)
    define("DefinitionVersions2", name="DefinitionVersions", version=2)
    assert workflows.start("DefinitionVersions").version == 3
    assert workflows.start(first).version == 1


def test_two_versions_live_side_by_side() -> None:
    class DefinitionOld(Workflow):
        name = "DefinitionSide"

        @step
        def ask(self, ctx):
            return Await("go", then="end")

        @step
        def end(self, ctx):
            return Done("old")

    instance = workflows.start("DefinitionSide")
    drain()

    class DefinitionNew(Workflow):
        name = "DefinitionSide"
        version = 2

        @step
        def begin(self, ctx):
            return Done("new")

    newer = workflows.start("DefinitionSide")
    drain()
    assert_done(newer, "new")
    assert_awaiting(instance, "go")
    workflows.signal(instance, "go")
    drain()
    assert_done(instance, "old")


def test_a_second_owner_of_a_name_and_version_is_refused() -> None:
    class DefinitionTwice(Workflow):
        @step
        def a(self, ctx):
            return Done()

    with pytest.raises(DuplicateWorkflow, match=r"'DefinitionTwice' version 1 is defined twice, in .* and in "):

        class Other(Workflow):
            name = "DefinitionTwice"

            @step
            def a(self, ctx):
                return Done()

    assert registry.find("DefinitionTwice", 1) is DefinitionTwice.definition


def test_two_modules_cannot_own_one_name() -> None:
    define("DefinitionModules", __module__="shop.workflows", __qualname__="DefinitionModules")
    with pytest.raises(DuplicateWorkflow, match=r"shop\.workflows\.DefinitionModules and in mail\.workflows"):
        define("DefinitionModules", __module__="mail.workflows", __qualname__="DefinitionModules")


def test_a_module_that_is_loaded_again_replaces_its_own_definitions() -> None:
    for _ in range(2):
        again = define("DefinitionReload", __module__="shop.workflows", __qualname__="DefinitionReload")
    assert registry.resolve("DefinitionReload") is again.definition


@pytest.mark.parametrize("name", ["", "  ", 5, None, b"n", "a\0b", "\ud800", "x" * 201])
def test_a_name_must_be_usable_text(name: Any) -> None:
    with pytest.raises(InvalidDefinition, match="name"):
        define("DefinitionBadName", name=name)


@pytest.mark.parametrize("option", ["version", "max_attempts"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "2", None, True, 32_768])
def test_versions_and_attempts_are_whole_numbers_from_1(option: str, value: Any) -> None:
    with pytest.raises(InvalidDefinition, match=option):
        define("DefinitionBadOption", **{option: value})
    assert registry.find("DefinitionBadOption", 1) is None


@pytest.mark.parametrize("value", [0, -1, "soon", "", True, []])
def test_a_step_timeout_is_a_duration_above_zero(value: Any) -> None:
    with pytest.raises(InvalidDefinition, match="duration"):
        define("DefinitionBadTimeout", step_timeout=value)
    with pytest.raises(InvalidDuration):
        step(step_timeout=value)


def test_a_step_timeout_is_kept_per_workflow_and_per_step() -> None:
    class DefinitionTimeouts(Workflow):
        step_timeout = "30s"

        @step(step_timeout="5s")
        def a(self, ctx):
            return Done()

        @step
        def b(self, ctx):
            return Done()

    kept = DefinitionTimeouts.definition
    assert kept.step_timeout == 30
    assert [options.step_timeout for options in kept.steps.values()] == [5, None]


# --- steps ----------------------------------------------------------------------------------------


def test_the_first_step_declared_starts() -> None:
    class DefinitionFirst(Workflow):
        @step
        def z(self, ctx):
            return Done(ctx.step)

        @step
        def a(self, ctx):
            return Done(ctx.step)

    instance = workflows.start(DefinitionFirst)
    assert instance.step == "z"
    drain()
    assert_done(instance, "z")


def test_initial_names_another_first_step() -> None:
    class DefinitionInitial(Workflow):
        initial = "b"

        @step
        def a(self, ctx):
            return Done("a")

        @step
        def b(self, ctx):
            return Done("b")

    instance = workflows.start(DefinitionInitial)
    drain()
    assert_done(instance, "b")


@pytest.mark.parametrize("initial", ["nowhere", "", None, 5, "handle", "helper"])
def test_an_initial_that_is_no_step_is_refused_and_told_the_steps(initial: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"initial .* is none of its steps \(a\)"):
        define("DefinitionBadInitial", initial=initial, helper=lambda self: None)


def test_a_step_method_is_an_ordinary_method_too() -> None:
    class DefinitionMethods(Workflow):
        @step
        def a(self, ctx):
            return self.b(ctx)

        @step
        def b(self, ctx):
            return Done(self.label)

        label = "from the class"

    instance = workflows.start(DefinitionMethods)
    drain()
    assert_done(instance, "from the class")


def test_every_run_gets_an_object_of_its_own() -> None:
    class DefinitionFresh(Workflow):
        @step
        def a(self, ctx):
            self.left = True
            return Next("b")

        @step
        def b(self, ctx):
            return Done(hasattr(self, "left"))

    instance = workflows.start(DefinitionFresh)
    drain()
    assert_done(instance, False)


def test_async_generator_steps_are_refused_with_a_hint() -> None:
    with pytest.raises(InvalidDefinition, match=r"'a' is an async generator.*write return"):

        @step(atomic=True)
        async def a(self, ctx):
            yield Done()


def test_an_async_override_of_an_atomic_step_is_refused_with_a_hint() -> None:
    class DefinitionAsyncBase(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            return Done()

    with pytest.raises(InvalidDefinition, match="'a' is async and atomic"):

        class DefinitionAsyncOverride(DefinitionAsyncBase):
            async def a(self, ctx):
                return Done()


def test_a_step_that_was_overridden_by_something_else_is_refused() -> None:
    base = define("DefinitionOverriddenBase")

    with pytest.raises(InvalidDefinition, match="'a'"):

        class DefinitionOverridden(base):
            a = None


@pytest.mark.parametrize("marked", [None, 5, "a"])
def test_step_marks_methods_only(marked: Any) -> None:
    with pytest.raises(InvalidDefinition, match="@step marks methods"):
        step()(marked)


def test_a_class_without_steps_is_a_base_and_no_workflow() -> None:
    class DefinitionMixin(Workflow):
        def handle(self, error, ctx):
            return Done("by the base")

    with pytest.raises(UnknownWorkflow):
        workflows.start(DefinitionMixin)

    class DefinitionMixed(DefinitionMixin):
        @step
        def a(self, ctx):
            raise ValueError

    instance = workflows.start(DefinitionMixed)
    drain()
    assert_done(instance, "by the base")


def test_a_subclass_inherits_steps_options_and_handle_but_has_a_name_of_its_own() -> None:
    class DefinitionBase(Workflow):
        name = "definition base"
        max_attempts = 2
        step_timeout = 7

        @step(atomic=True)
        def a(self, ctx):
            return Next("b")

        @step
        def b(self, ctx):
            return Done("base")

    class DefinitionSub(DefinitionBase):
        def b(self, ctx):
            return Next("c")

        @step
        def c(self, ctx):
            return Done("sub")

    made = DefinitionSub.definition
    assert (made.name, made.max_attempts, made.step_timeout, made.initial) == ("DefinitionSub", 2, 7, "a")
    assert list(made.steps) == ["a", "b", "c"]
    assert made.steps["a"].atomic
    base, sub = workflows.start(DefinitionBase), workflows.start(DefinitionSub)
    drain()
    assert_done(base, "base")
    assert_done(sub, "sub")


def test_a_subclass_may_begin_elsewhere() -> None:
    base = define("DefinitionStart", b=step(lambda self, ctx: Done("b")))

    class DefinitionElsewhere(base):
        initial = "b"

    instance = workflows.start(DefinitionElsewhere)
    drain()
    assert_done(instance, "b")


def test_mixins_that_are_no_workflows_may_bring_steps() -> None:
    class Brings:
        @step
        def brought(self, ctx):
            return Done("brought")

    class DefinitionWithMixin(Brings, Workflow):
        pass

    instance = workflows.start(DefinitionWithMixin)
    drain()
    assert_done(instance, "brought")


@pytest.mark.parametrize("name", ["handle", "definition", "name", "version", "max_attempts", "step_timeout", "initial"])
def test_a_step_cannot_take_a_name_that_means_something_else(name: str) -> None:
    with pytest.raises(InvalidDefinition):
        define("DefinitionReserved", **{name: step(lambda self, ctx: Done())})


def test_a_class_that_cannot_be_made_fails_its_instances_with_the_reason() -> None:
    instance = workflows.start(define("DefinitionUnmakeable", __init__=lambda self, argument: None))
    drain()
    assert_failed(instance, "argument")


def test_a_steps_own_limit_counts_before_its_workflows_and_that_before_the_setting() -> None:
    class DefinitionLimits(Workflow):
        step_timeout = 30

        @step(step_timeout=5)
        def a(self, ctx):
            return Done()

        @step
        def b(self, ctx):
            return Done()

    class DefinitionUnlimited(Workflow):
        initial = "c"

        @step
        def c(self, ctx):
            return Done()

    first = workflows.start(DefinitionLimits)
    workflows.start(DefinitionUnlimited)
    limits = {one.workflow: engine.limit_of(one, 50.0) for one in store.claim(connections["default"], 10)}
    assert limits == {"DefinitionLimits": 5.0, "DefinitionUnlimited": 50.0}
    store.fetch(
        connections["default"],
        "UPDATE holdpoint_instance SET step = 'b', status = 1, due_at = holdpoint_now() WHERE id = %(id)s RETURNING 1",
        {"id": first.pk},
    )
    [again] = store.claim(connections["default"], 1)
    assert engine.limit_of(again, 50.0) == 30.0


# --- unknown definitions in a worker --------------------------------------------------------------------


def orphan(version: int = 9) -> Instance:
    """An instance of a version that only another process knows."""
    instance = workflows.start(define("DefinitionOrphan"))
    store.fetch(
        connections["default"],
        "UPDATE holdpoint_instance SET version = %(version)s WHERE id = %(id)s RETURNING 1",
        {"version": version, "id": instance.pk},
    )
    return instance


def test_an_unknown_name_and_version_is_put_back_with_a_delay_and_not_failed() -> None:
    instance = orphan()
    assert drain() == {"put_back": 1}
    instance.refresh_from_db()
    assert (instance.status, instance.attempt, instance.runs) == (Status.SLEEPING, 0, 0)
    assert "If that is new, restart the workers (qcluster, workflow_worker)" in instance.error
    event = instance.events.last()
    assert event.kind == "put_back"
    assert 1 < (event.due_at - event.at).total_seconds() < 60


def test_what_was_put_back_runs_when_a_process_knows_it_and_has_lost_nothing() -> None:
    class DefinitionRolling(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done([[s.payload for s in ctx.awaited], ctx.attempt])

    instance = workflows.start(DefinitionRolling)
    drain()
    workflows.signal(instance, "go", 1)
    known = registry._definitions.pop(("DefinitionRolling", 1))
    drain()
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    registry.register(known)
    advance("1m")
    assert_done(instance, [[1], 0])


def test_being_put_back_again_and_again_spends_no_attempt() -> None:
    instance = orphan()
    counts = advance("1h")
    assert set(counts) == {"put_back"}
    assert counts["put_back"] > 5
    instance.refresh_from_db()
    assert (instance.status, instance.runs) == (Status.SLEEPING, 0)


def test_being_put_back_waits_ever_longer_up_to_a_limit() -> None:
    instance = orphan()
    advance("1h")
    waited = [(event.due_at - event.at).total_seconds() for event in instance.events.all() if event.kind == "put_back"]
    expected = [min(PUT_BACK.first * 2**n, PUT_BACK.longest) for n in range(len(waited))]
    assert expected[0] < expected[1] < expected[-1]
    for seconds, mean in zip(waited, expected, strict=True):
        assert 0.49 * mean < seconds < 1.51 * mean
    # Found nowhere for hours, it writes a few rows an hour and not thousands.
    assert len(waited) < 100


def test_an_instance_in_a_step_that_its_version_does_not_have_is_put_back_too() -> None:
    instance = workflows.start(define("DefinitionLostStep"))
    store.fetch(connections["default"], "UPDATE holdpoint_instance SET step = 'gone' RETURNING 1", {})
    assert drain() == {"put_back": 1}
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING


def test_an_unknown_instance_leaves_the_known_ones_alone() -> None:
    orphan()
    known = workflows.start(define("DefinitionBeside"))
    drain()
    assert_done(known)


# --- discovery ------------------------------------------------------------------------------------------


def test_workflows_are_found_in_each_apps_workflows_module(tmp_path: Any) -> None:
    app = tmp_path / "shop"
    app.mkdir()
    (app / "__init__.py").write_text("")
    (app / "workflows.py").write_text(
        "from workflows import Done, Workflow, step\n"
        "class Found(Workflow):\n"
        "    @step\n"
        "    def a(self, ctx): return Done()\n"
    )
    script = (
        "from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['django_q', 'workflows', 'shop'], Q_CLUSTER={'orm': 'default'},\n"
        "    DATABASES={'default': {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'none'}})\n"
        "import django; django.setup()\n"
        "from workflows.definitions import registry\n"
        "print(registry.resolve('Found').source)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{tmp_path}:."},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == "shop.workflows.Found", ran.stderr
