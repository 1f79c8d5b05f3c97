"""What may be done to a review from here, each as the call of `approvals` that everybody makes.

Lives here: which call, with what, in which words. Must not live here: pages (`action_pages`) and rules
(`approvals.actions.actions`).
Invariant owned: every one of them says that it came through the admin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from approvals.actions.actions import extend, release, withdraw
from approvals.actions.delegation import reassign
from approvals.admin.action_forms import DeedForm, ExtendForm, OutcomeForm, OverrideForm, ReassignForm
from approvals.cards.refusal_message import label_outcome
from approvals.deciding.decisions import decide
from approvals.models import Review
from approvals.people.person import Person
from approvals.rules import load_outcomes
from approvals.rules.action_kinds import ACTION_KINDS
from approvals.rules.door import Door

DOOR = "admin"

#: Does it, as this user, with what the form holds; and says what came of it.
Call = Callable[[Review, Any, Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True)
class AdminAction:
    """One thing that can be done."""

    #: As in `permissions.CHECKS`, and in addresses.
    name: str
    #: On the button of a review.
    label: Any
    #: Above the question.
    title: Any
    lead: Any
    #: On the button that does it.
    button: Any
    call: Call
    form: type[DeedForm] | None = None
    is_danger: bool = False
    #: The permission without which it is not even offered in the list.
    permission: str = ""

    @property
    def asks(self) -> bool:
        """Whether there is something to be asked first; for templates, which would call a form's class."""
        return self.form is not None


def _reassign(review: Review, user: Person, given: Mapping[str, Any]) -> str:
    reassign(
        review,
        users=given["users"] or (),
        groups=given.get("groups") or (),
        keep=given["keep"],
        reason=given["reason"],
        actor=user,
        door=DOOR,
    )
    return gettext("Others are asked as well.") if given["keep"] else gettext("Others are asked instead.")


def _extend(review: Review, user: Person, given: Mapping[str, Any]) -> str:
    extend(review, due=given["due"], deadline=given["deadline"], reason=given["reason"], actor=user, door=DOOR)
    return gettext("There is more time.")


def _release(review: Review, user: Person, given: Mapping[str, Any]) -> str:
    release(review, actor=user, door=DOOR)
    return gettext("Others can decide it again.")


def _withdraw(review: Review, user: Person, given: Mapping[str, Any]) -> str:
    withdraw(review, reason=given["reason"], actor=user, door=DOOR)
    return gettext("It was withdrawn.")


def _decide(review: Review, user: Person, given: Mapping[str, Any]) -> str:
    return tell_recorded(_answer(review, user, given, override=False))


def _override(review: Review, user: Person, given: Mapping[str, Any]) -> str:
    return tell_recorded(_answer(review, user, given, override=True))


def _answer(review: Review, user: Person, given: Mapping[str, Any], *, override: bool) -> Any:
    """One of many: without a look at each, which is what `via_bulk` says."""
    door = Door(DOOR, via_bulk=True, saw_diff=False, has_reauthenticated=False)
    return decide(
        review,
        given["outcome"],
        reason=given["reason"],
        version=given["version"],
        override=override,
        actor=user,
        door=door,
    )


def tell_recorded(recorded: Any) -> str:
    """What became of a decision.

    >>> tell_recorded(decide(review, "approve", actor=ann))
    'Decided: “Approve”.'
    """
    outcomes = load_outcomes(recorded.review.outcomes)
    if recorded.state == "open":
        return gettext("Your “%(outcome)s” is recorded; it takes more votes.") % {
            "outcome": label_outcome(recorded.vote.outcome, outcomes)
        }
    return gettext("Decided: “%(outcome)s”.") % {"outcome": label_outcome(recorded.outcome, outcomes)}


DECIDE = AdminAction(
    "decide",
    _("Decide…"),
    _("Decide these requests?"),
    _("Each is decided under your own rights; what is of high risk has to be opened on its own."),
    _("Decide"),
    _decide,
    OutcomeForm,
)
OVERRIDE = AdminAction(
    "override",
    _("Override…"),
    _("Decide in place of those asked?"),
    _("Nobody else is asked any more. That it was you, and why, stays in the history."),
    _("Override"),
    _override,
    OverrideForm,
    is_danger=True,
    permission="override_review",
)
REASSIGN = AdminAction(
    "reassign",
    _("Reassign…"),
    _("Ask others?"),
    _("Whoever is asked from now on is told. Votes that were cast stay."),
    _("Reassign"),
    _reassign,
    ReassignForm,
    permission=ACTION_KINDS["reassign"].permission,
)
EXTEND = AdminAction(
    "extend",
    _("Extend…"),
    _("Give more time?"),
    _("Reminders and escalation keep their own moments."),
    _("Extend"),
    _extend,
    ExtendForm,
    permission=ACTION_KINDS["extend"].permission,
)
WITHDRAW = AdminAction(
    "withdraw",
    _("Withdraw…"),
    _("Withdraw the request?"),
    _("Nobody is asked any more. Where the workflow has no answer for that, it is cancelled."),
    _("Withdraw"),
    _withdraw,
    DeedForm,
    is_danger=True,
)
RELEASE = AdminAction(
    "release",
    _("Release"),
    _("Release these requests?"),
    _("Others can decide them again."),
    _("Release"),
    _release,
)

#: In the order of their buttons.
DEEDS: Mapping[str, AdminAction] = {one.name: one for one in (DECIDE, REASSIGN, EXTEND, RELEASE, WITHDRAW, OVERRIDE)}
