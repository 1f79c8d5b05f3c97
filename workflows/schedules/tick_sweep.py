"""Firing schedules: what is due is started by any pump, many at once, each tick at most once.

Invariants owned: the row of a tick, its instance and the schedule's next tick are one transaction, so nothing that dies
in between is seen. A schedule that cannot be carried out says why in its row and keeps none of the others, whatever its
author's code has done to the transaction. One whose last instance somebody holds is carried out when that is free.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from workflows import store
from workflows.definitions import registry
from workflows.definitions.sweeps import may_go_on
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.engine.planning import plan_instance
from workflows.exceptions import describe_error, to_one_line
from workflows.exceptions.trouble import is_dead, is_passing
from workflows.models import Instance
from workflows.schedules import declared_schedules
from workflows.schedules.schedule_plan import ACTOR, list_ticks_to_fire, read_row_options
from workflows.store import MovedSchedule, NewInstance, NewTick, ScheduleRow, TickPlace
from workflows.values import back_off

logger = logging.getLogger("workflows")

#: Schedules of one transaction, and instances (which are more where missed ticks are made up for).
BATCH = 500
MOST_INSTANCES = 5_000
#: Bytes of the inputs of these instances, of which several copies are made on their way.
MOST_BYTES = 8 * 1024 * 1024
#: A schedule whose next tick cannot be found, such as in a zone that is not known here, is looked at again after this.
LOOK_AGAIN = timedelta(minutes=5)
LONGEST_ERROR = 2_000
#: Seconds that a schedule waits for rows of its last instance's tree, and how many may wait in vain in one round.
PATIENCE = 0.05
MOST_IN_VAIN = 10
CANCELLED = "its schedule has started the next one"


#: Schedules whose last instance somebody holds: when they are tried again, and how often it was in vain.
_resting: dict[int, tuple[float, int]] = {}


@dataclass(slots=True)
class _Firing:
    """What one transaction writes."""

    ticks: list[NewTick] = field(default_factory=list)
    moved: list[MovedSchedule] = field(default_factory=list)
    starts: list[tuple[NewTick, NewInstance, TickPlace]] = field(default_factory=list)
    #: Of their inputs, in characters.
    size: int = 0
    #: Schedules whose last instance is to be cancelled first: each in a transaction of its own.
    postponed: list[int] = field(default_factory=list)


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Seconds until a schedule is due, or is to be made because code declares it."""
    latest = registry.list_latest()
    declared = [one.name for one in latest if one.schedule is not None]
    if not declared_schedules.is_settled(db.alias):
        return 0.0
    seconds, count = store.seconds_to_tick(db, [one.name for one in latest], declared, DEFAULT_WORKSPACE)
    return 0.0 if count < len(declared) and not declared_schedules.rests(db.alias) else seconds


def work() -> int:
    """Carry out some of what is due; how much was done."""
    db = connections[router.db_for_write(Instance)]
    if declared_schedules.settle(db):
        return 1  # once more: what is due is another matter
    try:
        fired, postponed = store.in_transaction(db, lambda: _fire(db))
    except _Spoilt:
        fired, postponed = store.in_transaction(db, lambda: _fire(db, apart=True))
    vain = 0
    for id in postponed:
        if not may_go_on() or vain == MOST_IN_VAIN:
            break
        alone = _fire_alone(db, id)
        fired += alone or 0
        vain += alone is None
    return fired


def _fire_alone(db: BaseDatabaseWrapper, id: int) -> int | None:
    """Carry out a schedule whose last instance is cancelled first; None where that meets trouble: a held row."""

    def fire() -> int:
        if is_own:
            store.limit_lock_wait(db, PATIENCE)
        return _fire(db, only=id, apart=True)[0]

    is_own = not db.in_atomic_block
    try:
        fired = store.in_transaction(db, fire)
    except DatabaseError as error:
        if is_dead(db) or not is_own:
            raise
        failures = _resting.get(id, (0.0, 0))[1] + 1
        _resting[id] = time.monotonic() + back_off.DEADLINE.find_seconds(failures), failures
        logger.warning("schedule %d cannot cancel what it has started last, and tries again: %s", id, error)
        return None
    _resting.pop(id, None)
    return fired


