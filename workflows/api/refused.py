"""What no ledger tells: refused completions of strangers and of what is not there, and requests to inbound hooks.

Lives here: counting these in memory, and adding them to the database's sums within about two seconds; and rows of the
ledger that are written as late, because to write them at once would tell the caller by the time it takes that there
was something. Invariants owned: counting costs the request that is refused no statement and never fails it; what is
kept in memory is bounded, and of equal rows of one moment one is written and the others are counted; a forked process
counts from zero. What a process that is killed has not added yet is lost, and a count whose connection breaks at the
very moment of its commit may be added twice: these are sums for an alert, not a history.
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from multiprocessing import util
from uuid import UUID

from django.db import connections, router

from workflows.exceptions import InteractionResolved, InvalidCall, UnknownInteraction, show
from workflows.models import Tally
from workflows.store.complete import record_refusal
from workflows.store.ledger.event_sums import HOOK_OUTCOMES, REASON_OF, REASONS
from workflows.store.ledger.tallies import add_counts

logger = logging.getLogger("workflows")

#: Counts wait so long for others to be added with them, and after a failure for the database.
GATHER_SECONDS = 1.0
RETRY_SECONDS = 10.0
#: A process that ends waits so long for its last counts to be added.
LAST_SECONDS = 2.0
#: Different counts kept in memory; of more the workspace is forgotten. As many rows; of more only the number is kept.
MOST = 1_000

#: Workspace, name and label.
Key = tuple[int | None, str, str]

DROPPED, HOOKS = "dropped", "hooks"

#: Why, as it is counted, where a row is not written after all.
UNKNOWN = REASON_OF[UnknownInteraction.__name__]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row of an instance's ledger: somebody was told that there is nothing, where there was something."""

    workspace: int
    instance: UUID
    actor: str
    data: str


def count_dropped(workspace: int | None, reason: str) -> None:
    """Count one completion that was refused without a row in the ledger; None where it is about no workspace.

    >>> count_dropped(None, "invalid_token")
    """
    if reason not in REASONS:
        raise InvalidCall(f"{show(reason)} is no reason to drop a completion; there are {', '.join(REASONS)}")
    _drops.count((workspace, DROPPED, reason))


def count_hook(workspace: int | None, outcome: str) -> None:
    """Count one request to an inbound hook; None where it is about no workspace.

    >>> count_hook(None, "unverified")
    """
    if outcome not in HOOK_OUTCOMES:
        raise InvalidCall(f"{show(outcome)} is no outcome of a hook; there are {', '.join(HOOK_OUTCOMES)}")
    _drops.count((workspace, HOOKS, outcome))


def count_refusal(workspace: int | None, refused: Exception) -> None:
    """The same for what was raised; nothing where that says nothing about a completion."""
    late = isinstance(refused, InteractionResolved) and refused.how == "expired"
    reason = "expired" if late else REASON_OF.get(type(refused).__name__)
    if reason is not None:
        count_dropped(workspace, reason)


def record_later(refusal: Refusal) -> None:
    """Write the row soon, and nothing now."""
    _drops.record(refusal)


def flush_dropped() -> bool:
    """Add what has been counted here, on this thread's connection; whether nothing is left."""
    return _drops.flush()


def forget_dropped() -> None:
    """Count from zero, and add nothing of what was counted here: for tests, which leave nothing to others."""
    _drops.abandon()
    _begin_anew()


class _Drops:
    """What has been counted and not added yet, and the thread that adds it while there is something."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[Key, int] = {}
        self._rows: dict[Refusal, None] = {}
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()
        self._finalizer: object = None

    def count(self, key: Key) -> None:
        with self._lock:
            self._add(key, 1)
            self._begin()

    def record(self, refusal: Refusal) -> None:
        with self._lock:
            self._keep(refusal)
            self._begin()

    def flush(self) -> bool:
        with self._lock:
            counts, self._counts = self._counts, {}
            rows, self._rows = self._rows, {}
        db = connections[router.db_for_write(Tally)]
        try:
            for row in list(rows):
                if not record_refusal(db, row.instance, actor=row.actor, data=row.data):
                    # It was pruned meanwhile.
                    key: Key = (row.workspace, DROPPED, UNKNOWN)
                    counts[key] = counts.get(key, 0) + 1
                del rows[row]
            if counts:
                add_counts(db, counts)
        except Exception as error:
            logger.warning("counts could not be added to the sums; they are added later: %s", error)
            with self._lock:
                for key, count in counts.items():
                    self._add(key, count)
                for row in rows:
                    self._keep(row)
            return False
        return True

    def abandon(self) -> None:
        with self._lock:
            self._counts.clear()
            self._rows.clear()
        self._end()

    def _keep(self, row: Refusal) -> None:
        if row in self._rows or len(self._rows) >= MOST:
            self._add((row.workspace, DROPPED, UNKNOWN), 1)
        else:
            self._rows[row] = None

    def _add(self, key: Key, count: int) -> None:
        if key not in self._counts and len(self._counts) >= MOST:
            key = (None, *key[1:])
        self._counts[key] = self._counts.get(key, 0) + count

    def _begin(self) -> None:
        """Under the lock: the thread, unless it is there."""
        if self._thread is not None or self._ending.is_set():
            return
        if self._finalizer is None:
            # Unlike atexit's, these run in processes of multiprocessing too, which servers and django-q use.
            self._finalizer = util.Finalize(None, self._end, exitpriority=10)
        self._thread = threading.Thread(target=self._run, name="holdpoint-dropped", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads: what is counted next tries again
            self._thread = None

    def _run(self) -> None:
        pause = GATHER_SECONDS
        while True:
            self._ending.wait(pause)
            pause = GATHER_SECONDS if self.flush() else RETRY_SECONDS
            connections.close_all()
            with self._lock:
                if not (self._counts or self._rows) or self._ending.is_set():
                    self._thread = None
                    return

    def _end(self) -> None:
        """The process ends, and its threads with it: let ours add what it has."""
        thread = self._thread
        self._ending.set()
        if thread is not None:
            thread.join(LAST_SECONDS)


_drops = _Drops()


def _begin_anew() -> None:
    """In a forked process: what was counted before is its parent's to add, and the thread is its parent's too."""
    global _drops
    _drops = _Drops()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
