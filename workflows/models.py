"""The tables: columns, constraints, indexes and read querysets. Nothing here writes.

Invariant owned: a row that contradicts itself cannot be committed (check constraints), and a status
cannot change along an edge that `lifecycle` does not have (a trigger, see the first migration).

Row widths matter: a million parked instances should fit in memory. So statuses are small integers,
the state is NULL while it equals the input, and signal and ledger rows are keyed by (instance, n), a
number taken from the instance under its lock, instead of carrying an identity of their own.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from workflows.exceptions import EngineOwned
from workflows.fields import (
    INHERITED,
    CallField,
    CardinalityField,
    EventField,
    InteractionStatusField,
    StateField,
    StatusField,
    TextListField,
    UnitStatusField,
)
from workflows.lifecycle import FIRST_TERMINAL, LIVE, TERMINAL, Status
from workflows.uuid7 import make_uuid7


class ReadQuerySet(models.QuerySet[Any]):
    """Everything that reads; everything that writes refuses, naming the calls to use."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise EngineOwned(self.model.__name__)

    create = get_or_create = update_or_create = bulk_create = bulk_update = update = delete = _refuse


class InstanceQuerySet(ReadQuerySet):
    """Ways to ask for instances."""

    def live(self) -> InstanceQuerySet:
        """Those that have not ended."""
        return self.filter(status__in=LIVE)

    def ended(self) -> InstanceQuerySet:
        """Those that have."""
        return self.filter(status__in=TERMINAL)


class EngineModel(models.Model):
    """A row that only the store writes."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: rows of the engine change through its calls only."""
        raise EngineOwned(type(self).__name__)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: rows of the engine go by retention only."""
        raise EngineOwned(type(self).__name__)


class Workspace(models.Model):
    """A tenant. Single-tenant projects live in the default one and never name it."""

    id = models.AutoField(primary_key=True)
    slug = models.SlugField(_("slug"), max_length=100, unique=True)
    name = models.CharField(_("name"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        db_table = "holdpoint_workspace"
        ordering: ClassVar = ["slug"]
        verbose_name = _("workspace")
        verbose_name_plural = _("workspaces")

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
    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False, verbose_name=_("workspace"))
    #: Counts claims; a commit that carries an older number changes nothing.
    fence = models.IntegerField(default=0)
    #: The last ledger number given out; also numbers the signals, in their exact order of arrival.
    seq = models.IntegerField(default=0)
    #: How many signals are unconsumed. A park compares it to learn of a delivery it cannot see yet.
    inbox = models.IntegerField(default=0)
    #: How many children of the latest Spawn have not ended.
    pending = models.IntegerField(default=0)
    version = models.IntegerField(_("version"), default=1)
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
    #: Claimed without neighbours: its last worker died, or it may run only once.
    solo = models.BooleanField(default=False)
    workflow = models.TextField(_("workflow"))
    step = models.TextField(_("step"))
    key = models.TextField(_("key"), null=True)
    started_by = models.TextField(_("started by"), default="", blank=True)
    #: The names waited for; kept while the step that they woke is running or has failed.
    names = TextListField(null=True)
    input = models.JSONField(_("input"), encoder=DjangoJSONEncoder)
    stored_state = StateField(_("state"), db_column="state", null=True, encoder=DjangoJSONEncoder)
    result = models.JSONField(_("result"), null=True, encoder=DjangoJSONEncoder)
    #: The exception's class and message, the reason of Stop, or the reason of a cancellation.
    error = models.TextField(_("error"), null=True)

    objects = InstanceQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_instance"
        base_manager_name = "objects"
        ordering: ClassVar = ["-id"]
        verbose_name = _("instance")
        verbose_name_plural = _("instances")
        permissions: ClassVar = [
            ("cancel_instance", "Can cancel instances"),
            ("retry_instance", "Can retry failed instances"),
        ]
        default_permissions: ClassVar = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "key"],
                condition=Q(key__isnull=False, status__lt="done"),
                name="holdpoint_instance_key",
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
            models.Index(fields=["due_at"], condition=Q(status="runnable"), name="holdpoint_runnable"),
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
        ]

    def __str__(self) -> str:
        return f"{self.workflow} {self.key or self.id}"

    @property
    def state(self) -> Any:
        """What the author's steps see as `ctx.state`."""
        return self.input if self.stored_state is INHERITED else self.stored_state

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more (but `retry` of a failed one)."""
        return self.status in TERMINAL


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

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_signal"
        base_manager_name = "objects"
        ordering: ClassVar = ["instance_id", "n"]
        verbose_name = _("signal")
        verbose_name_plural = _("signals")
        default_permissions: ClassVar = ("view",)
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
        return f"{self.name} #{self.n}"

    @property
    def id(self) -> str:
        """The address that `Delivery.id` gives: instance and number."""
        return f"{self.instance_id}:{self.n}"


class AwaitUnit(EngineModel):
    """The durable boundary of a wait that asks somebody something: how many answers it needs, what came back."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    instance = models.ForeignKey(Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="units")
    created_at = models.DateTimeField(_("created at"))
    deadline = models.DateTimeField(_("deadline"), null=True)
    closed_at = models.DateTimeField(_("closed at"), null=True)
    #: When its one signal was put into the inbox.
    released_at = models.DateTimeField(null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    #: Which visit of this wait: a wait in a loop asks anew each time.
    visit = models.IntegerField(default=1)
    total = models.IntegerField(default=1)
    remaining = models.IntegerField(default=1)
    failed = models.IntegerField(default=0)
    status = UnitStatusField(_("status"))
    cardinality = CardinalityField(_("cardinality"))
    #: The wait's name: a stage, the id of a call, or the step that parked.
    step = models.TextField(_("step"))

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_unit"
        base_manager_name = "objects"
        ordering: ClassVar = ["id"]
        verbose_name = _("await unit")
        verbose_name_plural = _("await units")
        default_permissions: ClassVar = ("view",)
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(status="open", closed_at__isnull=True) | (~Q(status="open") & Q(closed_at__isnull=False)),
                name="holdpoint_unit_closed",
            ),
            models.CheckConstraint(condition=Q(remaining__gte=0, failed__gte=0), name="holdpoint_unit_counters"),
        ]
        indexes: ClassVar = [models.Index(fields=["instance"], name="holdpoint_unit_instance")]

    def __str__(self) -> str:
        return f"{self.step} ({self.status})"


