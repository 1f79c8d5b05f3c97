"""Async steps and calls: their coroutines run in the worker's one event loop, and reach the database as Django does."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED
from workflows import (
    Await,
    Child,
    Done,
    InvalidDefinition,
    Machine,
    Next,
    Retry,
    Spawn,
    Stop,
    Workflow,
    action,
    branch,
    collect,
    durable,
    expand,
    step,
    wait_for,
)
from workflows.engine import event_loop
from workflows.models import Instance, Workspace
from workflows.testing import advance, assert_done, assert_failed, drain

#: What the coroutines below do.
act: list[Any] = []


@pytest.fixture(autouse=True)
def _forget_acts() -> None:
    act.clear()


class AsyncStep(Workflow):
    name = "loop.step"

    @step
    async def a(self, ctx):
        await asyncio.sleep(0)
        return Done(await act[0](ctx))


@durable(name="loop.function")
def function(ctx):
    async def work() -> Any:
        return await act[0](ctx)

    return ctx.step("work", work)


async def begin(ctx: Any) -> Any:
    return {"value": await act[0](ctx)}


class Stages(Machine):
    name = "loop.machine"

    first = action(begin)
    second = action(lambda ctx: ctx.steps.first.value)


STYLES = pytest.mark.parametrize("workflow", [AsyncStep, function, Stages])


def run(workflow: Any, work: Any, **options: Any) -> Instance:
    act[:] = [work]
    started = workflows.start(workflow, **options)
    drain()
    return started


# --- what may be async --------------------------------------------------------------------------------


@pytest.mark.django_db
@STYLES
def test_every_style_runs_an_async_function_and_keeps_its_result(workflow: Any) -> None:
    async def work(ctx: Any) -> Any:
        first, second = await asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))
        return [first, second, str(ctx.id)]

    instance = run(workflow, work)
    assert_done(instance, [1, 2, str(instance.pk)])


@pytest.mark.django_db
def test_an_async_step_may_end_in_every_outcome() -> None:
    class Kid(Workflow):
        name = "loop.kid"

        @step
        async def only(self, ctx):
            return Done(7)

    class All(Workflow):
        name = "loop.all"

        @step
        async def begin(self, ctx):
            return Retry(delay=0) if ctx.attempt == 0 else Next("spawn", {"n": 1})

        @step
        async def spawn(self, ctx):
            return Spawn([Child(Kid)], then="ask")

        @step
        async def ask(self, ctx):
            ctx.state["kid"] = ctx.children[0].result
            return Await("go", then="end", timeout="1h")

        @step
        async def end(self, ctx):
            return Stop("late") if ctx.timed_out else Done([ctx.state, ctx.awaited[0].payload])

    instance = workflows.start(All)
    drain()
    workflows.signal(instance, "go", 5)
    drain()
    assert_done(instance, [{"n": 1, "kid": 7}, 5])
    late = workflows.start(All)
    advance("1h")
    assert_failed(late, "late")


@pytest.mark.django_db
def test_handle_may_be_async_too() -> None:
    class Handles(Workflow):
        name = "loop.handles"

        @step
        async def a(self, ctx):
            raise ZeroDivisionError("by zero")

        async def handle(self, error, ctx):
            await asyncio.sleep(0)
            return Done(f"handled {error}")

    instance = workflows.start(Handles)
    drain()
    assert_done(instance, "handled by zero")


@pytest.mark.django_db
def test_branches_and_streams_of_a_machine_may_be_async() -> None:
    async def lead(ctx: Any) -> str:
        return "items"

    async def list_items(ctx: Any) -> list[int]:
        return [1, 2, 3]

    async def double(ctx: Any) -> int:
        await asyncio.sleep(0)
        return int(ctx.item) * 2

    async def add(ctx: Any, items: Any) -> int:
        return sum(items)

    class Streams(Machine):
        name = "loop.streams"

        which = branch(lead, to=["items"])
        items = expand(list_items)
        doubled = action(double)
        total = collect(add)

    instance = workflows.start(Streams)
    drain()
    assert_done(instance, 12)


@pytest.mark.django_db
def test_a_function_that_only_returns_a_coroutine_is_awaited_as_well() -> None:
    async def fetch(value: int) -> int:
        return value

    @durable(name="loop.lambda")
    def lambdas(ctx):
        return ctx.step("a", lambda: fetch(5))

    instance = workflows.start(lambdas)
    drain()
    assert_done(instance, 5)


@pytest.mark.django_db
def test_a_saved_result_of_an_async_call_is_not_made_again() -> None:
    calls: list[int] = []

    async def fetch() -> int:
        calls.append(1)
        return len(calls)

    @durable(name="loop.replay")
    def replays(ctx):
        first = ctx.step("a", fetch)
        ctx.wait_for_signal("go", timeout="1h")
        return [first, ctx.step("b", fetch)]

    instance = workflows.start(replays)
    drain()
    workflows.complete(f"go-{instance.pk}", None)
    drain()
    assert_done(instance, [1, 2])


async def count_groups(name: str) -> list[Any]:
    await Group.objects.acreate(name=name)
    return [name, await Group.objects.filter(name=name).acount(), id(asyncio.get_running_loop())]


@durable(name="loop.gather")
def gathers(ctx):
    return ctx.gather("both", {"a": (count_groups, "a"), "b": (count_groups, "b")})


@pytest.mark.django_db
def test_calls_that_are_gathered_may_be_async() -> None:
    instance = workflows.start(gathers)
    drain()
    instance.refresh_from_db()
    assert [instance.result[name][:2] for name in "ab"] == [["a", 1], ["b", 1]]


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_calls_that_are_gathered_in_threads_share_the_loop_and_not_their_connections() -> None:
    instance = workflows.start(gathers)
    with pumping():
        wait_until(lambda: Instance.objects.filter(pk=instance.pk, status="done").exists(), "the end")
    instance.refresh_from_db()
    loops = {instance.result[name][2] for name in "ab"}
    assert [instance.result[name][:2] for name in "ab"] == [["a", 1], ["b", 1]]
    assert len(loops) == 1


# --- atomic ones may not ------------------------------------------------------------------------------


async def wait_a_little(ctx: Any) -> int:
    return 1


def define_step() -> Any:
    class AtomicStep(Workflow):
        name = "loop.atomic_step"

        @step(atomic=True)
        async def a(self, ctx):
            return Done()


def define_action() -> Any:
    class AtomicAction(Machine):
        name = "loop.atomic_action"

        a = action(wait_a_little, atomic=True)


@pytest.mark.parametrize("define", [define_step, define_action])
def test_an_async_atomic_step_is_refused_where_it_is_written(define: Any) -> None:
    with pytest.raises(InvalidDefinition, match=r"async.*[Aa]wait in"):
        define()


@pytest.mark.django_db
@pytest.mark.parametrize("hidden", [False, True])
def test_an_async_atomic_call_is_refused_where_it_is_made(hidden: bool) -> None:
    async def fetch() -> int:
        return 1

    @durable(name="loop.atomic_call", max_attempts=1)
    def calls(ctx):
        return ctx.atomic("a", (lambda: fetch()) if hidden else fetch)

    instance = workflows.start(calls)
    drain()
    assert_failed(instance, "transaction would stay open")


@pytest.mark.django_db
def test_a_coroutine_that_an_atomic_step_returns_is_refused() -> None:
    class Hidden(Workflow):
        name = "loop.hidden"

        @step(atomic=True)
        def a(self, ctx):
            return wait_a_little(ctx)

    instance = workflows.start(Hidden)
    drain()
    assert_failed(instance, "async inside the atomic step 'a'")


# --- the loop -----------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_all_coroutines_of_a_worker_run_in_one_loop() -> None:
    """A client that keeps its connections in the loop can be kept by the module, as in a web server."""
    loops, threads = [], []

    async def work(ctx: Any) -> None:
        loops.append(asyncio.get_running_loop())
        threads.append(threading.get_ident())

    for workflow in (AsyncStep, function, Stages, AsyncStep):
        assert_done(run(workflow, work))
    assert len(set(map(id, loops))) == len(set(threads)) == 1
    assert threading.get_ident() not in threads


@pytest.mark.django_db
def test_context_variables_and_the_workspace_reach_the_coroutine_and_stay_there() -> None:
    who = contextvars.ContextVar("who", default="nobody")
    workflows.workspace.create("acme")

    async def work(ctx: Any) -> Any:
        started = await workflows.astart(Waits)
        before = who.get()
        who.set("the step")
        return [before, ctx.workspace, (await Workspace.objects.aget(pk=started.workspace_id)).slug, started.started_by]

    who.set("the worker")
    assert_done(run(AsyncStep, work, workspace="acme"), ["the worker", "acme", "acme", ""])
    assert who.get() == "the worker"


class Waits(Workflow):
    name = "loop.waits"

    @step
    def ask(self, ctx):
        return Await("go", then="ask")


# --- the database -------------------------------------------------------------------------------------


@pytest.mark.django_db
@STYLES
def test_queries_and_sync_code_run_on_the_thread_of_the_step_in_its_transaction(workflow: Any) -> None:
    here = threading.get_ident()
    Group.objects.create(name="before")

    async def work(ctx: Any) -> Any:
        assert await sync_to_async(threading.get_ident)() == here
        assert await Group.objects.filter(name="before").aexists()
        await Group.objects.acreate(name="made")
        return [one.name async for one in Group.objects.order_by("name")]

    assert_done(run(workflow, work), ["before", "made"])


@pytest.mark.django_db
def test_what_a_coroutine_wrote_before_it_raised_stands_as_for_any_step() -> None:
    """In production each write commits by itself; `drain` keeps to that by the savepoint around the step's code."""

    async def work(ctx: Any) -> Any:
        await Group.objects.acreate(name="made")
        raise ZeroDivisionError

    def plain() -> Any:
        Group.objects.create(name="plain")
        raise ZeroDivisionError

    class Plain(Workflow):
        name = "loop.plain"

        @step
        def a(self, ctx):
            return plain()

    assert_failed(run(AsyncStep, work), "ZeroDivisionError")
    assert_failed(run(Plain, None), "ZeroDivisionError")
    assert Group.objects.filter(name="made").exists() == Group.objects.filter(name="plain").exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "touch", [lambda ctx: Group.objects.count(), lambda ctx: workflows.start(Waits), lambda ctx: connection.cursor()]
)
def test_a_coroutine_that_touches_the_database_itself_is_refused_by_django(touch: Any) -> None:
    async def work(ctx: Any) -> Any:
        with pytest.raises(SynchronousOnlyOperation):
            touch(ctx)

    assert_done(run(AsyncStep, work))


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_transaction_that_a_coroutine_leaves_open_is_found_and_undone() -> None:
    async def work(ctx: Any) -> Any:
        await sync_to_async(transaction.atomic().__enter__)()
        await Group.objects.acreate(name="lost")

    act.append(work)
    instance = workflows.start(AsyncStep)
    with pumping():
        wait_until(lambda: Instance.objects.filter(pk=instance.pk, status="failed").exists(), "the end")
    assert_failed(instance, "LeftTransactionOpen")
    assert not Group.objects.exists()


