"""The life of each await of an instance, under the names that viewers of awaits know.

A unit of items writes these events itself, as rows of its own; all but that its instance waits for it, which the
instance's row tells. A single question has no rows but its instance's, and
each of those stands for several events: `answered` is the end of the item, of the unit and of the wait at one moment.
Lives here: which rows stand for which events. Must not live here: writing any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import router
from django.db.models import OuterRef, Q, Subquery

from workflows.definitions.question import UNIT
from workflows.lifecycle import UNIT_EVENTS, Event, InteractionStatus, UnitStatus
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent
from workflows.units.unit_history import Cut, Row, list_sources, walk_history

#: Rows that are looked at together.
CHUNK = 500

_PARKS = (Event.PARKED, Event.SUSPENDED)
_ENDS = (Event.DONE, Event.FAILED, Event.CANCELLED)
#: What becomes of a single question that the instance's row tells of without naming it.
_CLOSINGS = {
    Event.TIMED_OUT: (UnitStatus.EXPIRED,),
    Event.DONE: (UnitStatus.CANCELLED,),
    Event.FAILED: (UnitStatus.CANCELLED,),
    Event.CANCELLED: (UnitStatus.CANCELLED,),
}


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """One event in the life of an await; `kind` is one of the names that begin with `await_`."""

    kind: Event
    at: datetime
    unit: UUID | None
    #: None where it is about the whole unit, or about several items, which `data` names.
    interaction: UUID | None = None
    index: int | None = None
    actor: str = ""
    data: dict[str, Any] = field(default_factory=dict)


def lifecycle_events(instance: Instance | UUID) -> Iterator[LifecycleEvent]:
    """The events of all awaits of an instance, in the order in which they happened.

    >>> [str(event.kind) for event in lifecycle_events(answered_instance)][:3]
    ['await_interaction_dispatched', 'await_unit_dispatch_complete', 'await_execution_waiting']
    """
    using = router.db_for_write(Instance)
    id = instance.pk if isinstance(instance, Instance) else instance
    seq = Instance.objects.using(using).values_list("seq", flat=True).get(pk=id)
    rows = walk_history(using, id, seq, list_sources(using, id), Cut())
    while chunk := list(islice(rows, CHUNK)):
        for events in name_events(using, chunk):
            yield from events


def name_events(using: str, rows: Sequence[Row]) -> list[list[LifecycleEvent]]:
    """The events that each of some rows of one instance stands for. A few statements for all of them."""
    facts = _Facts(using, [row for unit, row in rows if unit is None])
    return [facts.name(row) if unit is None else _name_own(unit, row) for unit, row in rows]


def _name_own(unit: UUID, row: LedgerEvent) -> list[LifecycleEvent]:
    """A row of a unit of items is an event itself; or somebody was refused there, which is none."""
    if row.kind not in UNIT_EVENTS:
        return []
    data = row.data if isinstance(row.data, dict) else {}
    return [
        LifecycleEvent(
            Event(row.kind), row.at, unit, _read_id(data.get("interaction")), data.get("index"), row.actor, data
        )
    ]


class _Facts:
    """What is known of the single questions that some rows are about."""

    def __init__(self, using: str, rows: Sequence[LedgerEvent]) -> None:
        self.using = using
        self.questions = self._read_questions(
            _read_id(row.data.get("interaction"))
            for row in rows
            if row.kind in (Event.ASKED, Event.ANSWERED, Event.TIMED_OUT) and isinstance(row.data, dict)
        )
        self.failed = self._read_failed(id for row in rows if (id := _read_failed(row)) is not None)
        self.parks = self._read_units(id for row in rows for id in _list_awaited(row))
        self.closed = self._find_closed([row for row in rows if row.kind in _CLOSINGS])

    def name(self, row: LedgerEvent) -> list[LifecycleEvent]:
        """The events that one row of the instance stands for."""
        if row.kind in _PARKS:
            waits = [id for id in _list_awaited(row) if id in self.parks]
            return [LifecycleEvent(Event.UNIT_WAITING, row.at, id, data={"deadline": row.due_at}) for id in waits]
        data = row.data if isinstance(row.data, dict) else {}
        question = self.questions.get(_read_id(data.get("interaction")))
        if row.kind == Event.SIGNALLED:
            failed = self.failed.get(_read_failed(row))
            return [] if failed is None else _name_end(row, failed, InteractionStatus.FAILED)
        if row.kind == Event.ASKED:
            return [] if question is None else self._name_asked(row, question)
        if row.kind == Event.ANSWERED and question is not None:
            return _name_end(row, question, InteractionStatus.COMPLETED)
        if row.kind == Event.TIMED_OUT and question is not None:
            return _name_end(row, question, InteractionStatus.EXPIRED)
        return [event for one in self.closed.get(row.seq, ()) for event in _name_end(row, one, one.status)]

    def _name_asked(self, row: LedgerEvent, question: Interaction) -> list[LifecycleEvent]:
        # Of a channel that sends, the unit's own rows tell when the question went out.
        if question.config is not None:
            return []
        sent = _make(Event.ITEM_DISPATCHED, row, question, channel=question.channel)
        return [sent, LifecycleEvent(Event.UNIT_DISPATCHED, row.at, question.unit_id, data={"items": 1})]

    def _read_questions(self, ids: Iterable[UUID | None]) -> dict[UUID | None, Interaction]:
        wanted = {id for id in ids if id is not None}
        if not wanted:
            return {}
        rows = Interaction.objects.using(self.using).filter(pk__in=wanted, item=False)
        return {row.pk: row for row in rows.only(*_FIELDS)}

    def _read_failed(self, units: Iterable[UUID]) -> dict[UUID | None, Interaction]:
        """The single questions of these units."""
        wanted = set(units)
        if not wanted:
            return {}
        rows = Interaction.objects.using(self.using).filter(unit_id__in=wanted, item=False)
        return {row.unit_id: row for row in rows.only(*_FIELDS)}

    def _read_units(self, ids: Iterable[UUID]) -> set[UUID]:
        """Of these units those that are there."""
        wanted = set(ids)
        if not wanted:
            return set()
        rows = AwaitUnit.objects.using(self.using).filter(pk__in=wanted)
        return set(rows.values_list("pk", flat=True))

    def _find_closed(self, rows: Sequence[LedgerEvent]) -> dict[int, list[Interaction]]:
        """The questions that these rows closed: what was closed under the instance's lock between its neighbours."""
        rows = [row for row in rows if not (isinstance(row.data, dict) and "interaction" in row.data)]
        if not rows:
            return {}
        instance = rows[0].instance_id
        own = LedgerEvent.objects.using(self.using).filter(instance_id=OuterRef("instance_id"))
        before = own.filter(seq__lt=OuterRef("seq")).order_by("-seq").values("at")[:1]
        after = own.filter(seq__gt=OuterRef("seq")).order_by("seq").values("at")[:1]
        around = LedgerEvent.objects.using(self.using).filter(instance_id=instance, seq__in=[row.seq for row in rows])
        with_spans = around.annotate(since=Subquery(before), until=Subquery(after))
        spans = list(with_spans.values_list("seq", "kind", "since", "until"))
        wanted = Q(pk__in=[])
        for _, kind, since, until in spans:
            span = Q(unit__status__in=_CLOSINGS[kind], closed_at__gte=since)
            wanted |= span if until is None else span & Q(closed_at__lte=until)
        questions = Interaction.objects.using(self.using).filter(wanted, unit__instance_id=instance, item=False)
        closed = list(questions.only(*_FIELDS).order_by("pk"))
        return {
            seq: [
                one
                for one in closed
                if one.status.value in _CLOSINGS[kind]
                and one.closed_at is not None
                and since <= one.closed_at
                and (until is None or one.closed_at <= until)
            ]
            for seq, kind, since, until in spans
        }


