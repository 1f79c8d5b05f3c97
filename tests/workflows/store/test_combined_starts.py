"""Starts that threads make at the same moment: one of them carries the others, and each has its own answer."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, ProgrammingError, connection, connections, transaction

import workflows
from tests.support.races import COMMITTED, PATIENCE, Other, Refused
from workflows import Done, Workflow, step
from workflows.api import starting
from workflows.exceptions import DuplicateKey, UnknownWorkspace
from workflows.models import Instance, LedgerEvent
from workflows.store import combined_calls

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

#: Whoever starts as "held" waits for this lock, and "mallory" is refused.
LOCK = 5_120_077
TRIGGER = f"""
CREATE FUNCTION test_combined() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.started_by = 'mallory' THEN RAISE EXCEPTION 'not you'; END IF;
  IF NEW.started_by = 'held' THEN PERFORM pg_advisory_xact_lock({LOCK}); END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER test_combined BEFORE INSERT ON holdpoint_instance FOR EACH ROW EXECUTE FUNCTION test_combined();
"""


class Plain(Workflow):
    name = "combined.plain"

    @step
    def go(self, ctx: Any) -> Done:
        return Done()


@pytest.fixture
def trigger() -> Iterator[None]:
    with connection.cursor() as cursor:
        cursor.execute(TRIGGER)
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER test_combined ON holdpoint_instance; DROP FUNCTION test_combined()")


@pytest.fixture(autouse=True)
def one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One statement under way: who carries whom is certain."""
    monkeypatch.setattr(combined_calls, "MOST_AT_ONCE", 1)


def begin(*actors: str, **options: Any) -> list[Other]:
    return [
        Other(lambda actor=actor: workflows.start(Plain, {"by": actor}, actor=actor, **options)) for actor in actors
    ]


def wait_until_waiting(count: int) -> None:
    """Return once so many calls wait for others to carry them."""
    until = time.monotonic() + PATIENCE
    while sum(len(group.waiting) for group in starting._starts._groups.values()) < count:
        assert time.monotonic() < until, "they were to wait"
        time.sleep(0.001)


class Meeting:
    """Calls that meet: the first ones wait in the database for a lock on the table, the others for them."""

    def __init__(self, *others: str) -> None:
        self._others = others

    def __enter__(self) -> list[Other]:
        self._block = transaction.atomic()
        self._block.__enter__()
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE holdpoint_instance IN SHARE MODE")
        self.calls = begin("first")
        self.calls[0].wait_until_blocked()
        for n, actor in enumerate(self._others, 1):  # one after the other: who carries whom is certain
            self.calls += begin(actor)
            wait_until_waiting(n)
        return self.calls

    def __exit__(self, *raised: Any) -> None:
        self._block.__exit__(*raised)


def count_commits() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM holdpoint_instance")
        count: int = cursor.fetchone()[0]
    return count


def test_starts_that_come_while_others_are_being_written_share_a_commit() -> None:
    with Meeting(*(f"other-{n}" for n in range(10))) as calls:
        pass
    answers = [one.join() for one in calls]
    assert all(isinstance(one, Instance) for one in answers), answers
    assert Instance.objects.count() == len({one.pk for one in answers}) == 11
    assert count_commits() == 2  # the one that came first, and the others
    assert not starting._starts._groups


def test_where_enough_wait_the_next_one_carries_them_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined_calls, "MOST_AT_ONCE", 2)
    monkeypatch.setattr(combined_calls, "LONG_ENOUGH", PATIENCE)
    waiting = [f"waiting-{n}" for n in range(combined_calls.ENOUGH)]
    with Meeting(*waiting) as calls:
        [second] = begin("second")
        second.wait_until_blocked()  # in the database, beside the first
        assert not any(group.waiting for group in starting._starts._groups.values())
        late = begin(*(f"late-{n}" for n in range(combined_calls.ENOUGH + 1)))
        wait_until_waiting(len(late))  # never a third
    answers = [one.join() for one in (*calls, second, *late)]
    assert all(isinstance(one, Instance) for one in answers), answers
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT xmin::text) FROM holdpoint_instance WHERE started_by = ANY(%s)",
            [[*waiting, "second"]],
        )
        assert cursor.fetchone() == (1,)
    assert not starting._starts._groups


