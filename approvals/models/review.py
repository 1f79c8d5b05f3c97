"""What people are asked to decide, and who may.

Invariant owned: a review is the same row for every door: its id is that of the interaction it was opened for.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from approvals.display.values import show_text
from approvals.models.base import point_to_user
from approvals.models.querysets import ReviewQuerySet
from workflows.models import EngineModel, Instance, Interaction, ReadQuerySet, Workspace

RISKS = {"low": _("low"), "medium": _("medium"), "high": _("high")}


class Review(EngineModel):  # type: ignore[django-manager-missing, unused-ignore]  # told with a warm cache only
    """One approval: what will happen, to what, by which rule, until when."""

    calls = "approvals.decide, withdraw, claim, reassign and the other calls of approvals"

    interaction = models.OneToOneField(
        Interaction, models.DO_NOTHING, primary_key=True, db_column="id", db_constraint=False, related_name="review"
    )
    instance = models.ForeignKey(
        Instance, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="reviews"
    )
    created_at = models.DateTimeField(_("created at"))
    #: When an answer is due; the interaction's deadline is when the wait ends.
    due_at = models.DateTimeField(_("due at"), null=True)
    #: When the next rung of the ladder is due.
    next_at = models.DateTimeField(null=True)
    #: In its grace: decided, and carried out at this moment unless it is undone.
    effective_at = models.DateTimeField(_("takes effect at"), null=True)
    #: The deadline of the wait, which does not pass during the grace.
    held_deadline = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(_("decided at"), null=True)
    claimed_at = models.DateTimeField(_("claimed at"), null=True)
    nudged_at = models.DateTimeField(_("nudged at"), null=True)
    #: Since when it is known that nobody can decide it any more.
    stranded_at = models.DateTimeField(_("nobody can decide since"), null=True)
    workspace = models.ForeignKey(
        Workspace, models.DO_NOTHING, db_constraint=False, db_index=False, verbose_name=_("workspace")
    )
    #: The instance's, so that earlier deciders are found without it; NULL where it began its family itself.
    family = models.UUIDField(null=True, editable=False)
    #: Where in the family it is asked, beside `step`: the same for what was spawned together; NULL: in this instance.
    place = models.UUIDField(null=True, editable=False)
    requester = point_to_user(_("requester"), null=True)
    claimed_by = point_to_user(_("claimed by"), null=True)
    #: Whose vote was the last one that it took; nobody, where time decided.
    decided_by = point_to_user(_("decided by"), null=True)
    #: Raised by what changes the thing to be decided; votes and comments do not.
    version = models.IntegerField(pgettext_lazy("of a request", "version"), default=1)
    #: How many rungs of the ladder have been taken.
    rung = models.IntegerField(default=0)
    open = models.BooleanField(_("open"), default=True)
    four_eyes = models.BooleanField(_("four eyes"), default=True)
    risk = models.TextField(_("risk"), default="low", choices=RISKS)
    title = models.TextField(_("title"))
    #: Why it is asked now, in the author's words.
    why = models.TextField(_("why now"), default="", blank=True)
    workflow = models.TextField(_("workflow"))
    #: The wait's name. Another step of the same instance is another stage, and so is another instance of its family.
    step = models.TextField(_("step"))
    #: What is decided about: a row of the project, by its model, key and name.
    subject_model = models.TextField(_("subject's model"), default="", blank=True)
    subject_pk = models.TextField(default="", blank=True)
    subject_using = models.TextField(default="", blank=True)
    subject_label = models.TextField(_("subject"), default="", blank=True)
    #: Of what is shown: a decision about anything else is stale.
    digest = models.TextField(default="", blank=True)
    outcome = models.TextField(_("outcome"), default="", blank=True)
    #: "module:qualname" of the function that changes business rows in the deciding transaction.
    on_decision = models.TextField(default="", blank=True)
    calendar = models.TextField(_("calendar"), default="", blank=True)
    #: Frozen when it was requested.
    outcomes = models.JSONField(_("outcomes"), encoder=DjangoJSONEncoder)
    quorum = models.JSONField(_("quorum"), encoder=DjangoJSONEncoder)
    rungs = models.JSONField(_("ladder"), null=True, encoder=DjangoJSONEncoder)
    snapshot = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    change = models.JSONField(_("change"), null=True, encoder=DjangoJSONEncoder)
    evidence = models.JSONField(_("evidence"), null=True, encoder=DjangoJSONEncoder)

    objects: ClassVar[Any] = ReviewQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_review"
        ordering: ClassVar = ["pk"]  # by the relation's name the interaction would be joined, to order by its columns
        verbose_name = _("review")
        verbose_name_plural = _("reviews")
        permissions: ClassVar = [
            ("decide_review", "Can decide reviews that name nobody"),
            ("reassign_review", "Can reassign reviews and release claims"),
            ("extend_review", "Can move deadlines of reviews"),
            ("withdraw_review", "Can withdraw reviews of others"),
            ("override_review", "Can decide in place of those asked"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(risk__in=list(RISKS)), name="holdpoint_review_risk"),
            models.CheckConstraint(condition=Q(version__gt=0, rung__gte=0), name="holdpoint_review_counters"),
            models.CheckConstraint(
                condition=Q(claimed_by__isnull=True, claimed_at__isnull=True)
                | Q(claimed_by__isnull=False, claimed_at__isnull=False),
                name="holdpoint_review_claim",
            ),
            models.CheckConstraint(
                condition=Q(effective_at__isnull=True) | ~Q(outcome=""), name="holdpoint_review_grace"
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["workspace", "due_at", "interaction"], condition=Q(open=True), name="holdpoint_review_open"
            ),
            models.Index(
                fields=["next_at"], condition=Q(open=True, next_at__isnull=False), name="holdpoint_review_next"
            ),
            models.Index(
                fields=["effective_at"],
                condition=Q(open=True, effective_at__isnull=False),
                name="holdpoint_review_effective",
            ),
            models.Index(
                fields=["workspace", "interaction"],
                condition=Q(open=True, stranded_at__isnull=False),
                name="holdpoint_review_stranded",
            ),
            models.Index(
                fields=["subject_model", "subject_pk", "interaction"],
                condition=~Q(subject_model=""),
                name="holdpoint_review_subject",
            ),
            models.Index(
                fields=["requester", "interaction"],
                condition=Q(requester__isnull=False),
                name="holdpoint_review_requester",
            ),
            models.Index(fields=["instance"], name="holdpoint_review_instance"),
            # Whatever became of them, in the order of their ids.
            models.Index(fields=["workspace", "interaction"], name="holdpoint_review_list"),
            models.Index(
                fields=["workspace", "decided_at", "interaction"],
                condition=Q(decided_at__isnull=False),
                name="holdpoint_review_decided",
            ),
        ]

    def __str__(self) -> str:
        return show_text(self.title)

    @property
    def root(self) -> Any:
        """The id of the instance that began the family: who decided another stage in it may not decide this one."""
        return self.family or self.instance_id

    @property
    def stage(self) -> tuple[Any, str]:
        """Which question of the family it is, however often it is asked."""
        return self.place or self.instance_id, self.step


class Candidate(EngineModel):
    """Somebody who may decide a review: a user, a group, who has a permission, or whom a rule names."""

    calls = "approvals.reassign or delegate"

    id = models.BigAutoField(primary_key=True)
    review = models.ForeignKey(
        Review,
        models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="candidates",
        verbose_name=_("review"),
    )
    #: The review's, so that a person's list is read in its order.
    due_at = models.DateTimeField(null=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, db_constraint=False, db_index=False)
    open = models.BooleanField(default=True)
    #: "user:5", "group:3", "permission:shop.approve_order", "rule:on_call".
    principal = models.TextField(_("who"))
    #: The principal that this one stands in for since it was delegated.
    instead_of = models.TextField(default="", blank=True)
    #: Who added it, where it was not asked from the beginning.
    added_by = models.TextField(_("added by"), default="", blank=True)
    #: Of a user: since when it is known that the account is closed or gone.
    gone_at = models.DateTimeField(null=True)

    objects: ClassVar[Any] = ReadQuerySet.as_manager()

    class Meta(EngineModel.Meta):
        db_table = "holdpoint_candidate"
        verbose_name = _("candidate")
        verbose_name_plural = _("candidates")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["review", "principal"], name="holdpoint_candidate_once"),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["principal", "workspace", "due_at", "review"],
                condition=Q(open=True),
                name="holdpoint_candidate_open",
            ),
            models.Index(
                fields=["added_by"], condition=Q(open=True) & ~Q(instead_of=""), name="holdpoint_candidate_handed"
            ),
            # Each user who is asked, found by steps from one to the next however many rows there are (`stranding`).
            models.Index(
                fields=["principal"],
                condition=Q(open=True, gone_at__isnull=True, principal__startswith="user:"),
                name="holdpoint_candidate_here",
            ),
            models.Index(
                fields=["principal"],
                condition=Q(open=True, gone_at__isnull=False, principal__startswith="user:"),
                name="holdpoint_candidate_gone",
            ),
        ]

    def __str__(self) -> str:
        return self.principal
