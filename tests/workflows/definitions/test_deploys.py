"""Code changes under instances that live for months: what goes on, what stands still, and who says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.core.checks import run_checks
from django.db import connection

import workflows
from tests.support.deploys import (
    define_parcel,
    deploy,  # noqa: F401 (a fixture)
    forget,
)
from workflows import Await, Done, Next, Workflow, step
from workflows.definitions import registry
from workflows.definitions.fingerprint import (
    UNKNOWN,
    compute_fingerprint,
    fingerprint_function,
    fingerprint_steps,
    has_changed,
)
from workflows.definitions.registry import StepOptions
from workflows.models import Instance
from workflows.operations.stuck import Stuck, StuckReason, explain, find_stuck
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


def look(name: str = "deploy.parcel") -> list[Stuck]:
    return [one for one in find_stuck("default") if one.workflow == name]


def set_fingerprint(instance: Instance, fingerprint: int) -> None:
    """As if it had been started with another definition."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET fingerprint = %s WHERE id = %s", [fingerprint, instance.pk])


# --- side by side -------------------------------------------------------------------------------------


def test_two_versions_live_side_by_side_and_both_run_to_their_end():
    define_parcel("send", "close")
    old = workflows.start("deploy.parcel")
    drain()
    define_parcel("check", "finish", version=2)
    new = workflows.start("deploy.parcel")
    drain()
    assert (old.version, new.version) == (1, 2)
    assert look() == []
    workflows.signal_many([(old, "delivered"), (new, "delivered")])
    drain()
    assert_done(old, "delivered 1")
    assert_done(new, "delivered 2")


def test_versions_may_be_registered_in_any_order():
    define_parcel("check", "finish", version=2)
    define_parcel("send", "close")
    assert workflows.start("deploy.parcel").version == 2


def test_an_instance_of_a_removed_version_is_named_and_goes_on_when_the_version_is_back():
    define_parcel("send", "close")
    define_parcel("check", "finish", version=2)
    removed = forget("deploy.parcel", 2)
    registry.register(removed)
    old = workflows.start("deploy.parcel")
    drain()
    removed = forget("deploy.parcel", 2)
    (one,) = look()
    assert (one.problem, one.version, one.step, one.count, one.examples) == (
        StuckReason.VERSION,
        2,
        "finish",
        1,
        (old.pk,),
    )
    assert one.blocks
    assert "Registered: version 1" in one.advice
    workflows.signal(old, "delivered")
    advance("10m")
    old.refresh_from_db()
    assert old.status == "sleeping"
    assert "version 2" in old.error
    registry.register(removed)
    assert look() == []
    advance("20m")  # ten minutes and what they are spread by
    assert_done(old, "delivered 2")


# --- what is stuck ------------------------------------------------------------------------------------


def test_a_renamed_step_is_named_with_how_many_wait_to_run_it():
    define_parcel("send", "close")
    waiting = workflows.start_many("deploy.parcel", [{}] * 5)
    drain()
    forget("deploy.parcel")
    define_parcel("send", "close_it")
    (one,) = look()
    assert (one.problem, one.step, one.count) == (StuckReason.STEP, "close", 5)
    assert one.oldest == Instance.objects.get(pk=waiting[0].pk).created_at
    assert set(one.examples) == {waiting[0].pk, waiting[-1].pk}
    assert str(one) == (
        "5 live instances of workflow 'deploy.parcel' version 1 in step 'close': the workflow has no such step"
    )
    assert "It has send, close_it." in one.advice
    assert "`close = close_it`" in one.advice


def test_the_advised_alias_lets_them_go_on():
    define_parcel("send", "close")
    waiting = workflows.start("deploy.parcel")
    drain()
    forget("deploy.parcel")

    class Parcel(Workflow):
        name = "deploy.parcel"

        @step
        def send(self, ctx):
            return Await("delivered", then="close_it")

        @step
        def close_it(self, ctx):
            return Done("by its new name")

        close = close_it

    assert not [one for one in look() if one.blocks]
    workflows.signal(waiting, "delivered")
    drain()
    assert_done(waiting, "by its new name")


def test_a_workflow_that_is_gone_is_named_with_what_it_may_be_called_now():
    define_parcel("send", "close")
    parked = workflows.start("deploy.parcel")
    drain()
    forget("deploy.parcel")
    define_parcel("send", "close", name="deploy.parcels")
    (one,) = look()
    assert one.problem is StuckReason.WORKFLOW
    assert "`name = 'deploy.parcel'`" not in str(one)
    assert "renamed to 'deploy.parcels'? Set `name = 'deploy.parcel'`" in one.advice
    parked.refresh_from_db()
    assert (explain(parked) or "").startswith("no workflow of this name is registered. Register it again")