@pytest.mark.django_db
def test_sync_code_of_a_coroutine_may_await_again() -> None:
    async def work(ctx: Any) -> Any:
        async def count() -> int:
            return await Group.objects.acount()

        def between() -> Any:
            return async_to_sync(count)()

        return await sync_to_async(between)()

    assert_done(run(AsyncStep, work), 0)


@pytest.mark.django_db
def test_an_async_test_drains_async_steps_in_its_own_transaction() -> None:
    async def work(ctx: Any) -> Any:
        return [one.name async for one in Group.objects.all()]

    async def live() -> Any:
        await Group.objects.acreate(name="of the test")
        started = await workflows.astart(AsyncStep)
        await sync_to_async(drain)()
        return await workflows.aresult(started)

    act.append(work)
    assert async_to_sync(live)() == ["of the test"]


@pytest.mark.django_db
def test_what_a_step_began_and_did_not_await_reaches_no_database() -> None:
    left: list[asyncio.Task[Any]] = []
    go_on = asyncio.Event()

    async def later() -> Any:
        await go_on.wait()
        return await Group.objects.acount()

    async def leave(ctx: Any) -> None:
        left.append(asyncio.create_task(later()))
        await asyncio.sleep(0)

    async def look(ctx: Any) -> Any:
        go_on.set()
        done, _ = await asyncio.wait(left)
        return repr(next(iter(done)).exception())

    assert_done(run(AsyncStep, leave))
    assert "the step that began this task has ended" in assert_done(run(AsyncStep, look)).result


