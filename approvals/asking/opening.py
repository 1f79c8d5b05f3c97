"""Opening a review: what was asked is looked up, frozen and written down.

Invariants owned: rule, quorum, outcomes, ladder and four eyes are what they were when it was requested, whatever a
deploy changes later; who belongs to a group is not frozen; users that a query names are.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import router

from approvals.exceptions import InvalidApproval
from approvals.models import Review, writer
from approvals.people.lookup import find_groups, find_user, find_users
from approvals.people.principals import (
    ANYBODY,
    GROUP,
    PERMISSION,
    RULE,
    USER,
    describe_principals,
    find_rule,
    has_permissions,
    is_key,
    load_user,
    name_user,
)
from approvals.reviews.case import Case
from approvals.reviews.electorate import has_some_decider
from approvals.rules import dump_outcomes
from approvals.rules.escalation import RungAction, dump_rungs, next_moment, place_due, place_rungs
from approvals.rules.feasibility import find_gap, find_rung_gap
from approvals.subjects.change import read_change
from approvals.subjects.reference import digest, load_subject, read_subject, snapshot
from workflows.api.origin import trace_origin
from workflows.models import Instance, Interaction
from workflows.wording.messages import Reason, gettext_noop

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from approvals.asking.approval import Approval

#: Users that one query may name; more belong in a group or a rule.
MAX_USERS = 1_000

_STRANDED = (
    "nobody of these can decide it. Four eyes keep out who asked for it and who decided another stage; whoever is "
    "inactive or no member of the workspace is out, too. Name somebody else, add a group or an escalation, or write "
    "four_eyes=False"
)
_UNKNOWN = (
    "who asked for this cannot be known any more, because what started this instance was pruned before instances "
    "carried it, so four eyes would exclude nobody: name requester=…, or write four_eyes=False"
)


def open_review(approval: Approval, interaction: Interaction) -> Review:
    """Write the review of an interaction that is being opened."""
    instance = Instance.objects.using(router.db_for_write(Instance)).get(pk=interaction.instance_id)
    groups = find_groups([*approval.groups, *_list_rung_groups(approval)])
    principals = _list_asked(approval, groups)
    rungs = place_rungs(approval.ladder, interaction.created_at)
    requester = _find_requester(approval, instance)
    review = Review(
        interaction=interaction,
        instance_id=interaction.instance_id,
        workspace_id=interaction.workspace_id,
        family=instance.family,
        place=_find_place(instance),
        created_at=interaction.created_at,
        due_at=place_due(approval.ladder, interaction.created_at),
        next_at=next_moment(rungs, 0),
        requester_id=None if requester is None else requester.pk,
        four_eyes=approval.four_eyes,
        risk=approval.risk,
        title=approval.title,
        why=approval.why,
        workflow=instance.workflow,
        step=interaction.unit.step,
        on_decision=approval.on_decision,
        calendar=approval.ladder.calendar,
        outcomes=[_leave_out_blanks(one) for one in dump_outcomes(approval.outcomes)],
        quorum={"rule": approval.quorum.dump(), "groups": _pick_groups(approval, groups)},
        rungs=_name_rungs(dump_rungs(rungs), groups) or None,
        evidence=approval.evidence or None,
        **_freeze_subject(approval),
    )
    _check_deciders(approval, review, principals)
    writer.insert(review)
    writer.insert_candidates(review, principals)
    writer.insert_notice(review, "new", at=interaction.created_at)
    return review


def _check_deciders(approval: Approval, review: Review, principals: list[str]) -> None:
    """People asked by name do not become more by themselves: where none of them could decide, nobody ever would.

    Somebody may still join a group, be given a permission, be named by a rule, or be asked by the ladder; and an
    outcome at its end answers.
    """
    helps = any(step.action.do != "remind" for step in approval.ladder.steps)
    if helps or not all(one.startswith(f"{USER}:") for one in principals):
        return
    if not has_some_decider(Case(review), principals):
        raise InvalidApproval("assignees", describe_principals(principals), _STRANDED)


def list_asked(approval: Approval) -> list[str]:
    """The principals that an approval asks; raises `InvalidApproval` where somebody it names is not there.

    >>> list_asked(Approval("Send the letter", groups=["finance"]))
    ['group:3']
    """
    return _list_asked(approval, find_groups([*approval.groups, *_list_rung_groups(approval)]))


def _leave_out_blanks(outcome: dict[str, Any]) -> dict[str, Any]:
    """A label or reasons that nobody wrote need not be kept a million times."""
    return {name: value for name, value in outcome.items() if value not in ("", [])}


def _list_rung_groups(approval: Approval) -> list[str]:
    return [step.action.group for step in approval.ladder.steps if step.action.group]


def _list_asked(approval: Approval, groups: dict[str, int]) -> list[str]:
    principals = _list_candidates(approval, groups)
    _check_reach(approval, principals, groups)
    return principals


def _list_candidates(approval: Approval, groups: dict[str, int]) -> list[str]:
    principals = [name_user(one) for one in find_users(approval.assignees, "assignees")]
    principals += [f"{GROUP}:{groups[name]}" for name in approval.groups]
    if approval.permission is not None:
        principals.append(f"{PERMISSION}:{_check_permission(approval.permission)}")
    if isinstance(approval.candidates, str):
        find_rule(approval.candidates)
        principals.append(f"{RULE}:{approval.candidates}")
    elif approval.candidates is not None:
        principals += [f"{USER}:{pk}" for pk in _freeze_users(approval.candidates)]
        if not principals:
            told = Reason(gettext_noop("it names nobody, so nobody could decide"))
            raise InvalidApproval("candidates", approval.candidates, told)
    if not principals and not has_permissions():
        told = Reason(
            gettext_noop("users of this project have no permissions, so nobody could decide: say who is asked")
        )
        raise InvalidApproval("assignees", [], told)
    return list(dict.fromkeys(principals)) or [ANYBODY]


def _check_permission(name: str) -> str:
    """One that nobody can ever have is a slip of the pen."""
    app, _, codename = name.partition(".")
    known = Permission.objects.filter(content_type__app_label=app, codename=codename)
    if not has_permissions() or not known.exists():
        lacking = Reason(gettext_noop("users of this project have no permissions: nobody could decide"))
        unknown = Reason(gettext_noop("there is no such permission: nobody could decide"))
        raise InvalidApproval("permission", name, unknown if has_permissions() else lacking)
    return name


def _freeze_users(given: QuerySet[Any] | list[Any]) -> list[Any]:
    if isinstance(given, list):
        keys = [one.pk for one in find_users(given, "candidates")]
    elif given.model._meta.concrete_model is not get_user_model()._meta.concrete_model:
        raise InvalidApproval("candidates", given.model.__name__, "the query must give users")
    else:
        found = given.values_list("pk", flat=True)
        keys = list(dict.fromkeys(found[: MAX_USERS + 1] if not given.query.is_sliced else found))
    if len(keys) > MAX_USERS:
        told = gettext_noop("it names more than %(n)s users: use a group, a permission or a rule (@candidates)")
        raise InvalidApproval("candidates", f"{len(keys)} users", Reason(told, {"n": MAX_USERS}))
    return keys


def _check_reach(approval: Approval, principals: list[str], groups: dict[str, int]) -> None:
    """Those asked, also by the ladder, could decide: people asked by name cannot become more by themselves."""
    rule = approval.quorum
    if not rule.groups and (rule.fixed_votes or 1) == 1:
        return  # anybody's answer counts, and one of them is there
    counted = [f"{GROUP}:{key}" for key in _pick_groups(approval, groups).values()]
    rungs = [
        (step.action.do, _name_target(step.action, groups))
        for step in approval.ladder.steps
        if step.action.do in ("add", "reassign")
    ]
    if told := find_gap(rule, counted, principals, is_final=not rungs):
        raise InvalidApproval("quorum", rule.dump(), told)
    if told := find_rung_gap(rule, counted, principals, rungs):
        raise InvalidApproval("escalate", [do for do, _ in rungs], told)


def _pick_groups(approval: Approval, groups: dict[str, int]) -> dict[str, int]:
    """The groups that a rule counts by, with their keys: they may be called something else later."""
    return {name: groups[name] for name in approval.quorum.groups}


def _name_target(action: RungAction, groups: dict[str, int]) -> str:
    """Whom a rung asks."""
    return f"{GROUP}:{groups[action.group]}" if action.group else name_user(find_user(action.user, "escalate"))


def _name_rungs(rungs: list[dict[str, str]], groups: dict[str, int]) -> list[dict[str, Any]]:
    """Rungs with the principal that each hands on to."""
    named: list[dict[str, Any]] = []
    for rung in rungs:
        principal = ""
        if rung.get("group"):
            principal = f"{GROUP}:{groups[rung['group']]}"
        elif rung.get("user"):
            principal = name_user(find_user(rung["user"], "escalate"))
        named.append({**rung, **({"principal": principal} if principal else {})})
    return named


def _find_requester(approval: Approval, instance: Instance) -> Any:
    """Who asked: as given, or the user who started the instance, or that which led to it; None where a program did."""
    if approval.requester is not None:
        return find_user(approval.requester, "requester")
    asked_by = trace_origin(instance).asked_by
    if asked_by is None:
        if approval.four_eyes:
            raise InvalidApproval("requester", None, _UNKNOWN)
        return None
    kind, _, key = asked_by.partition(":")
    # A caller's own text may begin like a name.
    return load_user(key) if kind == USER and is_key(get_user_model(), key) else None


def _find_place(instance: Instance) -> UUID | None:
    """What one Spawn started of one workflow is one stage, as items of one question are; else an instance is its own.

    As the migration computes it for rows from before.
    """
    if instance.parent_id is None:
        return None
    born = f"{instance.parent_id}:{instance.spawn_no}:{instance.workflow}"
    return UUID(hashlib.md5(born.encode(), usedforsecurity=False).hexdigest())


def _freeze_subject(approval: Approval) -> dict[str, Any]:
    """What it is about, as it is now in the database, whatever the object at hand holds."""
    if approval.subject is None:
        return {}
    subject = read_subject(approval.subject)
    row = load_subject(subject)
    if row is None:
        raise InvalidApproval("subject", approval.subject, Reason(gettext_noop("its row is not there (any more)")))
    change = read_change(row, approval.change) if approval.change is not None else {}
    shown = snapshot(row, change=change)
    return {
        "subject_model": subject.model,
        "subject_pk": subject.pk,
        "subject_using": subject.using,
        "subject_label": subject.label,
        "snapshot": shown,
        "change": change if approval.change is not None else None,
        "digest": digest(shown, change),
    }
