"""Queues, limits and paused workflows: a page for each, with what holds now beside what the code says."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy
from django.utils.translation import gettext_lazy as _

import workflows
from workflows.admin.flow.control_admin import ControlAdmin, NamedChangeList, show_tokens
from workflows.admin.flow.control_forms import RATE, LimitForm, PauseForm, QueueForm
from workflows.admin.markup import NOTHING, show_badge, show_text
from workflows.admin.tenancy import keep_own
from workflows.api.flow_control import QueueStatus, change_limit, change_queue, list_queues
from workflows.definitions.flow import known_limits
from workflows.definitions.flow.key_templates import LONGEST_KEY
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.exceptions import UNSERVED
from workflows.models import Limit, PausedWorkflow, Queue, Workspace
from workflows.store import MOST_COUNTED, Tokens

#: Workspaces of one page of the list whose queues are counted, a statement each.
MOST_WORKSPACES = 20


class QueueChangeList(ChangeList):
    """Rows with what holds now."""

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page, with what runs and waits in each: read once per workspace."""
        super().get_results(request)
        slugs = dict.fromkeys(row.workspace.slug for row in self.result_list)
        found = {slug: {one.name: one for one in list_queues(workspace=slug)} for slug in list(slugs)[:MOST_WORKSPACES]}
        for row in self.result_list:
            vars(row)["shown_status"] = found.get(row.workspace.slug, {}).get(row.name)


