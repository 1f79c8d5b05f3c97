"""What somebody may not see is told them as what is not there.

Invariant owned: a refusal says nothing about a review to who may not look at it, neither that it exists nor how it
stands; the attempt is in the ledger all the same, because the refusal came from the decision itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from approvals.exceptions import ApprovalError, UnknownReview
from approvals.models import Review
from workflows import answering
from workflows.exceptions import InvalidData, PolicyRefused

#: What deciding, and the other actions, may be refused with.
REFUSALS = (ApprovalError, InvalidData, PolicyRefused)


@contextmanager
def hiding(id: UUID, user: Any, *, workspace: int) -> Iterator[None]:
    """Do something about a review for somebody; refused to who may not see it as `UnknownReview`.

    >>> with hiding(review.pk, zoe, workspace=review.workspace_id):
    ...     decide(review, "approve", actor=zoe)
    Traceback (most recent call last):
    approvals.exceptions.UnknownReview: there is no review '01a1…' for you
    """
    try:
        yield
    except REFUSALS as refused:
        rows = Review.objects.using(answering.reach().alias).visible_to(user, workspace=workspace)
        if not rows.filter(pk=id).exists():
            raise UnknownReview(id) from refused
        raise
