"""What was decided before in cases like this.

Invariant owned: only what the person who looks may see, and in one statement beside those that say who they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery

from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.models import Review, Vote
from approvals.people.person import Person
from approvals.reviews.case import Case
from approvals.rules import load_outcomes

#: How many are shown.
MOST = 3
#: Among how many of the last decisions of the workspace they are looked for.
LOOK_BACK = 2_000


@dataclass(frozen=True, slots=True)
class Similar:
    """One decision of the past."""

    title: str
    outcome_label: str
    at: datetime
    id: UUID
    tone: str
    #: Why, as the latest of those who decided it so wrote; may be empty.
    reason: str


def list_similar(case: Case, user: Person | None) -> tuple[Similar, ...]:
    """The latest decisions at the same step of the same workflow, about the same kind of thing.

    >>> [(one.title, one.outcome_label) for one in list_similar(Case(review), ann)]
    [('Refund €640.00 to Acme GmbH', 'Approve')]
    """
    if user is None or getattr(user, "pk", None) is None:
        return ()
    review = case.review
    rows = Review.objects.filter(workspace_id=review.workspace_id)
    # The last ones of the workspace, which an index has in this order; whatever is in them, it ends there.
    latest = rows.filter(decided_at__isnull=False).order_by("-decided_at", "-pk").values("pk")[:LOOK_BACK]
    same = rows.filter(pk__in=latest, open=False, decided_at__isnull=False).filter(
        workflow=review.workflow, step=review.step, subject_model=review.subject_model
    )
    if review.decided_at is not None:
        same = same.filter(decided_at__lt=review.decided_at)  # what came later was nobody's example
    seen = (
        same.exclude(pk=review.pk)
        .exclude(outcome__in=("", "withdrawn"))
        .visible_to(case.see_as(user), workspace=review.workspace_id)
    )
    theirs = Vote.objects.filter(review_id=OuterRef("pk"), outcome=OuterRef("outcome"), standing=True)
    found = seen.order_by("-decided_at", "-pk").annotate(said=Subquery(theirs.order_by("-pk").values("reason")[:1]))
    return tuple(map(_show, found.values_list("pk", "title", "outcome", "outcomes", "decided_at", "said")[:MOST]))


def _show(row: tuple[UUID, str, str, Any, datetime, str | None]) -> Similar:
    id, title, name, outcomes, at, said = row
    outcome = next((one for one in load_outcomes(outcomes) if one.name == name), None)
    label = outcome.label if outcome else name
    return Similar(
        title=show_text(title, MAX_BLOCK),
        outcome_label=show_text(label, MAX_NAME),
        at=at,
        id=id,
        tone=outcome.tone if outcome else "neutral",
        reason=show_text(said, MAX_NAME) if said else "",
    )
