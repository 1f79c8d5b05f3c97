"""The engine's clock, as a test wants it: stopped for a while, or moving with every reading.

Lives here: what stands in for the two functions of the database that the engine asks for the time, and heartbeats that
no slow machine makes silent. What must not: moving it on, which `workflows.testing.advance` does.
Invariant: afterwards the functions are what they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection

from workflows import store

KINDS = {"holdpoint_now": "STABLE", "holdpoint_clock": "VOLATILE"}
READING = timedelta(seconds=1)


@contextmanager
def stopped_clock() -> Iterator[datetime]:
    """For every connection it is one moment all the time, however long the machine takes for what is done in it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        [moment] = cursor.fetchone()
    with _replaced(dict.fromkeys(KINDS, f"timestamptz '{moment.isoformat()}'")):
        yield moment


@contextmanager
def moving_clock(ago: timedelta) -> Iterator[None]:
    """With every reading a second passes, from so long ago: no two readings give the same moment."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY SEQUENCE IF NOT EXISTS readings")
        cursor.execute("SELECT clock_timestamp()")
        [moment] = cursor.fetchone()
    reading = f"nextval('readings') * interval '{READING.total_seconds()} s'"
    with _replaced({"holdpoint_clock": f"timestamptz '{(moment - ago).isoformat()}' + {reading}"}):
        yield


def beat_for_long(name: str, kind: str, holder: str, *, silence: float = 3.0) -> None:
    """A heartbeat that is not silent for an hour to whoever lists the living."""
    assert store.beat(connection, name, kind, holder, silence=silence)  # type: ignore[arg-type]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_worker SET beat_at = beat_at + interval '1 h' WHERE name = %s", [name])


@contextmanager
def _replaced(bodies: dict[str, str]) -> Iterator[None]:
    with connection.cursor() as cursor:
        kept = []
        for name, body in bodies.items():
            cursor.execute("SELECT pg_get_functiondef(%s::regproc)", [name])
            kept.append(cursor.fetchone()[0])
            head = f"CREATE OR REPLACE FUNCTION {name}() RETURNS timestamptz LANGUAGE sql {KINDS[name]}"
            cursor.execute(f"{head} AS $$ SELECT {body} $$")
        try:
            yield
        finally:
            for definition in kept:
                cursor.execute(definition)
