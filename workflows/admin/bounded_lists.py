"""Lists of rows at any size: a bounded count, and a filter that is cheap to offer.

Lives here: what the lists of several tables share. Must not live here: filters of one table. Invariant owned: a count
ends at `CappedPaginator.cap`, and the choices of a filter come from a bounded number of rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib.admin import SimpleListFilter
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from workflows.admin.tenancy import ModelAdmin, keep_own
from workflows.models import Workspace

if TYPE_CHECKING:
    _Paginator = Paginator[Any]
else:
    _Paginator = Paginator

#: Newest rows that are looked at for names of workflows and of channels.
SAMPLE = 1_000
#: Workspaces that the filter offers; any other can be had by its address (`?workspace=slug`).
CHOICES = 100


class CappedPaginator(_Paginator):
    """Counts up to a limit and then stops; nobody turns ten thousand rows' worth of pages."""

    cap = 10_000

    @cached_property
    def counted(self) -> int:
        """The number of rows, or one more than the cap."""
        rows: Any = self.object_list
        return int(rows.order_by()[: self.cap + 1].count())

    @cached_property
    def count(self) -> int:
        """How many rows can be paged through."""
        return min(self.counted, self.cap)

    @property
    def capped(self) -> bool:
        """Whether there are more rows than pages."""
        return self.counted > self.cap


class WorkspaceFilter(SimpleListFilter):
    """By workspace; not offered where there is only one."""

    title = _("workspace")
    parameter_name = "workspace"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        slugs = set(
            keep_own(Workspace.objects.all(), request, "pk").order_by("slug").values_list("slug", flat=True)[:CHOICES]
        )
        return [(slug, slug) for slug in sorted(slugs | chosen(self))] if len(slugs) > 1 else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        value = self.value()
        return queryset if value is None else queryset.filter(workspace__slug=value)


def chosen(filter: SimpleListFilter) -> set[str]:
    """What the address asks for, so that it stays visible even where it is not among the choices."""
    value = filter.value()
    return {value} if value else set()
