"""Every row of the ledger is counted once, as what it is, however the counting is cut up and whoever commits late."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

import workflows
from tests.support.database import db
from tests.support.horizon import wait_for_foreigners
from tests.support.ledger_rows import execute, fill_pending, live, no_triggers
from tests.support.races import COMMITTED, Other, forget, play, run_threads, settle, take_one, work
from tests.support.statements import explain, statements
from workflows import Await, Channel, Child, Done, Next, Retry, Spawn, Stop, Workflow, durable, event, step, store
from workflows.api import refused as dropped
from workflows.exceptions import WorkflowError
from workflows.lifecycle import Event, Status
from workflows.models import Instance, Interaction, LedgerEvent, Workspace
from workflows.store.ledger import event_sums, tallies
from workflows.store.ledger.tallies import NOBODY, read_backlog, read_tallies, tally_batch, tally_ledger
from workflows.testing import drain

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

PARKED = {Status.AWAITING, Status.SLEEPING, Status.AWAITING_CHILDREN}
STEPS = {
    Event.ADVANCED,
    Event.PARKED,
    Event.RETRIED,
    Event.DONE,
    Event.FAILED,
    Event.SPAWNED,
    Event.RUN_FAILED,
    Event.SUSPENDED,
    Event.RERUN,
}


@pytest.fixture(autouse=True)
def fresh(committed: None) -> None:
    """What other tests' refusals have counted is not these tests'."""
    dropped.forget_dropped()
    forget_tallies()


def count_all(limit: int = 1_000_000) -> int:
    """Until nothing is left that has been committed."""
    wait_for_foreigners()
    return tally_ledger(db(), batches=1_000_000, limit=limit)


def sums(workspace: int | None = None) -> dict[str, float]:
    """What is counted, the sum of the times apart."""
    told = {f"{name} {label}".strip(): value for (name, label), value in read_tallies(db(), workspace).items()}
    told.pop("time_to_resume_sum", None)
    return told


def forget_tallies() -> None:
    execute("DELETE FROM holdpoint_tally")


def expected(reasons: dict[str, int] | None = None) -> tuple[dict[str, float], float]:
    """The same, read row by row from the whole of each instance's history, and the sum of the times."""
    counts: Counter[str] = Counter()
    total = 0.0
    names = {
        Event.STARTED: "started",
        Event.SIGNALLED: "deliveries",
        Event.ANSWERED: "completions",
        Event.TIMED_OUT: "timeouts",
        Event.RECLAIMED: "reclaims",
        Event.RUN_FAILED: "failed_runs",
        Event.PUT_BACK: "put_back",
        Event.DONE: "ended done",
        Event.FAILED: "ended failed",
        Event.CANCELLED: "ended cancelled",
    }
    endings = (Event.DONE, Event.FAILED)
    rows = LedgerEvent.objects.order_by("instance_id", "seq")
    for _, history in itertools.groupby(rows, key=lambda row: row.instance_id):
        before, woke_at = None, None
        for row in history:
            if row.kind in names:
                counts[names[row.kind]] += 1
            if row.kind in endings and isinstance(row.data, dict) and row.data["unseen"]["count"]:
                counts["unseen"] += row.data["unseen"]["count"]
            if row.status == Status.RUNNABLE and before in PARKED and row.kind not in STEPS | {Event.PUT_BACK}:
                counts["resumptions"] += 1
                woke_at = row.at
            if woke_at is not None and row.kind in STEPS:
                took = (row.at - woke_at).total_seconds()
                label = next((str(bound) for bound in event_sums.BUCKETS if took <= bound), "+Inf")
                counts[f"time_to_resume {label}"] += 1
                total += took
            if row.kind in STEPS or row.kind == Event.PUT_BACK:
                woke_at = None
            before = row.status
    counts.update({f"refused {reason}": count for reason, count in (reasons or {}).items()})
    return dict(counts), total


