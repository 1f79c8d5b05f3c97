"""Running a Machine: its stages in order, what they hand on, where branches and flows lead, and its errors."""

import copy
import json
import pickle
from typing import Any

import pytest
from django.db import transaction

import workflows
from workflows import (
    END,
    FAIL,
    Done,
    InvalidInput,
    Machine,
    SignalCollision,
    SignalTimeoutError,
    Stop,
    Workflow,
    action,
    branch,
    durable,
    flow,
    launch,
    sleep,
    step,
)
from workflows.lifecycle import Status
from workflows.models import Instance, Workspace
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def run(machine: Any, input: Any = None) -> Instance:
    """Start an instance and run whatever can run now."""
    instance = workflows.start(machine, input)
    drain()
    instance.refresh_from_db()
    return instance


# --- stages one after the other --------------------------------------------------------------------


def test_stages_run_in_order_and_the_last_ones_result_is_the_instances_result() -> None:
    seen = []

    class RunOrder(Machine):
        a = action(lambda ctx: seen.append("a"))
        b = action(lambda ctx: seen.append("b"))
        c = action(lambda ctx: seen.append("c") or {"by": ctx.step})

    assert_done(run(RunOrder), {"by": "c"})
    assert seen == ["a", "b", "c"]


def test_each_stage_is_committed_by_itself() -> None:
    class RunSteps(Machine):
        a = action(lambda ctx: 1)
        b = action(lambda ctx: 2)

    workflows.start(RunSteps)
    assert drain() == {"next": 1, "done": 1}


def test_then_leads_elsewhere_and_end_stops_early() -> None:
    class RunThen(Machine):
        a = action(lambda ctx: 1, then="c")
        b = action(lambda ctx: pytest.fail("passed by"))
        c = action(lambda ctx: [ctx.steps.a, "b" in ctx.steps], then=END)
        d = action(lambda ctx: pytest.fail("never reached"))

    assert_done(run(RunThen), [1, False])


def test_a_branch_goes_on_with_the_stage_it_names() -> None:
    class RunBranch(Machine):
        look = branch(lambda ctx: "large" if ctx.input["amount"] > 10 else "small")
        small = action(lambda ctx: "small", then=END)
        large = action(lambda ctx: "large")

    assert_done(run(RunBranch, {"amount": 5}), "small")
    assert_done(run(RunBranch, {"amount": 50}), "large")


def test_a_branch_may_name_the_end_a_flow_or_an_earlier_stage() -> None:
    class RunBranchAnywhere(Machine):
        count = action(lambda ctx: (ctx.steps.count if "count" in ctx.steps else 0) + 1)
        look = branch(lambda ctx: "count" if ctx.steps.count < 3 else ctx.input["then"], to=["count", "side", END])
        side = flow(action(lambda ctx: {"counted": ctx.steps.count}))

    assert_done(run(RunBranchAnywhere, {"then": END}), 3)
    assert_done(run(RunBranchAnywhere, {"then": "side"}), {"counted": 3})


@pytest.mark.parametrize("named", ["nowhere", None, 5, {"a": 1}, ["a"]])
def test_a_branch_that_names_no_stage_fails_at_once_saying_which_there_are(named: Any) -> None:
    class RunLost(Machine):
        look = branch(lambda ctx: named)
        a = action(lambda ctx: 1)
        side = flow(action(lambda ctx: 2))

    failed = assert_failed(run(RunLost), "branch 'look' returned")
    assert "it may return look, a, side.0, side, END" in str(failed.error)


def test_a_branch_names_only_what_it_said_it_would() -> None:
    class RunTo(Machine):
        look = branch(lambda ctx: "b", to=["a"])
        a = action(lambda ctx: 1)
        b = action(lambda ctx: 1)

    assert_failed(run(RunTo), "branch 'look' returned 'b'; it may return a")


def test_a_branch_may_fail_the_instance() -> None:
    class RunFail(Machine):
        look = branch(lambda ctx: FAIL)
        a = action(lambda ctx: 1)

    assert_failed(run(RunFail), "branch 'look' returned FAIL")


def test_when_a_branch_or_a_sleep_ends_the_instance_the_latest_result_is_its_result() -> None:
    class RunEndBranch(Machine):
        a = action(lambda ctx: "latest")
        look = branch(lambda ctx: END)

    class RunEndSleep(Machine):
        a = action(lambda ctx: "latest")
        pause = sleep("1h")

    class RunNoResult(Machine):
        look = branch(lambda ctx: END)

    assert_done(run(RunEndBranch), "latest")
    sleeper = run(RunEndSleep)
    assert sleeper.status == Status.SLEEPING
    advance("1h")
    assert_done(sleeper, "latest")
    assert_done(run(RunNoResult), None)


