"""The engine's own trouble is never the author's: lost connections, time-outs and conflicts end no instance.

Pumps are real, and connections are ended by the server, as a failover or an operator would end them.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from django.db import DatabaseError, OperationalError, connection, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, run_threads, take_one
from workflows import Await, Child, Done, Next, Retry, Spawn, Stop, Workflow, durable, event, step, store
from workflows.engine import commits
from workflows.exceptions.trouble import Trouble
from workflows.models import Instance, LedgerEvent, Workspace
from workflows.testing import assert_done, assert_failed
from workflows.values import back_off
from workflows.values.back_off import BackOff

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SECONDS = 60.0
ran: Counter[str] = Counter()
seen: list[str] = []
#: Backends that `cut` leaves alone: of the test itself.
spared: set[int] = set()
cuts: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _begin(monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (ran, cuts, seen, spared):
        one.clear()
    monkeypatch.setattr(back_off, "POSTPONED", BackOff(0.02, 30.0, scatter=(0.5, 1.5)))
    spared.add(find_pid())


def find_pid() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def end_others(*, own: bool = True) -> None:
    """Every connection of this database but the test's; the caller's own last, and so within a statement of his."""
    mine = find_pid()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> ALL(%s)",
            [[*spared, mine]],
        )
    if own:
        end_own()


def end_own() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def end_pumps() -> None:
    """The engine's connections, and not the author's."""
    end_others(own=False)


def once(name: str, what: Callable[[], None]) -> None:
    """What is to happen in the first run only."""
    cuts[name] += 1
    if cuts[name] == 1:
        what()


def wait_for_ends(instances: list[Instance], seconds: float = SECONDS) -> list[Instance]:
    ids = [one.pk for one in instances]

    def look() -> list[Instance]:
        return list(Instance.objects.filter(pk__in=ids).order_by("pk"))

    return wait_until(
        look, "the instances to end", seconds=seconds, is_it=lambda found: all(one.ended for one in found)
    )


def tell_ends(instances: list[Instance]) -> Counter[str]:
    return Counter(f"{one.status}: {one.error}" if one.error else str(one.status) for one in instances)


def list_events(instance: Instance) -> list[str]:
    return [str(one.kind) for one in LedgerEvent.objects.filter(instance=instance.pk).order_by("seq")]


# --- a connection that is lost ------------------------------------------------------------------------


@durable(name="trouble.answered")
def answered(ctx, n):
    got = ctx.wait_for_signal("gate", timeout="1h")
    if n == 3:
        once("pump", end_pumps)
    ctx.step("after", lambda: ran.update([str(n)]))
    return got


def test_the_pump_loses_its_connection_once_and_every_function_of_the_batch_goes_on():
    instances = workflows.start_many(answered, [{"n": n} for n in range(30)])
    with pumping():
        ids = [one.pk for one in instances]
        wait_until(lambda: Instance.objects.filter(pk__in=ids, status="awaiting").count() == 30, "all to wait")
    for one in instances:
        workflows.complete(f"gate-{one.pk}", {"ok": True})
    with pumping():
        ended = wait_for_ends(instances)
    assert tell_ends(ended) == {"done": 30}
    for one in ended:
        assert not {"run_failed", "reclaimed", "failed"} & set(list_events(one))


class Writes(Workflow):
    name = "trouble.writes"

    @step
    def only(self, ctx):
        if ctx.input == 40:
            once("author", end_own)
        Workspace.objects.create(slug=f"written-{ctx.input}-{ran[str(ctx.input)]}")
        return Done()

    def handle(self, error, ctx):
        seen.append(str(error))
        return Stop(str(error))


def test_the_authors_connection_is_lost_once_and_every_step_of_the_batch_goes_on():
    instances = workflows.start_many(Writes, list(range(100)))
    with pumping():
        ended = wait_for_ends(instances)
    assert tell_ends(ended) == {"done": 100}
    assert not seen
    assert Workspace.objects.filter(slug__startswith="written-").count() == 100
    assert list_events(instances[40]) == ["started", "done"]


class Addressed(Workflow):
    name = "trouble.addressed"

    @step
    def only(self, ctx):
        if ctx.input == 4:
            once("pump", end_pumps)
        try:
            token = ctx.callback("pay").resume_token
        except Exception as error:
            seen.append(repr(error))
            raise
        return Done(bool(token))

    def handle(self, error, ctx):
        seen.append(str(error))
        return Stop(str(error))


def test_reading_an_address_on_a_lost_connection_is_seen_neither_by_except_nor_by_handle():
    instances = workflows.start_many(Addressed, list(range(30)))
    with pumping():
        ended = wait_for_ends(instances)
    assert tell_ends(ended) == {"done": 30}
    assert not seen


class Swallows(Workflow):
    name = "trouble.swallows"

    @step
    def only(self, ctx):
        once("pump", end_pumps)
        try:
            ctx.callback("pay").resume_token  # noqa: B018
        except BaseException:
            return Done("swallowed")
        return Done("ok")


def test_a_bare_except_does_not_keep_a_run_that_met_the_engines_trouble():
    instance = workflows.start(Swallows)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance, "ok")


class Atomic(Workflow):
    name = "trouble.atomic"

    @step(atomic=True)
    def only(self, ctx):
        Workspace.objects.create(slug=f"atomic-{ctx.input}")
        once(f"cut-{ctx.input}", {"own": end_own, "all": end_others, "pump": end_pumps}[ctx.input])
        return Done()

    def handle(self, error, ctx):
        seen.append(str(error))
        return Stop(str(error))


@pytest.mark.parametrize("how", ["own", "all", "pump"])
def test_an_atomic_step_whose_connection_is_lost_leaves_nothing_and_runs_again(how):
    instance = workflows.start(Atomic, how)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance)
    assert not seen
    assert Workspace.objects.filter(slug=f"atomic-{how}").count() == 1


class Small(Workflow):
    name = "trouble.small"

    @step
    def only(self, ctx):
        return Done("small")


class Outcomes(Workflow):
    """Every kind of outcome, returned just after the engine's connections were ended."""

    name = "trouble.outcomes"
    gate = staticmethod(lambda: None)

    @step
    def first(self, ctx):
        ran[ctx.input] += 1
        once(ctx.input, end_pumps)
        self.gate()
        match ctx.input:
            case "next":
                return Next("last")
            case "done":
                return Done()
            case "retry":
                return Retry(delay=0) if ctx.attempt == 0 else Done()
            case "names":
                return Await("go", then="last", timeout="1h")
            case "event":
                return Await(event("trouble.go"), then="last", timeout="1h")
            case "callback":
                return Await(ctx.callback("pay"), then="last", timeout="1h")
            case "spawn":
                return Spawn([Child(Small, {})], then="last")
        raise AssertionError(ctx.input)

    @step
    def last(self, ctx):
        return Done()

    def handle(self, error, ctx):
        seen.append(repr(error))
        return Stop(str(error))


