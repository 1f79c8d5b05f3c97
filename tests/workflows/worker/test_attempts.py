"""Claims, fences, attempts and dead workers.

A worker's death is played by claiming with a lease of no length and never committing: to the database
that is exactly what a killed process looks like.
"""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, transaction

import workflows
from tests.support.database import db
from workflows import Await, Child, Done, Next, Retry, Spawn, StepTimedOut, Stop, Workflow, engine, step, store
from workflows.engine.author_calls import Host
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent, Signal
from workflows.store import Commit, Kind
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def host() -> Host:
    return Host(db(), "default")


@pytest.fixture
def rival() -> Iterator[Any]:
    """A second connection, as another process has."""
    other = db().copy()
    yield other
    other.close()


def run_as_a_worker(worker: Any) -> None:
    """One batch by a worker, which keeps a connection of its own beside the author's."""
    host = Host(worker, "default")
    results = [engine.run(one, host) for one in store.claim(worker, 10)]
    engine.settle(worker, [one for one in results if isinstance(one, store.Commit)])


def make_sleepers_due(worker: Any) -> None:
    now = f"UPDATE holdpoint_instance SET due_at = holdpoint_now() WHERE status = {Status.SLEEPING.code} RETURNING 1"
    store.fetch(worker, now, {})
    store.expire_due(worker)


def die(limit: int = 1) -> list[store.Claim]:
    """A worker claims, dies, and its lease ends."""
    claims = store.claim(db(), limit, lease=0.0)
    store.reclaim(db())
    return claims


def snapshot() -> list[Any]:
    """Every row of the engine, to see that nothing at all has changed."""
    return [list(model.objects.order_by("pk").values()) for model in (Instance, Signal, LedgerEvent)]


class Counted(Workflow):
    """Says which attempt it is in."""

    handled: list[Exception] = []

    @step
    def a(self, ctx):
        return Done(ctx.attempt)

    def handle(self, error, ctx):
        Counted.handled.append(error)
        return Stop("handled")


# --- the one guarantee ------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_an_outcome_is_committed_before_anything_proceeds(rival: Any) -> None:
    class AttemptCommitFirst(Workflow):
        @step
        def a(self, ctx):
            return Next("b", {"from": "a"})

        @step
        def b(self, ctx):
            row = "SELECT step, state, seq FROM holdpoint_instance WHERE id = %(id)s"
            return Done(store.fetch(rival, row, {"id": ctx.id})[0])

    instance = workflows.start(AttemptCommitFirst)
    drain()
    assert_done(instance, ["b", '{"from": "a"}', 2])


def test_a_crash_before_the_commit_runs_the_whole_step_again() -> None:
    ran = []

    class AttemptTwice(Workflow):
        @step
        def a(self, ctx):
            ran.append((ctx.attempt, dict(ctx.state)))
            ctx.state["changed"] = True
            return Done()

    instance = workflows.start(AttemptTwice)
    [claim] = store.claim(db(), 1, lease=0.0)
    assert isinstance(engine.run(claim, host()), store.Commit)  # and now the worker dies, before it commits
    store.reclaim(db())
    drain()
    assert_done(instance)
    assert ran == [(0, {}), (0, {})]


# --- claims -------------------------------------------------------------------------------------


def test_a_claim_raises_the_fence_and_counts_the_run() -> None:
    instance = workflows.start(Counted)
    [claim] = store.claim(db(), 10)
    assert (claim.fence, claim.runs) == (1, 1)
    instance.refresh_from_db()
    assert (instance.status, instance.fence, instance.runs) == (Status.RUNNING, 1, 1)


def test_a_lease_lasts_10_seconds() -> None:
    workflows.start(Counted)
    [claim] = store.claim(db(), 1)
    due = Instance.objects.get(pk=claim.id).due_at
    assert (due - claim.at).total_seconds() == pytest.approx(10, abs=0.1)


def test_what_is_claimed_is_not_claimed_again_while_its_lease_lasts() -> None:
    workflows.start(Counted)
    assert len(store.claim(db(), 10)) == 1
    assert store.reclaim(db()) == 0
    assert store.claim(db(), 10) == []


