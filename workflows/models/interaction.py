"""What instances wait for and what functions remember: units, interactions, events, checkpoints.

Invariant owned: one pending interaction per workspace and signal id, one open wait for an event per
instance and slot.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from workflows.fields import (
    CallField,
    CardinalityField,
    InteractionStatusField,
    UnitPhaseField,
    UnitStatusField,
)
from workflows.lifecycle import Watch
from workflows.models.base import EngineModel
from workflows.models.instance import Instance, Workspace
from workflows.uuid7 import make_uuid7
from workflows.wording.hidden_characters import reveal


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
    #: Numbers its own rows of the ledger: what happens to an item locks no instance.
    seq = models.IntegerField(default=0, db_default=0)
    #: Items that are known and not asked yet, because `concurrency` of them are asked and not over.
    queued = models.IntegerField(default=0, db_default=0)
    concurrency = models.IntegerField(default=1, db_default=1)
    #: Of its items: answered in time, and past their deadline. `failed` counts the third way to end.
    answered = models.IntegerField(default=0, db_default=0)
    expired = models.IntegerField(default=0, db_default=0)
    #: Seconds that each item may take, from the moment it is asked.
    timeout = models.FloatField(null=True)
    #: When the last of its items was asked.
    dispatched_at = models.DateTimeField(null=True)
    #: Where a unit of items stands with its queue and its release; nothing for a single question. The one column that
    #: its indexes lean on, and few statements touch: completing an item rewrites the row in its place.
    phase = UnitPhaseField(null=True)
    #: A unit of items: what it waits for is a list of questions, each answered by itself.
    items = models.BooleanField(default=False, db_default=False)
    #: What is answered is continued by a line, an instance of its own; the line's end makes the item through.
    lines = models.BooleanField(default=False, db_default=False)
    #: Its channel writes rows of its own when items are asked, which only the author's code can do.
    hooked = models.BooleanField(default=False, db_default=False)
    #: Of lines: the step that they begin with, and the function that continues an item, where its name finds it.
    line_step = models.TextField(null=True)
    line_then = models.TextField(null=True)
    #: Of a unit that asks nothing, because its lines do all of it: how many of them may be under way.
    line_room = models.IntegerField(default=0, db_default=0)
    #: What an item that fails or expires does to the others: one of `lifecycle.ItemPolicy`.
    policy = models.TextField(null=True)
    #: The wait's name: a stage, the id of a call, or the step that parked.
    step = models.TextField(_("step"))

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_unit"
        ordering: ClassVar = ["id"]
        verbose_name = _("await unit")
        verbose_name_plural = _("await units")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(status="open", closed_at__isnull=True) | (~Q(status="open") & Q(closed_at__isnull=False)),
                name="holdpoint_unit_closed",
            ),
            models.CheckConstraint(condition=Q(remaining__gte=0, failed__gte=0), name="holdpoint_unit_counters"),
            models.CheckConstraint(
                condition=Q(queued__gte=0, answered__gte=0, expired__gte=0)
                & Q(total__gte=F("queued") + F("answered") + F("failed") + F("expired")),
                name="holdpoint_unit_items",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["instance"], name="holdpoint_unit_instance"),
            # What a crash may leave undone: items that could be asked, and instances that could be released.
            models.Index(fields=["id"], condition=Q(phase="filling"), name="holdpoint_unit_filling"),
            models.Index(fields=["id"], condition=Q(phase="closed"), name="holdpoint_unit_unreleased"),
            # Lists of a tenant, as for instances; and what is under way.
            models.Index(fields=["workspace", "id"], condition=Q(workspace__gt=1), name="holdpoint_unit_tenant"),
            models.Index(
                fields=["workspace", "id"], condition=Q(items=True, status="open"), name="holdpoint_unit_open"
            ),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.step} ({self.status})")


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
    #: When it was first sent, where its channel sends.
    dispatched_at = models.DateTimeField(_("dispatched at"), null=True)
    #: When it is sent, or sent again; none, where there is nothing to send.
    dispatch_at = models.DateTimeField(_("next try at"), null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    #: Counts items from 0.
    index = models.IntegerField(_("index"), default=0)
    #: How often it was tried to send it.
    tries = models.SmallIntegerField(_("tries"), default=0, db_default=0)
    #: Raised by every change; a caller may demand the one that it was shown.
    version = models.IntegerField(pgettext_lazy("of a question", "version"), default=1)
    status = InteractionStatusField(_("status"))
    #: One item of a unit of items: its unit counts it, and its instance hears of the whole unit only.
    item = models.BooleanField(default=False, db_default=False)
    #: Numbers its own rows of the ledger: of an item whose channel tells what is done to it.
    seq = models.IntegerField(default=0, db_default=0)
    #: An item that is not asked yet: nobody sees it, and its time has not begun.
    queued = models.BooleanField(default=False, db_default=False)
    #: Its channel answers it, and every other door refuses.
    owned = models.BooleanField(default=False)
    channel = models.TextField(_("channel"))
    signal_id = models.TextField(_("signal id"))
    #: The id of the key that signed its token: the same token can be derived again while that key is kept.
    token_key = models.TextField(null=True)
    token_hash = models.BinaryField(null=True)
    actor = models.TextField(_("actor"), default="", blank=True)
    #: Why it failed.
    error = models.TextField(_("error"), null=True)
    assignee = models.TextField(_("assignee"), null=True)
    group = models.TextField(_("group"), null=True, db_column="group_name")
    correlation_id = models.TextField(_("correlation id"), null=True)
    #: "module:qualname" of the class that a JSON Schema came from, so that every door can ask the class too.
    schema_type = models.TextField(null=True)
    #: "module:qualname" of the function that makes the trusted output of what was submitted.
    projector = models.TextField(null=True)
    #: What is sent to its resume URL: the answer itself, the answer as `data`, or either.
    body = models.TextField(default="any", db_default="any")
    #: Why the last try failed.
    dispatch_error = models.TextField(_("dispatch error"), null=True)
    #: What its channel needs to send it, but for secrets.
    config = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    request = models.JSONField(_("request"), null=True, encoder=DjangoJSONEncoder)
    schema = models.JSONField(_("schema"), null=True, encoder=DjangoJSONEncoder)
    output = models.JSONField(_("output"), null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_interaction"
        ordering: ClassVar = ["id"]
        verbose_name = _("interaction")
        verbose_name_plural = _("interactions")
        permissions: ClassVar = [
            ("complete_interaction", "Can complete interactions"),
            ("redrive_interaction", "Can send interactions again"),
        ]
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
                condition=Q(status="pending", queued=False),
                name="holdpoint_interaction_inbox",
            ),
            # Whatever became of them, in the same order.
            models.Index(fields=["workspace", "deadline", "id"], name="holdpoint_interaction_list"),
            models.Index(
                fields=["workspace", "assignee", "deadline", "id"],
                condition=Q(status="pending", queued=False, assignee__isnull=False),
                name="holdpoint_interaction_assignee",
            ),
            models.Index(
                fields=["workspace", "group", "deadline", "id"],
                condition=Q(status="pending", queued=False, group__isnull=False),
                name="holdpoint_interaction_group",
            ),
            models.Index(
                fields=["workspace", "correlation_id", "deadline", "id"],
                condition=Q(status="pending", queued=False, correlation_id__isnull=False),
                name="holdpoint_interaction_related",
            ),
            # Resolved ones: told apart from unknown ones by their signal id.
            models.Index(
                fields=["workspace", "signal_id", "id"],
                condition=~Q(status="pending"),
                name="holdpoint_interaction_past",
            ),
            # What is to be sent. Whatever closes a question takes it out.
            models.Index(
                fields=["channel", "dispatch_at", "id"],
                condition=Q(status="pending", dispatch_at__isnull=False),
                name="holdpoint_interaction_send",
            ),
            # What could not be sent.
            models.Index(
                fields=["workspace", "id"],
                condition=Q(status="failed", dispatch_error__isnull=False),
                name="holdpoint_interaction_unsent",
            ),
            # Those that a sweep expires; the deadline of a single question is its instance's.
            models.Index(
                fields=["deadline", "id"],
                condition=Q(status="pending", item=True, deadline__isnull=False),
                name="holdpoint_interaction_due",
            ),
            # The next of a unit to be asked, however many of it are over.
            models.Index(
                fields=["unit", "index"], condition=Q(status="pending", queued=True), name="holdpoint_interaction_queue"
            ),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.signal_id} ({self.status})")


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
    #: Whether the value stands; that of a wait for an event that is still open is the id of its row.
    settled = models.BooleanField(_("settled"), default=True)
    #: Whether the call raised, and the function went on: `value` tells what, and every later run raises it again.
    failed = models.BooleanField(_("failed"), db_default=False)
    #: Whether the instance failed of it: `retry` makes it again, and what came after it.
    blamed = models.BooleanField(db_default=False)
    #: The number of the signal that settled it.
    signal = models.IntegerField(null=True)
    #: Of a wait for the end of `child`; see `lifecycle.Watch`.
    watch = models.SmallIntegerField(default=Watch.NONE, db_default=Watch.NONE)
    #: Whether the call ended by its deadline.
    expired = models.BooleanField(_("expired"), default=False)
    name = models.TextField(_("id"))
    value = models.JSONField(_("value"), null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_checkpoint"
        ordering: ClassVar = ["instance_id", "position"]
        verbose_name = _("checkpoint")
        verbose_name_plural = _("checkpoints")
        indexes: ClassVar = [
            # Who waits for the end of an instance, and whom nobody has told of it yet.
            models.Index(fields=["child"], condition=Q(watch=Watch.ARMED), name="holdpoint_checkpoint_watch"),
            models.Index(fields=["instance"], condition=Q(watch=Watch.ENDED), name="holdpoint_checkpoint_ended"),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.position} {self.name}")


class NamedEvent(EngineModel):
    """An event that was emitted, kept for as long as a wait may look back."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    at = models.DateTimeField(_("at"))
    name = models.TextField(_("name"))
    dedup_key = models.TextField(_("dedup key"), null=True)
    actor = models.TextField(_("actor"), default="", blank=True)
    #: By which door of the outside it came; none, where the project's own code emitted it.
    door = models.TextField(null=True)
    data = models.JSONField(_("data"), null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_event"
        ordering: ClassVar = ["id"]
        verbose_name = _("event")
        verbose_name_plural = _("events")
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
        return reveal(self.name)


class EventWait(EngineModel):
    """A parked instance that waits for a named event, found by the values it wants to see in it."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="event_waits"
    )
    #: Answered, timed out or cancelled; kept, because it tells the type of the answer.
    closed_at = models.DateTimeField(null=True)
    #: Of one of several open questions: an event that comes later is none for it.
    deadline = models.DateTimeField(null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    #: 0 of a wait that its instance is parked on alone; of one of several its place among the checkpoints, and one.
    slot = models.IntegerField(default=0, db_default=0)
    hash = models.BigIntegerField()
    event = models.TextField(_("event"))
    #: The JSON list of the match's field names, sorted.
    fields = models.TextField()
    match = models.JSONField(_("match"), encoder=DjangoJSONEncoder)
    #: A label: by which door of the outside the event has to come.
    channel = models.TextField(_("channel"), null=True)
    schema_type = models.TextField(null=True)
    schema = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_event_wait"
        verbose_name = _("event wait")
        verbose_name_plural = _("event waits")
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
                fields=["instance", "slot"], condition=Q(closed_at__isnull=True), name="holdpoint_event_wait_slot"
            )
        ]

    def __str__(self) -> str:
        return reveal(self.event)
