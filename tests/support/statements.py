"""The statements of a call: how many, which, and the plans that PostgreSQL makes for them.

Lives here: counting, listening and explaining. What must not: the statements of one table or one call.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import transaction
from django.test.utils import CaptureQueriesContext

from tests.support.database import db

TRANSACTION = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@contextmanager
def statements(count: int) -> Iterator[None]:
    """Exactly so many statements, not counting what begins and ends transactions."""
    with CaptureQueriesContext(db()) as captured:
        yield
    sent = [one["sql"] for one in captured if not one["sql"].lstrip().upper().startswith(TRANSACTION)]
    assert len(sent) == count, "\n".join(sql[:300] for sql in sent)


def listen(call: Callable[[], object]) -> list[tuple[str, Any]]:
    """The statements a call executes, with their values."""
    heard: list[tuple[str, Any]] = []

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.upper().startswith(TRANSACTION):
            heard.append((sql, params))
        return execute(sql, params, many, context)

    with db().execute_wrapper(wrapper):
        call()
    return heard


MODES = [
    "pump, custom",
    "pump, generic",
    "web, custom",
    "web, generic",
    "pump, planned while new",
    "pump, planned while small",
]


def explain(mode: str, sql: str, params: Any) -> str:
    with transaction.atomic():
        with db().cursor() as cursor:
            cursor.execute(f"SET LOCAL enable_seqscan = {'off' if mode.startswith('pump') else 'on'}")
        raw = psycopg.ClientCursor(db().connection)
        if "generic" not in mode:
            raw.execute(b"EXPLAIN (COSTS OFF) " + raw.mogrify(sql, params).encode())
            return "\n".join(row[0] for row in raw.fetchall())
        numbers: dict[str, int] = {}
        values = dict(params) if isinstance(params, dict) else {str(n): value for n, value in enumerate(params or ())}
        if not isinstance(params, dict):
            places = iter(values)
            sql = re.sub("%s", lambda _: f"%({next(places)})s", sql)
        numbered = re.sub(r"%\((\w+)\)s", lambda at: f"${numbers.setdefault(at[1], len(numbers) + 1)}", sql)
        raw.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        raw.execute("PREPARE planned AS " + numbered.replace("%%", "%"))
        arguments = ", ".join(f"%({name})s" for name in numbers)
        given = raw.mogrify(f"({arguments})", values) if numbers else ""
        raw.execute("EXPLAIN (COSTS OFF) EXECUTE planned" + given)
        plan = "\n".join(row[0] for row in raw.fetchall())
        raw.execute("DEALLOCATE planned")
        return plan


@contextmanager
def exact_statements(count: int, *, wrapping: int = 0) -> Iterator[None]:
    """Exactly so many exact_statements, and so many more that begin or end a transaction."""
    with CaptureQueriesContext(db()) as captured:
        yield
    sent = [one["sql"].lstrip() for one in captured]
    around = [sql for sql in sent if sql.upper().startswith(TRANSACTION)]
    assert (len(sent) - len(around), len(around)) == (count, wrapping), "\n".join(sql[:200] for sql in sent)