class Interaction(EngineModel):
    """One question that the outside sees: listed, addressed, answered once."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    unit = models.ForeignKey(
        AwaitUnit, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="interactions"
    )
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="interactions"
    )
    created_at = models.DateTimeField(_("created at"))
    deadline = models.DateTimeField(_("deadline"), null=True)
    closed_at = models.DateTimeField(_("closed at"), null=True)
    dispatched_at = models.DateTimeField(_("dispatched at"), null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    #: Counts items from 0.
    index = models.IntegerField(_("index"), default=0)
    #: Raised by every change; a caller may demand the one that it was shown.
    version = models.IntegerField(_("version"), default=1)
    status = InteractionStatusField(_("status"))
    #: Its channel answers it, and every other door refuses.
    owned = models.BooleanField(default=False)
    channel = models.TextField(_("channel"))
    signal_id = models.TextField(_("signal id"))
    #: The id of the key that signed its token: the same token can be derived again while that key is kept.
    token_key = models.TextField(null=True)
    token_hash = models.BinaryField(null=True)
    idempotency_key = models.TextField(null=True)
    idempotency_hash = models.BinaryField(null=True)
    actor = models.TextField(_("actor"), default="", blank=True)
    assignee = models.TextField(_("assignee"), null=True)
    group = models.TextField(_("group"), null=True, db_column="group_name")
    correlation_id = models.TextField(_("correlation id"), null=True)
    #: "module:qualname" of the class that a JSON Schema came from, so that every door can ask the class too.
    schema_type = models.TextField(null=True)
    #: "module:qualname" of the function that makes the trusted output of what was submitted.
    projector = models.TextField(null=True)
    request = models.JSONField(_("request"), null=True, encoder=DjangoJSONEncoder)
    schema = models.JSONField(_("schema"), null=True, encoder=DjangoJSONEncoder)
    output = models.JSONField(_("output"), null=True, encoder=DjangoJSONEncoder)

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_interaction"
        base_manager_name = "objects"
        ordering: ClassVar = ["id"]
        verbose_name = _("interaction")
        verbose_name_plural = _("interactions")
        default_permissions: ClassVar = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "signal_id"], condition=Q(status="pending"), name="holdpoint_interaction_signal"
            ),
            models.UniqueConstraint(fields=["unit", "index"], name="holdpoint_interaction_item"),
            models.UniqueConstraint(
                fields=["token_hash"], condition=Q(token_hash__isnull=False), name="holdpoint_interaction_token"
            ),
            models.CheckConstraint(
                condition=Q(status="pending", closed_at__isnull=True)
                | (~Q(status="pending") & Q(closed_at__isnull=False)),
                name="holdpoint_interaction_closed",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["workspace", "deadline", "id"],
                condition=Q(status="pending"),
                name="holdpoint_interaction_inbox",
            ),
            # Resolved ones: told apart from unknown ones by their signal id.
            models.Index(
                fields=["workspace", "signal_id", "id"],
                condition=~Q(status="pending"),
                name="holdpoint_interaction_past",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.signal_id} ({self.status})"


class Checkpoint(EngineModel):
    """A saved result inside a function-style workflow, in the order of its calls."""

    pk = models.CompositePrimaryKey("instance_id", "position")
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="checkpoints"
    )
    saved_at = models.DateTimeField(_("saved at"))
    #: Of a wait for time or for an event.
    deadline = models.DateTimeField(_("deadline"), null=True)
    #: The unit of a wait that asked a question; its answer is read from there.
    unit = models.ForeignKey(AwaitUnit, models.DO_NOTHING, null=True, db_constraint=False, db_index=False)
    child = models.ForeignKey(
        Instance, models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    position = models.IntegerField(_("position"))
    kind = CallField(_("kind"))
    #: Whether the value stands; a wait that is still open has none.
    settled = models.BooleanField(_("settled"), default=True)
    #: Whether the call raised, and the function went on: `value` tells what, and every later run raises it again.
    failed = models.BooleanField(_("failed"), db_default=False)
    #: Whether the instance failed of it: `retry` makes it again, and what came after it.
    blamed = models.BooleanField(db_default=False)
    #: The number of the signal that settled it.
    signal = models.IntegerField(null=True)
    #: Whether the call ended by its deadline.
    expired = models.BooleanField(_("expired"), default=False)
    name = models.TextField(_("id"))
    value = models.JSONField(_("value"), null=True, encoder=DjangoJSONEncoder)

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_checkpoint"
        base_manager_name = "objects"
        ordering: ClassVar = ["instance_id", "position"]
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        default_permissions: ClassVar = ("view",)

    def __str__(self) -> str:
        return f"{self.position} {self.name}"


class NamedEvent(EngineModel):
    """An event that was emitted, kept for as long as a wait may look back."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    at = models.DateTimeField(_("at"))
    name = models.TextField(_("name"))
    dedup_key = models.TextField(_("dedup key"), null=True)
    actor = models.TextField(_("actor"), default="", blank=True)
    data = models.JSONField(_("data"), null=True, encoder=DjangoJSONEncoder)

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_event"
        base_manager_name = "objects"
        ordering: ClassVar = ["id"]
        verbose_name = _("event")
        verbose_name_plural = _("events")
        default_permissions: ClassVar = ("view",)
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["workspace", "name", "dedup_key"],
                condition=Q(dedup_key__isnull=False),
                name="holdpoint_event_dedup",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["workspace", "name", "at"], name="holdpoint_event_lookback"),
            models.Index(fields=["at"], condition=Q(dedup_key__isnull=True), name="holdpoint_event_age"),
            models.Index(fields=["at"], condition=Q(dedup_key__isnull=False), name="holdpoint_event_keyed"),
        ]

    def __str__(self) -> str:
        return self.name


