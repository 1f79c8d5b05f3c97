"""All rows of all tables as text, to find a secret that was stored somewhere."""

from __future__ import annotations

from django.db import connection


def dump_tables() -> str:
    """Every row of every table, as text."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")
        tables = [name for (name,) in cursor.fetchall()]
        lines = []
        for table in tables:
            cursor.execute(f'SELECT row_to_json(t)::text FROM "{table}" t')
            lines += [f"{table} {line}" for (line,) in cursor.fetchall()]
    return "\n".join(lines)
