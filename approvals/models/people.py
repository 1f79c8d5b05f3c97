"""When people are away, what they have put aside, and how they like to be told.

Invariant owned: none of this changes a review; it is looked at when a list is read, a decision made or a message sent.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from approvals.models.reviews import Review
from workflows.fields import TextListField
from workflows.models import EngineModel, ReadQuerySet, Workspace


class Absence(models.Model):
    """Somebody is away, and somebody else may decide what they may."""

    id = models.BigAutoField(primary_key=True)
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="holdpoint_absences", verbose_name=_("user")
    )
    substitute: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="holdpoint_substitutions", verbose_name=_("substitute")
    )
    workspace = models.ForeignKey(
        Workspace,
        models.CASCADE,
        null=True,
        blank=True,
        verbose_name=_("workspace"),
        help_text=_("Left empty: all of them."),
    )
    #: NULL: all workflows.
    workflows = TextListField(
        _("workflows"), null=True, blank=True, help_text=_("Names of workflows; left empty: all of them.")
    )
    since = models.DateTimeField(_("from"))
    until = models.DateTimeField(_("until"), null=True, blank=True)
    note = models.CharField(_("note"), max_length=200, blank=True)

    class Meta:
        db_table = "holdpoint_absence"
        ordering: ClassVar = ["since"]
        verbose_name = _("absence")
        verbose_name_plural = _("absences")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=~Q(user=F("substitute")),
                name="holdpoint_absence_other",
                violation_error_message=_("Nobody can stand in for themselves."),
            ),
            models.CheckConstraint(
                condition=Q(until__isnull=True) | Q(until__gt=F("since")),
                name="holdpoint_absence_order",
                violation_error_message=_("An absence ends after it begins."),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} → {self.substitute}"


class Preference(models.Model):
    """How somebody likes to be told, and to work."""

    user: models.OneToOneField[Any, Any] = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        primary_key=True,
        related_name="holdpoint_preference",
        verbose_name=_("user"),
    )
    language = models.CharField(_("language"), max_length=20, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=60, blank=True)
    #: "each": one message for each request; "daily", "hourly": collected; "none".
    email = models.CharField(
        _("e-mail"),
        max_length=10,
        default="each",
        choices={
            "each": _("for each request"),
            "hourly": _("collected, once an hour"),
            "daily": _("collected, once a day"),
            "none": _("none"),
        },
    )
    #: Whether single keys decide in the inbox.
    shortcuts = models.BooleanField(_("keyboard shortcuts"), default=True)

    class Meta:
        db_table = "holdpoint_preference"
        verbose_name = _("preference")
        verbose_name_plural = _("preferences")

    def __str__(self) -> str:
        return f"{self.user}"


class Snooze(EngineModel):
    """A review that somebody does not want to see until then."""

    id = models.BigAutoField(primary_key=True)
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False, verbose_name=_("user")
    )
    review = models.ForeignKey(Review, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="snoozes")
    until = models.DateTimeField(_("until"))

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_snooze"
        default_permissions: ClassVar = ()
        verbose_name = _("snooze")
        verbose_name_plural = _("snoozes")
        constraints: ClassVar = [models.UniqueConstraint(fields=["review", "user"], name="holdpoint_snooze_once")]

    def __str__(self) -> str:
        return f"{self.review_id}"
