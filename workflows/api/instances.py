"""The calls other Django code makes: start, signal, cancel, retry, result.

Lives here: the public calls, and wording what the store answers. Invariants owned: nothing is stored
unless every argument is good, and every call takes part in the caller's own transaction: rolled back
means never started, never sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor, read_address, read_line, read_many, read_moment, read_signal
from workflows.api.origin import find_source
from workflows.api.signals import BATCH, Delivery, deliver_lines, group_by_workspace, tell_delivery
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.workspace import current_workspace
from workflows.engine.planning import plan_instance
from workflows.exceptions import (
    NO_WORKER,
    DuplicateKey,
    InstanceCancelled,
    InstanceFailed,
    InvalidCall,
    NoReader,
    NoTarget,
    NotCancellable,
    NotFinished,
    NotRetryable,
    UnknownWorkspace,
)
from workflows.fields import INHERITED
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.store import Address, NewInstance, SentSignal, Source
from workflows.values.durations import parse_delay
from workflows.values.json_text import check_text, read_back


def start(
    workflow: Any,
    input: Any = None,
    *,
    key: str | None = None,
    workspace: str | None = None,
    run_at: datetime | None = None,
    actor: object = "",
) -> Instance:
    """Start an instance; it runs as soon as a worker looks, and not before the caller's commit.

    >>> start("Ship", {"order": 1}, key="order-1").status
    <Status.RUNNABLE: 'runnable'>
    """
    return _start(_plan(workflow, input, key, "the input"), workspace, actor, read_moment(run_at))


def start_as(
    id: UUID, workflow: Any, input: Any, *, key: str | None = None, workspace: str | None = None, actor: object = ""
) -> Instance:
    """Start one under an id that its caller has made with `make_uuid7`, because the input has to name it.

    >>> start_as(UUID(int=7), "Ship", {"order": 7}).id == UUID(int=7)
    True
    """
    return _start(replace(_plan(workflow, input, key, "the input"), id=id), workspace, actor, None)


def start_many(
    workflow: Any,
    inputs: Iterable[Any],
    *,
    keys: Sequence[str | None] | None = None,
    workspace: str | None = None,
    on_duplicate: Literal["raise", "return"] = "raise",
    actor: object = "",
) -> list[Instance]:
    """Start many in few statements. With `on_duplicate="raise"` a taken key starts none of them.

    >>> len(start_many("Ship", [{"order": n} for n in range(3)]))
    3
    """
    registry.resolve(workflow)
    listed = read_many(inputs, "inputs")
    named = [None] * len(listed) if keys is None else read_many(keys, "keys")
    if len(named) != len(listed):
        raise InvalidCall(f"keys has {len(named)} entries for {len(listed)} inputs; give one per input (or None)")
    if on_duplicate not in ("raise", "return"):
        raise InvalidCall(f'on_duplicate is "raise" or "return", not {on_duplicate!r}')
    planned = [
        _plan(workflow, value, key, f"input {n}") for n, (value, key) in enumerate(zip(listed, named, strict=True))
    ]
    if on_duplicate == "return":
        return _start_or_find(planned, workspace, actor)

    def write() -> list[Instance]:
        started = _insert_all(planned, workspace, actor, None)
        return [started[one.id] for one in planned]

    return store.in_transaction(_db(), write)


def signal(
    target: Instance | UUID | str,
    name: str,
    payload: Any = None,
    *,
    dedup_key: str | None = None,
    workspace: str | None = None,
    actor: object = "",
) -> Delivery:
    """Deliver a signal: by id to an Instance or UUID, by correlation key to a str.

    >>> signal("order-1", "payment_confirmed", {"amount": 5}, dedup_key="evt_1").duplicate
    False
    """
    to = read_address(target, workspace)
    text = read_signal(name, payload, dedup_key, conf.max_body)
    db, source = _db(), read_actor(actor)
    deaf = registry.list_deaf()
    delivered = store.retrying(db, lambda: store.deliver(db, to, name, text, dedup=dedup_key, source=source, deaf=deaf))
    if delivered is None:
        _check_workspace(to.workspace)
        raise NoTarget(target if not isinstance(target, Instance) else target.pk)
    if delivered.deaf is not None:
        raise NoReader(delivered.deaf)
    return tell_delivery(delivered)


def signal_many(
    signals: Iterable[Sequence[Any]], *, workspace: str | None = None, actor: object = ""
) -> list[Delivery]:
    """Deliver `(target, name[, payload[, dedup_key]])` lines in few statements; one answer per line.

    A batch of lines commits at a time, so give dedup keys where a repeated call must not deliver twice,
    or wrap the call in `transaction.atomic()`.

    >>> [d.refused for d in signal_many([("order-1", "paid", {}), ("nobody", "paid")])]
    [None, 'no_target']
    """
    db, limit = _db(), conf.max_body
    lines: list[tuple[int, Address, SentSignal]] = []
    for position, row in enumerate(read_many(signals, "signals")):
        target, name, payload, dedup_key = read_line(row, position)
        to = read_address(target, workspace)
        text = read_signal(name, payload, dedup_key, limit)
        lines.append((position, to, SentSignal(str(to.value), name, text, dedup_key)))
    answers = [Delivery(None, refused="no_target")] * len(lines)
    for scope, mine in group_by_workspace(db, lines).items():
        deliver_lines(db, mine, scope, read_actor(actor), answers)
        if all(answers[position].id is None for position, _, _ in mine):
            _check_workspace(scope)
    return answers


def cancel(
    instance: Instance | UUID | str, reason: str = "", *, workspace: str | None = None, actor: object = ""
) -> Instance:
    """Cancel an instance and all its children, in one transaction.

    >>> cancel("order-1", "customer withdrew").status
    <Status.CANCELLED: 'cancelled'>
    """
    check_text(reason, "the reason", limit=10_000, blank=True)
    by, tried = read_actor(actor), None
    while True:
        db, id, parent = _find(instance, workspace)
        if store.cancel_tree(db, id, parent, reason=reason, actor=by):
            return _load(id)
        # A key may have changed hands while we waited for its holder's lock: then its new holder is meant.
        if not isinstance(instance, str) or id == tried:
            raise NotCancellable(id, _load(id).status)
        tried = id


def retry(instance: Instance | UUID, *, workspace: str | None = None, actor: object = "") -> Instance:
    """Run a failed instance again from the step it failed in, with its state and its signals.

    >>> retry(failed_instance).attempt
    0
    """
    db, id, _ = _find(instance, workspace)
    by = read_actor(actor)
    if not store.retrying(db, lambda: store.reopen(db, id, actor=by)):
        raise NotRetryable(id, _why_not_retried(_load(id)))
    return _load(id)


def result(instance: Instance | UUID | str, timeout: object = 0, *, workspace: str | None = None) -> Any:
    """The result of an instance that is done; waits up to `timeout` for it.

    >>> result(shipped_instance)
    {'paid': True}
    """
    patience = parse_delay(timeout)
    db, id, _ = _find(instance, workspace)
    if patience and db.in_atomic_block:
        raise InvalidCall(
            "result(timeout=…) inside a transaction would wait for work that cannot see this transaction; "
            "call it after the commit, or with timeout=0"
        )
    until = time.monotonic() + patience
    while True:
        current = _load(id)
        if current.ended:
            break
        left = until - time.monotonic()
        if left <= 0:
            idle = current.status == Status.RUNNABLE and not store.list_alive(db)
            raise NotFinished(current, NO_WORKER if idle else "")
        time.sleep(min(0.05, left))
    if current.status == Status.FAILED:
        raise InstanceFailed(current)
    if current.status == Status.CANCELLED:
        raise InstanceCancelled(current)
    return current.result


def _start(planned: NewInstance, workspace: str | None, actor: object, run_at: datetime | None) -> Instance:
    return _insert_all([planned], workspace, actor, run_at)[planned.id]


def _plan(workflow: Any, input: Any, key: str | None, what: str) -> NewInstance:
    definition = registry.resolve(workflow)
    if key is not None:
        check_text(key, "a key")
    return plan_instance(definition, {} if input is None else input, key, what)


def _start_or_find(planned: list[NewInstance], workspace: str | None, actor: object) -> list[Instance]:
    """Each started, or its key's live holder. A holder that ends in between frees its key: then started after all."""
    db, scope = _db(), current_workspace(workspace)
    found: dict[UUID, Instance] = {}
    for _ in range(store.KEY_TRIES):
        missing = [one for one in planned if one.id not in found]
        if not missing:
            break
        found |= _insert(missing, workspace, actor, None)
        taken = {str(one.key): one.id for one in missing if one.id not in found}
        holders = store.find_holders(db, sorted(taken), scope) if taken else {}
        rows = Instance.objects.using(db.alias).in_bulk(holders.values())
        keyed = {key: rows[id] for key, id in holders.items() if id in rows}
        found |= {one.id: keyed[str(one.key)] for one in missing if one.id not in found and str(one.key) in keyed}
    for one in planned:
        if one.id not in found:
            raise DuplicateKey(str(one.key), None)
    return [found[one.id] for one in planned]


