"""Function style: what semantics.md promises of durable functions, sentence by sentence."""

from __future__ import annotations

import copy
import datetime
import inspect
import pickle
import uuid
from decimal import Decimal

import pytest
from django.utils import timezone

import workflows
from workflows import (
    ChildFailed,
    DuplicateKey,
    InvalidCall,
    InvalidDefinition,
    InvalidInput,
    SignalTimeoutError,
    Stop,
    Workflow,
    durable,
    step,
)
from workflows.models import Checkpoint, Instance, Interaction
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def test_a_step_that_is_saved_never_runs_again():
    ran = []

    @durable(name="fn.steps")
    def fn(ctx, contact):
        draft = ctx.step("draft", lambda c: ran.append(c) or {"to": c}, contact)
        answer = ctx.wait_for_signal("gate", signal=f"approval-{ctx.id}", timeout="48h")
        return {"draft": draft, "approved": answer["approved"]}

    instance = workflows.start(fn, {"contact": "ann"})
    assert drain() == {"await": 1}
    done = workflows.complete(f"approval-{instance.id}", {"approved": True})
    assert done.instance == instance.id
    drain()
    assert_done(instance, {"draft": {"to": "ann"}, "approved": True})
    assert ran == ["ann"]
    assert Checkpoint.objects.filter(instance=instance).count() == 2
    assert Instance.objects.get(pk=instance.pk).inbox == 0


def test_a_wait_that_is_not_answered_raises_at_the_call():
    @durable(name="fn.timeout")
    def fn(ctx):
        try:
            ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError as error:
            return {"late": error.wait}

    instance = workflows.start(fn)
    drain()
    advance("1h")
    assert_done(instance, {"late": "gate"})
    assert Interaction.objects.get(instance=instance).status == "expired"


def test_callback_event_sleep_invoke_launch_emit_and_atomic_in_one_function():
    @durable(name="fn.child")
    def child(ctx, n):
        ctx.sleep("nap", "5m")
        return n * 2

    @durable(name="fn.all")
    def fn(ctx):
        cb = ctx.callback("pay", timeout="1h")
        url = ctx.step("tell", lambda: cb.resume_url)
        doubled = ctx.invoke("double", child, {"n": 4})
        ctx.launch("other", child, {"n": 1})
        ctx.emit("said", "fn.said", {"x": 1})
        made = ctx.atomic("ws", lambda: workflows.workspace.create("made").slug)
        event = ctx.wait_for_event("order", event="order.paid", match={"order": 7}, timeout="1h")
        nothing = ctx.wait_for_event("never", event="order.paid", match={"order": 8}, timeout="1m")
        paid = cb.wait()
        assert cb.resume_url == url
        return [doubled, made, event, nothing, paid]

    instance = workflows.start(fn)
    drain()
    advance("5m")
    assert workflows.emit("order.paid", {"order": 6}) == 0
    assert workflows.emit("order.paid", {"order": 7}) == 1
    drain()
    advance("1m")
    drain()
    interaction = Interaction.objects.get(instance=instance)
    assert interaction.deadline is not None
    workflows.complete(interaction, {"amount": 5})
    drain()
    assert_done(instance, [8, "made", {"order": 7}, None, {"amount": 5}])
    advance("5m")
    assert Instance.objects.filter(workflow="fn.child", status="done").count() == 2


def test_an_invoked_child_that_fails_raises_child_failed():
    class Bad(Workflow):
        name = "fn.bad"

        @step
        def go(self, ctx):
            return Stop("no")

    @durable(name="fn.invoker")
    def fn(ctx):
        try:
            ctx.invoke("bad", Bad)
        except ChildFailed as error:
            return str(error)

    instance = workflows.start(fn)
    drain()
    assert "no" in assert_done(instance).result


def test_a_replay_that_takes_another_way_is_told_what_differed():
    way = ["a"]

    @durable(name="fn.way")
    def fn(ctx):
        ctx.step(way[0], lambda: 1)
        ctx.wait_for_signal("gate", timeout="1h")

    instance = workflows.start(fn)
    drain()
    way[0] = "b"
    workflows.complete(f"gate-{instance.id}", None)
    drain()
    assert_failed(instance, "call 0 of this workflow was step 'a', and is step 'b'")


def test_an_error_is_tried_again_and_progress_counts():
    fails, attempts = [3], []

    @durable(name="fn.errors", max_attempts=5)
    def fn(ctx):
        attempts.append(ctx.attempt)
        for n in range(3):
            ctx.step(f"s{n}", lambda n=n: n)
            if fails[0]:
                fails[0] -= 1
                raise RuntimeError("again")
        return "through"

    instance = workflows.start(fn)
    drain()
    advance("10m")
    assert_done(instance, "through")
    assert attempts == [0, 1, 2, 3]


