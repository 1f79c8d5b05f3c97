"""The async twins: each does what its call does, from async views and tests, on the thread that Django uses."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction
from django.http import HttpRequest, JsonResponse
from django.test import AsyncClient
from django.urls import path

import workflows
from tests.support.pumps import pumping
from workflows import Await, Done, Stop, Workflow, durable, step
from workflows.models import Instance, Schedule
from workflows.testing import assert_awaiting, assert_done, drain

TWINS = (
    "acancel acomplete acomplete_many aemit afork apause aretry aschedule asignal asignal_many astart astart_many "
    "aunpause aunschedule"
)


class AsyncOrder(Workflow):
    name = "async.order"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("paid"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done({"paid": ctx.answer}) if ctx.answer else Stop("nobody paid")


class AsyncGo(Workflow):
    name = "async.go"

    @step
    def ask(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Stop("as asked") if ctx.awaited[0].payload == "stop" else Done([one.payload for one in ctx.awaited])


async def order(request: HttpRequest, key: str) -> JsonResponse:
    started = await workflows.astart("async.go", {"thread": threading.get_ident()}, key=key)
    sent = await workflows.asignal(key, "go", 5)
    return JsonResponse({"id": str(started.pk), "delivered": str(sent.id)})


urlpatterns = [path("order/<key>", order)]


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    async def main() -> Any:
        return await coroutine

    return async_to_sync(main)()


# --- each twin ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TWINS.split())
def test_a_twin_takes_what_its_call_takes(name: str) -> None:
    twin, call = getattr(workflows, name), getattr(workflows, name[1:])
    assert inspect.iscoroutinefunction(twin)
    assert inspect.signature(twin) == inspect.signature(call)
    assert twin.__name__ == name


def test_the_twin_that_waits_takes_what_its_call_takes() -> None:
    assert inspect.iscoroutinefunction(workflows.aresult)
    assert inspect.signature(workflows.aresult) == inspect.signature(workflows.result)


@pytest.mark.django_db
def test_start_signal_and_result_work_from_async_code() -> None:
    async def live() -> Any:
        started = await workflows.astart("async.go", key="k")
        await sync_to_async(drain)()
        told = await workflows.asignal("k", "go", 1, dedup_key="one")
        again = await workflows.asignal(started, "go", 1, dedup_key="one")
        many = await workflows.asignal_many([(started.pk, "go", 2), ("nobody", "go")])
        await sync_to_async(drain)()
        return told.duplicate, again.duplicate, [one.refused for one in many], await workflows.aresult(started)

    assert run(live()) == (False, True, [None, "no_target"], [1, 2])


@pytest.mark.django_db
def test_many_are_started_cancelled_and_retried_from_async_code() -> None:
    async def live() -> list[str]:
        first, second = await workflows.astart_many("async.go", [{}, {}], keys=["a", "b"])
        cancelled = await workflows.acancel(first, "not needed")
        await workflows.asignal(second, "go", "stop")
        await sync_to_async(drain)()
        with pytest.raises(workflows.InstanceFailed, match="as asked"):
            await workflows.aresult(second)
        with pytest.raises(workflows.InstanceCancelled, match="not needed"):
            await workflows.aresult(first)
        return [cancelled.status, (await workflows.aretry(second)).status]

    assert run(live()) == ["cancelled", "runnable"]


@pytest.mark.django_db
def test_questions_and_events_are_answered_from_async_code() -> None:
    async def live() -> list[Any]:
        orders = await workflows.astart_many("async.order", [{}, {}, {}])
        await sync_to_async(drain)()
        ids = [f"paid-{one.pk}" for one in orders]
        done = await workflows.acomplete(ids[0], {"cents": 1})
        rest = await workflows.acomplete_many([(ids[1], 2), (ids[2], 3)])
        await sync_to_async(drain)()
        results = [await workflows.aresult(one) for one in orders]
        return [done.signal_id == ids[0], len(rest), results, await workflows.aemit("nobody.waits", {"n": 1})]

    assert run(live()) == [True, 2, [{"paid": {"cents": 1}}, {"paid": 2}, {"paid": 3}], 0]


@pytest.mark.django_db
def test_instances_are_forked_and_workflows_scheduled_and_paused_from_async_code() -> None:
    async def live() -> list[Any]:
        first = await workflows.astart("async.go")
        forked = await workflows.afork(first, key="again")
        made = await workflows.aschedule("async", "async.go", every="1h")
        await workflows.apause("async.go")
        ran = await sync_to_async(drain)()
        await workflows.aunpause("async.go")
        await sync_to_async(drain)()
        await workflows.aunschedule("async")
        return [forked.forked_from_id == first.pk, forked.key, made.workflow, ran]

    assert run(live()) == [True, "again", "async.go", {}]
    assert {one.status for one in Instance.objects.all()} == {"awaiting"}
    assert not Schedule.objects.exists()


@durable(name="async.function")
def doubled(ctx, number):
    return number * 2


@pytest.mark.django_db
def test_a_function_is_started_with_its_own_arguments_from_async_code() -> None:
    async def live() -> list[Instance]:
        return [await doubled.astart(2), await doubled.options(key="k").astart(number=3)]

    first, second = run(live())
    drain()
    assert [assert_done(first, 4).key, assert_done(second, 6).key] == [None, "k"]


# --- what comes along ---------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.urls(__name__)
def test_an_async_view_starts_and_signals() -> None:
    async def ask() -> Any:
        return json.loads((await AsyncClient().get("/order/k")).content)

    answer = run(ask())
    drain()
    assert assert_done(Instance.objects.get(pk=answer["id"]), [5]).key == "k"


@pytest.mark.django_db
def test_the_workspace_of_the_block_comes_along_and_stays_with_its_task() -> None:
    for slug in ("acme", "other"):
        workflows.workspace.create(slug)

    async def start_in(slug: str | None) -> str:
        if slug is None:
            return str((await workflows.astart("async.go")).workspace_id)
        with workflows.workspace(slug):
            await asyncio.sleep(0)
            return str((await workflows.astart("async.go")).workspace_id)

    async def live() -> Any:
        return await asyncio.gather(*(start_in(slug) for slug in ("acme", None, "other", "acme")))

    slugs = dict(workflows.models.Workspace.objects.values_list("pk", "slug"))
    assert [slugs[int(one)] for one in run(live())] == ["acme", "default", "other", "acme"]


@pytest.mark.django_db
def test_a_twin_takes_part_in_the_transaction_of_its_thread() -> None:
    async def live() -> Instance:
        return await workflows.astart("async.go")

    with transaction.atomic():
        started = run(live())
        assert Instance.objects.filter(pk=started.pk).exists()
        transaction.set_rollback(True)
    assert not Instance.objects.filter(pk=started.pk).exists()


@pytest.mark.django_db
def test_an_error_is_the_one_that_the_call_raises() -> None:
    async def live() -> None:
        await workflows.asignal("nobody", "go")

    with pytest.raises(workflows.NoTarget):
        run(live())


@pytest.mark.django_db
def test_the_call_itself_is_refused_in_async_code_by_django() -> None:
    async def live() -> None:
        workflows.start("async.go")

    with pytest.raises(SynchronousOnlyOperation):
        run(live())


# --- waiting for a result -----------------------------------------------------------------------------


@pytest.mark.django_db
def test_waiting_inside_a_transaction_is_refused_as_for_the_call() -> None:
    started = workflows.start("async.go")

    async def live() -> None:
        await workflows.aresult(started, timeout=5)

    assert connection.in_atomic_block
    with pytest.raises(workflows.InvalidCall, match="inside a transaction"):
        run(live())


@pytest.mark.django_db(transaction=True)
def test_a_result_that_is_waited_for_lets_other_tasks_run() -> None:
    """The answer comes from a task of the same loop, and from the same thread for synchronous code."""
    started = workflows.start("async.go", key="k")

    async def answer() -> None:
        while not await Instance.objects.filter(pk=started.pk, status="awaiting").aexists():
            await asyncio.sleep(0.01)
        await workflows.asignal("k", "go", 7)

    async def live() -> Any:
        return (await asyncio.gather(workflows.aresult("k", timeout="60s"), answer()))[0]

    with pumping():
        assert run(live()) == [7]


@pytest.mark.django_db(transaction=True)
def test_it_is_waited_for_no_longer_than_asked() -> None:
    started = workflows.start("async.go")

    async def live() -> None:
        await workflows.aresult(started, timeout=0.01)

    with pytest.raises(workflows.NotFinished):
        run(live())
    drain()
    assert_awaiting(started, "go")
