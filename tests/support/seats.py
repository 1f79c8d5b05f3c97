"""Threads whose connections stay open from one race of a test to the next.

Lives here: the threads, and what their connections forget in between. What must not: races.
To make a connection, and to read everything about the tables anew there, takes longer than most calls of a race.
Invariant: after a test none of them is left, so that the next one meets no connections but its own.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import psycopg
from django.db import connection
from psycopg.pq import TransactionStatus

PATIENCE = 60.0

_free: list[Seat] = []


class Seat(threading.Thread):
    """A thread that makes one call after the other."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while (call := self.calls.get()) is not None:
            renew()
            call()
        connection.close()

    def leave(self) -> None:
        """Be free for another call; what this one left open is rolled back."""
        raw = connection.connection
        if raw is not None and (raw.closed or raw.info.transaction_status != TransactionStatus.IDLE):
            connection.close()
        _free.append(self)


def renew() -> None:
    """Leave this thread's connection as a new one would be, or none."""
    if connection.connection is None:
        return
    try:
        connection.connection.execute("RESET ALL; UNLISTEN *; SELECT pg_advisory_unlock_all()")
        connection.ensure_timezone()
    except psycopg.OperationalError:  # the test ended it from elsewhere
        connection.close()


def take_seat() -> Seat:
    return _free.pop() if _free else Seat()


def close_seats() -> None:
    """End all that are free."""
    ended = list(_free)
    _free.clear()
    for seat in ended:
        seat.calls.put(None)
    for seat in ended:
        seat.join(PATIENCE)
