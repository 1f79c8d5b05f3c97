"""Folding: what an instance's row must be, read from its events alone.

Lives here: `fold`, and its comparison with the rows of one instance or of all. Invariant owned: nothing but the
ledger's columns goes into a fold, and every column of the row that the ledger claims to tell is compared. What
was redacted is unknown from then on: it is left out of the comparison until a later event tells it anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db import connections
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from psycopg.pq import TransactionStatus

from workflows.lifecycle import Event, InteractionStatus
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal

SETTING_NAMES = {"advanced", "done", "spawned", "parked", "suspended"}
#: What a redaction takes away, by the kind of the row that it empties.
TOLD_BY_DATA = {
    "parked": "names",
    "suspended": "names",
    "spawned": "pending",
    "child_ended": "pending",
    "failed": "error",
    "cancelled": "error",
}
#: Differences that one message tells.
TOLD = 5
#: Instances that one look at the whole database folds, the newest first.
NEWEST = 200


@dataclass
class Folded:
    """What the events say. A claim is no event, so `running` cannot be told from `runnable`."""

    status: str = ""
    step: str | None = None
    attempt: int = 0
    names: list[str] | None = None
    due_at: datetime | None = None
    timed_out: bool = False
    pending: int = 0
    error: str | None = None
    seq: int = 0
    #: Questions opened, and answers taken. A list of items is one question of the instance, and many interactions.
    asked: int = 0
    #: Those of them that have an address, and so a unit.
    units: int = 0
    questions: int = 0
    answered: int = 0
    #: The numbers of the signals that arrived.
    received: list[int] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)


def fold(events: Iterable[LedgerEvent]) -> Folded:
    """Read the events in their order; nothing but their columns is used."""
    folded = Folded()
    for event in events:
        kind = str(event.kind)
        assert event.seq > folded.seq, "numbers do not ascend"
        folded.seq = event.seq
        was, folded.status = folded.status, show_waiting(event.status)
        if kind in ("signalled", "answered"):
            folded.received.append(event.seq)
            folded.answered += kind == "answered"
        elif kind == "child_ended":
            folded.pending -= event.data or 0
        elif kind == "asked":
            folded.asked += 1
            told = event.data or {"interaction": True}
            has_address = "interaction" in told or "items" in told
            folded.units += has_address
            folded.questions += told.get("items", 1) if has_address else 0
        elif event.name is not None:
            folded.step = event.name
        if kind in SETTING_NAMES:
            folded.names = _names(event)
            folded.timed_out = False
            folded.attempt = 0
            folded.unknown.discard("names")
        if kind == "started" and event.data:  # a fork begins with what a run of the first one was handed
            folded.names, folded.timed_out = event.data.get("names"), event.data.get("timed_out", False)
            folded.attempt, folded.received = event.data.get("attempt", 0), event.data.get("carried", [])
        if kind == "retried":
            folded.attempt += 1
        if kind == "timed_out":
            folded.timed_out = True
        if kind == "spawned":
            folded.pending = (event.data or {}).get("children", 0)
            folded.unknown.discard("pending")
        if kind in ("failed", "cancelled"):
            told = event.data or ""
            folded.error = told["error"] if isinstance(told, dict) else told
        if kind == "reopened":
            folded.attempt, folded.error = 0, None
            folded.unknown.discard("error")
        # The moment of an asked row is the question's deadline, not the instance's; a moved one may also be none.
        if kind == "rescheduled" or (kind != "asked" and (event.due_at is not None or folded.status != was)):
            folded.due_at = event.due_at
        if event.salt is None and kind in TOLD_BY_DATA:
            folded.unknown.add(TOLD_BY_DATA[kind])
    return folded


def _names(event: LedgerEvent) -> list[str] | None:
    if event.kind == "suspended":
        return (event.data or {}).get("names") or None
    return event.data if event.kind == "parked" else None


def show_waiting(status: str) -> str:
    return "runnable" if status == "running" else str(status)


def find_differences(row: Any, events: list[LedgerEvent]) -> list[str]:
    """Where a row of `read_rows` is not what its events say, column by column."""
    folded = fold(events)
    told = {
        "status": (folded.status, show_waiting(row.status)),
        "step": (folded.step, row.step),
        "attempt": (folded.attempt, row.attempt),
        "names": (folded.names, row.names),
        "timed_out": (folded.timed_out, row.timed_out),
        "pending": (folded.pending, row.pending),
        "error": (folded.error, row.error if row.ended else None),
        "asked": (folded.asked, row.asked),
        "units": (folded.units, row.units_opened),
        "interactions": (folded.questions, row.questions),
        "answers": (folded.answered, row.answers),
        "the numbers of the signals": (folded.received, row.numbers),
    }
    if row.status in ("awaiting", "sleeping", "awaiting_children"):
        told["due_at"] = (folded.due_at, row.due_at)
    found = [
        f"{name}: {events_say!r} by the events, {is_!r} in the row"
        for name, (events_say, is_) in told.items()
        if name not in folded.unknown and events_say != is_
    ]
    if folded.seq > row.seq:
        found.append(f"seq: an event has {folded.seq}, the row has given out {row.seq}")
    return found


def read_rows(rows: QuerySet[Any]) -> list[Any]:
    """Instances with what stands beside them counted, in one statement."""
    return list(count_beside(rows))


@cache
def compile_newest() -> tuple[str, tuple[Any, ...]]:
    """Return the statement of `read_rows` for the newest instances: to build it anew after each test takes long."""
    return count_beside(Instance.objects.order_by("-id")[:NEWEST]).query.sql_with_params()


def count_beside(rows: QuerySet[Any]) -> QuerySet[Any]:
    units = AwaitUnit.objects.filter(instance=OuterRef("pk")).values("instance")
    # Through the unit, which has an index on the instance.
    questions = Interaction.objects.filter(unit__instance=OuterRef("pk")).values("unit__instance")
    completed = questions.filter(status=InteractionStatus.COMPLETED, item=False)
    released = units.filter(items=True, released_at__isnull=False)
    numbers = Signal.objects.filter(instance=OuterRef("pk")).order_by("n").values("n")
    return rows.defer("input", "stored_state", "result").annotate(
        numbers=ArraySubquery(numbers),
        units_opened=_count(units),
        questions=_count(questions),
        answers=_count(completed) + _count(released),
    )


def _count(grouped: QuerySet[Any]) -> Coalesce:
    counted = grouped.order_by().annotate(counted=Count("id")).values("counted")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)


def check_rows(rows: QuerySet[Any]) -> int:
    """Fail, naming everything that differs, unless every row is what its events say; how many there were."""
    return check_instances(read_rows(rows))


def check_instances(instances: list[Any]) -> int:
    """Compare rows of `read_rows` with their events; how many there were."""
    events: dict[UUID, list[LedgerEvent]] = {row.pk: [] for row in instances}
    if not instances:
        return 0
    for event in LedgerEvent.objects.filter(instance__in=list(events)).order_by("instance_id", "seq"):
        events[event.instance_id].append(event)
    told = [
        f"{row.workflow} {row.pk}: {difference}\n  events: {tell_story(events[row.pk])}"
        for row in instances
        for difference in find_differences(row, events[row.pk])
    ]
    if any(row.units_opened for row in instances):
        told += check_units(list(events))
    more = f"\n… and {len(told) - TOLD} more" if len(told) > TOLD else ""
    assert not told, "folding the events does not give the row:\n" + "\n".join(told[:TOLD]) + more
    return len(instances)


def check_units(instances: list[UUID]) -> list[str]:
    """Where a unit of items is not what its own events say, or its items are not what it counts."""
    units = {unit.pk: unit for unit in AwaitUnit.objects.filter(instance__in=instances, items=True)}
    if not units:
        return []
    events: dict[UUID, list[LedgerEvent]] = {pk: [] for pk in units}
    for event in LedgerEvent.objects.filter(instance__in=list(units)).order_by("instance_id", "seq"):
        events[event.instance_id].append(event)
    items: dict[UUID, Counter[str]] = {pk: Counter() for pk in units}
    for pk, status, queued in Interaction.objects.filter(unit__in=list(units)).values_list("unit", "status", "queued"):
        items[pk]["queued" if queued else str(status)] += 1
    lines: dict[UUID, dict[int, str]] = {pk: {} for pk in units}
    rows = Instance.objects.filter(unit__in=list(units)).order_by("id").values_list("unit", "item", "status")
    for pk, item, status in rows:
        lines[pk][item] = str(status)
    return [
        f"unit {unit.step} {pk}: {name}: {expected!r}, and the row has {is_!r}\n  events: {tell_story(events[pk])}"
        for pk, unit in units.items()
        for name, (expected, is_) in _compare_unit(unit, events[pk], items[pk], lines[pk]).items()
        if expected != is_
    ]


def _compare_unit(
    unit: AwaitUnit, events: list[LedgerEvent], items: Counter[str], lines: dict[int, str]
) -> dict[str, tuple[Any, Any]]:
    # An item whose line ended badly has been answered, and has failed all the same.
    bad: set[int] = set()
    for event in events:
        if event.data and "line" in event.data:
            ended_badly = event.kind == Event.ITEM_COMPLETED and event.data["how"] != "completed"
            bad = bad | {event.data["index"]} if ended_badly else bad - {event.data["index"]}
    items = items + Counter(failed=len(bad))
    items.subtract(completed=len(bad))
    ended = Counter(event.data["how"] for event in events if event.kind == Event.ITEM_COMPLETED and event.data)
    told = {
        "its numbers": (list(range(1, unit.seq + 1)), [event.seq for event in events]),
        "items": (unit.total, sum(items.values())),
        "items waiting for their turn": (items["queued"], unit.queued),
        "completed items": (items["completed"], unit.answered),
        "failed items": (items["failed"], unit.failed),
        "expired items": (items["expired"], unit.expired),
        "items asked and not over, at most": (True, items["pending"] <= unit.concurrency),
    }
    if unit.visit == 1 and not any(event.salt is None for event in events):
        if not unit.lines:
            told["items that completed, by the events"] = (ended["completed"], unit.answered)
        elif unit.line_room:  # nothing is asked: an item is answered as it is begun
            done = sum(status == "done" for status in lines.values())
            if unit.status != "failed":  # or lines that were done go on with a later visit
                told["items through, by the events"] = (ended["completed"], done)
        else:
            told["items answered, by the events"] = (ended["completed"] - len(bad), unit.answered)
    if ends := [event.data["status"] for event in events if event.kind == Event.UNIT_TERMINAL and event.data]:
        told["its end, told once"] = (ends, [str(unit.status)])
    if unit.status == "open":
        told["pending items"] = (
            unit.total - unit.answered - unit.failed - unit.expired,
            items["pending"] + unit.queued,
        )
    if unit.status == "open" and unit.lines:
        through = sum(status in ("done", "failed", "cancelled") for status in lines.values())
        told["items not through"] = (
            unit.total - through - items["expired"] - (items["failed"] - len(bad)),
            unit.remaining,
        )
    return told


def tell_story(events: list[LedgerEvent]) -> str:
    """The last events, for a message."""
    return " ".join(f"{event.seq}:{Event(event.kind)}>{event.status}" for event in events[-20:])


def check_fold(instance: Instance) -> None:
    """The row is what its events say."""
    assert check_rows(Instance.objects.filter(pk=instance.pk)) == 1


def check_all_folds() -> int:
    """Every instance there is; how many."""
    return check_rows(Instance.objects.all())


def check_newest_folds() -> None:
    """After a test: its newest instances, as far as its connection can still be asked."""
    db = connections["default"]
    if db.closed_in_transaction or (db.in_atomic_block and db.needs_rollback):
        return
    if db.connection is not None and db.connection.info.transaction_status in (
        TransactionStatus.INERROR,
        TransactionStatus.UNKNOWN,
    ):
        if db.in_atomic_block:
            return
        db.close()
    check_instances(list(Instance.objects.raw(*compile_newest())))