@pytest.mark.django_db(transaction=True)
def test_the_claim_is_committed_with_the_run_counted_before_any_author_code_runs(rival: Any) -> None:
    class AttemptCommitted(Workflow):
        @step
        def a(self, ctx):
            row = store.fetch(
                rival, "SELECT status, fence, runs FROM holdpoint_instance WHERE id = %(id)s", {"id": ctx.id}
            )
            return Done(row[0])

    instance = workflows.start(AttemptCommitted)
    drain()
    assert_done(instance, [Status.RUNNING.code, 1, 1])


def test_a_lease_can_be_renewed_by_its_holder_only() -> None:
    workflows.start(Counted)
    [stale] = die()
    [claim] = store.claim(db(), 1, lease=0.0)
    assert store.renew(db(), [stale, claim], lease=60.0) == {claim.id}
    assert store.reclaim(db()) == 0


def test_claims_come_in_the_order_in_which_work_became_due() -> None:
    ids = [str(workflows.start(Counted).pk) for _ in range(5)]
    assert [store.claim(db(), 1)[0].id for _ in ids] == ids


# --- stale workers --------------------------------------------------------------------------------


class Parent(Workflow):
    @step
    def a(self, ctx):
        return Spawn([Child(Patient, {"n": 1})], then="b")

    @step
    def b(self, ctx):
        return Done()


