"""The ledger and its seals, and the heartbeats of the workers.

Invariant owned: ledger rows are keyed by instance and number; what else holds for them is a trigger's business.
"""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext_lazy as _

from workflows.fields import (
    EventField,
    StatusField,
)
from workflows.models.base import EngineModel
from workflows.models.instance import Instance, Workspace

#: An instance's first rows, which are found by the instance alone.
SHORT_HISTORY = 100


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

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_ledger"
        #: For walking a long history. One over all rows would cost every parked instance 65 bytes.
        indexes: ClassVar = [
            models.Index(
                fields=["instance", "seq"], condition=models.Q(seq__gt=SHORT_HISTORY), name="holdpoint_ledger_long"
            ),
        ]
        ordering: ClassVar = ["instance_id", "seq"]
        verbose_name = _("ledger event")
        verbose_name_plural = _("ledger")

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

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_seal"
        ordering: ClassVar = ["workspace_id", "number"]
        verbose_name = _("ledger seal")
        verbose_name_plural = _("ledger seals")
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
    #: The queues that it serves; NULL: all of them.
    queues = ArrayField(models.TextField(), verbose_name=_("queues"), null=True)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_worker"
        verbose_name = _("worker")
        verbose_name_plural = _("workers")

    def __str__(self) -> str:
        return self.name


class Renewal(EngineModel):
    """A lease that was prolonged beside its row, because somebody held the row just then.

    UNLOGGED as well: a worker that still lives writes it again within a second. Without a foreign key, which would
    touch the very row that is held; what is past is deleted once a minute.
    """

    instance_id = models.UUIDField(primary_key=True)
    fence = models.IntegerField()
    due_at = models.DateTimeField()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_renewal"

    def __str__(self) -> str:
        return f"{self.instance_id}"
