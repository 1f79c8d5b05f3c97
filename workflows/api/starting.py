"""Writing the first rows of instances: planned, checked, and each started unless its key is held.

Lives here: what `start`, `start_many` and a signal that starts have in common. Must not live here: the public calls.
Invariant owned: nothing is stored unless all of it is good.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init

from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.origin import find_source
from workflows.api.signals import BATCH
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.workspace import current_workspace
from workflows.engine.planning import plan_instance
from workflows.exceptions import DuplicateKey, UnknownWorkspace
from workflows.fields import INHERITED
from workflows.models import Instance
from workflows.store import NewInstance, Source
from workflows.values.json_text import check_text, read_back

#: The columns of an instance in their order, and what stands in one that nothing has been written to. By keywords, a
#: model asks every field for its default anew: half the time of a `start_many`.
_COLUMNS = [field.attname for field in Instance._meta.concrete_fields]
_BLANK: dict[str, Any] = {field.attname: field.get_default() for field in Instance._meta.concrete_fields}
_read_status = Instance._meta.get_field("status").to_python


def plan_start(
    workflow: Any, input: Any, key: str | None, what: str, queue: str | None = None, priority: int | None = None
) -> NewInstance:
    """A new instance as its row, checked before anything is written."""
    definition = registry.resolve(workflow)
    if key is not None:
        check_text(key, "a key")
    return plan_instance(definition, {} if input is None else input, key, what, queue=queue, priority=priority)


def start_or_find(planned: list[NewInstance], workspace: str | None, actor: object) -> list[Instance]:
    """Each started, or its key's live holder. A holder that ends in between frees its key: then started after all."""
    db, scope = reach_engine(), current_workspace(workspace)
    found: dict[UUID, Instance] = {}
    for _ in range(store.KEY_TRIES):
        missing = [one for one in planned if one.id not in found]
        if not missing:
            break
        found |= insert_batches(missing, workspace, actor, None)
        taken = {str(one.key): one.id for one in missing if one.id not in found}
        holders = store.find_holders(db, sorted(taken), scope) if taken else {}
        rows = Instance.objects.using(db.alias).in_bulk(holders.values())
        keyed = {key: rows[id] for key, id in holders.items() if id in rows}
        found |= {one.id: keyed[str(one.key)] for one in missing if one.id not in found and str(one.key) in keyed}
    for one in planned:
        if one.id not in found:
            raise DuplicateKey(str(one.key), None)
    return [found[one.id] for one in planned]


def insert_all(
    planned: Sequence[NewInstance], workspace: str | None, actor: object, run_at: datetime | None
) -> dict[UUID, Instance]:
    """Each started, unless a live holder has its key. One that has just ended holds nothing: then once more."""
    started: dict[UUID, Instance] = {}
    missing = list(planned)
    for _ in range(store.KEY_TRIES):
        started |= insert_batches(missing, workspace, actor, run_at)
        missing = [one for one in missing if one.id not in started]
        if not missing:
            return started
        for one in missing:
            if (holder := _find_holder(str(one.key), workspace)) is not None:
                raise DuplicateKey(str(one.key), holder)
    raise DuplicateKey(str(missing[0].key), None)


def insert_batches(
    planned: Sequence[NewInstance], workspace: str | None, actor: object, run_at: datetime | None
) -> dict[UUID, Instance]:
    """Those that were started, in few statements; the key of each other is held."""
    db, scope, by = reach_engine(), current_workspace(workspace), read_actor(actor)
    source = find_source(by)
    started: dict[UUID, Instance] = {}
    if len(planned) == 1 and conf.share_commits and source is None and run_at is None and planned[0].key is None:
        [one] = planned
        if (row := _starts.call(db, scope, (one, by))) is None:
            raise UnknownWorkspace(scope)
        return {one.id: _fresh(one, row, by, db)}
    for begin in range(0, len(planned), BATCH):
        batch = planned[begin : begin + BATCH]
        rows = _insert_batch(db, batch, scope, by, run_at, source)
        started.update((one.id, _fresh(one, rows[one.id], by, db)) for one in batch if one.id in rows)
    if planned and not started:
        check_workspace(scope)
    return started


def _insert_together(
    db: BaseDatabaseWrapper, scope: Hashable, calls: Sequence[tuple[NewInstance, str]]
) -> list[tuple[Any, ...] | None]:
    new, actors = [one for one, _ in calls], [by for _, by in calls]
    return store.retrying(db, lambda: store.insert_started(db, new, actors, cast("str | int", scope)))


#: What threads start at the same moment, in one workspace. A key may be held by a transaction that is open, and whoever
#: starts with one waits for that: nobody else should.
_starts = store.Combiner(_insert_together, BATCH)


def _insert_batch(
    db: BaseDatabaseWrapper,
    batch: Sequence[NewInstance],
    scope: str | int,
    by: str,
    run_at: datetime | None,
    source: Source | None,
) -> dict[UUID, tuple[Any, ...]]:
    return store.retrying(
        db,
        lambda: store.insert_instances(db, batch, workspace=scope, actor=by, run_at=run_at, source=source),
    )


def _fresh(one: NewInstance, row: tuple[Any, ...], started_by: str, db: BaseDatabaseWrapper) -> Instance:
    """The model instance of a row just written, without reading it again."""
    _, workspace, status, *moments, _ = row
    created_at, due_at = store.to_djangos(db, moments)
    values = _BLANK | {
        "id": one.id,
        "workspace_id": workspace,
        "workflow": one.workflow,
        "version": one.version,
        "status": _read_status(status),
        "step": one.step,
        "key": one.key,
        "input": read_back(one.input),
        "stored_state": INHERITED,
        "seq": 1,
        "started_by": started_by,
        "solo": one.solo,
        "asked": 0,
        "fingerprint": one.fingerprint,
        "created_at": created_at,
        "due_at": due_at,
    }
    if one.place is not None:
        values |= one.place.describe()
    if pre_init.has_listeners(Instance) or post_init.has_listeners(Instance):
        return Instance.from_db(db.alias, _COLUMNS, list(values.values()))
    # What a model does besides in its `__init__`, column by column, takes a fifth of a start.
    made = Instance.__new__(Instance)
    made.__dict__.update(values, _state=ModelState())
    made._state.adding, made._state.db = False, db.alias
    return made


def _find_holder(key: str, workspace: str | None) -> Instance | None:
    holder = store.find_holder(reach_engine(), key, current_workspace(workspace))
    return Instance.objects.using(reach_engine().alias).filter(pk=holder).first() if holder else None


def check_workspace(scope: str | int) -> None:
    """Raise where there is no such workspace; asked only when something was not found."""
    if not store.workspace_exists(reach_engine(), scope):
        raise UnknownWorkspace(scope)


def reach_engine() -> BaseDatabaseWrapper:
    """The connection that engine rows are written on."""
    return connections[router.db_for_write(Instance)]
