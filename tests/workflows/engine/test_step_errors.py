"""What becomes of a step that raises, or returns something that cannot be committed."""

import inspect
import logging
import pickle
from typing import Any

import pytest
from django.db import connection

import workflows
from workflows import (
    Await,
    Child,
    Done,
    InvalidOutcome,
    Next,
    NotSerializable,
    Retry,
    Spawn,
    Stop,
    TooLarge,
    UnknownStep,
    Workflow,
    exceptions,
    step,
)
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def run(workflow: Any, input: Any = None) -> Instance:
    instance = workflows.start(workflow, input)
    drain()
    instance.refresh_from_db()
    return instance


# --- handle -------------------------------------------------------------------------------------


def test_an_exception_stops_the_instance_as_failed_with_its_class_and_message() -> None:
    class ErrorDefault(Workflow):
        @step
        def a(self, ctx):
            raise ValueError("the price is negative")

    instance = run(ErrorDefault)
    assert (instance.status, instance.error) == (Status.FAILED, "ValueError: the price is negative")


def test_an_exception_without_a_message_leaves_its_class() -> None:
    class ErrorBare(Workflow):
        @step
        def a(self, ctx):
            raise KeyError

    assert run(ErrorBare).error == "KeyError"


def test_an_exception_runs_the_step_once_only() -> None:
    ran = []

    class ErrorOnce(Workflow):
        @step
        def a(self, ctx):
            ran.append(ctx.attempt)
            raise ValueError

    run(ErrorOnce)
    advance("1d")
    assert ran == [0]


def test_an_exception_goes_to_handle_with_the_same_ctx() -> None:
    seen = []

    class ErrorSameContext(Workflow):
        @step
        def a(self, ctx):
            ctx.state["changed"] = True
            seen.append(ctx)
            raise ValueError("no")

        @step
        def b(self, ctx):
            return Done(ctx.state)

        def handle(self, error, ctx):
            seen.append(ctx)
            assert isinstance(error, ValueError)
            assert error.__traceback__ is not None
            return Next("b")

    assert_done(run(ErrorSameContext), {"changed": True})
    assert seen[0] is seen[1]


def test_the_next_of_handle_consumes_what_the_step_was_handed() -> None:
    class ErrorConsumes(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="take")

        @step
        def take(self, ctx):
            raise ValueError("no")

        @step
        def look(self, ctx):
            return Done([s.name for s in ctx.inbox])

        def handle(self, error, ctx):
            return Next("look", {"handed": [s.name for s in ctx.awaited]})

    instance = run(ErrorConsumes)
    for name in ("x", "a", "a"):
        workflows.signal(instance, name)
    drain()
    assert_done(instance, ["x"])
    instance.refresh_from_db()
    assert instance.state == {"handed": ["a", "a"]}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (lambda: Done("handled"), Status.DONE),
        (lambda: Stop("handled"), Status.FAILED),
        (lambda: Retry(delay=60), Status.SLEEPING),
        (lambda: Next("b", delay=60), Status.SLEEPING),
        (lambda: Await("go", then="b"), Status.AWAITING),
        (lambda: Spawn([Child(Waiting)], then="b"), Status.AWAITING_CHILDREN),
    ],
)
def test_handle_may_return_any_outcome(outcome: Any, status: Status) -> None:
    class ErrorAnyOutcome(Workflow):
        @step
        def a(self, ctx):
            raise ValueError("no")

        @step
        def b(self, ctx):
            return Done()

        def handle(self, error, ctx):
            return outcome()

    assert run(ErrorAnyOutcome).status == status


class Waiting(Workflow):
    name = "ErrorWaiting"

    @step
    def a(self, ctx):
        return Await("go", then="a")


def test_retry_from_handle_is_bounded_by_the_author_through_ctx_attempt() -> None:
    class ErrorRetries(Workflow):
        @step
        def a(self, ctx):
            raise ConnectionError("down")

        def handle(self, error, ctx):
            return Retry(delay=0) if ctx.attempt < 3 else Stop(f"gave up after {ctx.attempt + 1}")

    assert_failed(run(ErrorRetries), "gave up after 4")


