"""Asking for reviews: whose they are, and in which order.

Invariants owned: badge, list, REST and admin count and show the same rows, because they ask the same queryset; and what
it lists is what `decisions.decide` lets that person decide (a test compares them).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact

from approvals.people.eligibility_sql import ExistsHere, is_free, leave_out_barred, list_rows
from approvals.people.inbox_source import leave_streams, push_down, read_streams
from approvals.people.person import Person
from approvals.people.principals import forget_permissions, name_user
from approvals.people.viewer import Viewer, see_as
from approvals.rules.outcomes import WITHDRAWN
from workflows.clock import Now
from workflows.models import ReadQuerySet


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

    def for_user(
        self, user: Person | Viewer | None, *, workspace: int | None = None, snoozed: bool | None = False
    ) -> ReviewQuerySet:
        """Those that a user (or a `Viewer`) may decide now: as a candidate, or for somebody who is away.

        Not those that a rule keeps from them (their own or of an earlier stage under four eyes, decided by them
        already, claimed by somebody else, being decided), and without what they have put aside; with `snoozed=True`
        only that, with None both. What is due first comes first.
        """
        viewer = user if isinstance(user, Viewer) else Viewer(forget_permissions(user))
        key = viewer.user.pk
        rows: ReviewQuerySet = read_streams(self, viewer.list_streams(self.db, workspace))
        rows = leave_out_barred(rows.filter(open=True, effective_at__isnull=True), key).filter(is_free(key)).by_due()
        if snoozed is None:
            return rows
        put_aside = list_rows("Snooze").filter(review_id=OuterRef("pk"), user_id=key, until__gt=Now())
        if snoozed:
            return rows.filter(Exists(put_aside))
        # As a number: asked of each row by itself, and PostgreSQL expects that hardly any is.
        return rows.exclude(Exact(Coalesce(Subquery(put_aside.values(number=Value(1))), 0), 1))

    def visible_to(self, user: Person | Viewer | None, *, workspace: int | None = None) -> ReviewQuerySet:
        """Those that a user (or a `Viewer`) may look at: who is asked or stands in, who asked, handed on or voted; and
        who may see all.

        Also when they are decided. It is asked of each review by itself: filter, or find one, before a million pass by.
        """
        viewer = see_as(user)
        if not viewer.is_active:
            return self.none()
        scopes = viewer.narrow(workspace)
        rows = self.filter(workspace_id__in=scopes)
        return rows if viewer.may_see_all else rows.filter(_has_to_do(viewer.user) | _is_concerned(viewer, scopes))

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


def _has_to_do(user: Person) -> Q:
    """What somebody asked for or voted on."""
    voted = list_rows("Vote").filter(Q(user_id=user.pk) | Q(on_behalf_of_id=user.pk), review_id=OuterRef("pk"))
    return Q(requester_id=user.pk) | Q(ExistsHere(voted))


def _has_part(viewer: Viewer) -> Q:
    """What asks somebody, or what they have handed on."""
    named = Q(principal__in=viewer.list_principals()) | Q(added_by=name_user(viewer.user))
    return Q(ExistsHere(list_rows("Candidate").filter(named, review_id=OuterRef("pk"))))


def _is_concerned(viewer: Viewer, scopes: Sequence[int]) -> Q:
    """The same for somebody and those they stand in for."""
    found = _has_part(viewer)
    for away in viewer.absent:
        within = Q()
        for workflows, there in away.list_shares(scopes).items():
            within |= Q(workspace_id__in=there) & (Q(workflow__in=workflows) if workflows else Q())
        if within:
            found |= within & _has_part(away)
    return found
