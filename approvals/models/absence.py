"""When people are away, what they have put aside, and how they like to be told.

Invariant owned: none of this changes a review; it is looked at when a list is read, a decision made or a message sent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, ClassVar

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from approvals.models.review import Review
from workflows.fields import TextListField
from workflows.models import EngineModel, ReadQuerySet, Workspace

#: What every time zone can still tell.
_FIRST, _LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_WITHIN = (MinValueValidator(_FIRST), MaxValueValidator(_LAST))


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
    since = models.DateTimeField(_("from"), validators=_WITHIN)
    until = models.DateTimeField(_("until"), null=True, blank=True, validators=_WITHIN)
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
                condition=Q(since__gte=_FIRST, since__lte=_LAST) & (Q(until__isnull=True) | Q(until__lte=_LAST)),
                name="holdpoint_absence_within",
                violation_error_message=_("An absence lies between the years 1970 and 9000."),
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
            "none": pgettext_lazy("no e-mails", "none"),
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


class SavedView(models.Model):
    """A list that somebody comes back to: the filters of its address, under a name."""

    id = models.BigAutoField(primary_key=True)
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="holdpoint_views", verbose_name=_("user")
    )
    name = models.CharField(_("name"), max_length=60)
    #: The address's query, as `Filters.write` writes it.
    query = models.CharField(_("filters"), max_length=1000, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        db_table = "holdpoint_saved_view"
        ordering: ClassVar = ["name", "pk"]
        default_permissions: ClassVar = ()
        verbose_name = _("saved view")
        verbose_name_plural = _("saved views")
        constraints: ClassVar = [models.UniqueConstraint(fields=["user", "name"], name="holdpoint_saved_view_once")]

    def __str__(self) -> str:
        return self.name


class Presence(EngineModel):
    """Somebody has a review open; it is over when it is not renewed."""

    id = models.BigAutoField(primary_key=True)
    review = models.ForeignKey(Review, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="looking")
    user: models.ForeignKey[Any, Any] = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False, verbose_name=_("user")
    )
    seen_at = models.DateTimeField(_("seen at"))

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_presence"
        default_permissions: ClassVar = ()
        verbose_name = _("presence")
        verbose_name_plural = _("presences")
        constraints: ClassVar = [models.UniqueConstraint(fields=["review", "user"], name="holdpoint_presence_once")]
        indexes: ClassVar = [models.Index(fields=["seen_at"], name="holdpoint_presence_seen")]

    def __str__(self) -> str:
        return f"{self.review_id}"


class Guess(EngineModel):
    """How often a password was tried lately; one row for each account and place, under a digest of their names."""

    key = models.CharField(max_length=64, primary_key=True)
    tries = models.PositiveIntegerField()
    #: From then on the count begins anew.
    until = models.DateTimeField(_("until"))

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_guess"
        default_permissions: ClassVar = ()
        verbose_name = _("password tries")
        verbose_name_plural = _("password tries")
        indexes: ClassVar = [models.Index(fields=["until"], name="holdpoint_guess_until")]

    def __str__(self) -> str:
        return self.key
