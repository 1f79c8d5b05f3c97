"""What the pages of engine tables have in common: they read, and stay fast.

Invariant owned: nobody, superusers neither, adds, changes or deletes a row through such a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.http import HttpRequest

from workflows.admin.listing import CappedPaginator

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class StyledAdmin(ModelAdmin):
    """Badges and tables look as they should."""

    class Media:
        css = {"all": ["workflows/admin.css"]}

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest) -> bool:
        """Only what a list offers as a filter: any other column could be asked for what it cannot be compared with."""
        offered = self.get_list_filter(request)
        return lookup.removesuffix("__exact") in {getattr(one, "parameter_name", one) for one in offered}

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list; without what no column can hold, which the database would answer with an error."""
        if any("\0" in text for name, values in request.GET.lists() for text in (name, *values)):
            raise IncorrectLookupParameters
        return super().get_changelist_instance(request)


class ReadOnlyAdmin(StyledAdmin):
    """Rows are read through the view permission; a list counts no further than people page."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: rows come into being through the engine's own calls."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: retention removes what has ended."""
        return False
