"""The horizon of the server: the oldest transaction that still runs, in whichever database.

Lives here: waiting until nobody else holds it back. Tallies and seals take only what is older than the horizon, so a
test that counts or seals what it has just committed waits first.
"""

from __future__ import annotations

import time

from django.db import connection


def wait_for_foreigners(patience: float = 60.0) -> None:
    """Until nothing that is not of this test holds the horizon below what has been committed so far.

    The horizon is the server's: what runs in any database of it holds it back too, as does an autovacuum. Open
    transactions of clients of this database are the test's own, and hold back what they should.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
        [next_xid] = cursor.fetchone()
        until = time.monotonic() + patience
        while True:
            # Within one transaction PostgreSQL would go on showing the activity it showed first.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT datname, backend_type, query FROM pg_stat_activity WHERE backend_xid::text::bigint < %s "
                "AND NOT (datname = current_database() AND backend_type = 'client backend')",
                [next_xid],
            )
            foreign = cursor.fetchall()
            if not foreign:
                return
            assert time.monotonic() < until, f"somebody else's transaction is still open: {foreign}"
            time.sleep(0.01)