def test_sleep_goes_on_after_its_time_and_not_before() -> None:
    class RunSleep(Machine):
        a = action(lambda ctx: ctx.now.isoformat())
        pause = sleep("24h")
        b = action(lambda ctx: "awake")

    instance = run(RunSleep)
    advance("23h59m")
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    advance("2m")
    assert_done(instance, "awake")


def test_a_machine_is_started_by_name_and_has_versions_like_any_workflow() -> None:
    class RunNamed(Machine):
        name = "machines.named"
        version = 2
        a = action(lambda ctx: "two")

    instance = run("machines.named")
    assert (instance.workflow, instance.version) == ("machines.named", 2)
    assert_done(instance, "two")


def test_a_machine_may_be_a_child() -> None:
    class RunChild(Machine):
        a = action(lambda ctx: {"got": ctx.input})

    class RunParent(Workflow):
        @step
        def a(self, ctx):
            return workflows.Spawn([workflows.Child(RunChild, 7)], then="b")

        @step
        def b(self, ctx):
            return Done([child.result for child in ctx.children])

    assert_done(run(RunParent), [{"got": 7}])


# --- launch -----------------------------------------------------------------------------------------


class Launched(Machine):
    name = "machines.launched"
    a = action(lambda ctx: ctx.input)


class LaunchedSteps(Workflow):
    name = "steps.launched"

    @step
    def a(self, ctx):
        return Done(ctx.input)


@durable(name="function.launched")
def launched_function(ctx, n):
    return {"n": n}


@pytest.mark.parametrize("target", [Launched, "machines.launched", LaunchedSteps, launched_function])
def test_launch_starts_an_instance_of_any_style_and_goes_on_with_its_id(target: Any) -> None:
    class RunLaunch(Machine):
        start_it = launch(target, {"n": 1})
        b = action(lambda ctx: ctx.steps.start_it.id)

    instance = run(RunLaunch)
    started = Instance.objects.get(pk=assert_done(instance).result)
    assert_done(started, {"n": 1})
    assert started.parent is None
    assert started.started_by == f"instance:{instance.pk}"


def test_the_input_of_a_launch_may_be_a_function_of_ctx_and_is_empty_when_left_out() -> None:
    class RunLaunchInput(Machine):
        a = action(lambda ctx: {"n": 5})
        one = launch(Launched, lambda ctx: {"from": ctx.steps.a, "key": ctx.key})
        two = launch(Launched)

    workflows.start(RunLaunchInput, key="k")
    drain()
    inputs = [one.input for one in Instance.objects.filter(workflow="machines.launched").order_by("id")]
    assert inputs == [{"from": {"n": 5}, "key": "k"}, {}]


def test_a_launched_instance_lives_in_the_workspace_of_its_launcher() -> None:
    class RunLaunchScope(Machine):
        a = launch(Launched)

    workflows.workspace.create("acme")
    workflows.start(RunLaunchScope, workspace="acme")
    drain()
    assert Instance.objects.get(workflow="machines.launched").workspace.slug == "acme"


def test_a_launch_and_its_stage_are_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    class RunLaunchOnce(Machine):
        a = launch(Launched)
        b = action(lambda ctx: ctx.steps.a)

    from workflows import store

    def fail(*args: Any) -> None:
        raise RuntimeError("the commit is lost")

    with monkeypatch.context() as broken:
        broken.setattr(store, "commit_locked", fail)
        instance = workflows.start(RunLaunchOnce)
        drain()
    assert not Instance.objects.filter(workflow="machines.launched").exists()
    advance("1m")
    assert_done(instance)
    assert Instance.objects.filter(workflow="machines.launched").count() == 1


def test_launching_what_nobody_defined_is_tried_again_and_then_fails() -> None:
    class RunLaunchUnknown(Machine):
        max_attempts = 2
        a = launch("machines.nobody")

    instance = run(RunLaunchUnknown)
    advance("10m")
    assert_failed(instance, "no workflow 'machines.nobody' is registered")


# --- atomic actions ---------------------------------------------------------------------------------


def test_an_atomic_action_commits_its_writes_with_its_result() -> None:
    class RunAtomic(Machine):
        a = action(lambda ctx: Workspace.objects.create(slug="made").slug, atomic=True)

    assert_done(run(RunAtomic), "made")
    assert Workspace.objects.filter(slug="made").exists()


