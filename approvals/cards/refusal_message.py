"""A refusal as people read it: the sentence of the rule, never the words that are meant for a program.

Invariant owned: what a greyed-out button says and what the refused action says is the same sentence.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.utils.translation import gettext

from approvals.access.password_check import TooManyTries
from approvals.display.values import show_text
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
from approvals.models import Review
from approvals.reviews.case import Case
from approvals.rules import Outcome, find_obstacle, load_outcomes
from approvals.subjects.field_display import label_field
from approvals.subjects.reference import find_field
from workflows.exceptions import InvalidCall, InvalidData, NotSerializable, PolicyRefused, TooLarge
from workflows.wording.messages import make_sentence, tell_reason
from workflows.wording.punctuation import join_list

logger = logging.getLogger("approvals")


#: Rules that stand against anybody at this moment, and not against this person.
PASSING = frozenset({"grace", "claimed", "voted", "closed"})
#: The HTTP status of a refusal, at every door alike; the first that fits.
STATUS_CODES: tuple[tuple[type[Exception], int], ...] = (
    (UnknownReview, 404),
    (AlreadyDecided, 410),
    (Stale, 409),
    (NotAllowed, 403),
    (TooSoon, 409),
    (DecisionFailed, 409),
    (ReasonRequired, 422),
    (UnknownOutcome, 422),
    (InvalidApproval, 422),
    (InvalidData, 422),
    (PolicyRefused, 403),
    (TooManyTries, 429),
    (TooLarge, 413),
    (NotSerializable, 422),
    (InvalidCall, 422),
)


def find_status_code(error: Exception) -> int:
    """The HTTP status of a refusal.

    >>> find_status_code(ReasonRequired("reject"))
    422
    """
    if isinstance(error, NotAllowed) and error.obstacle.rule in PASSING:
        return 409
    return next(code for kind, code in STATUS_CODES if isinstance(error, kind))


def tell_refusal(error: Exception, review: Review) -> str:
    """Why it was refused, to the person who tried.

    >>> tell_refusal(NotAllowed(obstacle), review) == obstacle.message
    True
    """
    return show_text(_tell(error, review), 1_000)


def tell_problem(data: Mapping[str, Any], review: Review) -> str:
    """The same of what a notice tells (`fallen_votes.dump_problem`), in the language that is spoken now.

    >>> tell_problem({"reason": "no such account"}, review)
    'no such account'
    """
    match data.get("refused"):
        case "Stale":
            labels = [_label_field(str(name), review) for name in data.get("fields") or ()]
            return _tell(Stale(dict.fromkeys(labels, ("", ""))), review)
        case "NotAllowed" if data.get("rule") == "not_candidate":
            return gettext("You can’t decide this any more: you are no longer among those asked.")
        case "DecisionFailed":
            return _tell(DecisionFailed(str(data.get("problem") or "")), review)
        case "PolicyRefused":
            return _tell(PolicyRefused("resume", str(data.get("problem") or "")), review)
    return str(data.get("reason") or "")


def _label_field(name: str, review: Review) -> str:
    """What people call a field of the subject."""
    try:
        return label_field(name, find_field(apps.get_model(review.subject_model), name))
    except (LookupError, ValueError, ApprovalError):  # gone with a deploy, or a place within a value
        return label_field(name, None)


def _tell(error: Exception, review: Review) -> str:
    if isinstance(error, NotAllowed):
        return error.obstacle.message
    if isinstance(error, AlreadyDecided):
        return _tell_closed(review)
    if isinstance(error, Stale):
        if not error.difference:
            return gettext("This changed since you opened it. Look at the change, then decide.")
        told = gettext("This changed since you opened it: %(fields)s. Look at the change, then decide.")
        return told % {"fields": join_list(error.difference)}
    if isinstance(error, ReasonRequired):
        told = gettext("“%(outcome)s” needs a reason: write one, or choose one.")
        return told % {"outcome": label_outcome(error.outcome, load_outcomes(review.outcomes))}
    if isinstance(error, UnknownOutcome):
        labels = join_list(one.label for one in load_outcomes(review.outcomes))
        told = gettext("“%(outcome)s” is no answer to this. Choose one of: %(labels)s.")
        return told % {"outcome": error.outcome, "labels": labels}
    if isinstance(error, DecisionFailed):
        return gettext("It could not be carried out, and nothing was changed: %(problem)s") % {
            "problem": tell_reason(error.problem)
        }
    if isinstance(error, UnknownReview):
        return gettext("There is no such review for you.")
    if isinstance(error, InvalidData):
        return gettext("It has a form to fill in: open this request to decide it on its own.")
    if isinstance(error, PolicyRefused):
        return gettext("The policy of this site does not allow it: %(why)s") % {"why": error.reason or "–"}
    if isinstance(error, InvalidCall | InvalidApproval):
        return error.tell()
    if isinstance(error, TooManyTries):
        return str(error)
    logger.warning("review %s: a refusal that is not for people: %s", review.pk, error)
    return gettext("It could not be done, and nothing was changed: try again, or ask whoever runs this site.")


def tell_unasked(error: Exception) -> str:
    """Why nobody could be asked to approve something, to whoever wanted it.

    >>> tell_unasked(InvalidApproval("groups", "sales", Reason(_("there is no group of this name"))))
    'Nobody could be asked to approve it. There is no group of this name.'
    """
    reason = getattr(error, "reason", "")
    if not reason:
        return gettext("Nobody could be asked to approve it: ask whoever runs this site.")
    told = gettext("Nobody could be asked to approve it. %(reason)s")
    return told % {"reason": show_text(make_sentence(reason), 1_000)}


def label_outcome(name: str, outcomes: Sequence[Outcome]) -> str:
    """What stands on an outcome's button.

    >>> label_outcome("approve", case.outcomes)
    'Approve'
    """
    return next((one.label for one in outcomes if one.name == name), name)


def _tell_closed(review: Review) -> str:
    """Who was quicker, and what they said."""
    found = Review.objects.filter(pk=review.pk).first()
    if found is None:
        return gettext("This no longer waits for a decision.")
    case = Case(found)
    obstacle = find_obstacle(case.rules, case.state)
    return gettext("This no longer waits for a decision.") if obstacle is None else obstacle.message
