"""What a refused decision is over HTTP: the kinds of problems that only approvals have, and which refusal is which.

Invariants owned: every refusal has one answer, whatever was asked for; its sentence is the one that a greyed-out button
shows; and what a program needs to go on stands beside it as a member, never only in the sentence.
"""

from __future__ import annotations

from django.http import HttpResponse

from approvals.cards.refusal_message import PASSING
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
from workflows.rest.protocol.problems import (
    NOT_FOUND,
    NOTHING_HERE,
    RESOLVED,
    STALE_VERSION,
    ProblemKind,
    answer_problem,
)
from workflows.values.times import to_rfc3339

FORBIDDEN_BY_RULE = ProblemKind(
    403,
    "forbidden-by-rule",
    "A rule forbids it to you",
    "`rule` names it. Somebody else may: `detail` says who, where that is known.",
)
NOT_NOW = ProblemKind(
    409,
    "not-now",
    "Not possible as it stands",
    "Somebody is at it, is deciding it, or you have decided already: `rule` says which. Read it again later.",
)
NOT_CARRIED_OUT = ProblemKind(
    409,
    "not-carried-out",
    "It could not be carried out",
    "The site's own code refused what the decision leads to. Nothing was changed; `detail` says why.",
)
INVALID_DECISION = ProblemKind(
    422,
    "invalid-decision",
    "The decision is not acceptable",
    "Correct what `errors` lists: the outcome, its reason, or who it is handed on to.",
)

#: Kinds that no other part of the API has.
KINDS = (FORBIDDEN_BY_RULE, NOT_NOW, NOT_CARRIED_OUT, INVALID_DECISION)

#: What a caller over HTTP does about a rule that means a screen.
_HINTS = {
    "high_risk_diff": "Read it, and send the `version` that you have looked at.",
    "reauthenticate": "That cannot be done here: decide it in the inbox.",
}


def answer_refusal(error: ApprovalError) -> HttpResponse | None:
    """The answer to a caller who was refused; None if the error is not the caller's."""
    if isinstance(error, UnknownReview):
        return answer_problem(NOT_FOUND, NOTHING_HERE)
    if isinstance(error, NotAllowed):
        rule = error.obstacle.rule
        kind = NOT_NOW if rule in PASSING else FORBIDDEN_BY_RULE
        told = {"rule": rule, "by": error.obstacle.by, "until": to_rfc3339(error.obstacle.until)}
        members = {name: value for name, value in told.items() if value}
        return answer_problem(kind, " ".join([str(error), *_list_hints(rule)]), members=members)
    if isinstance(error, AlreadyDecided):
        told = {"outcome": error.outcome, "decided_by": error.by, "decided_at": to_rfc3339(error.at)}
        return answer_problem(RESOLVED, str(error), members={name: value for name, value in told.items() if value})
    if isinstance(error, Stale):
        difference = {str(name): [str(side) for side in sides] for name, sides in error.difference.items()}
        return answer_problem(STALE_VERSION, str(error), members={"difference": difference})
    if isinstance(error, TooSoon):
        return answer_problem(NOT_NOW, str(error), members={"rule": "too_soon", "until": to_rfc3339(error.until)})
    if isinstance(error, DecisionFailed):
        return answer_problem(NOT_CARRIED_OUT, str(error))
    if isinstance(error, ReasonRequired):
        return answer_problem(INVALID_DECISION, str(error), errors={"reason": ["is required for this outcome"]})
    if isinstance(error, UnknownOutcome):
        reason = f"must be one of {', '.join(error.known)}"
        return answer_problem(INVALID_DECISION, str(error), errors={"outcome": [reason]})
    if isinstance(error, InvalidApproval):
        return answer_problem(INVALID_DECISION, str(error), errors={error.option: [str(error)]})
    return None


def _list_hints(rule: str) -> list[str]:
    return [_HINTS[rule]] if rule in _HINTS else []
