"""Emitting named events: one call that wakes whoever waits for it and starts what begins with it.

Invariants owned: an event is stored, delivered and has started its workflows in one transaction, which is the
caller's if there is one; so an emit that is rolled back never was, and a repeated dedup key does nothing twice.
Data that a wait's schema refuses leaves that wait parked; data that a workflow refuses does not start it.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.origin import find_source
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.workspace import current_workspace
from workflows.engine.planning import plan_apart
from workflows.exceptions import InvalidInput, InvalidSchema, PolicyRefused, UnknownWorkspace
from workflows.exceptions.trouble import is_dead, is_lost
from workflows.models import Instance
from workflows.values.json_text import check_signal_name, check_text, dump_value

logger = logging.getLogger("workflows")


@dataclass(frozen=True, slots=True)
class Emission:
    """What an emit did: how many instances it woke and how many it started. A duplicate did nothing."""

    id: UUID
    woke: int = 0
    started: int = 0
    duplicate: bool = False


def emit(
    event: str,
    data: Any = None,
    *,
    workspace: str | None = None,
    dedup_key: str | None = None,
    actor: object = "",
) -> int:
    """Emit a named event; how many parked instances it woke. That nobody waits for it is no error.

    >>> emit("order.paid", {"order": 7}, dedup_key="evt_1")
    0
    """
    return emit_event(event, data, workspace=workspace, dedup_key=dedup_key, actor=actor).woke


def emit_event(
    event: str,
    data: Any = None,
    *,
    workspace: str | None = None,
    dedup_key: str | None = None,
    actor: object = "",
    door: str | None = None,
) -> Emission:
    """Like `emit`, with everything there is to tell.

    `door` is the door of the outside by which it came: a wait with a channel's label takes it only from one of that
    name. What your own code emits is trusted, and has none.

    >>> emit_event("order.paid", {"order": 7}, dedup_key="evt_1").duplicate
    True
    """
    check_signal_name(event, "an event's name")
    if dedup_key is not None:
        check_text(dedup_key, "a dedup key")
    text = dump_value(data, f"the data of event {event!r}", conf.max_body)
    by, scope = read_actor(actor), current_workspace(workspace)
    db = connections[router.db_for_write(Instance)]
    return store.in_transaction(db, lambda: _emit(db, scope, event, text, dedup_key, by, door))


def _emit(
    db: BaseDatabaseWrapper,
    scope: str | int,
    event: str,
    text: str,
    dedup_key: str | None,
    actor: str,
    door: str | None,
) -> Emission:
    workspace = store.lock_event(db, scope, event, shared=False)
    if workspace is None:
        raise UnknownWorkspace(scope)
    id, new = store.insert_event(db, workspace, event, text, dedup=dedup_key, actor=actor, door=door)
    if not new:
        return Emission(id, duplicate=True)
    data = json.loads(text)  # as those who take it will read it
    woke = _wake(db, workspace, event, id, data, actor, door)
    return Emission(id, woke, _start(db, workspace, event, data, actor))


def _wake(
    db: BaseDatabaseWrapper, workspace: int, event: str, id: UUID, data: Any, actor: str, door: str | None
) -> int:
    """Deliver to every wait that matches and whose schema takes the data; a schema is asked once."""
    verdicts: dict[tuple[str | None, str | None], bool] = {}
    pairs: list[tuple[UUID, UUID]] = []
    asked: set[UUID] = set()
    for waits in store.find_waits(db, workspace, event, id, door):
        kind = (waits.schema, waits.schema_type)
        if kind not in verdicts:
            verdicts[kind] = _accepts(*kind, data)
        if verdicts[kind]:
            pairs.extend(zip(waits.instances, waits.ids, strict=True))
            asked.update(waits.ids if waits.asked else ())
    if conf.policy is not None and pairs:
        pairs = _keep_allowed(db, event, id, pairs, actor)
    # Found by wait, locked by instance: all of them first, so that the locks are taken in one order.
    return store.deliver_event(db, event, id, pairs, asked)


def _keep_allowed(
    db: BaseDatabaseWrapper, event: str, id: UUID, pairs: list[tuple[UUID, UUID]], actor: str
) -> list[tuple[UUID, UUID]]:
    """Those that the project's policy lets the event resume. The others stay parked, and their history says why."""
    from workflows.engine.policy import ask_policy, describe_wait, tell_refused_event
    from workflows.models import EventWait

    allowed: list[tuple[UUID, UUID]] = []
    refused: list[tuple[UUID, str]] = []
    for begin in range(0, len(pairs), store.EVENT_BATCH):
        page = pairs[begin : begin + store.EVENT_BATCH]
        rows = EventWait.objects.using(db.alias).in_bulk([wait for _, wait in page])
        for instance, wait in page:
            try:
                ask_policy("resume", describe_wait(rows[wait]), actor)
            except PolicyRefused as error:
                refused.append((instance, dump_value(tell_refused_event(event, id, error), "a refusal")))
            else:
                allowed.append((instance, wait))
    if refused:
        store.lock_waiting(db, [instance for instance, _ in (*allowed, *refused)])
    for instance, told in refused:
        store.record_refusal(db, instance, actor=actor, data=told)
    return allowed


def _accepts(schema: str | None, schema_type: str | None, data: Any) -> bool:
    if schema is None:
        return True
    from workflows.schemas.schema import load_schema  # with all that reads schemas, so only where there is one

    try:
        loaded = load_schema(json.loads(schema), schema_type)
    except InvalidSchema:
        logger.exception("the schema of a wait for an event cannot be read; the wait stays parked")
        return False
    return store.accepts_event(loaded, data)


def _start(db: BaseDatabaseWrapper, workspace: int, event: str, data: Any, actor: str) -> int:
    """Start one instance of each workflow that begins with this event, in its latest version."""
    latest = {definition.name: definition for definition in registry.list_definitions()}
    planned = []
    for definition in latest.values():
        if getattr(definition, "on_event", None) != event:
            continue
        try:
            planned.append(plan_apart(db, definition, {} if data is None else data, "the event's data"))
        except InvalidInput as error:
            logger.warning("event %r does not start workflow %r: %s", event, definition.name, error)
        except Exception as error:  # its own code is broken: that must not keep the event from the others
            if is_dead(db) or is_lost(error):
                raise
            logger.exception("event %r does not start workflow %r: its own code failed", event, definition.name)
    if not planned:
        return 0
    source = find_source(actor, is_event=True)
    return len(store.insert_instances(db, planned, workspace=workspace, actor=actor, source=source))
