"""The words every statement of the store is made of, and how one is executed.

Lives here: status codes as SQL, the two clock fragments, the one fragment that assigns a status, and
`fetch`. Invariants owned:

* `becoming` is the only text that assigns `status`; with it go `due_at` and `finished_at`, so that a
  row can never say it ended without saying when, or be runnable without a place in the queue.
* Time is the database's. `NOW` is constant within a statement and so may bound an index scan (a bare
  clock_timestamp() would read every parked row); `CLOCK` is the moment itself and stamps what happens.
  Both are SQL functions that PostgreSQL inlines; tests replace their bodies to move time.
"""

from __future__ import annotations

import random
import time
import zoneinfo
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, TypeVar

from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import IsolationLevel, errors
from psycopg.pq import TransactionStatus

from workflows.lifecycle import EVENT_CODES, FIRST_TERMINAL, Event, Status

T = TypeVar("T")

NOW = "holdpoint_now()"
CLOCK = "holdpoint_clock()"
CHANNEL = "holdpoint_wake"

RUNNABLE = Status.RUNNABLE.code
RUNNING = Status.RUNNING.code
AWAITING = Status.AWAITING.code
SLEEPING = Status.SLEEPING.code
AWAITING_CHILDREN = Status.AWAITING_CHILDREN.code
DONE = Status.DONE.code
FAILED = Status.FAILED.code
CANCELLED = Status.CANCELLED.code

#: Written exactly as the partial indexes have it, or the planner cannot use them.
LIVE = f"status < {FIRST_TERMINAL}"
PARKED = f"status IN ({AWAITING}, {SLEEPING}, {AWAITING_CHILDREN})"

