"""An `Approval` as JSON and back: what a hook made in a request, a worker asks for a moment later.

Lives here: the two directions. What must not: what is proposed (`proposals`) and what becomes of it (`applying`).
Invariant owned: what is read back asks the same people by the same rule, or nobody at all; never more than were named.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import models, router

from approvals.asking.approval import Approval
from approvals.asking.opening import MAX_USERS
from approvals.exceptions import InvalidApproval
from approvals.people.lookup import find_users
from approvals.people.person import Person
from approvals.rules import dump_outcomes, load_outcomes, load_quorum
from approvals.rules.escalation import Ladder, RungAction, Step


def dump_approval(approval: Approval) -> dict[str, Any]:
    """Everything but the subject and its change, which are kept beside it.

    >>> dump_approval(Approval("Change the price", groups=["finance"]))["groups"]
    ['finance']
    """
    if approval.on_decision:
        told = "what happens once it is approved is known: leave it out"
        raise InvalidApproval("on_decision", approval.on_decision, told)
    if approval.schema is not None:
        told = "nobody would read what is filled in: leave it out, or write a workflow of your own"
        raise InvalidApproval("schema", approval.schema, told)
    return {
        "title": approval.title,
        "why": approval.why,
        "request": approval.request,
        "outcomes": dump_outcomes(approval.outcomes),
        "assignees": [name_key(one) for one in find_users(approval.assignees, "assignees")],
        "groups": list(approval.groups),
        "permission": approval.permission,
        "candidates": _dump_candidates(approval.candidates),
        "quorum": approval.quorum.dump(),
        "four_eyes": approval.four_eyes,
        "risk": approval.risk,
        "evidence": approval.evidence,
        "calendar": approval.ladder.calendar,
        "due": _dump_time(approval.ladder.due),
        "rungs": [_dump_rung(one) for one in approval.ladder.steps],
    }


def load_approval(
    kept: Mapping[str, Any],
    *,
    requester: Any,
    subject: models.Model | None = None,
    change: Mapping[str, Any] | None = None,
    on_decision: Any = None,
) -> Approval:
    """The approval as it was.

    >>> load_approval(dump_approval(approval), requester=ann).groups == approval.groups
    True
    """
    candidates = kept["candidates"]
    approval = Approval(
        kept["title"],
        why=kept["why"],
        subject=subject,
        change=change,
        request=kept["request"],
        outcomes=load_outcomes(kept["outcomes"]),
        assignees=_find_people("assignees", kept["assignees"]),
        groups=kept["groups"],
        permission=kept["permission"],
        candidates=_find_people("candidates", candidates) if isinstance(candidates, list) else candidates,
        quorum=load_quorum(kept["quorum"]),
        four_eyes=kept["four_eyes"],
        requester=requester,
        risk=kept["risk"],
        on_decision=on_decision,
    )
    approval.evidence = kept["evidence"]
    steps = tuple(_load_rung(one) for one in kept["rungs"])
    approval.ladder = Ladder(steps, _load_time(kept["due"]), kept["calendar"])
    return approval


def name_key(user: Person) -> str:
    """A user's key as JSON keeps it.

    >>> name_key(ann)
    '1'
    """
    return str(user.pk)


def _dump_candidates(given: Any) -> Any:
    """A rule's name, or the keys of the users that it names now."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, list):
        return [name_key(one) for one in find_users(given, "candidates")]
    keys = list(given.order_by("pk").values_list("pk", flat=True).distinct()[: MAX_USERS + 1])
    if not keys or len(keys) > MAX_USERS:
        told = f"it has to name 1 to {MAX_USERS} users; for more use a group, a permission or a rule (@candidates)"
        raise InvalidApproval("candidates", given.model.__name__, told)
    return [str(key) for key in keys]


def _find_people(option: str, keys: list[str]) -> list[Any]:
    model = get_user_model()
    rows = model._default_manager.using(router.db_for_write(model))
    found = {str(user.pk): user for user in rows.filter(pk__in=keys)} if keys else {}
    if keys and not found:  # an empty list would ask whoever may decide what names nobody
        raise InvalidApproval(option, keys, "none of these users is there any more")
    return [found[key] for key in keys if key in found]


def _dump_rung(step: Step) -> dict[str, Any]:
    action = step.action
    told = {"do": action.do, "group": action.group, "user": action.user, "outcome": action.outcome}
    return {"after": _dump_time(step.after), **{name: value for name, value in told.items() if value}}


def _load_rung(kept: Mapping[str, Any]) -> Step:
    action = RungAction(**{name: value for name, value in kept.items() if name != "after"})
    return Step(_load_time(kept["after"]), action)


def _dump_time(given: Any) -> Any:
    """A day of a calendar, a stretch of time and a moment stay what they are."""
    if isinstance(given, timedelta):
        return {"seconds": given.total_seconds()}
    if isinstance(given, datetime):
        return {"moment": given.isoformat()}
    return given


def _load_time(kept: Any) -> Any:
    if not isinstance(kept, Mapping):
        return kept
    return timedelta(seconds=kept["seconds"]) if "seconds" in kept else datetime.fromisoformat(kept["moment"])
