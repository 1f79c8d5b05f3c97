"""An inbox that is too large to travel with the claim keeps every promise of a small one."""

from __future__ import annotations

import pytest
from django.db import connection

import workflows
from workflows import Await, Done, Next, Workflow, step
from workflows.store.claim import CARRIED_BYTES, CARRIED_SIGNALS
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

MANY = CARRIED_SIGNALS + 10
SIZES = pytest.mark.parametrize("waiting", [1, MANY], ids=["small", "large"])


def fill(instance, name: str, count: int) -> None:
    workflows.signal_many([(instance, name, n) for n in range(count)])


@SIZES
def test_a_latecomer_wakes_a_park_of_a_step_that_looked_at_nothing(waiting):
    class LargePark(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="look_away")

        @step
        def look_away(self, ctx):
            workflows.signal(ctx.id, "go", "latecomer")
            return Await("go", then="end")

        @step
        def end(self, ctx):
            return Done([signal.payload for signal in ctx.awaited][-1])

    instance = workflows.start(LargePark)
    fill(instance, "go", waiting)
    drain()
    assert_done(instance, "latecomer")


@SIZES
def test_a_latecomer_survives_the_consumption_of_a_step_that_looked_at_nothing(waiting):
    class LargeNext(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="look_away")

        @step
        def look_away(self, ctx):
            workflows.signal(ctx.id, "go", "latecomer")
            return Next("again")

        @step
        def again(self, ctx):
            return Await("go", then="end")

        @step
        def end(self, ctx):
            return Done([signal.payload for signal in ctx.awaited])

    instance = workflows.start(LargeNext)
    fill(instance, "go", waiting)
    drain()
    assert_done(instance, ["latecomer"])


@SIZES
def test_the_inbox_read_after_the_awaited_shows_no_latecomer_either(waiting):
    class LargeInbox(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="look")

        @step
        def look(self, ctx):
            first = len(ctx.awaited)
            workflows.signal(ctx.id, "go", "latecomer")
            return Done([first, len(ctx.inbox)])

    instance = workflows.start(LargeInbox)
    fill(instance, "go", waiting)
    drain()
    assert_done(instance, [waiting, waiting])


def test_reawaiting_many_unconsumed_signals_parks_cleanly():
    class LargeAgain(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="ask")

    instance = workflows.start(LargeAgain)
    fill(instance, "go", MANY)
    drain()
    assert_awaiting(instance, "go")


def test_large_payloads_are_handed_over_whole_and_in_order():
    class LargePayload(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="end")

        @step
        def end(self, ctx):
            return Done([(signal.name, len(signal.payload)) for signal in ctx.inbox])

    instance = workflows.start(LargePayload)
    # Digits that hardly compress: what counts is the stored size.
    text = "".join(str(n * n) for n in range(CARRIED_BYTES * 4))
    workflows.signal(instance, "other", text)
    workflows.signal(instance, "go", text)
    drain()
    assert_done(instance, [["other", len(text)], ["go", len(text)]])


@pytest.mark.no_fold(reason="its signals are written behind the engine's back, because there are so many")
def test_parking_again_on_very_many_signals_compares_them_once_and_not_each_with_each():
    class Collect(Workflow):
        @step
        def ask(self, ctx):
            return Await("vote", then="count")

        @step
        def count(self, ctx):
            return Await("vote", then="count")

    many = 60_000
    instance = workflows.start(Collect)
    drain()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, source, payload) "
            "SELECT i.id, clock_timestamp(), i.seq + n, i.workspace_id, CASE n WHEN 1 THEN 'other' ELSE 'vote' END, "
            "'', '1' FROM holdpoint_instance i, generate_series(1, %s) n WHERE i.id = %s",
            [many, instance.pk],
        )
        cursor.execute(
            "UPDATE holdpoint_instance SET seq = seq + %s, inbox = %s WHERE id = %s", [many, many, instance.pk]
        )
        # Compared each with each they take three times as long, or more; once, a twentieth of it.
        cursor.execute("SET LOCAL statement_timeout = '4s'")
    workflows.signal(instance, "vote")
    assert drain() == {"await": 1}
    assert_awaiting(instance, "vote")
    workflows.signal(instance, "vote")
    assert drain() == {"await": 1}
