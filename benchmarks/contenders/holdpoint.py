"""Holdpoint through its public API, on a site with the shipped settings and everything on.

What lives here: filling the tables through the real life of an instance (start, claim, park), sending,
and reading when the last one ended. Only this file empties tables.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper

import workflows
from benchmarks import workload
from benchmarks.site.routing import use
from benchmarks.site.workflows import SIGNAL, Wait
from workflows import engine, store
from workflows.engine.author_calls import Host
from workflows.worker import pump_connection

TABLES = tuple(
    f"holdpoint_{name}" for name in ("instance", "signal", "ledger", "unit", "interaction", "checkpoint", "event_wait")
)
#: What an approval has beside its question; these tables are empty where nobody is asked.
REVIEWS = tuple(
    f"holdpoint_{name}" for name in ("review", "candidate", "vote", "comment", "notice", "delivery", "snooze")
)
BATCH = 500
PATIENCE = 120


class Holdpoint:
    """One database of Holdpoint's, with a connection like the pump's for work done in this process."""

    def __init__(self, alias: str = "default") -> None:
        self.alias = alias
        self.db: BaseDatabaseWrapper = pump_connection.connect(alias)
        self._host = Host(self.db, alias)
        self._keys = itertools.count(1)

    def reset(self) -> None:
        """Empty the tables."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute("SET session_replication_role = replica")  # the ledger guards itself by triggers
            cursor.execute(f"TRUNCATE {', '.join((*TABLES, *REVIEWS))}")
            cursor.execute("SET session_replication_role = origin")

    def vacuum(self) -> None:
        """Do what autovacuum would have done by now."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(f"VACUUM ANALYZE {', '.join((*TABLES, *REVIEWS))}")

    def park(self, count: int, *, workflow: Any = Wait, keyed: bool = False, vacuum_every: int = 0) -> list[UUID]:
        """Start instances and run each to its wait; with a vacuum now and then, as a living system has."""
        ids: list[UUID] = []
        since = 0
        with use(self.alias):
            while len(ids) < count:
                size = min(BATCH, count - len(ids))
                keys = [f"order-{next(self._keys):08d}" for _ in range(size)] if keyed else None
                ids += [one.pk for one in workflows.start_many(workflow, [workload.INPUT] * size, keys=keys)]
                self.work_off()
                since += size
                if vacuum_every and since >= vacuum_every:
                    self.vacuum()
                    since = 0
        # A worker that is running may hold some of them yet.
        self.wait_for(lambda: not self.count("status IN (1, 2)"))
        self.vacuum()
        return ids

    def work_off(self) -> None:
        """Run everything runnable here: claim, call the author, commit."""
        while claims := store.claim(self.db, BATCH):
            self.run_all(claims)

    def run_all(self, claims: Sequence[store.Claim]) -> None:
        """Run claimed instances and commit what became of them."""
        commits = [engine.run(one, self._host) for one in claims]
        engine.settle(self.db, [one for one in commits if isinstance(one, store.Commit)])

    def signal_each(self, ids: Sequence[UUID]) -> float:
        """Deliver one by one; seconds."""
        with use(self.alias):
            begun = time.perf_counter()
            for id in ids:
                workflows.signal(id, SIGNAL, workload.PAYLOAD)
            return time.perf_counter() - begun

    def signal_all(self, ids: Sequence[UUID], batch: int) -> float:
        """Deliver in calls of `batch` lines; seconds."""
        lines = [(id, SIGNAL, workload.PAYLOAD) for id in ids]
        with use(self.alias):
            begun = time.perf_counter()
            for first in range(0, len(lines), batch):
                workflows.signal_many(lines[first : first + batch])
            return time.perf_counter() - begun

    def read_clock(self) -> float:
        """Return the database's time in seconds."""
        return float(self.read("SELECT extract(epoch FROM clock_timestamp())::float8"))

    def wait_until_ended(self, count: int) -> float:
        """Return the moment at which the last of `count` instances was done, on the database's clock."""
        # Rarely: each look scans the table, on a machine whose processors are all needed.
        unended = "SELECT EXISTS (SELECT FROM holdpoint_instance WHERE status < 10)"
        self.wait_for(lambda: not self.read(unended), look_every=0.1)
        self.expect(count, "status = 10")
        return float(self.read("SELECT extract(epoch FROM max(finished_at))::float8 FROM holdpoint_instance"))

    def expect(self, count: int, condition: str) -> None:
        """Refuse to report the speed of something that did not happen."""
        if (found := self.count(condition)) != count:
            raise AssertionError(f"{found} of {count} instances have {condition}")

    def count(self, condition: str) -> int:
        return int(self.read(f"SELECT count(*) FROM holdpoint_instance WHERE {condition}"))

    def read(self, query: str, params: Sequence[Any] | None = None) -> Any:
        """Return the one value of a query, through the observer's own connection."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(query, params)
            return cursor.fetchone()[0]

    def wait_for(self, reached: Callable[[], bool], look_every: float = 0.02) -> None:
        until = time.monotonic() + PATIENCE
        while not reached():
            if time.monotonic() > until:
                raise TimeoutError(f"not reached within {PATIENCE} s")
            time.sleep(look_every)

    def close(self) -> None:
        self.db.close()
        connections[self.alias].close()
