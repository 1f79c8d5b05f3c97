"""Schedules that code declares: made by the first pump that knows them, in the default workspace.

Invariants owned: what somebody has changed or removed at run time stays as they left it, whatever the code says; a
declaration that changes, or goes, is carried out once by each process, so that an older deploy beside a newer one does
not change the same row to and fro. A row that somebody holds is left for later, and delays no other and no tick.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.timezone import get_default_timezone_name
from psycopg import errors

from workflows import store
from workflows.definitions import registry
from workflows.definitions.registry import Definition
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.schedules.schedule_plan import ScheduleWish, plan_schedule
from workflows.values import back_off

logger = logging.getLogger("workflows")

#: Seconds that a row is waited for; and each one where so many were waited for in vain.
PATIENCE = 0.05
MOST_IN_VAIN = 10
LEAST_PATIENCE = 0.001


@dataclass(frozen=True, slots=True)
class _Owed:
    """Declarations whose rows somebody held: when they are tried again, and how often it was in vain."""

    names: frozenset[str]
    until: float
    failures: int

    @property
    def rests(self) -> bool:
        return time.monotonic() < self.until


_NOTHING = _Owed(frozenset(), float("-inf"), 0)

#: By database, what this process has carried out: workflows and their declarations; and what of that it still owes.
_settled: dict[str, tuple[tuple[str, str | None], ...]] = {}
_owed: dict[str, _Owed] = {}


def is_settled(alias: str) -> bool:
    """Whether this process has carried out what its code declares, as far as it changes or goes and can be done now."""
    owed = _owed.get(alias, _NOTHING)
    return _settled.get(alias) == _list_declarations() and (not owed.names or owed.rests)


def rests(alias: str) -> bool:
    """Whether a row that is missing, or is to change, was waited for in vain a moment ago."""
    return _owed.get(alias, _NOTHING).rests


def settle(db: BaseDatabaseWrapper) -> bool:
    """Make schedules that are missing, and carry out, once, what has changed; whether there was anything to do.

    Those that somebody has edited are theirs.
    """
    latest = {one.name: one for one in registry.list_latest()}
    declared = {name: one for name, one in latest.items() if one.schedule is not None}
    declarations = _list_declarations()
    is_first, owed = _settled.get(db.alias) != declarations, _owed.get(db.alias, _NOTHING)
    if not is_first and (owed.rests or not (declared or owed.names)):
        return False
    rows = store.list_declared(db, DEFAULT_WORKSPACE, sorted(declared))
    known = {name: (text, edited, removed) for name, _, text, edited, removed in rows}
    wanted: dict[str, Callable[[], bool]] = {}
    for name, definition in declared.items():
        text, edited, removed = known.get(name, (None, False, False))
        is_due = is_first or name in owed.names
        has_changed = is_due and text is not None and not edited and (removed or text != _write(definition))
        if name not in known or has_changed:
            wanted[name] = partial(_carry_out, db, definition)
    for name, workflow, text, edited, removed in rows:
        is_codes = text is not None and not edited and not removed and workflow in latest
        if is_codes and name not in declared and (is_first or name in owed.names):
            wanted[name] = partial(_withdraw, db, name)
    done = 0
    vain: set[str] = set()
    for name, work in wanted.items():
        has_written = _work_on(db, work, PATIENCE if len(vain) < MOST_IN_VAIN else LEAST_PATIENCE)
        if has_written is None:
            vain.add(name)
        else:
            done += has_written
    _settled[db.alias] = declarations
    _owed.pop(db.alias, None)
    if vain:
        failures = owed.failures + 1
        _owed[db.alias] = _Owed(frozenset(vain), time.monotonic() + back_off.DEADLINE.find_seconds(failures), failures)
        logger.warning("somebody holds rows of declared schedules, and they wait for that: %s", sorted(vain)[:10])
    return is_first or done > 0


def _work_on(db: BaseDatabaseWrapper, work: Callable[[], bool], patience: float) -> bool | None:
    """Carry out a declaration in a transaction; None where somebody holds its row, or has not committed it yet."""
    is_own = not db.in_atomic_block

    def try_it() -> bool:
        if is_own:
            store.limit_lock_wait(db, patience)
        return work()

    try:
        return store.in_transaction(db, try_it)
    except OperationalError as error:
        if not is_own or not isinstance(error.__cause__, errors.LockNotAvailable):
            raise
        return None


def _carry_out(db: BaseDatabaseWrapper, definition: Definition) -> bool:
    workspace, now = store.read_scope(db, DEFAULT_WORKSPACE)
    if workspace is None or definition.schedule is None:
        return False  # the default workspace is made after migrating
    row = store.lock_schedule(db, workspace, definition.name)
    if row is not None and (row.declared is None or row.edited):
        return False
    wish = ScheduleWish(
        definition.name,
        definition.name,
        "{}",
        definition.schedule,
        enabled=row is None or row.enabled,
        declared=_write(definition),
    )
    return store.write_schedule(db, plan_schedule(wish, workspace, now, row), is_new=row is None)


def _withdraw(db: BaseDatabaseWrapper, name: str) -> bool:
    """Its code declares it no longer."""
    workspace, _ = store.read_scope(db, DEFAULT_WORKSPACE)
    row = None if workspace is None else store.lock_schedule(db, workspace, name)
    if row is not None and row.declared is not None and not row.edited and not row.removed:
        store.remove_schedule(db, row, by_code=True)
        logger.info("schedule %r was removed: its workflow declares it no longer", name)
        return True
    return False


def _list_declarations() -> tuple[tuple[str, str | None], ...]:
    return tuple((one.name, _write(one)) for one in registry.list_latest())


def _write(definition: Definition) -> str | None:
    return None if definition.schedule is None else definition.schedule.within(get_default_timezone_name()).write()
