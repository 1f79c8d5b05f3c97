"""Whose trouble an error is: the one place that decides.

The engine's own trouble is a connection that was lost, a lock or statement time-out, a deadlock or a serialisation
failure, and a server that cannot serve just now. It ends a run without outcome and attempt; the author's error
goes to `handle`. Invariants owned:

* What the engine's own statements, or the transaction of an atomic step, meet in passing is never the author's.
* Of what the author's own statements meet, only a lost connection is the engine's, and only if he has not caught it.
* `Trouble` is a `BaseException`, like a suspension: no `except Exception` of an author keeps it.
"""

from __future__ import annotations

from typing import Any

import psycopg
from django.db import DatabaseError, InterfaceError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

#: Classes of SQLSTATE: 08 connection, 40 rolled back, 53 resources, 57 operator's intervention, 58 system.
_LOST_CLASSES = ("08",)
_PASSING_CLASSES = ("08", "40", "53", "57", "58")
_LOST = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.DatabaseDropped,
    errors.IdleSessionTimeout,
    errors.IdleInTransactionSessionTimeout,
)
_PASSING = (*_LOST, errors.LockNotAvailable, errors.ReadOnlySqlTransaction)


class Trouble(BaseException):
    """Ends a run that met the engine's own trouble; `.error` is what was met."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error

    @property
    def held(self) -> bool:
        """Whether a row was held by somebody: that says nothing about this instance."""
        return any(isinstance(one, errors.LockNotAvailable) for one in _list_causes(self.error))


def is_lost(error: BaseException) -> bool:
    """Whether it says that a connection was lost, or that none could be made."""
    return any(_is_lost(one) for one in _list_causes(error))


def is_passing(error: BaseException) -> bool:
    """Whether it says nothing about what was asked: the same may work later."""
    return any(
        _is_lost(one) or isinstance(one, _PASSING) or (one.sqlstate or "")[:2] in _PASSING_CLASSES
        for one in _list_causes(error)
    )


def is_repeatable(error: BaseException) -> bool:
    """Whether the transaction lost against another one, and may be tried again at once."""
    return any(isinstance(one, errors.DeadlockDetected | errors.SerializationFailure) for one in _list_causes(error))


def is_dead(db: BaseDatabaseWrapper) -> bool:
    """Whether the connection was there and is of no use any more."""
    raw: Any = db.connection
    if db.vendor != "postgresql":
        return False
    return db.closed_in_transaction if raw is None else bool(raw.closed or raw.broken)


class _EngineAtWork:
    """A class, and one of it for all, because every step enters it."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, (DatabaseError, InterfaceError)):
            raise_if_passing(error)


_at_work = _EngineAtWork()


def engine_at_work() -> _EngineAtWork:
    """Statements of the engine: what they meet in passing is its own trouble."""
    return _at_work


def raise_if_passing(error: BaseException) -> None:
    """Out of the engine's own work, or of a transaction of its own."""
    if is_passing(error):
        raise Trouble(error) from error


def _list_causes(error: BaseException) -> list[psycopg.Error]:
    """The database's own errors behind Django's. Along database errors only: another one was raised on purpose."""
    found: list[psycopg.Error] = []
    if isinstance(error, psycopg.Error):
        return found  # a connection that the author made without Django is his alone
    cause: BaseException | None = error
    while isinstance(cause, DatabaseError | InterfaceError | psycopg.Error) and len(found) < 10:
        if isinstance(cause, psycopg.Error):
            found.append(cause)
        cause = cause.__cause__
    return found


def _is_lost(error: psycopg.Error) -> bool:
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)  # the client's own words: closed, lost, refused
    return isinstance(error, _LOST) or (error.sqlstate or "")[:2] in _LOST_CLASSES
