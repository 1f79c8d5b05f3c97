"""Operations that change tables while everybody works on them.

Lives here: what migrations of tables with many rows are made of. Must not live here: what is changed. Django leaves out
modules of this package whose names begin with an underscore. Invariants owned:

* No statement reads a table, or waits for somebody, while it keeps others from writing. An index is built beside the
  writers; a lock that does so is asked for briefly and given up again, as often as it takes.
* What takes long is given as long as it takes, whatever limits the role or the database set for everybody.
* What was interrupted can be run again: a half built index is made anew, and one that is there is left.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.contrib.postgres.operations import (
    AddIndexConcurrently,
    NotInTransactionMixin,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import OperationalError, transaction
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations import AddConstraint, RemoveConstraint
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from psycopg import errors

#: Shorter than PostgreSQL's `deadlock_timeout`, so that we are the ones who give up.
LOCK_MILLISECONDS = 500
LOCK_TRIES = 60


class ChangeBriefly(Operation):
    """Do what takes an instant under the locks that it needs, at the end of a transaction.

    Whoever waits for a lock like this holds up everybody who comes after, so it is not waited for: after half a second
    others go on, and it is tried again. What is to be executed is known before, because working it out takes longer.
    """

    reduces_to_sql = True
    reversible = True

    def __init__(self, tables: Sequence[str], operations: Sequence[Operation]) -> None:
        self.tables = tables
        self.operations = operations

    def deconstruct(self) -> Any:
        return self.__class__.__name__, [self.tables, self.operations], {}

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        for operation in self.operations:
            operation.state_forwards(app_label, state)

    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        states = self._list_states(app_label, from_state)
        with schema_editor.connection.schema_editor(collect_sql=True, atomic=False) as collecting:
            for operation, before, after in zip(self.operations, states, states[1:], strict=False):
                operation.database_forwards(app_label, collecting, before, after)
        self._execute(schema_editor, collecting.collected_sql)

    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        states = self._list_states(app_label, to_state)
        steps = list(zip(self.operations, states, states[1:], strict=False))
        with schema_editor.connection.schema_editor(collect_sql=True, atomic=False) as collecting:
            for operation, before, after in reversed(steps):
                operation.database_backwards(app_label, collecting, after, before)
        self._execute(schema_editor, collecting.collected_sql)

    def describe(self) -> str:
        return "; ".join(operation.describe() for operation in self.operations)

    def _list_states(self, app_label: str, state: ProjectState) -> list[ProjectState]:
        states = [state]
        for operation in self.operations:
            states.append(states[-1].clone())
            operation.state_forwards(app_label, states[-1])
        return states

    def _execute(self, schema_editor: BaseDatabaseSchemaEditor, statements: Sequence[str]) -> None:
        # What Django puts off to the end of the migration would be done one by one under the locks.
        put_off = [str(statement) for statement in schema_editor.deferred_sql]
        schema_editor.deferred_sql.clear()
        _lock(schema_editor, self.tables)
        schema_editor.execute("\n".join(f"{one.strip().rstrip(';')};" for one in (*put_off, *statements)), params=None)


def _lock(schema_editor: BaseDatabaseSchemaEditor, tables: Sequence[str]) -> None:
    for left in range(LOCK_TRIES - 1, -1, -1):
        try:
            with transaction.atomic(using=schema_editor.connection.alias):
                schema_editor.execute(f"SET LOCAL lock_timeout = {LOCK_MILLISECONDS}", params=None)
                for table in tables:
                    schema_editor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE", params=None)
            return
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable | errors.DeadlockDetected) or not left:
                raise
            time.sleep(random.uniform(0.5, 1.5))


#: One that waits for old transactions, or reads a large table, would never come to its end within these.
_LIMITS = ["lock_timeout", "statement_timeout", "transaction_timeout"]
_READ_LIMITS = """
    SELECT v.name, current_setting(v.name, true) FROM unnest(%s::text[]) v(name)
    WHERE current_setting(v.name, true) IS NOT NULL
