"""Schedules that code declares: made by the first pump that knows them, in the default workspace.

Invariants owned: what somebody has changed or removed at run time stays as they left it, whatever the code says; a
declaration that changes, or goes, is carried out once by each process, so that an older deploy beside a newer one does
not change the same row to and fro.
"""

from __future__ import annotations

import logging

from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.timezone import get_default_timezone_name

from workflows import store
from workflows.definitions import registry
from workflows.definitions.registry import Definition
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.schedules.schedule_plan import ScheduleWish, plan_schedule

logger = logging.getLogger("workflows")

#: By database, what this process has carried out: workflows and their declarations.
_settled: dict[str, tuple[tuple[str, str | None], ...]] = {}


def is_settled(alias: str) -> bool:
    """Whether this process has carried out what its code declares, as far as it changes or goes."""
    return _settled.get(alias) == _list_declarations()


def settle(db: BaseDatabaseWrapper) -> bool:
    """Make schedules that are missing, and carry out, once, what has changed; whether there was anything to do.

    Those that somebody has edited are theirs.
    """
    latest = {one.name: one for one in registry.list_latest()}
    declared = {name: one for name, one in latest.items() if one.schedule is not None}
    declarations = _list_declarations()
    is_first = _settled.get(db.alias) != declarations
    if not is_first and not declared:
        return False
    rows = store.list_declared(db, DEFAULT_WORKSPACE, sorted(declared))
    known = {name: (text, edited, removed) for name, _, text, edited, removed in rows}
    done = 0
    for name, definition in declared.items():
        text, edited, removed = known.get(name, (None, False, False))
        has_changed = is_first and text is not None and not edited and (removed or text != _write(definition))
        if name not in known or has_changed:
            done += store.in_transaction(db, lambda one=definition: _carry_out(db, one))  # type: ignore[misc]
    if is_first:
        for name, workflow, text, edited, removed in rows:
            if text is not None and not edited and not removed and workflow in latest and name not in declared:
                store.in_transaction(db, lambda name=name: _withdraw(db, name))  # type: ignore[misc]
        _settled[db.alias] = declarations
    return is_first or done > 0


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


def _withdraw(db: BaseDatabaseWrapper, name: str) -> None:
    """Its code declares it no longer."""
    workspace, _ = store.read_scope(db, DEFAULT_WORKSPACE)
    row = None if workspace is None else store.lock_schedule(db, workspace, name)
    if row is not None and row.declared is not None and not row.edited and not row.removed:
        store.remove_schedule(db, row, by_code=True)
        logger.info("schedule %r was removed: its workflow declares it no longer", name)


def _list_declarations() -> tuple[tuple[str, str | None], ...]:
    return tuple((one.name, _write(one)) for one in registry.list_latest())


def _write(definition: Definition) -> str | None:
    return None if definition.schedule is None else definition.schedule.within(get_default_timezone_name()).write()