@admin.register(Queue)
class QueueAdmin(ControlAdmin):
    """What is set of queues; those of which nothing is set stand above the list."""

    form = QueueForm
    change_list_template = "admin/holdpoint/queue/change_list.html"
    list_display = ("title", "state", "shown_limit", "shown_rate", "running", "waiting", "changed")
    list_display_links = ("title",)
    ordering = ("workspace_id", "name")
    search_fields = ("name",)
    actions = ["pause", "unpause"]

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[QueueChangeList]:
        """The list with its counts."""
        return QueueChangeList

    def get_readonly_fields(self, request: HttpRequest, obj: Queue | None = None) -> tuple[str, ...]:
        """A row stays that of its queue."""
        return () if obj is None else ("workspace", "name", "changed", "changer")

    def get_fields(self, request: HttpRequest, obj: Queue | None = None) -> Any:
        """What is asked, and who was asked last."""
        asked = ("workspace", "name", "limit", RATE, "paused")
        return asked if obj is None else (*asked, ("changed", "changer"))

    def change_row(self, request: HttpRequest, row: Any, form: Any, *, change: bool) -> None:
        """Set what was filled in, and nothing else."""
        change_queue(row.name, **form.list_changes(), workspace=row.workspace.slug, actor=request.user)

    def list_tools(self, request: HttpRequest, row: Queue) -> list[tuple[str, Any]]:
        """Pause it, or let it go on, whatever else stands in the form."""
        tool = ("unpause", _("Let it go on")) if row.paused else ("pause", _("Pause"))
        return [tool] if self.has_control_permission(request) else []

    @admin.action(description=_("Pause selected queues"), permissions=["control"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Queue]) -> None:
        """Begin nothing of them."""

        def work(row: Queue) -> None:
            workflows.pause(queue=row.name, workspace=row.workspace.slug, actor=request.user)

        self.run_each(request, queryset, work, gettext("Paused: %(name)s."))

    @admin.action(description=_("Let selected queues go on"), permissions=["control"])
    def unpause(self, request: HttpRequest, queryset: QuerySet[Queue]) -> None:
        """Begin what waits in them."""

        def work(row: Queue) -> None:
            workflows.unpause(queue=row.name, workspace=row.workspace.slug, actor=request.user)

        self.run_each(request, queryset, work, gettext("Goes on: %(name)s."))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list, with the queues of which nothing is set in the workspace that is looked at."""
        slug = request.GET.get("workspace", DEFAULT_WORKSPACE).replace("\0", "")
        found = (
            keep_own(Workspace.objects.filter(slug=slug), request, "pk").first() if request.method == "GET" else None
        )
        statuses = [] if found is None else list_queues(workspace=found.slug)
        for one in statuses:
            if one.is_stranded:
                told = gettext("Instances wait in the queue %(queue)s, and no living worker serves it: %(fix)s")
                fix = UNSERVED.format(queue=one.name)
                self.message_user(request, told % {"queue": one.name, "fix": fix}, messages.WARNING)
        unset = [] if found is None else self.list_unset(found, statuses)
        context = {"unset": unset, **(extra_context or {})}
        response: HttpResponse = super().changelist_view(request, context)
        return response

    def list_unset(self, workspace: Workspace, statuses: list[QueueStatus]) -> list[dict[str, Any]]:
        """The queues without a row, with a way to give them one."""
        rows = set(Queue.objects.filter(workspace=workspace).values_list("name", flat=True))
        page = reverse("admin:holdpoint_queue_add", current_app=self.admin_site.name)
        return [
            {
                "status": one,
                "limit": one.limit or NOTHING,
                "rate": show_tokens(one.rate),
                "waiting": _show_many(one),
                "page": f"{page}?{urlencode({'workspace': str(workspace.pk), 'name': one.name})}",
            }
            for one in statuses
            if one.name not in rows
        ]

    @admin.display(description=_("queue"))
    def title(self, row: Queue) -> SafeString:
        """Outside the default workspace with that in front, because each has its own."""
        slug = row.workspace.slug
        place = "" if slug == DEFAULT_WORKSPACE else format_html('<span class="hp-quiet">{}/</span>', slug)
        return format_html("{}{}", place, show_text(row.name))

    @admin.display(description=_("state"))
    def state(self, row: Queue) -> SafeString:
        return show_badge(_("paused"), "bad") if row.paused else show_badge(pgettext_lazy("a queue", "open"), "good")

    @admin.display(description=_("limit"))
    def shown_limit(self, row: Any) -> SafeString:
        """The row's own; else the code's, quietly."""
        if row.limit is not None:
            return format_html("{}", row.limit)
        status: QueueStatus | None = row.shown_status
        return _show_default(None if status is None or status.limit is None else format_html("{}", status.limit))

    @admin.display(description=pgettext_lazy("of runs", "rate"))
    def shown_rate(self, row: Any) -> SafeString:
        """The row's own; else the code's, quietly."""
        if row.rate_count is not None:
            return show_tokens(Tokens(row.rate_count, row.rate_per, row.rate_burst))
        status: QueueStatus | None = row.shown_status
        return _show_default(None if status is None or status.rate is None else show_tokens(status.rate))

    @admin.display(description=_("running"))
    def running(self, row: Any) -> str:
        return "" if row.shown_status is None else f"{row.shown_status.running:,}"

    @admin.display(description=pgettext_lazy("a queue", "waiting"))
    def waiting(self, row: Any) -> str:
        return "" if row.shown_status is None else _show_many(row.shown_status)


@admin.register(Limit)
class LimitAdmin(ControlAdmin):
    """Other numbers than the code's; one that is deleted is as the code has it again."""

    form = LimitForm
    named_by = ("workspace", "kind", "name")
    list_display = ("title", "workspace", "kind", "value", "default", "changed")
    list_display_links = ("title",)
    ordering = ("workspace_id", "kind", "name")
    search_fields = ("name",)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """To give it back to the code."""
        return self.has_control_permission(request)

    def get_readonly_fields(self, request: HttpRequest, obj: Limit | None = None) -> tuple[str, ...]:
        """A row stays that of its limit."""
        return () if obj is None else ("workspace", "kind", "name", "whole_name", "changed", "changer")

    def get_fields(self, request: HttpRequest, obj: Limit | None = None) -> Any:
        """What its kind takes."""
        if obj is None:
            return ("workspace", "kind", "name", "limit", RATE)
        value = RATE if obj.kind == Limit.RATE else "limit"
        return ("workspace", "kind", "whole_name", value, ("changed", "changer"))

    def change_row(self, request: HttpRequest, row: Any, form: Any, *, change: bool) -> None:
        """Set it."""
        value = form.cleaned_data["value"]
        change_limit(row.kind, row.name, value, workspace=row.workspace.slug, actor=request.user)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Give it back to the code."""
        change_limit(obj.kind, obj.name, None, workspace=obj.workspace.slug, actor=request.user)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Give them back to the code."""
        for row in queryset.select_related("workspace"):
            self.delete_model(request, row)

    @admin.display(description=_("name"))
    def title(self, row: Limit) -> SafeString:
        return show_text(row.name, 80)

    @admin.display(description=_("name"))
    def whole_name(self, row: Limit) -> SafeString:
        """A key is made of what somebody has sent."""
        return show_text(row.name, LONGEST_KEY)

    @admin.display(description=_("value"))
    def value(self, row: Any) -> SafeString:
        if row.kind == Limit.CONCURRENCY:
            return format_html("{}", row.limit)
        shown = show_tokens(Tokens(row.rate_count, row.rate_per, row.rate_burst))
        if (weight := known_limits.list_weights().get(row.name, 1)) <= row.rate_burst:
            return shown
        return format_html("{} {}", shown, show_badge(_("one run takes %(weight)d") % {"weight": weight}, "bad"))

    @admin.display(description=_("in the code"))
    def default(self, row: Limit) -> SafeString:
        """Quietly; nothing where no workflow of this site has it."""
        if row.kind == Limit.RATE:
            rate = known_limits.list_rates().get(row.name)
            return NOTHING if rate is None else _show_default(show_tokens(Tokens(rate.count, rate.per, rate.burst)))
        known = known_limits.list_concurrencies()
        found = known.get(row.name) or next(
            (one for one in known.values() if known_limits.may_make(one, row.name)), None
        )
        return NOTHING if found is None else _show_default(format_html("{}", found.limit))