def test_a_handle_that_fails_fails_the_instance_with_both_reasons() -> None:
    class ErrorHandleFails(Workflow):
        @step
        def a(self, ctx):
            raise ValueError("first")

        def handle(self, error, ctx):
            raise RuntimeError("second")

    error = assert_failed(run(ErrorHandleFails)).error
    assert error.startswith("ValueError: first")
    assert "RuntimeError: second" in error
    assert "handle" in error


def test_a_handle_that_raises_the_error_again_fails_with_that_error_alone() -> None:
    class ErrorRaisesAgain(Workflow):
        @step
        def a(self, ctx):
            raise ValueError("first")

        def handle(self, error, ctx):
            raise error

    assert assert_failed(run(ErrorRaisesAgain)).error == "ValueError: first"


@pytest.mark.parametrize(
    "outcome",
    [None, 5, "b", {"step": "b"}, Next, lambda: Next("nowhere"), lambda: Done(object()), lambda: Stop("")],
)
def test_a_handle_that_returns_nonsense_fails_the_instance(outcome: Any) -> None:
    class ErrorHandleNonsense(Workflow):
        @step
        def a(self, ctx):
            raise ValueError("first")

        def handle(self, error, ctx):
            return outcome() if inspect.isfunction(outcome) else outcome

    assert_failed(run(ErrorHandleNonsense), "ValueError: first")


def test_a_call_inside_handle_means_the_instances_workspace() -> None:
    class ErrorWorkspace(Workflow):
        @step
        def a(self, ctx):
            raise ValueError

        def handle(self, error, ctx):
            return Done(workflows.start(Waiting).workspace.slug)

    workflows.workspace.create("acme")
    with workflows.workspace("acme"):
        instance = workflows.start(ErrorWorkspace)
    drain()
    assert_done(instance, "acme")


# --- malformed and unserialisable outcomes ----------------------------------------------------------


class Returns(Workflow):
    """Returns what the test says and tells which error came to handle."""

    name = "ErrorReturns"
    outcome: Any = None
    errors: list[Exception] = []

    @step
    def a(self, ctx):
        return Returns.outcome() if callable(Returns.outcome) else Returns.outcome

    @step
    def b(self, ctx):
        return Done()

    def handle(self, error, ctx):
        Returns.errors.append(error)
        return super().handle(error, ctx)


def returns(outcome: Any) -> tuple[Instance, Exception]:
    Returns.outcome, Returns.errors = staticmethod(outcome) if callable(outcome) else outcome, []
    instance = run(Returns)
    advance("1d")
    assert len(Returns.errors) == 1, "once, and never a loop"
    return assert_failed(instance), Returns.errors[0]


@pytest.mark.parametrize(
    "outcome",
    [None, True, "b", 5, {"next": "b"}, (Next("b"),), [Done()], object(), lambda: Next, lambda: Done, Child("b")],
    ids=lambda value: type(value).__name__,
)
def test_something_that_is_no_outcome_is_such_an_error(outcome: Any) -> None:
    instance, error = returns(outcome)
    assert isinstance(error, InvalidOutcome)
    assert "return Next, Await, Retry, Spawn, Done or Stop" in instance.error
    assert "'a'" in instance.error


@pytest.mark.parametrize(
    "outcome",
    [Next("nowhere"), Next("handle"), Await("x", then="nowhere"), Spawn([], then="nowhere"), Next("A"), Next(" b")],
    ids=repr,
)
def test_an_unknown_step_is_such_an_error_and_names_the_known_ones(outcome: Any) -> None:
    instance, error = returns(outcome)
    assert isinstance(error, UnknownStep)
    assert instance.error.startswith("UnknownStep: workflow 'ErrorReturns' has no step")
    assert instance.error.endswith("it has a, b")


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(Done({"a": object()}), id="result"),
        pytest.param(Next("b", {"a": object()}), id="state of Next"),
        pytest.param(Await("x", then="b", state={"a": object()}), id="state of Await"),
        pytest.param(Retry({"a": object()}), id="state of Retry"),
        pytest.param(Spawn([], then="b", state={"a": object()}), id="state of Spawn"),
        pytest.param(Spawn([Child("ErrorWaiting", {"a": object()})], then="b"), id="a child's input"),
    ],
)
def test_an_unserialisable_outcome_is_such_an_error_and_names_the_path(outcome: Any) -> None:
    instance, error = returns(outcome)
    assert isinstance(error, NotSerializable)
    assert error.path == "$.a"
    assert "at $.a, object is not JSON" in instance.error
    assert Instance.objects.count() == 1


