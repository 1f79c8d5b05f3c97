"""Calls that threads of one process make at the same moment: one of them carries the others, in one statement.

Lives here: who carries whom, and what each of them gets back. Must not live here: statements; a combiner is given one.
Sixteen calls in flight are sixteen commits, and a commit costs more than all that a call writes. Invariants owned:

* Nobody waits for others to come: a call that meets no other begins at once. It carries what has come until it begins.
* Each call has an answer or an error of its own. What the database refuses as a whole is made again one by one, each by
  its own thread. Of what may have been committed, because the connection was lost, nothing is made again.
* A call in a transaction of its caller is part of that, and never combined.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from django.db import DatabaseError, OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

C = TypeVar("C")
A = TypeVar("A")

#: Statements of one group under way at once: while one is being committed, the next is on its way.
MOST_AT_ONCE = 2


@dataclass(slots=True)
class _Waiting(Generic[C, A]):
    """One call, and what became of it."""

    call: C
    answer: A | None = None
    error: Exception | None = None
    #: Somebody has answered it; if not, it is woken to carry the next ones.
    is_over: bool = False
    #: It was refused together with others, and is made again by itself.
    is_alone: bool = False
    #: Held until something becomes of it. A lock costs a third of an `Event`.
    gate: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class _Group(Generic[C, A]):
    under_way: int = 0
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
        if not is_free(db):
            return self._carry(db, group, [call])[0]
        place, mine = (db.alias, group), _Waiting[C, A](call)
        with self._lock:
            found = self._groups.get(place)
            if found is None:
                found = self._groups[place] = _Group()
            if carries := found.under_way < MOST_AT_ONCE:
                found.under_way += 1
                batch = [mine]
            else:
                mine.gate.acquire()
                found.waiting.append(mine)
        if not carries:
            mine.gate.acquire()
            if not mine.is_over:
                batch = self._take(found, mine)
                carries = True
        if carries:
            self._carry_batch(db, place, found, batch)
        if mine.is_alone:
            return self._carry(db, group, [call])[0]
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _take(self, group: _Group[C, A], mine: _Waiting[C, A]) -> list[_Waiting[C, A]]:
        """What this call carries: itself, and those that came after it."""
        with self._lock:
            batch = [mine]
            while group.waiting and len(batch) < self._most:
                batch.append(group.waiting.popleft())
        return batch

    def _carry_batch(
        self, db: BaseDatabaseWrapper, place: tuple[str, Hashable], group: _Group[C, A], batch: list[_Waiting[C, A]]
    ) -> None:
        try:
            answers = self._carry(db, place[1], [one.call for one in batch])
            for one, answer in zip(batch, answers, strict=True):
                one.answer, one.is_over = answer, True
        except Exception as error:
            undone = len(batch) > 1 and isinstance(error, DatabaseError) and db.connection is not None and is_free(db)
            for one in batch:
                one.is_over, one.is_alone = True, undone
                one.error = None if undone else error if one is batch[0] else _copy(error)
        finally:
            for one in batch:
                if not one.is_over:  # this thread is being ended in the middle of it
                    one.error, one.is_over = OperationalError(_ENDED), True
            self._pass_on(place, group)
            for one in batch[1:]:
                one.gate.release()

    def _pass_on(self, place: tuple[str, Hashable], group: _Group[C, A]) -> None:
        """Let the oldest call that waits carry the next ones."""
        with self._lock:
            if group.waiting:
                group.waiting.popleft().gate.release()
                return
            group.under_way -= 1
            if not group.under_way and self._groups.get(place) is group:
                del self._groups[place]


_ENDED = "the thread that carried this call to the database was ended: whether the call was committed is not known"


def is_free(db: BaseDatabaseWrapper) -> bool:
    """Whether the connection stands, and nobody's transaction is open on it."""
    if db.in_atomic_block or not db.get_autocommit():
        return False
    raw = db.connection
    return raw is None or (not raw.closed and raw.info.transaction_status == TransactionStatus.IDLE)


def _copy(error: Exception) -> Exception:
    """An error of its own for another thread; the traceback is that of the thread that met it."""
    try:
        copied = type(error)(*error.args)
    except Exception:  # one that is made of something else than its arguments
        copied = OperationalError(str(error))
    copied.__cause__ = error.__cause__ or error
    return copied
