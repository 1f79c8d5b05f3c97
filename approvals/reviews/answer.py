"""Who gave an answer, and in whose words: it is not always whoever's vote was the last one that it took.

Lives here: telling that, of a review and its votes. Must not live here: how it reads (`status`, `card`,
`rights`). Invariant owned: an answer is never told with the name or the words of somebody who said otherwise,
because every door asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from approvals.models import Review, Vote
from approvals.rules.outcomes import WITHDRAWN


def find_agreeing(votes: Sequence[Vote], outcome: str) -> Vote | None:
    """The latest vote for this answer: its reason and data are the answer's. The one that closed the matter may have
    said the opposite.

    >>> find_agreeing(case.votes, "reject").reason
    'Not within budget'
    """
    return next((vote for vote in reversed(votes) if vote.outcome == outcome), None)


def find_answerer(review: Review, votes: Sequence[Vote]) -> Any:
    """The key of who gave the answer; nobody where time did, or where it is another one than their own.

    >>> find_answerer(review, case.votes) == ann.pk
    True
    """
    return None if _find_overruled(review, votes) is not None else review.decided_by_id


def is_divided(review: Review, votes: Sequence[Vote]) -> bool:
    """Whether the answer is what it is because those asked did not agree.

    >>> is_divided(review, case.votes)
    False
    """
    vote = _find_overruled(review, votes)
    return vote is not None and (vote.verdict or {}).get("by") != "quorum"


def _find_overruled(review: Review, votes: Sequence[Vote]) -> Vote | None:
    """The vote of whoever closed the matter, where the answer is another one."""
    if review.decided_by_id is None or review.outcome in WITHDRAWN:
        return None
    own = next((vote for vote in reversed(votes) if vote.user_id == review.decided_by_id), None)
    return own if own is not None and own.outcome != review.outcome else None
