"""Instances in the admin: a list that stays fast, and a page that tells everything about one of them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import URLPattern, path, re_path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from workflows.admin.bounded_lists import WorkspaceFilter
from workflows.admin.instances.instance_forks import ForkActions
from workflows.admin.instances.instance_history import locate_value, read_history
from workflows.admin.instances.instance_list import (
    CreatedFilter,
    InstanceChangeList,
    InstanceQueueFilter,
    InstanceStatusFilter,
    InstanceWorkflowFilter,
    search_instances,
)
from workflows.admin.instances.instance_waits import show_awaited
from workflows.admin.markup import (
    NOTHING,
    VALUE,
    answer_plainly,
    dump_json,
    show_block,
    show_due,
    show_id,
    show_moment,
    show_progress,
    show_relative,
    show_status,
    show_text,
)
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE
from workflows.definitions.workspace import DEFAULT_WORKSPACE
from workflows.fields import INHERITED
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.units.unit_counts import find_progress
from workflows.wording.punctuation import join_list

WAITING = (Status.AWAITING, Status.AWAITING_CHILDREN)
#: Values that are text and no JSON.
PLAIN = ("error", "traceback")
INTERNALS = (
    ("fence", "seq", "inbox", "pending"),
    ("attempt", "runs", "spawns", "spawn_no"),
    ("timed_out", "solo"),
)


@admin.register(Instance)
class InstanceAdmin(ForkActions):
    """Reads; what it changes, `OperatorActions` and `ForkActions` do."""

    # No column is a plain field: those could be sorted by, and a million rows have one good order.
    list_display = ("short_id", "badge", "what", "where", "due", "created")
    list_filter = (InstanceStatusFilter, InstanceWorkflowFilter, InstanceQueueFilter, WorkspaceFilter, CreatedFilter)
    list_select_related = ("workspace",)
    ordering = ("-id",)
    search_fields = ("key",)
    search_help_text = _("A whole id, or the beginning of a key or of a workflow’s name")

    fieldsets = (
        (
            None,
            {
                "fields": (
                    ("badge", "due_exactly"),
                    ("of_workflow", "workspace"),
                    "full_key",
                    ("at_step", "awaits"),
                    "how_far",
                    "failure",
                    "raised_at",
                )
            },
        ),
        (_("Values"), {"fields": ("input_json", "state_json", "result_json")}),
        (
            _("Origin"),
            {
                "fields": (
                    ("created_exactly", "finished"),
                    ("starter", "of_parent"),
                    ("of_first", "its_forks"),
                    ("of_queue", "concurrency_key"),
                )
            },
        ),
        (_("Engine"), {"classes": ("collapse",), "fields": ("id", *INTERNALS)}),
    )
    readonly_fields = (
        *("badge", "due_exactly", "of_workflow", "workspace", "full_key", "at_step", "awaits"),
        *("how_far", "failure", "raised_at", "input_json", "state_json", "result_json"),
        *("created_exactly", "finished", "starter", "of_parent", "of_first", "its_forks"),
        *("of_queue", "concurrency_key"),
        *("id", *(name for line in INTERNALS for name in line)),
    )

    # --- the list -----------------------------------------------------------------------------------

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[InstanceChangeList]:
        """The list without the values."""
        return InstanceChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Instance], search_term: str
    ) -> tuple[QuerySet[Instance], bool]:
        """See `search_instances`; never a duplicate, because nothing is joined."""
        term = search_term.strip()
        return (search_instances(queryset, term) if term else queryset), False

    @admin.display(description=_("id"))
    def short_id(self, instance: Instance) -> SafeString:
        return show_id(instance.pk)

    @admin.display(description=_("workflow, key"))
    def what(self, instance: Instance) -> SafeString:
        """The key below; outside the default workspace with that in front, because keys are unique within one."""
        slug = instance.workspace.slug
        if slug == DEFAULT_WORKSPACE and not instance.key:
            return self.of_workflow(instance)
        place = "" if slug == DEFAULT_WORKSPACE else format_html('<span class="hp-quiet">{}/</span>', slug)
        key = show_text(instance.key, 40) if instance.key else ""
        return format_html('{}<div class="hp-key">{}{}</div>', self.of_workflow(instance), place, key)

    @admin.display(description=_("workflow"))
    def of_workflow(self, instance: Instance) -> SafeString:
        name = show_text(instance.workflow, 40)
        return format_html('{} <span class="hp-quiet">v{}</span>', name, instance.version)

    @admin.display(description=_("status"))
    def badge(self, instance: Instance) -> SafeString:
        return show_status(instance.status)

    @admin.display(description=_("step, awaits"))
    def where(self, instance: Instance) -> SafeString:
        """The step, with what it waits for or how often it was tried below, where there is something to tell."""
        below = self.show_wait(instance) if instance.status in WAITING else self.count_tries(instance)
        far = (
            format_html('<div class="hp-quiet">{}</div>', show_progress(instance.progress)) if instance.progress else ""
        )
        return format_html('{}<div class="hp-quiet">{}</div>{}', self.at_step(instance), below, far)

    @admin.display(description=_("step"))
    def at_step(self, instance: Instance) -> SafeString:
        return show_text(instance.step, 40)

    @admin.display(description=_("awaits"))
    def awaits(self, instance: Instance) -> SafeString:
        return self.show_wait(instance, full=True)

    def show_wait(self, instance: Instance, *, full: bool = False) -> SafeString:
        """What it waits for in words; what stands behind the engine's own names was read for the whole page."""
        if instance.status == Status.AWAITING:
            waits = getattr(instance, "shown_waits", {})
            return show_awaited(instance.names, waits, full=full, until=instance.due_at)
        if instance.status == Status.AWAITING_CHILDREN:
            count = instance.pending
            return format_html("{}", ngettext("%(count)d child", "%(count)d children", count) % {"count": count})
        return NOTHING

    @admin.display(description=_("due"))
    def due(self, instance: Instance) -> SafeString:
        return show_due(instance, timezone.now())

    @admin.display(description=_("created"))
    def created(self, instance: Instance) -> SafeString:
        return show_relative(instance.created_at, timezone.now())

    def count_tries(self, instance: Instance) -> str:
        """Both counts, because either explains a delay: retries that the step asked for, and runs that were lost."""
        told = []
        if instance.attempt:
            told.append(gettext("attempt %(number)d") % {"number": instance.attempt})
        if instance.runs > 1 and not instance.ended:
            told.append(gettext("run %(number)d") % {"number": instance.runs})
        return join_list(told)

    # --- the page of one ----------------------------------------------------------------------------

    @admin.display(description=_("due"))
    def due_exactly(self, instance: Instance) -> SafeString:
        shown = show_due(instance, timezone.now())
        return format_html("{} · {}", shown, show_moment(instance.due_at)) if instance.due_at else shown

    @admin.display(description=_("progress"))
    def how_far(self, instance: Instance) -> SafeString:
        said, at = find_progress(instance) or (None, None)
        if said is None:
            return NOTHING
        return format_html("{} · {}", show_progress(said), show_moment(at)) if at else show_progress(said)

    @admin.display(description=_("key"))
    def full_key(self, instance: Instance) -> SafeString:
        return show_text(instance.key, 200)

    @admin.display(description=_("error"))
    def failure(self, instance: Instance) -> SafeString:
        return self.show_own(instance, "error", instance.error) if instance.error else NOTHING

    @admin.display(description=_("traceback"))
    def raised_at(self, instance: Instance) -> SafeString:
        if not instance.traceback:
            return NOTHING
        if not getattr(instance, "shows_traceback", False):
            return format_html('<span class="hp-quiet">{}</span>', _("One is stored. Whoever may retry it sees it."))
        return self.show_own(instance, "traceback", instance.traceback)

    @admin.display(description=_("parent"))
    def of_parent(self, instance: Instance) -> SafeString:
        """Its id only: reading the parent would cost a statement, and retention may have removed it."""
        if instance.parent_id is None:
            return NOTHING
        url = reverse("admin:holdpoint_instance_change", args=[instance.parent_id], current_app=self.admin_site.name)
        return format_html('<a href="{}">{}</a>', url, show_id(instance.parent_id))

    @admin.display(description=_("queue"))
    def of_queue(self, instance: Instance) -> SafeString:
        """With its priority, where that is not what all have."""
        name = show_text(instance.queue or DEFAULT_QUEUE)
        if not instance.priority:
            return name
        priority = gettext("priority %(number)d") % {"number": instance.priority}
        return format_html('{} <span class="hp-quiet">{}</span>', name, priority)

    @admin.display(description=_("concurrency key"))
    def concurrency_key(self, instance: Instance) -> SafeString:
        return show_text(instance.flow_key, 200) if instance.flow_key else NOTHING

    @admin.display(description=_("started by"))
    def starter(self, instance: Instance) -> SafeString:
        shown: SafeString = getattr(instance, "shown_starter", NOTHING)  # with the login name, see `read_history`
        return shown

    @admin.display(description=_("created"))
    def created_exactly(self, instance: Instance) -> SafeString:
        return show_moment(instance.created_at)

    @admin.display(description=_("finished"))
    def finished(self, instance: Instance) -> SafeString:
        return show_moment(instance.finished_at)

    @admin.display(description=_("input"))
    def input_json(self, instance: Instance) -> SafeString:
        return self.show_own(instance, "input", dump_json(instance.input))

    @admin.display(description=_("state"))
    def state_json(self, instance: Instance) -> SafeString:
        if instance.stored_state is INHERITED:
            return format_html('<span class="hp-quiet">{}</span>', _("the same as the input"))
        return self.show_own(instance, "state", dump_json(instance.state))

    @admin.display(description=_("result"))
    def result_json(self, instance: Instance) -> SafeString:
        if instance.status != Status.DONE:
            return NOTHING
        return self.show_own(instance, "result", dump_json(instance.result))

    def show_own(self, instance: Instance, what: str, text: str) -> SafeString:
        """A value of the instance itself, with a way to all of it."""
        return show_block(text, locate_value(instance, what, self.admin_site.name), VALUE)

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """The page, with the tables below and the buttons that this user may press now."""
        instance: Instance = context["original"]
        context.update(read_history(instance, request, self.admin_site.name))
        context["may_cancel"] = not instance.ended and self.has_cancel_permission(request)
        context["may_retry"] = (
            instance.status == Status.FAILED and instance.spawn_no is None and self.has_retry_permission(request)
        )
        context["may_fork"] = self.may_fork(request, instance)
        instance.shows_traceback = self.may_see_traceback(request)  # type: ignore[attr-defined]
        return super().render_change_form(request, context, *args, **kwargs)

    def get_urls(self) -> list[URLPattern]:
        """The buttons, and values in full."""
        wrap = self.admin_site.admin_view
        return [
            path("<uuid:object_id>/cancel/", wrap(self.cancel_view), name="holdpoint_instance_cancel"),
            path("<uuid:object_id>/fork/", wrap(self.fork_view), name="holdpoint_instance_fork"),
            path("<uuid:object_id>/retry/", wrap(self.retry_view), name="holdpoint_instance_retry"),
            re_path(
                r"^(?P<object_id>[0-9a-f-]{36})/value/(?P<what>(?:input|state|result|error|traceback|(?:signal|event|checkpoint)-\d{1,9}))/$",
                wrap(self.value_view),
                name="holdpoint_instance_value",
            ),
            *super().get_urls(),
        ]

    def value_view(self, request: HttpRequest, object_id: str, what: str) -> HttpResponse:
        """A whole value as plain text, which no browser may take for anything else."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        if what == "traceback" and not self.may_see_traceback(request):
            raise PermissionDenied
        instance = self.find_instance(request, object_id)
        table, _dash, number = what.partition("-")
        if table == "signal":
            found = list(instance.signals.filter(n=number).values_list("payload", flat=True))
        elif table == "event":
            found = list(instance.events.filter(seq=number).values_list("data", flat=True))
        elif table == "checkpoint":
            found = list(instance.checkpoints.filter(position=number).values_list("value", flat=True))
        elif what in PLAIN:
            found = [getattr(instance, what)] if getattr(instance, what) else []
        else:
            found = [getattr(instance, what)]
        if not found:
            raise Http404
        return answer_plainly(found[0] if what in PLAIN else dump_json(found[0]))
