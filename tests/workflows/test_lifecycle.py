"""The state machine: its edges, its constraints, and what leaves an end again."""

import uuid
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

import workflows
from workflows import Await, Child, Done, Next, NoTarget, NotRetryable, Retry, Spawn, Stop, Workflow, step
from workflows.exceptions import NotCancellable
from workflows.lifecycle import CODES, EDGES, EVENT_CODES, FIRST_TERMINAL, INITIAL, LIVE, TERMINAL, Event, Status
from workflows.models import Instance, Workspace
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

PAIRS = [(a, b) for a in Status for b in Status if a is not b]


def columns(status: Status) -> dict[str, Any]:
    """Values beside the status that the check constraints ask for."""
    ended = status in TERMINAL
    return {
        "status": status.code,
        "due_at": None if ended else "2030-01-01Z",
        "finished_at": "2030-01-01Z" if ended else None,
        "names": ["paid"] if status is Status.AWAITING else None,
        "pending": 1 if status is Status.AWAITING_CHILDREN else 0,
        "error": "broke" if status is Status.FAILED else None,
    }


def insert(state: Status, **changes: Any) -> uuid.UUID:
    """A row written past the engine, to see what the database itself refuses."""
    values = {
        "id": uuid.uuid4(),
        "created_at": "2030-01-01Z",
        "workspace_id": Workspace.objects.get(slug="default").pk,
        "workflow": "Nobody",
        "step": "a",
        "started_by": "",
        "input": "{}",
        **dict.fromkeys(("fence", "seq", "inbox", "attempt", "runs", "spawns"), 0),
        "version": 1,
        "timed_out": False,
        "solo": False,
        **columns(state),
        **changes,
    }
    marks = ", ".join(["%s"] * len(values))
    with connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO holdpoint_instance ({', '.join(values)}) VALUES ({marks})", [*values.values()])
    return values["id"]


def update(id: uuid.UUID, **changes: Any) -> None:
    assigned = ", ".join(f"{name} = %s" for name in changes)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE holdpoint_instance SET {assigned} WHERE id = %s", [*changes.values(), id])


@pytest.mark.parametrize(("before", "after"), PAIRS, ids=lambda status: status.value)
def test_the_database_accepts_exactly_the_edges_of_the_lifecycle(before: Status, after: Status) -> None:
    row = insert(before)
    if after in EDGES[before]:
        update(row, **columns(after))
        assert Instance.objects.get(pk=row).status == after
    else:
        with pytest.raises(IntegrityError, match="cannot go from status"), transaction.atomic():
            update(row, **columns(after))
        assert Instance.objects.get(pk=row).status == before


def test_the_table_of_edges_is_the_one_that_is_promised() -> None:
    parked = {Status.AWAITING, Status.SLEEPING, Status.AWAITING_CHILDREN}
    assert set(EDGES) == set(Status)
    assert EDGES[Status.RUNNABLE] == {Status.RUNNING, Status.CANCELLED}
    assert EDGES[Status.RUNNING] == {Status.RUNNABLE, *parked, *TERMINAL}
    for status in parked:
        assert EDGES[status] == {Status.RUNNABLE, Status.CANCELLED}
    assert EDGES[Status.FAILED] == {Status.RUNNABLE}


def test_done_and_cancelled_never_change() -> None:
    assert EDGES[Status.DONE] == frozenset()
    assert EDGES[Status.CANCELLED] == frozenset()


def test_codes_are_unique_and_the_terminal_ones_are_the_highest() -> None:
    assert len(set(CODES.values())) == len(Status)
    assert len(set(EVENT_CODES.values())) == len(Event) == len(EVENT_CODES)
    assert all(status.code < FIRST_TERMINAL for status in LIVE)
    assert all(status.code >= FIRST_TERMINAL for status in TERMINAL)
    assert {Status.DONE, Status.FAILED, Status.CANCELLED} == TERMINAL
    assert INITIAL <= LIVE