class Patient(Workflow):
    @step
    def wait(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done()


@pytest.fixture
def patient() -> Instance:
    """A child whose parent waits, about to run with a signal in its inbox."""
    parent = workflows.start(Parent)
    drain()
    child = parent.children.get()
    workflows.signal(child, "go")
    return child


OUTCOMES = {
    "next": lambda claim: Commit(claim, Kind.NEXT, step="wait", state='{"stale": 1}', signals=[2]),
    "await": lambda claim: Commit(claim, Kind.AWAIT, step="wait", names=("stale",), state="1", signals=[2]),
    "retry": lambda claim: Commit(claim, Kind.RETRY, state="1", delay=5.0),
    "done": lambda claim: Commit(claim, Kind.DONE, result='"stale"', signals=[2]),
    "stop": lambda claim: Commit(claim, Kind.STOP, error="stale"),
    "failed run": lambda claim: Commit(claim, Kind.RUN_FAILED, error="stale", delay=1.0),
    "put back": lambda claim: Commit(claim, Kind.PUT_BACK, delay=1.0),
}


@pytest.mark.parametrize("kind", OUTCOMES)
@pytest.mark.parametrize("since", ["taken back", "claimed again", "finished by another", "cancelled", "given back"])
def test_a_stale_workers_outcome_changes_nothing_at_all(patient: Instance, kind: str, since: str) -> None:
    [stale] = store.claim(db(), 1, lease=0.0)
    assert stale.id == str(patient.pk)
    if since == "cancelled":
        workflows.cancel(patient)
    elif since == "given back":
        store.release(db(), [stale])
    else:
        store.reclaim(db())
        if since == "claimed again":
            store.claim(db(), 1)
        elif since == "finished by another":
            drain()
    before = snapshot()
    assert store.commit(db(), [OUTCOMES[kind](stale)]) == set()
    assert store.commit_locked(db(), [OUTCOMES[kind](stale)]) == set()
    assert engine.settle(db(), [OUTCOMES[kind](stale)]) == set()
    assert snapshot() == before


def test_a_stale_workers_children_are_not_started() -> None:
    workflows.start(Parent)
    [stale] = die()
    before = snapshot()
    assert engine.run(stale, host()) is store.RunEnd.LOST
    assert snapshot() == before


def test_a_cancelled_instance_loses_the_outcome_of_its_running_step() -> None:
    class AttemptCancelled(Workflow):
        @step
        def a(self, ctx):
            workflows.cancel(ctx.id, "while running")
            return Done("too late")

    instance = workflows.start(AttemptCancelled)
    drain()
    instance.refresh_from_db()
    assert (instance.status, instance.result, instance.error) == (Status.CANCELLED, None, "while running")


def test_a_stale_outcome_in_a_batch_leaves_the_others_alone() -> None:
    lost, kept = workflows.start(Counted), workflows.start(Counted)
    [stale] = die()
    claims = [stale, *store.claim(db(), 1)]
    assert [one.id for one in claims] == [str(lost.pk), str(kept.pk)]
    assert engine.settle(db(), [OUTCOMES["stop"](one) for one in claims]) == {str(kept.pk)}
    assert Instance.objects.get(pk=lost.pk).status == Status.RUNNABLE
    assert_failed(kept, "stale")


def test_an_outcome_is_applied_once_even_if_it_is_committed_twice(patient: Instance) -> None:
    [claim] = store.claim(db(), 1)
    outcome = OUTCOMES["done"](claim)
    assert store.commit(db(), [outcome]) == {claim.id}
    before = snapshot()
    assert engine.settle(db(), [outcome]) == set()
    assert snapshot() == before


# --- ctx.attempt ----------------------------------------------------------------------------------


def test_ctx_attempt_is_0_in_a_steps_first_run() -> None:
    instance = workflows.start(Counted)
    drain()
    assert_done(instance, 0)


def test_an_explicit_retry_raises_ctx_attempt_and_only_the_author_bounds_it() -> None:
    class AttemptMany(Workflow):
        max_attempts = 2

        @step
        def a(self, ctx):
            return Done(ctx.attempt) if ctx.attempt == 30 else Retry(delay=0)

    instance = workflows.start(AttemptMany)
    drain()
    assert_done(instance, 30)


@pytest.mark.parametrize("progress", ["next", "await", "spawn", "same step"])
def test_committed_progress_sets_the_attempt_back(progress: str) -> None:
    class AttemptProgress(Workflow):
        @step
        def a(self, ctx):
            if ctx.state.get("again"):
                return Done(ctx.attempt)
            if ctx.attempt < 3:
                return Retry(delay=0)
            return {
                "next": Next("b"),
                "same step": Next("a", {"again": True}),
                "await": Await("go", then="b"),
                "spawn": Spawn([Child(Counted)], then="b"),
            }[progress]

        @step
        def b(self, ctx):
            return Done(ctx.attempt)

    instance = workflows.start(AttemptProgress)
    drain()
    if progress == "await":
        workflows.signal(instance, "go")
        drain()
    assert_done(instance, 0)


def test_a_dead_worker_does_not_raise_ctx_attempt() -> None:
    instance = workflows.start(Counted)
    die()
    die()
    drain()
    assert_done(instance, 0)


def test_a_dead_worker_does_not_lower_the_attempt_that_retry_raised() -> None:
    class AttemptBoth(Workflow):
        @step
        def a(self, ctx):
            return Done(ctx.attempt) if ctx.attempt else Retry(delay="1s")

    instance = workflows.start(AttemptBoth)
    drain()
    advance("0.5s")
    die()
    advance("1s")
    assert_done(instance, 1)


# --- max_attempts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_max_attempts_bounds_consecutive_runs_that_ended_without_an_outcome(limit: int) -> None:
    class AttemptLimited(Workflow):
        name = f"AttemptLimited{limit}"
        max_attempts = limit

        @step
        def a(self, ctx):
            return Done()

    alive, dead = workflows.start(AttemptLimited), None
    for _ in range(limit - 1):
        die()
    drain()
    assert_done(alive)
    dead = workflows.start(AttemptLimited)
    for _ in range(limit):
        die()
    drain()
    assert_failed(dead, f"max_attempts={limit}")


def test_max_attempts_is_5_unless_the_workflow_says_otherwise() -> None:
    assert Counted.definition.max_attempts == 5


def test_after_max_attempts_the_instance_has_failed_with_the_reason() -> None:
    instance = workflows.start(Counted)
    for _ in range(5):
        die()
    drain()
    error = assert_failed(instance).error
    assert "step 'a'" in error
    assert "5 times without an outcome" in error
    assert "worker died" in error


def test_handle_is_not_called_for_a_dead_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counted, "handled", [])
    instance = workflows.start(Counted)
    for _ in range(5):
        die()
    drain()
    assert_failed(instance, "worker died")
    assert Counted.handled == []


