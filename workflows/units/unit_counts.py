"""How far a unit is, from its own row: its counters, and never a count of its items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import router

from workflows.definitions.question import UNIT
from workflows.lifecycle import Status, UnitStatus
from workflows.models import AwaitUnit, Instance


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a unit's items: how many there are, wait for their turn, are asked and not over, and ended in which way."""

    total: int
    queued: int
    in_flight: int
    completed: int
    failed: int
    expired: int
    cancelled: int
    #: Those that the instance waits for; where an answer is continued by steps of its own, until these have ended.
    remaining: int


def count_items(unit: AwaitUnit) -> Counts:
    """The counts of a unit. That of a single question has no counters but its status."""
    is_open = unit.status == UnitStatus.OPEN
    if unit.items:
        completed, failed, expired = unit.answered, unit.failed, unit.expired
    else:
        completed, failed, expired = (
            int(unit.status == status) for status in (UnitStatus.COMPLETED, UnitStatus.FAILED, UnitStatus.EXPIRED)
        )
    left = unit.total - completed - failed - expired
    return Counts(
        total=unit.total,
        queued=unit.queued if is_open else 0,
        in_flight=left - unit.queued if is_open else 0,
        completed=completed,
        failed=failed,
        expired=expired,
        cancelled=0 if is_open else left,
        remaining=unit.remaining if is_open else 0,
    )


def find_progress(instance: Instance) -> tuple[dict[str, Any], datetime | None] | None:
    """What it said last, and when; else how many items of the list it waits for are through.

    A statement of its own, for what waits and said nothing; so this is for pages of one instance, not for lists.
    """
    if instance.progress is not None:
        return instance.progress, instance.progress_at
    if instance.status != Status.AWAITING or not instance.names or not instance.names[0].startswith(UNIT):
        return None
    rows = AwaitUnit.objects.using(instance._state.db or router.db_for_read(AwaitUnit))
    unit = rows.filter(pk=UUID(instance.names[0][len(UNIT) :]), items=True).values_list("total", "remaining").first()
    return None if unit is None else ({"done": unit[0] - unit[1], "total": unit[0], "note": ""}, None)
