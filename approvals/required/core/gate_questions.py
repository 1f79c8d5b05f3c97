"""The questions of the built-in workflows, and what their answers amount to.

Invariant owned: the requester that the seal names is the one whom four eyes excludes, whoever started the instance.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.db import router
from django.utils.translation import gettext

from approvals.required.applying import apply_proposal
from approvals.required.core.frozen_approval import load_approval
from approvals.required.core.proposal_seal import unseal
from approvals.required.core.proposals import load_kept_subject
from approvals.subjects.reference import is_known, load_subject
from workflows import Await, StepContext, Stop
from workflows.definitions.registry import NotDeployed
from workflows.models import Instance


def ask_about_change(ctx: StepContext) -> Await | Stop:
    """An approval of a change, an addition or a deletion."""
    asked = read_asked(ctx)
    _want_model(asked["model"])
    row, change = None, None
    if asked["subject"] is not None:
        row = load_subject(load_kept_subject(asked["subject"]))
        if row is None:
            return Stop(gettext("%(object)s is no longer there.") % {"object": asked["subject"]["label"]})
        change = asked["values"] if asked["do"] == "change" else None
    requester = find_requester(asked["requester"])
    if requester is None:
        return Stop(gettext("Whoever asked for this has no account any more."))
    approval = load_approval(
        asked["approval"], requester=requester, subject=row, change=change, on_decision=apply_proposal
    )
    return Await(approval, then="tell", timeout=asked["timeout"])


def ask_about_call(ctx: StepContext) -> Await | Stop:
    """An approval of a call."""
    asked = read_asked(ctx)
    requester = find_requester(asked["requester"])
    if requester is None:
        return Stop(gettext("Whoever asked for this has no account any more."))
    if asked["subject"] is not None:
        _want_model(asked["subject"]["model"])
    row = None if asked["subject"] is None else load_subject(load_kept_subject(asked["subject"]))
    if asked["subject"] is not None and row is None:
        return Stop(gettext("%(object)s is no longer there.") % {"object": asked["subject"]["label"]})
    approval = load_approval(asked["approval"], requester=requester, subject=row, change=asked["change"])
    return Await(approval, then="carry_out", timeout=asked["timeout"])


def _want_model(label: str) -> None:
    """During a deploy a worker may have older code than the process that proposed: then another one has to ask."""
    if not is_known(label):
        raise NotDeployed(f"no model {label!r}")


def read_asked(ctx: StepContext) -> dict[str, Any]:
    """What was proposed with the instance that runs; raises `NotSealed`.

    >>> read_asked(ctx)["do"]
    'change'
    """
    return unseal(Instance.objects.using(router.db_for_write(Instance)).get(pk=ctx.id))


def tell_answer(ctx: StepContext) -> dict[str, Any]:
    """What people said; `expired` where nobody did in time.

    >>> tell_answer(ctx)
    {'outcome': 'approve', 'reason': '', 'by': ['user:2']}
    """
    answer = ctx.answer
    if answer is None:
        return {"outcome": "expired", "reason": "", "by": []}
    by = [one.actor for one in answer.decisions if one.outcome == answer.outcome]
    return {"outcome": answer.outcome, "reason": answer.reason, "by": by}


def find_requester(key: str) -> Any:
    """The user who asked, with the rights that they have now; None if there is no such account any more."""
    model = get_user_model()
    rows = model._default_manager.using(router.db_for_write(model))
    return rows.filter(pk=model._meta.pk.to_python(key)).first()