#: Wake one listening worker, if there is one: a NOTIFY per delivery would serialise all commits. The
#: mark of a worker that died is ignored once its heartbeat is old.
NOTIFY_IDLE = (
    f"(SELECT pg_notify('{CHANNEL}', '') FROM holdpoint_worker w "
    f"WHERE w.idle AND w.beat_at > {CLOCK} - interval '5 s' LIMIT 1)"
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

LEDGER = "INSERT INTO holdpoint_ledger(instance_id, at, due_at, seq, workspace_id, kind, status, actor, name, data)"


def kind(event: Event) -> int:
    """The stored code of a ledger row's kind."""
    return EVENT_CODES[event]


def becoming(status: object, due: str, *, may_end: bool = True) -> str:
    """The SET fragment that gives a row its new status; nothing else in the project assigns one.

    `may_end=False` where the status can only be a live one: such a row has no end to be stamped.
    """
    if not may_end:
        return f"status = {status}, due_at = {due}"
    return f"status = {status}, due_at = {due}, finished_at = CASE WHEN {status} >= {FIRST_TERMINAL} THEN {CLOCK} END"


def compact(text: str) -> str:
    """Strip a statement of comments and layout.

    psycopg remembers how it translated a statement's placeholders only up to 4096 characters; a longer
    one is parsed again at every call.
    """
    lines = (line.split("--", 1)[0] for line in text.splitlines())
    return " ".join(" ".join(lines).split())


def fetch(
    db: BaseDatabaseWrapper, statement: str, params: Mapping[str, Any], *, rows: bool = True
) -> list[tuple[Any, ...]]:
    """Execute one statement through Django's cursor (so that instrumentation sees it); return its rows."""
    with db.cursor() as cursor:
        cursor.execute(statement, params or None)
        return cursor.fetchall() if rows else []


def micros(moment: str) -> str:
    """A moment as a whole number of microseconds, the same in every session, whatever its time zone.

    Read so it also takes a tenth of the time: Django's reader takes moments apart by an expression in Python.
    """
    return f"(extract(epoch FROM {moment}) * 1000000)::bigint"


def to_moment(number: int) -> datetime:
    """The moment so many microseconds after 1970, in UTC."""
    return EPOCH + timedelta(microseconds=number)


def to_djangos(db: BaseDatabaseWrapper, numbers: Iterable[int]) -> list[datetime]:
    """Moments as Django would have read them: in the connection's zone, or without one."""
    if (zone := db.timezone) is not None:
        return [_put_in_zone(to_moment(one), zone) for one in numbers]
    here = zoneinfo.ZoneInfo(db.timezone_name)
    return [_put_in_zone(to_moment(one), here).replace(tzinfo=None) for one in numbers]


def _put_in_zone(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:
        return moment  # the last hours of the year 9999, which that zone cannot write


def read_clock(db: BaseDatabaseWrapper) -> float:
    """The database's moment, in seconds since 1970."""
    return float(fetch(db, f"SELECT extract(epoch FROM {CLOCK})::float8", {})[0][0])


def in_transaction(db: BaseDatabaseWrapper, work: Callable[[], T]) -> T:
    """Run `work` in a transaction, again from its start when it lost a deadlock.

    Inside a caller's transaction there is nothing to repeat, so the error surfaces there.
    """
    return retrying(db, lambda: _in_atomic(db, work))


def retrying(db: BaseDatabaseWrapper, work: Callable[[], T], tries: int = 5) -> T:
    """Repeat `work` when PostgreSQL chose it as a deadlock's victim; unless the caller owns the transaction."""
    for left in range(tries - 1, -1, -1):
        try:
            return work()
        except OperationalError as error:
            lost = isinstance(error.__cause__, errors.DeadlockDetected | errors.SerializationFailure)
            if not lost or not left or db.in_atomic_block:
                raise
            time.sleep(random.uniform(0.001, 0.02))
    raise AssertionError("unreachable")  # pragma: no cover


def limit_lock_wait(db: BaseDatabaseWrapper, seconds: float) -> None:
    """In a transaction of our own on the author's connection: wait for rows so many seconds, or as it would (0)."""
    if seconds:
        fetch(db, f"SET LOCAL lock_timeout = {seconds * 1000:.0f}", {}, rows=False)


def wait_for_locks(db: BaseDatabaseWrapper, seconds: float = 0.0) -> None:
    """In a transaction on the pump's connection: wait for rows as long as it takes, or so many seconds."""
    if connections[db.alias] is not db:
        fetch(db, f"SET LOCAL lock_timeout = {seconds * 1000:.0f}", {}, rows=False)


def _in_atomic(db: BaseDatabaseWrapper, work: Callable[[], T]) -> T:
    with atomic(db):
        return work()


@contextmanager
def atomic(db: BaseDatabaseWrapper) -> Iterator[None]:
    """A transaction on a connection object, which may be the pump's own and registered under no alias."""
    if connections[db.alias] is db:
        with read_committed(db), transaction.atomic(using=db.alias):
            yield
        return
    if not db.get_autocommit():
        yield  # part of the transaction that is open: its owner commits or rolls back
        return
    db.set_autocommit(False)
    try:
        yield
        db.commit()
    except BaseException:
        db.rollback()
        raise
    finally:
        db.set_autocommit(True)


@contextmanager
def read_committed(db: BaseDatabaseWrapper) -> Iterator[None]:
    """A transaction that begins in here is READ COMMITTED, whatever the settings or the server prefer.

    Everything here locks first and reads then; a stricter transaction would read what was before the lock. The driver
    begins it so, which costs no statement. One that is open already is the caller's.
    """
    if db.in_atomic_block or not db.get_autocommit():
        yield
        return
    raw: Any = db.connection
    before = raw.isolation_level
    with db.wrap_database_errors:  # psycopg's own call raises psycopg's own errors
        raw.isolation_level = IsolationLevel.READ_COMMITTED
    try:
        yield
    finally:
        if raw.pgconn.transaction_status == TransactionStatus.IDLE:  # else it is lost, or on its way out
            raw.isolation_level = before


def is_strict(db: BaseDatabaseWrapper, level: str) -> bool:
    """Whether a transaction of this level is stricter than what the engine counts on.

    What Django's TestCase wraps a test in is no transaction of the project, and nobody else can be missed in it.
    """
    if level in ("read committed", "read uncommitted"):
        return False
    blocks = db.atomic_blocks
    return not (blocks and getattr(blocks[0], "_from_testcase", False))


def write_plain(values: Sequence[object]) -> str:
    """An array literal of values that need no quotes: numbers, booleans, ids.

    psycopg dumps a list element by element; a batch has thousands of elements, and this is five times as fast.
    """
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def write_texts(texts: Sequence[str | None]) -> str:
    """A text[] literal. Arrays within it are written as texts too, because unnest flattens nested ones."""
    return "{" + ",".join(["NULL" if text is None else _quote(text) for text in texts]) + "}"


def _quote(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    return '"' + text.replace('"', '\\"') + '"'
