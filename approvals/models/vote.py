"""What people decided and said about a review.

Invariant owned: one standing vote per person and review; a vote is never changed or deleted, a later row takes it back
and the earlier one no longer stands.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from approvals.models.base import point_to_user
from approvals.models.review import Review
from workflows.fields import TextListField
from workflows.models import EngineModel, Instance, ReadQuerySet
from workflows.uuid7 import make_uuid7

#: Characters of the longest reason, comment or question that a person may write.
MAX_TEXT = 4_000

COMMENTS = {"comment": _("comment"), "question": _("question"), "answer": _("answer")}


class Vote(EngineModel):  # type: ignore[django-manager-missing, unused-ignore]
    """A decision of one person; or one that takes it back."""

    calls = "approvals.decide or undo"

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    review = models.ForeignKey(
        Review, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="votes", verbose_name=_("review")
    )
    instance = models.ForeignKey(Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+")
    #: The review's family and place, written by the database: earlier deciders are found without a join.
    family = models.UUIDField(null=True, editable=False)
    place = models.UUIDField(null=True, editable=False)
    at = models.DateTimeField(_("at"))
    user = point_to_user(_("user"), null=True)
    #: For whom it was cast, where that was somebody who is away or who delegated.
    on_behalf_of = point_to_user(_("on behalf of"), null=True)
    #: The vote that this one takes back.
    reverses = models.ForeignKey(
        "self", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="reversed_by"
    )
    #: Whether it counts: not taken back, and not itself a taking back.
    standing = models.BooleanField(_("counts"), default=True)
    #: Decided by a program on the person's behalf.
    automated = models.BooleanField(_("automated"), default=False)
    #: Decided with the right to override, by somebody who was not asked.
    override = models.BooleanField(_("override"), default=False)
    step = models.TextField(_("step"))
    outcome = models.TextField(_("outcome"))
    reason = models.TextField(_("reason"), default="", blank=True)
    actor = models.TextField(_("actor"))
    #: How it came: "page", "api", "link", "admin", "mcp", "python", "time".
    door = models.TextField(_("door"))
    digest = models.TextField(default="", blank=True)
    #: The groups in which it counts, as they were then.
    groups = TextListField(_("groups"))
    data = models.JSONField(_("data"), null=True, encoder=DjangoJSONEncoder)
    #: What was on the table until this row changed it: {"data": …}, or {} for nothing; null where it changed nothing.
    changed_from = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    #: The vote with other data since which this one no longer counts.
    superseded_by = models.ForeignKey(
        "self", models.DO_NOTHING, null=True, db_constraint=False, db_index=False, related_name="supersedes"
    )
    #: The review's, with this row; of older rows it is not known.
    version = models.IntegerField(pgettext_lazy("of a request", "version"), null=True)
    #: What it was counted against: who could vote then, and what that amounted to.
    verdict = models.JSONField(_("verdict"), null=True, encoder=DjangoJSONEncoder)

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_vote"
        ordering: ClassVar = ["id"]
        verbose_name = _("vote")
        verbose_name_plural = _("votes")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["review", "user"],
                condition=Q(standing=True, user__isnull=False),
                name="holdpoint_vote_once",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["review", "id"], name="holdpoint_vote_review"),
            models.Index(fields=["user", "id"], condition=Q(user__isnull=False), name="holdpoint_vote_user"),
            models.Index(
                fields=["on_behalf_of"], condition=Q(on_behalf_of__isnull=False), name="holdpoint_vote_behalf"
            ),
            models.Index(fields=["family", "user"], name="holdpoint_vote_family"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} ({self.actor})"

    @property
    def stage(self) -> tuple[Any, str]:
        """The review's, where this was read from the database."""
        return self.place or self.instance_id, self.step


class Comment(EngineModel):  # type: ignore[django-manager-missing, unused-ignore]
    """Something said about a review: a comment, a question to its requester, or the answer to one."""

    calls = "approvals.comment, request_info or answer_info"

    id = models.UUIDField(primary_key=True, default=make_uuid7, editable=False)
    review = models.ForeignKey(
        Review,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="comments",
        verbose_name=_("review"),
    )
    at = models.DateTimeField(_("at"))
    #: The question that this answers.
    answers = models.ForeignKey("self", models.DO_NOTHING, null=True, db_constraint=False, db_index=False)
    kind = models.TextField(_("kind"), default="comment", choices=COMMENTS)
    user = point_to_user(_("user"), null=True)
    actor = models.TextField(_("actor"))
    text = models.TextField(_("text"))

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_comment"
        ordering: ClassVar = ["id"]
        verbose_name = _("comment")
        verbose_name_plural = _("comments")
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(kind__in=list(COMMENTS)), name="holdpoint_comment_kind"),
        ]
        indexes: ClassVar = [models.Index(fields=["review", "id"], name="holdpoint_comment_review")]

    def __str__(self) -> str:
        return f"{self.text:.60}"