def check_sums(reasons: dict[str, int] | None = None) -> None:
    """What is counted is what there is."""
    counts, total = expected(reasons)
    assert sums() == counts
    assert read_tallies(db(), None).get(("time_to_resume_sum", ""), 0) == pytest.approx(total, abs=1e-6)


# --- workflows that write every kind of row -----------------------------------------------------------------------


class Waits(Workflow):
    name = "tally.waits"

    @step
    def ask(self, ctx):
        return Await("go", then="act", timeout=ctx.input.get("timeout", "1h"))

    @step
    def act(self, ctx):
        how = "expired" if ctx.timed_out else ctx.awaited[-1].payload
        return {
            "again": lambda: Next("ask", consume={"go"}),
            "later": lambda: Next("end", delay=3600),
            "retry": lambda: Retry(delay=3600),
            "stop": lambda: Stop("asked to"),
            "children": lambda: Spawn([Child("tally.child"), Child("tally.child")], then="end"),
            "expired": lambda: Done("expired"),
        }[how]()

    @step
    def end(self, ctx):
        return Done()


class Small(Workflow):
    name = "tally.child"

    @step
    def only(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done()


class Listens(Workflow):
    name = "tally.listens"

    @step
    def ask(self, ctx):
        return Await(event("paid"), then="end")

    @step
    def end(self, ctx):
        return Done()


@durable(name="tally.asks")
def asks(ctx, gate):
    assert ctx.callback("early", timeout="1h").resume_token
    return ctx.wait_for_signal("gate", signal=gate, timeout="1h", schema={"type": "integer"})


@durable(name="tally.fails", max_attempts=2)
def fails(ctx):
    raise ValueError("always")


class Kept(Channel):
    name = "tally_kept"
    owns_answers = True


class Owns(Workflow):
    name = "tally.owns"

    @step
    def ask(self, ctx):
        return Await(Kept(), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done()


def make_due(*instances: Instance) -> None:
    """Their deadlines pass, or their sleep ends."""
    for one in instances:
        execute("UPDATE holdpoint_instance SET due_at = clock_timestamp() WHERE id = %s AND status IN (3, 4)", [one.pk])
        execute("UPDATE holdpoint_interaction SET deadline = clock_timestamp() WHERE instance_id = %s", [one.pk])


def refused(target: Any, data: Any = 1, **options: Any) -> None:
    with pytest.raises(WorkflowError):
        workflows.complete(target, data, actor="kim", **options)


def live_through_everything(between: Callable[[], object] = lambda: None) -> dict[str, int]:
    """Write every kind of row that counts; how many completions are dropped, by reason. `between` comes often."""
    first, slow, parent, late, quiet, many = workflows.start_many("tally.waits", [{}] * 6)
    between()
    asking, unanswered, other = (workflows.start("tally.asks", {"gate": f"gate{n}"}) for n in range(3))
    owning, failing, listening = (workflows.start(f"tally.{name}") for name in ("owns", "fails", "listens"))
    drain()
    between()
    workflows.signal(first, "other")
    workflows.signal(first, "go", "again", dedup_key="d")
    between()
    workflows.signal(first, "go", "again", dedup_key="d")
    workflows.signal(first, "go", "again")
    drain()
    between()
    workflows.signal(slow, "go", "later")
    workflows.signal(parent, "go", "children")
    drain()
    between()
    make_due(slow, late)
    drain()
    between()
    for child in parent.children.all():
        workflows.signal(child, "go")
        between()
        drain()
    workflows.signal_many([(many, "x"), (many, "go", "retry", "k"), (many, "go", "retry", "k"), (many, "go", "stop")])
    between()
    workflows.emit("paid")
    drain()
    between()
    make_due(many, failing)
    drain()
    workflows.signal(quiet, "go", "again")
    claim = take_one()
    workflows.signal(quiet, "go", "stop")  # while it runs
    between()
    forget(claim)
    drain()
    between()
    for instance in Instance.objects.filter(status="failed"):
        workflows.retry(instance)
        between()
    drain()
    refused("gate0", "no number")
    refused("gate0", version=7)
    refused("no such gate")
    refused(Interaction.objects.get(instance=owning))
    workflows.complete("gate0", 1, actor="kim", idempotency_key="one")
    between()
    refused("gate0", 2, idempotency_key="one")
    drain()
    refused("gate0")
    refused(Interaction.objects.get(instance=asking, unit__step="early"))
    make_due(unanswered)
    refused("gate1")  # this very answer makes it the expiry
    between()
    refused("gate1")  # and this one finds it expired
    drain()
    workflows.cancel(other)
    refused(Interaction.objects.get(instance=other, unit__step="gate"))
    between()
    workflows.cancel(owning, reason="enough")
    drain()
    assert listening.events.count() > 0
    return {
        "invalid_data": 1,
        "stale_version": 1,
        "answered_elsewhere": 1,
        "idempotency_conflict": 1,
        "resolved": 1,
        "expired": 2,
        "unknown": 2,  # cancelled
    }


def test_every_kind_of_row_is_counted_as_what_it_is() -> None:
    reasons = live_through_everything()
    assert count_all() == LedgerEvent.objects.count()
    check_sums(reasons)
    told = sums()
    kinds = {str(kind) for kind in LedgerEvent.objects.values_list("kind", flat=True)}
    assert {"timed_out", "woke", "reclaimed", "child_ended", "run_failed", "spawned", "answered", "refused"} <= kinds
    assert told["resumptions"] >= 10
    assert told["timeouts"] == 2
    assert sum(told[f"ended {status}"] for status in ("done", "failed", "cancelled")) >= 10


def test_sums_are_the_same_wherever_one_batch_ends_and_the_next_begins() -> None:
    reasons = live_through_everything()
    for limit in (1, 2, 3, 5, 8, 13, 40):
        forget_tallies()
        assert count_all(limit) == LedgerEvent.objects.count()
        check_sums(reasons)


def test_sums_are_the_same_when_counted_all_along() -> None:
    reasons = live_through_everything(count_all)
    count_all()
    check_sums(reasons)


def test_what_is_counted_is_not_counted_again() -> None:
    live(2)
    assert count_all() == 8
    before = sums()
    assert count_all() == 0
    assert sums() == before
    live(1)
    assert count_all() == 4
    check_sums()


# --- transactions ---------------------------------------------------------------------------------------------------


def tally_now() -> tuple[int, bool]:
    return tally_batch(db())


def test_what_commits_late_is_counted_by_the_next_tally() -> None:
    with transaction.atomic():
        workflows.start("tally.child")

        def count_meanwhile() -> tuple[int, bool]:
            workflows.start("tally.child")
            return tally_now()

        # The quick one is younger than the open one, so it has to wait too.
        assert Other(count_meanwhile).join() == (0, False)
    assert count_all() == 2
    check_sums()


def test_an_open_transaction_does_not_hold_up_what_is_older() -> None:
    live(1)
    wait_for_foreigners()
    with transaction.atomic():
        workflows.start("tally.child")
        assert Other(tally_now).join() == (4, False)
        assert Other(sums).join()["started"] == 1
        assert Other(lambda: read_backlog(db())).join() == 0  # nothing of it can be seen yet
    assert sums()["started"] == 1
    assert read_backlog(db()) > 0
    assert count_all() == 1
    assert read_backlog(db()) == 0
    check_sums()


def test_rolled_back_work_is_not_counted() -> None:
    with transaction.atomic():
        workflows.start("tally.child")
        transaction.set_rollback(True)
    live(1)
    assert count_all() == 4
    check_sums()


def test_a_tally_that_is_cut_off_has_counted_nothing_and_the_next_counts_it_once() -> None:
    live(2)
    wait_for_foreigners()
    with transaction.atomic():
        assert tally_now() == (8, False)
        transaction.set_rollback(True)
    assert sums() == {}
    assert count_all() == 8
    check_sums()


def test_of_two_tallies_at_once_one_counts_and_the_other_does_not_wait() -> None:
    live(2)
    wait_for_foreigners()
    with transaction.atomic():
        assert tally_now() == (8, False)
        assert Other(tally_now).join() == (0, False)
    assert count_all() == 0
    check_sums()


def test_many_tallies_beside_work_count_every_row_once() -> None:
    made: list[list[Instance]] = []

    def act(name: str) -> None:
        for n in range(12):
            with transaction.atomic():
                one = workflows.start("tally.child", key=f"{name}{n}")
                workflows.signal(one, "go")
                made.append([one])
            work()

    def keep_counting() -> None:
        for _ in range(25):
            tally_batch(db(), 7)

    run_threads([lambda: act("a"), lambda: act("b"), keep_counting, keep_counting])
    count_all(7)
    assert len(made) == 24
    check_sums()


def test_a_delivery_whose_transaction_is_older_than_the_park_that_it_ended_is_counted_as_a_resumption() -> None:
    other = workflows.start("tally.child")
    with transaction.atomic():
        workflows.signal(other, "elsewhere")  # from here on this transaction has its number

        def park() -> Instance:
            one = workflows.start("tally.child")
            work()
            return one

        one = Other(park).join()
        workflows.signal(one, "go")
    rows = LedgerEvent.objects.filter(instance=one).order_by("seq")
    assert [str(row.kind) for row in rows] == ["started", "parked", "signalled"]
    assert rows[2].xid < rows[1].xid
    for limit in (1, 2, 3, 100):
        forget_tallies()
        count_all(limit)
        assert sums()["resumptions"] == 1
    work()
    count_all()
    check_sums()
    forget_tallies()
    count_all(1)
    check_sums()


def test_an_instance_that_was_runnable_before_its_signal_came_was_not_woken_by_it() -> None:
    one = workflows.start("tally.child")
    count_all()
    workflows.signal(one, "go")
    count_all()
    assert "resumptions" not in sums()
    claim = take_one()
    count_all()
    workflows.signal(one, "x")
    store.release(db(), [claim])  # no row tells
    workflows.signal(one, "go")
    count_all()
    assert "resumptions" not in sums()
    drain()
    count_all()
    check_sums()


def test_the_time_to_resume_ends_with_the_commit_of_the_step_and_is_found_over_many_tallies() -> None:
    one = workflows.start("tally.child")
    work()
    count_all()
    workflows.signal(one, "go")
    count_all()
    claim = take_one()
    workflows.signal(one, "late")
    count_all()
    assert settle(play(claim))
    count_all()
    woken, ended = LedgerEvent.objects.get(instance=one, seq=3), LedgerEvent.objects.get(instance=one, seq=5)
    assert read_tallies(db(), None)["time_to_resume_sum", ""] == pytest.approx((ended.at - woken.at).total_seconds())
    check_sums()


def test_times_fall_into_the_bucket_whose_bound_they_do_not_exceed() -> None:
    start = "2026-01-01 00:00Z"
    seconds = [0.0, 0.005, 0.005001, 0.01, 0.010001, 3600, 3600.000001, 100_000]
    with no_triggers():
        for number, took in enumerate(seconds):
            for seq, kind, status, at in ((1, 12, 3, 0), (2, 2, 1, 0), (3, 14, 10, took)):
                execute(
                    "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor) SELECT "
                    "md5(%s)::uuid, %s::timestamptz + %s::float8 * interval '1 s', %s, w.id, %s, %s, '' "
                    "FROM holdpoint_workspace w",
                    [str(number), start, at, seq, kind, status],
                )
    count_all()
    found = {label: value for (name, label), value in read_tallies(db(), None).items() if name == "time_to_resume"}
    assert found == {"0.005": 2, "0.01": 2, "0.025": 1, "3600.0": 1, "+Inf": 2}


# --- workspaces and restored databases ------------------------------------------------------------------------------


def test_each_workspace_has_sums_of_its_own_and_all_have_those_of_nobody() -> None:
    for slug in ("acme", "globex"):
        workflows.workspace.create(slug)
    live(1)
    live(2, "acme")
    acme = Workspace.objects.get(slug="acme").pk
    tallies.add_counts(db(), {(None, "dropped", "invalid_token"): 3, (acme, "dropped", "unknown"): 1})
    count_all()
    ids = dict(Workspace.objects.values_list("slug", "pk"))
    assert sums(ids["default"])["started"] == 1
    assert sums(ids["acme"])["started"] == 2
    assert "started" not in sums(ids["globex"])
    assert sums()["started"] == 3
    dropped = {slug: {name for name in sums(id) if name.startswith("dropped")} for slug, id in ids.items()}
    assert dropped["default"] == dropped["globex"] == {"dropped invalid_token"}
    assert dropped["acme"] == {"dropped invalid_token", "dropped unknown"}
    assert NOBODY not in ids.values()


def restore_elsewhere() -> None:
    """As a dump of a busier cluster looks in a new one: all it brought along has transactions yet to come."""
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET xid = xid + 1000000000")
        execute("UPDATE holdpoint_tally SET value = value + 1000000000 WHERE name = 'counted' AND label = 'xid'")


@pytest.mark.no_fold(reason="rows of the ledger are changed behind the engine's back")
@pytest.mark.parametrize("uncounted", [0, 2])
def test_a_restored_database_is_counted_on_and_nothing_twice(uncounted: int) -> None:
    live(2)
    count_all()
    live(uncounted)
    restore_elsewhere()
    live(3)
    assert count_all() == 4 * (uncounted + 3)
    check_sums()
    live(1)
    assert count_all() == 4
    check_sums()
    restore_elsewhere()
    live(1)
    count_all()
    check_sums()


def test_the_first_tally_counts_what_is_there_in_bounded_batches() -> None:
    # A batch is cut at the first rows as they lie in the table; where rows were deleted, new ones lie in any order.
    with db().cursor() as cursor:
        cursor.execute("VACUUM (FULL) holdpoint_ledger")
    live(10)
    wait_for_foreigners()
    assert tally_ledger(db(), batches=2, limit=5) < 40
    assert sums() == {"started": 10}
    rows, more = tally_batch(db(), 5)
    assert more
    assert rows < 15
    count_all(5)
    check_sums()


def test_a_position_is_kept_exactly_however_large_it_is() -> None:
    tallies._move(db(), 2**53 - 1, tallies._read_moment(1_234_567_890_123_457), tallies._read_moment(0))
    at = tallies._find_position(db())
    assert at.lower == 2**53 - 1
    assert at.since == tallies._read_moment(1_234_567_890_123_457)


# --- what a row may hold --------------------------------------------------------------------------------------------


@pytest.mark.no_fold(reason="rows of the ledger are written behind the engine's back")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ('{"interaction": "x", "refused": "StaleVersion"}', "stale_version"),
        ('{"interaction": "x", "refused": "InvalidToken"}', "invalid_token"),
        ('{"interaction": "x", "refused": "ProjectionFailed"}', "invalid_data"),
        ('{"interaction": "x", "refused": "PolicyRefused"}', "refused_by_policy"),
        ('{"interaction": "not an id", "refused": "InteractionResolved"}', "resolved"),
        ('{"interaction": "0192e4a0-0000-7000-8000-000000000000", "refused": "InteractionResolved"}', "resolved"),
        ('{"interaction": "x", "refused": "SomethingNew"}', None),
        ('{"operation": "suspend", "signal_id": "x"}', None),
        ('["interaction"]', None),
        ('"interaction"', None),
        ("null", None),
        (None, None),
    ],
)
def test_a_refusal_counts_by_the_class_that_its_row_names(data: str | None, reason: str | None) -> None:
    one = workflows.start("tally.child")
    execute(
        "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor, data) "
        "SELECT instance_id, at, 2, workspace_id, 33, status, 'kim', %s::jsonb FROM holdpoint_ledger "
        "WHERE instance_id = %s",
        [data, one.pk],
    )
    count_all()
    assert sums() == {"started": 1} | ({f"refused {reason}": 1} if reason else {})


