"""A caller who dawdles in a transaction holds up the questions and checkpoints it has touched, and nothing else.

What holds a row here is another connection; how long a pump waits for it is shortened, so that it waits too
short by far. No run may be spent on it, no call made twice, and no error be told to the author.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, forget
from workflows import Await, Done, Workflow, durable, engine, event, step, store
from workflows.conf import conf
from workflows.engine.author_calls import Host
from workflows.engine.journals import store_access
from workflows.models import AwaitUnit, Checkpoint, EventWait, Instance, Interaction, LedgerEvent
from workflows.values import back_off
from workflows.values.back_off import BackOff
from workflows.worker import pump_connection
from workflows.worker.pump_connection import connect

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed", "hasty")]

#: Milliseconds of the pump's patience, and seconds of a caller's transaction that outlasts it.
HASTE, HELD = 40, 0.35


@pytest.fixture
def hasty(monkeypatch, settings):
    settings.ROOT_URLCONF = "workflows.urls_resume"  # all that `available_apps` leaves
    monkeypatch.setattr(conf, "supplies_links", True)
    monkeypatch.setattr(pump_connection, "LOCK_TIMEOUT_MS", HASTE)
    monkeypatch.setattr(back_off, "POSTPONED", BackOff(0.0, 30.0))
    monkeypatch.setattr(store_access, "PATIENCE", HASTE / 1000)


@pytest.fixture
def pump_db() -> Iterator[BaseDatabaseWrapper]:
    """A connection like the pump's own; what would hang for ever ends."""
    db = connect("default")
    with db.cursor() as cursor:
        cursor.execute("SET statement_timeout = '5s'")
    yield db
    db.close()


@contextmanager
def held(call: Callable[[], Any], seconds: float | None = None) -> Iterator[Callable[[], None]]:
    """Another connection has called it in a transaction that stays open: so long, or until it is told to end."""
    begun, ends = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                call()
                begun.set()
                ends.wait(120 if seconds is None else seconds)
        finally:
            connection.close()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield ends.set
    finally:
        if seconds is None:
            ends.set()
        thread.join(60)


