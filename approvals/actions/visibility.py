"""What somebody may not see is told them as what is not there.

Invariant owned: a refusal says nothing about a review to who may not look at it, neither that it exists nor how it
stands; the attempt of a member of its workspace is in the ledger all the same, whichever door they came by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from approvals.actions.action_transaction import make_refusal
from approvals.deciding.refused_attempt import note_refusal
from approvals.exceptions import ApprovalError, UnknownReview
from approvals.models import Review
from approvals.people.person import Person
from approvals.reviews.case import Case
from approvals.reviews.permissions import Permissions
from workflows.api.completions import owned_answers
from workflows.exceptions import InvalidData, PolicyRefused

#: What deciding, and the other actions, may be refused with.
REFUSALS = (ApprovalError, InvalidData, PolicyRefused)


@contextmanager
def hiding(id: UUID, user: Person, *, workspace: int) -> Iterator[None]:
    """Do something about a review for somebody; refused to who may not see it as `UnknownReview`.

    >>> with hiding(review.pk, zoe, workspace=review.workspace_id):
    ...     decide(review, "approve", actor=zoe)
    Traceback (most recent call last):
    approvals.exceptions.UnknownReview: there is no review '01a1…' for you
    """
    try:
        yield
    except REFUSALS as refused:
        rows = Review.objects.using(owned_answers.reach().alias).visible_to(user, workspace=workspace)
        if not rows.filter(pk=id).exists():
            raise UnknownReview(id) from refused
        raise


def note_unseen(id: UUID, user: Person, what: str, door: str, *, action: str = "decide") -> None:
    """Write down that somebody tried something about a review that they may not see, for doors that never get as far as
    the call: what would have refused it there. Nothing for who is no member of its workspace.

    >>> note_unseen(review.pk, zoe, "approve", "page")
    """
    review = Review.objects.using(owned_answers.reach().alias).filter(pk=id).first()
    if review is None or not user.is_active:
        return
    case = Case(review)
    if case.is_member(user) and (obstacle := Permissions(case, user).find_obstacle(action)) is not None:
        note_refusal(id, user, what, door, make_refusal(case, obstacle))