# --- ctx ----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_what_ctx_reads_and_writes_can_be_had_in_a_coroutine() -> None:
    class Reads(Workflow):
        name = "loop.reads"

        @step
        async def ask(self, ctx):
            callback = ctx.callback("paid", {"cents": int})
            ctx.progress(1, 2)
            ctx.state = {"url": callback.resume_url, "workspace": ctx.workspace}
            return Await(callback, then="end", timeout="1h")

        @step
        async def end(self, ctx):
            return Done([ctx.state["workspace"], ctx.answer, len(ctx.inbox), ctx.children, ctx.answered])

    instance = workflows.start(Reads)
    drain()
    instance.refresh_from_db()
    assert "/resume/" in instance.state["url"]
    assert instance.progress["done"] == 1
    workflows.complete(f"paid-{instance.pk}", {"cents": 5})
    drain()
    assert_done(instance, ["default", {"cents": 5}, 1, [], True])


@pytest.mark.django_db
def test_a_large_inbox_is_read_from_a_coroutine() -> None:
    class Inbox(Workflow):
        name = "loop.inbox"

        @step
        def ask(self, ctx):
            return Await("go", then="end")

        @step
        async def end(self, ctx):
            return Done(len(ctx.inbox))

    instance = workflows.start(Inbox)
    workflows.signal_many([(instance, "note", "x" * 1000)] * 300)
    drain()
    workflows.signal(instance, "go")
    drain()
    assert_done(instance, 301)


