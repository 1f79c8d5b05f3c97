"""Forking: a new instance that goes on from a point in the life of another one.

Lives here: the call, and its arguments. Must not live here: which points there are and what is known of them
(`fork_points`), and how it is written (`store.forks`). Invariants owned: the first instance is only read; nothing is
stored unless every argument is good; the history of the new one says where it comes from, and which values are others.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor, read_address
from workflows.api.lineage.fork_points import find_point
from workflows.api.origin import INSTANCE
from workflows.definitions import registry
from workflows.definitions.outcomes import UNSET
from workflows.definitions.registry import LINES, Definition
from workflows.definitions.workspace import current_instance
from workflows.engine.planning import plan_instance
from workflows.exceptions import (
    DuplicateKey,
    InvalidCall,
    NoTarget,
    NotForkable,
    UnknownWorkflow,
    UnknownWorkspace,
)
from workflows.models import Instance
from workflows.store import NewFork
from workflows.values.json_text import check_text, dump_value


def fork(
    instance: Instance | UUID | str,
    *,
    at: str | None = None,
    input: Any = UNSET,
    state: Any = UNSET,
    key: str | None = None,
    workspace: str | None = None,
    actor: object = "",
) -> Instance:
    """Start an instance that goes on from a point in the life of another one, which is not touched.

    `at` is a call's id in a function, a step or a stage in the other styles; without it the new one begins anew.

    >>> fork(shipped_instance, at="ship").forked_from == shipped_instance
    True
    """
    db = connections[router.db_for_write(Instance)]
    first = _find(db, instance, workspace)
    definition = _find_definition(first)
    by = read_actor(actor)
    if not by and (running := current_instance()) is not None:
        by = f"{INSTANCE}{running}"
    if key is not None:
        check_text(key, "a key")
    changed = input is not UNSET
    value = first.input if not changed else {} if input is None else input
    # As for a start: the input is checked, and says where the instance stands among others.
    planned = plan_instance(definition, value, key, queue=first.queue, priority=first.priority)
    said = _read_state(definition, first, state)
    told = {"forked_from": str(first.pk), "at": at, "input": changed or None, "state": said is not None or None}
    new = NewFork(
        planned=planned,
        first=first.pk,
        workspace=first.workspace_id,
        step=planned.step,
        input=planned.input if changed else None,
        told=dump_value({name: value for name, value in told.items() if value is not None}, "a fork"),
        state=said,
    )
    if at is not None:
        new = find_point(db, definition, first, at, new)
    return _insert(db, new, by)


def _find(db: BaseDatabaseWrapper, instance: Any, workspace: str | None) -> Instance:
    to = read_address(instance, workspace)
    found = store.find_instance(db, to)
    row: Instance | None = Instance.objects.using(db.alias).filter(pk=found[0]).first() if found else None
    if row is None:
        if not store.workspace_exists(db, to.workspace):
            raise UnknownWorkspace(to.workspace)
        raise NoTarget(to.value)
    return row


def _find_definition(first: Instance) -> Definition:
    if first.workflow.endswith(LINES):
        raise NotForkable(first.pk, "it goes on with one item of a list; fork the instance that asks the list")
    definition = registry.find(first.workflow, first.version)
    if definition is None:
        known = [f"{one.name} version {one.version}" for one in registry.list_definitions()]
        raise UnknownWorkflow(f"{first.workflow} version {first.version}", known)
    return definition


def _read_state(definition: Definition, first: Instance, state: Any) -> str | None:
    if state is UNSET:
        return None
    if definition.signature is not None:
        raise InvalidCall(
            f"workflow {first.workflow!r} is a function, which has no state: what it knows are the results of its "
            "calls. Leave state= out, and name a call as at="
        )
    value = state if definition.read_state is None else definition.read_state(state)
    return dump_value(value, "the state")


def _insert(db: BaseDatabaseWrapper, new: NewFork, by: str) -> Instance:
    key = str(new.planned.key)
    for _ in range(store.KEY_TRIES):
        written = store.retrying(db, lambda: store.insert_fork(db, new, actor=by))
        if written is None:
            raise NoTarget(new.first)
        if written:
            found: Instance = Instance.objects.using(db.alias).get(pk=new.planned.id)
            return found
        holder = store.find_holder(db, key, new.workspace)
        if holder is not None:
            raise DuplicateKey(key, Instance.objects.using(db.alias).filter(pk=holder).first())
    raise DuplicateKey(key, None)
