"""Why can't I? For every action the rule that may forbid it to somebody, with a sentence.

Lives here: the rules of actions (`rights` has those of a decision). Must not live here: doing anything.
Invariants owned: a page that greys out a button and the action that refuses ask the same rule and give the same
sentence; permissions are as old as the case that they were asked of, so under the locks they are of the locked rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from django.utils.translation import gettext

from approvals.conf import conf
from approvals.display.times import show_when
from approvals.exceptions import AlreadyDecided, NotAllowed, UnknownReview
from approvals.models import Comment, Review, Vote
from approvals.people.person import Person
from approvals.people.principals import name_user
from approvals.reviews.case import MAX_ROWS, Case
from approvals.reviews.held_case import read_id
from approvals.rules import Facts, Obstacle, Rules, find_obstacle
from approvals.rules.action_kinds import ACTION_KINDS
from workflows.api.completions import owned_answers


class Permissions:
    """What one person may do about one review, as its case stands; every fact about them is looked up once.

    >>> Permissions(Case(review), ann).find_obstacle("decide") is None
    True
    """

    def __init__(self, case: Case, user: Person) -> None:
        self.case, self.user = case, user

    def find_obstacle(self, action: str) -> Obstacle | None:
        """The rule that forbids this action to the person, or None."""
        return CHECKS[action](self)

    def list_obstacles(self) -> dict[str, Obstacle | None]:
        """For every action the rule that forbids it, or None."""
        first = self.deciding  # asks first whether it is closed, as `closed` does
        self.closed = first if first is not None and first.rule in ("closed", "grace") else None
        return {action: check(self) for action, check in CHECKS.items()}

    @cached_property
    def facts(self) -> Facts:
        """How the person stands to the review."""
        return self.case.find_facts(self.user)

    @cached_property
    def deciding(self) -> Obstacle | None:
        """Why they may not decide."""
        return find_obstacle(self.case.rules, self.facts)

    @cached_property
    def closed(self) -> Obstacle | None:
        """What is decided, or being decided, stays as it is."""
        state = self.case.state
        return find_obstacle(self.case.rules, state) if state.in_grace or not state.is_open else None

    @cached_property
    def overriding(self) -> Obstacle | None:
        """Why they may not decide in place of those asked."""
        if not self.has("override_review"):
            return Obstacle("permission", gettext("You can’t override: it takes a permission of its own."))
        if not self.is_member:
            return Obstacle("permission", gettext("You can’t override: you are no member of this workspace."))
        return find_obstacle(never_own(self.case.rules), stand_above(self.facts))

    @property
    def is_member(self) -> bool:
        """Whether the workspace is theirs."""
        return self.case.is_member(self.user)

    @cached_property
    def is_requester(self) -> bool:
        """Whether they asked for it, and may still log in."""
        asked = self.case.review.requester_id is not None and self.case.review.requester_id == self.user.pk
        return asked and bool(self.user.is_active) and self.is_member

    def has(self, permission: str) -> bool:
        """Whether they have a permission of approvals."""
        user = self.user
        return bool(user.is_active and hasattr(user, "has_perm") and user.has_perm(f"holdpoint_approvals.{permission}"))

    @cached_property
    def sees(self) -> bool:
        """Whether they may look at it."""
        case, user = self.case, self.user
        if not user.is_active or not self.is_member:
            return False
        if self.is_requester or self.has("view_review"):
            return True
        if any(user.pk in (vote.user_id, vote.on_behalf_of_id) for vote in case.all_votes) or _has_part(case, user):
            return True
        return any(case.is_member(one) and _has_part(case, one) for one in case.list_absent(user))


def explain(review: Any, user: Person) -> dict[str, Obstacle | None]:
    """For every action the rule that forbids it to this person now, or None: why can't I?

    >>> explain(review, ben)["nudge"] is None
    True
    """
    return Permissions(review if isinstance(review, Case) else Case(_find(review)), user).list_obstacles()


def sees(case: Case, user: Person) -> bool:
    """Whether somebody may look at it: what `Review.objects.visible_to` says, of one review and under its locks.

    >>> sees(Case(review), ann)
    True
    """
    return Permissions(case, user).sees


def find_question(case: Case) -> Comment | None:
    """The latest one that has no answer yet."""
    if case.said is not None and len(case.said) <= MAX_ROWS:
        answered = {one.answers_id for one in case.said if one.kind == "answer"}
        return next((one for one in case.said if one.kind == "question" and one.pk not in answered), None)
    said = Comment.objects.using(owned_answers.reach().alias).filter(review_id=case.review.pk)
    questions = said.filter(kind="question").exclude(pk__in=said.filter(kind="answer").values("answers_id"))
    found: Comment | None = questions.order_by("-pk").first()
    return found


def find_next_nudge(review: Review) -> datetime | None:
    """When those asked can be reminded again."""
    return None if review.nudged_at is None else review.nudged_at + conf.nudge_cooldown


def find_undoable(case: Case, user: Person) -> Vote:
    """The vote that this person may take back now; the error that says why not."""
    review, vote = case.review, case.find_vote(user)
    if not case.is_open or (review.effective_at is not None and review.effective_at <= case.now):
        raise AlreadyDecided(case.decided.by, review.decided_at, review.outcome)
    is_theirs = user.is_active and case.is_member(user)
    if vote is None or not is_theirs or (review.effective_at is not None and review.decided_by_id != vote.user_id):
        raise NotAllowed(Obstacle("voted", gettext("You have decided nothing here that could be undone.")))
    return vote


def stand_above(facts: Facts) -> Facts:
    """Whoever overrides need not be asked, and neither a claim nor a vote is in their way."""
    return replace(facts, is_candidate=True, voted_before=False, claimed_by_other=False)


def never_own(rules: Rules) -> Rules:
    """Four eyes hold for whoever overrides, also where the author does without."""
    return replace(rules, four_eyes=True)


def _find(review: Any) -> Review:
    id = read_id(review)
    found: Review | None = Review.objects.using(owned_answers.reach().alias).filter(pk=id).first()
    if found is None:
        raise UnknownReview(id)
    return found


def _forbid_strangers(may: Permissions) -> Obstacle | None:
    """Whoever may look may say something, also afterwards."""
    return None if may.sees else Obstacle("not_candidate", gettext("This is not yours to see."))


def _forbid_releasing(may: Permissions) -> Obstacle | None:
    if may.closed is not None:
        return may.closed
    if (stranger := _forbid_strangers(may)) is not None:
        return stranger
    claimed_by = may.case.review.claimed_by_id
    if claimed_by in (None, may.user.pk) or (may.has("reassign_review") and may.is_member):
        return None
    told = gettext("Only %(by)s, who claimed it, can release it.") % {"by": may.case.name(claimed_by)}
    return Obstacle("claimed", told)


def _forbid_asking(may: Permissions) -> Obstacle | None:
    if may.deciding is not None:
        return may.deciding
    if may.case.review.requester_id is None:
        return Obstacle("requester", gettext("No person asked for this, so there is nobody to ask."))
    return None


def _forbid_answering(may: Permissions) -> Obstacle | None:
    if may.closed is not None:
        return may.closed
    if not may.is_requester:
        return Obstacle("requester", gettext("Only who asked for this can answer."))
    if find_question(may.case) is None:
        return Obstacle("no_question", gettext("Nobody has asked anything."))
    return None


def _forbid_snoozing(may: Permissions) -> Obstacle | None:
    if may.closed is not None:
        return may.closed
    standing = may.case.find_standing(may.user)
    if standing.is_candidate or standing.on_absence:
        return None
    return Obstacle("not_candidate", gettext("It is not in your inbox."))


def _forbid_nudging(may: Permissions) -> Obstacle | None:
    if may.closed is not None:
        return may.closed
    if not may.is_requester:
        return Obstacle("requester", gettext("Only who asked for this can remind those asked."))
    until = find_next_nudge(may.case.review)
    if until is not None and until > may.case.now:
        told = gettext("They were reminded a moment ago. You can do it again %(when)s.")
        return Obstacle("cooldown", told % {"when": show_when(until, may.case.now)})
    return None


def _forbid_withdrawing(may: Permissions) -> Obstacle | None:
    if may.closed is not None and may.closed.rule != "grace":
        return may.closed
    if may.is_requester or (may.has("withdraw_review") and may.is_member):
        return None
    return Obstacle("requester", gettext("Only who asked for this can withdraw it."))


def _forbid_undoing(may: Permissions) -> Obstacle | None:
    try:
        find_undoable(may.case, may.user)
    except AlreadyDecided as refused:
        return Obstacle("closed", str(refused))
    except NotAllowed as refused:
        return refused.obstacle
    return None


def _need(action: str, told: Callable[[], str]) -> Rule:
    permission = ACTION_KINDS[action].permission

    def check(may: Permissions) -> Obstacle | None:
        if not may.has(permission):
            return Obstacle("permission", told())
        if not may.is_member:
            return Obstacle("permission", gettext("You can’t do this: you are no member of this workspace."))
        return may.closed

    return check


def _has_part(case: Case, user: Person) -> bool:
    """Whether somebody is asked, or has handed it on."""
    name = name_user(user)
    return bool(case.list_answering(user)) or any(one.added_by == name for one in case.candidates)


Rule = Callable[[Permissions], "Obstacle | None"]

#: By action.
CHECKS: Mapping[str, Rule] = {
    "decide": lambda may: may.deciding,
    "claim": lambda may: may.deciding,
    "release": _forbid_releasing,
    "delegate": lambda may: may.deciding,
    "comment": _forbid_strangers,
    "request_info": _forbid_asking,
    "answer_info": _forbid_answering,
    "snooze": _forbid_snoozing,
    "nudge": _forbid_nudging,
    "withdraw": _forbid_withdrawing,
    "undo": _forbid_undoing,
    "reassign": _need("reassign", lambda: gettext("You can’t reassign: it takes a permission of its own.")),
    "extend": _need("extend", lambda: gettext("You can’t move its deadline: it takes a permission of its own.")),
    "override": lambda may: may.overriding,
}
