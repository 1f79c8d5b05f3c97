"""Who is told of what.

Invariants owned: it is asked at the moment it matters, so whoever joined a group is told and whoever left is not; nobody
is told of what they did themselves, and only members of the workspace are told anything; who is asked to decide may
decide: not the requester under four eyes, nobody who has decided already.

| Notice | Who |
|---|---|
| new, reminder, nudge, escalation | those asked (or those it names) who may decide, and who stands in for the absent of them; a reminder or nudge only whoever has claimed it |
| edited | whose approval no longer counts, because somebody filled in something else; and who stands in for the absent of them |
| question | the requester |
| answer | who asked; those asked, where that is nobody any more |
| stranded | the requester: those asked have left |
| reopened | whose decision was not carried out |
| decided | the requester, unless they ended it themselves; and whoever voted otherwise, or agreed to other data than those of the answer. All others see it when they look: their mails lead to the outcome |
| closed | the requester: time ran out, or its instance was cancelled |
"""  # noqa: E501 - a table

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from approvals.models import Absence, Comment, Notice
from approvals.notify.delivery_writer import read_data
from approvals.people.person import Person
from approvals.people.principals import USER, list_users
from approvals.people.viewer import is_within_absence
from approvals.reviews.answer import find_answerer
from approvals.reviews.case import Case
from approvals.reviews.electorate import keep_members
from workflows.api.completions import owned_answers
from workflows.clock import Now

#: Notices that ask for a decision: they are told only as long as there is one to make.
ASKS = frozenset({"new", "reminder", "nudge", "escalation", "edited"})
#: Of these, only whoever is at it already.
_URGES = frozenset({"reminder", "nudge"})


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody to be told, and for whom they stand in."""

    user: Person
    stands_in_for: Any = None


def list_recipients(notice: Notice, case: Case) -> list[Recipient]:
    """Whom this notice is for.

    >>> [one.user.username for one in list_recipients(notice, case)]
    ['ann', 'ben']
    """
    if notice.kind in ASKS:
        return _list_asked(notice, case)
    review = case.review
    told: set[Any] = set()
    if notice.kind in ("decided", "closed"):
        told = {review.requester_id, *_list_overruled(case)}
        if notice.kind == "decided":
            told.discard(find_answerer(review, case.votes))
    elif notice.to is None:  # an answer to whom nobody knows any more: to all who decide
        return _list_asked(notice, case)
    else:
        return _leave_out(_find_actor(notice, case), [Recipient(user) for user in _keep(case, notice.to)])
    return [Recipient(user) for user in _keep(case, [f"{USER}:{key}" for key in told if key is not None])]


def _list_asked(notice: Notice, case: Case) -> list[Recipient]:
    """Those who may decide it; the precise rules are asked again, one by one, when it is sent."""
    principals = [one.principal for one in case.candidates] if notice.to is None else notice.to
    asked = [user for user in _keep(case, principals) if not case.is_barred(user)]
    found = {user.pk: Recipient(user) for user in asked}
    for absence in _list_absences(case, asked):
        substitute = absence.substitute
        if substitute.pk not in found and not case.is_barred(substitute) and case.is_member(substitute):
            found[substitute.pk] = Recipient(substitute, stands_in_for=absence.user_id)
    claimed_by = case.review.claimed_by_id
    if notice.kind in _URGES and claimed_by is not None:
        found = {key: one for key, one in found.items() if key == claimed_by}
    return _leave_out(_find_actor(notice, case), found.values())


def _keep(case: Case, principals: Iterable[str]) -> QuerySet[Any]:
    return keep_members(case, list_users(principals)).order_by("pk")


def _leave_out(actor: Any, recipients: Iterable[Recipient]) -> list[Recipient]:
    return [one for one in recipients if one.user.pk != actor]


def _find_actor(notice: Notice, case: Case) -> Any:
    """The key of whoever caused it. The workflow asks, and not its requester, who may well be one of those asked."""
    if notice.kind == "nudge":
        return case.review.requester_id
    if notice.kind in ("question", "answer"):
        return _find_author(notice)
    return read_key(read_data(notice).get("by"))


def _find_author(notice: Notice) -> Any:
    said = Comment.objects.using(owned_answers.reach().alias).filter(pk=read_data(notice).get("comment"))
    return said.values_list("user_id", flat=True).first()


def _list_overruled(case: Case) -> list[Any]:
    """Whose vote was another one than the answer, or about other data: the others will not be surprised."""
    outcome = case.review.outcome
    if not outcome:
        return []
    counted = {vote.user_id for vote in case.votes}
    fallen = [vote.user_id for vote in case.all_votes if vote.superseded_by_id and vote.user_id not in counted]
    return [*fallen, *(vote.user_id for vote in case.votes if vote.outcome != outcome)]


def _list_absences(case: Case, asked: Iterable[Any]) -> list[Absence]:
    """Those of the asked who are away now, in this matter."""
    review = case.review
    running = Q(until__isnull=True) | Q(until__gt=Now())
    rows = Absence._default_manager.filter(running, since__lte=Now(), user__in=[user.pk for user in asked])
    found = rows.select_related("substitute").order_by("pk")
    within = [one for one in found if is_within_absence(one, review.workspace_id, review.workflow)]
    return [one for one in within if one.substitute.is_active]


def read_key(principal: Any) -> Any:
    """The key of the user that a principal names, as the user model has it.

    >>> read_key("user:7")
    7
    """
    kind, _, key = str(principal or "").partition(":")
    return get_user_model()._meta.pk.to_python(key) if kind == USER else None
