"""Timers of other apps: work that is due when rows of theirs say so.

Lives here: which sweeps there are, and a pump's way with them. It asks each on its own connection whether something is
due, and leaves the work to a thread beside it, which has the ordinary connections and ends with its round. Rows are the
truth here too: a round that fails or dies is begun again by the next look of any pump, so work is done at least once.
Invariants owned:

* Whatever a sweep does (hang, fail, miss its table), the pump's loop and the other sweeps go on.
* A pump has at most one thread per sweep, and none is begun beside one that an earlier pump of this process left at
  work: a sweep that hangs costs a process one thread, however often its pumps hand over.
* A sweep that fails rests, ever longer, so that what can never be done is no busy loop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import util

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.values import back_off

logger = logging.getLogger("workflows")

#: Whoever ends waits so long, in all, for the work that is under way.
LAST_WORK_SECONDS = 5.0
#: Work that takes longer probably hangs, and is told of.
SLOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Sweep:
    """Work that other apps do when rows of theirs become due."""

    name: str
    #: Seconds until something is due by the database's clock (<= 0: now), None when nothing is armed. One cheap,
    #: indexed statement on the given connection, the pump's own, which plans no sequential scan; no author's code.
    seconds_to_next: Callable[[BaseDatabaseWrapper], float | None]
    #: Do some of what is due, in transactions of its own on the ordinary connections; how much was done. Called again
    #: while that is more than nothing.
    work: Callable[[], int]
    #: How often to look, in seconds.
    every: float = 0.25


def register_sweep(sweep: Sweep) -> None:
    """Make a sweep known; one of the same name is replaced.

    >>> register_sweep(Sweep("reminders", seconds_to_next=count_seconds, work=remind))
    """
    _entries[sweep.name] = _Entry(sweep)


def unregister_sweep(name: str) -> None:
    """Forget a sweep, if there is one of this name: for tests, which leave nothing to others."""
    _entries.pop(name, None)


def list_sweeps() -> list[Sweep]:
    """All sweeps, in the order in which they were registered."""
    return [one.sweep for one in list(_entries.values())]


def may_go_on(*, anew: bool = True) -> bool:
    """For work that goes on for long: whether to take up more, which also says that it does not hang, if it is `anew`.

    >>> may_go_on()
    True
    """
    current = threading.current_thread()
    return current.go_on(anew=anew) if isinstance(current, _Round) else True


class Sweeper:
    """One pump's way with the sweeps. Belongs to the thread of its pump."""

    def __init__(self) -> None:
        self._looked: dict[str, float] = {}
        self._rounds: list[_Round] = []

    def look(self, db: BaseDatabaseWrapper) -> None:
        """Ask each sweep whose time it is to be looked at, and begin a round of those that have something due."""
        self._rounds = [one for one in self._rounds if one.is_alive()]
        for entry in list(_entries.values()):
            name, now = entry.sweep.name, time.monotonic()
            if now < max(entry.rests_until, self._looked.get(name, 0.0) + entry.sweep.every) or self._is_busy(entry):
                continue
            self._looked[name] = now
            if entry.is_due(db):
                self._begin(entry)

    def stop(self) -> None:
        """Let no thread take up anything more."""
        for one in self._rounds:
            one.stop()

    def wait(self) -> None:
        """For what is under way, but no longer than `LAST_WORK_SECONDS` after the stop."""
        for one in self._rounds:
            one.wait()

    def _is_busy(self, entry: _Entry) -> bool:
        left = [one for one in list(_rounds) if one.is_stopped() and one.is_alive()]
        for one in (*self._rounds, *left):
            if one.entry is entry:
                one.warn_if_slow()
                return True
        return False

    def _begin(self, entry: _Entry) -> None:
        one = _Round(entry)
        try:
            one.start()
        except RuntimeError as error:  # no more threads
            logger.warning("the sweep %s has no thread to work in for %g s: %s", one.name, entry.rest(), error)
        else:
            self._rounds.append(one)


class _Entry:
    """A sweep and how it fares. For all pumps of the process, so that a failing one rests across a handover too."""

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.failures = 0
        self.rests_until = 0.0

    def is_due(self, db: BaseDatabaseWrapper) -> bool:
        """Whether there is something to do now; not if it cannot tell."""
        try:
            seconds = self.sweep.seconds_to_next(db)
        except Exception as error:
            # A lost connection is for the pump to mend. A lock that was not granted in time, say of a table that is
            # being altered, has the same class, and is this sweep's own trouble.
            if isinstance(error, OperationalError | InterfaceError) and not db.is_usable():
                raise
            rest = self.rest()
            logger.exception("the sweep %s cannot tell what is due; asked again in %g s", self.sweep.name, rest)
            return False
        if seconds is None or seconds > 0:
            self.failures = 0
            return False
        return True

    def rest(self) -> float:
        """It has failed: how long it is left alone."""
        self.failures += 1
        seconds = back_off.SWEEP.find_seconds(self.failures)
        self.rests_until = time.monotonic() + seconds
        return seconds


class _Round(threading.Thread):
    """Does what is due until nothing is left, and ends.

    A thread for each round and not one that is woken, so that nothing which the work forgets on its thread (an open
    transaction, a language) is there in the next; beside making a connection it costs nothing.
    """

    def __init__(self, entry: _Entry) -> None:
        super().__init__(name=f"holdpoint-{entry.sweep.name}", daemon=True)
        self.entry = entry
        self._since = time.monotonic()
        self._warned = False
        #: When whoever told it to stop ceases to wait.
        self._until: float | None = None

    def run(self) -> None:
        """One round; its failure is told and makes the sweep rest."""
        # A daemon thread would die with its process in the middle of its work; unlike atexit's, these run in processes
        # of multiprocessing too, which django-q's workers are.
        finalizer = util.Finalize(None, self._finish, exitpriority=10)
        _rounds.add(self)
        try:
            self._work()
        except BaseException:  # also SystemExit: nobody is above whom it could be meant for
            logger.exception("the sweep %s failed; it tries again in %g s", self.entry.sweep.name, self.entry.rest())
        finally:
            try:
                connections.close_all()
            finally:
                _rounds.discard(self)
                finalizer.cancel()

    def stop(self) -> None:
        """Take up nothing more."""
        if self._until is None:
            self._until = time.monotonic() + LAST_WORK_SECONDS

    def is_stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._until is not None

    def go_on(self, *, anew: bool = True) -> bool:
        """It is at a new piece of work, or still at the old one, unless it was told to stop."""
        if anew:
            self._since = time.monotonic()
        return not self.is_stopped()

    def wait(self) -> None:
        """For its end, until the time is over that began with its stop."""
        if self._until is not None:
            self.join(max(0.0, self._until - time.monotonic()))

    def warn_if_slow(self) -> None:
        """Tell once of work that hangs."""
        seconds = time.monotonic() - self._since
        if seconds > SLOW_SECONDS and not self._warned:
            self._warned = True
            logger.warning("the sweep %s has been at the same piece of work for %d s", self.entry.sweep.name, seconds)

    def _work(self) -> None:
        done = 1
        while done > 0 and self.go_on():
            done = self.entry.sweep.work()
            self.entry.failures = 0

    def _finish(self) -> None:
        """The process ends. All are told before one is waited for, so that they share the time."""
        for one in list(_rounds):
            one.stop()
        self.wait()


_entries: dict[str, _Entry] = {}
#: Threads that have not ended, of all pumps of this process. In a forked one none of them is alive.
_rounds: set[_Round] = set()
