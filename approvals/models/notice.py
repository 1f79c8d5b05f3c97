"""What people are to be told, and what became of telling them.

Invariant owned: a notice is written in the transaction of what it tells of, so none is lost and none is told of what
did not happen; a delivery is one message to one place, and is closed once the review is decided anywhere.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from approvals.models.review import Review
from workflows.models import EngineModel, ReadQuerySet
from workflows.uuid7 import make_uuid7


class Notice(EngineModel):
    """Something that people should be told of; it goes when their messages have been written down."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    review = models.ForeignKey(Review, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="notices")
    at = models.DateTimeField(_("at"))
    #: "new", "reminder", "escalation", "question", "answer", "nudge", "edited", "decided", "reopened",
    #: "stranded", "closed".
    kind = models.TextField(_("kind"))
    #: Whom to tell: principals; left empty: those asked.
    to = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    data = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_notice"
        ordering: ClassVar = ["id"]
        default_permissions: ClassVar = ()
        verbose_name = _("notice")
        verbose_name_plural = _("notices")
        indexes: ClassVar = [
            models.Index(fields=["at"], name="holdpoint_notice_at"),
            models.Index(fields=["review"], name="holdpoint_notice_review"),
        ]

    def __str__(self) -> str:
        return self.kind


class Delivery(EngineModel):
    """One message to one place."""

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    review = models.ForeignKey(
        Review,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="deliveries",
        verbose_name=_("review"),
    )
    created_at = models.DateTimeField(_("created at"))
    #: When to try next; NULL: nothing is left to do.
    due_at = models.DateTimeField(_("due at"), null=True)
    sent_at = models.DateTimeField(_("sent at"), null=True)
    #: When the place was told that it is decided, where it can be told.
    closed_at = models.DateTimeField(_("closed at"), null=True)
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=_("user"),
    )
    attempts = models.IntegerField(_("attempts"), default=0)
    #: "waiting", "sent", "failed", "dropped" (decided before it was sent, or nobody to send it to).
    status = models.TextField(_("status"), default="waiting")
    kind = models.TextField(_("kind"))
    #: "email", or the name of a webhook.
    channel = models.TextField(_("channel"))
    #: The address, as it was when it was sent.
    address = models.TextField(_("address"), default="", blank=True)
    external_id = models.TextField(_("external id"), default="", blank=True)
    error = models.TextField(_("error"), default="", blank=True)
    data = models.JSONField(null=True, encoder=DjangoJSONEncoder)

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_delivery"
        ordering: ClassVar = ["id"]
        verbose_name = _("delivery")
        verbose_name_plural = _("deliveries")
        permissions: ClassVar = [("resend_delivery", "Can send deliveries again")]
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(status__in=["waiting", "sent", "failed", "dropped"]), name="holdpoint_delivery_status"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="holdpoint_delivery_due"),
            models.Index(fields=["review", "id"], name="holdpoint_delivery_review"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} ({self.channel})"
