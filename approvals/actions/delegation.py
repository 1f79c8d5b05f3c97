"""Who is asked from now on: delegating one's own share, and reassigning a review.

Lives here: moving shares. Invariants owned: a share is moved and never doubled, however often it is handed on; it
counts where it would have counted for whose it is; and nobody is handed what they could not decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext

from approvals.actions.action_transaction import act, read_words, record
from approvals.asking.approval import list_given
from approvals.exceptions import InvalidApproval, NotAllowed
from approvals.models import Candidate, Review, writer
from approvals.people.lookup import find_group, find_user, refuse_user
from approvals.people.person import Person
from approvals.people.principals import GROUP, load_user, name_person, name_user
from approvals.reviews.case import Case
from approvals.reviews.electorate import find_case_gap
from approvals.rules import Obstacle
from workflows.wording.messages import Listed, Reason, gettext_noop


def delegate(review: Any, *, to: Any, actor: Person, reason: str = "", door: str = "python") -> Review:
    """Hand one's own share on to somebody else, who decides in one's place.

    >>> delegate(review, to=ben, actor=ann).candidates.values_list("principal", flat=True)
    <ReadQuerySet ['user:2']>
    """
    reason = read_words(reason, "reason", "a reason", blank=True)
    with act("delegate", review, actor, door) as case:
        other = _find_colleague(case, to, "to")
        giver = _find_giver(case, actor)
        if other.pk in (actor.pk, giver.pk):
            raise NotAllowed(Obstacle("asked", gettext("It is theirs already: hand it on to somebody else.")))
        _check_taking(case, other)
        _move_share(case, giver, other)
        _let_go(case)
        told = {"to": name_user(other), "reason": reason, "of": name_user(giver) if giver.pk != actor.pk else ""}
        record(case, "delegate", actor, door, told)
        writer.insert_notice(case.review, "new", at=case.now, to=[name_user(other)], data={"by": name_user(actor)})
        return case.review


def reassign(
    review: Any,
    *,
    users: Iterable[Any] = (),
    groups: Iterable[Any] = (),
    actor: Person,
    reason: str = "",
    keep: bool = False,
    door: str = "python",
) -> Review:
    """Ask others instead of those asked so far; with `keep`, as well.

    >>> reassign(review, groups=["legal"], actor=ann).open
    True
    """
    reason = read_words(reason, "reason", "a reason", blank=True)
    named, called = list_given("users", users), list_given("groups", groups)
    if not named and not called:
        reason = Reason(gettext_noop("Name at least one user or group that is asked from now on."))
        raise InvalidApproval(
            "users", users, "name at least one user or group that is asked from now on", reason=reason
        )
    with act("reassign", review, actor, door) as case:
        people = [_find_colleague(case, one, "users") for one in named]
        for one in people:
            _check_taking(case, one)
        asked = [name_user(one) for one in people] + [f"{GROUP}:{find_group(one, 'groups').pk}" for one in called]
        _check_counted(case, asked, keep=keep)
        if not keep:
            writer.remove_candidates(case.review)
        writer.insert_candidates(case.review, asked, added_by=name_user(actor))
        _let_go(case)
        if case.review.stranded_at is not None:
            writer.update_review(case.review, stranded_at=None)
        record(case, "reassign", actor, door, {"to": asked, "kept": keep, "reason": reason})
        writer.insert_notice(case.review, "new", at=case.now, to=asked, data={"by": name_user(actor)})
        return case.review


def _find_colleague(case: Case, given: Any, option: str) -> Any:
    """A user whom somebody names: of who is in other workspaces only it is not told that they exist."""
    found = find_user(given, option)
    if isinstance(given, str) and not case.is_member(found):
        raise refuse_user(given, option)
    return found


def _find_giver(case: Case, actor: Person) -> Any:
    """Whose share it is: one's own, or that of somebody who is away."""
    standing = case.find_standing(actor)
    return load_user(standing.on_behalf_of) if standing.on_absence else actor


def _check_taking(case: Case, user: Person) -> None:
    """Whom nothing can be handed: who could not decide it either."""
    name = name_person(user)
    if not user.is_active:
        raise NotAllowed(Obstacle("not_candidate", gettext("%(name)s can’t log in any more.") % {"name": name}))
    if not case.is_member(user):
        told = gettext("%(name)s is no member of this workspace.") % {"name": name}
        raise NotAllowed(Obstacle("not_candidate", told))
    if case.is_barred(user):
        told = gettext("%(name)s can’t decide this: they asked for it or have decided on it (four eyes).")
        raise NotAllowed(Obstacle("requester", told % {"name": name}))


def _move_share(case: Case, giver: Person, other: Person) -> None:
    mine, name = case.list_answering(giver), name_user(other)
    own = next((one for one in mine if one.principal == name_user(giver)), None)
    is_asked = bool(case.list_answering(other))
    # Both asked as members of something: nothing is the giver's alone that could move.
    if is_asked and (own is None or case.quorum.fixed_votes != 1):
        told = gettext("%(name)s has been asked already, and everybody counts once.") % {"name": name_person(other)}
        raise NotAllowed(Obstacle("asked", told))
    if own is not None:
        writer.remove_candidates(case.review, [own.principal])
    if not is_asked:
        share, owner = _find_share(mine[0] if own is None else own, name_user(giver))
        if owner != name:
            writer.insert_candidates(case.review, [name], added_by=owner, instead_of=share)
        elif share == name:  # handed back to who was asked by name; a group's share comes back by itself
            writer.insert_candidates(case.review, [name])


def _find_share(asked: Candidate, name: str) -> tuple[str, str]:
    """What was asked in the beginning, and whose it was: that is kept, however often it is handed on."""
    return (asked.instead_of, asked.added_by) if asked.instead_of else (asked.principal, name)


def _check_counted(case: Case, asked: list[str], *, keep: bool) -> None:
    """Nobody is asked whose answers would not count, or who would be too few."""
    told: str = find_case_gap(case, asked, keep=keep)
    if not told:
        return
    if not case.quorum.groups:
        raise InvalidApproval("users", asked, told)
    form = gettext_noop(
        "answers count by group here (%(groups)s): add people to these groups, or decide in their place (override)"
    )
    raise InvalidApproval("groups", asked, Reason(form, {"groups": Listed(sorted(case.groups))}))


def _let_go(case: Case) -> None:
    """Whoever had claimed it has not any more."""
    if case.review.claimed_by_id is not None:
        writer.update_review(case.review, claimed_by_id=None, claimed_at=None)