def test_an_atomic_action_that_raises_leaves_nothing_and_is_tried_again() -> None:
    class RunAtomicFails(Machine):
        max_attempts = 3

        def write(ctx):  # noqa: N805 - a function, no method
            Workspace.objects.create(slug="made")
            assert transaction.get_connection().in_atomic_block
            raise OSError("not now")

        a = action(write, atomic=True)

    instance = run(RunAtomicFails)
    advance("1h")
    assert_failed(instance, "OSError: not now")
    assert not Workspace.objects.filter(slug="made").exists()


# --- ctx --------------------------------------------------------------------------------------------


def test_ctx_tells_who_where_and_when() -> None:
    seen: dict[str, Any] = {}

    def look(ctx: Any) -> None:
        seen.update({name: getattr(ctx, name) for name in ("id", "workspace", "key", "input", "attempt", "step")})
        seen["now"] = ctx.now.tzinfo is not None

    class RunContext(Machine):
        a = action(look)

    workflows.workspace.create("acme")
    instance = workflows.start(RunContext, {"n": 1}, key="k", workspace="acme")
    drain()
    assert seen == {
        "id": instance.pk,
        "workspace": "acme",
        "key": "k",
        "input": {"n": 1},
        "attempt": 0,
        "step": "a",
        "now": True,
    }


def test_ctx_item_says_that_there_are_no_streams_here() -> None:
    class RunItem(Machine):
        a = action(lambda ctx: ctx.item)

    assert_failed(run(RunItem), "between expand and collect")


def test_results_are_read_by_attribute_or_by_item_at_any_depth() -> None:
    class RunFields(Machine):
        order = action(lambda ctx: {"lines": [{"sku": "a"}, {"sku": "b"}], "buyer": {"name": "Ann"}, "paid": True})
        read = action(
            lambda ctx: [
                ctx.steps.order.buyer.name,
                ctx.steps["order"]["buyer"]["name"],
                ctx.steps.order.lines[1].sku,
                ctx.steps.order.paid,
            ]
        )

    assert_done(run(RunFields), ["Ann", "Ann", "b", True])


def test_a_result_that_is_no_object_is_handed_on_as_it_is() -> None:
    class RunPlain(Machine):
        text = action(lambda ctx: "x")
        number = action(lambda ctx: 1.5)
        nothing = action(lambda ctx: None)
        several = action(lambda ctx: (1, 2))
        all = action(lambda ctx: [ctx.steps.text, ctx.steps.number, ctx.steps.nothing, ctx.steps.several])

    assert_done(run(RunPlain), ["x", 1.5, None, [1, 2]])


def test_a_result_is_handed_on_after_its_round_trip_through_json() -> None:
    seen = []

    class RunRoundTrip(Machine):
        a = action(lambda ctx: {1: ("x",), "at": ctx.now, "id": ctx.id})
        b = action(lambda ctx: seen.append(ctx.steps.a))

    instance = run(RunRoundTrip)
    [value] = seen
    assert value["1"] == ["x"]
    assert isinstance(value["at"], str)
    assert value["id"] == str(instance.pk)


def look_at(result: Any, look: Any) -> Any:
    """What a later stage sees of a result."""
    seen = []

    class LookAt(Machine):
        a = action(lambda ctx: result)
        b = action(lambda ctx: seen.append(look(ctx)))

    assert_done(run(LookAt))
    return seen[0]


def test_a_result_is_a_dict_in_every_way_that_only_reads() -> None:
    value = {"a": 1, "b": {"c": [2]}}
    read = look_at(value, lambda ctx: ctx.steps.a)
    assert read == value
    assert isinstance(read, dict)
    assert {**read} == dict(read) == value
    assert list(read) == list(read.keys()) == ["a", "b"]
    assert read.get("z", 5) == 5
    assert json.loads(json.dumps(read)) == value
    assert repr(read) == repr(value)
    for copied in (copy.deepcopy(read), copy.copy(read), pickle.loads(pickle.dumps(read))):
        assert type(copied) is dict
        assert copied == value


def test_a_field_wins_over_a_method_of_dict_of_its_name() -> None:
    read = look_at({"items": [1], "keys": "k", "get": {"copy": 2}}, lambda ctx: ctx.steps.a)
    assert (read.items, read.keys, read.get.copy) == ([1], "k", 2)


