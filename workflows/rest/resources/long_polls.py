"""Waiting for an instance to end, on behalf of a client that polls slowly.

Lives here: one thread per process that looks for all who wait, in one statement at a time. Invariants owned: whoever
waits holds no database connection meanwhile, and not so many wait that nobody else is served; the thread ends when
nobody waits; a wait ends in bounded time whatever the database does.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import Counter
from uuid import UUID

from django.db import connections, router

from workflows import store
from workflows.models import Instance
from workflows.rest.base.held_threads import PLACES

logger = logging.getLogger("workflows")

#: Between two looks. A client that asked for seconds does not mind.
LOOK_SECONDS = 0.1
LOOK_AGAIN_SECONDS = 1.0


def wait_for_end(instance: UUID, seconds: float, *, who: str, most: int, progressed: float | None = None) -> bool:
    """Whether the instance has ended within so many seconds; at once False where too many wait already.

    Or has said how far it is since `progressed`, in seconds since 1970. Each takes a thread of the server, so `most`
    may wait in this process, and of them one caller three quarters.
    """
    if any(one.in_atomic_block for one in connections.all(initialized_only=True)):
        return False  # nobody else's work can be seen from inside this transaction
    ended = threading.Event()
    try:
        if not _lobby.enter(instance, ended, who, most, progressed):
            return False
    except RuntimeError:  # no thread can be started
        logger.warning("cannot wait for instances: no thread can be started", exc_info=True)
        return False
    try:
        for one in connections.all(initialized_only=True):
            one.close()  # the thread that waits needs none, and others may
        return ended.wait(seconds)
    finally:
        _lobby.leave(instance, ended, who)


class _Lobby:
    """Who waits for what, and the thread that looks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[UUID, set[threading.Event]] = {}
        #: Of those who wait for progress too: what they know of.
        self._known: dict[threading.Event, float] = {}
        self._callers: Counter[str] = Counter()
        self._looks = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def enter(self, instance: UUID, ended: threading.Event, who: str, most: int, progressed: float | None) -> bool:
        with self._lock:
            if self._callers.total() >= most or self._callers[who] >= most - most // 4:
                return False
            if not PLACES.take():
                return False
            if not self._looks:
                # It begins by waiting for this lock; where no thread can start, nobody has entered.
                try:
                    threading.Thread(target=self._look, name="holdpoint-waiting", daemon=True).start()
                except RuntimeError:
                    PLACES.give_back()
                    raise
                self._looks = True
            self._waiting.setdefault(instance, set()).add(ended)
            if progressed is not None:
                self._known[ended] = progressed
            self._callers[who] += 1
            return True

    def leave(self, instance: UUID, ended: threading.Event, who: str) -> None:
        with self._lock:
            PLACES.give_back()
            self._callers[who] -= 1
            if not self._callers[who]:
                del self._callers[who]
            self._known.pop(ended, None)
            others = self._waiting.get(instance, set())
            others.discard(ended)
            if not others:
                self._waiting.pop(instance, None)

    def _look(self) -> None:
        try:
            while ids := self._list():
                time.sleep(self._tell(ids))
        except BaseException:
            with self._lock:
                self._looks = False  # whoever comes next begins another
            raise
        finally:
            connections.close_all()

    def _list(self) -> list[UUID]:
        """Who is waited for; the thread ends when it is nobody."""
        with self._lock:
            if not self._waiting:
                self._looks = False
            return list(self._waiting)

    def _tell(self, ids: list[UUID]) -> float:
        """Look, and wake those whose instance has ended or got on; seconds until the next look."""
        db = connections[router.db_for_write(Instance)]
        try:
            ended = store.find_ended(db, ids)
            progressed = store.find_progressed(db, ids) if self._known else {}
        except Exception:  # whoever waits still does
            logger.warning("cannot look for ended instances; trying again", exc_info=True)
            with contextlib.suppress(Exception):
                connections.close_all()
            return LOOK_AGAIN_SECONDS
        with self._lock:
            for instance in ended:
                for one in self._waiting.get(instance, ()):
                    one.set()
            for instance, at in progressed.items():
                for one in self._waiting.get(instance, ()):
                    if one in self._known and at > self._known[one]:
                        one.set()
        return LOOK_SECONDS

    def _forget(self) -> None:
        """In a forked child: its thread did not come along."""
        self._lock = threading.Lock()
        self._waiting, self._known, self._callers, self._looks = {}, {}, Counter(), False


_lobby = _Lobby()
