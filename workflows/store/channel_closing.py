"""Telling channels that questions of theirs are over, in the transaction that ends them.

Only a channel with a `close` of its own is told. Where a process has none, every statement and transaction is as it
would be without this module. Invariants owned:

* A channel is told where models write, after the rows are written and before they are committed: what it raises rolls
  the closing back.
* Whoever closes hands over what it has closed itself, so a question is told of by one transaction only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID

from django.db import DatabaseError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.channel import list_closing, tell_channel
from workflows.lifecycle import INTERACTION_CODES
from workflows.store.sql import atomic, compact, fetch, limit_lock_wait, write_plain, write_texts

#: Seconds that a closing of the pump's waits for a row of somebody else.
PATIENCE = 0.5

_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}

#: One row for each channel and way in which its questions have ended.
_SORT = compact("""
    SELECT x.channel, x.status, array_agg(x.id ORDER BY x.unit_id, x.index) FROM unnest(%(ids)s::uuid[]) v(id)
    CROSS JOIN LATERAL (SELECT * FROM holdpoint_interaction o WHERE o.id = v.id OFFSET 0) x
    WHERE x.channel = ANY(%(channels)s::text[]) GROUP BY 1, 2 ORDER BY 1, 2
""")


class CloseFailed(DatabaseError):
    """A deadline cannot fire, because a channel raised when it was told of it."""


def listens(channel: str | None = None) -> bool:
    """Whether this channel, or any, is told of what is closed."""
    channels = list_closing()
    return bool(channels) if channel is None else channel in channels


def tell_closed(db: BaseDatabaseWrapper, ids: Sequence[UUID]) -> None:
    """Tell the channels of these interactions, which this transaction has closed."""
    if not ids or not (channels := list_closing()):
        return
    assert connections[db.alias] is db, "questions of such a channel are closed where models write"
    params = {"ids": write_plain(ids), "channels": write_texts(channels)}
    for channel, status, closed in fetch(db, _SORT, params):
        tell_channel(db.alias, channel, closed, _STATUS_OF[status].value)


@contextmanager
def where_models_write(db: BaseDatabaseWrapper, patience: float = PATIENCE) -> Iterator[BaseDatabaseWrapper]:
    """A transaction on the connection where models write, which may be another one than the pump's own.

    There rows of others are waited for so many seconds (0: as long as it takes), as the pump would.
    """
    writer = connections[db.alias]
    with atomic(writer):
        if writer is not db:
            limit_lock_wait(writer, patience)
        yield writer
