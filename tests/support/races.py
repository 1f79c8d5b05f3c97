"""Two real connections that meet on one row, and a worker taken apart so that they can.

Lives here: `race` (hold the first call's transaction open, see the second one blocked, then commit or
roll back), `gate` (stop a statement after it has taken its snapshot), and a worker's three moves `take`,
`play` and `settle`. What must not: assertions about workflows, fixed sleeps. Every wait is for something
seen in the database and is bounded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection, connections, transaction

from tests.support.seats import take_seat
from workflows import engine, store
from workflows.engine.author_calls import Host
from workflows.store import Claim, Commit, RunResult

PATIENCE = 60.0


#: Only the engine is there: what it does beside other apps is tested elsewhere.
COMMITTED = pytest.mark.django_db(transaction=True, available_apps=["workflows"])


def empty() -> None:
    """Forget all instances within a test. Their history stays: it may not be deleted, nor need it be."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM holdpoint_signal")
        cursor.execute("DELETE FROM holdpoint_instance")


def take(limit: int = 1, lease: float = 60.0) -> list[Claim]:
    """Claim on the calling thread's own connection."""
    return store.claim(connections["default"], limit, lease)


def take_one(lease: float = 60.0) -> Claim:
    [claim] = take(1, lease)
    return claim


def play(claim: Claim) -> RunResult:
    """Run the step; nothing is committed yet (except by Spawn and atomic steps, which commit themselves)."""
    return engine.run(claim, Host(connections["default"], "default", savepoints=connection.in_atomic_block))


def settle(*results: RunResult | None) -> bool:
    """Commit outcomes; whether all of them were applied."""
    batch = [one for one in results if isinstance(one, Commit)]
    return len(engine.settle(connections["default"], batch)) == len(batch)


def work() -> int:
    """Claim, run and commit one instance at a time until nothing is runnable; how many steps ran."""
    steps = 0
    while claims := take():
        settle(play(claims[0]))
        steps += 1
    return steps


def forget(*claims: Claim) -> None:
    """What a worker's death leaves behind, at once: leases that nobody renews and that have ended."""
    with connections["default"].cursor() as cursor:
        for claim in sorted(claims, key=lambda one: one.id):  # waits for locked rows, which a renewal would skip
            cursor.execute(
                "UPDATE holdpoint_instance SET due_at = clock_timestamp() - interval '1 s' "
                "WHERE id = %s AND fence = %s AND status = 2",
                [claim.id, claim.fence],
            )


@dataclass(frozen=True)
class Refused:
    """A call of a race that raised; compares by class."""

    error: type[Exception]


def attempt(call: Callable[[], Any]) -> Any:
    """What the call returned, or which exception it raised, as a value."""
    try:
        return call()
    except Exception as error:
        return Refused(type(error))


class Other:
    """A call on a connection of its own, in a thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._connected = threading.Event()
        self._over = threading.Event()
        self.pid = 0
        self.answer: Any = None
        self._seat = take_seat()
        self._seat.calls.put(self._run)
        assert self._connected.wait(PATIENCE), "the second connection was not made"

    def _run(self) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_backend_pid()")
                self.pid = cursor.fetchone()[0]
            self._connected.set()
            self.answer = attempt(self._call)
        finally:
            self._seat.leave()
            self._over.set()

    def wait_until_blocked(self) -> None:
        """Return once PostgreSQL says that this connection waits for a lock."""
        until = time.monotonic() + PATIENCE
        while not _is_blocked(self.pid):
            assert not self._over.is_set(), f"it was to wait for a lock, but it ended with {self.answer!r}"
            assert time.monotonic() < until, "it was to wait for a lock, but it never did"
            self._over.wait(0.001)

    def join(self) -> Any:
        """What the call returned; a call that should have got through and hangs is a failure."""
        assert self._over.wait(PATIENCE), "the second connection still waits"
        return self.answer


def _is_blocked(pid: int) -> bool:
    with connection.cursor() as cursor:
        # Within one transaction PostgreSQL would go on showing the activity it showed first.
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s", [pid])
        found = cursor.fetchone()
    return found is not None and found[0] == "Lock"


def race(
    first: Callable[[], Any],
    second: Callable[[], Any],
    *,
    rollback: bool = False,
    waits: bool = True,
) -> tuple[Any, Any]:
    """Hold `first` in an open transaction, start `second` elsewhere, then commit or roll back; both answers.

    With `waits` the second is seen blocked before the first ends. Without, it must get through while the
    first still holds its locks (SKIP LOCKED).
    """
    with transaction.atomic():
        held = attempt(first)
        other = Other(second)
        if waits:
            other.wait_until_blocked()
        else:
            other.join()
        transaction.set_rollback(rollback)
    return held, other.join()


@contextmanager
def gate(*, closed: str = "holdpoint_now") -> Iterator[Callable[[], None]]:
    """Stop whoever reads this clock, until the yielded function opens the gate; the caller passes freely.

    A volatile function is not evaluated while planning, so a statement is stopped after it has taken its
    snapshot and before it locks the row it is looking at: exactly where a race would strike.
    """
    body, volatility = {
        "holdpoint_now": ("statement_timestamp()", "STABLE"),
        "holdpoint_clock": ("clock_timestamp()", "VOLATILE"),
    }[closed]
    key = 7_031_964
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [key])
        cursor.execute(
            f"CREATE OR REPLACE FUNCTION {closed}() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS "
            f"$$ BEGIN PERFORM pg_advisory_xact_lock_shared({key}); RETURN {body}; END $$"
        )
        is_open = False

        def open_gate() -> None:
            nonlocal is_open
            cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
            is_open = True

        try:
            yield open_gate
        finally:
            if not is_open:
                open_gate()
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION {closed}() RETURNS timestamptz LANGUAGE sql {volatility} "
                f"PARALLEL SAFE AS 'SELECT {body}'"
            )


def run_threads(calls: Sequence[Callable[[], None]], *, patience: float = PATIENCE) -> None:
    """Run each call in a thread with its own connection; the first exception is raised here."""
    errors: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=guarded, args=[call], daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    until = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), f"not finished after {patience} s"


def count_blocked() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND wait_event_type = 'Lock'"
        )
        return int(cursor.fetchone()[0])
