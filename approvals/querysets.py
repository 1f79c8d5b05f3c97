"""Asking for reviews: whose they are, and in which order.

Invariants owned: badge, list, REST and admin count and show the same rows, because they ask the same queryset; and what
it lists is what `decisions.decide` lets that person decide (a test compares them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.apps import apps
from django.core.exceptions import EmptyResultSet
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL

from approvals.policies.outcomes import WITHDRAWN
from approvals.principals import forget_permissions, list_active, list_principals, name_user
from approvals.streams import Stream, leave_streams, list_asked, list_handed_on, push_down, read_streams
from workflows.clock import Now
from workflows.members import list_workspaces
from workflows.models import ReadQuerySet

if TYPE_CHECKING:
    from approvals.models import Absence


class ReviewQuerySet(ReadQuerySet):
    """Ways to ask for reviews."""

    def pending(self) -> ReviewQuerySet:
        """Those that wait for a decision."""
        return self.filter(open=True)

    def with_status(self, status: str) -> ReviewQuerySet:
        """Those that stand so, as `status.find_status` says it; or "any"."""
        is_late = Q(interaction__deadline__isnull=False, interaction__deadline__lte=Now())
        # What was ended while it could still be undone was never carried out.
        taken_back = Q(outcome__in=("", *WITHDRAWN)) | Q(effective_at__isnull=False)
        match status:
            case "open":
                return self.filter(Q(open=True, effective_at__isnull=True) & ~is_late)
            case "grace":
                return self.filter(open=True, effective_at__isnull=False)
            case "decided":
                return self.filter(Q(open=False) & ~taken_back)
            case "closed":
                late = Q(open=True, effective_at__isnull=True) & is_late
                return self.filter((Q(open=False) & taken_back) | late)
        return self

    def for_user(self, user: Any, *, workspace: int | None = None, snoozed: bool | None = False) -> ReviewQuerySet:
        """Those that a user may decide now: as a candidate, or for somebody who is away.

        Not those that a rule keeps from them (their own or of an earlier stage under four eyes, decided by them
        already, claimed by somebody else, being decided), and without what they have put aside; with `snoozed=True`
        only that, with None both. What is due first comes first.
        """
        streams = _list_streams(forget_permissions(user), _list_scopes(user, workspace), self.db)
        rows: ReviewQuerySet = read_streams(self, streams).filter(open=True, effective_at__isnull=True)
        rows = _leave_out_barred(rows, user.pk).filter(_is_free(user.pk)).by_due()
        if snoozed is None:
            return rows
        put_aside = Exists(_rows("Snooze").filter(review_id=OuterRef("pk"), user_id=user.pk, until__gt=Now()))
        return rows.filter(put_aside if snoozed else ~put_aside)

    def visible_to(self, user: Any, *, workspace: int | None = None) -> ReviewQuerySet:
        """Those that a user may look at: who is asked or stands in, who asked, handed on or voted; and who may see all.

        Also when they are decided. It is asked of each review by itself: filter, or find one, before a million pass by.
        """
        if user.pk is None or not user.is_active:
            return self.none()
        scopes = _list_scopes(user, workspace)
        rows = self.filter(workspace_id__in=scopes)
        if hasattr(user, "has_perm") and user.has_perm("holdpoint_approvals.view_review"):
            return rows
        return rows.filter(_has_to_do(user) | _is_concerned(user, scopes))

    def by_due(self) -> ReviewQuerySet:
        """What is due first comes first; then what is never due, the oldest first."""
        return self.order_by(F("due_at").asc(nulls_last=True), "pk")

    def filter(self, *args: Any, **kwargs: Any) -> ReviewQuerySet:
        """Django's, which finds a place in somebody's list by its index."""
        rows: ReviewQuerySet = push_down(super().filter(*args, **kwargs))
        return rows

    def exclude(self, *args: Any, **kwargs: Any) -> ReviewQuerySet:
        """The same the other way round."""
        rows: ReviewQuerySet = push_down(super().exclude(*args, **kwargs))
        return rows

    def annotate(self, *args: Any, **kwargs: Any) -> ReviewQuerySet:
        """Django's, which groups rows of a table only by its key alone."""
        rows: ReviewQuerySet = super().annotate(*args, **kwargs)
        return leave_streams(rows) if rows.query.group_by is True else rows

    # Two queries are combined by Django as if both read the whole table: what a person may decide would be lost.

    def __and__(self, other: Any) -> Any:
        return QuerySet.__and__(leave_streams(self), leave_streams(other))

    def __or__(self, other: Any) -> Any:
        return QuerySet.__or__(leave_streams(self), leave_streams(other))

    def __xor__(self, other: Any) -> Any:
        return QuerySet.__xor__(leave_streams(self), leave_streams(other))


def _is_free(user: Any) -> Q:
    """Claimed by nobody else; a claim goes with the account of who made it."""
    holders = list_active().filter(pk=OuterRef("claimed_by_id"))
    return Q(claimed_by__isnull=True) | Q(claimed_by=user) | Q(~Exists(holders))


