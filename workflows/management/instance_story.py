"""`manage.py workflows show`: one instance with all that belongs to it, as text.

Invariant owned: a bounded number of rows, and of characters unless `whole` is asked for, whatever the instance has
been through; and no name that only the engine knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from workflows.definitions import registry
from workflows.management.belongings import list_parts, word_names
from workflows.management.terminal import clip, lay_facts, lay_table, show_json, show_moment
from workflows.models import Instance
from workflows.operations import stuck
from workflows.units.unit_counts import find_progress
from workflows.values.json_text import RESERVED

#: Characters of a value that are read; a line shows fewer.
EXCERPT = 200
#: Characters of the input, the state and the result.
LONG = 2_000

Say = Callable[[object], str]


def tell_instance(instance: Instance, *, width: int, rows: int, whole: bool = False) -> Iterator[str]:
    """Lines: the row, what it waits for, its inbox, its saved calls, its children, its history."""
    width, excerpt, long = (sys.maxsize, None, sys.maxsize) if whole else (width, EXCERPT, LONG)
    parts = [(part.title, *part.read(rows, excerpt=excerpt)) for part in list_parts(instance)]
    texts = [text for title, some, _ in parts if title in ("Inbox", "History") for one in some for text in _texts(one)]
    say = word_names(instance, [*(instance.names or []), *texts])
    yield f"Instance {instance.pk}"
    yield from lay_facts(_list_facts(instance, say, long), width)
    for title, some, more in parts:
        if some:
            yield ""
            yield f"{title}, the last {rows}" if more else title
            yield from lay_table(_HEADS[title], [_CELLS[title](one, say) for one in some], width)


def tell_record(instance: Instance, *, rows: int) -> dict[str, Any]:
    """The same for scripts: whole values, the engine's names as they are, and beside them what they mean."""
    parts = {part.title: part.read(rows, whole=True) for part in list_parts(instance)}
    named = [one.name for title in ("Inbox", "History") for one in parts[title][0]]
    say = word_names(instance, [*(instance.names or []), *named])
    told: dict[str, Any] = {name: getattr(instance, name) for name in _ROW}
    told |= {"workspace": instance.workspace.slug, "stuck": stuck.explain(instance)}
    told["waits_for"] = [say(name) for name in instance.names or []] if instance.status == "awaiting" else []
    for title, (some, _) in parts.items():
        told[_key(title)] = [{name: getattr(one, name) for name in _FIELDS[title]} for one in some]
    for one, row in zip(parts["Questions"][0], told["questions"], strict=True):
        row["wait"] = one.unit.step
    for row in [*told["inbox"], *told["history"]]:
        if (row["name"] or "").startswith(RESERVED):
            row["about"] = say(row["name"])
    told["cut"] = [_key(title) for title, (_, more) in parts.items() if more]
    return told


def _key(title: str) -> str:
    return title.lower().replace(" ", "_")


def _texts(one: Any) -> tuple[object, object]:
    return one.name, one.excerpt


def _list_facts(instance: Instance, say: Say, long: int) -> Iterator[tuple[str, object]]:
    definition = registry.find(instance.workflow, instance.version)
    source = f" ({definition.source})" if definition else ""
    yield "workflow", f"{instance.workflow} version {instance.version}{source}"
    yield "status", f"{instance.status} in step {instance.step}"
    yield "stuck", stuck.explain(instance)
    if not instance.ended:
        yield "waits for", ", ".join(map(say, instance.names or [])) if instance.status == "awaiting" else None
        yield "children", f"{instance.pending} not ended" if instance.pending else None
        yield _DUE.get(instance.status, "deadline"), show_moment(instance.due_at)
    yield "key", instance.key
    yield "workspace", instance.workspace.slug
    yield "parent", instance.parent_id
    yield "forked from", instance.forked_from_id
    yield "started", f"{show_moment(instance.created_at)}{f' by {instance.started_by}' if instance.started_by else ''}"
    yield "finished", show_moment(instance.finished_at)
    yield "progress", _tell_progress(instance)
    yield "attempt", instance.attempt or None
    yield "runs", f"{instance.runs} without an outcome" if instance.runs else None
    yield "error", clip(instance.error, long) if instance.error else None
    yield "raised at", clip(instance.traceback, long) if instance.traceback else None
    yield "input", clip(show_json(instance.input), long)
    if instance.state != instance.input:
        yield "state", clip(show_json(instance.state), long)
    if instance.result is not None:
        yield "result", clip(show_json(instance.result), long)


