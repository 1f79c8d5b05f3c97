"""What a run is handed of other rows: how its children stand, and its answers as the schemas of their waits type them.

Lives here: reading, on the connection that is written. Must not live here: when it is read (`engine.context`, the
styles). Invariant owned: a fork is handed what the instance that it was forked from has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import router

from workflows.definitions.awaited_event import EVENT
from workflows.definitions.channel import Channel, find_channel
from workflows.definitions.question import UNIT
from workflows.engine.event_loop import at_home
from workflows.lifecycle import Event

if TYPE_CHECKING:
    from workflows.schemas.schema import Schema


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How one child of the latest Spawn stands."""

    id: UUID
    workflow: str
    key: str | None
    status: str
    result: Any
    error: str | None


@at_home
def list_children(instance: UUID, spawn_no: int) -> list[ChildResult]:
    """The children of a spawn, in the order in which they were spawned. A fork has those of the first instance.

    Read from the database that is written: a replica may not know yet how the last child ended.
    """
    from workflows.models import Instance, LedgerEvent

    alias = router.db_for_write(Instance)
    rows = Instance.objects.using(alias)
    found = list(rows.filter(parent_id=instance, spawn_no=spawn_no).order_by("id"))
    if not found:  # it spawned none, or this is a fork and another one did
        first, spawns = rows.values_list("forked_from", "spawns").get(pk=instance)
        own = LedgerEvent.objects.using(alias).filter(instance=instance, kind=Event.SPAWNED)
        return list_children(first, spawn_no) if first is not None and spawn_no <= spawns - own.count() else []
    return [ChildResult(c.id, c.workflow, c.key, c.status, c.result, c.error) for c in found]


@at_home
def cast_answer(name: str, payload: Any) -> Any:
    """A payload as the schema of its wait types it; the row of the wait knows the schema."""
    from workflows.models import EventWait, Interaction
    from workflows.schemas.schema import load_schema

    if name.startswith(UNIT):
        asked = Interaction.objects.using(router.db_for_write(Interaction)).filter(
            unit_id=name[len(UNIT) :], index=0, projector=None
        )
        row = asked.values_list("owned", "channel", "schema", "schema_type").first()
        if row is None:
            return payload
        # A mere label may be called like a channel; what owns its answers is one.
        channel = find_channel(row[1]) if row[0] else Channel
        return channel.read_answer(payload, load_schema(*row[2:]))
    if name.startswith(EVENT):
        rows = EventWait.objects.using(router.db_for_write(EventWait)).filter(pk=name[len(EVENT) :])
    else:
        return payload
    found = rows.values_list("schema", "schema_type").first()
    schema = None if found is None else load_schema(*found)
    return payload if schema is None else schema.cast(payload)


@at_home
def find_owner(instance: UUID, step: str) -> tuple[type[Channel], Schema | None] | None:
    """The channel that owned the latest answer to a wait, and the schema of what it asked for; the row knows both."""
    from workflows.lifecycle import InteractionStatus
    from workflows.models import Instance, Interaction
    from workflows.schemas.schema import load_schema

    alias = router.db_for_write(Interaction)
    asked = Interaction.objects.using(alias).filter(
        unit__instance=instance, unit__step=step, status=InteractionStatus.COMPLETED, owned=True
    )
    row = asked.order_by("-unit__visit").values_list("channel", "schema", "schema_type").first()
    if row is not None:
        return find_channel(row[0]), load_schema(*row[1:])
    first = Instance.objects.using(alias).values_list("forked_from", flat=True).filter(pk=instance).first()
    return None if first is None else find_owner(first, step)  # a fork has the answers of the first instance
