"""One database that is migrated, and a copy of it for every other worker of a run.

Lives here: who migrates, and what Django is told about the others. What must not: fixtures (`tests/conftest.py`).
To migrate takes four seconds of a processor, to copy what was migrated a tenth of that.
Invariants: it is done once in a run, by the first worker that comes, and the others wait for it; only on a server that
lives as long as the run (`postgres_plugin`), so that no run ever sees what an earlier version had migrated; and only
for the same apps and the same users, because a test may start a run of its own with others.
"""

from __future__ import annotations

import hashlib
import os

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

#: Set by the process that has started the server, for its workers.
OWN_SERVER = "HOLDPOINT_TEST_SERVER"
LOCK = "SELECT pg_advisory_lock(7240621)"


class SharedMigrations:
    """This worker's part in it."""

    def __init__(self) -> None:
        self._turn: psycopg.Connection | None = None
        apps = repr((settings.INSTALLED_APPS, settings.AUTH_USER_MODEL))
        self._template = f"migrated_{hashlib.sha256(apps.encode()).hexdigest()[:16]}"

    def begin(self) -> None:
        """Wait for whoever migrates; copy what they made, or be the one."""
        if OWN_SERVER not in os.environ:
            return
        turn = psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)
        turn.execute(LOCK)
        if turn.execute("SELECT FROM pg_database WHERE datname = %s", [self._template]).fetchone() is None:
            self._turn = turn
            return
        turn.close()
        # Django then only looks for tables that are missing.
        connections[DEFAULT_DB_ALIAS].settings_dict["TEST"].update(TEMPLATE=self._template, MIGRATE=False)

    def end(self) -> None:
        """Where this worker has migrated: let the others have a copy."""
        if self._turn is not None:
            db = connections[DEFAULT_DB_ALIAS]
            db.close()  # a database is copied while nobody is connected to it
            self._turn.execute(f'CREATE DATABASE {self._template} TEMPLATE "{db.settings_dict["NAME"]}"')
            self._turn.close()