def _tell_progress(instance: Instance) -> str | None:
    said, at = find_progress(instance) or (None, None)
    if said is None:
        return None
    total = said["total"]
    far = f"{said['done']}" if total is None else f"{said['done']} of {total}"
    return ", ".join(filter(None, [far, said["note"], show_moment(at)]))


_DUE = {"runnable": "due", "running": "lease ends", "sleeping": "wakes"}

_HEADS = {
    "Questions": ["wait", "signal id", "status", "channel", "for", "when", "by"],
    "Event waits": ["event", "match", "closed"],
    "Inbox": ["n", "received", "name", "state", "source", "dedup key", "payload"],
    "Saved calls": ["n", "saved", "kind", "id", "value"],
    "Children": ["id", "workflow", "key", "status", "step", "finished"],
    "History": ["n", "at", "what", "status", "name", "actor", "details"],
}

_CELLS: dict[str, Callable[[Any, Say], list[object]]] = {
    "Questions": lambda one, say: [
        one.unit.step,
        one.signal_id,
        one.status,
        one.channel,
        one.assignee or one.group,
        show_moment(one.closed_at) or _until(one.deadline),
        one.actor,
    ],
    "Event waits": lambda one, say: [one.event, show_json(one.match), show_moment(one.closed_at) or "open"],
    "Inbox": lambda one, say: [
        one.n,
        show_moment(one.received_at),
        say(one.name),
        "consumed" if one.consumed_at else "open",
        one.source,
        "" if (one.dedup_key or "").startswith(RESERVED) else one.dedup_key,
        one.excerpt,
    ],
    "Saved calls": lambda one, say: [
        one.position,
        show_moment(one.saved_at),
        one.kind,
        one.name,
        one.excerpt if one.settled else "(still waits)",
    ],
    "Children": lambda one, say: [
        one.pk,
        f"{one.workflow} {one.version}",
        one.key,
        one.status,
        one.step,
        show_moment(one.finished_at),
    ],
    "History": lambda one, say: [
        one.seq,
        show_moment(one.at),
        one.kind,
        one.status,
        say(one.name),
        one.actor,
        " ".join(filter(None, [_until(one.due_at), say(one.excerpt)])),
    ],
}

_ROW = (
    *("id", "workflow", "version", "status", "step", "key", "parent_id", "forked_from_id", "started_by"),
    *("created_at", "due_at"),
    *("finished_at", "attempt", "runs", "pending", "names", "input", "state", "result", "error", "traceback"),
    *("progress", "progress_at"),
)
_FIELDS = {
    "Questions": (
        *("id", "signal_id", "status", "channel", "assignee", "group", "index", "version", "correlation_id"),
        *("created_at", "deadline", "dispatched_at", "closed_at", "actor", "request", "schema", "output"),
    ),
    "Event waits": ("id", "event", "match", "schema", "closed_at"),
    "Inbox": ("n", "received_at", "consumed_at", "name", "source", "dedup_key", "payload"),
    "Saved calls": ("position", "saved_at", "kind", "name", "settled", "failed", "expired", "deadline", "value"),
    "Children": ("id", "workflow", "version", "key", "status", "step", "created_at", "finished_at"),
    "History": ("seq", "at", "due_at", "kind", "status", "actor", "name", "data"),
}


def _until(moment: datetime | None) -> str:
    return f"until {show_moment(moment)}" if moment else ""
