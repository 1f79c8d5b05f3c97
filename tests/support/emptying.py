"""Emptying the database after a test that committed, as cheaply as what it left allows.

Lives here: what stands in for the flush of Django's `TransactionTestCase`. A flush truncates every table, each with its
indexes, and makes all content types and permissions anew: a tenth of a second, after a test that left ten rows.
Must not live here: fixtures (`tests/conftest.py`).
Invariant: afterwards every table holds exactly the rows that a migrated database holds, under their ids, and no other
transaction wrote to any of them in the meantime; sequences go on, as after a flush.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.test import TransactionTestCase, testcases

from tests.support.seats import close_seats

#: A table of more bytes is truncated: its rows are many, or were.
SMALL = 1_000_000


@dataclass
class Migrated:
    """What a migrated database holds."""

    tables: list[str] = field(default_factory=list)
    #: Only a superuser may delete from the ledger, and from a table before those that refer to it.
    by_superuser: bool = False
    #: The rows of each table that has any, as COPY writes them, and their digests.
    rows: dict[str, bytes] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


_migrated = Migrated()


def remember_migrated() -> None:
    """Read what a database holds that was just made, and let tests be followed by `empty_database`."""
    db = connections[DEFAULT_DB_ALIAS]
    _migrated.tables = sorted(db.introspection.django_table_names(only_existing=True, include_views=False))
    with db.cursor() as cursor:
        cursor.execute("SHOW is_superuser")
        _migrated.by_superuser = cursor.fetchone() == ("on",)
        _migrated.rows = {table: copy_out(cursor, table) for table, _ in find_filled(cursor, _migrated.tables)}
        _migrated.digests = digest(cursor, list(_migrated.rows))
    TransactionTestCase._fixture_teardown = empty_database  # type: ignore[method-assign]
    # Before a test with `available_apps`, Django makes anew what the flush of the one before it took.
    testcases.emit_post_migrate_signal = lambda **_: None  # type: ignore[attr-defined]


def empty_database(case: Any = None) -> None:
    """Leave what `remember_migrated` found, and nothing else."""
    close_seats()
    db = connections[DEFAULT_DB_ALIAS]
    with transaction.atomic(), db.cursor() as cursor:
        # As TRUNCATE would: whatever a thread or a process of the test still has open is over first.
        cursor.execute(f"LOCK TABLE {', '.join(map(db.ops.quote_name, _migrated.tables))} IN ACCESS EXCLUSIVE MODE")
        digests = digest(cursor, list(_migrated.rows))
        changed = [table for table, told in _migrated.digests.items() if digests[table] != told]
        filled = find_filled(cursor, [table for table in _migrated.tables if table not in _migrated.rows])
        if not changed and not filled:
            pass
        elif _migrated.by_superuser and all(size <= SMALL for _, size in filled):
            # Neither foreign keys nor the triggers of an append-only ledger: all that refers to a row goes with it.
            cursor.execute("SET LOCAL session_replication_role = replica")
            for table in [*changed, *(table for table, _ in filled)]:
                cursor.execute(f"DELETE FROM {db.ops.quote_name(table)}")
            restore(cursor, changed)
        else:
            cursor.execute(f"TRUNCATE {', '.join(map(db.ops.quote_name, _migrated.tables))}")
            restore(cursor, list(_migrated.rows))
    ContentType.objects.clear_cache()


def find_filled(cursor: Any, tables: list[str]) -> list[tuple[str, int]]:
    """Return those that have rows, with their sizes in bytes."""
    quote = cursor.db.ops.quote_name
    cursor.execute(
        " UNION ALL ".join(
            f"SELECT '{table}', pg_relation_size('{quote(table)}') WHERE EXISTS (SELECT 1 FROM {quote(table)})"
            for table in tables
        )
    )
    return [(table, size) for table, size in cursor.fetchall()]


def digest(cursor: Any, tables: list[str]) -> dict[str, str]:
    quote = cursor.db.ops.quote_name
    cursor.execute(
        " UNION ALL ".join(
            f"SELECT '{table}', md5(string_agg(t::text, chr(10) ORDER BY t::text)) FROM {quote(table)} t"
            for table in tables
        )
    )
    return dict(cursor.fetchall())


def restore(cursor: Any, tables: list[str]) -> None:
    for table in tables:
        with cursor.copy(f"COPY {cursor.db.ops.quote_name(table)} FROM STDIN") as copy:
            copy.write(_migrated.rows[table])


def copy_out(cursor: Any, table: str) -> bytes:
    with cursor.copy(f"COPY {cursor.db.ops.quote_name(table)} TO STDOUT") as copy:
        return b"".join(copy)
