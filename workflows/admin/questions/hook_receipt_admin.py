"""Receipts of inbound hooks in the admin: what providers have sent that was taken."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from workflows.admin.base import ReadOnlyAdmin
from workflows.admin.bounded_lists import WorkspaceFilter
from workflows.admin.markup import show_moment, show_text
from workflows.admin.tenancy import TenantAdmin
from workflows.hooks.definition import list_hooks
from workflows.models import HookReceipt

#: Characters of an answer; the function of a hook may return as much as a body may hold.
EXCERPT = 2_000


class HookFilter(SimpleListFilter):
    """By hook: those that this site defines."""

    title = _("hook")
    parameter_name = "hook"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(one.name, one.name) for one in list_hooks()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[HookReceipt]) -> QuerySet[HookReceipt]:
        value = self.value()
        return queryset if value is None else queryset.filter(hook=value)


@admin.register(HookReceipt)
class HookReceiptAdmin(TenantAdmin, ReadOnlyAdmin):
    """Read only: the door writes them, and they go by their age."""

    list_display = ("event", "hook_name", "moment", "workspace")
    list_display_links = ("event",)
    list_filter = (HookFilter, WorkspaceFilter)
    list_select_related = ("workspace",)
    ordering = ("-id",)
    fields = readonly_fields = (*list_display, "told")

    @admin.display(description=_("provider’s id"))
    def event(self, receipt: HookReceipt) -> SafeString:
        return show_text(receipt.event_id)

    @admin.display(description=_("hook"))
    def hook_name(self, receipt: HookReceipt) -> SafeString:
        return show_text(receipt.hook)

    @admin.display(description=_("taken at"))
    def moment(self, receipt: HookReceipt) -> SafeString:
        return show_moment(receipt.at)

    @admin.display(description=_("answer"))
    def told(self, receipt: HookReceipt) -> SafeString:
        return show_text(receipt.answer, EXCERPT)
