"""Completing an interaction, by whatever door: the checks in their order, then one statement.

Invariant owned: a refused completion changes nothing, except that one which comes too late fires the deadline that has
passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.completions.completion_checks import (
    AddressedAnswer,
    By,
    Completion,
    check_access,
    drop_late,
    judge,
    record_refused,
    takes_list,
    write_completion,
)
from workflows.api.idempotency import make_once
from workflows.api.refused import count_dropped, count_refusal
from workflows.conf import conf
from workflows.definitions.question import check_signal_id
from workflows.definitions.workspace import current_workspace
from workflows.exceptions import (
    InteractionRefused,
    InteractionResolved,
    InvalidCall,
    UnknownInteraction,
    UnknownWorkspace,
    WorkflowError,
    show,
)
from workflows.lifecycle import InteractionStatus
from workflows.models import Instance, Interaction
from workflows.store import Addressed, Once
from workflows.units.item_outcomes import answer_item
from workflows.values.json_text import MISSING, dump_value


def complete(
    target: str | UUID | Interaction,
    data: Any,
    *,
    workspace: str | None = None,
    actor: object = "",
    idempotency_key: str | None = None,
    version: int | None = None,
) -> Completion:
    """Answer a pending interaction: by its signal id, or the interaction itself.

    >>> complete("approval-7", {"approved": True}).replayed
    False
    """
    within, line = read_line(target, data, idempotency_key, version, current_workspace(workspace), given=workspace)
    return complete_at(
        line.by, line.value, data, workspace=within, door=None, actor=read_actor(actor), once=line.once, version=version
    )


def find_question(db: BaseDatabaseWrapper, target: object, workspace: str | None) -> Addressed | None:
    """The question that a caller of Python means; None if there is none."""
    scope, line = read_line(target, MISSING, None, None, current_workspace(workspace), given=workspace)
    meant = store.find_interaction(db, line.by, line.value, workspace=scope)
    if meant is None:
        raise UnknownWorkspace(scope)
    return meant.question


def find_to_fail(
    db: BaseDatabaseWrapper,
    id: UUID,
    *,
    workspace: str | int,
    door: str,
    actor: str,
    workflows: Sequence[str] | None = None,
) -> Addressed:
    """The question of which a door of the outside reports that it cannot be answered; checked as an answer would be."""
    target = store.find_interaction(db, "id", id, workspace=workspace, workflows=workflows)
    if target is None:
        raise UnknownWorkspace(workspace)
    found = target.question
    if found is None or found.status is InteractionStatus.CANCELLED:
        refused = UnknownInteraction()
        if found is None:
            count_refusal(workspace if isinstance(workspace, int) else None, refused)
        else:
            record_refused(db, found, actor, door, refused, later=True)
        raise refused
    try:
        check_access(db, found, door, actor, None)
        if found.late:
            raise InteractionResolved("expired")
    except InteractionRefused as refused:
        record_refused(db, found, actor, door, refused)
        raise
    return found


def read_line(
    target: object, data: Any, key: str | None, version: int | None, scope: str | int, *, given: str | None = None
) -> tuple[str | int, AddressedAnswer]:
    """In which workspace a question is meant, and the answer to it. An interaction's own row knows the first."""
    by: By
    value: UUID | str
    if isinstance(target, Interaction):
        scope = target.workspace_id if given is None else scope
        by, value = "id", target.pk
    elif isinstance(target, UUID):
        by, value = "id", target
    elif isinstance(target, str):
        by, value = "signal_id", check_signal_id(target)
    else:
        raise InvalidCall(f"{show(target)} is no interaction: pass its signal id, its UUID or the Interaction")
    once = None
    if key is not None:
        body = dump_value(data, "the data", conf.max_bulk_body)
        once = make_once("complete", str(value), key, body=body.encode())
    return scope, AddressedAnswer(by, value, data, once, version)


def complete_at(
    by: By,
    value: UUID | str,
    data: Any,
    *,
    workspace: str | int,
    door: str | None,
    actor: str = "",
    once: Once | None = None,
    version: int | None = None,
    workflows: Sequence[str] | None = None,
    too_large: WorkflowError | None = None,
) -> Completion:
    """The same for a door of the outside, which a channel's label may keep shut, and for callers of some workflows.

    `too_large` is what is raised unless the question takes a list of answers.
    """
    db = connections[router.db_for_write(Instance)]
    line = AddressedAnswer(by, value, data, once, version, too_large)
    line.measure(conf.max_body)
    for _ in range(3):
        target = store.find_interaction(db, by, value, workspace=workspace, once=once, workflows=workflows)
        if target is None:
            raise UnknownWorkspace(workspace)
        ready = judge(db, line, target, workspace=workspace, door=door, actor=actor, workflows=workflows)
        if isinstance(ready, Completion):
            return ready
        answer = partial(
            answer_item if ready.found.item else store.complete_interaction,
            db,
            ready.found,
            ready.output,
            actor=actor,
            door=door,
            version=version,
            once=once,
            told="" if once is None else write_completion(ready.told),
        )
        how = store.retrying(db, answer)
        if how is InteractionStatus.COMPLETED:
            return ready.told
        if how is InteractionStatus.EXPIRED:
            raise drop_late(db, ready.found, actor, door)
        # Somebody came first: look again at what it has become.
    count_dropped(workspace if isinstance(workspace, int) else None, "resolved")
    raise InteractionResolved("answered")


def takes_many(
    by: By, value: UUID | str, *, workspace: str | int, once: Once | None = None, workflows: Sequence[str] | None = None
) -> bool:
    """Whether an answer may be larger than `MAX_BODY`: it is one of many, or was told before, whatever it was."""
    db = connections[router.db_for_write(Instance)]
    target = store.find_interaction(db, by, value, workspace=workspace, once=once, workflows=workflows)
    return target is not None and (target.told is not None or takes_list(target.question))
