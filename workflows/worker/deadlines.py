"""Deadlines as a pump fires them: many in one statement, and around those that cannot fire just now.

A deadline writes what was asked as well, and whatever hangs on it: rows that somebody may hold, a table that is being
altered, a trigger that raises. Lives here: finding the guilty ones and letting them rest. Must not live here: SQL.
Invariants owned:

* A deadline that cannot fire delays no other: those of its statement are fired in halves, each with a short patience.
* Looking for the guilty is bounded in time: what has not been looked at by then rests too, for a moment.
* What cannot fire is tried again, ever less often, and told once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.exceptions import trouble
from workflows.values import back_off

logger = logging.getLogger("workflows")

#: How long one statement waits for a row of somebody else while the guilty are looked for.
PATIENCE = 0.05
#: How long they are looked for at a time.
SEARCH_SECONDS = 0.5


class Deadlines:
    """One pump's way with what is due."""

    def __init__(self) -> None:
        #: Instances whose deadline could not fire: when they are tried again, and how often it was in vain.
        self._resting: dict[str, tuple[float, int]] = {}
        #: Until then only those are fired that ask nobody: a table of the others may be locked as a whole.
        self._careful_until = 0.0
        self._failures = 0

    def fire(self, db: BaseDatabaseWrapper) -> int:
        """Fire a part of what is due; how many. Call again while it is more than none."""
        now = time.monotonic()
        careful = now < self._careful_until
        fired = 0
        if not careful and (ready := [one for one, (until, _) in self._resting.items() if until <= now]):
            fired = self._search(db, ready)
        resting = list(self._resting)
        try:
            fired += store.expire_due(db, skip=resting, plain=careful)
            self._failures = self._failures if careful else 0
            return fired
        except DatabaseError as error:
            if trouble.is_dead(db):
                raise
            logger.info("some deadlines cannot fire; the others are fired around them: %s", error)
        plain, asking = store.list_due(db, skip=resting)
        if not careful:
            fired += self._fire_plain(db, resting)
            self._careful_until = time.monotonic() + back_off.DEADLINE.find_seconds(self._failures + 1)
            self._failures += 1
        return fired + self._search(db, plain if careful else asking)

    def _fire_plain(self, db: BaseDatabaseWrapper, resting: list[str]) -> int:
        try:
            return store.expire_due(db, skip=resting, plain=True)
        except DatabaseError:
            if trouble.is_dead(db):
                raise
            return 0  # the next turn looks for the guilty among them

    def _search(self, db: BaseDatabaseWrapper, ids: list[str]) -> int:
        until, fired, groups = time.monotonic() + SEARCH_SECONDS, 0, [ids] if ids else []
        while groups:
            group = groups.pop()
            if time.monotonic() > until:
                self._let_rest(group)
                continue
            try:
                fired += store.expire_these(db, group, PATIENCE)
            except DatabaseError as error:
                if trouble.is_dead(db):
                    raise
                if len(group) == 1:
                    self._let_rest(group, error)
                else:
                    half = len(group) // 2
                    groups += [group[half:], group[:half]]
            else:
                for one in group:
                    self._resting.pop(one, None)
        return fired

    def _let_rest(self, group: Sequence[str], error: DatabaseError | None = None) -> None:
        for one in group:
            failures = self._resting.get(one, (0.0, 0))[1]
            if error is not None and not failures:
                what = str(error).partition("\n")[0]
                logger.warning("the deadline of instance %s cannot fire, and is tried again: %s", one, what)
            seconds = back_off.DEADLINE.find_seconds(failures + 1)
            self._resting[one] = (time.monotonic() + seconds, failures + (error is not None))
