"""The list of reviews at any size: its filters, its search, and the names on a page of it.

Invariants owned: whom a page names is asked for once, for all of its rows; of however many who are asked for one review
only the first few are read; and somebody sees the reviews of their own workspaces, here as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import UUID

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from approvals.models import RISKS, Candidate, Review
from approvals.models.querysets import ReviewQuerySet
from approvals.people.principals import USER, describe_principals
from approvals.rules.outcomes import WITHDRAWN
from workflows.admin.bounded_lists import CHOICES, SAMPLE, WorkspaceFilter, chosen
from workflows.admin.tenancy import list_own
from workflows.clock import Now

#: Those asked who are named in a row.
NAMED = 3
#: What a row does not show; each may be large.
VALUES = ("quorum", "rungs", "snapshot", "change", "evidence")


class ReviewList(ChangeList):
    """Rows without their values, and with the names of whom they are about."""

    def get_queryset(self, *args: Any, **kwargs: Any) -> QuerySet[Any]:
        """The filtered rows; where somebody looks for what waits, what is due first comes first."""
        rows: QuerySet[Any] = super().get_queryset(*args, **kwargs).defer(*VALUES)
        if self.params.get("status") == "waiting" or self.params.get("due") or self.params.get("decides"):
            return rows.order_by(F("due_at").asc(nulls_last=True), "pk")
        return rows

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page, with names."""
        super().get_results(request)
        give_names(self.result_list)


class RuledFilter(SimpleListFilter):
    """One of some rules, each with its words."""

    rules: Mapping[str, Q]
    words: Mapping[str, Any]

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return list(self.words.items())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value is None:
            return queryset
        try:
            return queryset.filter(self.rules[value])
        except KeyError as error:
            raise IncorrectLookupParameters(error) from error


class ReviewStateFilter(RuledFilter):
    """The same of reviews that stand so, as everything else tells it."""

    statuses: Mapping[str, str]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        rows, status = super().queryset(request, queryset), self.statuses.get(self.value() or "", "any")
        return cast(ReviewQuerySet, rows).with_status(status)


class DeciderFilter(SimpleListFilter):
    """What one may decide oneself: the list of the inbox."""

    title = _("who is asked")
    parameter_name = "decides"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("me", _("Waiting for me"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        if value not in (None, "me"):
            raise IncorrectLookupParameters(value)
        return queryset if value is None else cast(ReviewQuerySet, queryset).for_user(request.user)


class ReviewStatusFilter(ReviewStateFilter):
    """By how it stands."""

    title = _("status")
    parameter_name = "status"
    words = {
        "waiting": _("Waiting"),
        "stranded": _("Nobody can decide"),
        "deciding": _("Being decided"),
        "decided": _("Decided"),
        "withdrawn": _("Withdrawn"),
        "over": _("Over without a decision"),
    }
    statuses = {
        "waiting": "open",
        "stranded": "open",
        "deciding": "grace",
        "decided": "decided",
        "withdrawn": "closed",
        "over": "closed",
    }
    rules = {
        **dict.fromkeys(words, Q()),
        "stranded": Q(stranded_at__isnull=False),
        "withdrawn": Q(outcome__in=WITHDRAWN),
        "over": ~Q(outcome__in=WITHDRAWN),
    }


class DueFilter(ReviewStateFilter):
    """By when an answer is due; only of what waits."""

    title = _("due")
    parameter_name = "due"
    words = {"overdue": _("Overdue"), "coming": _("Due later"), "never": _("Never due")}
    statuses = dict.fromkeys(words, "open")
    rules = {
        "overdue": Q(due_at__lt=Now()),
        "coming": Q(due_at__gte=Now()),
        "never": Q(due_at__isnull=True),
    }


class RiskFilter(RuledFilter):
    """By risk."""

    title = _("risk")
    parameter_name = "risk"
    words = RISKS
    rules = {name: Q(risk=name) for name in RISKS}


class ReviewWorkflowFilter(SimpleListFilter):
    """By workflow: those of the newest reviews; any other can be had by its address."""

    title = _("workflow")
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        mine = Review.objects.filter(workspace_id__in=[id for id, _slug in list_own(request)])
        stored = mine.order_by("-pk").values_list("workflow", flat=True)[:SAMPLE]
        return [(name, name) for name in sorted(set(stored) | chosen(self))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(workflow=value)


class OwnWorkspaceFilter(WorkspaceFilter):
    """By workspace, of one's own; not offered where there is only one."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        slugs = {slug for _id, slug in list_own(request)[:CHOICES]}
        return [(slug, slug) for slug in sorted(slugs | chosen(self))] if len(slugs) > 1 else []


def search_reviews(queryset: QuerySet[Any], term: str) -> QuerySet[Any]:
    """One review by its whole id; else those whose title or subject has the term, or whose requester's name begins so.

    The text of a sentence is in no index: on a large table narrow it down with a filter as well.
    """
    try:
        found = queryset.filter(pk=UUID(term))
    except ValueError:
        pass
    else:
        if found.exists():
            return found
    people = get_user_model()
    named = people._default_manager.filter(**{f"{people.USERNAME_FIELD}__istartswith": term})
    return queryset.filter(
        Q(title__icontains=term) | Q(subject_label__icontains=term) | Q(requester_id__in=named.values("pk"))
    )


def give_names(rows: Sequence[Any]) -> None:
    """Put on each row `shown_names` (what principals are called) and `shown_asked` (the first who are asked)."""
    asked = _read_asked([row.pk for row in rows])
    principals = [principal for few in asked.values() for principal in few[:NAMED]]
    for row in rows:
        principals += [f"{USER}:{key}" for key in (row.requester_id, row.claimed_by_id) if key is not None]
    wanted = list(dict.fromkeys(principals))
    names = dict(zip(wanted, describe_principals(wanted), strict=True)) if wanted else {}
    for row in rows:
        vars(row)["shown_names"] = names
        vars(row)["shown_asked"] = asked.get(row.pk, [])


def _read_asked(keys: Sequence[UUID]) -> dict[UUID, list[str]]:
    """The first few of each review, by the index that keeps them apart; a review may ask a thousand."""
    if not keys:
        return {}
    few = Candidate.objects.filter(review_id=OuterRef("pk")).order_by("principal").values("principal")[: NAMED + 1]
    rows = Review.objects.filter(pk__in=keys).annotate(asked=ArraySubquery(few))
    return {pk: list(asked) for pk, asked in rows.values_list("pk", "asked")}
