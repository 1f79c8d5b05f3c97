"""Deciding in an ordinary `django_db` test: no page, no mail, no waiting.

    refund = workflows.start("Refund", {"order": 7}, actor=ben)
    drain()
    assert_asked(refund, ann)
    decide(refund, "approve", actor=ann)
    drain()
    assert_done(refund)

Lives here: finding the review that a test means. Invariant owned: a test decides by the same `decide()` as every other
door, with the same rules; nothing here helps anybody past one. What follows a decision is done by
`workflows.testing.drain()`, as in every test of a workflow.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q

from approvals.deciding import decisions
from approvals.deciding.decisions import Recorded
from approvals.models import Review
from approvals.people.person import Person
from approvals.people.principals import name_person
from approvals.reviews.permissions import explain
from approvals.rules.door import Door
from workflows.api.completions import owned_answers
from workflows.exceptions import InvalidCall, show
from workflows.models import Instance, Interaction

TEST = Door(name="test")


def decide(
    target: Instance | Review | Interaction | UUID,
    outcome: str,
    *,
    actor: Person,
    reason: str = "",
    data: Any = None,
    grace: bool = False,
) -> Recorded:
    """Decide as this user: the one open review of an instance, or the review that is given.

    >>> decide(refund, "approve", actor=ann).state
    'decided'
    """
    review = _find(target)
    return decisions.decide(review, outcome, actor=actor, reason=reason, data=data, grace=grace, door=TEST)


def pending(target: Instance | UUID | None = None) -> list[Review]:
    """The reviews that wait for a decision, the oldest first; of one instance, or all there are.

    Those that the branches of a machine ask for, and the lines of its items, are its own.

    >>> [review.title for review in pending(refund)]
    ['Refund €1,240.00 to Acme GmbH']
    """
    rows = Review.objects.using(owned_answers.reach().alias).pending()
    if target is not None:
        id = _read_instance(target)
        rows = rows.filter(Q(instance_id=id) | Q(instance__parent_id=id, instance__unit__isnull=False))
    return list(rows.order_by("pk"))


def assert_asked(target: Instance | Review | Interaction | UUID, *users: Any) -> Review:
    """It waits for one decision, and each of these users may make it now; the message says why somebody may not.

    >>> assert_asked(refund, ann).title
    'Refund €1,240.00 to Acme GmbH'
    """
    review = _find(target)
    assert review.open, f"{review.title!r} no longer waits for a decision{_tell_outcome(review)}"
    for user in users:
        obstacle = explain(review, user)["decide"]
        told = "" if obstacle is None else obstacle.message
        assert obstacle is None, f"{name_person(user)!r} may not decide {review.title!r}: {told}"
    return review


def _find(target: Any) -> Review:
    """The review as it is now."""
    if not isinstance(target, Instance):
        id = target if isinstance(target, UUID) else getattr(target, "pk", None)
        review: Review | None = Review.objects.using(owned_answers.reach().alias).filter(pk=id).first()
        if review is not None:
            return review
        assert not isinstance(target, Interaction), f"{target!r} is a question of its own kind, not an approval"
    waiting = pending(target)
    assert waiting, _tell_none(_read_instance(target))
    listed = ", ".join(f"{one.title!r} ({one.pk})" for one in waiting)
    assert len(waiting) == 1, f"{_load(target)!r} has {len(waiting)} open reviews, say which one: {listed}"
    return waiting[0]


def _tell_none(id: UUID) -> str:
    instance = _load(id)
    told = f"{instance!r} asks nobody now; it is {instance.status} in step {instance.step!r}"
    told += f" with {instance.error!r}" if instance.error else ""
    last = Review.objects.using(owned_answers.reach().alias).filter(instance_id=id).order_by("-pk").first()
    if last is not None:
        return f"{told}. Its last review was {last.title!r}{_tell_outcome(last)}"
    return f"{told}. Call drain() first, which runs its steps up to the question" if not instance.ended else told


def _tell_outcome(review: Review) -> str:
    if review.open:
        return ""
    return f", answered {review.outcome!r}" if review.outcome else ", which was closed without a decision"


def _load(target: Any) -> Instance:
    rows = Instance.objects.using(owned_answers.reach().alias)
    found: Instance | None = rows.filter(pk=_read_instance(target)).first()
    assert found is not None, f"there is no instance and no review {show(str(target))}"
    return found


def _read_instance(target: Any) -> UUID:
    if isinstance(target, Instance):
        id: UUID = target.pk
        return id
    if isinstance(target, UUID):
        return target
    raise InvalidCall(f"say which one by an Instance, a Review or an id (UUID), not {show(target)}")