@pytest.mark.django_db
def test_a_machines_coroutine_reads_addresses_and_answers() -> None:
    async def show(ctx: Any) -> Any:
        return ctx.steps.payment._resume_url

    async def take(ctx: Any) -> Any:
        return [ctx.steps.payment.cents, ctx.workspace]

    class Pays(Machine):
        name = "loop.pays"

        charge = action(show)
        payment = wait_for(callback=True, timeout="24h", schema={"cents": int})
        receipt = action(take)

    instance = workflows.start(Pays)
    drain()
    instance.refresh_from_db()
    assert "/resume/" in instance.state["steps"]["charge"]
    workflows.complete(f"payment-{instance.pk}", {"cents": 5})
    drain()
    assert_done(instance, [5, "default"])


# --- how it ends --------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("alarm", [SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_is_no_exception_ends_the_run_and_not_the_loop(alarm: type[BaseException]) -> None:
    async def work(ctx: Any) -> Any:
        raise alarm("now")

    async def go_on(ctx: Any) -> Any:
        return id(asyncio.get_running_loop())

    before = assert_done(run(AsyncStep, go_on)).result
    failing = run(AsyncStep, work)
    failing.refresh_from_db()
    assert alarm.__name__ in str(failing.error)
    workflows.cancel(failing)
    assert_done(run(AsyncStep, go_on), before)


@pytest.mark.django_db
def test_an_interruption_cancels_the_coroutine_which_may_clean_up() -> None:
    """As the keeper interrupts a step of a worker's main thread: by a signal whose handler raises there."""
    seen: list[str] = []

    async def work(ctx: Any) -> Any:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await Group.objects.acreate(name="cleaned up")
            seen.append("cancelled")
            raise

    async def go_on(ctx: Any) -> Any:
        return id(asyncio.get_running_loop())

    before = assert_done(run(AsyncStep, go_on)).result
    with interrupted_by_signal():
        failing = run(AsyncStep, work)
    failing.refresh_from_db()
    assert (seen, "StepTimedOut" in str(failing.error)) == (["cancelled"], True)
    workflows.cancel(failing)
    assert_done(run(AsyncStep, go_on), before)


@pytest.mark.django_db
def test_an_interruption_lands_in_the_sync_code_that_a_coroutine_waits_for() -> None:
    landed: list[str] = []

    def block() -> None:
        try:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            threading.Event().wait(3600)
        except workflows.StepTimedOut:
            landed.append("here")
            raise

    async def work(ctx: Any) -> Any:
        await sync_to_async(block)()

    with interrupted_by_signal():
        failing = run(AsyncStep, work)
    failing.refresh_from_db()
    assert (landed, "StepTimedOut" in str(failing.error)) == (["here"], True)
    workflows.cancel(failing)


@pytest.mark.django_db
def test_a_loop_in_which_somebody_blocks_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loop, "GRACE", 0.1)
    free, ended = threading.Event(), threading.Event()

    async def work(ctx: Any) -> Any:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        try:
            free.wait(60)  # no await: nothing else runs in this loop
        finally:
            ended.set()

    async def go_on(ctx: Any) -> Any:
        return threading.get_ident()

    before = assert_done(run(AsyncStep, go_on)).result
    with interrupted_by_signal():
        failing = run(AsyncStep, work)
    failing.refresh_from_db()
    assert "StepTimedOut" in str(failing.error)
    workflows.cancel(failing)
    assert assert_done(run(AsyncStep, go_on)).result != before
    free.set()
    assert ended.wait(60)


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_the_time_of_a_step_ends_its_coroutine_in_a_worker() -> None:
    class Slow(Workflow):
        name = "loop.slow"
        step_timeout = "1s"
        max_attempts = 1

        @step
        async def a(self, ctx):
            await asyncio.sleep(3600)

    instance = workflows.start(Slow)
    with pumping():
        wait_until(lambda: Instance.objects.filter(pk=instance.pk, status="failed").exists(), "the end")
    assert_failed(instance, "StepTimedOut")


@contextmanager
def interrupted_by_signal() -> Iterator[None]:
    """The handler raises in the main thread, where the tests run, as the keeper's does in a worker's."""

    def interrupt(number: int, frame: object) -> None:
        raise workflows.StepTimedOut

    assert threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