@admin.register(PausedWorkflow)
class PausedWorkflowAdmin(ControlAdmin):
    """Workflows of which nothing is begun; what goes on leaves the list."""

    form = PauseForm
    named_by = ("workspace", "workflow")
    list_display = ("title", "workspace", "changed", "changer")
    list_display_links = ("title",)
    ordering = ("workspace_id", "workflow")
    search_fields = ("workflow",)
    actions = ["unpause"]
    fields = ("workspace", "workflow", ("changed", "changer"))

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """What is asked, and who was asked last."""
        return ("workspace", "workflow") if obj is None else self.fields

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        """There is nothing to change: it is paused."""
        return () if obj is None else ("workspace", "workflow", "changed", "changer")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Of the list, for its action; one that is paused has nothing to fill in."""
        return obj is None and super().has_change_permission(request, obj)

    def change_row(self, request: HttpRequest, row: Any, form: Any, *, change: bool) -> None:
        """Pause it."""
        workflows.pause(row.workflow, workspace=row.workspace.slug, actor=request.user)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NamedChangeList]:
        """The list with names."""
        return NamedChangeList

    def list_tools(self, request: HttpRequest, row: PausedWorkflow) -> list[tuple[str, Any]]:
        """What can be done about it."""
        return [("unpause", _("Let it go on"))] if self.has_control_permission(request) else []

    @admin.action(description=_("Let selected workflows go on"), permissions=["control"])
    def unpause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        """Begin what waits of them."""

        def work(row: PausedWorkflow) -> None:
            workflows.unpause(row.workflow, workspace=row.workspace.slug, actor=request.user)

        self.run_each(request, queryset, work, gettext("Goes on: %(name)s."))

    @admin.display(description=_("workflow"))
    def title(self, row: PausedWorkflow) -> SafeString:
        return show_text(row.workflow, 80)


def _show_default(shown: SafeString | None) -> SafeString:
    return NOTHING if shown is None else format_html('<span class="hp-quiet">{}</span>', shown)


def _show_many(status: QueueStatus) -> str:
    """How many wait; a number that is counted no further says so."""
    return f"{status.waiting:,}{'+' if status.waiting == MOST_COUNTED else ''}"
