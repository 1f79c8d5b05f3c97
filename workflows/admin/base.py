"""What the pages of engine tables have in common: they read, and stay fast.

Invariant owned: nobody, superusers neither, adds, changes or deletes a row through such a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.http import HttpRequest, HttpResponseRedirect

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

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """None for what no column can hold."""
        return None if "\0" in str(object_id) else super().get_object(request, object_id, from_field)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """From the address, without what its fields cannot take."""
        found = super().get_changeform_initial_data(request)
        return {name: value for name, value in found.items() if self._takes(name, value)}

    def _takes(self, name: str, value: Any) -> bool:
        try:
            field: Any = self.opts.get_field(name)
            for one in value if isinstance(value, list) else [value]:
                if "\0" in str(one):
                    return False
                (field.target_field if field.is_relation else field).to_python(one)
        except FieldDoesNotExist:
            return "\0" not in str(value)
        except (ValidationError, ValueError, TypeError):
            return False
        return True

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """The list; rows that nobody could have chosen there are no rows."""
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME) if request.method == "POST" else []
        if not all(self._takes(self.opts.pk.name, one) for one in chosen):
            return HttpResponseRedirect(request.get_full_path())
        return super().changelist_view(request, extra_context)

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
