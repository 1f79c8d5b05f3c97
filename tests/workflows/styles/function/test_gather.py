"""`ctx.gather`: calls side by side, each saved on its own."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from django.db import connection, transaction

from tests.support.races import COMMITTED, PATIENCE, play, take_one, work
from workflows import LeftTransactionOpen, durable
from workflows.models import Checkpoint
from workflows.testing import advance, assert_done, assert_failed, drain


def start(body, name, **options):
    made = durable(name=f"gather-{name}", **options)(body)
    return made.start()


def double(n):
    return n * 2


@pytest.mark.django_db
def test_the_results_are_told_by_name_in_the_order_of_the_calls():
    def body(ctx):
        got = ctx.gather("both", {"b": (double, 2), "a": (double, 1), "c": lambda: (1, 2)})
        return [list(got), got]

    started = start(body, "names")
    drain()
    assert_done(started, [["b", "a", "c"], {"b": 4, "a": 2, "c": [1, 2]}])


async def double_later(n):
    await asyncio.sleep(0)
    return n * 2


@pytest.mark.django_db
def test_calls_may_be_async():
    def body(ctx):
        return ctx.gather("both", {"a": (double_later, 1), "b": (double, 2)})

    started = start(body, "async")
    drain()
    assert_done(started, {"a": 2, "b": 4})


@COMMITTED
def test_async_calls_run_in_threads_of_their_own_too():
    def body(ctx):
        return ctx.gather("both", {"a": (double_later, 1), "b": (double_later, 2)})

    started = start(body, "async-threads")
    work()
    assert_done(started, {"a": 2, "b": 4})


@pytest.mark.django_db
def test_a_saved_call_is_never_made_again_and_a_failed_one_is():
    made: list[str] = []

    def make(name, fails=0):
        made.append(name)
        if made.count(name) <= fails:
            raise ConnectionError(name)
        return name

    def body(ctx):
        got = ctx.gather("all", {"a": (make, "a"), "b": (make, "b", 1), "c": (make, "c")})
        ctx.sleep("nap", "1m")
        return got

    started = start(body, "again")
    drain()
    assert made == ["a", "b", "c"]
    advance("1h")
    assert_done(started, {"a": "a", "b": "b", "c": "c"})
    assert made == ["a", "b", "c", "b"]


@pytest.mark.django_db
def test_what_a_call_raises_can_be_caught_and_is_raised_again_in_every_run():
    def fail():
        raise ValueError("no rate")

    def body(ctx):
        try:
            ctx.gather("all", {"a": (double, 1), "b": fail})
        except ValueError as error:
            told = str(error)
        ctx.sleep("nap", "1m")
        return told

    started = start(body, "caught")
    advance("1m")
    assert_done(started, "no rate")
    assert list(Checkpoint.objects.values_list("name", "failed")) == [
        ("all/a", False),
        ("all/b", True),
        ("nap", False),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ([double], "takes a dict such as"),
        ({"a": 1}, "takes a function, not 1"),
        ({"": double}, "must not be empty"),
        ({"a": lambda: object()}, "cannot be stored"),
    ],
)
def test_calls_that_cannot_be_made_are_told(calls, problem):
    def body(ctx):
        ctx.gather("all", calls)

    started = start(body, "wrong", max_attempts=1)
    drain()
    assert_failed(started, problem)


@pytest.mark.django_db
def test_no_call_of_ctx_is_made_inside_a_gathered_function():
    def body(ctx):
        ctx.gather("all", {"a": lambda: ctx.step("inner", double, 1)})

    started = start(body, "nested")
    drain()
    assert_failed(started, "inside the function of 'all'")


@pytest.mark.django_db
def test_another_name_in_a_later_run_is_not_deterministic():
    names = iter(["a", "b"])

    def body(ctx):
        ctx.gather("all", {next(names): (double, 1)})
        ctx.sleep("nap", "1m")

    started = start(body, "other")
    advance("1m")
    assert_failed(started, "NonDeterministic")


@COMMITTED
def test_calls_run_side_by_side_each_with_a_connection_of_its_own_that_is_closed():
    both, used = threading.Barrier(2, timeout=PATIENCE), []

    def meet(name):
        both.wait()  # neither returns unless the other runs at the same time
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            used.append(cursor.fetchone()[0])
        return name

    def body(ctx):
        return ctx.gather("both", {"a": (meet, "a"), "b": (meet, "b")})

    started = start(body, "threads")
    work()
    assert_done(started, {"a": "a", "b": "b"})
    assert len(set(used)) == 2
    until = time.monotonic() + PATIENCE
    while find_sessions(used):  # the server needs a moment to end them
        assert time.monotonic() < until, "a thread left its connection open"
        time.sleep(0.005)


def find_sessions(pids):
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE pid = ANY(%s)", [pids])
        return cursor.fetchall()


@COMMITTED
def test_a_crash_repeats_only_what_is_not_saved():
    made, die = [], [True]

    def make(name):
        made.append(name)
        if name == "b" and die:
            die.clear()
            _take_over(started)  # another worker takes the instance, as after a crash
        return name

    def body(ctx):
        got = ctx.gather("all", {"a": (make, "a")})
        return got | ctx.gather("more", {"b": (make, "b")})

    started = start(body, "crash")
    assert play(take_one()).name == "LOST"
    work()
    assert_done(started, {"a": "a", "b": "b"})
    assert made == ["a", "b", "b"]


def _take_over(started):
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET fence = fence + 1, status = 1, due_at = clock_timestamp() WHERE id = %s",
            [started.pk],
        )


@COMMITTED
def test_a_thread_that_leaves_a_transaction_open_is_told():
    def leave():
        transaction.set_autocommit(True)
        transaction.atomic().__enter__()

    def body(ctx):
        try:
            ctx.gather("all", {"a": leave, "b": (double, 1)})
        except LeftTransactionOpen:
            return "told"

    started = start(body, "open")
    work()
    assert_done(started, "told")
