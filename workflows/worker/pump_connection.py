"""The engine's own connection beside the author's.

Lives here: how it is made. Must not live here: what is done on it. Invariant owned: its statements find the settings
that they are written for, whatever the role, the database or the server prefer.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import Format

from workflows import store
from workflows.backend.vanished import limit_silence
from workflows.worker.silent_connections import Lookout

#: libpq waits without end for a server that accepts and says nothing.
CONNECT_SECONDS = 10
#: How long a batch waits for a row that a caller's transaction holds, before the others are committed without it.
LOCK_TIMEOUT_MS = 500
#: What every statement of the store is written for; a role, a database or a server may have other defaults.
_OWN_SETTINGS = {
    "enable_seqscan": "off",
    "jit": "off",
    # Its statements are few and come again and again. Left to itself PostgreSQL plans the commit of a batch anew at
    # every call, in every other session or so: which of them depends on what the first five looked like.
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}
#: Those that this version of the server knows.
_SET = """
    SELECT set_config(v.name, v.value, false) FROM unnest(%(names)s::text[], %(values)s::text[]) v(name, value)
    WHERE current_setting(v.name, true) IS NOT NULL
"""


def close_authors_connections() -> None:
    """After a restart of the server, the step that met a dead connection would be failed by it."""
    for db in connections.all(initialized_only=True):
        if not db.in_atomic_block:
            db.close()


def connect(alias: str, lookout: Lookout | None = None) -> BaseDatabaseWrapper:
    """A connection of our own beside the author's, with prepared statements and index plans."""
    db = connections.create_connection(alias)
    options = {**db.settings_dict.get("OPTIONS", {}), "server_side_binding": True, "prepare_threshold": 1}
    options.pop("pool", None)
    options.pop("isolation_level", None)
    options.setdefault("connect_timeout", CONNECT_SECONDS)
    db.settings_dict = {**db.settings_dict, "OPTIONS": options, "CONN_MAX_AGE": None, "AUTOCOMMIT": True}
    # With DEBUG Django would format and remember every statement of a loop that never ends.
    db.make_debug_cursor = db.make_cursor  # type: ignore[method-assign,assignment]
    try:
        db.ensure_connection()
        if lookout is not None:
            lookout.watch(db)
        _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: BaseDatabaseWrapper) -> None:
    with db.wrap_database_errors:
        limit_silence(db.connection, db.settings_dict["OPTIONS"])  # whatever engine of Django's the project uses
    _read_moments_quickly(db)
    settings = {**_OWN_SETTINGS, "lock_timeout": f"{LOCK_TIMEOUT_MS}ms"}
    store.fetch(db, _SET, {"names": list(settings), "values": list(settings.values())})


def _read_moments_quickly(db: BaseDatabaseWrapper) -> None:
    """Every claim carries a moment, and Django's reader takes ten times as long as Python's own for it.

    In other zones than UTC Django's stays: an hour comes twice there, and the offset alone does not say which it is.
    """
    if db.timezone_name != "UTC":
        return
    adapters: Any = db.connection.adapters
    djangos: Any = adapters.get_loader(adapters.types["timestamptz"].oid, Format.TEXT)

    class QuickLoader(djangos):  # type: ignore[misc]
        def load(self, data: Any) -> datetime:
            try:
                moment = datetime.fromisoformat(bytes(data).decode())
            except ValueError:
                return djangos.load(self, data)  # type: ignore[no-any-return]
            return moment if moment.tzinfo is self.timezone else moment.replace(tzinfo=self.timezone)

    adapters.register_loader("timestamptz", QuickLoader)