#: Of a question, without what was asked and answered.
_FIELDS = ("unit_id", "index", "status", "channel", "closed_at", "config")


def _name_end(row: LedgerEvent, question: Interaction, status: InteractionStatus) -> list[LifecycleEvent]:
    """A single question ends with its unit, and with the wait."""
    data = row.data if isinstance(row.data, dict) else {}
    terminal = LifecycleEvent(Event.UNIT_TERMINAL, row.at, question.unit_id, data={"status": status.value})
    if status is InteractionStatus.CANCELLED:
        return [terminal]
    item = _make(Event.ITEM_COMPLETED, row, question, how=status.value, channel=question.channel)
    item.data.update({name: data[key] for key, name in (("door", "door"), ("failed", "reason")) if data.get(key)})
    released = LifecycleEvent(Event.UNIT_RELEASED, row.at, question.unit_id)
    if status is not InteractionStatus.COMPLETED:
        return [item, released, terminal]
    completed = LifecycleEvent(Event.UNIT_COMPLETED, row.at, question.unit_id, data={"items": 1, "completed": 1})
    return [item, completed, released, terminal]


def _make(kind: Event, row: LedgerEvent, question: Interaction, **data: Any) -> LifecycleEvent:
    return LifecycleEvent(kind, row.at, question.unit_id, question.pk, question.index, row.actor, data)


def _list_awaited(row: LedgerEvent) -> list[UUID]:
    """The units that a park waits for."""
    if row.kind not in _PARKS:
        return []
    names = row.data.get("names") if isinstance(row.data, dict) else row.data
    texts = [name[len(UNIT) :] for name in names or () if isinstance(name, str) and name.startswith(UNIT)]
    return [id for text in texts if (id := _read_id(text)) is not None]


def _read_failed(row: LedgerEvent) -> UUID | None:
    """The unit whose single question a row reports as failed."""
    if row.kind != Event.SIGNALLED or not isinstance(row.data, dict) or "failed" not in row.data:
        return None
    return _read_id((row.name or "").removeprefix(UNIT))


def _read_id(text: Any) -> UUID | None:
    try:
        return UUID(text)
    except (TypeError, ValueError, AttributeError):
        return None
