"""What providers have sent to inbound hooks, by their own ids.

Invariant owned: one row per workspace, hook and provider's id, written in the transaction of its effect.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from workflows.models.base import EngineModel
from workflows.models.instance import Workspace
from workflows.wording.hidden_characters import reveal


class HookReceipt(EngineModel):
    """A message of a provider that was taken, kept so that it is not taken twice; its body is not kept."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("workspace")
    )
    at = models.DateTimeField(_("at"))
    hook = models.TextField(_("hook"))
    #: The provider's own id of what it tells.
    event_id = models.TextField(_("provider’s id"))
    #: As JSON; the provider is answered the same when it sends the message again.
    answer = models.TextField(_("answer"))

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_hook_receipt"
        ordering: ClassVar = ["-id"]
        verbose_name = _("hook receipt")
        verbose_name_plural = _("hook receipts")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["workspace", "hook", "event_id"], name="holdpoint_hook_receipt_once"),
        ]
        indexes: ClassVar = [models.Index(fields=["at"], name="holdpoint_hook_receipt_age")]

    def __str__(self) -> str:
        return reveal(f"{self.hook} {self.event_id}")