class Holder:
    """Holds an instance's row from within its own step, and is waited for when the test is over."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.once: set[Any] = set()

    def __call__(self, id: Any) -> None:
        if id in self.once:
            return
        self.once.add(id)
        one = held(lambda: Instance.objects.select_for_update().get(pk=id), HELD)
        one.__enter__()
        self.held.append(one)

    def join(self) -> None:
        while self.held:
            self.held.pop().__exit__(None, None, None)


@pytest.fixture
def hold() -> Iterator[Holder]:
    holder = Holder()
    yield holder
    holder.join()


def run_through(db: BaseDatabaseWrapper, hold: Holder) -> None:
    """The same, and once more if the run could not ask: it is put off until the caller lets go."""
    run_once(db, hold)
    if Instance.objects.filter(status="runnable").exists():
        run_once(db)


def run_once(db: BaseDatabaseWrapper, hold: Holder | None = None) -> None:
    """One claim, one run, and its outcome as soon as nobody holds anything."""
    [claim] = store.claim(db, 1)
    result = engine.run(claim, Host(db, "default"))
    if hold is not None:
        hold.join()
    if isinstance(result, store.Commit):
        engine.settle(db, [result])


# --- calls of a function -------------------------------------------------------------------------


@durable(name="held.child")
def child(ctx):
    return 1


CALLS: dict[str, Callable[[Any], Any]] = {
    "atomic": lambda ctx: ctx.atomic("x", lambda: 1),
    "sleep": lambda ctx: ctx.sleep("x", "1h"),
    "launch": lambda ctx: ctx.launch("x", child),
    "emit": lambda ctx: ctx.emit("x", "held.said"),
    "invoke": lambda ctx: ctx.invoke("x", child),
    "wait_for_event": lambda ctx: ctx.wait_for_event("x", event="held.said", timeout="1h"),
    "wait_for_signal": lambda ctx: ctx.wait_for_signal("x", timeout="1h"),
    "callback": lambda ctx: ctx.callback("x", timeout="1h"),
}


def test_a_step_whose_row_a_caller_holds_is_saved_later_and_runs_once(pump_db, hold):
    ran = []

    @durable(name="held.step", max_attempts=1)
    def body(ctx):
        def work():
            ran.append(1)
            hold(ctx.id)
            return "worked"

        return ctx.step("x", work)

    instance = workflows.start(body)
    run_through(pump_db, hold)
    instance.refresh_from_db()
    assert (instance.status, instance.result, instance.error) == ("done", "worked", None)
    assert ran == [1]


@pytest.mark.parametrize("call", CALLS)
def test_no_call_is_told_that_a_caller_holds_the_row(call, pump_db, hold):
    told = []

    @durable(name="held.call", max_attempts=1)
    def body(ctx):
        hold(ctx.id)
        try:
            CALLS[call](ctx)
        except Exception as error:
            told.append(error)
            raise
        return "end"

    instance = workflows.start(body)
    run_through(pump_db, hold)
    instance.refresh_from_db()
    assert not told
    assert instance.error is None
    assert instance.status != "failed"
    assert Checkpoint.objects.filter(instance=instance).count() == 1


def test_a_callback_is_armed_when_the_caller_lets_go(pump_db, hold):
    @durable(name="held.arm", max_attempts=1)
    def body(ctx):
        asked = ctx.callback("x", timeout="1h")
        hold(ctx.id)
        return asked.wait()

    instance = workflows.start(body)
    run_through(pump_db, hold)
    instance.refresh_from_db()
    assert (instance.status, instance.error) == ("awaiting", None)
    assert Interaction.objects.get().deadline == instance.due_at


def test_what_a_function_caught_is_saved_when_the_caller_lets_go(pump_db, hold):
    def fail():
        raise LookupError("no such card")

    @durable(name="held.caught", max_attempts=1)
    def body(ctx):
        try:
            ctx.step("x", fail)
        except LookupError:
            hold(ctx.id)
            return ctx.step("y", lambda: "undone")

    instance = workflows.start(body)
    run_through(pump_db, hold)
    instance.refresh_from_db()
    assert (instance.status, instance.result) == ("done", "undone")
    assert list(Checkpoint.objects.order_by("position").values_list("name", "failed")) == [("x", True), ("y", False)]


# --- questions of a step -------------------------------------------------------------------------


class Ask(Workflow):
    name = "held.ask"
    hold: Callable[[Any], None] = staticmethod(lambda id: None)
    reads = False

    @step
    def go(self, ctx):
        self.hold(ctx.id)
        asked = ctx.callback("cb")
        if self.reads:
            assert asked.resume_url
        return Await(asked, then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


@pytest.mark.parametrize("reads", [False, True], ids=["awaits", "reads its address"])
def test_a_question_is_asked_when_the_caller_lets_go(reads, pump_db, hold, monkeypatch):
    monkeypatch.setattr(Ask, "hold", staticmethod(hold))
    monkeypatch.setattr(Ask, "reads", reads)
    instance = workflows.start(Ask)
    run_once(pump_db, hold)
    instance.refresh_from_db()
    assert (instance.status, instance.error) == ("awaiting", None)
    assert Interaction.objects.get().deadline == instance.due_at
    workflows.complete(f"cb-{instance.pk}", 7)
    run_once(pump_db)
    instance.refresh_from_db()
    assert (instance.status, instance.result) == ("done", 7)


def test_a_refusal_is_told_when_the_caller_lets_go(pump_db, hold, monkeypatch, settings):
    settings.WORKFLOWS = {"POLICY": lambda operation, interaction, actor: operation != "suspend"}
    monkeypatch.setattr(Ask, "hold", staticmethod(hold))
    instance = workflows.start(Ask)
    run_once(pump_db, hold)
    instance.refresh_from_db()
    assert instance.status == "failed"
    assert "PolicyRefused" in instance.error
    assert LedgerEvent.objects.filter(instance=instance, kind="refused").count() == 1


def test_a_stale_worker_tells_no_refusal(pump_db, settings):
    instance = workflows.start(Ask)
    [stale] = store.claim(pump_db, 1)
    forget(stale)
    assert store.reclaim(pump_db) == 1
    assert len(store.claim(pump_db, 1)) == 1
    settings.WORKFLOWS = {"POLICY": lambda operation, interaction, actor: operation != "suspend"}
    before = Instance.objects.filter(pk=instance.pk).values().get()
    assert engine.run(stale, Host(pump_db, "default")) is store.RunEnd.LOST
    assert Instance.objects.filter(pk=instance.pk).values().get() == before
    assert not LedgerEvent.objects.filter(kind="refused").exists()


# --- an atomic step and its own row --------------------------------------------------------------


class Own(Workflow):
    """Its author's transaction holds the row of the instance, and then asks."""

    name = "held.own"
    state: Any = None

    @step(atomic=True)
    def go(self, ctx):
        workflows.signal(ctx.id, "hello")
        return Await(
            ctx.callback("cb"), then="end", timeout="1h", **({} if self.state is None else {"state": self.state})
        )

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def test_an_atomic_step_that_has_touched_its_own_row_may_await_an_answer(pump_db):
    instance = workflows.start(Own)
    run_once(pump_db)
    instance.refresh_from_db()
    assert (instance.status, instance.error) == ("awaiting", None)
    workflows.complete(f"cb-{instance.pk}", 7)
    run_once(pump_db)
    instance.refresh_from_db()
    assert (instance.status, instance.result) == ("done", 7)


