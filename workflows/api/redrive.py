"""`redrive`: send again what could not be sent, or what got lost after it was sent.

Lives here: which questions are meant, and why one cannot be sent again. Invariants owned: a question that is pending
keeps its idempotency key and its resume URL, so whoever has had it already sees that it is the same; one whose workflow
has gone on without it stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import CharField, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat

from workflows import store
from workflows.api import instances
from workflows.api.arguments import read_actor
from workflows.clock import read_now
from workflows.definitions.question import check_signal_id
from workflows.definitions.workspace import current_workspace
from workflows.exceptions import InvalidCall, NotRedrivable, NotRetryable, UnknownInteraction, show
from workflows.lifecycle import InteractionStatus, Status, UnitStatus
from workflows.models import AwaitUnit, Checkpoint, Instance, Interaction, Signal
from workflows.values.durations import parse_delay

#: What is read of each; payloads stay where they are.
_FIELDS = ("id", "status", "item", "queued", "instance_id", "workspace_id", "signal_id", "unit_id", "channel")


def redrive(
    target: str | UUID | Interaction | None = None,
    *,
    unit: AwaitUnit | UUID | None = None,
    workflow: str | None = None,
    channel: str | None = None,
    since: datetime | timedelta | str | float | None = None,
    reason: str | None = None,
    workspace: str | None = None,
    actor: object = "",
) -> list[UUID]:
    """Send questions again: one, those of a unit, or all that fit; the ids of those that are.

    A single one may be pending or failed. Of many only those are meant that failed to be sent, or wait to be tried
    again: `since` is a moment or how long ago, `reason` a part of why. Those that cannot be sent any more are left out.

    >>> redrive(channel="webhook", since="2h", reason="answered 503")
    [UUID('01995c0e-…')]
    """
    db, by = connections[router.db_for_write(Interaction)], read_actor(actor)
    if target is not None:
        if any(one is not None for one in (unit, workflow, channel, since, reason)):
            raise InvalidCall("redrive() takes one question or what many have in common, not both")
        row = _find(db, target, workspace)
        _send_again(db, row, by)
        return [row.pk]
    rows = list_unsent(
        unit=unit, workflow=workflow, channel=channel, since=since, reason=reason, workspace=workspace
    ).using(db.alias)
    return list(_redrive_each(db, list(rows.only(*_FIELDS)), by))


def list_unsent(
    *,
    unit: AwaitUnit | UUID | None = None,
    workflow: str | None = None,
    channel: str | None = None,
    since: datetime | timedelta | str | float | None = None,
    reason: str | None = None,
    workspace: str | None = None,
) -> QuerySet[Any]:
    """The questions that failed to be sent, or whose last try failed; the oldest first.

    >>> list_unsent(channel="webhook").count()
    3
    """
    failed = Q(status=InteractionStatus.FAILED, dispatch_error__isnull=False) & _is_missed()
    waiting = Q(status=InteractionStatus.PENDING, dispatch_at__isnull=False, dispatch_error__isnull=False)
    rows = Interaction.objects.filter(failed | waiting)
    if unit is not None:
        rows = rows.filter(unit_id=unit.pk if isinstance(unit, AwaitUnit) else unit)
    if workflow is not None:
        rows = rows.filter(instance__workflow=workflow)
    if channel is not None:
        rows = rows.filter(channel=channel)
    if since is not None:
        moment = since if isinstance(since, datetime) else read_now() - timedelta(seconds=parse_delay(since))
        rows = rows.filter(Q(closed_at__gte=moment) | Q(closed_at__isnull=True, created_at__gte=moment))
    if reason is not None:
        rows = rows.filter(dispatch_error__icontains=reason)
    scope = current_workspace(workspace)
    rows = rows.filter(workspace_id=scope) if isinstance(scope, int) else rows.filter(workspace__slug=scope)
    return rows.order_by("id")


def _is_missed() -> Q:
    """Whether the workflow still wants a question that failed: it has not gone on, or failed of just this one."""
    name = Concat(Value("holdpoint:unit:"), Cast(OuterRef("unit_id"), CharField()))
    unread = Exists(Signal.objects.filter(instance=OuterRef("instance_id"), name=name, consumed_at__isnull=True))
    # A function that caught the failure keeps the checkpoint of the wait.
    caught = Exists(Checkpoint.objects.filter(instance=OuterRef("instance_id"), unit=OuterRef("unit_id"), blamed=False))
    failed_of_it = Q(instance__status=Status.FAILED) & ~caught
    not_gone_on = Q(instance__status=Status.RUNNABLE, item=False)
    return Q(unit__status=UnitStatus.OPEN) | (Q(unit__status=UnitStatus.FAILED) & unread & (failed_of_it | not_gone_on))


def _redrive_each(db: BaseDatabaseWrapper, rows: list[Interaction], actor: str) -> Iterator[UUID]:
    pending = [one.pk for one in rows if one.status == InteractionStatus.PENDING]
    yield from sorted(store.send_again(db, pending)) if pending else ()
    for row in rows:
        if row.pk not in pending:
            try:
                _send_again(db, row, actor)
            except NotRedrivable:
                continue
            yield row.pk


def _find(db: BaseDatabaseWrapper, target: object, workspace: str | None) -> Interaction:
    rows: QuerySet[Any] = Interaction.objects.using(db.alias).only(*_FIELDS)
    if isinstance(target, Interaction):
        found = rows.filter(pk=target.pk).first()
    else:
        scope = current_workspace(workspace)
        rows = rows.filter(workspace_id=scope) if isinstance(scope, int) else rows.filter(workspace__slug=scope)
        if isinstance(target, UUID):
            found = rows.filter(pk=target).first()
        elif isinstance(target, str):
            found = rows.filter(signal_id=check_signal_id(target)).order_by("-id").first()
        else:
            raise InvalidCall(f"{show(target)} is no question: pass its signal id, its UUID or the Interaction")
    if found is None:
        raise UnknownInteraction
    question: Interaction = found
    return question


def _send_again(db: BaseDatabaseWrapper, row: Interaction, actor: str) -> None:
    if row.status == InteractionStatus.PENDING:
        if row.queued:
            raise NotRedrivable(row.pk, "it has not been asked yet; it is sent when its turn comes")
        if not store.send_again(db, [row.pk]):
            raise NotRedrivable(row.pk, f"its channel {row.channel!r} sends nothing, or it was answered a moment ago")
    elif row.status != InteractionStatus.FAILED:
        raise NotRedrivable(row.pk, f"it is {row.status}")
    elif row.item:
        _ask_item_again(db, row, actor)
    else:
        _ask_again(db, row, actor)


def _ask_again(db: BaseDatabaseWrapper, row: Interaction, actor: str) -> None:
    """A single question that failed: its instance waits for it again."""

    def work() -> None:
        with store.atomic(db):
            status = store.lock_instance(db, row.instance_id)
            waits = status in (Status.FAILED, Status.RUNNABLE)
            if not waits or row.pk not in store.revive_questions(db, row.instance_id, live=status is Status.RUNNABLE):
                raise NotRedrivable(row.pk, "its workflow has gone on without it, or has ended otherwise")
            if status is Status.FAILED and not store.reopen(db, row.instance_id, actor=actor):
                raise NotRedrivable(
                    row.pk, "its instance cannot be retried: its parent has counted it, or its key is taken"
                )

    try:
        store.retrying(db, work)
    except IntegrityError as error:
        told = f"another pending question has its signal id {row.signal_id!r}"
        raise NotRedrivable(row.pk, told) from error


def _ask_item_again(db: BaseDatabaseWrapper, row: Interaction, actor: str) -> None:
    """An item that failed: its unit is still open, or its instance failed of it."""
    again = store.retrying(db, lambda: store.retry_item(db, row.pk, actor=actor))
    if again is not None and again[3]:
        store.admit_items(db, row.unit_id)
        return
    if not Interaction.objects.using(db.alias).filter(_is_missed(), pk=row.pk).exists():
        raise NotRedrivable(row.pk, "its unit is over, and its workflow has gone on")
    try:
        instances.retry(Instance.objects.using(db.alias).get(pk=row.instance_id), actor=actor)
    except NotRetryable as error:
        raise NotRedrivable(row.pk, str(error)) from error