@pytest.mark.parametrize(
    ("status", "changes"),
    [
        pytest.param(Status.DONE, {"finished_at": None}, id="ended without a moment"),
        pytest.param(Status.DONE, {"due_at": "2030-01-01Z"}, id="ended and due"),
        pytest.param(Status.CANCELLED, {"finished_at": None}, id="cancelled without a moment"),
        pytest.param(Status.RUNNABLE, {"finished_at": "2030-01-01Z"}, id="live and finished"),
        pytest.param(Status.RUNNABLE, {"due_at": None}, id="runnable without a place in the queue"),
        pytest.param(Status.RUNNING, {"due_at": None}, id="running without a lease"),
        pytest.param(Status.SLEEPING, {"due_at": None}, id="sleeping without an alarm"),
        pytest.param(Status.AWAITING, {"names": None}, id="awaiting nothing"),
        pytest.param(Status.AWAITING_CHILDREN, {"pending": 0}, id="awaiting no children"),
        pytest.param(Status.RUNNABLE, {"result": "1"}, id="a result before the end"),
        pytest.param(Status.FAILED, {"result": "1"}, id="failed with a result"),
        pytest.param(Status.FAILED, {"error": None}, id="failed without a reason"),
        pytest.param(Status.RUNNABLE, {"status": 6}, id="a status that does not exist"),
        pytest.param(Status.RUNNABLE, {"fence": -1}, id="a negative fence"),
        pytest.param(Status.RUNNABLE, {"seq": -1}, id="a negative ledger number"),
        pytest.param(Status.RUNNABLE, {"inbox": -1}, id="a negative inbox"),
        pytest.param(Status.RUNNABLE, {"inbox": 1}, id="more signals than ledger rows"),
        pytest.param(Status.RUNNABLE, {"pending": -1}, id="negative children"),
        pytest.param(Status.RUNNABLE, {"attempt": -1}, id="a negative attempt"),
        pytest.param(Status.RUNNABLE, {"runs": -1}, id="negative runs"),
    ],
)
def test_a_row_that_contradicts_itself_cannot_be_committed(status: Status, changes: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        insert(status, **changes)
    row = insert(status)
    with pytest.raises(IntegrityError), transaction.atomic():
        update(row, **changes)


@pytest.mark.parametrize("status", sorted(LIVE))
def test_two_live_rows_of_a_workspace_cannot_hold_one_key(status: Status) -> None:
    insert(Status.AWAITING, key="order-1")
    with pytest.raises(IntegrityError, match="holdpoint_instance_key"), transaction.atomic():
        insert(status, key="order-1")


@pytest.mark.parametrize("status", sorted(TERMINAL))
def test_ended_rows_leave_their_key_free(status: Status) -> None:
    insert(status, key="order-1")
    insert(status, key="order-1")
    insert(Status.RUNNABLE, key="order-1")


def test_a_signal_is_consumed_by_somebody_or_not_at_all() -> None:
    class LifecycleInbox(Workflow):
        @step
        def ask(self, ctx):
            return Await("paid", then="ask")

    instance = workflows.start(LifecycleInbox)
    workflows.signal(instance, "other")
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_signal SET consumed_at = now() WHERE instance_id = %s", [instance.pk])


class EveryStatus(Workflow):
    """Goes through every live status and then ends as its input says."""

    @step
    def run(self, ctx):
        seen = Instance.objects.get(pk=ctx.id).status
        return Await("go", then="sleep", state={**ctx.state, "running": seen})

    @step
    def sleep(self, ctx):
        return Next("spawn", delay="1h")

    @step
    def spawn(self, ctx):
        return Spawn([Child(WaitingChild)], then="end")

    @step
    def end(self, ctx):
        return Done(ctx.state["running"]) if ctx.input["end"] == "done" else Stop("as asked")


class WaitingChild(Workflow):
    @step
    def wait(self, ctx):
        return Await("grow_up", then="end")

    @step
    def end(self, ctx):
        return Done()


def test_an_instance_goes_through_its_statuses() -> None:
    instance = workflows.start(EveryStatus, {"end": "done"})

    def status() -> Status:
        instance.refresh_from_db()
        return instance.status

    assert status() == Status.RUNNABLE
    drain()
    assert status() == Status.AWAITING
    assert workflows.signal(instance, "go").woke
    assert status() == Status.RUNNABLE
    drain()
    assert status() == Status.SLEEPING
    advance("1h")
    assert status() == Status.AWAITING_CHILDREN
    workflows.signal(instance.children.get(), "grow_up")
    drain()
    assert_done(instance, "running")


def test_a_run_in_the_future_and_a_back_off_and_an_unknown_version_sleep() -> None:
    class LifecycleSleeper(Workflow):
        @step
        def a(self, ctx):
            return Retry()

    from datetime import timedelta

    from django.utils import timezone

    later = workflows.start(LifecycleSleeper, run_at=timezone.now() + timedelta(hours=1))
    backing_off = workflows.start(LifecycleSleeper)
    unknown = insert(Status.RUNNABLE, due_at="2001-01-01Z")
    drain()
    found = {one.pk: one.status for one in Instance.objects.all()}
    assert found == dict.fromkeys((later.pk, backing_off.pk, unknown), Status.SLEEPING)


class LifecycleParked(Workflow):
    @step
    def park(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done() if ctx.awaited[0].payload != "fail" else Stop("as asked")


def end(how: str, key: str | None = None) -> Instance:
    instance = workflows.start(LifecycleParked, key=key)
    drain()
    if how == "cancelled":
        return workflows.cancel(instance)
    workflows.signal(instance, "go", "fail" if how == "failed" else None)
    drain()
    instance.refresh_from_db()
    assert instance.status == how
    return instance


@pytest.mark.parametrize("how", ["done", "cancelled"])
def test_nothing_moves_an_instance_that_is_done_or_cancelled(how: str) -> None:
    instance = end(how)
    before = Instance.objects.filter(pk=instance.pk).values().get()
    with pytest.raises(NotRetryable, match=how):
        workflows.retry(instance)
    with pytest.raises(NotCancellable, match=how):
        workflows.cancel(instance)
    with pytest.raises(NoTarget):
        workflows.signal(instance, "go")
    drain()
    advance("7d")
    assert Instance.objects.filter(pk=instance.pk).values().get() == before


def test_cancel_refuses_a_failed_instance() -> None:
    with pytest.raises(NotCancellable, match="failed"):
        workflows.cancel(end("failed"))


@pytest.mark.parametrize("how", ["runnable", "awaiting", "sleeping", "awaiting_children"])
def test_cancel_ends_an_instance_in_every_live_status(how: str) -> None:
    class LifecycleCancel(Workflow):
        @step
        def a(self, ctx):
            return {
                "awaiting": Await("go", then="a"),
                "sleeping": Next("a", delay="1h"),
                "awaiting_children": Spawn([Child(LifecycleParked)], then="a"),
            }[how]

    instance = workflows.start(LifecycleCancel)
    if how != "runnable":
        drain()
    instance.refresh_from_db()
    assert instance.status == how
    ended = workflows.cancel(instance, "changed our mind")
    assert (ended.status, ended.error) == (Status.CANCELLED, "changed our mind")
    assert ended.finished_at is not None
    assert not Instance.objects.live().exists()


# --- retry(): the one edge that leaves `failed` ------------------------------------------------


class Payment(Workflow):
    """Counts in its state, waits for a payment, and fails unless a switch outside says otherwise."""

    broken: bool = True
    seen: list[Any] = []

    @step
    def ask(self, ctx):
        return Await("paid", then="ship", state={"asked": True}, timeout="24h")

    @step
    def ship(self, ctx):
        Payment.seen.append((ctx.attempt, ctx.timed_out, [one.payload for one in ctx.awaited]))
        if ctx.input.get("attempts", 0) > ctx.attempt:
            return Retry(delay=0)
        if Payment.broken:
            raise RuntimeError("the carrier is down")
        return Done({"paid": [one.payload for one in ctx.awaited], **ctx.state})


@pytest.fixture
def failed(monkeypatch: pytest.MonkeyPatch) -> Instance:
    monkeypatch.setattr(Payment, "broken", True)
    monkeypatch.setattr(Payment, "seen", [])
    instance = workflows.start(Payment, {"attempts": 2}, key="order-1")
    drain()
    workflows.signal(instance, "paid", 5, dedup_key="evt_1")
    workflows.signal(instance, "note", "be quick")
    drain()
    return assert_failed(instance, "the carrier is down")


def test_retry_keeps_state_and_step(failed: Instance) -> None:
    again = workflows.retry(failed)
    assert (again.status, again.step, again.state) == (Status.RUNNABLE, "ship", {"asked": True})
    assert again.error is None
    assert again.finished_at is None


def test_retry_sets_the_attempt_to_0(failed: Instance) -> None:
    assert failed.attempt == 2
    assert workflows.retry(failed).attempt == 0


def test_retry_gives_all_runs_back() -> None:
    class LifecycleDeadly(Workflow):
        max_attempts = 1

        @step
        def a(self, ctx):
            return Done("alive")

    from workflows import store

    instance = workflows.start(LifecycleDeadly)
    store.claim(connection, 1, lease=0.0)
    drain()
    assert_failed(instance, "max_attempts=1")
    assert workflows.retry(instance).runs == 0
    drain()
    assert_done(instance, "alive")


def test_retry_reopens_the_signals_that_the_failure_closed(failed: Instance) -> None:
    Payment.broken = False
    workflows.retry(failed)
    drain()
    assert_done(failed, {"paid": [5], "asked": True})
    assert Payment.seen[-1] == (2, False, [5])


def test_retry_keeps_the_dedup_keys_of_the_reopened_signals(failed: Instance) -> None:
    workflows.retry(failed)
    assert workflows.signal(failed, "paid", 5, dedup_key="evt_1").duplicate


def test_retry_tells_a_timed_out_step_again_that_it_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Payment, "seen", [])
    monkeypatch.setattr(Payment, "broken", True)
    instance = workflows.start(Payment)
    advance("24h")
    assert_failed(instance)
    workflows.retry(instance)
    drain()
    assert Payment.seen == [(0, True, []), (0, True, [])]


def test_retry_does_not_bring_back_what_earlier_steps_consumed() -> None:
    class LifecycleConsumed(Workflow):
        @step
        def one(self, ctx):
            return Await("a", then="two")

        @step
        def two(self, ctx):
            return Next("three")

        @step
        def three(self, ctx):
            return Stop(f"inbox: {[s.name for s in ctx.inbox]}")

    instance = workflows.start(LifecycleConsumed)
    drain()
    workflows.signal(instance, "a")
    workflows.signal(instance, "b")
    drain()
    assert_failed(instance, "inbox: ['b']")
    workflows.retry(instance)
    drain()
    assert_failed(instance, "inbox: ['b']")


def test_retry_takes_signals_again(failed: Instance) -> None:
    with pytest.raises(NoTarget):
        workflows.signal(failed, "paid", 6)
    workflows.retry(failed)
    assert workflows.signal("order-1", "paid", 6).id is not None


def test_retry_is_refused_when_another_live_instance_holds_the_key(failed: Instance) -> None:
    workflows.start(Payment, key="order-1")
    with pytest.raises(NotRetryable, match="order-1"):
        workflows.retry(failed)
    assert_failed(failed)


def test_retry_is_allowed_again_when_the_other_holder_has_ended(failed: Instance) -> None:
    workflows.cancel(workflows.start(Payment, key="order-1"))
    assert workflows.retry(failed).status == Status.RUNNABLE


def test_retry_is_refused_when_the_parent_has_already_counted_the_child() -> None:
    class LifecycleBadChild(Workflow):
        @step
        def a(self, ctx):
            return Stop("bad")

    class LifecycleParent(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(LifecycleBadChild), Child(LifecycleParked)], then="b")

        @step
        def b(self, ctx):
            return Done()

    parent = workflows.start(LifecycleParent)
    drain()
    bad = parent.children.get(workflow="LifecycleBadChild")
    with pytest.raises(NotRetryable, match="parent"):
        workflows.retry(bad)
    assert_failed(bad)
    parent.refresh_from_db()
    assert parent.pending == 1


