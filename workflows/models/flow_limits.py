"""What is set at run time of queues and limits, and the buckets of rates.

Invariants owned: a limit lets something through, and a bucket never holds less than nothing. What a row leaves open the
code decides.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from workflows.models.base import EngineModel
from workflows.models.instance import Workspace
from workflows.wording.hidden_characters import reveal

_CALLS = "workflows.pause, unpause, and workflows.api.flow_control"


class Queue(EngineModel):
    """What somebody has set of one queue of a workspace; a queue without a row is as the code has it."""

    calls = _CALLS

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("workspace")
    )
    name = models.TextField(_("name"))
    #: How many steps may run at once, on all workers together; NULL: as the code has it.
    limit = models.SmallIntegerField(_("limit"), null=True)
    paused = models.BooleanField(_("paused"), default=False)
    #: So many runs may begin in so many seconds, and so many at once; NULL: as the code has it.
    rate_count = models.IntegerField(_("runs"), null=True)
    rate_per = models.FloatField(_("in seconds"), null=True)
    rate_burst = models.IntegerField(_("at once"), null=True)
    changed_at = models.DateTimeField(_("changed at"))
    changed_by = models.TextField(_("changed by"), default="", blank=True)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_queue"
        ordering: ClassVar = ["workspace_id", "name"]
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        permissions: ClassVar = [("control_queue", "Can pause workflows and change queues and limits")]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name"], name="holdpoint_queue_name"),
            models.CheckConstraint(condition=Q(limit__isnull=True) | Q(limit__gte=1), name="holdpoint_queue_limit"),
            models.CheckConstraint(
                condition=Q(rate_count__isnull=True, rate_per__isnull=True, rate_burst__isnull=True)
                | Q(rate_count__gte=1, rate_per__gt=0, rate_burst__gte=1),
                name="holdpoint_queue_rate",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Limit(EngineModel):
    """What somebody has set in place of a `Concurrency` or a `Rate` of the code, in one workspace.

    Of a concurrency `name` is a key, such as "tenant:7", or its template as the code has it, for all its keys. Of a
    rate it is the rate's name.
    """

    calls = _CALLS

    CONCURRENCY, RATE = "concurrency", "rate"

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("workspace")
    )
    kind = models.TextField(
        _("kind"), choices=[(CONCURRENCY, _("concurrency")), (RATE, pgettext_lazy("of runs", "rate"))]
    )
    name = models.TextField(_("name"))
    limit = models.SmallIntegerField(_("limit"), null=True)
    rate_count = models.IntegerField(_("runs"), null=True)
    rate_per = models.FloatField(_("in seconds"), null=True)
    rate_burst = models.IntegerField(_("at once"), null=True)
    changed_at = models.DateTimeField(_("changed at"))
    changed_by = models.TextField(_("changed by"), default="", blank=True)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_limit"
        ordering: ClassVar = ["workspace_id", "kind", "name"]
        verbose_name = _("limit")
        verbose_name_plural = _("limits")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "kind", "name"], name="holdpoint_limit_name"),
            models.CheckConstraint(
                condition=Q(kind="concurrency", limit__gte=1, rate_count__isnull=True)
                | Q(kind="rate", limit__isnull=True, rate_count__gte=1, rate_per__gt=0, rate_burst__gte=1),
                name="holdpoint_limit_values",
            ),
        ]

    def __str__(self) -> str:
        return reveal(self.name)


class PausedWorkflow(EngineModel):
    """A workflow of which nothing is claimed in a workspace, until its row goes."""

    calls = _CALLS

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("workspace")
    )
    workflow = models.TextField(_("workflow"))
    changed_at = models.DateTimeField(_("changed at"))
    changed_by = models.TextField(_("changed by"), default="", blank=True)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_paused_workflow"
        ordering: ClassVar = ["workspace_id", "workflow"]
        verbose_name = _("paused workflow")
        verbose_name_plural = _("paused workflows")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "workflow"], name="holdpoint_paused_workflow_once"),
        ]

    def __str__(self) -> str:
        return self.workflow


class TokenBucket(EngineModel):
    """A part of the tokens of one rate and key. Nobody has to wait for another part's lock."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    name = models.TextField()
    key = models.TextField(default="")
    shard = models.SmallIntegerField()
    tokens = models.FloatField()
    filled_at = models.DateTimeField()
    #: When it is full, if nobody draws from it: a full one needs no row.
    full_at = models.DateTimeField()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_bucket"
        ordering: ClassVar = ["workspace_id", "name", "key", "shard"]
        verbose_name = _("token bucket")
        verbose_name_plural = _("token buckets")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "name", "key", "shard"], name="holdpoint_bucket_shard"),
            models.CheckConstraint(condition=Q(tokens__gte=0), name="holdpoint_bucket_tokens"),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.name} {self.key}")
