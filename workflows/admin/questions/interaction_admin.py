"""Interactions in the admin: what the outside is asked, and how each question stands.

Invariant owned: read only, and neither a token nor a hash leaves the database for a page.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from workflows.admin.actors import find_actors, show_actor
from workflows.admin.base import JsonColumns
from workflows.admin.bounded_lists import SAMPLE, WorkspaceFilter, chosen
from workflows.admin.markup import (
    ANSWERS,
    show_id,
    show_moment,
    show_relative,
    show_standing,
    show_text,
)
from workflows.admin.questions import dispatch_log
from workflows.admin.questions.dispatch_log import DispatchAdmin
from workflows.admin.tenancy import ModelAdmin, keep_own
from workflows.definitions.item_streams import LINE
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.lifecycle import InteractionStatus
from workflows.models import Instance, Interaction
from workflows.wording.punctuation import join_html

#: What a list of interactions or a table of them needs; the rest may be large, or secret.
COLUMNS = (
    *("id", "unit", "instance", "workspace", "index", "item", "queued", "status", "version", "channel", "signal_id"),
    *("created_at", "deadline", "closed_at", "actor", "assignee", "group"),
)
DETAILS = ("correlation_id", "schema_type", *dispatch_log.COLUMNS, "request", "schema", "output")


class AnswerFilter(SimpleListFilter):
    """Interactions by their status."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        return [(status.value, ANSWERS[status][0]) for status in InteractionStatus]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Interaction]) -> QuerySet[Interaction]:
        value = self.value()
        if value is None:
            return queryset
        try:
            status = InteractionStatus(value)
            found = queryset.filter(status=status)
            # An item whose turn has not come is not asked yet.
            return found.filter(queued=False) if status is InteractionStatus.PENDING else found
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error


class QuestionChannelFilter(SimpleListFilter):
    """By channel: those of the newest rows; any other can be had by its address."""

    title = _("channel")
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        stored = keep_own(Interaction.objects.all(), request).order_by("-id").values_list("channel", flat=True)[:SAMPLE]
        return [(channel, channel) for channel in sorted(set(stored) | chosen(self))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Interaction]) -> QuerySet[Interaction]:
        value = self.value()
        return queryset if value is None else queryset.filter(channel=value)


class UnitFilter(SimpleListFilter):
    """The items of one unit; offered where an address names it."""

    title = _("await unit")
    parameter_name = "unit"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        return [(value, show_text(value, 8)) for value in chosen(self)]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Interaction]) -> QuerySet[Interaction]:
        value = self.value()
        try:
            return queryset if value is None else queryset.filter(unit_id=UUID(value))
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error