# --- the decorator -------------------------------------------------------------------------------


def test_the_name_defaults_to_the_function_s_own():
    @durable
    def fn_named_by_itself(ctx):
        return 1

    assert fn_named_by_itself.definition.name == "fn_named_by_itself"
    instance = workflows.start("fn_named_by_itself")
    drain()
    assert_done(instance, 1)


def test_it_can_be_started_by_function_and_by_name_and_stays_a_function():
    @durable(name="fn.callable")
    def fn(ctx, a):
        return a

    assert fn(None, a=3) == 3
    for workflow in (fn, "fn.callable"):
        instance = workflows.start(workflow, {"a": 1})
        drain()
        assert_done(instance, 1)


@durable(name="fn.outreach")
def outreach(ctx, contact, key="none", **more):
    return {"contact": contact, "key": key, **more}


def test_a_function_is_started_with_its_own_arguments():
    assert outreach.start("Ada").input == {"contact": "Ada"}
    assert outreach.start("Ada", "k").input == {"contact": "Ada", "key": "k"}
    instance = outreach.start(contact="Ada", key="its own", copies=2)
    assert instance.key is None  # what is called like an option stays an argument
    drain()
    assert_done(instance, {"contact": "Ada", "key": "its own", "copies": 2})


def test_how_a_function_is_started_is_told_beside_its_arguments():
    workflows.workspace.create("acme")
    tomorrow = timezone.now() + datetime.timedelta(days=1)
    starting = outreach.options(key="ada", workspace="acme", run_at=tomorrow, actor="cron")
    instance = starting.start(contact="Ada")
    assert (instance.key, instance.workspace.slug, instance.due_at, instance.started_by) == (
        "ada",
        "acme",
        tomorrow,
        "cron",
    )
    with pytest.raises(DuplicateKey):
        starting.start(contact="Ada")


@pytest.mark.parametrize(
    ("args", "kwargs", "errors"),
    [
        ((), {}, {"contact": "is required"}),
        (("Ada",), {"contact": "Eve"}, {"contact": "is passed twice"}),
        ((1, 2, 3), {}, {"": "has 3 arguments without a name, and the function takes 2"}),
        (("Ada",), {"ctx": 1}, {"ctx": "is the function's own first parameter"}),
    ],
)
def test_arguments_that_a_function_cannot_take_are_refused_before_anything_is_stored(args, kwargs, errors):
    with pytest.raises(InvalidInput) as refused:
        outreach.start(*args, **kwargs)
    assert refused.value.errors == errors
    assert not Instance.objects.exists()


def test_calling_a_function_with_its_arguments_alone_says_how_to_start_it():
    with pytest.raises(InvalidCall, match=r"is a ctx, not 'Ada'. To start an instance, write outreach\.start"):
        outreach("Ada", "k")
    assert not Instance.objects.exists()


def test_a_function_is_known_pickled_and_copied_by_its_name():
    assert (outreach.__name__, outreach.__module__, inspect.signature(outreach).parameters["key"].default) == (
        "outreach",
        __name__,
        "none",
    )
    assert pickle.loads(pickle.dumps(outreach)) is copy.deepcopy(outreach) is outreach
    assert repr(outreach) == f"<durable function {__name__}.outreach>"


def test_two_versions_live_side_by_side():
    @durable(name="fn.versions")
    def one(ctx):
        return 1

    first = workflows.start("fn.versions")

    @durable(name="fn.versions", version=2)
    def two(ctx):
        return 2

    second = workflows.start("fn.versions")
    drain()
    assert (first.version, second.version) == (1, 2)
    assert_done(first, 1)
    assert_done(second, 2)


def test_max_attempts_and_step_timeout_are_options():
    @durable(name="fn.options", max_attempts=2, step_timeout="7s")
    def fn(ctx):
        raise RuntimeError("no")

    assert fn.definition.step_timeout == 7.0
    instance = workflows.start(fn)
    drain()
    advance("1h")
    assert assert_failed(instance, "RuntimeError: no").attempt == 0
    assert [event.kind for event in instance.events.all()].count("run_failed") == 1


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": 7},
        {"name": "a\0b"},
        {"version": 0},
        {"version": "1"},
        {"max_attempts": 0},
        {"max_attempts": True},
        {"step_timeout": 0},
        {"step_timeout": "soon"},
        {"on_event": ""},
        {"on_event": "holdpoint:x"},
    ],
    ids=str,
)
def test_a_bad_option_is_refused_where_it_is_written(options):
    with pytest.raises(InvalidDefinition, match=r"fn|workflow"):

        @durable(**{"name": "fn.bad_option", **options})
        def fn(ctx):
            pass


