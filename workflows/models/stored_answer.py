"""What callers were told, for those who ask again; and what has been counted, for metrics.

Invariant owned: an answer is kept in the transaction of its effect, so there is never one without the other.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from workflows.models.base import EngineModel
from workflows.models.instance import Instance, Workspace


class StoredAnswer(EngineModel):
    """The answer to a call that named an idempotency key: the same call is told the same again."""

    pk = models.CompositePrimaryKey("workspace_id", "digest")
    #: Of method, path and idempotency key.
    digest = models.BinaryField()
    #: SHA-256 of the body that came with it.
    body_hash = models.BinaryField()
    at = models.DateTimeField(_("at"))
    #: Kept as long as this one is; those without go by age.
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="+"
    )
    #: What the instance runs, so that whoever may see some workflows only is told of these only.
    workflow = models.TextField(_("workflow"), null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    status = models.SmallIntegerField(_("status"))
    body = models.TextField(_("body"))

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_answer"
        verbose_name = _("stored answer")
        verbose_name_plural = _("stored answers")
        indexes: ClassVar = [
            models.Index(fields=["instance"], condition=Q(instance__isnull=False), name="holdpoint_answer_instance"),
            models.Index(fields=["at"], condition=Q(instance__isnull=True), name="holdpoint_answer_age"),
        ]

    def __str__(self) -> str:
        return f"{self.status}"


class Tally(EngineModel):
    """A number that only grows, per workspace: what /metrics shows of what the ledger and refusals told."""

    pk = models.CompositePrimaryKey("workspace_id", "name", "label")
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    name = models.TextField(_("name"))
    label = models.TextField(_("label"))
    value = models.FloatField(_("value"))

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_tally"
        verbose_name = _("tally")
        verbose_name_plural = _("tallies")
        default_permissions: ClassVar = ()

    def __str__(self) -> str:
        return f"{self.name}{{{self.label}}} {self.value}"
