"""One database that is migrated, and a copy of it for every other worker of a run.

Lives here: who migrates, and what Django is told about the others. What must not: fixtures (`tests/conftest.py`).
To migrate takes four seconds of a processor, to copy what was migrated half a second: each worker has a server of its
own (`postgres_plugin`), so the copy goes through a dump, which the first server keeps.
Invariants: it is done once in a run, by the first worker that comes, and the others wait for it; only on servers that
live as long as the run, so that no run ever sees what an earlier version had migrated; and only for the same apps and
the same users, because a test may start a run of its own with others.
"""

from __future__ import annotations

import hashlib
import os
import subprocess

import psycopg
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from config.postgres.binaries import find_binaries
from tests.support.postgres_plugin import FIRST_SERVER

LOCK = "SELECT pg_advisory_lock(7240621)"
DUMPS = "CREATE TABLE IF NOT EXISTS migrated (apps text PRIMARY KEY, dump bytea NOT NULL)"


class SharedMigrations:
    """This worker's part in it."""

    def __init__(self) -> None:
        self._turn: psycopg.Connection | None = None
        apps = repr((settings.INSTALLED_APPS, settings.AUTH_USER_MODEL))
        self._template = f"migrated_{hashlib.sha256(apps.encode()).hexdigest()[:16]}"

    def begin(self) -> None:
        """Wait for whoever migrates; copy what they made, or be the one."""
        if not can_copy():
            return
        turn = psycopg.connect(os.environ[FIRST_SERVER], autocommit=True)
        turn.execute(LOCK)
        turn.execute(DUMPS)
        kept = turn.execute("SELECT dump FROM migrated WHERE apps = %s", [self._template]).fetchone()
        if kept is None:
            self._turn = turn
            return
        turn.close()
        self._restore(kept[0])
        # Django then only looks for tables that are missing.
        connections[DEFAULT_DB_ALIAS].settings_dict["TEST"].update(TEMPLATE=self._template, MIGRATE=False)

    def end(self) -> None:
        """Where this worker has migrated: let the others have a copy."""
        if self._turn is not None:
            dump = run_program("pg_dump", connections[DEFAULT_DB_ALIAS].settings_dict["NAME"])
            self._turn.execute("INSERT INTO migrated VALUES (%s, %s)", [self._template, dump])
            self._turn.close()

    def _restore(self, dump: bytes) -> None:
        """Make the template on this worker's server, unless a run that began there has."""
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
            db.execute(LOCK)
            if db.execute("SELECT FROM pg_database WHERE datname = %s", [self._template]).fetchone() is None:
                db.execute(f"CREATE DATABASE {self._template}")
                run_program("psql", self._template, "-XqAt", "-v", "ON_ERROR_STOP=1", "--single-transaction", text=dump)


def can_copy() -> bool:
    """Whether the server is ours, and the programs for it are there: some systems pack them apart from the server."""
    return FIRST_SERVER in os.environ and (find_binaries(None, None) / "pg_dump").exists()


def run_program(name: str, database: str, *options: str, text: bytes = b"") -> bytes:
    """Let a program of PostgreSQL work on a database of this worker's server; what it wrote."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as db:
        address = psycopg.conninfo.make_conninfo(db.info.dsn, dbname=database)
    command = [str(find_binaries(None, None) / name), *options, "-d", address]
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout
