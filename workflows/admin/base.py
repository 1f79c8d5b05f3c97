"""What the pages of engine tables have in common: they read, and stay fast.

Invariants owned: nobody, superusers neither, adds, changes or deletes a row through a `ReadOnlyAdmin`; a whole value
leaves as plain text, which no browser takes for anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import FieldDoesNotExist, PermissionDenied, ValidationError
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, re_path, reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from workflows.admin.bounded_lists import CappedPaginator
from workflows.admin.markup import NOTHING, VALUE, answer_plainly, dump_json, show_block
from workflows.admin.tenancy import ModelAdmin
from workflows.exceptions import WorkflowError

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

#: Messages of one request; the rest is summed up.
MESSAGES = 20


class PageTools(ModelAdmin):
    """Buttons on the page of one row: each is an action of the list, made for this row."""

    change_form_template = "admin/holdpoint/tools.html"

    def list_tools(self, request: HttpRequest, row: Any) -> list[tuple[str, Any]]:
        """Names of actions that this user may make, and the words of their buttons."""
        raise NotImplementedError

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any) -> Any:
        """The page, with the buttons."""
        row = options.get("obj")
        context["tools"] = [] if row is None else self.list_tools(request, row)
        return super().render_change_form(request, context, *args, **options)


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
        except (ValidationError, ValueError, TypeError, OverflowError):
            return False
        return True

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """The list; rows that nobody could have chosen there are no rows."""
        chosen = request.POST.getlist(ACTION_CHECKBOX_NAME) if request.method == "POST" else []
        if not all(self._takes(self.opts.pk.name, one) for one in chosen):
            return HttpResponseRedirect(request.get_full_path())
        return super().changelist_view(request, extra_context)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """The form; what a call refuses is shown above it."""
        try:
            return super().changeform_view(request, object_id, form_url, extra_context)
        except WorkflowError as refusal:
            self.message_user(request, str(refusal), messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """The list; without what no column can hold, which the database would answer with an error."""
        if any("\0" in text for name, values in request.GET.lists() for text in (name, *values)):
            raise IncorrectLookupParameters
        return super().get_changelist_instance(request)

    def report_results(self, request: HttpRequest, results: Sequence[tuple[str, int]]) -> None:
        """Show the message and the level of each call; refusals first, because the operator has to act on them."""
        ordered = sorted(results, key=lambda result: result[1] != messages.ERROR)
        for text, level in islice(ordered, MESSAGES):
            self.message_user(request, text, level)
        if len(ordered) > MESSAGES:
            failed = sum(level == messages.ERROR for _text, level in ordered)
            total = gettext("%(done)d of %(all)d succeeded, %(failed)d were refused.")
            counts = {"all": len(ordered), "done": len(ordered) - failed, "failed": failed}
            self.message_user(request, total % counts, messages.WARNING if failed else messages.SUCCESS)


class ReadOnlyAdmin(StyledAdmin):
    """Rows are read through the view permission; a list counts no further than people page."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    paginator = CappedPaginator

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Never: rows come into being through the engine's own calls."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: the engine alone writes these rows."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        """Never: retention removes what has ended."""
        return False


class JsonColumns(StyledAdmin):
    """Columns that hold JSON: field `<name>_json` shows the beginning of a value, and an address has all of it."""

    #: Column -> its heading.
    json_columns: ClassVar[Mapping[str, str | _StrPromise]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for column, heading in vars(cls).get("json_columns", {}).items():
            setattr(cls, f"{column}_json", _make_field(column, heading))

    def read_json(self, row: Any, column: str) -> Any:
        """The value of a column."""
        return getattr(row, column)

    def show_json(self, row: Model, column: str) -> SafeString:
        """A value, or its beginning with a way to all of it."""
        value = self.read_json(row, column)
        if value is None:
            return NOTHING
        whole = reverse(f"admin:{self._value_name}", args=[row.pk, column], current_app=self.admin_site.name)
        return show_block(dump_json(value), whole, VALUE)

    def get_urls(self) -> list[URLPattern]:
        """The addresses of the page, and of whole values."""
        return [
            re_path(
                rf"^(?P<object_id>[0-9a-f-]{{36}})/value/(?P<what>{'|'.join(self.json_columns)})/$",
                self.admin_site.admin_view(self.value_view),
                name=self._value_name,
            ),
            *super().get_urls(),
        ]

    def value_view(self, request: HttpRequest, object_id: str, what: str) -> HttpResponse:
        """A whole value as plain text."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        row = self.get_object(request, object_id)
        if row is None:
            raise Http404
        return answer_plainly(dump_json(self.read_json(row, what)))

    @property
    def _value_name(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_value"


def _make_field(column: str, heading: str | _StrPromise) -> Callable[[JsonColumns, Model], SafeString]:
    @admin.display(description=heading)
    def show(self: JsonColumns, row: Model) -> SafeString:
        return self.show_json(row, column)

    return show
