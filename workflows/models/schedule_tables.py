"""Schedules, and the ticks that they had.

Invariants owned: one schedule of a name in a workspace; one row for each tick of a schedule, written in the transaction
that starts its instance, so that a tick starts at most one; a schedule ticks by a cron expression or an interval, and
one that is switched off or was removed has no next tick.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from workflows.models.base import EngineModel, ReadQuerySet
from workflows.models.instance import Workspace
from workflows.wording.hidden_characters import reveal


class ScheduleManager(models.Manager.from_queryset(ReadQuerySet)):  # type: ignore[misc]
    """Schedules that are there: of one that was declared in code and removed by somebody, a row stays."""

    def get_queryset(self) -> ReadQuerySet:
        """Without those that were removed."""
        rows: ReadQuerySet = super().get_queryset().filter(removed_at__isnull=True)
        return rows


class Schedule(EngineModel):
    """Starts an instance of a workflow at each of its ticks."""

    calls: ClassVar[str] = "workflows.schedule(), unschedule(), enable_schedule() and disable_schedule()"

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False, verbose_name=_("workspace"))
    name = models.TextField(_("name"))
    workflow = models.TextField(_("workflow"))
    input = models.JSONField(_("input"), encoder=DjangoJSONEncoder)
    cron = models.TextField(_("cron"), null=True)
    every = models.DurationField(_("every"), null=True)
    #: An IANA name, in which `cron` speaks.
    tz = models.TextField(_("time zone"))
    overlap = models.TextField(_("overlap"))
    #: How many of the last missed ticks are made up for.
    catch_up = models.IntegerField(_("catch up"))
    enabled = models.BooleanField(_("enabled"))
    created_at = models.DateTimeField(_("created at"))
    #: Where the intervals of `every` begin.
    anchor_at = models.DateTimeField()
    next_at = models.DateTimeField(_("next tick"), null=True)
    last_at = models.DateTimeField(_("last tick"), null=True)
    #: What it started last; pruning may have removed it.
    last_instance = models.UUIDField(null=True)
    #: Why the last tick started nothing, where that was an error.
    error = models.TextField(_("error"), null=True)
    #: Of one that is declared in code: tells whether the declaration has changed since it was carried out.
    declared = models.TextField(null=True)
    #: Somebody has changed it at run time: the declaration is never carried out again.
    edited = models.BooleanField(db_default=False)
    removed_at = models.DateTimeField(null=True)

    objects: ClassVar = ScheduleManager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_schedule"
        ordering: ClassVar = ["name", "id"]
        verbose_name = _("schedule")
        verbose_name_plural = _("schedules")
        permissions: ClassVar = [
            ("manage_schedule", "Can make, change and remove schedules"),
            ("run_schedule", "Can run schedules now"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="holdpoint_schedule_name"),
            models.CheckConstraint(
                condition=Q(cron__isnull=True, every__isnull=False) | Q(cron__isnull=False, every__isnull=True),
                name="holdpoint_schedule_times",
            ),
            models.CheckConstraint(
                condition=Q(enabled=True, removed_at__isnull=True, next_at__isnull=False)
                | Q(Q(enabled=False) | Q(removed_at__isnull=False), next_at__isnull=True),
                name="holdpoint_schedule_next",
            ),
            models.CheckConstraint(
                condition=Q(overlap__in=["allow", "skip", "cancel"], catch_up__gte=0),
                name="holdpoint_schedule_options",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="holdpoint_schedule_due"),
        ]

    def __str__(self) -> str:
        return reveal(self.name)


class ScheduleTick(EngineModel):
    """A tick of a schedule, and what became of it."""

    pk = models.CompositePrimaryKey("schedule_id", "at")
    schedule = models.ForeignKey(Schedule, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="ticks")
    at = models.DateTimeField(_("at"))
    fired_at = models.DateTimeField(_("fired at"))
    #: "started", "skipped" (the last instance lived) or "refused" (the schedule's error says why).
    outcome = models.TextField(_("outcome"))
    instance = models.UUIDField(null=True)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_schedule_tick"
        ordering: ClassVar = ["schedule_id", "-at"]
        verbose_name = _("tick of a schedule")
        verbose_name_plural = _("ticks of schedules")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(outcome="started", instance__isnull=False)
                | Q(outcome__in=["skipped", "refused"], instance__isnull=True),
                name="holdpoint_schedule_tick_outcome",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["fired_at"], name="holdpoint_schedule_tick_age")]

    def __str__(self) -> str:
        return f"{self.at} {self.outcome}"
