"""What the lists of votes, comments and deliveries have in common: rows of reviews that one may see, and their names.

Invariant owned: somebody sees the rows of their own workspaces; the names of a page take one statement.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from approvals.admin.badges import link_review
from approvals.admin.reviews.review_filters import search_reviews
from approvals.display.values import show_text as reveal
from approvals.models import Review
from approvals.people.principals import USER, describe_principals
from workflows.access.memberships import list_workspaces
from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.markup import NOTHING, show_moment, show_text


class NamedList(ChangeList):
    """Rows with the names of their users."""

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page, with names."""
        super().get_results(request)
        name_rows(self.result_list)


class OfReviewAdmin(ReadOnlyAdmin):
    """Rows that belong to a review."""

    list_per_page = 50
    ordering = ("-pk",)
    search_fields = ("review__title",)
    search_help_text = _("A review’s whole id, or how a user’s login name begins")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Those of one's own workspaces, with the titles of their reviews."""
        scopes = [id for id, _slug in list_workspaces(request.user)]
        rows: QuerySet[Any] = self.model._default_manager.filter(review__workspace_id__in=scopes)
        return rows.select_related("review").only(*self.list_columns(), "review__title", "review__outcomes")

    def list_columns(self) -> list[str]:
        """What a row needs, and a page shows."""
        return [field.attname for field in self.model._meta.concrete_fields]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NamedList]:
        """The list with names."""
        return NamedList

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """One, with names."""
        found: Any = super().get_object(request, object_id, from_field)
        if found is not None:
            name_rows([found])
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """By the review, or by whose it is; never a duplicate."""
        term = search_term.strip()
        if not term:
            return queryset, False
        people = get_user_model()
        named = people._default_manager.filter(**{f"{people.USERNAME_FIELD}__istartswith": term})
        reviews = search_reviews(Review.objects.all(), term) if _is_id(term) else Review.objects.none()
        return queryset.filter(Q(user_id__in=named.values("pk")) | Q(review_id__in=reviews.values("pk"))), False

    def show_review(self, row: Any, request: HttpRequest | None = None) -> SafeString:
        """The review's title; its page refuses whoever may not open it."""
        return link_review(row.review, self.admin_site.name)

    def show_user(self, row: Any) -> SafeString:
        """Who, by name."""
        if row.user_id is None:
            return show_text(getattr(row, "actor", ""), 40)
        return show_text(reveal(row.shown_names[f"{USER}:{row.user_id}"]), 40)

    def show_at(self, moment: Any) -> SafeString:
        """A moment, or that there is none."""
        return NOTHING if moment is None else show_moment(moment)


def name_rows(rows: Any) -> None:
    """Put `shown_names` on each row."""
    keys = dict.fromkeys(
        key for row in rows for key in (row.user_id, getattr(row, "on_behalf_of_id", None)) if key is not None
    )
    wanted = [f"{USER}:{key}" for key in keys]
    names = dict(zip(wanted, describe_principals(wanted), strict=True)) if wanted else {}
    for row in rows:
        vars(row)["shown_names"] = names


def _is_id(term: str) -> bool:
    return len(term) in (32, 36) and all(char in "0123456789abcdefABCDEF-" for char in term)
