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

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor, read_address, read_line, read_many, read_moment, read_signal
from workflows.api.signals import (
    Delivery,
    check_starting,
    deliver_lines,
    deliver_starting,
    group_by_workspace,
    tell_delivery,
)
from workflows.api.starting import check_workspace, insert_all, insert_batches, plan_start, reach_engine, start_or_find
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.flow.known_limits import check_queue
from workflows.exceptions import (
    NO_WORKER,
    InstanceCancelled,
    InstanceFailed,
    InvalidCall,
    NoReader,
    NoTarget,
    NotCancellable,
    NotFinished,
    NotRetryable,
)
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.store import Address, NewInstance, SentSignal
from workflows.values.durations import parse_delay
from workflows.values.json_text import check_text

#: Seconds between two looks of a call that waits for a result.
LOOK_EVERY = 0.05


def start(
    workflow: Any,
    input: Any = None,
    *,
    key: str | None = None,
    workspace: str | None = None,
    run_at: datetime | None = None,
    queue: str | None = None,
    priority: int | None = None,
    actor: object = "",
) -> Instance:
    """Start an instance; it runs as soon as a worker looks, and not before the caller's commit.

    >>> start("Ship", {"order": 1}, key="order-1").status
    <Status.RUNNABLE: 'runnable'>
    """
    check_queue(queue)
    planned = plan_start(workflow, input, key, "the input", queue, priority)
    return _start(planned, workspace, actor, read_moment(run_at))


def start_as(
    id: UUID, workflow: Any, input: Any, *, key: str | None = None, workspace: str | None = None, actor: object = ""
) -> Instance:
    """Start one under an id that its caller has made with `make_uuid7`, because the input has to name it.

    >>> start_as(UUID(int=7), "Ship", {"order": 7}).id == UUID(int=7)
    True
    """
    return _start(replace(plan_start(workflow, input, key, "the input"), id=id), workspace, actor, None)


def start_many(
    workflow: Any,
    inputs: Iterable[Any],
    *,
    keys: Sequence[str | None] | None = None,
    workspace: str | None = None,
    on_duplicate: Literal["raise", "return"] = "raise",
    queue: str | None = None,
    priority: int | None = None,
    actor: object = "",
) -> list[Instance]:
    """Start many in few statements. With `on_duplicate="raise"` a taken key starts none of them.

    >>> len(start_many("Ship", [{"order": n} for n in range(3)]))
    3
    """
    registry.resolve(workflow)
    check_queue(queue)
    listed = read_many(inputs, "inputs")
    named = [None] * len(listed) if keys is None else read_many(keys, "keys")
    if len(named) != len(listed):
        raise InvalidCall(f"keys has {len(named)} entries for {len(listed)} inputs; give one per input (or None)")
    if on_duplicate not in ("raise", "return"):
        raise InvalidCall(f'on_duplicate is "raise" or "return", not {on_duplicate!r}')
    planned = [
        plan_start(workflow, value, key, f"input {n}", queue, priority)
        for n, (value, key) in enumerate(zip(listed, named, strict=True))
    ]
    if on_duplicate == "return":
        return start_or_find(planned, workspace, actor)

    def write() -> list[Instance]:
        started = insert_all(planned, workspace, actor, None)
        return [started[one.id] for one in planned]

    return store.in_transaction(reach_engine(), write)


def signal(
    target: Instance | UUID | str,
    name: str,
    payload: Any = None,
    *,
    dedup_key: str | None = None,
    workspace: str | None = None,
    actor: object = "",
    start: Any = None,
    input: Any = None,
) -> Delivery:
    """Deliver a signal: by id to an Instance or UUID, by correlation key to a str.

    With `start`, a workflow, a key that no live instance holds is taken by a new one first, which is started with
    `input` in the same transaction.

    >>> signal("order-1", "payment_confirmed", {"amount": 5}, dedup_key="evt_1").duplicate
    False
    """
    to = read_address(target, workspace)
    text = read_signal(name, payload, dedup_key, conf.max_body)
    db, source = reach_engine(), read_actor(actor)
    if start is not None:
        check_starting(target, registry.resolve(start))
        planned = plan_start(start, input, str(target), "the input")
        sent = SentSignal(str(target), name, text, dedup_key)
        return deliver_starting(db, to, sent, source, lambda: insert_batches([planned], workspace, actor, None))
    if input is not None:
        raise InvalidCall("input= is what a new instance is started with: name its workflow as start=, or leave it out")
    deaf = registry.list_deaf()
    delivered = store.retrying(db, lambda: store.deliver(db, to, name, text, dedup=dedup_key, source=source, deaf=deaf))
    if delivered is None:
        check_workspace(to.workspace)
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
    db, limit = reach_engine(), conf.max_body
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
            check_workspace(scope)
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
    id = find_awaited(instance, workspace, waits=patience > 0)
    until = time.monotonic() + patience
    while True:
        left = until - time.monotonic()
        if (ended := look_for_end(id, last=left <= 0)) is not None:
            return ended.result
        time.sleep(min(LOOK_EVERY, left))


def find_awaited(instance: Instance | UUID | str, workspace: str | None, *, waits: bool) -> UUID:
    """Whose result is asked for. To wait for it inside a transaction would be in vain.

    >>> find_awaited(shipped_instance, None, waits=False) == shipped_instance.id
    True
    """
    db, id, _ = _find(instance, workspace)
    if waits and db.in_atomic_block:
        raise InvalidCall(
            "result(timeout=…) inside a transaction would wait for work that cannot see this transaction; "
            "call it after the commit, or with timeout=0"
        )
    return id


def look_for_end(id: UUID, *, last: bool) -> Instance | None:
    """The instance, once it is done; None while it lives, unless this is the last look.

    >>> look_for_end(shipped_instance.id, last=False) == shipped_instance
    True
    """
    current = _load(id)
    if current.status == Status.FAILED:
        raise InstanceFailed(current)
    if current.status == Status.CANCELLED:
        raise InstanceCancelled(current)
    if current.ended:
        return current
    if last:
        idle = current.status == Status.RUNNABLE and not store.list_alive(reach_engine())
        raise NotFinished(current, NO_WORKER if idle else "")
    return None


def _start(planned: NewInstance, workspace: str | None, actor: object, run_at: datetime | None) -> Instance:
    return insert_all([planned], workspace, actor, run_at)[planned.id]


def _find(instance: Any, workspace: str | None) -> tuple[BaseDatabaseWrapper, UUID, UUID | None]:
    """The connection, and the addressed instance's id and parent."""
    db, to = reach_engine(), read_address(instance, workspace)
    found = store.find_instance(db, to)
    if found is None:
        check_workspace(to.workspace)
        raise NoTarget(to.value)
    return db, *found


def _why_not_retried(instance: Instance) -> str:
    if instance.status != Status.FAILED:
        return f"it is {instance.status}; only a failed instance can be retried"
    if instance.spawn_no is not None:
        return "its parent has already counted it as failed; retry the parent, or start it anew"
    return f"another live instance holds the key {instance.key!r}"


def _load(id: Any) -> Instance:
    found: Instance = Instance.objects.using(reach_engine().alias).get(pk=id)
    return found