class EventWait(EngineModel):
    """A parked instance that waits for a named event, found by the values it wants to see in it."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="event_waits"
    )
    #: Answered, timed out or cancelled; kept, because it tells the type of the answer.
    closed_at = models.DateTimeField(null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    hash = models.BigIntegerField()
    event = models.TextField(_("event"))
    #: The JSON list of the match's field names, sorted.
    fields = models.TextField()
    match = models.JSONField(_("match"), encoder=DjangoJSONEncoder)
    schema_type = models.TextField(null=True)
    schema = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_event_wait"
        base_manager_name = "objects"
        verbose_name = _("event wait")
        verbose_name_plural = _("event waits")
        default_permissions: ClassVar = ("view",)
        indexes: ClassVar = [
            models.Index(
                fields=["workspace", "event", "fields", "hash", "id"],
                condition=Q(closed_at__isnull=True),
                name="holdpoint_event_wait_match",
            ),
            # For retention, which removes closed ones with their instance.
            models.Index(fields=["instance"], condition=Q(closed_at__isnull=False), name="holdpoint_event_wait_past"),
        ]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["instance"], condition=Q(closed_at__isnull=True), name="holdpoint_event_wait_one"
            )
        ]

    def __str__(self) -> str:
        return self.event


class LedgerEvent(EngineModel):
    """One append-only history row; `status` is the instance's status after it."""

    pk = models.CompositePrimaryKey("instance_id", "seq")
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="events"
    )
    at = models.DateTimeField(_("at"))
    #: The moment the row arms: a deadline, or when to go on.
    due_at = models.DateTimeField(_("due at"), null=True)
    seq = models.IntegerField(_("number"))
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    kind = EventField(_("kind"))
    status = StatusField(_("status"))
    actor = models.TextField(_("actor"), default="", blank=True)
    #: The step, or for a signal its name.
    name = models.TextField(_("name"), null=True)
    data = models.JSONField(_("data"), null=True, encoder=DjangoJSONEncoder)
    #: The transaction that wrote it: a seal covers only those that have ended. Filled in by the database.
    xid = models.BigIntegerField(db_default=RawSQL("pg_current_xact_id()::text::bigint", ()))
    #: Makes the digest of `data` say nothing about it once both are redacted. Filled in by the database.
    salt = models.UUIDField(null=True, db_default=RawSQL("gen_random_uuid()", ()))

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_ledger"
        base_manager_name = "objects"
        ordering: ClassVar = ["instance_id", "seq"]
        verbose_name = _("ledger event")
        verbose_name_plural = _("ledger")
        default_permissions: ClassVar = ("view",)

    def __str__(self) -> str:
        return f"{self.kind} #{self.seq}"


