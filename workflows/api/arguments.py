"""Reading what callers pass: targets, actors, moments, signals.

Invariant owned: what leaves here can be stored; a bad argument has raised, and nothing has been written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone

from workflows.definitions.workspace import current_actor, current_workspace
from workflows.exceptions import InvalidCall, InvalidTarget, show
from workflows.models import Instance
from workflows.store import Address
from workflows.values.json_text import check_signal_name, check_text, dump_value


def read_address(target: Any, workspace: str | None) -> Address:
    """By id for an Instance or UUID, by key for a str; within one workspace."""
    if isinstance(target, Instance):
        # The row itself says where it lives, unless the caller insists on a workspace.
        scope = target.workspace_id if workspace is None else current_workspace(workspace)
        return Address("id", target.pk, scope)
    if isinstance(target, UUID):
        return Address("id", target, current_workspace(workspace))
    if isinstance(target, str):
        return Address("key", check_text(target, "a correlation key"), current_workspace(workspace))
    raise InvalidTarget(target)


def read_signal(name: str, payload: Any, dedup_key: str | None, limit: int) -> str:
    """The payload as JSON text, when the whole signal is in order."""
    check_signal_name(name, "a signal's name")
    if dedup_key is not None:
        check_signal_name(dedup_key, "a dedup key")
    return dump_value(payload, f"the payload of signal {name!r}", limit)


def read_line(row: Any, position: int) -> tuple[Any, str, Any, str | None]:
    """One line of `signal_many`, its optional parts filled in."""
    if isinstance(row, str | bytes) or not isinstance(row, Sequence) or not 2 <= len(row) <= 4:
        raise InvalidCall(f"line {position} is not (target, name[, payload[, dedup_key]]): {show(row)}")
    target, name, payload, dedup_key = (*row, None, None)[:4]
    return target, name, payload, dedup_key


def read_many(values: Any, what: str) -> list[Any]:
    """The items of a bulk call; a mapping or a text is one value that somebody forgot to put into a list."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidCall(f"{what} must be a list, not {type(values).__name__} ({show(values)})")
    return list(values)


def read_actor(actor: object) -> str:
    """A text, or a user as `user:<primary key>`: a name may change, its account stays.

    Without one it is whoever acts here, such as a hook.
    """
    if isinstance(actor, str):
        return check_text(actor, "actor", limit=255, blank=True) or current_actor()
    if actor is None:
        return current_actor()
    pk = getattr(actor, "pk", None)
    if pk is None:
        raise InvalidCall(f"actor must be text or a saved user, not {show(actor)}")
    return f"user:{pk}"


def read_moment(run_at: object) -> datetime | None:
    """A moment with a time zone, or None."""
    if run_at is None:
        return None
    if not isinstance(run_at, datetime):
        raise InvalidCall(f"run_at must be a datetime, not {type(run_at).__name__} ({show(run_at)})")
    if timezone.is_naive(run_at):
        if settings.USE_TZ:
            raise InvalidCall("run_at has no time zone; use django.utils.timezone.now() or make_aware()")
        return timezone.make_aware(run_at)
    try:
        return run_at.astimezone(UTC)
    except OverflowError as error:
        raise InvalidCall(f"run_at is beyond what a datetime holds in UTC: {show(run_at)}") from error