def test_the_author_is_not_called_again_after_the_last_attempt() -> None:
    ran = []

    class AttemptSpent(Workflow):
        max_attempts = 3

        @step
        def a(self, ctx):
            ran.append(1)
            return Done()

    workflows.start(AttemptSpent)
    for _ in range(3):
        die()
    drain()
    assert ran == []


@pytest.mark.parametrize("progress", ["next", "await", "retry"])
def test_a_committed_outcome_sets_the_count_of_dead_runs_back(progress: str) -> None:
    class AttemptReset(Workflow):
        max_attempts = 3

        @step
        def a(self, ctx):
            if ctx.attempt:
                return Next("b")
            return {"next": Next("b"), "await": Await("go", then="b"), "retry": Retry(delay=60)}[progress]

        @step
        def b(self, ctx):
            return Done()

    instance = workflows.start(AttemptReset)
    die()
    die()
    [claim] = store.claim(db(), 1)
    engine.settle(db(), [engine.run(claim, host())])
    instance.refresh_from_db()
    assert instance.runs == 0
    if progress == "await":
        workflows.signal(instance, "go")
    elif progress == "retry":
        advance("61s")
        assert_done(instance)
        return
    die()
    die()
    drain()
    assert_done(instance)


def test_a_dead_workers_instance_keeps_its_inbox_and_its_awaited_signals() -> None:
    instance = workflows.start(Patient)
    drain()
    workflows.signal(instance, "go", 1)
    die()
    [claim] = store.claim(db(), 1)
    assert [row[1:3] for row in claim.signals] == [["go", 1]]
    assert claim.names == ["go"]


def test_a_dead_workers_timed_out_step_is_still_timed_out() -> None:
    class AttemptTimedOut(Workflow):
        @step
        def a(self, ctx):
            return Await("go", then="b", timeout="1h")

        @step
        def b(self, ctx):
            return Done(ctx.timed_out)

    instance = workflows.start(AttemptTimedOut)
    drain()
    assert_awaiting(instance, "go")
    store.fetch(db(), "UPDATE holdpoint_instance SET due_at = holdpoint_now() RETURNING 1", {})
    store.expire_due(db())
    die()
    drain()
    assert_done(instance, True)


def test_taking_back_is_written_into_the_ledger() -> None:
    instance = workflows.start(Counted)
    die()
    event = instance.events.last()
    assert (event.kind, event.status, event.name, event.data) == ("reclaimed", Status.RUNNABLE, "a", 1)


def test_a_parent_is_counted_down_when_its_childs_worker_keeps_dying() -> None:
    class AttemptMourning(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Counted)], then="b")

        @step
        def b(self, ctx):
            return Done([(c.status, "worker died" in c.error) for c in ctx.children])

    parent = workflows.start(AttemptMourning)
    [claim] = store.claim(db(), 1)
    assert engine.run(claim, host()) is store.RunEnd.COMMITTED
    for _ in range(5):
        die()
    drain()
    assert_done(parent, [["failed", True]])


def raise_counters(instance: Instance, **values: int) -> None:
    assigned = ", ".join(f"{name} = {value}" for name, value in values.items())
    store.fetch(db(), f"UPDATE holdpoint_instance SET {assigned} WHERE id = %(id)s RETURNING 1", {"id": instance.pk})


@pytest.mark.parametrize("delay", [None, 0, "1h"])
def test_the_attempt_stops_counting_where_its_column_ends_and_the_retries_go_on(delay: Any) -> None:
    class AttemptEndless(Workflow):
        @step
        def a(self, ctx):
            return Done() if ctx.state.get("again") else Retry({"again": True}, delay=delay)

    instance = workflows.start(AttemptEndless)
    raise_counters(instance, attempt=32_767)
    drain()
    if delay != 0:
        instance.refresh_from_db()
        assert (instance.status, instance.attempt) == (Status.SLEEPING, 32_767)
        make_sleepers_due(db())
        drain()
    assert_done(instance)


def test_as_many_dead_runs_as_can_be_allowed_fail_one_instance_and_stop_no_other() -> None:
    class AttemptMost(Workflow):
        max_attempts = 32_000

        @step
        def a(self, ctx):
            return Done()

    instance, other = workflows.start(AttemptMost), workflows.start(Counted)
    raise_counters(instance, runs=32_000)
    drain()
    assert_failed(instance, "max_attempts=32000")
    assert_done(other)