def test_an_async_function_is_refused_where_it_is_defined_with_a_hint():
    with pytest.raises(InvalidDefinition, match=r"write def, and hand async functions to ctx\.step"):

        @durable(name="fn.async")
        async def fn(ctx):
            pass

    with pytest.raises(InvalidDefinition, match="async generator"):

        @durable(name="fn.async_generator")
        async def generator(ctx):
            yield 1


@pytest.mark.parametrize("call", ["step", "atomic"])
def test_an_async_generator_is_refused_where_it_is_passed_with_a_hint(call):
    async def fetch():
        yield 1

    @durable(name="fn.generator_step", max_attempts=1)
    def fn(ctx):
        getattr(ctx, call)("a", fetch)

    instance = workflows.start(fn)
    drain()
    assert_failed(instance, "async generator")


@pytest.mark.parametrize("call", ["step", "atomic"])
def test_what_is_no_function_is_refused_where_it_is_passed(call):
    @durable(name="fn.no_function", max_attempts=1)
    def fn(ctx):
        getattr(ctx, call)("a", 7)

    instance = workflows.start(fn)
    drain()
    assert_failed(instance, "takes a function, not 7")


def test_only_functions_can_be_durable():
    with pytest.raises(InvalidDefinition, match="function"):
        durable(name="fn.class")(dict)
    with pytest.raises(InvalidDefinition, match="function"):
        durable(7)


def test_the_first_parameter_must_be_ctx():
    with pytest.raises(InvalidDefinition, match="ctx"):

        @durable(name="fn.no_ctx")
        def fn():
            pass

    with pytest.raises(InvalidDefinition, match="ctx"):

        @durable(name="fn.keyword_ctx")
        def keyword(*, ctx):
            pass


# --- the input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("input", "errors"),
    [
        ({}, {"contact": "is required"}),
        ({"contact": 1, "more": 2}, {"more": "is no parameter of the function"}),
        ({"more": 2}, {"contact": "is required", "more": "is no parameter of the function"}),
        ([1], {"": "must be an object with the function's parameters"}),
        ({"contact": 1, "ctx": 2}, {"ctx": "is no parameter of the function"}),
    ],
)
def test_the_input_is_checked_against_the_signature(input, errors):
    @durable(name="fn.signature")
    def fn(ctx, contact, *, note=""):
        pass

    with pytest.raises(InvalidInput) as caught:
        workflows.start(fn, input)
    assert caught.value.errors == errors
    assert not Instance.objects.exists()


def test_a_default_may_be_left_out_and_keywords_take_the_rest():
    @durable(name="fn.defaults")
    def fn(ctx, contact, *, note="none", **rest):
        return [contact, note, rest]

    plain, full = workflows.start(fn, {"contact": 1}), workflows.start(fn, {"contact": 1, "note": 2, "x": 3})
    drain()
    assert_done(plain, [1, "none", {}])
    assert_done(full, [1, 2, {"x": 3}])


def test_an_input_that_names_ctx_is_refused_also_where_keywords_take_the_rest():
    @durable(name="fn.rest")
    def fn(ctx, **rest):
        return rest

    with pytest.raises(InvalidInput) as caught:
        workflows.start(fn, {"ctx": 1})
    assert list(caught.value.errors) == ["ctx"]


def test_a_parameter_that_no_input_can_fill_is_refused_where_it_is_defined():
    with pytest.raises(InvalidDefinition, match=r"positional|contact"):

        @durable(name="fn.positional")
        def fn(ctx, contact, /):
            pass


@pytest.mark.parametrize("many", [False, True])
def test_start_many_children_and_invocations_check_the_input_too(many):
    @durable(name="fn.checked")
    def checked(ctx, n):
        return n

    @durable(name="fn.checker", max_attempts=1)
    def fn(ctx):
        return ctx.invoke("bad", checked, {"m": 1})

    if many:
        with pytest.raises(InvalidInput):
            workflows.start_many(checked, [{"n": 1}, {}])
        assert not Instance.objects.exists()
        return
    instance = workflows.start(fn)
    drain()
    assert_failed(instance, "n: is required")
    assert Instance.objects.count() == 1


