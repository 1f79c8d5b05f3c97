"""Rows as the API shows them: plain values, under the models' field names."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from workflows.definitions.flow.flow_options import DEFAULT_QUEUE
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent
from workflows.units.unit_counts import count_items, find_progress
from workflows.values.times import to_rfc3339


def show_instance(instance: Instance, slug: str, *, operates: bool = False) -> dict[str, Any]:
    """An instance, all of it; to one who `operates` it also what holds it back."""
    return {
        "id": str(instance.pk),
        "workspace": slug,
        "workflow": instance.workflow,
        "version": instance.version,
        "key": instance.key,
        "status": str(instance.status),
        "step": instance.step,
        "state": instance.state,
        "input": instance.input,
        "result": instance.result,
        "error": instance.error,
        "traceback": None,
        "attempt": instance.attempt,
        "queue": instance.queue or DEFAULT_QUEUE,
        "priority": instance.priority or 0,
        "flow_key": instance.flow_key if operates else None,
        "progress": show_progress(instance.progress, instance.progress_at),
        "parent": None if instance.parent_id is None else str(instance.parent_id),
        "forked_from": None if instance.forked_from_id is None else str(instance.forked_from_id),
        "started_by": instance.started_by,
        "tick": to_rfc3339(instance.tick),
        "created_at": to_rfc3339(instance.created_at),
        "finished_at": to_rfc3339(instance.finished_at),
    }


def show_one_instance(instance: Instance, slug: str, *, operates: bool = False) -> dict[str, Any]:
    """Show an instance by itself: of a list that it waits for also how many items are through.

    And where its latest error was raised, for those who may see that.
    """
    return show_instance(instance, slug, operates=operates) | {
        "traceback": instance.traceback if operates else None,
        "progress": show_progress(*(find_progress(instance) or (None, None))),
    }


def show_progress(said: dict[str, Any] | None, at: datetime | None) -> dict[str, Any] | None:
    """How far it is, and since when that is known; no moment stands beside what is counted just now."""
    return None if said is None else said | {"at": to_rfc3339(at)}


def show_event(event: LedgerEvent) -> dict[str, Any]:
    """A row of the ledger."""
    return {
        "seq": event.seq,
        "kind": str(event.kind),
        "status": str(event.status),
        "at": to_rfc3339(event.at),
        "actor": event.actor,
        "name": event.name,
        "data": event.data,
    }


#: What `show_interaction` reads, without the instance's own payloads.
INTERACTION_FIELDS = (
    "id",
    "signal_id",
    "instance__workflow",
    "instance_id",
    "unit_id",
    "unit__step",
    "index",
    "item",
    "queued",
    "status",
    "version",
    "channel",
    "assignee",
    "group",
    "correlation_id",
    "created_at",
    "deadline",
    "closed_at",
    "actor",
    "request",
    "schema",
    "output",
)


def show_interaction(interaction: Interaction) -> dict[str, Any]:
    """A question, with the workflow and the wait that ask it."""
    return {
        "id": str(interaction.pk),
        "signal_id": interaction.signal_id,
        "workflow": interaction.instance.workflow,
        "instance": str(interaction.instance_id),
        "unit": str(interaction.unit_id),
        "step": interaction.unit.step,
        "index": interaction.index,
        "queued": interaction.queued,
        "status": str(interaction.status),
        "version": interaction.version,
        "channel": interaction.channel,
        "assignee": interaction.assignee,
        "group": interaction.group,
        "correlation_id": interaction.correlation_id,
        "created_at": to_rfc3339(interaction.created_at),
        "deadline": to_rfc3339(interaction.deadline),
        "closed_at": to_rfc3339(interaction.closed_at),
        "actor": interaction.actor,
        "request": interaction.request,
        "schema": interaction.schema,
        "output": interaction.output,
    }


#: What `show_unit` reads, without the instance's own payloads.
UNIT_FIELDS = (
    "id",
    "instance__workflow",
    "instance_id",
    "step",
    "visit",
    "status",
    "cardinality",
    "items",
    "policy",
    "concurrency",
    "timeout",
    *("total", "remaining", "queued", "answered", "failed", "expired"),
    *("created_at", "deadline", "dispatched_at", "closed_at", "released_at"),
)


def show_unit(unit: AwaitUnit) -> dict[str, Any]:
    """A unit, with the counts of its items."""
    return {
        "id": str(unit.pk),
        "instance": str(unit.instance_id),
        "workflow": unit.instance.workflow,
        "step": unit.step,
        "visit": unit.visit,
        "status": str(unit.status),
        "cardinality": str(unit.cardinality),
        "items": unit.items,
        "policy": unit.policy,
        "concurrency": unit.concurrency,
        "timeout": unit.timeout,
        "counts": asdict(count_items(unit)),
        "created_at": to_rfc3339(unit.created_at),
        "deadline": to_rfc3339(unit.deadline),
        "dispatched_at": to_rfc3339(unit.dispatched_at),
        "closed_at": to_rfc3339(unit.closed_at),
        "released_at": to_rfc3339(unit.released_at),
    }
