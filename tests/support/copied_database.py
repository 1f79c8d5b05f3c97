"""A database of its own for a test that changes tables: a copy of the migrated one, which is left as it is.

Lives here: making it, being in it, and dropping it. What must not: what is changed in it.
Invariant: inside the block every connection of this process is one to the copy, and afterwards none is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection, connections
from psycopg import sql

from tests.support.seats import close_seats


@contextmanager
def copied_database() -> Iterator[str]:
    """Be in a copy of the test database until the end of the block; its name."""
    settings = connections.settings["default"]
    original = settings["NAME"]
    name = f"{original}_copy"
    connections.close_all()
    with _connect() as server:
        _drop(server, name)
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(original)))
        settings["NAME"] = connection.settings_dict["NAME"] = name
        try:
            yield name
        finally:
            close_seats()
            connections.close_all()
            settings["NAME"] = connection.settings_dict["NAME"] = original
            _drop(server, name)


def _connect() -> psycopg.Connection[tuple[object, ...]]:
    params = connection.get_connection_params()
    params = {key: value for key, value in params.items() if key in {"host", "port", "user", "password"}}
    return psycopg.connect(dbname="postgres", autocommit=True, **params)


def _drop(server: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