class LedgerSeal(EngineModel):
    """A link of a workspace's chain: the hash over the ledger rows of some transactions, and over the link before."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False, verbose_name=_("workspace"))
    number = models.IntegerField(_("number"))
    sealed_at = models.DateTimeField(_("sealed at"))
    #: Transactions from..to (exclusive); a restored database counts them anew, which begins an era.
    era = models.IntegerField(default=0)
    since = models.DateTimeField()
    from_xid = models.BigIntegerField()
    to_xid = models.BigIntegerField()
    rows = models.IntegerField(_("rows"))
    previous = models.BinaryField()
    hash = models.BinaryField()

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_seal"
        base_manager_name = "objects"
        ordering: ClassVar = ["workspace_id", "number"]
        verbose_name = _("ledger seal")
        verbose_name_plural = _("ledger seals")
        default_permissions: ClassVar = ("view",)
        constraints: ClassVar = [models.UniqueConstraint(fields=["workspace", "number"], name="holdpoint_seal_number")]

    def __str__(self) -> str:
        return f"{self.workspace_id}/{self.number}"


class Worker(EngineModel):
    """A pump that is alive: its heartbeat, and whether it listens and wants to be notified.

    The table is UNLOGGED: losing it in a crash of the server loses nothing, workers write themselves
    again, and idle marks cost no flush.
    """

    name = models.TextField(_("name"), primary_key=True)
    kind = models.TextField(_("kind"))
    beat_at = models.DateTimeField(_("last heartbeat"))
    started_at = models.DateTimeField(_("started at"))
    #: When a pump was last asked for; keeps many watchers from asking at once.
    asked_at = models.DateTimeField(_("asked at"), null=True)
    idle = models.BooleanField(_("idle"), default=False)
    holder = models.TextField(_("holder"), default="")

    objects = ReadQuerySet.as_manager()

    class Meta:
        db_table = "holdpoint_worker"
        base_manager_name = "objects"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions: ClassVar = ("view",)

    def __str__(self) -> str:
        return self.name


assert Status.DONE.code == FIRST_TERMINAL  # the partial indexes list the live codes