def test_each_has_its_own_answer_and_its_own_line_in_the_history() -> None:
    with Meeting("ann", "ben", "cid") as calls:
        pass
    for one in calls:
        answer = one.join()
        kept = Instance.objects.get(pk=answer.pk)
        assert answer.input == kept.input == {"by": answer.started_by}
        assert (kept.created_at, kept.due_at, kept.started_by) == (answer.created_at, answer.due_at, answer.started_by)
        assert LedgerEvent.objects.get(instance=kept).actor == answer.started_by


def test_what_is_refused_refuses_no_neighbour(trigger: None) -> None:
    with Meeting("ann", "mallory", "ben") as calls:
        pass
    *_, ann, mallory, ben = (one.join() for one in calls)
    assert mallory == Refused(ProgrammingError)
    assert sorted(Instance.objects.filter(started_by__in=("ann", "ben", "mallory")).values_list("id", flat=True)) == [
        one.pk for one in sorted((ann, ben), key=lambda one: one.pk)
    ]


def test_a_lost_connection_loses_no_call_silently_and_makes_none_twice(trigger: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        with Meeting("held", "ann", "ben") as calls:
            pass
        first, held, *others = calls
        assert isinstance(first.join(), Instance)
        held.wait_until_blocked()
        later = begin("cid")
        wait_until_waiting(1)
        cursor.execute("SELECT pg_terminate_backend(%s)", [held.pid])
        assert [one.join() for one in (held, *others)] == [Refused(OperationalError)] * 3
        assert isinstance(later[0].join(), Instance)  # it goes on
        cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    assert sorted(Instance.objects.values_list("started_by", flat=True)) == ["cid", "first"]


def test_a_thread_that_is_ended_leaves_nobody_waiting(trigger: None) -> None:
    ended: list[int] = []

    def start_and_end() -> Any:
        ended.append(threading.get_ident())
        try:
            return workflows.start(Plain, actor="held")
        except SystemExit:
            return "ended"

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        with Meeting() as calls:
            calls.append(Other(start_and_end))
            wait_until_waiting(1)
            calls += begin("ann")
            wait_until_waiting(2)
        first, held, ann = calls
        assert isinstance(first.join(), Instance)
        held.wait_until_blocked()
        later = begin("ben")
        wait_until_waiting(1)
        # It is delivered when the thread is back from the database.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ended[0]), ctypes.py_object(SystemExit))
        cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    assert held.join() == "ended"
    assert ann.join() == Refused(OperationalError)  # whether it was committed nobody can say
    assert isinstance(later[0].join(), Instance)


def test_a_thread_that_is_ended_while_it_waits_passes_its_turn_on() -> None:
    ended: list[int] = []

    def start_and_end() -> Any:
        ended.append(threading.get_ident())
        try:
            return workflows.start(Plain, actor="ended")
        except SystemExit:
            return "ended"

    with Meeting() as calls:
        calls.append(Other(start_and_end))
        wait_until_waiting(1)
        calls += begin("ann")
        wait_until_waiting(2)
        # It is delivered when the thread is woken, because it is the one to carry the next.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ended[0]), ctypes.py_object(SystemExit))
    first, waiting, ann = calls
    assert isinstance(first.join(), Instance)
    assert waiting.join() == "ended"
    assert isinstance(ann.join(), Instance)
    assert not starting._starts._groups
    assert sorted(Instance.objects.values_list("started_by", flat=True)) == ["ann", "first"]


def test_a_signal_that_ends_the_wait_of_the_main_thread_takes_its_call_back() -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    def hold() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE holdpoint_instance IN SHARE MODE")
            held.set()
            assert released.wait(PATIENCE)

    def interrupt_main() -> None:
        wait_until_waiting(1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR2)

    held, released = threading.Event(), threading.Event()
    before = signal.signal(signal.SIGUSR2, interrupt)
    try:
        holder = Other(hold)
        assert held.wait(PATIENCE)
        [first] = begin("first")
        first.wait_until_blocked()
        interrupter = Other(interrupt_main)
        with pytest.raises(KeyboardInterrupt):
            workflows.start(Plain, actor="interrupted")
    finally:
        signal.signal(signal.SIGUSR2, before)
        released.set()
    for one in (holder, interrupter):
        one.join()
    assert isinstance(first.join(), Instance)
    assert not starting._starts._groups
    assert isinstance(workflows.start(Plain, actor="later"), Instance)
    assert sorted(Instance.objects.values_list("started_by", flat=True)) == ["first", "later"]


def test_what_ends_the_thread_that_carries_is_no_error_of_others(trigger: None) -> None:
    class TooLong(Exception):
        """A limit of time, as some task queues have it."""

    ended: list[int] = []

    def start_and_end() -> Any:
        ended.append(threading.get_ident())
        return workflows.start(Plain, actor="held")

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        with Meeting() as calls:
            calls.append(Other(start_and_end))
            wait_until_waiting(1)
            calls += begin("ann")
            wait_until_waiting(2)
        first, held, ann = calls
        assert isinstance(first.join(), Instance)
        held.wait_until_blocked()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ended[0]), ctypes.py_object(TooLong))
        cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    assert [held.join(), ann.join()] == [Refused(TooLong), Refused(OperationalError)]


