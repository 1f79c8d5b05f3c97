"""`manage.py workflows show`: one instance with all that belongs to it, as text.

Invariant owned: a bounded number of rows and characters, whatever the instance has been through.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left

from workflows import deploys, registry
from workflows.management.paper import clip, lay_facts, lay_table, show_json, show_moment
from workflows.models import Instance, Interaction
from workflows.waits import EVENT, UNIT

#: Characters of a value that are read; a line shows fewer.
EXCERPT = 200
#: Characters of the input, the state and the result.
WHOLE = 2_000


def tell_instance(instance: Instance, *, width: int, rows: int) -> Iterator[str]:
    """Lines: the row, what it waits for, its inbox, its saved calls, its children, its history."""
    yield f"Instance {instance.pk}"
    yield from lay_facts(_list_facts(instance), width)
    for title, head, found in _list_tables(instance):
        some = list(found[: rows + 1])
        if not some:
            continue
        more = f", the last {rows}" if len(some) > rows else ""
        yield ""
        yield f"{title}{more}"
        yield from lay_table(head, [_CELLS[title](one) for one in reversed(some[:rows])], width)


def _list_facts(instance: Instance) -> Iterator[tuple[str, object]]:
    definition = registry.find(instance.workflow, instance.version)
    source = f" ({definition.source})" if definition else ""
    yield "workflow", f"{instance.workflow} version {instance.version}{source}"
    yield "status", f"{instance.status} in step {instance.step}"
    yield "stuck", deploys.explain(instance)
    if not instance.ended:
        yield "waits for", ", ".join(map(_tell_wait, instance.names or [])) if instance.status == "awaiting" else None
        yield "children", f"{instance.pending} not ended" if instance.pending else None
        yield _DUE.get(instance.status, "deadline"), show_moment(instance.due_at)
    yield "key", instance.key
    yield "workspace", instance.workspace.slug
    yield "parent", instance.parent_id
    yield "started", f"{show_moment(instance.created_at)}{f' by {instance.started_by}' if instance.started_by else ''}"
    yield "finished", show_moment(instance.finished_at)
    yield "attempt", instance.attempt or None
    yield "runs", f"{instance.runs} without an outcome" if instance.runs else None
    yield "error", clip(instance.error, WHOLE) if instance.error else None
    yield "input", clip(show_json(instance.input), WHOLE)
    if instance.state != instance.input:
        yield "state", clip(show_json(instance.state), WHOLE)
    if instance.result is not None:
        yield "result", clip(show_json(instance.result), WHOLE)


def _tell_wait(name: str) -> str:
    """A name, or where the engine made it, which table below has the details."""
    return "an answer, see Questions" if name.startswith(UNIT) else "an event" if name.startswith(EVENT) else name


_DUE = {"runnable": "due", "running": "lease ends", "sleeping": "wakes"}


def _list_tables(instance: Instance) -> Iterator[tuple[str, list[str], QuerySet[Any]]]:
    """Title, head and rows, the newest first."""
    # Found by their units, which have an index on the instance.
    asked = Interaction.objects.using(instance._state.db).filter(unit__in=instance.units.values("pk"))
    related: Any = instance
    yield (
        "Questions",
        ["wait", "signal id", "status", "channel", "for", "when", "by"],
        asked.select_related("unit").defer("request", "schema", "output").order_by("-id"),
    )
    yield "Event waits", ["event", "match", "closed"], related.event_waits.defer("schema").order_by("-id")
    yield (
        "Inbox",
        ["n", "received", "name", "state", "source", "dedup key", "payload"],
        _shorten(related.signals.order_by("-n"), "payload"),
    )
    yield (
        "Saved calls",
        ["n", "saved", "kind", "id", "value"],
        _shorten(related.checkpoints.order_by("-position"), "value"),
    )
    yield (
        "Children",
        ["id", "workflow", "key", "status", "step", "finished"],
        related.children.order_by("-id").defer("input", "stored_state", "result", "error"),
    )
    yield (
        "History",
        ["n", "at", "what", "status", "name", "actor", "details"],
        _shorten(related.events.order_by("-seq"), "data"),
    )


_CELLS: dict[str, Any] = {
    "Questions": lambda one: [
        one.unit.step,
        one.signal_id,
        one.status,
        one.channel,
        one.assignee or one.group,
        show_moment(one.closed_at) or _until(one.deadline),
        one.actor,
    ],
    "Event waits": lambda one: [one.event, show_json(one.match), show_moment(one.closed_at) or "open"],
    "Inbox": lambda one: [
        one.n,
        show_moment(one.received_at),
        one.name,
        "consumed" if one.consumed_at else "open",
        one.source,
        one.dedup_key,
        one.excerpt,
    ],
    "Saved calls": lambda one: [
        one.position,
        show_moment(one.saved_at),
        one.kind,
        one.name,
        one.excerpt if one.settled else "(still waits)",
    ],
    "Children": lambda one: [
        one.pk,
        f"{one.workflow} {one.version}",
        one.key,
        one.status,
        one.step,
        show_moment(one.finished_at),
    ],
    "History": lambda one: [
        one.seq,
        show_moment(one.at),
        one.kind,
        one.status,
        one.name,
        one.actor,
        " ".join(filter(None, [_until(one.due_at), one.excerpt])),
    ],
}


def _until(moment: datetime | None) -> str:
    return f"until {show_moment(moment)}" if moment else ""


def _shorten(rows: QuerySet[Any], field: str) -> QuerySet[Any]:
    """The beginning of a JSON column as text instead of the column: a payload may have half a megabyte."""
    shortened: QuerySet[Any] = rows.defer(field).annotate(excerpt=Left(Cast(field, TextField()), EXCERPT))
    return shortened