@pytest.mark.parametrize("how", ["runnable", "awaiting"])
def test_retry_refuses_what_has_not_failed(how: str) -> None:
    instance = workflows.start(LifecycleParked)
    if how == "awaiting":
        drain()
        assert_awaiting(instance)
    with pytest.raises(NotRetryable, match=how):
        workflows.retry(instance)


def test_retry_finds_the_children_that_have_ended_again() -> None:
    class LifecycleOnce(Workflow):
        @step
        def a(self, ctx):
            return Done(7)

    class LifecycleFamily(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(LifecycleOnce)], then="b")

        @step
        def b(self, ctx):
            return Stop(f"children: {[one.result for one in ctx.children]}")

    parent = workflows.start(LifecycleFamily)
    drain()
    workflows.retry(parent)
    drain()
    assert_failed(parent, "children: [7]")
    assert parent.children.count() == 1


def test_a_cancellation_that_is_rolled_back_never_happened() -> None:
    instance = workflows.start(LifecycleParked, key="k")
    drain()
    with transaction.atomic():
        workflows.cancel("k")
        transaction.set_rollback(True)
    assert_awaiting(instance, "go")


def test_retry_may_be_repeated_after_each_failure(failed: Instance) -> None:
    for _ in range(3):
        workflows.retry(failed)
        drain()
        assert_failed(failed, "the carrier is down")
    Payment.broken = False
    workflows.retry(failed)
    drain()
    assert_done(failed)


def test_retry_of_an_unknown_instance_is_no_target() -> None:
    with pytest.raises(NoTarget):
        workflows.retry(uuid.uuid4())