"""


def _unhurried(change: Callable[..., None]) -> Callable[..., None]:
    """Let a change of an operation take its time, and leave the session's limits as they were."""

    @wraps(change)
    def take_time(operation: Any, app_label: str, schema_editor: BaseDatabaseSchemaEditor, *states: Any) -> None:
        if schema_editor.collect_sql:
            change(operation, app_label, schema_editor, *states)
            return
        with schema_editor.connection.cursor() as cursor:
            cursor.execute(_READ_LIMITS, [_LIMITS])
            limits = cursor.fetchall()
            for name, _ in limits:
                cursor.execute("SELECT set_config(%s, '0', false)", [name])
        try:
            change(operation, app_label, schema_editor, *states)
        finally:
            if schema_editor.connection.is_usable():
                with schema_editor.connection.cursor() as cursor:
                    for name, value in limits:
                        cursor.execute("SELECT set_config(%s, %s, false)", [name, value])

    return take_time


class ValidateOnline(ValidateConstraint):
    """Read all rows for a constraint that holds for new ones already; everybody goes on meanwhile."""

    database_forwards = _unhurried(ValidateConstraint.database_forwards)


class AddIndexOnline(AddIndexConcurrently):
    """Build an index beside the writers; one that was left half built is built anew."""

    @_unhurried
    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        if not _is_built(schema_editor, self.index.name):
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    database_backwards = _unhurried(AddIndexConcurrently.database_backwards)


class RemoveIndexOnline(RemoveIndexConcurrently):
    """Remove an index when its readers have ended; taken back, it is built beside the writers."""

    database_forwards = _unhurried(RemoveIndexConcurrently.database_forwards)

    @_unhurried
    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        if not _is_built(schema_editor, self.name):
            super().database_backwards(app_label, schema_editor, from_state, to_state)


class AddUniqueOnline(NotInTransactionMixin, AddConstraint):
    """Build a unique constraint with a condition, which PostgreSQL knows as an index, beside the writers."""

    @_unhurried
    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        _add_unique(self, schema_editor, model, self.constraint)

    @_unhurried
    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        _remove_unique(self, schema_editor, model, self.constraint.name)


class RemoveUniqueOnline(NotInTransactionMixin, RemoveConstraint):
    """Remove such a constraint when its readers have ended; taken back, it is built beside the writers."""

    @_unhurried
    def database_forwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        _remove_unique(self, schema_editor, model, self.name)

    @_unhurried
    def database_backwards(
        self, app_label: str, schema_editor: BaseDatabaseSchemaEditor, from_state: Any, to_state: Any
    ) -> None:
        self._ensure_not_in_transaction(schema_editor)
        model = to_state.apps.get_model(app_label, self.model_name)
        constraint = to_state.models[app_label, self.model_name_lower].get_constraint_by_name(self.name)
        _add_unique(self, schema_editor, model, constraint)


def _add_unique(operation: Operation, schema_editor: BaseDatabaseSchemaEditor, model: Any, constraint: Any) -> None:
    if not operation.allow_migrate_model(schema_editor.connection.alias, model):
        return
    if not _is_built(schema_editor, constraint.name):
        sql = str(constraint.create_sql(model, schema_editor))
        schema_editor.execute(sql.replace("CREATE UNIQUE INDEX", "CREATE UNIQUE INDEX CONCURRENTLY", 1))


def _remove_unique(operation: Operation, schema_editor: BaseDatabaseSchemaEditor, model: Any, name: str) -> None:
    if operation.allow_migrate_model(schema_editor.connection.alias, model):
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(name)}")


def _is_built(schema_editor: BaseDatabaseSchemaEditor, name: str) -> bool:
    """Whether an index is there and whole; the rest of one whose building was interrupted is removed."""
    if schema_editor.collect_sql:
        return False
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT x.indisvalid FROM pg_index x WHERE x.indexrelid = to_regclass(%s)", [name])
        found = cursor.fetchone()
    if found == (False,):
        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(name)}")
    return bool(found == (True,))
