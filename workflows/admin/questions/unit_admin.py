"""Await units in the admin: what instances wait for as a whole, and how far it is.

Invariants owned: read only; and a page costs the same however many items a unit has, because its own counters tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.bounded_lists import WorkspaceFilter
from workflows.admin.markup import (
    ANSWERS,
    NOTHING,
    show_badge,
    show_id,
    show_moment,
    show_progress,
    show_relative,
    show_text,
)
from workflows.admin.tenancy import ModelAdmin, keep_own
from workflows.lifecycle import InteractionStatus, UnitStatus
from workflows.models import AwaitUnit, Instance
from workflows.units.unit_counts import count_items

#: How a unit stands, in words and a tone; how it ends is said as of a question.
UNITS: Mapping[UnitStatus, tuple[Any, str]] = {
    UnitStatus.OPEN: (pgettext_lazy("a unit", "open"), "wait"),
    **{UnitStatus(status.value): told for status, told in ANSWERS.items() if status is not InteractionStatus.PENDING},
}
#: Of an instance, on its page.
ROWS = 50


class UnitStatusFilter(SimpleListFilter):
    """Units by their status."""

    title = _("status")
    parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        return [(status.value, UNITS[status][0]) for status in UnitStatus]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AwaitUnit]) -> QuerySet[AwaitUnit]:
        value = self.value()
        try:
            return queryset if value is None else queryset.filter(status=UnitStatus(value))
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error


class ItemsFilter(SimpleListFilter):
    """Whether it asks one question per item of a list."""

    title = _("items")
    parameter_name = "items"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        return [("true", _("One question per item")), ("false", _("One question"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[AwaitUnit]) -> QuerySet[AwaitUnit]:
        value = self.value()
        return queryset if value is None else queryset.filter(items=value == "true")


@admin.register(AwaitUnit)
class UnitAdmin(ReadOnlyAdmin):
    """Reads; its items are answered through the doors of the engine."""

    list_display = ("of_wait", "badge", "through", "in_flight", "in_queue", "bad", "late", "of_instance", "begun")
    list_display_links = ("of_wait",)
    list_filter = (UnitStatusFilter, ItemsFilter, WorkspaceFilter)
    ordering = ("-id",)
    fieldsets = (
        (None, {"fields": (("of_wait", "badge"), "of_instance", ("through", "shown_items"))}),
        (_("items"), {"fields": (("in_queue", "in_flight", "good"), ("bad", "late", "dropped"), "rules")}),
        (_("Origin"), {"fields": (("begun_exactly", "sent"), ("closed", "told"), "id")}),
    )
    readonly_fields = (
        *("of_wait", "badge", "of_instance", "through", "shown_items", "in_queue", "in_flight", "good", "bad", "late"),
        *("dropped", "rules", "begun_exactly", "sent", "closed", "told", "id"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[AwaitUnit]:
        """What a row needs, with the names of what it belongs to from the same statement."""
        rows: QuerySet[AwaitUnit] = keep_own(AwaitUnit.objects.all(), request)
        return rows.select_related("instance").defer("instance__input", "instance__stored_state", "instance__result")

    @admin.display(description=_("wait"))
    def of_wait(self, row: AwaitUnit) -> SafeString:
        return show_text(row.step, 60)

    @admin.display(description=_("status"))
    def badge(self, row: AwaitUnit) -> SafeString:
        return show_badge(*UNITS[row.status])

    @admin.display(description=_("progress"))
    def through(self, row: AwaitUnit) -> SafeString:
        return show_through(row)

    @admin.display(description=_("in flight"))
    def in_flight(self, row: AwaitUnit) -> int:
        return count_items(row).in_flight

    @admin.display(description=pgettext_lazy("an item", "queued"))
    def in_queue(self, row: AwaitUnit) -> int:
        return count_items(row).queued

    @admin.display(description=pgettext_lazy("interaction", "answered"))
    def good(self, row: AwaitUnit) -> int:
        return count_items(row).completed

    @admin.display(description=pgettext_lazy("interaction", "failed"))
    def bad(self, row: AwaitUnit) -> int:
        return count_items(row).failed

    @admin.display(description=pgettext_lazy("interaction", "expired"))
    def late(self, row: AwaitUnit) -> int:
        return count_items(row).expired

    @admin.display(description=pgettext_lazy("interaction", "cancelled"))
    def dropped(self, row: AwaitUnit) -> int:
        return count_items(row).cancelled

    @admin.display(description=_("instance"))
    def of_instance(self, row: AwaitUnit) -> SafeString:
        url = reverse("admin:holdpoint_instance_change", args=[row.instance_id], current_app=self.admin_site.name)
        detail = show_text(row.instance.key, 40) if row.instance.key else show_id(row.instance_id)
        return format_html('<a href="{}">{} {}</a>', url, show_text(row.instance.workflow, 40), detail)

    @admin.display(description=_("created"))
    def begun(self, row: AwaitUnit) -> SafeString:
        return show_relative(row.created_at, timezone.now())

    # --- the page of one ----------------------------------------------------------------------------

    @admin.display(description=_("items"))
    def shown_items(self, row: AwaitUnit) -> SafeString:
        url = reverse("admin:holdpoint_interaction_changelist", current_app=self.admin_site.name)
        return format_html('<a href="{}?unit={}">{}</a>', url, row.pk, _("Show its questions"))

    @admin.display(description=_("rules"))
    def rules(self, row: AwaitUnit) -> SafeString:
        if not row.items:
            return NOTHING
        words = _("policy “%(policy)s”, %(count)s at a time") % {"policy": row.policy, "count": row.concurrency}
        if row.deadline is not None:
            return format_html("{}, {} {}", words, _("deadline"), show_moment(row.deadline))
        if row.timeout is None:
            return format_html("{}", words)
        limit = _("%(seconds)s s for each") % {"seconds": f"{row.timeout:g}"}
        return format_html("{}, {}", words, limit)

    @admin.display(description=_("created"))
    def begun_exactly(self, row: AwaitUnit) -> SafeString:
        return show_moment(row.created_at)

    @admin.display(description=_("dispatched"))
    def sent(self, row: AwaitUnit) -> SafeString:
        return show_moment(row.dispatched_at)

    @admin.display(description=_("closed"))
    def closed(self, row: AwaitUnit) -> SafeString:
        return show_moment(row.closed_at)

    @admin.display(description=_("instance released"))
    def told(self, row: AwaitUnit) -> SafeString:
        return show_moment(row.released_at)


def show_through(row: AwaitUnit) -> SafeString:
    """How many of a unit's items are over."""
    counts = count_items(row)
    return show_progress({"done": counts.completed + counts.failed + counts.expired, "total": counts.total, "note": ""})


def read_units(instance: Instance, site: str | None) -> list[dict[str, Any]]:
    """The lists that an instance has asked item by item, the newest first, as cells; they lead to their pages where
    somebody may open these."""
    rows = AwaitUnit.objects.filter(instance=instance, items=True).order_by("-id")[:ROWS]
    return [
        {
            "url": site and reverse("admin:holdpoint_awaitunit_change", args=[row.pk], current_app=site),
            "wait": show_text(row.step, 60),
            "status": show_badge(*UNITS[row.status]),
            "through": show_through(row),
            "queued": row.queued,
            "begun": show_moment(row.created_at),
            "closed": show_moment(row.closed_at),
        }
        for row in rows
    ]