def test_sleepers_parents_and_due_ones_count_and_ended_ones_do_not():
    class Parent(Workflow):
        name = "deploy.parent"

        @step
        def split(self, ctx):
            return workflows.Spawn([workflows.Child("deploy.parcel", {})], then="end")

        @step
        def sleep(self, ctx):
            return Next("end", delay="1d")

        @step
        def end(self, ctx):
            return Done()

    define_parcel("send", "close")
    workflows.start(Parent)
    workflows.cancel(workflows.start("deploy.parent"))
    drain()
    workflows.start("deploy.parent")
    forget("deploy.parent")
    assert {(one.problem, one.step, one.count) for one in look("deploy.parent")} == {
        (StuckReason.WORKFLOW, "end", 1),
        (StuckReason.WORKFLOW, "split", 1),
    }


def test_it_is_one_statement_whatever_there_is(django_assert_num_queries):
    define_parcel("send", "close")
    define_parcel("check", "finish", version=2)
    workflows.start_many("deploy.parcel", [{}] * 30)
    forget("deploy.parcel", 2)
    with django_assert_num_queries(1):
        find_stuck("default")


# --- what has changed ---------------------------------------------------------------------------------


def test_an_instance_remembers_the_fingerprint_of_its_definition():
    parcel = define_parcel("send", "close")
    instance = workflows.start("deploy.parcel")
    assert parcel.definition.fingerprint != UNKNOWN
    assert Instance.objects.get(pk=instance.pk).fingerprint == parcel.definition.fingerprint


def test_a_changed_definition_is_told_and_stops_nobody():
    define_parcel("send", "close")
    instances = workflows.start_many("deploy.parcel", [{}] * 3)
    drain()
    set_fingerprint(instances[0], 17)
    set_fingerprint(instances[1], 18)
    (one,) = look()
    assert (one.problem, one.count, one.blocks) == (StuckReason.CHANGED, 2, False)
    assert explain(Instance.objects.get(pk=instances[0].pk)) is None
    workflows.signal(instances[0], "delivered")
    drain()
    assert_done(instances[0])


def test_rows_from_before_fingerprints_are_taken_as_unchanged():
    define_parcel("send", "close")
    instance = workflows.start("deploy.parcel")
    drain()
    set_fingerprint(instance, UNKNOWN)
    assert look() == []


# --- the system check ---------------------------------------------------------------------------------


def check(databases: list[str] | None) -> list[Any]:
    found = run_checks(tags=["database"], databases=databases)
    return [one for one in found if one.id == "holdpoint.W050" and "deploy.parcel" in one.msg]


def test_the_system_check_names_stuck_instances_where_the_database_is_asked():
    define_parcel("send", "close")
    workflows.start("deploy.parcel")
    drain()
    assert check(["default"]) == []
    forget("deploy.parcel")
    define_parcel("send", "close_it")
    (one,) = check(["default"])
    assert "in step 'close'" in one.msg
    assert "alias" in one.hint
    assert check([]) == []


def test_the_system_check_holds_its_tongue_while_the_tables_are_not_there():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE holdpoint_instance RENAME COLUMN fingerprint TO not_there_yet")
    assert check(["default"]) == []
    with connection.cursor() as cursor:  # the transaction is still usable
        cursor.execute("ALTER TABLE holdpoint_instance RENAME COLUMN not_there_yet TO fingerprint")


# --- fingerprints -------------------------------------------------------------------------------------


def test_a_fingerprint_is_a_signed_32_bit_number_and_not_zero():
    found = [compute_fingerprint("steps", [str(n)]) for n in range(1_000)]
    assert len(set(found)) > 990
    assert all(-(2**31) <= one < 2**31 and one != UNKNOWN for one in found)
    assert min(found) < 0 < max(found)


def test_parts_do_not_run_into_each_other():
    assert compute_fingerprint("x", ["ab", "c"]) != compute_fingerprint("x", ["a", "bc"])
    assert compute_fingerprint("x", ["a"]) != compute_fingerprint("y", ["a"])
    assert compute_fingerprint("x", ["a", "b"]) != compute_fingerprint("x", ["b", "a"])
    assert compute_fingerprint("x", ["\ud800 \0 é"]) == compute_fingerprint("x", ["\ud800 \0 é"])


