"""Absences and preferences in the admin: ordinary rows, changed by whoever has the permission.

Invariant owned: nobody is picked from a list of all users where they can be searched for.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import ForeignKey, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from approvals.admin.reviews.review_filters import RuledFilter
from approvals.display.values import show_text as reveal
from approvals.models import Absence, Preference
from approvals.people.principals import name_person
from approvals.web.personal.personal_forms import AbsenceForm, PreferenceForm
from workflows.admin.base import StyledAdmin
from workflows.admin.markup import show_badge, show_moment, show_names, show_text
from workflows.admin.tenancy import find_scopes, is_bounded, keep_own
from workflows.clock import Now
from workflows.models import Workspace

#: Moments of an absence: not yet, now, over.
_BEGUN, _OVER = Q(since__lte=Now()), Q(until__lte=Now())


class PeopleAdmin(StyledAdmin):
    """Rows that point to users, who are found by their login names."""

    people: tuple[str, ...] = ()

    def get_autocomplete_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """Users are searched for where this person can search them; else they are picked from a list."""
        users = self.admin_site._registry.get(get_user_model())
        can = users is not None and users.get_search_fields(request) and users.has_view_permission(request)
        return self.people if can else ()

    def formfield_for_foreignkey(self, db_field: ForeignKey[Any, Any], request: HttpRequest, **options: Any) -> Any:
        """Users by their names, whatever model they are of."""
        field = super().formfield_for_foreignkey(db_field, request, **options)
        if field is not None and db_field.name in self.people:
            vars(field)["label_from_instance"] = name_person
        return field

    def get_search_fields(self, request: HttpRequest) -> tuple[str, ...]:
        """By login name."""
        name = get_user_model().USERNAME_FIELD
        return tuple(f"{one}__{name}__istartswith" for one in self.people)


class RunningFilter(RuledFilter):
    """By whether it is now."""

    title = _("when")
    parameter_name = "when"
    words = {"now": _("Now"), "coming": _("To come"), "over": _("Over")}
    rules = {"now": _BEGUN & ~_OVER, "coming": ~_BEGUN, "over": _OVER}


@admin.register(Absence)
class AbsenceAdmin(PeopleAdmin):
    """Who stands in for whom, and when."""

    form = AbsenceForm
    people = ("user", "substitute")
    list_display = ("absent", "stands_in", "begins", "ends", "state", "where", "which")
    list_display_links = ("absent",)
    list_filter = (RunningFilter,)
    list_select_related = ("user", "substitute", "workspace")
    ordering = ("-since",)
    search_help_text = _("How the login name of either begins")
    search_fields = ("user",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Those of one's own workspaces, and those of all: accounts belong to the site."""
        rows, scopes = super().get_queryset(request), find_scopes(request)
        return rows if scopes is None else rows.filter(Q(workspace=None) | Q(workspace__in=scopes))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """One that holds in all workspaces is not for who works in some."""
        return self._lies_within(request, obj) and super().has_change_permission(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """The same."""
        return self._lies_within(request, obj) and super().has_delete_permission(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """As for one."""
        super().delete_queryset(request, queryset.exclude(workspace=None) if is_bounded(request) else queryset)

    def formfield_for_foreignkey(self, db_field: ForeignKey[Any, Any], request: HttpRequest, **options: Any) -> Any:
        """Of one's own workspaces; one of them has to be said where there are others."""
        if db_field.name == "workspace":
            options["queryset"] = keep_own(Workspace.objects.order_by("slug"), request, "pk")
        field = super().formfield_for_foreignkey(db_field, request, **options)
        if field is not None and db_field.name == "workspace" and is_bounded(request):
            field.required = True
        return field

    def _lies_within(self, request: HttpRequest, obj: Any) -> bool:
        return obj is None or obj.workspace_id is not None or not is_bounded(request)

    @admin.display(description=_("who is away"), ordering="user")
    def absent(self, row: Absence) -> SafeString:
        return show_text(reveal(name_person(row.user)), 60)

    @admin.display(description=_("who stands in"), ordering="substitute")
    def stands_in(self, row: Absence) -> SafeString:
        return show_text(reveal(name_person(row.substitute)), 60)

    @admin.display(description=_("from"), ordering="since")
    def begins(self, row: Absence) -> SafeString:
        return show_moment(row.since)

    @admin.display(description=_("until"), ordering="until")
    def ends(self, row: Absence) -> SafeString:
        if row.until is None:
            return format_html('<span class="hp-quiet">{}</span>', _("until further notice"))
        return show_moment(row.until)

    @admin.display(description=_("state"))
    def state(self, row: Absence) -> SafeString:
        now = timezone.now()
        if row.since > now:
            return show_badge(_("to come"), "quiet")
        if row.until is not None and row.until <= now:
            return show_badge(_("over"), "quiet")
        return show_badge(_("now"), "go")

    @admin.display(description=_("workspace"))
    def where(self, row: Absence) -> SafeString:
        if row.workspace is None:
            return format_html('<span class="hp-quiet">{}</span>', _("all"))
        return show_text(row.workspace.slug, 40)

    @admin.display(description=_("workflows"))
    def which(self, row: Absence) -> SafeString:
        if row.workflows is None:
            return format_html('<span class="hp-quiet">{}</span>', _("all"))
        return show_names(row.workflows)


@admin.register(Preference)
class PreferenceAdmin(PeopleAdmin):
    """How people like to be told, and to work."""

    form = PreferenceForm
    people = ("user",)
    list_display = ("person", "language", "time_zone", "email", "shortcuts")
    list_display_links = ("person",)
    list_filter = ("email",)
    list_select_related = ("user",)
    ordering = ("user_id",)
    search_help_text = _("How a login name begins")
    search_fields = ("user",)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """A preference stays whose it is."""
        return () if obj is None else ("user",)

    @admin.display(description=_("user"), ordering="user")
    def person(self, row: Preference) -> SafeString:
        return show_text(reveal(name_person(row.user)), 60)
