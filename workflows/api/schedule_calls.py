"""Schedules for other Django code: made, changed, switched on and off, removed, run now.

Lives here: the public calls, and the checks of what callers pass. Must not live here: firing (`workflows.schedules`).
Invariants owned: a schedule that is stored can be carried out (its times come, its workflow takes its input); and every
call takes part in the caller's own transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.timezone import get_default_timezone_name

from workflows import store
from workflows.api.arguments import read_actor
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.workspace import current_workspace
from workflows.engine.planning import plan_instance
from workflows.exceptions import (
    DuplicateSchedule,
    InvalidCall,
    InvalidSchedule,
    ScheduleBusy,
    UnknownSchedule,
    UnknownWorkspace,
    WorkspaceFull,
    show,
)
from workflows.models import Instance, Schedule
from workflows.schedules.schedule_plan import (
    ACTOR,
    ScheduleWish,
    list_ticks_to_come,
    plan_schedule,
    read_row_options,
)
from workflows.store import MovedSchedule, NewTick, ScheduleRow, TickPlace
from workflows.values.json_text import check_text, dump_value
from workflows.values.schedule_options import (
    DEFAULT_CATCH_UP,
    DEFAULT_OVERLAP,
    CatchUp,
    Overlap,
    ScheduleOptions,
    read_options,
    show_catch_up,
)
from workflows.values.types_of_signatures import Duration

#: An address ends with this; a name that did as well would have none.
RUN = "/run"
#: What can be changed of a schedule.
FIELDS = ("workflow", "cron", "every", "tz", "input", "overlap", "catch_up", "enabled")
CANCELLED = "its schedule was run anew"


def schedule(
    name: str,
    workflow: Any,
    *,
    cron: str | None = None,
    every: Duration | None = None,
    tz: str | None = None,
    input: Any = None,
    overlap: Overlap = "skip",
    catch_up: CatchUp = "last",
    workspace: str | None = None,
) -> Schedule:
    """Start an instance at every tick of a timetable, from now on; one of this name is changed.

    The same call again changes nothing, and moves no tick.

    >>> schedule("reports", "Report", cron="0 9 * * 1-5", tz="Europe/Berlin").overlap
    'skip'
    """
    options = read_options(cron, every, tz, overlap, catch_up)
    named, target = check_name(name), registry.resolve(workflow).name
    return _write(named, workspace, lambda row: _wish(named, target, input, options, row), is_new=None)


def create_schedule(name: str, fields: Mapping[str, Any], *, workspace: str | None = None) -> Schedule:
    """Make a schedule of its fields; `DuplicateSchedule` if there is one of this name.

    >>> create_schedule("reports", {"workflow": "Report", "every": "1h"}).enabled
    True
    """
    named = check_name(name)
    options = _read_fields(fields)
    target = registry.resolve(fields.get("workflow")).name
    enabled = _read_enabled(fields.get("enabled", True))
    wish = lambda row: _wish(named, target, fields.get("input"), options, row, enabled)  # noqa: E731
    return _write(named, workspace, wish, is_new=True)


def change_schedule(name: str, fields: Mapping[str, Any], *, workspace: str | None = None) -> Schedule:
    """Change some fields of a schedule. A new `cron` takes the place of `every`, and the other way round.

    >>> change_schedule("reports", {"cron": "0 10 * * 1-5"}).cron
    '0 10 * * 1-5'
    """
    if unknown := fields.keys() - set(FIELDS):
        raise InvalidSchedule(f"it has no {', '.join(sorted(unknown))}: what can be changed is {', '.join(FIELDS)}")

    def wish(row: ScheduleRow | None) -> ScheduleWish:
        assert row is not None
        merged = _merge(row, fields)
        target = registry.resolve(merged["workflow"]).name
        enabled = _read_enabled(merged["enabled"])
        return _wish(row.name, target, merged["input"], _read_fields(merged), row, enabled)

    return _write(name, workspace, wish, is_new=False)


def check_schedule(fields: Mapping[str, Any]) -> None:
    """Refuse fields of which no schedule could be made.

    >>> check_schedule({"workflow": "Report", "every": "1h"})
    """
    options = _read_fields(fields)
    _wish("", registry.resolve(fields.get("workflow")).name, fields.get("input"), options, None)


def unschedule(name: str, *, workspace: str | None = None) -> None:
    """Remove a schedule; what it has started goes on. One that code declares is not made again by that.

    >>> unschedule("reports")
    """
    db = _db()

    def remove() -> None:
        _, row = _hold(db, name, workspace)
        store.remove_schedule(db, row)

    store.in_transaction(db, remove)


def enable_schedule(name: str, *, workspace: str | None = None) -> Schedule:
    """Switch a schedule on: it goes on with the next tick. Those that it had meanwhile are not missed.

    >>> enable_schedule("reports").enabled
    True
    """
    return _switch(name, workspace, enabled=True)


def disable_schedule(name: str, *, workspace: str | None = None) -> Schedule:
    """Switch a schedule off: it has no tick until it is switched on. What it has started goes on.

    >>> disable_schedule("reports").enabled
    False
    """
    return _switch(name, workspace, enabled=False)


def run_schedule(name: str, *, workspace: str | None = None, actor: object = "") -> Instance:
    """Start an instance of a schedule now, beside its ticks; `overlap` holds as for a tick.

    >>> run_schedule("reports", actor=request.user).workflow
    'Report'
    """
    db, by = _db(), read_actor(actor)

    def run() -> UUID:
        now, row = _hold(db, name, workspace)
        is_busy = bool(store.find_busy(db, [row]))
        if is_busy and row.overlap == "skip":
            raise ScheduleBusy(row.name, row.last_instance)
        if is_busy:
            store.cancel_tree(db, row.last_instance, None, reason=CANCELLED, actor=by or f"{ACTOR}{row.name}")
        new = plan_instance(registry.resolve(row.workflow), json.loads(row.input), None, "the input of the schedule")
        at = now
        while not store.write_ticks(db, [NewTick(row.id, at, "started", new.id)]):
            at += timedelta(microseconds=1)  # at that very moment there was another tick
        store.insert_ticked(db, [new], [TickPlace(row.workspace, by or f"{ACTOR}{row.name}", at)])
        store.move_schedules(db, [MovedSchedule(row.id, row.next_at, None, new.id, None)])
        return new.id

    found: Instance = Instance.objects.using(db.alias).get(pk=store.in_transaction(db, run))
    return found


def list_next_ticks(name: str, count: int = 5, *, workspace: str | None = None) -> list[datetime]:
    """The next ticks of a schedule, in UTC; of one that is switched off those that it would have.

    >>> [tick.hour for tick in list_next_ticks("reports", 2)]
    [9, 9]
    """
    db = _db()

    def read() -> list[datetime]:
        now, row = _hold(db, name, workspace)
        return list_ticks_to_come(row, now, count)

    return store.in_transaction(db, read)


def find_schedule(name: str, *, workspace: str | None = None) -> Schedule:
    """The schedule of this name; `UnknownSchedule` if there is none.

    >>> find_schedule("reports").workflow
    'Report'
    """
    named = current_workspace(workspace)
    where = {"workspace_id": named} if isinstance(named, int) else {"workspace__slug": named}
    rows = Schedule.objects.using(_db().alias).filter(name=name, **where)
    found: Schedule | None = None if "\0" in str(name) else rows.first()
    if found is None:
        raise UnknownSchedule(name)
    return found


def check_name(name: object) -> str:
    """A name that a schedule can have: one that an address can carry, which knows no lines, and goes up at dots."""
    named = check_text(name, "a schedule's name")
    if "\n" in named or {".", ".."} & set(named.split("/")):
        raise InvalidSchedule(f"its name {show(name)} has a line break, or a part that is only dots: name it otherwise")
    if named.endswith(RUN) or named.strip() != named:
        raise InvalidSchedule(
            f"its name {show(name)} begins or ends with a blank, or ends with {RUN!r}: name it otherwise"
        )
    return named


def _write(name: str, workspace: str | None, wish: Any, *, is_new: bool | None) -> Schedule:
    """Write what is made of the row that is there: of a new one only, of an old one only, or of either."""
    db = _db()

    def write() -> None:
        scope, now = _read_scope(db, workspace)
        row = store.lock_schedule(db, scope, name)
        is_there = row is not None and not row.removed
        if is_new is True and is_there:
            raise DuplicateSchedule(name)
        if is_new is False and not is_there:
            raise UnknownSchedule(name)
        if not is_there and store.count_schedules(db, scope, conf.max_schedules) >= conf.max_schedules:
            raise WorkspaceFull("schedules", conf.max_schedules, "MAX_SCHEDULES")
        written = store.write_schedule(
            db, plan_schedule(wish(row), scope, now, row), is_new=is_new is True and row is None
        )
        if not written:
            raise DuplicateSchedule(name)  # somebody has made it at the same moment

    store.in_transaction(db, write)
    return find_schedule(name, workspace=workspace)


def _wish(
    name: str,
    workflow: str,
    input: Any,
    options: ScheduleOptions,
    row: ScheduleRow | None,
    enabled: bool | None = None,
) -> ScheduleWish:
    """Checked: the workflow takes the input."""
    definition = registry.resolve(workflow)
    value = {} if input is None else input
    plan_instance(definition, value, None, "the input of the schedule")
    text = dump_value(value, "the input of the schedule", conf.max_body)
    is_there = row is not None and not row.removed
    on = enabled if enabled is not None else row.enabled if row is not None and is_there else True
    if row is None or row.declared is None:
        return ScheduleWish(name, workflow, text, options, on)
    edited = row.edited or row.removed or _differs(row, workflow, text, options)
    return ScheduleWish(name, workflow, text, options, on, row.declared, edited)


def _differs(row: ScheduleRow, workflow: str, input: str, options: ScheduleOptions) -> bool:
    """Whether it is another schedule than the row has; one that is only switched on or off is the same."""
    known = (row.workflow, json.loads(row.input), read_row_options(row))
    return known != (workflow, json.loads(input), options.within(get_default_timezone_name()))


def _merge(row: ScheduleRow, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a row with those that are to be changed."""
    merged: dict[str, Any] = {
        "workflow": row.workflow,
        "cron": row.cron,
        "every": row.every,
        "tz": None if row.every is not None else row.tz,
        "input": json.loads(row.input),
        "overlap": row.overlap,
        "catch_up": show_catch_up(row.catch_up),
        "enabled": row.enabled,
    }
    if fields.get("cron") is not None:
        merged["every"] = None
    elif fields.get("every") is not None:
        merged |= {"cron": None, "tz": None}
    return {**merged, **fields}