@pytest.mark.no_fold(reason="rows of the ledger are written behind the engine's back")
@pytest.mark.parametrize("at", ["'294276-12-31 00:00Z'", "'infinity'", "'-infinity'", "now() + interval '9000 years'"])
def test_a_forged_moment_does_not_stop_the_counting(at: str) -> None:
    workflows.start("tally.child")
    execute(
        "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor) "
        f"SELECT gen_random_uuid(), {at}, 1, id, 6, 1, '' FROM holdpoint_workspace"
    )
    count_all()
    drain()
    count_all()
    assert sums()["started"] == 1
    with no_triggers():
        execute("UPDATE holdpoint_ledger SET xid = xid + 1000000000 WHERE seq = 1")
        execute("UPDATE holdpoint_tally SET value = value + 1000000000 WHERE name = 'counted' AND label = 'xid'")
    workflows.start("tally.child")
    count_all()
    assert sums()["started"] == 2


def test_a_reason_is_one_of_a_fixed_list() -> None:
    assert set(event_sums.REASON_OF.values()) < set(event_sums.REASONS)
    assert all(reason.islower() and reason.replace("_", "").isalpha() for reason in event_sums.REASONS)


# --- cost -----------------------------------------------------------------------------------------------------------


def test_a_tally_of_nothing_takes_three_statements_and_one_of_rows_five() -> None:
    live(1)
    wait_for_foreigners()
    for count in (5, 3):
        with statements(count):
            tally_now()


