"""Events where transactions are stricter than READ COMMITTED: emitting and waiting miss nothing, or say so.

A stricter transaction reads from a snapshot that is older than the lock which emits and parks share. So the
engine's own transactions are READ COMMITTED whatever the server's default is, and those of callers are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from psycopg import IsolationLevel, errors

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.races import COMMITTED, Other, play, settle, take_one, work
from workflows import Await, Done, Workflow, durable, emit, step
from workflows.api.events import emit_event
from workflows.definitions.awaited_event import event
from workflows.exceptions import StrictIsolation
from workflows.models import Instance, NamedEvent
from workflows.store import Claim
from workflows.testing import drain

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

LEVELS = ["repeatable read", "serializable"]


class Listener(Workflow):
    name = "event_isolation.listener"

    @step
    def ask(self, ctx):
        return Await(event("paid"), then="end")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


class Atomic(Listener):
    name = "event_isolation.atomic"

    @step(atomic=True)
    def ask(self, ctx):
        return Await(event("paid"), then="end")


class Begins(Workflow):
    name = "event_isolation.begins"
    on_event = "event_isolation.begun"

    @step
    def end(self, ctx):
        return Done(ctx.input)


@durable(name="event_isolation.emitter")
def emitter(ctx, strict=False):
    def inside():
        return emit("paid", {"n": 1})

    return ctx.atomic("tell", inside) if strict else ctx.emit("tell", "paid", {"n": 1})


@pytest.fixture(params=LEVELS)
def default(request: Any) -> Iterator[str]:
    """The server's default, which no setting of Django tells of: each new connection of this database has it."""
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{request.param}'")
    connection.close()
    try:
        assert level() == request.param
        yield request.param
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER DATABASE "{name}" RESET default_transaction_isolation')
        connection.close()


@pytest.fixture(params=[IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE], ids=LEVELS)
def strict(request: Any) -> Callable[[], Any]:
    """Opens a transaction of a caller's own, of this level."""

    class Strict(transaction.Atomic):
        def __enter__(self) -> None:
            super().__enter__()
            with connection.cursor() as cursor:
                cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {request.param.name.replace('_', ' ')}")

    return lambda: Strict(None, True, False)


def level() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW transaction_isolation")
        shown: str = cursor.fetchone()[0]
    return shown


def running(workflow: Any = Listener) -> tuple[Instance, Claim]:
    instance = workflows.start(workflow)
    return instance, take_one()


def fresh(instance: Instance) -> Instance:
    return Instance.objects.get(pk=instance.pk)


# --- the engine's own transactions --------------------------------------------------------------------------


@pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])
def test_an_emit_that_waited_for_a_park_wakes_it_under_a_stricter_default(default: str, rollback: bool) -> None:
    instance, claim = running()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")  # the park is a pump's
        settle(play(claim))
        other = Other(lambda: emit("paid", 1))
        other.wait_until_blocked()
        transaction.set_rollback(rollback)
    assert other.join() == (0 if rollback else 1)
    if rollback:
        settle(play(claim))
    work()
    assert fresh(instance).result == 1


@pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])
def test_a_park_that_waited_for_an_emit_takes_it_under_a_stricter_default(default: str, rollback: bool) -> None:
    instance, claim = running()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        emit("paid", 1)
        other = Other(lambda: settle(play(claim)))  # on a connection with the stricter default
        other.wait_until_blocked()
        transaction.set_rollback(rollback)
    assert other.join() is True
    assert fresh(instance).status == ("awaiting" if rollback else "runnable")


def test_an_emit_leaves_the_connection_as_it_was(default: str) -> None:
    emit("paid", 1)
    with transaction.atomic():
        assert level() == default


def test_what_begins_with_an_event_begins_once_under_a_stricter_default(default: str) -> None:
    first, second = race_emits(lambda: emit_event("event_isolation.begun", 1, dedup_key="evt"))
    assert (first.started, second.duplicate) == (1, True)
    assert Instance.objects.filter(workflow=Begins.name).count() == 1


def race_emits(call: Callable[[], Any]) -> tuple[Any, Any]:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        held = call()
        other = Other(call)
        other.wait_until_blocked()
    return held, other.join()


def test_a_function_emits_under_a_stricter_default(default: str) -> None:
    waiting = workflows.start(Listener)
    drain()
    instance = workflows.start(emitter)
    drain()
    assert fresh(instance).result == 1
    assert fresh(waiting).status == "done"


@pytest.mark.django_db(transaction=True)
def test_the_api_emits_once_under_a_stricter_default(default: str) -> None:
    """The call and the answer that is kept for its key are one transaction, which is the engine's own."""
    waiting = workflows.start(Listener)
    drain()
    call = Api(make_key("signal"))
    answers = [call.post("/v1/events", {"event": "paid", "data": 1}, {"Idempotency-Key": "evt-1"}) for _ in range(2)]
    assert [(one.status_code, one.json()["woke"]) for one in answers] == [(202, 1), (202, 1)]
    work()
    assert fresh(waiting).result == 1