def test_what_wraps_the_statements_of_one_thread_wraps_no_call_of_another() -> None:
    seen: list[Any] = []

    def observe(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        seen.append(params["actors"])
        return execute(sql, params, many, context)

    def start_observed() -> Any:
        with connection.execute_wrapper(observe):
            return workflows.start(Plain, actor="observed")

    with Meeting("ann") as calls:
        observed = Other(start_observed)
        observed.wait_until_blocked()  # in the database, and not behind others
        calls += begin("ben")
        wait_until_waiting(2)
    assert all(isinstance(one.join(), Instance) for one in (observed, *calls))
    assert seen == ['{"observed"}']


def test_a_backend_of_somebody_else_carries_nobody_and_is_carried_by_nobody() -> None:
    def start_elsewhere() -> Any:
        db = connections["default"]
        plain = type(db)
        db.__class__ = type("DatabaseWrapper", (plain,), {"__module__": "tenants.postgresql_backend"})
        try:
            return workflows.start(Plain, actor="tenant")
        finally:
            db.__class__ = plain

    with Meeting("ann") as calls:
        tenant = Other(start_elsewhere)
        tenant.wait_until_blocked()
    assert all(isinstance(one.join(), Instance) for one in (tenant, *calls))


def test_a_start_in_a_transaction_is_part_of_that_and_of_no_other() -> None:
    def start_and_roll_back() -> Any:
        with transaction.atomic():
            workflows.start(Plain, actor="ann")
            transaction.set_rollback(True)

    with Meeting("ben") as calls:
        alone = Other(start_and_roll_back)
        alone.wait_until_blocked()  # in the database, and not behind others
    alone.join()
    assert isinstance(calls[-1].join(), Instance)
    assert not Instance.objects.filter(started_by="ann").exists()


def test_a_key_that_somebody_holds_open_holds_up_no_start_without_a_key() -> None:
    with transaction.atomic():
        first = workflows.start(Plain, key="one")
        waiting = Other(lambda: workflows.start(Plain, key="one"))
        waiting.wait_until_blocked()
        free = [one.join() for one in begin("ann", "ben", "cid")]
    assert all(isinstance(one, Instance) for one in free), free
    assert waiting.join() == Refused(DuplicateKey)
    assert Instance.objects.get(key="one").pk == first.pk


def test_a_workspace_that_is_not_there_is_told_to_each_who_named_it() -> None:
    lost = begin("ann", "ben", workspace="nowhere")
    assert [one.join() for one in lost] == [Refused(UnknownWorkspace)] * 2


def test_a_site_may_have_each_start_made_by_its_own_thread(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "SHARE_COMMITS": False}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLE holdpoint_instance IN SHARE MODE")
        calls = begin("ann", "ben", "cid", "dee")
        for one in calls:
            one.wait_until_blocked()  # each in the database
    assert all(isinstance(one.join(), Instance) for one in calls)


def test_a_statement_that_hangs_keeps_no_other_start_waiting(trigger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combined_calls, "MOST_AT_ONCE", 2)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        [hanging] = begin("held")
        hanging.wait_until_blocked()
        assert isinstance(begin("ann")[0].join(), Instance)
        assert isinstance(begin("ben")[0].join(), Instance)
    assert isinstance(hanging.join(), Instance)


def test_what_a_thread_calls_while_it_carries_others_goes_alone() -> None:
    """Such as a handler of logs that starts something because of a statement."""
    carried: list[list[str]] = []

    def carry(db: Any, group: Any, calls: Any) -> list[str]:
        carried.append(list(calls))
        return [combiner.call(db, group, "inner") if one == "outer" else one for one in calls]

    combiner: combined_calls.Combiner[str, str] = combined_calls.Combiner(carry, 10)
    assert Other(lambda: combiner.call(connection, 1, "outer")).join() == "inner"
    assert carried == [["outer"], ["inner"]]
    assert not combiner._groups
