"""The list of instances: its rows without their values, its filters and its search.

Invariant owned: the work of a page does not grow with the table as long as its rows are common.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from workflows.admin.bounded_lists import SAMPLE, chosen
from workflows.admin.instances.instance_waits import SHOWN, read_waits
from workflows.admin.markup import STATUSES, to_local
from workflows.admin.tenancy import ModelAdmin, keep_own
from workflows.definitions import registry
from workflows.definitions.flow import known_limits
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE
from workflows.lifecycle import LIVE, TERMINAL, Status
from workflows.models import Instance

#: How far the clock of a machine that made ids may be off.
SKEW = timedelta(days=1)


class InstanceChangeList(ChangeList):
    """Rows without their values, which may be a megabyte each."""

    def get_queryset(self, *args: Any, **kwargs: Any) -> QuerySet[Instance]:
        """The filtered rows of the list."""
        return super().get_queryset(*args, **kwargs).defer("input", "stored_state", "result", "error", "traceback")

    def get_results(self, request: HttpRequest) -> None:
        """The rows of the page, with what they wait for: read for all of them at once."""
        super().get_results(request)
        waits = read_waits(name for one in self.result_list for name in (one.names or ())[: SHOWN + 1])
        for one in self.result_list if waits else ():
            vars(one)["shown_waits"] = waits


class InstanceStatusFilter(SimpleListFilter):
    """By status, or by whether it has ended."""

    title = _("status")
    parameter_name = "status"
    groups = {"live": LIVE, "ended": TERMINAL}

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        words = [(status.value, STATUSES[status][0]) for status in Status if status in STATUSES]
        return [("live", _("Not ended")), ("ended", _("Ended")), *words]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Instance]) -> QuerySet[Instance]:
        value = self.value()
        if value is None:
            return queryset
        try:
            return queryset.filter(status__in=self.groups[value] if value in self.groups else [Status(value)])
        except ValueError as error:
            raise IncorrectLookupParameters(error) from error


class InstanceWorkflowFilter(SimpleListFilter):
    """By workflow: the registered ones, and those of the newest rows (another site may have started them)."""

    title = _("workflow")
    parameter_name = "workflow"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        stored = keep_own(Instance.objects.all(), request).order_by("-id").values_list("workflow", flat=True)[:SAMPLE]
        names = {definition.name for definition in registry.list_definitions()} | set(stored)
        return [(name, name) for name in sorted(names | chosen(self))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Instance]) -> QuerySet[Instance]:
        value = self.value()
        return queryset if value is None else queryset.filter(workflow=value)


class InstanceQueueFilter(SimpleListFilter):
    """By queue; not offered where there is only one."""

    title = _("queue")
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, str]]:
        names = {*known_limits.list_queues(), *chosen(self)}
        return [(name, name) for name in sorted(names)] if len(names) > 1 else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Instance]) -> QuerySet[Instance]:
        value = self.value()
        if value is None:
            return queryset
        return queryset.filter(Q(queue=value) | Q(queue=None) if value == DEFAULT_QUEUE else Q(queue=value))


class CreatedFilter(SimpleListFilter):
    """By age, through the primary key: ids begin with the time they were made, `created_at` has no index."""

    title = _("created")
    parameter_name = "created"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin) -> list[tuple[str, Any]]:
        return [
            ("hour", _("In the past hour")),
            ("today", _("Today")),
            ("week", _("In the past 7 days")),
            ("month", _("In the past 30 days")),
            ("older", _("More than 30 days ago")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Instance]) -> QuerySet[Instance]:
        value, now = self.value(), timezone.now()
        if value == "hour":
            return since(queryset, now - timedelta(hours=1))
        if value == "today":
            return since(queryset, to_local(now).replace(hour=0, minute=0, second=0, microsecond=0))
        if value == "week":
            return since(queryset, now - timedelta(days=7))
        if value == "month":
            return since(queryset, now - timedelta(days=30))
        if value == "older":
            moment = now - timedelta(days=30)
            return queryset.filter(id__lt=first_id(moment + SKEW), created_at__lt=moment)
        return queryset


def search_instances(queryset: QuerySet[Instance], term: str) -> QuerySet[Instance]:
    """One instance by its whole id; else those whose key or workflow begins with the term."""
    try:
        found = queryset.filter(pk=UUID(term))
    except ValueError:
        pass
    else:
        if found.exists():
            return found
    return queryset.filter(Q(key__startswith=term) | Q(workflow__startswith=term))


def since(queryset: QuerySet[Instance], moment: datetime) -> QuerySet[Instance]:
    """Rows created since a moment; the bound on the id only makes it fast."""
    return queryset.filter(id__gte=first_id(moment - SKEW), created_at__gte=moment)


def first_id(moment: datetime) -> UUID:
    """The smallest id that could have been made at a moment."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)