def _read_fields(fields: Mapping[str, Any]) -> ScheduleOptions:
    return read_options(
        fields.get("cron"),
        fields.get("every"),
        fields.get("tz"),
        fields.get("overlap", DEFAULT_OVERLAP),
        fields.get("catch_up", DEFAULT_CATCH_UP),
    )


def _read_enabled(enabled: object) -> bool:
    if not isinstance(enabled, bool):
        raise InvalidCall(f"enabled is True or False, not {show(enabled)}")
    return enabled


def _switch(name: str, workspace: str | None, *, enabled: bool) -> Schedule:
    db = _db()

    def switch() -> None:
        now, row = _hold(db, name, workspace)
        if row.enabled != enabled:
            next_at = read_row_options(row).timetable.find_next(now, row.anchor_at) if enabled else None
            store.switch_schedule(db, row.id, next_at)

    store.in_transaction(db, switch)
    return find_schedule(name, workspace=workspace)


def _hold(db: BaseDatabaseWrapper, name: str, workspace: str | None) -> tuple[datetime, ScheduleRow]:
    """The database's moment, and the schedule of this name, held."""
    scope, now = _read_scope(db, workspace)
    row = None if "\0" in str(name) else store.lock_schedule(db, scope, str(name))
    if row is None or row.removed:
        raise UnknownSchedule(name)
    return now, row


def _read_scope(db: BaseDatabaseWrapper, workspace: str | None) -> tuple[int, datetime]:
    named = current_workspace(workspace)
    scope, now = store.read_scope(db, named)
    if scope is None:
        raise UnknownWorkspace(named)
    return scope, now


def _db() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(Instance)]
