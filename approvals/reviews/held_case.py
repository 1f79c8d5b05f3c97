"""A review under its locks: what a decision, an action or time works on.

Lives here: taking the locks, and what a case knows more surely under them. Must not live here: changing anything.
Invariant owned: whoever has a `HeldCase` has the locks of instance, interaction and review, taken in this order.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model

from approvals.exceptions import UnknownReview
from approvals.models import Review, writer
from approvals.people.person import Person
from approvals.people.principals import load_user
from approvals.reviews.case import Case
from workflows.api.completions import owned_answers
from workflows.exceptions import InvalidCall, UnknownInteraction, show
from workflows.models import Instance, Interaction
from workflows.schemas.schema import Schema
from workflows.store import Held


class HeldCase(Case):
    """A case whose rows nobody else changes before the transaction ends."""

    def __init__(self, review: Review, held: Held) -> None:
        super().__init__(review)
        self.held = held
        #: The moment of the lock.
        self.now = held.now

    @cached_property
    def schema(self) -> Schema | None:
        """What has to be filled in."""
        return owned_answers.find_schema(self.held)

    @property
    def is_open(self) -> bool:
        """Whether it can still be decided."""
        return bool(self.review.open) and owned_answers.is_open(self.held)

    def find_claimer(self) -> Any:
        """The account that claimed it, as it is now."""
        return load_user(self.review.claimed_by_id)


def open_case(id: UUID) -> HeldCase:
    """Lock instance, interaction and review, in this order."""
    try:
        held = owned_answers.hold(id)
    except UnknownInteraction as error:
        raise UnknownReview(id) from error
    review = writer.lock_review(id)
    if review is None:
        raise UnknownReview(id)
    return HeldCase(review, held)


def check_actor(actor: Person) -> None:
    """That it is a user."""
    if not isinstance(actor, get_user_model()) or actor.pk is None:
        raise InvalidCall(f"actor must be a saved user, not {show(actor)}: people decide, under their own rights")


def read_id(review: Any) -> UUID:
    """The id of a review that is given as a row, its interaction, or an id."""
    if isinstance(review, Review | Interaction):
        id: UUID = review.pk
        return id
    if isinstance(review, UUID):
        return review
    if isinstance(review, Instance):
        raise InvalidCall(
            "an Instance is no review, and may have several: pass Review.objects.get(instance=…, open=True), with "
            "Review from approvals.models; in tests, approvals.testing.decide takes an instance"
        )
    try:
        return UUID(review)
    except (TypeError, ValueError, AttributeError) as error:
        raise UnknownReview(review) from error