def test_an_outcome_that_is_too_large_is_such_an_error() -> None:
    instance, error = returns(Done("x" * (1024 * 1024)))
    assert isinstance(error, TooLarge)
    assert "1048576" in instance.error


def test_handle_may_repair_an_unserialisable_state() -> None:
    class ErrorRepairs(Workflow):
        @step
        def a(self, ctx):
            ctx.state["bad"] = object()
            return Next("b")

        @step
        def b(self, ctx):
            return Done(ctx.state)

        def handle(self, error, ctx):
            del ctx.state["bad"]
            return Next("b")

    assert_done(run(ErrorRepairs), {})


def test_an_unserialisable_state_that_nobody_repairs_fails_with_the_reason() -> None:
    class ErrorBadState(Workflow):
        @step
        def a(self, ctx):
            ctx.state["bad"] = {1, 2}
            return Next("b")

        @step
        def b(self, ctx):
            return Done()

    instance = assert_failed(run(ErrorBadState), "the state cannot be stored: at $.bad, set is not JSON")
    assert instance.state == {}


def test_an_error_in_a_step_with_an_unserialisable_state_still_tells_the_error() -> None:
    class ErrorBadStateAndError(Workflow):
        @step
        def a(self, ctx):
            ctx.state["bad"] = object()
            raise ValueError("the real reason")

    assert_failed(run(ErrorBadStateAndError), "ValueError: the real reason")


def test_an_unknown_child_workflow_is_such_an_error() -> None:
    instance, error = returns(Spawn([Child("ErrorWaiting"), Child("Nobody")], then="b"))
    assert isinstance(error, workflows.UnknownWorkflow)
    assert "Nobody" in instance.error
    assert Instance.objects.count() == 1


# --- what cannot be written as it is ------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    ["a\0b", "\ud800", "\x1b[31m", "é" * 10, "", " ", "%s %(x)s", "x" * 300_000, "\\u0000", b"bytes", 5, None],
    ids=lambda value: ascii(value)[:12],
)
def test_any_message_of_an_exception_can_be_stored(message: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="workflows")  # what cannot be encoded would break the report

    class ErrorMessage(Workflow):
        @step
        def a(self, ctx):
            raise ValueError(message)

    instance = assert_failed(run(ErrorMessage), "ValueError")
    assert len(instance.error) <= 100_000


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize("where", ["step", "handle"])
def test_an_exception_that_cannot_even_be_printed_fails_the_instance(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, logger="workflows")

    class ErrorUnprintable(Workflow):
        @step
        def a(self, ctx):
            raise Unprintable if where == "step" else ValueError("first")

        def handle(self, error, ctx):
            if where == "handle":
                raise Unprintable
            return super().handle(error, ctx)

    assert_failed(run(ErrorUnprintable), "Unprintable")


class Unrepresentable:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def test_a_return_value_that_cannot_even_be_printed_fails_the_instance() -> None:
    instance, _ = returns(Unrepresentable())
    assert instance.status == Status.FAILED


@pytest.mark.parametrize(
    "raised",
    [
        RecursionError("deep"),
        MemoryError("big"),
        AssertionError("no"),
        StopIteration(1),
        ExceptionGroup("g", [ValueError("x")]),
    ],
)
def test_every_exception_goes_the_same_way(raised: Exception) -> None:
    class ErrorEvery(Workflow):
        @step
        def a(self, ctx):
            raise raised

    assert_failed(run(ErrorEvery), type(raised).__name__)