def test_a_batch_that_takes_too_long_is_given_up_and_counts_nothing() -> None:
    live(1)
    wait_for_foreigners()

    def hold() -> None:
        execute("LOCK TABLE holdpoint_ledger IN ACCESS EXCLUSIVE MODE")

    def count_with_patience() -> tuple[int, bool]:
        return tally_batch(db(), patience=0.3)

    with transaction.atomic():
        hold()
        assert isinstance(Other(count_with_patience).join().error, type)
    assert sums() == {}
    assert count_all() == 4
    assert execute("SHOW statement_timeout") == [("0",)]
    assert execute("SHOW enable_seqscan") == [("on",)]


def test_new_rows_are_found_through_the_index_on_transactions_and_the_past_by_instance() -> None:
    with transaction.atomic():
        execute(
            "INSERT INTO holdpoint_ledger (instance_id, at, seq, workspace_id, kind, status, actor, xid) "
            "SELECT md5((n / 5)::text)::uuid, now(), mod(n, 5) + 1, w.id, 2, 1, '', n "
            "FROM generate_series(1, 100000) n, holdpoint_workspace w"
        )
        # Of a table without rows or without statistics, what an index costs depends on whether a vacuum came by.
        fill_pending(1_000)
        execute("ANALYZE holdpoint_ledger")
        params: dict[str, Any] = {"lower": 99_900, "cut": 100_001, "horizon": 100_001, "limit": 50_000}
        params |= {"since": tallies._read_moment(0), "until": "infinity", **event_sums.LISTS}
        execute(tallies._BEGIN, {"ms": None})
        for mode in ("custom", "generic"):
            for statement in (tallies._CUT, tallies._TAIL, tallies._BEHIND, event_sums.COUNT):
                given = {name: value for name, value in params.items() if f"%({name})s" in statement}
                plan = explain(f"pump, {mode}", statement, given)
                assert "Bitmap Index Scan on holdpoint_ledger_xid" in plan, plan
                assert "Seq Scan on holdpoint_ledger" not in plan, plan
            assert "on holdpoint_ledger_instance" in plan
            assert "holdpoint_interaction_pkey" in plan
        transaction.set_rollback(True)


def test_statements_are_short_enough_for_psycopg_to_remember() -> None:
    for module in (tallies, event_sums):
        for sql in vars(module).values():
            assert not isinstance(sql, str) or len(sql) <= 4096
