"""Calls that threads of one process make at the same moment: one of them carries the others, in one statement.

Lives here: who carries whom, and what each of them gets back. Must not live here: statements; a combiner is given one.
Sixteen calls in flight are sixteen commits, and a commit costs more than all that a call writes. Invariants owned:

* Nobody waits for others to come: a call that meets no other begins at once. It carries what has come until it begins.
  One that meets another waits until that is done, unless enough wait already; and no longer than `LONG_ENOUGH`.
* A thread never waits for itself: what it calls while it carries others (by a handler of logs, say) goes alone.
* Each call has an answer or an error of its own. What the database refuses as a whole is made again one by one, each by
  its own thread. Of what may have been committed, because the connection was lost, nothing is made again.
* Whoever is ended, waiting or carrying, takes nobody's turn and nobody's answer along.
* A call in a transaction of its caller is part of that, and never combined. Nor is one on a connection that treats its
  statements in a way of its own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.db import DatabaseError, Error, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

C = TypeVar("C")
A = TypeVar("A")

#: Statements of one group under way at once: while one is being committed, the next is on its way.
MOST_AT_ONCE = 2
#: A second statement is begun by whoever finds so many waiting: a statement for one call costs nearly what it costs for
#: four.
ENOUGH = 3
#: Seconds after which a call that waits has a statement of its own beside the first: that may be on a dead network.
LONG_ENOUGH = 0.05
#: Backends that are known to treat all threads alike.
_KNOWN_BACKENDS = ("django.", "workflows.backend.")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[C, A]):
    """One call, and what became of it."""

    call: C
    answer: A | None = None
    error: Exception | None = None
    #: It is its turn to carry the next ones, until it has passed that on.
    leads: bool = False
    #: It was refused together with others, or nothing of it was sent, and is made again by itself.
    is_alone: bool = False
    is_over: bool = False
    #: Held until something becomes of it. A lock costs a third of an `Event`.
    gate: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class _Group(Generic[C, A]):
    under_way: int = 0
    #: The threads that carry.
    carriers: set[int] = field(default_factory=set)
    waiting: deque[_Waiting[C, A]] = field(default_factory=deque)


class Combiner(Generic[C, A]):
    """Calls of one kind. Those of a group can be carried by one statement."""

    def __init__(self, carry: Callable[[BaseDatabaseWrapper, Hashable, Sequence[C]], Sequence[A]], most: int) -> None:
        self._carry = carry
        self._most = most
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_anew)  # the others are threads of the parent

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[Hashable, _Group[C, A]] = {}

    def call(self, db: BaseDatabaseWrapper, group: Hashable, call: C) -> A:
        """Make the call, alone or together with others of its group; its answer."""
        if not is_free(db) or not _is_alike(db):
            return self._carry(db, group, [call])[0]
        place, mine = (db.alias, group), _Waiting[C, A](call)
        found = self._join(place, mine)
        if found is None:
            return self._carry(db, group, [call])[0]
        try:
            if not mine.leads and not mine.gate.acquire(timeout=LONG_ENOUGH):
                self._begin_beside(found, mine)
                if not mine.leads:
                    mine.gate.acquire()
            if mine.leads:
                self._lead(db, place, found, mine)
        finally:
            self._leave(place, found, mine)
        if mine.is_alone:
            return self._carry(db, group, [call])[0]
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _join(self, place: tuple[str, Hashable], mine: _Waiting[C, A]) -> _Group[C, A] | None:
        """Lead, or wait for those who do; None where that is this very thread."""
        with self._lock:
            found = self._groups.get(place)
            if found is None:
                found = self._groups[place] = _Group()
            if threading.get_ident() in found.carriers:
                return None
            if not found.under_way or (found.under_way < MOST_AT_ONCE and len(found.waiting) >= ENOUGH):
                found.under_way += 1
                mine.leads = True
            else:
                mine.gate.acquire()
                found.waiting.append(mine)
        return found

    def _begin_beside(self, group: _Group[C, A], mine: _Waiting[C, A]) -> None:
        """Wait no longer for a statement that takes so long, if there may be another one beside it."""
        with self._lock:
            if group.under_way < MOST_AT_ONCE and mine in group.waiting:
                group.waiting.remove(mine)
                group.under_way += 1
                mine.leads = True

    def _lead(
        self, db: BaseDatabaseWrapper, place: tuple[str, Hashable], group: _Group[C, A], mine: _Waiting[C, A]
    ) -> None:
        batch, me = [mine], threading.get_ident()
        try:
            group.carriers.add(me)
            self._take(group, batch)
            answers = self._carry(db, place[1], [one.call for one in batch])
            for one, answer in zip(batch, answers, strict=True):
                one.answer, one.is_over = answer, True
        except Exception as error:
            # Without a connection nothing was sent: one that is lost on the way is still known as such.
            undone = len(batch) > 1 and isinstance(error, DatabaseError) and (db.connection is None or is_free(db))
            for one in batch:
                one.is_over, one.is_alone = True, undone
                one.error = None if undone else error if one is mine else _copy(error)
        finally:
            for one in batch:
                if not one.is_over:  # this thread is being ended in the middle of it
                    one.error, one.is_over = OperationalError(_ENDED), True
            group.carriers.discard(me)
            self._leave(place, group, mine)
            for one in batch[1:]:
                one.gate.release()

    def _take(self, group: _Group[C, A], batch: list[_Waiting[C, A]]) -> None:
        """Carry those that have come until now, too; where it had to wait for its turn, there may be some."""
        with self._lock:
            while group.waiting and len(batch) < self._most:
                batch.append(group.waiting.popleft())

    def _leave(self, place: tuple[str, Hashable], group: _Group[C, A], mine: _Waiting[C, A]) -> None:
        """Let the oldest call that waits carry the next ones, if it was this one's turn.

        Whoever is ended while it waits leaves as well: a turn that nobody passes on would be lost to all.
        """
        with self._lock:
            if mine.leads:
                mine.leads = False
                if group.waiting:
                    following = group.waiting.popleft()
                    following.leads = True
                    following.gate.release()
                    return
                group.under_way -= 1
                if not group.under_way and self._groups.get(place) is group:
                    del self._groups[place]
            elif not mine.is_over and mine in group.waiting:
                group.waiting.remove(mine)


_ENDED = "the thread that carried this call to the database was ended: whether the call was committed is not known"


def is_free(db: BaseDatabaseWrapper) -> bool:
    """Whether the connection stands, and nobody's transaction is open on it."""
    if db.in_atomic_block or not db.get_autocommit():
        return False
    raw = db.connection
    return raw is None or (not raw.closed and raw.info.transaction_status == TransactionStatus.IDLE)


def _is_alike(db: BaseDatabaseWrapper) -> bool:
    """Whether a statement means the same on this connection as on those of other threads, as far as can be known.

    What wraps the statements of one thread (to refuse, to count, to say on whose behalf) is not meant for others, nor
    is what others wrap meant for it. A backend of somebody else may send each thread to a schema of its own.
    """
    return not db.execute_wrappers and type(db).__module__.startswith(_KNOWN_BACKENDS)


def _copy(error: Exception) -> Exception:
    """An error of its own for another thread; the traceback is that of the thread that met it."""
    if not isinstance(error, Error):  # such as a limit of time of that thread
        copied: Exception = OperationalError(_ENDED)
    else:
        try:
            copied = type(error)(*error.args)
        except Exception:  # one that is made of something else than its arguments
            copied = OperationalError(str(error))
    copied.__cause__ = error.__cause__ or error
    return copied