def _insert_all(
    planned: Sequence[NewInstance], workspace: str | None, actor: object, run_at: datetime | None
) -> dict[UUID, Instance]:
    """Each started, unless a live holder has its key. One that has just ended holds nothing: then once more."""
    started: dict[UUID, Instance] = {}
    missing = list(planned)
    for _ in range(store.KEY_TRIES):
        started |= _insert(missing, workspace, actor, run_at)
        missing = [one for one in missing if one.id not in started]
        if not missing:
            return started
        for one in missing:
            if (holder := _find_holder(str(one.key), workspace)) is not None:
                raise DuplicateKey(str(one.key), holder)
    raise DuplicateKey(str(missing[0].key), None)


def _insert(
    planned: Sequence[NewInstance], workspace: str | None, actor: object, run_at: datetime | None
) -> dict[UUID, Instance]:
    db, scope, by = _db(), current_workspace(workspace), read_actor(actor)
    source = find_source(by)
    started: dict[UUID, Instance] = {}
    for begin in range(0, len(planned), BATCH):
        batch = planned[begin : begin + BATCH]
        rows = _insert_batch(db, batch, scope, by, run_at, source)
        started.update((one.id, _fresh(one, rows[one.id], by, db)) for one in batch if one.id in rows)
    if planned and not started:
        _check_workspace(scope)
    return started


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
    _, workspace, status, created_at, due_at, _ = row
    instance = Instance(
        id=one.id,
        workspace_id=workspace,
        workflow=one.workflow,
        version=one.version,
        status=Instance._meta.get_field("status").to_python(status),
        step=one.step,
        key=one.key,
        input=read_back(one.input),
        stored_state=INHERITED,
        seq=1,
        started_by=started_by,
        solo=one.solo,
        asked=0,
        fingerprint=one.fingerprint,
        created_at=created_at,
        due_at=due_at,
    )
    instance._state.adding = False
    instance._state.db = db.alias
    return instance


def _find_holder(key: str, workspace: str | None) -> Instance | None:
    holder = store.find_holder(_db(), key, current_workspace(workspace))
    return Instance.objects.using(_db().alias).filter(pk=holder).first() if holder else None


def _find(instance: Any, workspace: str | None) -> tuple[BaseDatabaseWrapper, UUID, UUID | None]:
    """The connection, and the addressed instance's id and parent."""
    db, to = _db(), read_address(instance, workspace)
    found = store.find_instance(db, to)
    if found is None:
        _check_workspace(to.workspace)
        raise NoTarget(to.value)
    return db, *found


def _why_not_retried(instance: Instance) -> str:
    if instance.status != Status.FAILED:
        return f"it is {instance.status}; only a failed instance can be retried"
    if instance.spawn_no is not None:
        return "its parent has already counted it as failed; retry the parent, or start it anew"
    return f"another live instance holds the key {instance.key!r}"


def _check_workspace(scope: str | int) -> None:
    if not store.workspace_exists(_db(), scope):
        raise UnknownWorkspace(scope)


def _load(id: Any) -> Instance:
    found: Instance = Instance.objects.using(_db().alias).get(pk=id)
    return found


def _db() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(Instance)]
