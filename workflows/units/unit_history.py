"""The history of an instance with that of its units of items: one list, in the order in which things happened.

A unit's rows lie in the ledger under the unit's own id, so that no item locks the instance. Lives here: reading both
together, from any place on, forwards and backwards. Invariants owned: the rows of one source come in their numbers'
order, and rows of different sources by their moment, the instance's first where they are equal; a place is exact, so a
row that comes while somebody turns pages neither repeats nor hides another; and rows are read in chunks, however many
there are.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db.models import F, QuerySet
from django.db.models.lookups import GreaterThan, LessThanOrEqual

from workflows.lifecycle import UnitStatus
from workflows.models import AwaitUnit, LedgerEvent
from workflows.models.ledger_event import SHORT_HISTORY
from workflows.models.literals import LiteralNumber

#: Rows of one statement. Those of a short history come together, because they are found by their source alone.
CHUNK = 100
#: Units of few rows whose rows are read in one statement.
TOGETHER = 20


@dataclass(frozen=True, slots=True)
class Cut:
    """A place between two rows: how many rows of the instance lie before it, and how many of each unit."""

    instance: int = 0
    units: Mapping[UUID, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnitSource:
    """A unit that has rows of its own."""

    id: UUID
    #: How many it has.
    seq: int
    created_at: datetime
    #: When its last row was written, about; None where more may come.
    ended_at: datetime | None


#: Written into the statement: a parameter would hide from a kept plan that the index of long histories is meant.
_END = LiteralNumber(SHORT_HISTORY)
SHORT, LONG = LessThanOrEqual(F("seq"), _END), GreaterThan(F("seq"), _END)

#: One row and whose it is: the unit's id, or None for the instance's own.
Row = tuple[UUID | None, LedgerEvent]


def list_sources(using: str, instance: UUID) -> list[UnitSource]:
    """The units of an instance that have rows of their own, the oldest first."""
    rows = AwaitUnit.objects.using(using).filter(instance_id=instance, seq__gt=0).order_by("id")
    return [
        UnitSource(id, seq, created_at, None if status == UnitStatus.OPEN else released_at or closed_at)
        for id, seq, created_at, status, closed_at, released_at in rows.values_list(
            "id", "seq", "created_at", "status", "closed_at", "released_at"
        )
    ]


def walk_history(
    using: str, instance: UUID, seq: int, sources: Sequence[UnitSource], cut: Cut, *, back: bool = False
) -> Iterator[Row]:
    """The rows after a place, or before it with the latest first; `seq` is how many the instance has of its own."""
    sign = -1 if back else 1
    waiting: list[tuple[int, int, UnitSource]] = []  # not looked into yet: by when its first row can come
    for rank, source in enumerate(sources, 1):
        place = cut.units.get(source.id, 0)
        if place == 0 if back else place >= source.seq:
            continue
        moment = source.ended_at if back else source.created_at
        waiting.append((-(1 << 62) if moment is None else sign * _count_micros(moment), sign * rank, source))
    heapq.heapify(waiting)
    ready: list[tuple[int, int, int, UUID | None, LedgerEvent, Iterator[LedgerEvent]]] = []

    def add(rank: int, id: UUID | None, rows: Iterator[LedgerEvent]) -> None:
        if (row := next(rows, None)) is not None:
            heapq.heappush(ready, (sign * _count_micros(row.at), sign * rank, row.seq, id, row, rows))

    add(0, None, _walk_source(using, instance, seq, cut.instance, back))
    while ready or waiting:
        while waiting and (not ready or waiting[0][0] <= ready[0][0]):
            for rank, source, rows in _look_into(using, waiting, cut, back):
                add(rank, source.id, rows)
        if ready:
            _, rank, _, id, row, rows = heapq.heappop(ready)
            yield id, row
            add(abs(rank), id, rows)


def move_cut(cut: Cut, rows: Sequence[Row], *, back: bool = False) -> Cut:
    """The place at which these rows end, walked from another place on."""
    instance, units = cut.instance, dict(cut.units)
    for id, row in rows:
        place = row.seq - 1 if back else row.seq
        if id is None:
            instance = place
        else:
            units[id] = place
    return Cut(instance, units)


def _look_into(
    using: str, waiting: list[tuple[int, int, UnitSource]], cut: Cut, back: bool
) -> Iterator[tuple[int, UnitSource, Iterator[LedgerEvent]]]:
    """The next unit, and those behind it with which it is read in one statement."""
    _, rank, source = heapq.heappop(waiting)
    if source.seq > SHORT_HISTORY:
        yield abs(rank), source, _walk_source(using, source.id, source.seq, cut.units.get(source.id, 0), back)
        return
    short = {source.id: (abs(rank), source)}
    while waiting and len(short) < TOGETHER and waiting[0][2].seq <= SHORT_HISTORY:
        _, rank, source = heapq.heappop(waiting)
        short[source.id] = (abs(rank), source)
    rows = LedgerEvent.objects.using(using).filter(instance_id__in=list(short), seq__lte=SHORT_HISTORY)
    ordered = rows.order_by("instance_id", "-seq" if back else "seq")
    for id, own in groupby(ordered, key=lambda row: row.instance_id):
        rank, source = short[id]
        place = cut.units.get(id, 0)
        yield rank, source, iter([row for row in own if (row.seq <= place if back else row.seq > place)])


def _walk_source(using: str, id: UUID, seq: int, place: int, back: bool) -> Iterator[LedgerEvent]:
    """The rows of one source, from a place on; the rest of a long history by the index for that."""
    rows = LedgerEvent.objects.using(using).filter(instance_id=id)
    parts = (rows.filter(SHORT), rows.filter(LONG))
    if back:
        if place > SHORT_HISTORY:
            yield from _walk_part(parts[1], place, back)
        yield from _walk_part(parts[0], min(place, SHORT_HISTORY), back)
        return
    if place < SHORT_HISTORY:
        yield from _walk_part(parts[0], place, back)
    if seq > SHORT_HISTORY:
        yield from _walk_part(parts[1], max(place, SHORT_HISTORY), back)


def _walk_part(rows: QuerySet[Any], place: int, back: bool) -> Iterator[LedgerEvent]:
    while True:
        part = rows.filter(seq__lte=place) if back else rows.filter(seq__gt=place)
        found = list(part.order_by("-seq" if back else "seq")[:CHUNK])
        yield from found
        if len(found) < CHUNK:
            return
        place = found[-1].seq - 1 if back else found[-1].seq


def _count_micros(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)  # one without a zone is in the project's, which is this process's
