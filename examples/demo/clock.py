"""A past: what happens inside happened some time ago, by the clock that the engine itself asks.

The engine knows the time from two functions of its database. Here they are replaced inside one transaction, moved on
by `workflows.testing.advance`, and put back before it is committed. So every row is written by the public calls at a
moment of its own, and no other connection ever sees a clock that is wrong.

Invariant owned: the functions are as they were when the transaction ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.db import connections, router, transaction

from workflows.models import Instance
from workflows.testing import advance

_MOVE = """
CREATE OR REPLACE FUNCTION {name}() RETURNS timestamptz LANGUAGE sql {kind}
AS 'SELECT {clock}() - interval ''{seconds:.6f} s'' '
"""
#: Name, what PostgreSQL may assume of it, and the clock behind it.
_FUNCTIONS = (
    ("holdpoint_now", "STABLE", "statement_timestamp"),
    ("holdpoint_clock", "VOLATILE", "clock_timestamp"),
)


class Past:
    """How long ago it is."""

    def __init__(self, ago: timedelta) -> None:
        self.ago = ago

    def move_to(self, ago: timedelta) -> None:
        """On to a later moment; what is due now happens first, and what becomes due on the way when it is due."""
        advance(max(self.ago - ago, timedelta()))
        self.ago = min(ago, self.ago)


@contextmanager
def start_ago(ago: timedelta) -> Iterator[Past]:
    """Begin so long ago, in a transaction of its own; at the end it is now."""
    alias = router.db_for_write(Instance)
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        kept = []
        for name, kind, clock in _FUNCTIONS:
            cursor.execute("SELECT pg_get_functiondef(%s::regproc)", [name])
            kept.append(cursor.fetchone()[0])
            cursor.execute(_MOVE.format(name=name, kind=kind, clock=clock, seconds=ago.total_seconds()))
        past = Past(ago)
        yield past
        past.move_to(timedelta())
        for definition in kept:
            cursor.execute(definition)
