"""Asking for reviews: whose they are, and in which order.

Invariant owned: badge, list, REST and admin count and show the same rows, because they ask the same queryset; and what
it lists is what `decisions.decide` lets that person decide, as far as rows can tell (a test compares them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from approvals.principals import list_principals
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

    def for_user(self, user: Any, *, workspace: int | None = None, snoozed: bool | None = False) -> ReviewQuerySet:
        """Those that a user may decide now: as a candidate, or for somebody who is away.

        Not those that a rule keeps from them (their own or of an earlier stage under four eyes, decided by them
        already, claimed by somebody else, being decided), and without what they have put aside; with `snoozed=True`
        only that, with None both.
        """
        rows = self.pending().filter(effective_at__isnull=True).filter(_reach(user, workspace))
        rows = rows.exclude(_is_barred(user.pk)).filter(Q(claimed_by__isnull=True) | Q(claimed_by=user.pk))
        if snoozed is None:
            return rows
        put_aside = Exists(_rows("Snooze").filter(review_id=OuterRef("pk"), user_id=user.pk, until__gt=Now()))
        return rows.filter(put_aside if snoozed else ~put_aside)

    def visible_to(self, user: Any, *, workspace: int | None = None) -> ReviewQuerySet:
        """Those that a user may look at: asked now or before, the requester, whoever voted, and who may see all."""
        rows = self.filter(workspace_id__in=_list_scopes(user, workspace))
        if not user.is_active:
            return self.none()
        if hasattr(user, "has_perm") and user.has_perm("holdpoint_approvals.view_review"):
            return rows
        voted = Exists(_rows("Vote").filter(review_id=OuterRef("pk"), user_id=user.pk))
        return rows.filter(_reach(user, workspace, open_only=False) | Q(requester_id=user.pk) | Q(voted))

    def by_due(self) -> ReviewQuerySet:
        """What is due first comes first; then what is never due, the oldest first."""
        return self.order_by(F("due_at").asc(nulls_last=True), "pk")


def list_absences(user: Any) -> QuerySet[Absence]:
    """Those whom this user stands in for now."""
    running = Q(until__isnull=True) | Q(until__gt=Now())
    rows = apps.get_model("holdpoint_approvals", "Absence")._default_manager.select_related("user")
    return rows.filter(running, substitute_id=user.pk, since__lte=Now(), user__is_active=True).order_by("pk")


def is_within_absence(absence: Absence, workspace: int, workflow: str) -> bool:
    """Whether an absence is about reviews of this workflow there."""
    here = absence.workspace_id is None or absence.workspace_id == workspace
    return here and (absence.workflows is None or workflow in absence.workflows)


def _reach(user: Any, workspace: int | None, *, open_only: bool = True) -> Q:
    """The reviews that name the user, or somebody the user stands in for, as a candidate."""
    if user.pk is None or not user.is_active:
        return Q(pk__in=[])
    scopes = _list_scopes(user, workspace)
    reached = _named(list_principals(user), scopes, open_only)
    for absence in list_absences(user):
        theirs = _named(list_principals(absence.user), scopes, open_only)
        if absence.workspace_id is not None:
            theirs &= Q(workspace_id=absence.workspace_id)
        if absence.workflows is not None:
            theirs &= Q(workflow__in=absence.workflows)
        reached |= theirs & ~_is_barred(absence.user.pk)  # standing in for somebody never does what they may not
    return reached


def _is_barred(user: Any) -> Q:
    """Where four eyes or an earlier vote of theirs keep somebody from deciding."""
    votes = _rows("Vote").filter(user_id=user, standing=True)
    earlier = votes.filter(instance_id=OuterRef("instance_id")).exclude(step=OuterRef("step"))
    own = Q(requester_id=user) & Q(requester_id__isnull=False)
    return Q(Exists(votes.filter(review_id=OuterRef("pk")))) | (Q(four_eyes=True) & (own | Q(Exists(earlier))))


def _named(principals: list[str], scopes: Sequence[int], open_only: bool) -> Q:
    rows = _rows("Candidate").filter(principal__in=principals, workspace_id__in=scopes)
    return Q(pk__in=(rows.filter(open=True) if open_only else rows).values("review_id"))


def _list_scopes(user: Any, workspace: int | None) -> Sequence[int]:
    mine = [id for id, _ in list_workspaces(user)]
    return mine if workspace is None else [id for id in mine if id == workspace]


def _rows(model: str) -> QuerySet[Any]:
    rows: QuerySet[Any] = apps.get_model("holdpoint_approvals", model)._default_manager.all()
    return rows
