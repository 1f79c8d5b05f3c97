"""Answers that a transport brought and nobody could take: kept as they came, for somebody to look at.

Invariant owned: one row for one record of a topic, however often it is read.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.translation import gettext_lazy as _

from workflows.models.base import EngineModel
from workflows.models.instance import Workspace
from workflows.uuid7 import make_uuid7
from workflows.wording.hidden_characters import reveal


class ParkedAnswer(EngineModel):
    """A record from a topic of answers that was not taken, and why."""

    calls: ClassVar[str] = "workflows.channels.kafka.take_again"

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    at = models.DateTimeField(_("at"))
    #: When it was taken after all.
    taken_at = models.DateTimeField(_("taken at"), null=True)
    #: None, where the record does not say, or where its topic may not speak for that workspace.
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, null=True, db_constraint=False, db_index=False)
    #: Which question it names; that may be another workspace's, or none at all.
    interaction = models.UUIDField(_("interaction"), null=True)
    offset = models.BigIntegerField(db_column="record_offset")
    #: Milliseconds since 1970 by whoever wrote it. Of a topic that was made anew, offsets begin again.
    sent_ms = models.BigIntegerField(default=0)
    partition = models.IntegerField()
    topic = models.TextField()
    #: One of `workflows.store.ledger.event_sums.REASONS`.
    reason = models.TextField()
    detail = models.TextField(default="")
    key = models.BinaryField(null=True)
    value = models.BinaryField(null=True)
    #: Pairs of a name and a text.
    headers = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_parked_answer"
        ordering: ClassVar = ["-id"]
        verbose_name = _("parked answer")
        verbose_name_plural = _("parked answers")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["topic", "partition", "offset", "sent_ms"], name="holdpoint_parked_answer_once"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["at"], name="holdpoint_parked_answer_age"),
            models.Index(fields=["workspace", "id"], name="holdpoint_parked_answer_list"),
        ]

    def __str__(self) -> str:
        return reveal(f"{self.topic}/{self.partition}/{self.offset} ({self.reason})")