def test_a_result_with_any_field_may_be_returned_again() -> None:
    class RunAgainReturned(Machine):
        a = action(lambda ctx: {"items": [{"keys": 1}], "_holdpoint_place": 2})
        b = action(lambda ctx: {"was": ctx.steps.a, "one": ctx.steps.a["items"][0]})
        c = launch(Launched, lambda ctx: ctx.steps.b)
        d = action(lambda ctx: ctx.steps.b)

    expected = {"was": {"items": [{"keys": 1}], "_holdpoint_place": 2}, "one": {"keys": 1}}
    assert_done(run(RunAgainReturned), expected)
    assert Instance.objects.get(workflow="machines.launched").input == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda read: read.update(x=1),
        lambda read: read.pop("a"),
        lambda read: read.clear(),
        lambda read: read.setdefault("x", 1),
        lambda read: read.__setitem__("a", 2),
        lambda read: read.__delitem__("a"),
        lambda read: setattr(read, "a", 2),
        lambda read: delattr(read, "a"),
        lambda read: read.popitem(),
        lambda read: read.__ior__({"a": 2}),
    ],
)
def test_results_cannot_be_changed_by_later_stages(change: Any) -> None:
    read = look_at({"a": 1}, lambda ctx: ctx.steps.a)
    with pytest.raises(TypeError, match="cannot be changed; make a copy"):
        change(read)
    assert read == {"a": 1}


def test_an_unknown_field_says_where_and_which_there_are() -> None:
    def read(ctx: Any) -> list[str]:
        told = []
        for miss in (
            lambda: ctx.steps.a.paymnt_id,
            lambda: ctx.steps.a["paymnt_id"],
            lambda: ctx.steps.a.card.brand,
            lambda: ctx.steps.a.lines[0].sku,
        ):
            with pytest.raises((AttributeError, KeyError)) as caught:
                miss()
            told.append(caught.value.args[0])
        return told

    assert look_at({"payment_id": 1, "card": {}, "lines": [{"n": 1}]}, read) == [
        "steps.a has no field 'paymnt_id'; it has card, lines, payment_id",
        "steps.a has no field 'paymnt_id'; it has card, lines, payment_id",
        "steps.a.card has no field 'brand'; it has none",
        "steps.a.lines[0] has no field 'sku'; it has n",
    ]


def test_a_stage_that_has_not_run_or_does_not_exist_is_told_by_name() -> None:
    class RunAhead(Machine):
        max_attempts = 1
        a = action(lambda ctx: ctx.steps.b)
        b = action(lambda ctx: 1)

    class RunNowhere(Machine):
        max_attempts = 1
        a = action(lambda ctx: ctx.steps.c)
        b = action(lambda ctx: 1)

    assert_failed(run(RunAhead), "stage 'b' has not run yet")
    assert_failed(run(RunNowhere), "there is no stage 'c'; there are a, b")


def test_ctx_and_steps_can_be_shown_and_copied() -> None:
    shown = look_at({"a": 1}, lambda ctx: [repr(ctx.steps), repr(copy.copy(ctx.steps)), repr(copy.copy(ctx).steps.a)])
    assert shown == ["<steps a>", "<steps a>", "{'a': 1}"]


def test_steps_tell_which_have_run() -> None:
    class RunWhich(Machine):
        a = action(lambda ctx: list(ctx.steps))
        b = action(
            lambda ctx: [list(ctx.steps), "a" in ctx.steps, "c" in ctx.steps, len(ctx.steps), hasattr(ctx.steps, "c")]
        )
        c = action(lambda ctx: ctx.steps.b)

    assert_done(run(RunWhich), [["a"], True, False, 1, False])


@pytest.mark.parametrize("input", [{}, {"steps": {"a": 9}, "last": "a"}, {"steps": {}, "last": None}, [1], "x", 0])
def test_whatever_the_input_looks_like_it_is_no_result(input: Any) -> None:
    class RunFakes(Machine):
        a = action(lambda ctx: len(ctx.steps))
        b = action(lambda ctx: [ctx.steps.a, ctx.input])

    assert_done(run(RunFakes, input), [0, input])


@pytest.mark.parametrize("input", [{"last": "a", "steps": {"a": 9}}, {"steps": {"a": 9}, "last": "a"}])
def test_a_state_that_equals_the_input_is_kept_all_the_same(input: Any) -> None:
    class RunSame(Machine):
        a = action(lambda ctx: 9)
        b = action(lambda ctx: ctx.steps.a)

    assert_done(run(RunSame, input), 9)


# --- errors ------------------------------------------------------------------------------------------


def test_an_exception_is_tried_again_with_back_off_until_max_attempts() -> None:
    runs = []

    def fail(ctx: Any) -> None:
        runs.append(ctx.now)
        raise ConnectionError("no answer")

    class RunRaises(Machine):
        max_attempts = 3
        a = action(lambda ctx: 1)
        b = action(fail)

    instance = run(RunRaises)
    assert len(runs) == 1
    advance("1h")
    assert len(runs) == 3
    assert runs[1] - runs[0] < runs[2] - runs[1]
    assert_failed(instance, "ConnectionError: no answer")