# --- alone ------------------------------------------------------------------------------------------


def test_neighbours_are_claimed_together() -> None:
    for _ in range(4):
        workflows.start(Counted)
    assert len(store.claim(db(), 10)) == 4


def test_an_instance_taken_back_from_a_dead_worker_is_claimed_alone_next_time() -> None:
    victims = {str(workflows.start(Counted).pk) for _ in range(3)}
    assert {one.id for one in die(limit=10)} == victims
    healthy = {str(workflows.start(Counted).pk) for _ in range(3)}
    batches = []
    while batch := store.claim(db(), 10):
        batches.append({one.id for one in batch})
    alone = [batch for batch in batches if batch & victims]
    assert sorted(map(len, alone)) == [1, 1, 1]
    assert healthy in batches


def test_an_instance_that_recovered_has_neighbours_again() -> None:
    first = workflows.start(Patient)
    die()
    drain()
    workflows.signal(first, "go")
    workflows.start(Counted)
    assert len(store.claim(db(), 10)) == 2


def test_an_instance_with_max_attempts_1_is_always_claimed_alone() -> None:
    class AttemptOnce(Workflow):
        max_attempts = 1

        @step
        def a(self, ctx):
            return Next("b")

        @step
        def b(self, ctx):
            return Await("go", then="c", timeout="1h")

        @step
        def c(self, ctx):
            return Retry(delay=60) if not ctx.attempt else Spawn([Child(Counted)], then="d")

        @step
        def d(self, ctx):
            return Done()

    first, second = workflows.start(AttemptOnce), workflows.start(AttemptOnce)
    workflows.start(Counted)
    runs = 0
    for _ in range(30):
        batch = store.claim(db(), 10)
        if not batch:
            for instance in (first, second):
                if Instance.objects.get(pk=instance.pk).status == Status.AWAITING:
                    workflows.signal(instance, "go")
            make_sleepers_due(db())
            continue
        if any(one.workflow == "AttemptOnce" for one in batch):
            assert len(batch) == 1
            runs += 1
        results = [engine.run(one, host()) for one in batch]
        engine.settle(db(), [one for one in results if isinstance(one, store.Commit)])
    assert runs == 10
    assert_done(first)
    assert_done(second)


def test_a_poison_step_never_spends_its_neighbours_attempts() -> None:
    class AttemptPoison(Workflow):
        @step
        def a(self, ctx):
            return Done()

    neighbours = [workflows.start(Counted) for _ in range(3)]
    poison = workflows.start(AttemptPoison)
    # Whoever claims the poison dies, with all that it holds.
    for _ in range(30):
        batch = store.claim(db(), 10, lease=0.0)
        if not any(one.workflow == "AttemptPoison" and one.runs <= 5 for one in batch):
            results = [engine.run(one, host()) for one in batch]
            engine.settle(db(), [one for one in results if isinstance(one, store.Commit)])
        store.reclaim(db())
    assert_failed(poison, "worker died")
    for neighbour in neighbours:
        assert_done(neighbour)
        reclaimed = neighbour.events.filter(kind="reclaimed").count()
        assert reclaimed <= 1


# --- given back, and timed out ----------------------------------------------------------------------


def test_the_unstarted_rest_of_a_batch_is_given_back_without_an_attempt() -> None:
    for _ in range(3):
        workflows.start(Counted)
    first, *rest = store.claim(db(), 3)
    assert store.release(db(), rest) == {one.id for one in rest}
    for one in rest:
        row = Instance.objects.get(pk=one.id)
        assert (row.status, row.runs, row.solo) == (Status.RUNNABLE, 0, False)
    assert Instance.objects.get(pk=first.id).status == Status.RUNNING
    assert {one.id for one in store.claim(db(), 3)} == {one.id for one in rest}


def test_giving_back_keeps_the_count_of_runs_that_died() -> None:
    workflows.start(Counted)
    die()
    [claim] = store.claim(db(), 1)
    store.release(db(), [claim])
    assert Instance.objects.get(pk=claim.id).runs == 1