def list_absences(user: Any) -> list[Absence]:
    """Those whom this user stands in for now."""
    running = Q(until__isnull=True) | Q(until__gt=Now())
    rows = apps.get_model("holdpoint_approvals", "Absence")._default_manager.select_related("user")
    found = rows.filter(running, substitute_id=user.pk, since__lte=Now()).order_by("pk")
    return [one for one in found if one.user.is_active]


def is_within_absence(absence: Absence, workspace: int, workflow: str) -> bool:
    """Whether an absence is about reviews of this workflow there."""
    here = absence.workspace_id is None or absence.workspace_id == workspace
    return here and (not absence.workflows or workflow in absence.workflows)


def _list_streams(user: Any, scopes: Sequence[int], alias: str) -> list[Stream]:
    """Where the reviews come from that name the user, or somebody the user stands in for."""
    if user.pk is None or not user.is_active or not scopes:
        return []
    absences = list_absences(user)
    handed_on = list_handed_on(alias, [name_user(user), *(name_user(one.user) for one in absences)])
    wanted = list(_offer_streams(user, scopes, handed_on))
    for absence in absences:
        theirs = set(_list_scopes(absence.user, absence.workspace_id))
        if (where := _narrow(absence, alias)) is not None:
            wanted += _offer_streams(absence.user, [one for one in scopes if one in theirs], handed_on, *where)
    asked = list_asked(alias, [(one.principal, one.workspace) for one in wanted])
    return [one for one in wanted if (one.principal, one.workspace) in asked]


#: What was handed on to somebody is theirs until who handed it on has decided after all.
_NOT_USED = """ AND (instead_of = '' OR NOT EXISTS (SELECT 1 FROM holdpoint_vote v WHERE v.review_id = c.review_id
    AND v.standing AND c.added_by IN ('user:' || v.user_id, 'user:' || v.on_behalf_of_id)))"""


def _offer_streams(
    person: Any,
    scopes: Sequence[int],
    handed_on: Mapping[str, Sequence[UUID]],
    where: str = "",
    params: Sequence[Any] = (),
) -> Iterator[Stream]:
    name = name_user(person)
    gone = handed_on.get(name)
    left = (" AND review_id <> ALL(%s)", (gone,)) if gone else ("", ())
    for principal in list_principals(person) if scopes else ():
        own, more = (_NOT_USED, ()) if principal == name else left
        for scope in scopes:
            yield Stream(principal, scope, own + where, (*more, *params))


def _narrow(absence: Absence, alias: str) -> tuple[str, Sequence[Any]] | None:
    """SQL for what a substitute may decide of what asks who is away; None for nothing."""
    # Standing in for somebody never does what they may not.
    rows = _leave_out_barred(_rows("Review").filter(pk=RawSQL("c.review_id", ())), absence.user_id)
    if absence.workflows:
        rows = rows.filter(workflow__in=absence.workflows)
    try:
        sql, params = rows.order_by().values("pk").query.get_compiler(using=alias).as_sql()
    except EmptyResultSet:
        return None
    return f" AND EXISTS ({sql})", params


def _leave_out_barred(rows: Any, user: Any) -> Any:
    """Without those that four eyes, or an earlier vote of theirs or for them, keep somebody from deciding.

    Each is a condition of its own, so that PostgreSQL asks it of the rows that are shown: within an OR it would first
    read all that they have ever voted on.
    """
    votes = _rows("Vote").filter(standing=True)
    used = votes.filter(Q(user_id=user) | Q(on_behalf_of_id=user), review_id=OuterRef("pk"))
    earlier = votes.filter(user_id=user, instance_id=OuterRef("instance_id")).exclude(step=OuterRef("step"))
    earlier = earlier.filter(standing=OuterRef("four_eyes"))  # where it is asked for at all
    own = Q(four_eyes=True, requester_id=user, requester_id__isnull=False)
    return rows.exclude(own).filter(~Exists(used), ~Exists(earlier))


def _has_to_do(user: Any) -> Q:
    """What somebody asked for or voted on."""
    voted = _rows("Vote").filter(Q(user_id=user.pk) | Q(on_behalf_of_id=user.pk), review_id=OuterRef("pk"))
    return Q(requester_id=user.pk) | Q(Exists(voted))


def _has_part(person: Any) -> Q:
    """What asks somebody, or what they have handed on."""
    named = Q(principal__in=list_principals(person)) | Q(added_by=name_user(person))
    return Q(Exists(_rows("Candidate").filter(named, review_id=OuterRef("pk"))))


def _is_concerned(user: Any, scopes: Sequence[int]) -> Q:
    """The same for somebody and those they stand in for."""
    found = _has_part(user)
    for absence in list_absences(user):
        theirs = _list_scopes(absence.user, absence.workspace_id)
        away = Q(workspace_id__in=[one for one in scopes if one in theirs])
        if absence.workflows:
            away &= Q(workflow__in=absence.workflows)
        found |= away & _has_part(absence.user)
    return found


def _list_scopes(user: Any, workspace: int | None) -> Sequence[int]:
    mine = [id for id, _ in list_workspaces(user)]
    return mine if workspace is None else [id for id in mine if id == workspace]


def _rows(model: str) -> QuerySet[Any]:
    rows: QuerySet[Any] = apps.get_model("holdpoint_approvals", model)._default_manager.all()
    return rows
