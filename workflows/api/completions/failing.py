"""Questions that cannot be answered any more, and items that are asked once more.

Lives here: `workflows.fail` and `workflows.retry_item`, and failing by whoever has to send what is asked.
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
from workflows.api.completions.completion import find_question, find_to_fail
from workflows.api.completions.completion_checks import Completion
from workflows.api.instances import retry
from workflows.definitions.channel import find_door
from workflows.exceptions import AnswerElsewhere, InteractionResolved, NotRetryable, UnknownInteraction
from workflows.lifecycle import InteractionStatus, Status, UnitStatus
from workflows.models import Instance
from workflows.store import ItemFailure
from workflows.units.item_outcomes import follow_up
from workflows.values.json_text import check_text

#: Characters of a reason.
MOST_REASON = 10_000


def fail(target: Any, reason: str, *, workspace: str | None = None, actor: object = "") -> Completion:
    """Report that a pending question cannot be answered: the wait ends with `UnitFailed`, which tells the reason.

    Of a list only the item fails; what that does to the others is said by `on_item=`.

    >>> fail("pay.3-7", "no such account").signal_id
    'pay.3-7'
    """
    db = connections[router.db_for_write(Instance)]
    said, by = check_text(reason, "the reason", limit=MOST_REASON), read_actor(actor)
    found = find_question(db, target, workspace)
    if found is None or found.status is InteractionStatus.CANCELLED:
        raise UnknownInteraction
    if found.owned:
        raise AnswerElsewhere(found.channel, find_door(found.channel))
    if found.status is not InteractionStatus.PENDING:
        raise InteractionResolved(found.status.value)
    if not fail_interactions(db, [ItemFailure(found.id, said)], actor=by):
        raise InteractionResolved("answered")
    return Completion(found.id, found.signal_id, found.instance)


def fail_at(
    id: UUID,
    reason: str,
    *,
    workspace: str | int,
    door: str,
    actor: str,
    workflows: Sequence[str] | None = None,
) -> None:
    """The same for a door of the outside, which a channel's label may keep shut, and for callers of some workflows."""
    db = connections[router.db_for_write(Instance)]
    find = partial(find_to_fail, db, id, workspace=workspace, door=door, actor=actor, workflows=workflows)
    found = find()
    if not fail_interactions(db, [ItemFailure(found.id, reason)], actor=actor, door=door):
        # Somebody came first: told as an answer would be.
        find()
        raise InteractionResolved("answered")


def fail_interactions(
    db: BaseDatabaseWrapper, failures: Sequence[ItemFailure], *, actor: str = "", door: str | None = None
) -> set[UUID]:
    """End pending questions and items as failed; those that were still pending."""
    reasons = {one.id: one.reason for one in failures}
    single, items = store.sort_questions(db, sorted(reasons))
    failed = set()
    for id in single:
        if store.retrying(db, partial(store.fail_question, db, id, reasons[id], actor=actor)):
            failed.add(id)
    if items:
        batch = [ItemFailure(id, reasons[id]) for id in items]
        ended = store.retrying(db, partial(store.fail_items, db, batch, actor=actor, door=door))
        follow_up(db, ended)
        failed |= ended.how.keys()
    return failed


def retry_item(target: Any, *, workspace: str | None = None, actor: object = "") -> None:
    """Ask a failed or expired item of a list once more; its unit has to be open still, as it is under "partial".

    An item that was answered, and whose line has failed, keeps its answer: the line is retried.

    >>> retry_item("pay.3-7")
    """
    db = connections[router.db_for_write(Instance)]
    found = find_question(db, target, workspace)
    if found is None:
        raise UnknownInteraction
    by = read_actor(actor)
    if found.lines and found.status is InteractionStatus.COMPLETED:
        line = Instance.objects.using(db.alias).filter(unit=found.unit, item=found.index).first()
        if line is not None and line.status == Status.FAILED:
            retry(line, actor=by)
            return
    result = store.retrying(db, lambda: store.retry_item(db, found.id, actor=by))
    if result is None:
        raise NotRetryable(found.instance, "it is no item of a list: retry() the instance", item=found.signal_id)
    unit, status, unit_status, done = result
    if done:
        store.admit_items(db, unit)
        return
    if status not in (InteractionStatus.FAILED, InteractionStatus.EXPIRED):
        problem = f"it is {status}; only a failed or expired item can be asked once more"
    else:
        over = "is over" if unit_status is UnitStatus.COMPLETED else f"has {unit_status}"
        problem = f"its unit {over}: retry() the instance, which asks again what was not answered"
    raise NotRetryable(found.instance, problem, item=found.signal_id)