def test_fingerprints_are_the_same_in_another_process():
    code = "from workflows.definitions.fingerprint import *; print(compute_fingerprint('steps', ['ask', 'ship']))"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert int(told.stdout) == compute_fingerprint("steps", ["ask", "ship"]) == -1840048247


def test_steps_count_by_name_and_options_and_not_by_order():
    plain, atomic = StepOptions(), StepOptions(atomic=True)
    one = fingerprint_steps({"a": plain, "b": plain})
    assert one == fingerprint_steps({"b": plain, "a": plain})
    assert one != fingerprint_steps({"a": plain, "c": plain})
    assert one != fingerprint_steps({"a": plain, "b": atomic})
    assert one != fingerprint_steps({"a": plain})


def order(ctx):
    paid = ctx.step(
        "pay",
        lambda: {
            "ok": True,
            "note": """two
lines""",
        },
    )
    if paid:
        ctx.sleep("rest", "1h")
    return ctx.step("ship", lambda: f"shipped {paid!r:>{10}}")


def read(source: str) -> Callable[..., Any]:
    """The function of a piece of source, as if it stood in a file."""
    import linecache

    name = f"<deploys {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names: dict[str, Any] = {}
    exec(compile(source, name, "exec"), names)
    return next(one for one in names.values() if callable(one))


PLAIN = """
def order(ctx):
    paid = ctx.step("pay", charge)
    ctx.sleep("rest", "1h")
    return ctx.step("ship", send)
"""


@pytest.mark.parametrize(
    "same",
    [
        PLAIN.replace("    paid", '    """Orders are paid, then shipped."""\n    # the card\n\n    paid'),
        PLAIN.replace('"pay"', "'pay'").replace("charge)", "charge,  # once\n    )"),
        PLAIN.replace("(ctx)", "(ctx: object) -> object"),
        PLAIN.replace("def order", "def place_order"),
    ],
    ids=["docstring and comments", "layout", "annotations", "its own name"],
)
def test_a_function_that_looks_different_and_does_the_same_has_the_same_fingerprint(same: str):
    assert fingerprint_function(read(same)) == fingerprint_function(read(PLAIN)) != UNKNOWN


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.replace('"pay"', '"charge"'),
        PLAIN.replace('"1h"', '"2h"'),
        PLAIN.replace('    ctx.sleep("rest", "1h")\n', "").replace("    paid", '    ctx.sleep("rest", "1h")\n    paid'),
        PLAIN.replace("    ctx.sleep", "    if paid:\n        ctx.sleep"),
        PLAIN.replace("(ctx)", "(ctx, fast=True)"),
    ],
    ids=["renamed call", "another duration", "order of calls", "a condition", "a parameter"],
)
def test_a_function_that_does_something_else_has_another_fingerprint(other: str):
    assert has_changed(fingerprint_function(read(PLAIN)), fingerprint_function(read(other)))


def test_a_function_inside_another_is_read_like_any_other():
    def inside(ctx):
        paid = ctx.step(
            "pay",
            lambda: {
                "ok": True,
                "note": """two
lines""",
            },
        )
        if paid:
            ctx.sleep("rest", "1h")
        return ctx.step("ship", lambda: f"shipped {paid!r:>{10}}")

    assert fingerprint_function(inside) == fingerprint_function(order) != UNKNOWN


def test_a_function_without_source_is_unknown_and_never_changed():
    names: dict[str, Any] = {}
    exec("def typed(ctx): return 1", names)
    assert fingerprint_function(names["typed"]) == fingerprint_function(len) == UNKNOWN
    assert not has_changed(UNKNOWN, 5)
    assert not has_changed(5, UNKNOWN)


def test_a_function_whose_file_holds_another_text_by_now_has_no_fingerprint(tmp_path):
    """Edited while it was imported, say: what stands in its lines is no Python, and not even words of it."""
    other = tmp_path / "other.py"
    other.write_text("\n\ndef f(ctx):\n    return (\n")
    names: dict[str, Any] = {"__name__": "other"}
    exec(compile("\n\ndef f(ctx):\n    return 1\n", str(other), "exec"), names)
    assert fingerprint_function(names["f"]) == UNKNOWN


def test_a_parked_instance_is_untouched_by_all_this_looking():
    define_parcel("send", "close")
    instance = workflows.start("deploy.parcel")
    drain()
    forget("deploy.parcel")
    find_stuck("default")
    assert_awaiting(instance, "delivered")
