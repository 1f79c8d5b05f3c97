"""The one PostgreSQL that every contender uses, and an empty database for each of them.

What lives here: starting it (durable: fsync and synchronous_commit on) with settings that keep
checkpoints out of the runs, or using the one DATABASE_URL names as it is.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from config.postgres import start, temporary_server

MAIN = "holdpoint_bench"
RAW, DBOS, DJANGO_Q = f"{MAIN}_raw", f"{MAIN}_dbos", f"{MAIN}_django_q"

#: The same for everybody; README.md says why these.
SETTINGS = {"shared_buffers": "1GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}


@dataclass(frozen=True)
class BenchServer:
    """A server: its address, and its folder if it is ours."""

    url: str
    folder: Path | None

    def name_database(self, name: str) -> str:
        """Return the address of one database."""
        return urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Make a database anew, and return its address."""
        with psycopg.connect(self.url, autocommit=True) as db:
            target, source = sql.Identifier(name), sql.Identifier(template)
            db.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(target))
            db.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(target, source))
        return self.name_database(name)

    def drop_databases(self) -> None:
        """Remove what we made on a server that is not ours."""
        with psycopg.connect(self.url, autocommit=True) as db:
            found = db.execute("SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [MAIN])
            for (name,) in found.fetchall():
                db.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def open_server() -> Iterator[BenchServer]:
    """Give the server for one run."""
    if given := os.environ.get("DATABASE_URL"):
        server = BenchServer(given, None)
        try:
            yield server
        finally:
            server.drop_databases()
        return
    with temporary_server(durable=True) as first:
        with psycopg.connect(first.url, autocommit=True) as db:
            for name, value in SETTINGS.items():
                db.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), value))
        first.stop()  # shared_buffers counts from the next start
        second = start(first.home.path, durable=True)
        try:
            yield BenchServer(second.url, second.home.path)
        finally:
            second.stop()
