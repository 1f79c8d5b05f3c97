"""Connections that fall silent: a statement is under way, and no answer comes, nor an end.

A hung pooler or a stopped machine in between goes on acknowledging what it is sent, so no limit of TCP ends the wait,
and whoever waits can do nothing. Lives here: a thread beside a pump that touches none of its connections and cuts those
from which nothing has come for long. Whoever waited meets a lost connection, and makes a new one. Invariants owned:

* A statement that the server is at work on (it waits for a lock, it is slow) is not cut, however long it takes: the
  server is asked first, on a connection of the thread's own.
* The asking cannot hang: it has a limit too, and no answer means that the server is out of reach.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

logger = logging.getLogger("workflows")

LOOK_EVERY = 1.0
#: How long no answer is no reason to ask; of whoever is to stop, not as long.
PATIENCE = 15.0
LAST_PATIENCE = 5.0
#: The server's answer whether it is at work takes milliseconds, and a new connection to it not much longer.
ASKING_SECONDS = 5.0


class Lookout:
    """Looks at connections once a second, each a Django wrapper of whatever thread."""

    def __init__(self, patience: Callable[[], float] = lambda: PATIENCE) -> None:
        self._patience = patience
        self._lines: list[_WatchedConnection] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdpoint-lookout", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()

    def watch(self, db: BaseDatabaseWrapper, progress: Callable[[], object] | None = None) -> None:
        """From now on. `progress` changes whenever whoever uses it has got on; without, statements are counted.

        A progress of None says that what is under way is not to be looked at.
        """
        with self._lock:
            if not any(line.db() is db for line in self._lines):
                # Replaced and not appended: the other thread may be walking through it.
                self._lines = [
                    *(line for line in self._lines if line.db() is not None),
                    _WatchedConnection(db, progress),
                ]

    def _run(self) -> None:
        while not self._ended.wait(LOOK_EVERY):
            for line in self._lines:
                try:
                    line.look(self._patience())
                except Exception:
                    logger.exception("the lookout failed; it goes on")


class _WatchedConnection:
    def __init__(self, db: BaseDatabaseWrapper, progress: Callable[[], object] | None) -> None:
        self.db = weakref.ref(db)
        self._count = 0
        self._seen: object = None
        self._since = time.monotonic()
        if progress is None:
            db.execute_wrappers.append(self._counting)
            progress = lambda: self._count  # noqa: E731
        self._progress = progress

    def _counting(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        self._count += 1
        return execute(*arguments)

    def look(self, patience: float) -> None:
        db = self.db()
        raw: Any = None if db is None else db.connection
        progress = self._progress()
        busy = raw is not None and raw.pgconn.transaction_status == TransactionStatus.ACTIVE
        seen = (id(raw), progress)
        if not busy or progress is None or seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        elif (silent := time.monotonic() - self._since) > patience:
            assert db is not None
            if not _is_at_work(db, raw.info.backend_pid) and (id(raw), self._progress()) == seen:
                logger.warning("a connection to the database has said nothing for %.0f s: it is cut", silent)
                _cut(raw)
            self._since = time.monotonic()


def _is_at_work(db: BaseDatabaseWrapper, pid: int) -> bool:
    """Whether the server says, within a few seconds, that it is at work for this session."""
    answer: list[bool] = []

    def ask() -> None:
        with contextlib.suppress(psycopg.Error):
            params = {**db.get_connection_params(), "connect_timeout": ASKING_SECONDS}
            with psycopg.connect(**params) as asking:
                row = asking.execute("SELECT state = 'active' FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone()
                answer.append(bool(row and row[0]))

    asker = threading.Thread(target=ask, name="holdpoint-asking", daemon=True)
    asker.start()
    asker.join(ASKING_SECONDS)
    return bool(answer and answer[0])


def _cut(raw: Any) -> None:
    """End the connection under whoever waits for it: it finds it lost."""
    # A copy of the descriptor, so that closing it closes nothing of the connection's owner.
    with (
        contextlib.suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(raw.pgconn.socket)) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)