def test_ctx_has_id_workspace_key_input_attempt_and_now():
    @durable(name="fn.ctx")
    def fn(ctx, a):
        return [str(ctx.id), ctx.workspace, ctx.key, ctx.input, ctx.attempt, ctx.now.isoformat()[:2]]

    instance = workflows.start(fn, {"a": 1}, key="k")
    drain()
    assert_done(instance, [str(instance.pk), "default", "k", {"a": 1}, 0, "20"])


# --- on_event ------------------------------------------------------------------------------------


def test_on_event_starts_one_instance_per_event_with_its_data_as_input():
    @durable(name="fn.on_event", on_event="fn.ordered")
    def fn(ctx, order):
        return order

    workflows.emit("fn.ordered", {"order": 7}, dedup_key="a")
    workflows.emit("fn.ordered", {"order": 7}, dedup_key="a")
    drain()
    [instance] = Instance.objects.filter(workflow="fn.on_event")
    assert_done(instance, 7)


def test_an_event_that_does_not_fit_the_signature_starts_nothing():
    @durable(name="fn.on_event_bad", on_event="fn.ordered_badly")
    def fn(ctx, order):
        return order

    assert workflows.emit("fn.ordered_badly", {"number": 7}) == 0
    assert not Instance.objects.filter(workflow="fn.on_event_bad").exists()


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["step", "atomic"])
def test_a_saved_value_is_handed_back_after_its_round_trip_also_in_the_first_run(call):
    seen = []

    @durable(name="fn.round_trip")
    def fn(ctx):
        made = {"when": datetime.date(2026, 1, 2), "pair": (1, 2), 3: Decimal("1.50"), "id": uuid.UUID(int=1)}
        seen.append(getattr(ctx, call)("a", lambda: made))
        ctx.wait_for_signal("gate", timeout="1h")

    instance = workflows.start(fn)
    drain()
    workflows.complete(f"gate-{instance.pk}", None)
    drain()
    expected = {"when": "2026-01-02", "pair": [1, 2], "3": "1.50", "id": str(uuid.UUID(int=1))}
    assert seen == [expected, expected]


def test_a_saved_value_is_a_copy_that_the_author_may_change():
    kept = {"list": [1]}

    @durable(name="fn.copy")
    def fn(ctx):
        got = ctx.step("a", lambda: kept)
        got["list"].append(2)
        ctx.sleep("nap", "1m")
        return got

    instance = workflows.start(fn)
    drain()
    advance("1m")
    assert_done(instance, {"list": [1, 2]})
    assert kept == {"list": [1]}


@pytest.mark.parametrize("call", ["step", "atomic", "emit", "launch", "invoke", "wait_for", "return"])
def test_what_cannot_be_stored_names_its_path_and_fails_at_once(call):
    runs = []
    bad = {"a": [1, {"b": object()}]}

    @durable(name="fn.any_input")
    def child(ctx, **rest):
        pass

    @durable(name="fn.not_serializable")
    def fn(ctx):
        runs.append(ctx.attempt)
        match call:
            case "step" | "atomic":
                getattr(ctx, call)("x", lambda: bad)
            case "emit":
                ctx.emit("x", "fn.said", bad)
            case "launch" | "invoke":
                getattr(ctx, call)("x", child, bad)
            case "wait_for":
                ctx.wait_for("x", "api", input=bad)
        return bad

    instance = workflows.start(fn)
    drain()
    advance("1h")
    assert_failed(instance, "NotSerializable")
    assert_failed(instance, "$.a[1].b")
    assert len(runs) == 1
    assert not Checkpoint.objects.exists()
    assert Instance.objects.count() == 1


def test_a_checkpoint_above_1_mib_is_refused_with_the_limit_in_digits():
    @durable(name="fn.too_large")
    def fn(ctx):
        ctx.step("x", lambda: "x" * 1024 * 1024)

    instance = workflows.start(fn)
    drain()
    assert_failed(instance, "1048576")
    assert not Checkpoint.objects.exists()


def test_a_checkpoint_of_just_1_mib_is_kept():
    @durable(name="fn.large")
    def fn(ctx):
        return len(ctx.step("x", lambda: "x" * (1024 * 1024 - 2)))

    instance = workflows.start(fn)
    drain()
    assert_done(instance, 1024 * 1024 - 2)


def test_an_outcome_of_the_step_style_is_refused_at_once():
    @durable(name="fn.outcome")
    def fn(ctx):
        return Stop("no")

    instance = workflows.start(fn)
    drain()
    assert_failed(instance, "Stop")
    assert not [event for event in instance.events.all() if event.kind == "run_failed"]
