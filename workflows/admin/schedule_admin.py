"""Schedules in the admin: made, changed, switched on and off, removed, run now, through the calls that everybody makes.

Invariant owned: nobody without the permission changes or runs one, neither by a button that was not shown to them nor
by a request of their own making.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from workflows.admin.base import PageTools, StyledAdmin
from workflows.admin.bounded_lists import CappedPaginator, WorkspaceFilter
from workflows.admin.markup import NOTHING, show_badge, show_id, show_moment, show_relative, show_text, show_zoned
from workflows.admin.schedule_form import ScheduleForm
from workflows.admin.tenancy import OwnWorkspaces, TenantAdmin
from workflows.api.schedule_calls import (
    change_schedule,
    create_schedule,
    disable_schedule,
    enable_schedule,
    run_schedule,
    unschedule,
)
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.exceptions import UnknownSchedule, WorkflowError
from workflows.models import Schedule
from workflows.schedules.schedule_plan import list_shown_ticks
from workflows.values.durations import write_duration

MANAGE, RUN = "holdpoint.manage_schedule", "holdpoint.run_schedule"
#: Ticks to come, and ticks of the past, on the page of one.
NEXT, PAST = 5, 10
OUTCOMES = {"started": (_("started"), "good"), "skipped": (_("skipped"), "quiet"), "refused": (_("refused"), "bad")}
ASKED = ("name", "workspace", "workflow", "cron", "every", "tz", "input", "overlap", "catch_up", "enabled")
SHOWN = ("next_ticks", "past_ticks", "problem", "declared_in_code")


@admin.register(Schedule)
class ScheduleAdmin(PageTools, OwnWorkspaces, TenantAdmin, StyledAdmin):
    """One may be changed by whoever manages schedules, and run by whoever may run them."""

    form = ScheduleForm
    list_display = ("title", "state", "upcoming", "times", "starts", "last", "problem")
    list_display_links = ("title",)
    list_filter = ("enabled", WorkspaceFilter)
    list_select_related = ("workspace",)
    search_fields = ("name", "workflow")
    ordering = ("name", "id")
    actions = ["run_now", "enable", "disable"]
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    def get_fields(self, request: HttpRequest, obj: Schedule | None = None) -> tuple[str, ...]:
        """One that is being made has no ticks yet."""
        return ASKED if obj is None else ("whole_name", *ASKED[1:], *SHOWN)

    def get_readonly_fields(self, request: HttpRequest, obj: Schedule | None = None) -> tuple[str, ...]:
        """Its name and workspace are its address."""
        return () if obj is None else ("name", "whole_name", "workspace", *SHOWN)

    # --- who may ------------------------------------------------------------------------------------

    def has_add_permission(self, request: HttpRequest) -> bool:
        """A schedule starts instances: nobody makes one who may not start them."""
        return request.user.has_perms([MANAGE, "holdpoint.start_instance"])

    def has_change_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return self.has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return request.user.has_perm(MANAGE)

    def has_view_permission(self, request: HttpRequest, obj: Schedule | None = None) -> bool:
        return super().has_view_permission(request, obj) or request.user.has_perm(MANAGE)

    def has_manage_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers to switch them off."""
        return request.user.has_perm(MANAGE)

    def has_enable_permission(self, request: HttpRequest) -> bool:
        """To switch one on is to have it start instances."""
        return self.has_add_permission(request)

    def has_run_permission(self, request: HttpRequest) -> bool:
        """Asked by the admin before it offers to run them."""
        return request.user.has_perm(RUN)

    def list_tools(self, request: HttpRequest, row: Schedule) -> list[tuple[str, Any]]:
        """Run it, and switch it on or off, from its page."""
        switch = ("disable", _("Disable")) if row.enabled else ("enable", _("Enable"))
        may_switch = self.has_manage_permission if row.enabled else self.has_enable_permission
        return [
            *([("run_now", _("Run now"))] if self.has_run_permission(request) else []),
            *([switch] if may_switch(request) else []),
        ]

    # --- what is done -------------------------------------------------------------------------------

    def save_model(self, request: HttpRequest, obj: Schedule, form: Any, change: bool) -> None:
        """By the calls, which know the next tick."""
        fields = form.list_fields()
        slug = (obj.workspace if change else form.cleaned_data["workspace"]).slug
        if change:
            asked = {name: fields[name] for name in form.changed_data if name in fields}
            written = change_schedule(obj.name, asked, workspace=slug)
        else:
            written = create_schedule(form.cleaned_data["name"], fields, workspace=slug)
        vars(obj).update({name: value for name, value in vars(written).items() if name != "_state"})
        obj._state.adding = False

    def delete_model(self, request: HttpRequest, obj: Schedule) -> None:
        """What it has started goes on. One that somebody else has removed in the meantime is as gone as was wished."""
        with suppress(UnknownSchedule):
            unschedule(obj.name, workspace=obj.workspace.slug)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Each by itself."""
        for row in queryset.select_related("workspace"):
            self.delete_model(request, row)

    @admin.action(description=_("Run selected schedules now"), permissions=["run"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Start an instance of each."""
        told = _("{schedule} has started an instance.")
        self.do_each(
            request,
            queryset,
            lambda row: run_schedule(row.name, workspace=row.workspace.slug, actor=request.user),
            told,
            gettext("Run now."),
        )

    @admin.action(description=_("Enable selected schedules"), permissions=["enable"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Switch them on."""
        told = _("{schedule} is enabled.")
        switch = lambda row: enable_schedule(row.name, workspace=row.workspace.slug)  # noqa: E731
        self.do_each(request, queryset, switch, told, gettext("Enabled."))

    @admin.action(description=_("Disable selected schedules"), permissions=["manage"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Switch them off."""
        told = _("{schedule} is disabled.")
        switch = lambda row: disable_schedule(row.name, workspace=row.workspace.slug)  # noqa: E731
        self.do_each(request, queryset, switch, told, gettext("Disabled."))

    def do_each(
        self, request: HttpRequest, rows: QuerySet[Schedule], call: Callable[[Schedule], Any], told: Any, note: str
    ) -> None:
        """Make a call for each, and say what became of it."""
        results: list[tuple[str, int]] = []
        for row in rows.select_related("workspace").order_by("id"):
            try:
                call(row)
            except WorkflowError as error:
                results.append((str(error), messages.ERROR))
            else:
                self.log_change(request, row, note)
                results.append((format_html(str(told), schedule=show_text(row.name, 60)), messages.SUCCESS))
        self.report_results(request, results)

    # --- what is shown ------------------------------------------------------------------------------

    @admin.display(description=_("name"), ordering="name")
    def title(self, row: Schedule) -> SafeString:
        """Outside the default workspace with that in front, because each has its own."""
        slug = row.workspace.slug
        place = "" if slug == DEFAULT_WORKSPACE else format_html('<span class="hp-quiet">{}/</span>', slug)
        return format_html("{}{}", place, show_text(row.name))

    @admin.display(description=_("name"))
    def whole_name(self, row: Schedule) -> SafeString:
        """Whoever made it has chosen it."""
        return show_text(row.name, 200)

    @admin.display(description=_("workflow"))
    def starts(self, row: Schedule) -> SafeString:
        return show_text(row.workflow, 60)

    @admin.display(description=_("times"))
    def times(self, row: Schedule) -> SafeString:
        if row.every is not None:
            return format_html("{}", gettext("every %(time)s") % {"time": write_duration(row.every)})
        return format_html('<code>{}</code> <span class="hp-quiet">{}</span>', row.cron, row.tz)

    @admin.display(description=_("state"))
    def state(self, row: Schedule) -> SafeString:
        """Of one whose last tick could not be carried out that; its page says why."""
        if row.enabled and row.error:
            return show_badge(_("error"), "bad")
        return show_badge(_("enabled"), "good") if row.enabled else show_badge(_("disabled"), "quiet")

    @admin.display(description=_("next tick"), ordering="next_at")
    def upcoming(self, row: Schedule) -> SafeString:
        return show_relative(row.next_at, timezone.now())

    @admin.display(description=_("last tick"))
    def last(self, row: Schedule) -> SafeString:
        return show_relative(row.last_at, timezone.now())

    @admin.display(description=_("error"))
    def problem(self, row: Schedule) -> SafeString:
        return show_text(row.error, 200)

    @admin.display(description=_("next ticks"))
    def next_ticks(self, row: Schedule) -> SafeString:
        """The next five."""
        return format_html_join("", "<div>{}</div>", ((show_tick(row, at),) for at in list_shown_ticks(row, NEXT)))

    @admin.display(description=_("last ticks"))
    def past_ticks(self, row: Schedule) -> SafeString:
        """The last ones with what they started."""
        rows = row.ticks.order_by("-at")[:PAST]
        lines = [
            (show_tick(row, tick.at), show_badge(*OUTCOMES[tick.outcome]), self.link(tick.instance)) for tick in rows
        ]
        return format_html_join("", "<div>{} {} {}</div>", lines) or NOTHING

    @admin.display(description=_("declared in code"))
    def declared_in_code(self, row: Schedule) -> str:
        """Whether a deploy may change it."""
        if row.declared is None:
            return gettext("no")
        return gettext("yes, and changed here: code changes it no more") if row.edited else gettext("yes")

    def link(self, instance: Any) -> SafeString:
        """The way to an instance."""
        if instance is None:
            return NOTHING
        url = reverse("admin:holdpoint_instance_change", args=[instance], current_app=self.admin_site.name)
        return format_html('<a href="{}">{}</a>', url, show_id(instance))


def show_tick(row: Schedule, at: datetime) -> SafeString:
    """A tick of a cron expression in the zone in which that speaks; one of an interval has none."""
    return show_moment(at) if row.cron is None else show_zoned(at, row.tz)