@pytest.mark.parametrize("outcome", ["next", "done", "retry", "names", "event", "callback", "spawn"])
def test_every_kind_of_outcome_survives_a_lost_connection(outcome):
    instance = workflows.start(Outcomes, outcome)
    waits = outcome in ("names", "event", "callback")
    with pumping():
        wait_until(
            lambda: Instance.objects.get(pk=instance.pk),
            "the outcome",
            is_it=lambda one: one.status == "awaiting" if waits else one.ended,
        )
    assert not seen
    if not waits:
        assert_done(instance)
    assert not {"failed", "run_failed", "reclaimed"} & set(list_events(instance))


class Handles(Workflow):
    name = "trouble.handles"

    @step
    def only(self, ctx):
        raise ValueError("first")

    def handle(self, error, ctx):
        seen.append(str(error))
        once("handle", end_own)
        Workspace.objects.create(slug=f"handled-{len(seen)}")
        return Done("handled")


def test_handle_itself_may_lose_the_connection():
    instance = workflows.start(Handles)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance, "handled")
    assert seen == ["first", "first"]


@durable(name="trouble.gives-up")
def gives_up(ctx):
    ran["runs"] += 1
    if ran["runs"] == 1:
        end_pumps()
        raise ValueError("first")
    ctx.step("after", lambda: None)
    return ran["runs"]


def test_a_function_that_raises_on_a_lost_connection_is_run_again_as_after_any_error():
    instance = workflows.start(gives_up)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance, 2)
    assert list_events(instance).count("run_failed") == 1


class Catches(Workflow):
    name = "trouble.catches"

    @step
    def only(self, ctx):
        try:
            end_own()
        except DatabaseError as error:
            return Done(type(error).__name__)
        return Done("nothing met")


def test_what_the_authors_own_query_meets_he_may_catch_and_the_next_step_finds_a_living_connection():
    first, second = workflows.start_many(Catches, [{}, {}])
    with pumping():
        wait_for_ends([first, second])
    assert_done(first, "OperationalError")
    assert_done(second, "OperationalError")


@durable(name="trouble.launches")
def launches(ctx):
    ran["runs"] += 1
    if ran["runs"] == 1:
        with contextlib.suppress(DatabaseError):
            end_own()
    return str(ctx.launch("small", Small, {}))


class Emits(Workflow):
    name = "trouble.emits"

    @step
    def only(self, ctx):
        ran["runs"] += 1
        if ran["runs"] == 1:
            with contextlib.suppress(DatabaseError):
                end_own()
        return Done(workflows.emit("trouble.emitted"))

    def handle(self, error, ctx):
        seen.append(repr(error))
        return Stop(str(error))