@admin.register(Interaction)
class InteractionAdmin(JsonColumns, DispatchAdmin):
    """Reads; answers come through the doors of the engine."""

    json_columns = {"request": _("request"), "schema": _("schema"), "output": _("answer")}

    list_display = ("what", "badge", "over", "until", "holder", "of_instance", "asked")
    list_display_links = ("what",)
    list_filter = (AnswerFilter, QuestionChannelFilter, UnitFilter, WorkspaceFilter)
    ordering = ("-id",)
    search_fields = ("signal_id",)
    search_help_text = _("The beginning of a signal id")

    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("full_signal_id", "badge"),
                    ("over", "owned"),
                    ("of_instance", "of_wait"),
                    ("holder", "correlation"),
                    ("deadline_exactly", "version"),
                )
            },
        ),
        (_("Values"), {"fields": ("request_json", "schema_json", "output_json")}),
        (_("Origin"), {"fields": ("asked_exactly", ("closed", "by"), "id")}),
        (_("Dispatch"), {"fields": dispatch_log.ROWS}),
    )
    readonly_fields = (
        *("full_signal_id", "badge", "over", "owned", "of_instance", "of_wait", "holder", "correlation"),
        *("deadline_exactly", "version", "request_json", "schema_json", "output_json"),
        *("asked_exactly", "dispatched", "closed", "by", "id"),
        *dispatch_log.FIELDS,
    )

    def get_ordering(self, request: HttpRequest) -> tuple[str, ...]:
        """The newest first; of one unit the items as they were given, which has an index."""
        return ("index",) if request.GET.get(UnitFilter.parameter_name) else self.ordering

    def get_queryset(self, request: HttpRequest) -> QuerySet[Interaction]:
        """What a row needs, with the names of what it belongs to from the same statement; a count leaves those out."""
        names = ("instance__workflow", "instance__key", "workspace__slug", "unit__step")
        rows: QuerySet[Interaction] = keep_own(Interaction.objects.exclude(channel=LINE), request).only(
            *COLUMNS, "owned", *names
        )
        return rows.select_related("instance", "workspace", "unit")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Interaction | None:
        """One, with its values."""
        found: Interaction | None = super().get_object(request, object_id, from_field)
        if found is not None:
            found.refresh_from_db(fields=list(DETAILS))
            vars(found)["shown_actors"] = find_actors([found.actor], request, self.admin_site.name)
        return found

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Interaction], search_term: str
    ) -> tuple[QuerySet[Interaction], bool]:
        """Only by how a signal id begins, which an index can answer; never a duplicate."""
        term = search_term.strip()
        return (queryset.filter(signal_id__startswith=term) if term else queryset), False

    # --- the list -----------------------------------------------------------------------------------

    @admin.display(description=_("signal id"))
    def what(self, row: Interaction) -> SafeString:
        """Outside the default workspace with that in front, because signal ids are unique within one."""
        place = (
            ""
            if row.workspace.slug == DEFAULT_WORKSPACE
            else format_html('<span class="hp-quiet">{}/</span>', row.workspace.slug)
        )
        return format_html("{}{}", place, show_text(row.signal_id, 60))

    @admin.display(description=_("status"))
    def badge(self, row: Interaction) -> SafeString:
        return show_standing(row)

    @admin.display(description=_("channel"))
    def over(self, row: Interaction) -> SafeString:
        return show_text(row.channel, 40)

    @admin.display(description=_("deadline"))
    def until(self, row: Interaction) -> SafeString:
        return show_relative(row.deadline, timezone.now())

    @admin.display(description=_("assigned to"))
    def holder(self, row: Interaction) -> SafeString:
        return show_holder(row)

    @admin.display(description=_("instance"))
    def of_instance(self, row: Interaction) -> SafeString:
        url = reverse("admin:holdpoint_instance_change", args=[row.instance_id], current_app=self.admin_site.name)
        name = show_text(row.instance.workflow, 40)
        detail = show_text(row.instance.key, 40) if row.instance.key else show_id(row.instance_id)
        return format_html('<a href="{}">{} {}</a>', url, name, detail)

    @admin.display(description=pgettext_lazy("a question", "asked"))
    def asked(self, row: Interaction) -> SafeString:
        return show_relative(row.created_at, timezone.now())

    # --- the page of one ----------------------------------------------------------------------------

    @admin.display(description=_("signal id"))
    def full_signal_id(self, row: Interaction) -> SafeString:
        return show_text(row.signal_id, 200)

    @admin.display(description=_("wait"))
    def of_wait(self, row: Interaction) -> SafeString:
        return show_text(row.unit.step, 60)

    @admin.display(description=_("correlation id"))
    def correlation(self, row: Interaction) -> SafeString:
        return show_text(row.correlation_id, 200)

    @admin.display(description=_("deadline"))
    def deadline_exactly(self, row: Interaction) -> SafeString:
        return show_moment(row.deadline)

    @admin.display(description=pgettext_lazy("a question", "asked"))
    def asked_exactly(self, row: Interaction) -> SafeString:
        return show_moment(row.created_at)

    @admin.display(description=_("dispatched"))
    def dispatched(self, row: Interaction) -> SafeString:
        return show_moment(row.dispatched_at)

    @admin.display(description=_("closed"))
    def closed(self, row: Interaction) -> SafeString:
        return show_moment(row.closed_at)

    @admin.display(description=_("by"))
    def by(self, row: Interaction) -> SafeString:
        return show_actor(row.actor, getattr(row, "shown_actors", {}))


def show_holder(row: Interaction) -> SafeString:
    """To whom a question is assigned: a person, a group, or both."""
    if row.group is None:
        return show_text(row.assignee)
    group = format_html('<span class="hp-quiet">{}</span> {}', gettext("group"), show_text(row.group))
    return group if row.assignee is None else join_html([show_text(row.assignee), group])


def read_questions(instance: Instance) -> QuerySet[Interaction]:
    """The questions of an instance, newest first; through its units, which have the index."""
    rows: QuerySet[Interaction] = (
        Interaction.objects.filter(unit__instance=instance)
        .only(*COLUMNS)
        .annotate(wait=F("unit__step"))
        .order_by("-id")
    )
    return rows
