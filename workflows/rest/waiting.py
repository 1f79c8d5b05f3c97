"""Waiting for an instance to end, on behalf of a client that polls slowly.

Lives here: one thread per process that looks for all who wait, in one statement at a time. Invariants owned: whoever
waits holds no database connection meanwhile; the thread ends when nobody waits; a wait ends in bounded time whatever
the database does.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.models import Instance

logger = logging.getLogger("workflows")

#: Between two looks. A client that asked for seconds does not mind.
LOOK_SECONDS = 0.1
LOOK_AGAIN_SECONDS = 1.0


def wait_for_end(db: BaseDatabaseWrapper, instance: UUID, seconds: float) -> bool:
    """Whether the instance has ended within so many seconds."""
    if db.in_atomic_block:
        return False  # nobody else's work can be seen from inside this transaction
    ended = threading.Event()
    _lobby.enter(instance, ended)
    try:
        db.close()  # the thread that waits needs none, and others may
        return ended.wait(seconds)
    finally:
        _lobby.leave(instance, ended)


class _Lobby:
    """Who waits for what, and the thread that looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[UUID, set[threading.Event]] = {}
        self._looks = False
        os.register_at_fork(after_in_child=self._forget)

    def enter(self, instance: UUID, ended: threading.Event) -> None:
        with self._lock:
            self._waiting.setdefault(instance, set()).add(ended)
            if not self._looks:
                self._looks = True
                threading.Thread(target=self._look, name="holdpoint-waiting", daemon=True).start()

    def leave(self, instance: UUID, ended: threading.Event) -> None:
        with self._lock:
            others = self._waiting.get(instance, set())
            others.discard(ended)
            if not others:
                self._waiting.pop(instance, None)

    def _look(self) -> None:
        try:
            while ids := self._list():
                time.sleep(self._tell(ids))
        finally:
            connections.close_all()

    def _list(self) -> list[UUID]:
        """Who is waited for; the thread ends when it is nobody."""
        with self._lock:
            if not self._waiting:
                self._looks = False
            return list(self._waiting)

    def _tell(self, ids: list[UUID]) -> float:
        """Look, and wake those whose instance has ended; seconds until the next look."""
        db = connections[router.db_for_write(Instance)]
        try:
            ended = store.find_ended(db, ids)
        except Exception:  # whoever waits still does
            logger.warning("cannot look for ended instances; trying again", exc_info=True)
            db.close()
            return LOOK_AGAIN_SECONDS
        with self._lock:
            for instance in ended:
                for one in self._waiting.get(instance, ()):
                    one.set()
        return LOOK_SECONDS

    def _forget(self) -> None:
        """In a forked child: its thread did not come along."""
        self._lock = threading.Lock()
        self._waiting, self._looks = {}, False


_lobby = _Lobby()