def test_endless_recursion_in_a_step_fails_the_instance() -> None:
    class ErrorRecursion(Workflow):
        @step
        def a(self, ctx):
            return self.a(ctx)

    assert_failed(run(ErrorRecursion), "RecursionError")


# --- exits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, "message", None])
def test_exit_in_a_step_is_a_failed_run_and_not_the_end_of_the_worker(code: Any) -> None:
    handled = []

    class ErrorExit(Workflow):
        max_attempts = 2

        @step
        def a(self, ctx):
            raise SystemExit(code)

        def handle(self, error, ctx):
            handled.append(error)
            return Done()

    instance = run(ErrorExit)
    assert (instance.status, instance.runs) == (Status.SLEEPING, 1)
    advance("10m")
    assert_failed(instance, "SystemExit")
    assert handled == []


def test_exit_in_handle_is_not_the_end_of_the_worker() -> None:
    class ErrorExitInHandle(Workflow):
        max_attempts = 2

        @step
        def a(self, ctx):
            raise ValueError("first")

        def handle(self, error, ctx):
            raise SystemExit(1)

    instance = workflows.start(ErrorExitInHandle)
    advance("10m")
    assert_failed(instance)


def test_a_keyboard_interrupt_is_the_workers_and_passes_through() -> None:
    class ErrorInterrupt(Workflow):
        @step
        def a(self, ctx):
            raise KeyboardInterrupt

    workflows.start(ErrorInterrupt)
    with pytest.raises(KeyboardInterrupt):
        drain()


def test_a_database_error_in_a_plain_step_is_an_error_like_any_other() -> None:
    class ErrorDatabase(Workflow):
        @step
        def a(self, ctx):
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1 / 0")

    instance = run(ErrorDatabase)
    assert_failed(instance, "division by zero")
    assert workflows.start(Waiting).pk


# --- one bad instance among good ones -------------------------------------------------------------------


def test_a_failing_instance_leaves_the_others_alone() -> None:
    class ErrorOdd(Workflow):
        @step
        def a(self, ctx):
            return Done(10 // ctx.input["n"])

    instances = workflows.start_many(ErrorOdd, [{"n": n} for n in (1, 0, 2)])
    assert drain() == {"done": 2, "stop": 1}
    assert_done(instances[0], 10)
    assert_failed(instances[1], "ZeroDivisionError")
    assert_done(instances[2], 5)


# --- the tree -------------------------------------------------------------------------------------------


def test_the_error_tree_in_the_docstring_is_the_real_one() -> None:
    classes = {
        name: value
        for name, value in vars(exceptions).items()
        if inspect.isclass(value) and issubclass(value, BaseException)
    }
    drawn = {line.strip("│├└─ ").split()[0]: line for line in exceptions.__doc__.splitlines() if "─ " in line}
    assert set(drawn) == {name for name, value in classes.items() if issubclass(value, exceptions.WorkflowError)} - {
        "WorkflowError"
    }
    stack = ["WorkflowError"]
    for name, line in drawn.items():
        depth = (len(line) - len(line.lstrip("│├└─ ")) - 4) // 4
        stack[depth:] = [name]
        parent = stack[depth - 1]
        assert classes[parent] in classes[name].__mro__, f"{name} is drawn below {parent}"


def test_rows_and_pickles_name_every_error_by_the_package() -> None:
    errors = [value for value in vars(exceptions).values() if isinstance(value, type)]
    assert len(errors) > 40
    assert {error.__module__ for error in errors} == {"workflows.exceptions"}
    assert pickle.loads(pickle.dumps(exceptions.SignalTimeoutError)) is exceptions.SignalTimeoutError


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InvalidCall", ValueError),
        ("UnknownWorkflow", LookupError),
        ("UnknownWorkspace", LookupError),
        ("NoTarget", LookupError),
        ("InvalidTarget", TypeError),
    ],
)
def test_errors_are_caught_by_pythons_own_classes_too(name: str, builtin: type[Exception]) -> None:
    assert issubclass(getattr(exceptions, name), builtin)
