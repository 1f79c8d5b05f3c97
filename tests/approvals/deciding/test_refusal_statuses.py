"""A refusal has one HTTP status, at the pages and at the API alike."""

from __future__ import annotations

import pytest

from approvals.cards.refusal_message import PASSING, find_status_code
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    DecisionFailed,
    InvalidApproval,
    NotAllowed,
    ReasonRequired,
    Stale,
    TooSoon,
    UnknownOutcome,
    UnknownReview,
)
from approvals.rest.refusal_problems import answer_refusal
from approvals.rules import Obstacle
from workflows.clock import read_now

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "error",
    [
        UnknownReview("x"),
        AlreadyDecided(),
        Stale({}),
        DecisionFailed("no such account"),
        ReasonRequired("reject"),
        UnknownOutcome("hold", ["approve"]),
        InvalidApproval("to", "x", "nobody of that name"),
        *(NotAllowed(Obstacle(rule, "no")) for rule in (*sorted(PASSING), "requester", "permission")),
    ],
    ids=lambda error: f"{type(error).__name__}-{getattr(getattr(error, 'obstacle', None), 'rule', '')}",
)
def test_pages_and_the_api_answer_a_refusal_with_the_same_status(error: ApprovalError) -> None:
    answer = answer_refusal(error)
    assert answer is not None
    assert answer.status_code == find_status_code(error)


def test_a_reminder_that_comes_too_soon_has_the_same_status_too() -> None:
    error = TooSoon(read_now())
    answer = answer_refusal(error)
    assert answer is not None
    assert answer.status_code == find_status_code(error)
