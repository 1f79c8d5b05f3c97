"""Proposing a change, an addition or a deletion; and what waits for approval already.

Lives here: starting the built-in workflow, and finding the proposals about an object. Must not live here: pages
(`admin`) and doing what was approved (`applying`). Invariants owned: an object has at most `MAX_PENDING` proposals at a
time, each in a place of its own, so a form that is sent twice proposes once; a proposal and what a page says of it are
one row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from django.db import models, router
from django.utils.translation import gettext

from approvals.asking.approval import Approval
from approvals.asking.opening import list_asked
from approvals.exceptions import ApprovalError
from approvals.models import Review
from approvals.required.core.frozen_approval import dump_approval, name_key
from approvals.required.core.proposal_seal import NotSealed, seal, unseal
from approvals.subjects.field_values import write_canonical
from approvals.subjects.reference import Subject, read_subject
from workflows.access.memberships import list_workspaces
from workflows.api.instances import start_as
from workflows.exceptions import DuplicateKey
from workflows.models import Instance
from workflows.uuid7 import make_uuid7

#: The built-in workflow (see `approvals.workflows`).
CHANGE = "holdpoint-change"
#: Proposals about one object that may wait at the same time.
MAX_PENDING = 10
#: Characters of an object's key that stand in a proposal's.
MAX_KEY = 100


class AlreadyProposed(ApprovalError):
    """The same person has proposed the same already; `.proposal` is that one.

    >>> print(AlreadyProposed(None))
    You have proposed this already, and it still waits.
    """

    def __init__(self, proposal: Proposal | None) -> None:
        self.proposal = proposal
        super().__init__(gettext("You have proposed this already, and it still waits."))


class TooManyProposals(ApprovalError):
    """So many proposals about one object wait that another one would help nobody.

    >>> print(TooManyProposals())
    10 proposals about this wait already: have one of them decided first.
    """

    def __init__(self) -> None:
        told = gettext("%(count)d proposals about this wait already: have one of them decided first.")
        super().__init__(told % {"count": MAX_PENDING})


@dataclass(frozen=True, slots=True)
class Proposal:
    """Something that waits for approval."""

    instance: Instance
    #: "change", "add" or "delete".
    do: str
    #: The change, or the values of what is added, as JSON.
    values: Mapping[str, Any]
    requester: str
    #: The principals that were asked.
    asked: tuple[str, ...] = ()
    #: None for the moment until a worker has asked.
    review: Review | None = field(default=None, compare=False)

    def overlaps(self, do: str, values: Mapping[str, Any]) -> bool:
        """Whether only one of the two can be made as it stands."""
        return "delete" in (do, self.do) or not self.values.keys().isdisjoint(values)


def propose(
    approval: Approval,
    do: str,
    model: type[models.Model],
    obj: models.Model | None,
    values: Mapping[str, Any],
    *,
    requester: Any,
    workspace: str | None = None,
    timeout: Any = None,
) -> Proposal:
    """Start the workflow that asks, in the caller's transaction.

    >>> propose(approval, "change", Invoice, invoice, {"amount": "99.50"}, requester=ann).do
    'change'
    """
    principals = tuple(list_asked(approval))
    subject = None if obj is None else read_subject(obj)
    asked = {
        "do": do,
        "model": model._meta.label_lower,
        "subject": None if subject is None else _dump_subject(subject),
        "values": {**values},
        "requester": name_key(requester),
        "applies": approval.outcomes[0].name,
        "approval": dump_approval(approval),
        "principals": list(principals),
        "timeout": timeout,
    }
    if subject is not None:
        same = (one for one in list_pending(model, obj, [requester]) if _is_same(one, do, values, requester))
        if (found := next(same, None)) is not None:
            raise AlreadyProposed(found)
    id = make_uuid7()
    input = seal(asked, id)
    for key in _list_keys(model, subject, asked):
        try:
            started = start_as(id, CHANGE, input, key=key, workspace=workspace, actor=requester)
        except DuplicateKey as taken:
            # Somebody was quicker; where it was the same form, sent twice, that is all there is to do.
            other = None if taken.instance is None else _read_proposal(taken.instance)
            if other is not None and _is_same(other, do, values, requester):
                raise AlreadyProposed(other) from taken
            continue
        return Proposal(started, do, dict(values), name_key(requester), principals)
    raise TooManyProposals


def list_pending(model: type[models.Model], obj: models.Model | None, people: Iterable[Any] = ()) -> list[Proposal]:
    """What waits about an object, oldest first, with the reviews; in the workspaces of these people.

    >>> [one.values for one in list_pending(Invoice, invoice, [ann])]
    [{'amount': '99.50'}]
    """
    if obj is None:
        return []
    keys = _list_keys(model, read_subject(obj), {})
    scopes = sorted({id for one in people for id, _ in list_workspaces(one)})
    rows = Instance.objects.using(router.db_for_write(Instance)).live().filter(workflow=CHANGE, key__in=keys)
    found = [_read_proposal(one) for one in rows.filter(workspace_id__in=scopes).order_by("id")]
    reviews = _find_reviews([one.instance for one in found if one is not None])
    return [
        Proposal(one.instance, one.do, one.values, one.requester, one.asked, reviews.get(one.instance.pk))
        for one in found
        if one is not None
    ]


def load_kept_subject(kept: Mapping[str, Any]) -> Subject:
    """The name of the object that a proposal is about.

    >>> load_kept_subject({"model": "shop.invoice", "pk": "7", "label": "Invoice 7", "using": ""}).pk
    '7'
    """
    return Subject(kept["model"], kept["pk"], kept["label"], kept["using"])


def _dump_subject(subject: Subject) -> dict[str, str]:
    return {"model": subject.model, "pk": subject.pk, "label": subject.label, "using": subject.using}


def _list_keys(model: type[models.Model], subject: Subject | None, asked: Mapping[str, Any]) -> list[str]:
    """The places that a proposal may take; of additions, each has a place of its own that its values name."""
    label = (
        model._meta.concrete_model or model
    )._meta.label_lower  # what is proposed through a proxy is about the same row
    if subject is None:
        said = write_canonical([asked.get("requester"), asked.get("values")])
        return [f"{CHANGE}:{label}:+{sha256(said.encode()).hexdigest()[:40]}"]
    pk = subject.pk if len(subject.pk) <= MAX_KEY else sha256(subject.pk.encode()).hexdigest()
    return [f"{CHANGE}:{label}:{pk}:{place}"[-200:] for place in range(MAX_PENDING)]


def _read_proposal(instance: Instance) -> Proposal | None:
    if instance.workflow != CHANGE:
        return None
    try:
        asked = unseal(instance)
    except NotSealed:
        return None
    return Proposal(instance, asked["do"], asked["values"], asked["requester"], tuple(asked["principals"]))


def _find_reviews(instances: list[Instance]) -> dict[Any, Review]:
    if not instances:
        return {}
    rows = Review.objects.using(router.db_for_write(Review)).filter(instance__in=[one.pk for one in instances])
    return {review.instance_id: review for review in rows.select_related("interaction")}


def _is_same(one: Proposal, do: str, values: Mapping[str, Any], requester: Any) -> bool:
    mine = one.requester == name_key(requester) and one.do == do
    return mine and write_canonical(json.loads(json.dumps(dict(values)))) == write_canonical(one.values)