# --- transactions of callers --------------------------------------------------------------------------------


def test_an_emit_inside_a_callers_stricter_transaction_is_refused(strict: Any) -> None:
    """Without the refusal: the caller reads, an instance parks, the caller emits, and the two never meet."""
    instance, claim = running()
    with strict():
        assert Instance.objects.count() == 1
        assert Other(lambda: settle(play(claim))).join() is True
        with pytest.raises(StrictIsolation, match=r"on_commit") as told:
            emit("paid", 1)
        assert "paid" in str(told.value)
        assert Instance.objects.count() == 1  # the transaction itself goes on
    assert not NamedEvent.objects.exists()
    assert emit("paid", 1) == 1
    work()
    assert fresh(instance).result == 1


def test_an_emit_that_a_stricter_transaction_refused_holds_nobody_up(strict: Any) -> None:
    with strict():
        with pytest.raises(StrictIsolation):
            emit("paid", 1)
        assert Other(lambda: emit("paid", 2)).join() == 0


def test_an_emit_inside_a_callers_ordinary_transaction_is_part_of_it() -> None:
    instance, claim = running()
    settle(play(claim))
    with transaction.atomic():
        assert emit("paid", 1) == 1
        transaction.set_rollback(True)
    assert fresh(instance).status == "awaiting"


def test_a_function_that_emits_inside_its_own_stricter_transaction_is_told(default: str) -> None:
    instance = workflows.start(emitter, {"strict": True})
    drain()
    assert "ctx.emit" in (fresh(instance).error or "")


def test_a_wait_inside_a_stricter_atomic_step_is_refused(default: str) -> None:
    instance, claim = running(Atomic)
    settle(play(claim))
    assert fresh(instance).status == "failed"
    assert "not atomic" in (fresh(instance).error or "")


def test_a_test_of_the_project_may_emit_and_wait_under_a_stricter_default(default: str) -> None:
    """The transaction that a test is wrapped in is not one of the project, and nobody else is there to be missed."""

    class Wrapped(transaction.Atomic):
        def __init__(self) -> None:
            super().__init__(None, True, False)
            self._from_testcase = True

    with Wrapped():
        instance = workflows.start(Listener)
        drain()
        assert emit("paid", 1) == 1
        drain()
        assert fresh(instance).result == 1


# --- the other calls: what a stricter transaction cannot see, the row tells ---------------------------------


def look_then_call(strict: Any, elsewhere: Callable[[], Any], call: Callable[[], Any]) -> OperationalError:
    """A stricter transaction looks, then something happens elsewhere, then the transaction calls: its refusal."""

    def run() -> None:
        with strict():
            assert Instance.objects.count() <= 1
            assert Other(elsewhere).join()
            call()

    with pytest.raises(OperationalError) as told:
        run()
    return told.value


def test_a_signal_of_a_stricter_transaction_is_never_lost_to_a_park(strict: Any) -> None:
    class Waiting(Workflow):
        name = "event_isolation.waiting"

        @step
        def ask(self, ctx):
            return Await("go", then="end")

        @step
        def end(self, ctx):
            return Done(ctx.awaited[0].payload)

    instance, claim = running(Waiting)
    refused = look_then_call(strict, lambda: settle(play(claim)), lambda: workflows.signal(instance, "go", 1))
    assert isinstance(refused.__cause__, errors.SerializationFailure)
    assert workflows.signal(instance, "go", 1).woke


def test_an_answer_of_a_stricter_transaction_is_never_lost_to_a_park(strict: Any) -> None:
    class Asking(Workflow):
        name = "event_isolation.asking"

        @step
        def ask(self, ctx):
            pay = ctx.callback("pay")
            return Await(pay, then="end") if pay.resume_token else Done()

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    instance, claim = running(Asking)
    park = play(claim)  # the question stands, and nobody is parked on it yet
    address = f"pay-{instance.pk}"
    refused = look_then_call(strict, lambda: settle(park), lambda: workflows.complete(address, 1))
    assert isinstance(refused.__cause__, errors.SerializationFailure)
    workflows.complete(address, 1)
    work()
    assert fresh(instance).result == 1


def test_a_key_that_a_stricter_transaction_cannot_see_is_taken_all_the_same(strict: Any) -> None:
    def start() -> object:
        return workflows.start(Listener, key="one")

    refused = look_then_call(strict, start, start)
    assert isinstance(refused.__cause__, errors.SerializationFailure)
    assert Instance.objects.count() == 1


def test_signals_and_starts_of_the_engines_own_are_read_committed_too(default: str) -> None:
    """They meet a row that has changed since they began, and go on from what it is now."""
    instance, claim = running()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        settle(play(claim))
        other = Other(lambda: workflows.signal(instance, "noise").woke)
        other.wait_until_blocked()
    assert other.join() is False
