"""Other changes of the same row that wait: whoever decides one should know of the others.

Invariant owned: only what the person who looks may see, in one statement of bounded cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Q

from approvals.display.values import MAX_BLOCK, show_text
from approvals.models import Review
from approvals.people.person import Person
from approvals.reviews.case import Case

#: How many are shown.
MOST = 3
#: Among how many of the latest requests about the row they are looked for.
LOOK_BACK = 100


@dataclass(frozen=True, slots=True)
class Rival:
    """One of them."""

    id: UUID
    title: str


def list_rivals(case: Case, user: Person | None) -> tuple[Rival, ...]:
    """Those that wait beside this one, the latest first; none for what changes nothing.

    >>> [one.title for one in list_rivals(Case(review), ann)]
    ['Change Invoice 4711: due date']
    """
    review = case.review
    if not review.open or not review.subject_model or not (review.change or review.on_decision):
        return ()
    if user is None or getattr(user, "pk", None) is None:
        return ()
    about = {"subject_model": review.subject_model, "subject_pk": review.subject_pk}
    # The last ones about the row, which an index has in this order; whatever is in them, it ends there.
    latest = Review.objects.filter(**about).order_by("-interaction").values("pk")[:LOOK_BACK]
    does_something = Q(change__isnull=False) | ~Q(on_decision="")  # a deletion has no change
    rows = Review.objects.filter(does_something, pk__in=latest, open=True, subject_using=review.subject_using)
    seen = rows.exclude(pk=review.pk).visible_to(case.see_as(user), workspace=review.workspace_id)
    found = seen.order_by("-interaction").values_list("pk", "title")[:MOST]
    return tuple(Rival(id, show_text(title, MAX_BLOCK)) for id, title in found)
