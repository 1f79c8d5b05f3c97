"""Rows of the ledger, for tests: instances that make some, sealing them, and an owner of the database who forges them.

Lives here: SQL past the engine, on purpose. What must not: what a verification finds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection, connections, transaction

import workflows
from tests.support.horizon import wait_for_foreigners
from workflows import Await, Done, Workflow, step
from workflows.ledger import seal_ledger
from workflows.models import Instance
from workflows.testing import drain


class Waiter(Workflow):
    name = "ledger.waiter"

    @step
    def ask(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done("there")


def seal_now() -> int:
    return seal_ledger(connections["default"])


def seal() -> int:
    """As `seal_now`, but what runs in the server beside the test does not count."""
    wait_for_foreigners()
    return seal_now()


def execute(sql: str, params: Any = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def no_triggers() -> Iterator[None]:
    """What the owner of the database can do, and what seals are there to find."""
    with transaction.atomic():
        execute("SET LOCAL session_replication_role = replica")
        yield


def live(count: int = 3, workspace: str | None = None) -> list[Instance]:
    """Instances with four rows each: started, parked, signalled, done."""
    made = [workflows.start("ledger.waiter", {"n": n}, workspace=workspace, actor="ann") for n in range(count)]
    drain()
    for one in made:
        workflows.signal(one, "go", {"n": 1}, workspace=workspace, actor="bob")
    drain()
    return made


def fill_pending(count: int) -> None:
    execute(
        """INSERT INTO holdpoint_interaction (id, unit_id, instance_id, created_at, workspace_id, index, version,
          status, owned, channel, signal_id, actor)
        SELECT (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - mod(n, 10) * 86400000), 12, '0')
            || lpad(to_hex(n), 20, '0'))::uuid, gen_random_uuid(), gen_random_uuid(), now(), w.id, 0, 1, 1, false, 'x',
          'signal' || n, '' FROM generate_series(1, %s) n, holdpoint_workspace w""",
        [count],
    )
    execute("ANALYZE holdpoint_interaction")