def _fire(db: BaseDatabaseWrapper, only: int | None = None, *, apart: bool = False) -> tuple[int, list[int]]:
    """Carry out what is due of a batch, or of one schedule; how many, and which have to be dealt with by themselves.

    Each `apart`: behind a savepoint, which is what costs. Without, an author's query that fails is `_Spoilt`.
    """
    skip = [] if only is not None else [id for id, (until, _) in list(_resting.items()) if until > time.monotonic()]
    names = [one.name for one in registry.list_latest()]
    now, rows = store.lock_due_schedules(db, names, BATCH, MOST_BYTES, only=only, skip=skip)
    busy, firing = store.find_busy(db, rows), _Firing()
    for row in rows:
        is_full = len(firing.starts) >= MOST_INSTANCES or firing.size + len(row.input) > MOST_BYTES
        if firing.starts and is_full:
            break  # the others are as due for the next batch
        if row.overlap == "cancel" and row.id in busy and only is None:
            firing.postponed.append(row.id)
        else:
            _plan(db, row, now, row.id in busy, firing, apart=apart)
    if firing.moved:
        written = store.write_ticks(db, firing.ticks) if firing.ticks else set()
        starts = [one for one in firing.starts if (one[0].schedule, one[0].at) in written]
        if starts:
            store.insert_ticked(db, [new for _, new, _ in starts], [place for *_, place in starts])
        store.move_schedules(db, _without_unwritten(firing.moved, {new.id for _, new, _ in starts}))
    return len(firing.moved), firing.postponed


def _without_unwritten(moved: Sequence[MovedSchedule], started: set[object]) -> list[MovedSchedule]:
    """What a schedule started last is something that was started now."""
    return [
        one
        if one.last_instance is None or one.last_instance in started
        else MovedSchedule(one.id, one.next_at, one.last_at, None, one.error)
        for one in moved
    ]


def _plan(
    db: BaseDatabaseWrapper, row: ScheduleRow, now: datetime, is_busy: bool, firing: _Firing, *, apart: bool
) -> None:
    try:
        options = read_row_options(row)
        due = list_ticks_to_fire(row, options, now)
        next_at = options.timetable.find_next(now, row.anchor_at)
    except Exception as error:  # an author's row must not keep the others
        logger.exception("the next tick of schedule %r cannot be found", row.name)
        firing.moved.append(MovedSchedule(row.id, now + LOOK_AGAIN, None, None, _tell(error)))
        return
    starting = _choose(row, due, is_busy)
    if len(starting) > (most := max(1, (MOST_BYTES - firing.size) // len(row.input))):
        due, next_at = due[:most], due[most]  # the rest is as due for the next transaction
        starting = due
    planned, problem = _plan_starts(db, row, starting, apart=apart, cancels=is_busy and row.overlap == "cancel")
    firing.size += len(planned) * len(row.input)
    last: NewInstance | None = None
    for at in due:
        if (new := planned.get(at)) is not None:
            last, tick = new, NewTick(row.id, at, "started", new.id)
            firing.starts.append((tick, new, TickPlace(row.workspace, f"{ACTOR}{row.name}", at)))
        else:
            tick = NewTick(row.id, at, "refused" if at in starting else "skipped", None)
        firing.ticks.append(tick)
    last_at = due[-1] if due else None
    firing.moved.append(MovedSchedule(row.id, next_at, last_at, None if last is None else last.id, problem))


def _plan_starts(
    db: BaseDatabaseWrapper, row: ScheduleRow, starting: Sequence[datetime], *, apart: bool, cancels: bool
) -> tuple[dict[datetime, NewInstance], str | None]:
    """What is started by the ticks, or why nothing is. The last instance is cancelled only where another begins."""
    planned: dict[datetime, NewInstance] = {}
    try:
        with transaction.atomic(using=db.alias) if apart and starting else nullcontext():
            definition, input = registry.resolve(row.workflow), json.loads(row.input)
            what = f"the input of schedule {row.name!r}"
            planned = {at: plan_instance(definition, input, None, what) for at in starting}
            if cancels and planned:
                store.cancel_tree(db, row.last_instance, None, reason=CANCELLED, actor=f"{ACTOR}{row.name}")
    except Exception as refused:
        # What the author's statements meet is the author's, what cancelling meets in passing is the engine's.
        if is_dead(db) or (planned and is_passing(refused)):
            raise
        if _is_spoilt(db):
            raise _Spoilt from refused
        logger.warning("schedule %r cannot start %r: %s", row.name, row.workflow, to_one_line(_tell(refused)))
        return {}, _tell(refused)
    if _is_spoilt(db):  # his code has met an error, and kept it to itself
        raise _Spoilt
    return planned, None


def _is_spoilt(db: BaseDatabaseWrapper) -> bool:
    """Whether the transaction takes no more statements: asked of the driver, which costs none."""
    raw: Any = db.connection
    return db.needs_rollback or raw.info.transaction_status == TransactionStatus.INERROR


class _Spoilt(Exception):
    """The code of one schedule's author has spoilt the transaction of all."""


def _choose(row: ScheduleRow, due: Sequence[datetime], is_busy: bool) -> Sequence[datetime]:
    """The ticks that start something. Where one would skip, or cancel, what another has just started, it is one."""
    if row.overlap == "skip":
        return () if is_busy else due[:1]
    return due[-1:] if row.overlap == "cancel" else due


def _tell(error: Exception) -> str:
    return describe_error(error)[:LONGEST_ERROR]