def test_what_an_atomic_step_asked_is_undone_with_it(pump_db, monkeypatch):
    monkeypatch.setattr(Own, "state", {"cannot": object()})
    instance = workflows.start(Own)
    run_once(pump_db)
    instance.refresh_from_db()
    assert instance.status == "failed"
    assert "NotSerializable" in instance.error
    assert not Interaction.objects.exists()
    assert not AwaitUnit.objects.exists()


class InBlock(Workflow):
    name = "held.in-block"

    @step
    def go(self, ctx):
        with transaction.atomic():
            workflows.signal(ctx.id, "hello")
            return Done(ctx.callback("cb").resume_token)


class InAtomic(Workflow):
    name = "held.in-atomic"

    @step(atomic=True)
    def go(self, ctx):
        workflows.signal(ctx.id, "hello")
        return Done(ctx.callback("cb").resume_token)


@pytest.mark.parametrize("workflow", [InBlock, InAtomic])
def test_an_address_needs_a_commit_that_the_authors_own_block_prevents_and_so_is_refused(workflow, pump_db):
    """An address that is read can be handed out, so its question must stand whatever becomes of the block."""
    instance = workflows.start(workflow)
    run_once(pump_db)
    instance.refresh_from_db()
    assert instance.status == "failed"
    assert "leave your transaction before you ask" in instance.error
    assert not Interaction.objects.exists()


# --- an event that somebody holds ----------------------------------------------------------------


class Listen(Workflow):
    name = "held.listen"
    ran = threading.Event()

    @step
    def go(self, ctx):
        self.ran.set()
        return Await(event("held.slow"), then="end")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


class Quick(Workflow):
    name = "held.quick"

    @step
    def go(self, ctx):
        return Done()


def status_of(instance: Instance) -> str:
    return Instance.objects.get(pk=instance.pk).status


def test_a_park_whose_event_is_being_emitted_is_settled_later(pump_db):
    listens, quick = workflows.start(Listen), workflows.start(Quick)
    claims = store.claim(pump_db, 2)
    results = [engine.run(claim, Host(pump_db, "default")) for claim in claims]
    commits = [one for one in results if isinstance(one, store.Commit)]
    blocked: list[store.Commit] = []
    with held(lambda: workflows.emit("held.slow", 7)):
        assert engine.settle(pump_db, commits, blocked) == {str(quick.pk)}
        assert [one.claim.id for one in blocked] == [str(listens.pk)]
        assert not EventWait.objects.exists()
    assert engine.settle(pump_db, blocked) == {str(listens.pk)}
    run_once(pump_db)
    listens.refresh_from_db()
    assert (listens.status, listens.result) == ("done", 7)


def test_an_open_transaction_that_emitted_holds_up_no_other_instance():
    Listen.ran.clear()
    listens = workflows.start(Listen)
    with held(lambda: workflows.emit("held.slow", 7)) as let_go, pumping(1):
        assert Listen.ran.wait(60)
        for _ in range(3):
            quick = workflows.start(Quick)
            wait_until(lambda one=quick: status_of(one), "it to end", seconds=5.0, is_it=lambda now: now == "done")
        assert status_of(listens) == "running"
        let_go()
        wait_until(lambda: status_of(listens), "the event to arrive", seconds=60, is_it=lambda now: now == "done")
    assert Instance.objects.get(pk=listens.pk).result == 7