def test_a_stage_that_succeeds_at_last_goes_on() -> None:
    runs = []

    def fail_twice(ctx: Any) -> int:
        runs.append(1)
        if len(runs) < 3:
            raise OSError("not now")
        return len(runs)

    class RunRecovers(Machine):
        max_attempts = 3
        a = action(fail_twice)
        b = action(lambda ctx: ctx.steps.a)

    instance = run(RunRecovers)
    advance("1h")
    assert_done(instance, 3)


@pytest.mark.parametrize("error", [SignalTimeoutError("x"), SignalCollision("x")])
def test_errors_that_would_only_come_again_fail_at_once(error: Exception) -> None:
    def fail(ctx: Any) -> None:
        raise error

    class RunAtOnce(Machine):
        a = action(fail)

    assert_failed(run(RunAtOnce), type(error).__name__)


BAD: dict[str, tuple[Any, str]] = {
    "no JSON": (lambda ctx: {"a": object()}, "the result of stage 'a' cannot be stored: at $.a"),
    "too large": (
        lambda ctx: "x" * 2_000_000,
        "the result of stage 'a' is 2000002 bytes as JSON, the limit is 1048576",
    ),
    "NaN": (lambda ctx: [float("nan")], "cannot be stored"),
    "an outcome": (lambda ctx: Stop("no"), "outcomes belong to the step style"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_result_that_cannot_be_kept_fails_at_once_and_names_the_stage(case: str) -> None:
    fn, told = BAD[case]

    class RunBad(Machine):
        a = action(fn)
        b = action(lambda ctx: 1)

    assert_failed(run(RunBad), told)


def test_a_function_of_an_atomic_stage_that_returns_a_coroutine_fails_at_once_with_a_hint() -> None:
    async def work() -> int:
        return 1

    class RunCoroutine(Machine):
        a = action(lambda ctx: work(), atomic=True)

    assert_failed(run(RunCoroutine), "the function of stage 'a' is async inside the atomic step 'a'")


def test_many_results_that_are_too_large_together_fail_at_once() -> None:
    class RunFull(Machine):
        a = action(lambda ctx: "x" * 600_000)
        b = action(lambda ctx: "x" * 600_000)
        c = action(lambda ctx: 1)

    assert_failed(run(RunFull), "the state is")


def test_a_failed_machine_goes_on_where_it_failed_when_it_is_retried() -> None:
    runs = []

    def fail_once(ctx: Any) -> Any:
        runs.append(ctx.steps.a)
        if len(runs) == 1:
            raise OSError("not now")
        return ctx.steps.a

    class RunRetried(Machine):
        max_attempts = 1
        a = action(lambda ctx: {"n": 1})
        b = action(fail_once)

    instance = run(RunRetried)
    assert_failed(instance, "not now")
    workflows.retry(instance)
    drain()
    assert_done(instance, {"n": 1})
    assert len(runs) == 2


# --- accepts and responds ----------------------------------------------------------------------------


class Checked(Machine):
    name = "machines.checked"
    accepts = {"amount": int, "note": str | None}
    responds = {"total": int}
    a = action(lambda ctx: {"total": ctx.input["amount"] if ctx.input["amount"] < 100 else "a lot"})


def test_an_input_that_is_not_accepted_is_refused_and_nothing_is_started() -> None:
    with pytest.raises(InvalidInput) as caught:
        workflows.start(Checked, {"amount": "many"})
    assert "amount" in caught.value.errors
    assert not Instance.objects.exists()


def test_an_optional_field_of_accepts_may_be_left_out() -> None:
    assert_done(run(Checked, {"amount": 5}), {"total": 5})
    assert_done(run(Checked, {"amount": 5, "note": None}), {"total": 5})


def test_a_result_that_does_not_respond_fails_at_once_and_says_where() -> None:
    failed = assert_failed(run(Checked, {"amount": 500}), "does not fit responds=")
    assert "total" in str(failed.error)
    assert "stage 'a'" in str(failed.error)


def test_responds_holds_for_side_paths_too() -> None:
    class RunSideResponds(Machine):
        responds = {"total": int}
        a = branch(lambda ctx: "side")
        b = action(lambda ctx: {"total": 1})
        side = flow(action(lambda ctx: {"sum": 1}))

    assert_failed(run(RunSideResponds), "stage 'side.0', does not fit responds=")
