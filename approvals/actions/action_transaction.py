"""How an action is done: under the locks, after its rule had nothing against it, and into the ledger.

Lives here: what all actions share. Must not live here: any single one, or its rule. Invariants owned: whoever acts is
looked at as they are now; what is refused changes nothing but the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext

from approvals.deciding.refused_attempt import note_refusal
from approvals.exceptions import AlreadyDecided, DecisionRefused, InvalidApproval, NotAllowed, TooSoon
from approvals.models.vote import MAX_TEXT
from approvals.people.person import Person
from approvals.people.principals import load_user
from approvals.reviews.case import Case
from approvals.reviews.held_case import HeldCase, check_actor, open_case, read_id
from approvals.reviews.permissions import Permissions, find_next_nudge
from approvals.rules import Obstacle
from approvals.rules.action_kinds import ACTION_KINDS
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers
from workflows.exceptions import InvalidCall, PolicyRefused
from workflows.lifecycle import Event
from workflows.values.json_text import check_text
from workflows.wording.messages import Reason, gettext_noop


@contextmanager
def act(action: str, review: Any, actor: Person, door: str) -> Iterator[HeldCase]:
    """The review under its locks, for an action that this person may do now; a refusal is in the ledger.

    >>> with act("claim", review, ann, "python") as case:
    ...     case.review.claimed_by_id is None
    True
    """
    check_actor(actor)
    id: UUID = read_id(review)
    try:
        with transaction.atomic(using=owned_answers.reach().alias):
            case = open_case(id)
            person = load_user(actor.pk)
            if person is None:
                raise NotAllowed(Obstacle("not_candidate", gettext("You can’t do this because your account is gone.")))
            if (obstacle := Permissions(case, person).find_obstacle(action)) is not None:
                raise make_refusal(case, obstacle)
            yield case
    except (DecisionRefused, PolicyRefused) as refused:
        note_refusal(id, actor, action, door, refused)
        raise


def record(case: HeldCase, action: str, actor: Person, door: str, told: Mapping[str, Any] | None = None) -> None:
    """One row of the ledger; what is empty is left out."""
    values = {name: value for name, value in (told or {}).items() if value}
    row = {"what": ACTION_KINDS[action].event, "door": door, **values}
    owned_answers.record(case.held, Event.HANDLED, row, actor=read_actor(actor))


def make_refusal(case: Case, obstacle: Obstacle) -> DecisionRefused:
    """The error that a rule is refused with.

    >>> make_refusal(case, Obstacle("not_candidate", "This is not yours to see."))
    NotAllowed('This is not yours to see.')
    """
    review = case.review
    if obstacle.rule == "closed":
        return AlreadyDecided(case.decided.by, review.decided_at, review.outcome)
    if obstacle.rule == "cooldown" and (until := find_next_nudge(review)) is not None:
        return TooSoon(until)
    return NotAllowed(obstacle)


def read_words(given: object, option: str, what: str, *, blank: bool = False) -> str:
    """What somebody wrote, if it can be kept."""
    try:
        return check_text(given, what, limit=MAX_TEXT, blank=blank).strip()
    except InvalidCall as error:
        raise InvalidApproval(option, given, str(error), reason=error.reason) from error


def read_later(given: Any, option: str, now: datetime) -> datetime:
    """A moment that lies ahead."""
    if not isinstance(given, datetime) or given.utcoffset() is None:
        raise InvalidApproval(option, given, "it is a moment that knows its time zone: an aware datetime")
    if given <= now:
        raise InvalidApproval(option, given, "it lies in the past", reason=Reason(gettext_noop("It lies in the past.")))
    return given
