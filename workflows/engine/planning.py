"""The first row of an instance: its input checked against the workflow, serialised, and given an id.

Invariants owned: an instance that is stored has an input that its workflow takes; and an author's code that fails in
the middle of a transaction of others (`plan_apart`) leaves that transaction as it was.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions import registry
from workflows.definitions.awaited_kinds import AwaitedChild
from workflows.definitions.flow.flow_options import find_place
from workflows.definitions.flow.known_limits import check_queue
from workflows.definitions.outcomes import Child
from workflows.definitions.registry import Definition
from workflows.store import NewInstance
from workflows.uuid7 import make_uuid7
from workflows.values.json_text import dump_value


def plan_instance(
    definition: Definition,
    input: Any,
    key: str | None,
    what: str = "the input",
    *,
    queue: str | None = None,
    priority: int | None = None,
) -> NewInstance:
    """The first row of an instance, checked and serialised."""
    text = dump_value(input, what)
    placed = definition.flow is not None or queue is not None or priority is not None
    checked = definition.signature is not None or definition.accepts is not None
    stored = json.loads(text) if placed or checked else None
    if checked:
        registry.check_input(definition, stored)
    return NewInstance(
        id=make_uuid7(),
        workflow=definition.name,
        version=definition.version,
        step=definition.initial,
        input=text,
        key=key,
        solo=definition.max_attempts == 1,
        fingerprint=definition.fingerprint,
        place=find_place(definition.flow, definition.name, definition.version, stored, queue, priority)
        if placed
        else None,
    )


def plan_apart(db: BaseDatabaseWrapper, definition: Definition, input: Any, what: str) -> NewInstance:
    """Plan within a transaction that others are part of: a query of the author's code that fails is undone alone.

    A workflow whose code is not asked costs no savepoint.
    """
    if not asks_author(definition):
        return plan_instance(definition, input, None, what)
    with transaction.atomic(using=db.alias):
        return plan_instance(definition, input, None, what)


def asks_author(definition: Definition) -> bool:
    """Whether planning runs code of the workflow's author: a class that checks the input, or a function of a key."""
    keys = {} if definition.flow is None else definition.flow.list_keys()
    return definition.accepts is not None or any(key is not None and key.function is not None for key in keys.values())


def plan_child(workflow: Any, input: Any) -> NewInstance:
    """A child that a function invokes."""
    definition = registry.resolve(workflow)
    return plan_instance(definition, {} if input is None else input, None, f"the input of child {definition.name!r}")


def plan_spawned(child: Child | AwaitedChild[Any]) -> NewInstance:
    """A child that a step spawns, or that is asked for."""
    definition = registry.resolve(child.workflow)
    check_queue(child.queue)
    what = f"the input of child {definition.name!r}"
    return plan_instance(definition, child.input, child.key, what, queue=child.queue, priority=child.priority)
