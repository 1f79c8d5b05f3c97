"""Prepared statements that outlive the test that prepared them.

Lives here: what psycopg is told about rollbacks. What must not: fixtures (`tests/conftest.py`).
psycopg forgets every prepared statement when a transaction is rolled back, because a table that was made in it may be
made again. Nearly every test ends with a rollback, so PostgreSQL would parse and plan each statement anew in each test,
which is most of its work. Tests that make tables end them by DROP or ALTER, after which psycopg forgets as before.
Invariant: nothing else of psycopg changes; a connection still prepares a statement after `prepare_threshold` uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg._preparing import PrepareManager

#: Statements that a connection keeps: those of many tests, and not of one site.
MOST = 1_000


def keep_plans() -> None:
    """Let a rollback leave prepared statements alone, on every connection of this process."""
    should_discard, clear = PrepareManager._should_discard, PrepareManager.clear

    def discard(self: PrepareManager, prep: Any, results: Sequence[Any]) -> bool:
        try:
            self.clear = lambda: clear(self)  # type: ignore[method-assign]
            return should_discard(self, prep, [one for one in results if one.command_status != b"ROLLBACK"])
        finally:
            del self.clear

    PrepareManager._should_discard = discard  # type: ignore[method-assign,assignment]
    PrepareManager.clear = lambda _: False  # type: ignore[method-assign]  # psycopg's own rollback calls it too
    PrepareManager.prepared_max = MOST
