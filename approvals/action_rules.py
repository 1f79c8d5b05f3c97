"""Why can't I? For every action the rule that may forbid it to somebody, with a sentence.

Lives here: the rules of actions beside deciding (`policies.rights` has those). Must not live here: doing anything.
Invariant owned: a page that greys out a button and the action that refuses ask the same rule and give the same
sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from approvals.cases import MAX_ROWS, Case
from approvals.conf import conf
from approvals.decisions import forbid_overriding
from approvals.exceptions import AlreadyDecided, NotAllowed, UnknownReview
from approvals.grace import find_undoable
from approvals.models import Comment, Review
from approvals.policies import Obstacle, find_obstacle
from approvals.principals import name_user
from approvals.settling import read_id
from approvals.show_times import show_when
from workflows import answering

Check = Callable[[Case, Any], "Obstacle | None"]


def explain(review: Any, user: Any) -> dict[str, Obstacle | None]:
    """For every action the rule that forbids it to this person now, or None: why can't I?

    >>> explain(review, ben)["nudge"] is None
    True
    """
    case = review if isinstance(review, Case) else Case(_find(review))
    return {name: check(case, user) for name, check in CHECKS.items()}


def sees(case: Case, user: Any) -> bool:
    """Whether somebody may look at it: what `Review.objects.visible_to` says, of one review and under its locks.

    >>> sees(Case(review), ann)
    True
    """
    if not user.is_active or not case.is_member(user):
        return False
    if _is_requester(case, user) or _has(user, "view_review"):
        return True
    if any(user.pk in (vote.user_id, vote.on_behalf_of_id) for vote in case.all_votes) or _has_part(case, user):
        return True
    return any(case.is_member(one) and _has_part(case, one) for one in case.list_absent(user))


def find_question(case: Case) -> Comment | None:
    """The latest one that has no answer yet."""
    if case.said is not None and len(case.said) <= MAX_ROWS:
        answered = {one.answers_id for one in case.said if one.kind == "answer"}
        return next((one for one in case.said if one.kind == "question" and one.pk not in answered), None)
    said = Comment.objects.using(answering.reach().alias).filter(review_id=case.review.pk)
    questions = said.filter(kind="question").exclude(pk__in=said.filter(kind="answer").values("answers_id"))
    found: Comment | None = questions.order_by("-pk").first()
    return found


def find_next_nudge(review: Review) -> datetime | None:
    """When those asked can be reminded again."""
    return None if review.nudged_at is None else review.nudged_at + conf.nudge_cooldown


def _find(review: Any) -> Review:
    id = read_id(review)
    found: Review | None = Review.objects.using(answering.reach().alias).filter(pk=id).first()
    if found is None:
        raise UnknownReview(id)
    return found


def _forbid_deciding(case: Case, user: Any) -> Obstacle | None:
    facts = case.find_facts(user)
    # Words are looked up for a refusal only.
    return None if find_obstacle(case.terms, facts) is None else find_obstacle(case.rules, facts)


def _forbid_closed(case: Case, *, in_grace: bool = False) -> Obstacle | None:
    """What is decided, or being decided, stays as it is."""
    found = find_obstacle(case.rules, case.state)
    passed = found is None or found.rule not in ("closed", "grace") or (in_grace and found.rule == "grace")
    return None if passed else found


def _forbid_strangers(case: Case, user: Any) -> Obstacle | None:
    """Whoever may look may say something, also afterwards."""
    return None if sees(case, user) else Obstacle("not_candidate", gettext("This is not yours to see."))


def _forbid_releasing(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if (stranger := _forbid_strangers(case, user)) is not None:
        return stranger
    if case.review.claimed_by_id in (None, user.pk) or _may(case, user, "reassign_review"):
        return None
    told = gettext("Only %(by)s, who claimed it, can release it.") % {"by": case.name(case.review.claimed_by_id)}
    return Obstacle("claimed", told)


def _forbid_asking(case: Case, user: Any) -> Obstacle | None:
    if (obstacle := _forbid_deciding(case, user)) is not None:
        return obstacle
    if case.review.requester_id is None:
        return Obstacle("requester", gettext("No person asked for this, so there is nobody to ask."))
    return None


def _forbid_answering(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if not _is_requester(case, user):
        return Obstacle("requester", gettext("Only who asked for this can answer."))
    if find_question(case) is None:
        return Obstacle("no_question", gettext("Nobody has asked anything."))
    return None


def _forbid_snoozing(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    standing = case.find_standing(user)
    if standing.is_candidate or standing.on_absence:
        return None
    return Obstacle("not_candidate", gettext("It is not in your inbox."))


def _forbid_nudging(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if not _is_requester(case, user):
        return Obstacle("requester", gettext("Only who asked for this can remind those asked."))
    until = find_next_nudge(case.review)
    if until is not None and until > case.now:
        told = gettext("They were reminded a moment ago. You can do it again %(when)s.")
        return Obstacle("cooldown", told % {"when": show_when(until, case.now)})
    return None


def _forbid_withdrawing(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case, in_grace=True)) is not None:
        return closed
    if _is_requester(case, user) or _may(case, user, "withdraw_review"):
        return None
    return Obstacle("requester", gettext("Only who asked for this can withdraw it."))


def _forbid_undoing(case: Case, user: Any) -> Obstacle | None:
    try:
        find_undoable(case, user)
    except AlreadyDecided as refused:
        return Obstacle("closed", str(refused))
    except NotAllowed as refused:
        return refused.obstacle
    return None


def _need(permission: str, told: Callable[[], str]) -> Check:
    def check(case: Case, user: Any) -> Obstacle | None:
        if not _has(user, permission):
            return Obstacle("permission", told())
        if not case.is_member(user):
            return Obstacle("permission", gettext("You can’t do this: you are no member of this workspace."))
        return _forbid_closed(case)

    return check


def _has_part(case: Case, user: Any) -> bool:
    """Whether somebody is asked, or has handed it on."""
    name = name_user(user)
    return bool(case.list_answering(user)) or any(one.added_by == name for one in case.candidates)


def _is_requester(case: Case, user: Any) -> bool:
    asked = case.review.requester_id is not None and case.review.requester_id == user.pk
    return asked and bool(user.is_active) and case.is_member(user)


def _may(case: Case, user: Any, permission: str) -> bool:
    return _has(user, permission) and case.is_member(user)


def _has(user: Any, permission: str) -> bool:
    return bool(user.is_active and hasattr(user, "has_perm") and user.has_perm(f"holdpoint_approvals.{permission}"))


CHECKS: Mapping[str, Check] = {
    "decide": _forbid_deciding,
    "claim": _forbid_deciding,
    "release": _forbid_releasing,
    "delegate": _forbid_deciding,
    "comment": _forbid_strangers,
    "request_info": _forbid_asking,
    "answer_info": _forbid_answering,
    "snooze": _forbid_snoozing,
    "nudge": _forbid_nudging,
    "withdraw": _forbid_withdrawing,
    "undo": _forbid_undoing,
    "reassign": _need("reassign_review", lambda: gettext("You can’t reassign: it takes a permission of its own.")),
    "extend": _need("extend_review", lambda: gettext("You can’t move its deadline: it takes a permission of its own.")),
    "override": forbid_overriding,
}
