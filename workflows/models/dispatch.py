"""The delivery log: each try to send a question, of channels that keep one.

Invariant owned: a row goes with its question, by retention.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from workflows.models.base import EngineModel
from workflows.models.interaction import Interaction


class Dispatch(EngineModel):
    """One try to send a question, and what came back."""

    id = models.BigAutoField(primary_key=True)
    interaction = models.ForeignKey(
        Interaction, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="dispatches"
    )
    at = models.DateTimeField(_("at"))
    #: Milliseconds that it took.
    ms = models.IntegerField(_("milliseconds"), null=True)
    #: Counts tries from 1.
    number = models.SmallIntegerField(_("try"))
    #: The code of an HTTP answer.
    status = models.SmallIntegerField(_("HTTP status"), null=True)
    #: Whether it was taken.
    sent = models.BooleanField(_("sent"))
    error = models.TextField(_("error"), null=True)
    #: The beginning of what came back.
    response = models.TextField(_("response"), default="", blank=True)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_dispatch"
        ordering: ClassVar = ["interaction_id", "id"]
        verbose_name = _("dispatch")
        verbose_name_plural = _("dispatches")
        indexes: ClassVar = [models.Index(fields=["interaction", "id"], name="holdpoint_dispatch_of")]

    def __str__(self) -> str:
        return f"{self.number}"