def test_a_stale_worker_cannot_give_back_what_another_holds() -> None:
    workflows.start(Counted)
    [stale] = die()
    store.claim(db(), 1)
    before = snapshot()
    assert store.release(db(), [stale]) == set()
    assert snapshot() == before


class TooSlow(Workflow):
    max_attempts = 3
    handled: list[BaseException] = []

    @step
    def a(self, ctx):
        # What the worker's clock raises inside a step that ran too long.
        raise StepTimedOut("step 'a' ran longer than 50 s")

    def handle(self, error, ctx):
        TooSlow.handled.append(error)
        return Stop("handled")


@pytest.mark.django_db(transaction=True)
def test_a_step_timeout_ends_it_as_a_failed_run(rival: Any) -> None:
    instance = workflows.start(TooSlow)
    run_as_a_worker(rival)
    instance.refresh_from_db()
    assert (instance.status, instance.runs, instance.attempt) == (Status.SLEEPING, 1, 0)
    event = instance.events.last()
    assert event.kind == "run_failed"
    assert "longer than 50 s" in event.data
    assert 0 < (event.due_at - event.at).total_seconds() <= 300


@pytest.mark.django_db(transaction=True)
def test_a_step_that_keeps_timing_out_fails_after_max_attempts_without_handle(rival: Any) -> None:
    TooSlow.handled.clear()
    instance = workflows.start(TooSlow)
    for _ in range(3):
        run_as_a_worker(rival)
        make_sleepers_due(rival)
    error = assert_failed(instance).error
    assert "longer than 50 s" in error
    assert "max_attempts=3" in error
    assert TooSlow.handled == []


def test_a_step_cannot_swallow_its_timeout_with_except_exception() -> None:
    assert not issubclass(StepTimedOut, Exception)


# --- deadlocks ----------------------------------------------------------------------------------------


def wait_until_blocked(rival: Any, pid: int) -> None:
    until = time.monotonic() + 60
    while not store.fetch(rival, "SELECT 1 WHERE cardinality(pg_blocking_pids(%(pid)s)) > 0", {"pid": pid}):
        assert time.monotonic() < until, "nobody was ever blocked"


def lock_row(rival: Any, id: Any) -> None:
    store.fetch(rival, "SELECT 1 FROM holdpoint_instance WHERE id = %(id)s::uuid FOR UPDATE", {"id": id})


@pytest.fixture
def crossed(rival: Any) -> Iterator[list[Any]]:
    """Outcomes of two instances whose rows a rival locks in the order that the engine never uses."""
    first, second = sorted(workflows.start(Patient).pk for _ in range(2))
    claims = store.claim(db(), 2)
    [(pid,)] = store.fetch(db(), "SELECT pg_backend_pid()", {})
    with db().cursor() as cursor:
        cursor.execute("SET deadlock_timeout = '50ms'")
    outcomes = [engine.run(one, host()) for one in claims]
    ready = threading.Event()

    def cross() -> None:
        with rival.cursor() as cursor:
            cursor.execute("SET deadlock_timeout = '60s'")
            cursor.execute("BEGIN")
        lock_row(rival, second)
        ready.set()
        wait_until_blocked(rival, pid)
        lock_row(rival, first)
        with rival.cursor() as cursor:
            cursor.execute("COMMIT")

    thread = threading.Thread(target=cross)
    rival.inc_thread_sharing()
    thread.start()
    assert ready.wait(60)
    yield outcomes
    thread.join(60)
    rival.dec_thread_sharing()
    db().close()


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_in_the_engines_own_transaction_is_retried_without_spending_an_attempt(crossed: list[Any]) -> None:
    assert len(engine.settle(db(), crossed)) == 2
    for instance in Instance.objects.all():
        assert_awaiting(instance, "go")
        assert (instance.fence, instance.runs) == (1, 0)


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_in_a_callers_transaction_surfaces(crossed: list[Any]) -> None:
    with pytest.raises(OperationalError, match="deadlock"), transaction.atomic():
        engine.settle(db(), crossed)
    assert {one.status for one in Instance.objects.all()} == {Status.RUNNING}
