"""Django's own engine for PostgreSQL, whose look whether a kept connection still lives sends nothing.

Lives here: that look, and that the server is told to give up a client whose machine vanished (`vanished`).
`CONN_HEALTH_CHECKS` makes Django ask `SELECT 1` before the first statement of each request, which costs a call with a
key a third of its round trips. A connection that has ended tells so by itself: an idle one has nothing to read, and
one that the server, a pooler or the kernel (keepalives) has closed has. Invariant owned: a connection counts as usable
without being asked only while it is idle, whole and silent; in any other state Django asks.
"""

from __future__ import annotations

import select
from typing import Any

from django.db.backends.postgresql import base
from psycopg.pq import ConnStatus, TransactionStatus

from workflows.backend.vanished import limit_silence


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    def init_connection_state(self) -> None:
        """A new connection: as Django sets it up, with limits for both of its sides."""
        super().init_connection_state()
        if self.connection is not None and not self.pool:
            with self.wrap_database_errors:
                limit_silence(self.connection, self.settings_dict["OPTIONS"])
            if not self.get_autocommit():
                self.connection.commit()

    def is_usable(self) -> bool:
        """Whether it still lives."""
        if self.connection is not None and not self.errors_occurred and _is_silent(self.connection):
            return True
        return bool(super().is_usable())


def _is_silent(connection: Any) -> bool:
    pgconn = connection.pgconn
    if pgconn.status != ConnStatus.OK or pgconn.transaction_status != TransactionStatus.IDLE:
        return False
    looked = select.poll()  # select() knows no socket above 1023
    looked.register(pgconn.socket, select.POLLIN)
    return not looked.poll(0)
