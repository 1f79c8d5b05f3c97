"""Instances with their inbox and the states that they had, and the workspace they belong to.

Invariant owned: a row that contradicts itself cannot be committed (check constraints).
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from workflows.fields import (
    INHERITED,
    StateField,
    StatusField,
    TextListField,
)
from workflows.lifecycle import FIRST_TERMINAL, TERMINAL, Status
from workflows.models.base import EngineModel, InstanceQuerySet
from workflows.uuid7 import make_uuid7
from workflows.wording.hidden_characters import reveal


class Workspace(models.Model):
    """A tenant. Single-tenant projects live in the default one and never name it."""

    id = models.AutoField(primary_key=True)
    slug = models.SlugField(_("slug"), max_length=100, unique=True)
    name = models.CharField(_("name"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    #: Who may choose this workspace with a session; where there is only one, everybody is in it.
    members: models.ManyToManyField[Any, Any] = models.ManyToManyField(
        settings.AUTH_USER_MODEL, blank=True, related_name="holdpoint_workspaces", verbose_name=_("members")
    )

    class Meta:
        db_table = "holdpoint_workspace"
        ordering: ClassVar = ["slug"]
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")
        permissions: ClassVar = [("all_workspaces", "Can see and operate all workspaces in the admin")]

    def __str__(self) -> str:
        return self.slug


class Instance(EngineModel):
    """One durable execution: a row, never a process."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    created_at = models.DateTimeField(_("created at"))
    #: One moment for all: when to run (runnable, sleeping), lease end (running), deadline (parked).
    due_at = models.DateTimeField(_("due at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    parent = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="children",
        verbose_name=_("parent"),
    )
    #: The instance that it goes on from, as it was at some point. What it has of that one's answers, lists and children
    #: stays there, so that one is kept as long as this one.
    forked_from = models.ForeignKey(
        "self",
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="forks",
        verbose_name=_("forked from"),
    )
    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False, verbose_name=_("workspace"))
    #: Counts claims; a commit that carries an older number changes nothing.
    fence = models.IntegerField(default=0)
    #: The last ledger number given out; also numbers the signals, in their exact order of arrival.
    seq = models.IntegerField(default=0)
    #: How many signals are unconsumed. A park compares it to learn of a delivery it cannot see yet.
    inbox = models.IntegerField(default=0)
    #: How many children of the latest Spawn have not ended.
    pending = models.IntegerField(default=0)
    version = models.IntegerField(pgettext_lazy("of a workflow", "version"), default=1)
    status = StatusField(_("status"))
    #: Explicit retries of the current step (`ctx.attempt`).
    attempt = models.SmallIntegerField(_("attempt"), default=0)
    #: Consecutive runs that ended without a committed outcome; bounded by `max_attempts`.
    runs = models.SmallIntegerField(default=0)
    #: How often this instance has spawned, and for a child: by which spawn of its parent it was born.
    spawns = models.IntegerField(default=0)
    spawn_no = models.IntegerField(null=True)
    #: How many units it has opened: zero spares every ending the look for open ones.
    asked = models.IntegerField(db_default=0)
    #: Of the definition it was started with; tells a deployed change from none.
    fingerprint = models.IntegerField(db_default=0)
    timed_out = models.BooleanField(default=False)
    #: Whether another instance has asked to be told of its end.
    watched = models.BooleanField(default=False, db_default=False, editable=False)
    #: Claimed without neighbours: its last worker died, or it may run only once.
    solo = models.BooleanField(default=False)
    workflow = models.TextField(_("workflow"))
    step = models.TextField(_("step"))
    key = models.TextField(_("key"), null=True)
    started_by = models.TextField(_("started by"), default="", blank=True)
    #: Who asked, where that is not `started_by`: whoever asked for the instance that started this one. See
    #: `workflows.api.origin`.
    origin = models.TextField(null=True, editable=False)
    #: The instance that began it all, of children and of what was launched; NULL where it is this one.
    family = models.UUIDField(null=True, editable=False)
    #: The moment of the schedule that started it.
    tick = models.DateTimeField(_("tick"), null=True, editable=False)
    #: Of a line: the unit and the number of the item that it continues.
    unit = models.UUIDField(null=True, editable=False, db_column="unit_id")
    item = models.IntegerField(null=True, editable=False)
    #: The names waited for; kept while the step that they woke is running or has failed.
    names = TextListField(null=True)
    input = models.JSONField(_("input"), encoder=DjangoJSONEncoder)
    stored_state = StateField(_("state"), db_column="state", null=True, encoder=DjangoJSONEncoder)
    result = models.JSONField(_("result"), null=True, encoder=DjangoJSONEncoder)
    #: The exception's class and message, the reason of Stop, or the reason of a cancellation.
    error = models.TextField(_("error"), null=True)
    #: Of the latest failed run, until the instance gets past it: the author's lines that led to its error, and the call
    #: of a function that it was in.
    traceback = models.TextField(_("traceback"), null=True, editable=False)
    failed_call = models.TextField(null=True, editable=False)
    #: The latest `ctx.progress`, as `{"done", "total", "note"}`, and when it was written.
    progress = models.JSONField(_("progress"), null=True, encoder=DjangoJSONEncoder)
    progress_at = models.DateTimeField(null=True)
    #: Of flow control; all NULL in a plain row: the default queue, priority 0, no key. See `definitions.flow`.
    queue = models.TextField(_("queue"), null=True)
    priority = models.SmallIntegerField(_("priority"), null=True)
    #: The number of its place, among those of its workspace and priority. Below zero while it holds its key between
    #: runs: then it is claimed whether or not a slot is free.
    lane = models.BigIntegerField(null=True, editable=False)
    #: The key of its `Concurrency`, and the number of that key within its workspace.
    flow_key = models.TextField(_("concurrency key"), null=True)
    gate = models.BigIntegerField(null=True, editable=False)
    rate_key = models.TextField(null=True, editable=False)
    fair_key = models.TextField(null=True, editable=False)
    #: Whether its key is held from the first run to the end, and not for a step only.
    holds = models.BooleanField(null=True, editable=False)
    #: Which of so many slots of its key it has, or had when it ran last; and the same of its queue.
    slot = models.SmallIntegerField(null=True, editable=False)
    slots = models.SmallIntegerField(null=True, editable=False)
    queue_slot = models.SmallIntegerField(null=True, editable=False)
    queue_slots = models.SmallIntegerField(null=True, editable=False)

    objects: ClassVar = InstanceQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_instance"
        ordering: ClassVar = ["-id"]
        verbose_name = _("instance")
        verbose_name_plural = _("instances")
        permissions: ClassVar = [
            ("start_instance", "Can start instances"),
            ("signal_instance", "Can send signals and events"),
            ("cancel_instance", "Can cancel instances"),
            ("retry_instance", "Can retry failed instances"),
            ("fork_instance", "Can fork instances"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "key"],
                condition=Q(key__isnull=False, status__lt="done"),
                name="holdpoint_instance_key",
            ),
            models.UniqueConstraint(
                fields=["unit", "item"],
                condition=Q(unit__isnull=False),
                name="holdpoint_instance_line",
            ),
            # No two have one slot of a key at once: what leaves `running` gives it back without a statement of its own.
            models.UniqueConstraint(
                fields=["workspace", "gate", "slot"],
                condition=Q(slot__isnull=False) & (Q(status="running") | Q(holds=True, status__lt="done")),
                name="holdpoint_slot",
            ),
            models.UniqueConstraint(
                fields=["workspace", "queue", "queue_slot"],
                condition=Q(queue_slot__isnull=False, status="running"),
                name="holdpoint_queue_slot",
            ),
            models.CheckConstraint(
                condition=Q(slot__isnull=True) | Q(slots__isnull=False, slot__gte=1, slot__lte=F("slots")),
                name="holdpoint_instance_slot",
            ),
            models.CheckConstraint(
                condition=Q(queue_slot__isnull=True)
                | Q(queue_slots__isnull=False, queue_slot__gte=1, queue_slot__lte=F("queue_slots")),
                name="holdpoint_instance_queue_slot",
            ),
            models.CheckConstraint(
                condition=Q(lane__isnull=True, queue__isnull=True, priority__isnull=True, gate__isnull=True)
                | Q(lane__isnull=False, queue__isnull=False, priority__gte=-100, priority__lte=100),
                name="holdpoint_instance_place",
            ),
            models.CheckConstraint(
                condition=Q(status__in=[status.value for status in Status]), name="holdpoint_instance_status"
            ),
            models.CheckConstraint(
                condition=Q(finished_at__isnull=False, due_at__isnull=True, status__gte="done")
                | Q(finished_at__isnull=True, status__lt="done"),
                name="holdpoint_instance_end",
            ),
            models.CheckConstraint(
                condition=Q(due_at__isnull=False) | ~Q(status__in=["runnable", "running", "sleeping"]),
                name="holdpoint_instance_due",
            ),
            models.CheckConstraint(
                condition=Q(names__isnull=False) | ~Q(status="awaiting"),
                name="holdpoint_instance_awaits",
            ),
            models.CheckConstraint(
                condition=Q(pending__gt=0) | ~Q(status="awaiting_children"),
                name="holdpoint_instance_children",
            ),
            models.CheckConstraint(
                condition=Q(result__isnull=True) | Q(status="done"),
                name="holdpoint_instance_result",
            ),
            models.CheckConstraint(
                condition=Q(error__isnull=False) | ~Q(status="failed"),
                name="holdpoint_instance_error",
            ),
            models.CheckConstraint(
                condition=Q(fence__gte=0, seq__gte=0, inbox__gte=0, pending__gte=0)
                & Q(attempt__gte=0, runs__gte=0, inbox__lte=F("seq")),
                name="holdpoint_instance_counters",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=Q(status="runnable", lane__isnull=True), name="holdpoint_plain"),
            # Whoever claims goes from lane to lane, however many rows wait in each.
            models.Index(
                fields=["priority", "workspace", "lane", "due_at"],
                condition=Q(status="runnable", lane__isnull=False),
                name="holdpoint_lanes",
            ),
            models.Index(fields=["due_at"], condition=Q(status="running"), name="holdpoint_lease"),
            models.Index(
                fields=["due_at"],
                condition=Q(
                    status__in=["awaiting", "sleeping", "awaiting_children"],
                    due_at__isnull=False,
                ),
                name="holdpoint_deadline",
            ),
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="holdpoint_children"),
            models.Index(fields=["finished_at"], condition=Q(finished_at__isnull=False), name="holdpoint_finished"),
            # Those that had a key once: the unique constraint knows the live ones only.
            models.Index(
                fields=["workspace", "key", "id"],
                condition=Q(key__isnull=False, status__gte="done"),
                name="holdpoint_past_key",
            ),
            models.Index(fields=["workspace", "id"], condition=Q(status="failed"), name="holdpoint_failed"),
            models.Index(fields=["forked_from"], condition=Q(forked_from__isnull=False), name="holdpoint_forks"),
            # A tenant's list must not read the rows of all others. Not the first workspace's, which is the default one:
            # a project without tenants would pay for it with every row, and reads the primary key as well.
            models.Index(fields=["workspace", "id"], condition=Q(workspace__gt=1), name="holdpoint_tenant"),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.workflow} {self.key or self.id}")

    @property
    def state(self) -> Any:
        """What the author's steps see as `ctx.state`."""
        return self.input if self.stored_state is INHERITED else self.stored_state

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more (but `retry` of a failed one)."""
        return self.status in TERMINAL


class KeptState(EngineModel):
    """What a run that led on was handed: the step, its state, and what it had been woken for."""

    pk = models.CompositePrimaryKey("instance_id", "fence")
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="kept_states"
    )
    kept_at = models.DateTimeField()
    #: The number of the claim; signals that it or a later one consumed had not been consumed before it.
    fence = models.IntegerField()
    #: The last number given out when it was claimed: signals with a higher one came later.
    seq = models.IntegerField()
    spawns = models.IntegerField()
    attempt = models.SmallIntegerField()
    timed_out = models.BooleanField()
    step = models.TextField()
    names = TextListField(null=True)
    #: NULL where it was the input.
    state = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_kept_state"
        ordering: ClassVar = ["instance_id", "fence"]

    def __str__(self) -> str:
        return reveal(f"{self.step} #{self.fence}")


class Signal(EngineModel):
    """A fact that arrived for an instance. Consumed ones stay: they carry the dedup keys."""

    pk = models.CompositePrimaryKey("instance_id", "n")
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="signals"
    )
    received_at = models.DateTimeField(_("received at"))
    consumed_at = models.DateTimeField(_("consumed at"), null=True)
    n = models.IntegerField(_("number"))
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    #: The fence of the run that consumed it.
    consumed_by = models.IntegerField(null=True)
    name = models.TextField(_("name"))
    dedup_key = models.TextField(_("dedup key"), null=True)
    source = models.TextField(_("source"), default="", blank=True)
    payload = models.JSONField(_("payload"), null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_signal"
        ordering: ClassVar = ["instance_id", "n"]
        verbose_name = _("signal")
        verbose_name_plural = _("signals")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["instance", "dedup_key"],
                condition=Q(dedup_key__isnull=False),
                name="holdpoint_signal_dedup",
            ),
            models.CheckConstraint(
                condition=Q(consumed_at__isnull=True, consumed_by__isnull=True)
                | Q(consumed_at__isnull=False, consumed_by__isnull=False),
                name="holdpoint_signal_consumed",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["instance", "n"], condition=Q(consumed_at__isnull=True), name="holdpoint_signal_open"),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.name} #{self.n}")

    @property
    def id(self) -> str:
        """The address that `Delivery.id` gives: instance and number."""
        return f"{self.instance_id}:{self.n}"


assert Status.DONE.code == FIRST_TERMINAL  # the partial indexes list the live codes