@pytest.mark.parametrize("workflow", [launches, Emits])
def test_what_the_engine_meets_on_a_connection_whose_loss_was_caught_is_its_own_trouble(workflow):
    instance = workflows.start(workflow)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance)
    assert not seen
    assert list_events(instance) == ["started", "done"]


def test_what_is_postponed_is_not_called_back_by_workers_that_look_for_clocks_put_back():
    instance = workflows.start(Small)
    for _ in range(12):  # until it is as long as it gets
        claim = take_one()
        trouble = Trouble(OperationalError("the server is starting"))
        store.postpone(connection, [commits.make_postponed(claim, trouble)])
        due = Instance.objects.get(pk=instance.pk).due_at
        assert store.reclaim(connection) == 0
        assert Instance.objects.get(pk=instance.pk).due_at == due
        with connection.cursor() as cursor:
            cursor.execute("UPDATE holdpoint_instance SET due_at = now()")


class Crashes(Workflow):
    name = "trouble.crashes"
    max_attempts = 3

    @step
    def only(self, ctx):
        ran["crashes"] += 1
        end_own()
        return Done()

    def handle(self, error, ctx):
        seen.append(str(error))
        return Stop(str(error))


def test_a_step_that_ends_its_own_connection_each_time_fails_after_max_attempts_with_the_reason():
    crashing = workflows.start(Crashes)
    around = workflows.start_many(Writes, list(range(200, 220)))
    with pumping():
        wait_for_ends([crashing, *around])
    assert_failed(crashing, "max_attempts=3")
    assert_failed(crashing, "OperationalError")
    assert not seen
    assert 3 <= ran["crashes"] <= 5
    assert tell_ends(list(Instance.objects.filter(pk__in=[one.pk for one in around]))) == {"done": 20}


# --- conflicts and time-outs --------------------------------------------------------------------------


class Loses(Workflow):
    name = "trouble.loses"

    @step(atomic=True)
    def only(self, ctx):
        ran["tries"] += 1
        Workspace.objects.create(slug="lost")
        if ran["tries"] <= 12:
            with connection.cursor() as cursor:
                cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'lost again' USING ERRCODE = '{ctx.input}'; END $$")
        return Done(ctx.attempt)

    def handle(self, error, ctx):
        seen.append(str(error))
        return Stop(str(error))


@pytest.mark.parametrize("state", ["40P01", "40001"])
def test_an_atomic_step_that_loses_again_and_again_is_postponed_and_spends_no_attempt(state):
    instance = workflows.start(Loses, state)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance, 0)
    assert not seen
    assert list_events(instance) == ["started", "done"]


@durable(name="trouble.charges")
def charges(ctx):
    try:
        ctx.step("charge", charge)
    except Exception as error:
        return {"status": f"payment failed: {error!r}"}
    return {"status": "paid"}


def charge():
    ran["charged"] += 1
    once("pump", end_pumps)


def test_a_step_that_worked_is_never_saved_as_failed_because_it_could_not_be_saved():
    instance = workflows.start(charges)
    with pumping():
        wait_for_ends([instance])
    assert_done(instance, {"status": "paid"})


HOSTILE = {
    "statement_timeout": "150ms",
    "lock_timeout": "100ms",
    "idle_in_transaction_session_timeout": "100ms",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
}


@pytest.fixture
def hostile() -> Iterator[None]:
    """What new connections are given that do not ask for something else; this test's own is open already."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    with connection.cursor() as cursor:
        for setting, value in HOSTILE.items():
            cursor.execute(f"ALTER DATABASE {name} SET {setting} = '{value}'")
    yield
    with connection.cursor() as cursor:
        for setting in HOSTILE:
            cursor.execute(f"ALTER DATABASE {name} RESET {setting}")


@pytest.mark.parametrize("outcome", ["next", "names", "event", "callback", "spawn"])
def test_the_engine_keeps_settings_of_its_own_whatever_the_server_prefers(hostile, outcome):
    cuts[outcome] = 1  # nothing is cut here
    instance = workflows.start(Outcomes, outcome)
    held = threading.Event()

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0")
            cursor.execute("SET TRANSACTION READ WRITE")
            cursor.execute("SELECT 1 FROM holdpoint_instance WHERE id = %s FOR UPDATE", [instance.pk])
            held.set()
            cursor.execute("SELECT pg_sleep(1.2)")

    gate = threading.Event()
    Outcomes.gate = staticmethod(lambda: (gate.set(), held.wait(60)))
    try:
        with pumping():
            assert gate.wait(60)
            run_threads([hold])
            wait_until(
                lambda: Instance.objects.get(pk=instance.pk),
                "the outcome",
                is_it=lambda one: one.status == "awaiting" or one.ended,
            )
    finally:
        Outcomes.gate = staticmethod(lambda: None)
    assert Instance.objects.get(pk=instance.pk).status == ("done" if outcome in ("next", "spawn") else "awaiting")
    assert not seen
