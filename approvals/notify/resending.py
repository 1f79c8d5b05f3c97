"""Sending a message once more, because somebody says so.

Invariant owned: it takes a permission of its own, and is in the ledger like everything that is done about a review.
"""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext

from approvals.exceptions import NotAllowed, UnknownReview
from approvals.models import Delivery
from approvals.notify import delivery_writer
from approvals.people.person import Person
from approvals.reviews.held_case import check_actor, open_case
from approvals.rules import Obstacle
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers
from workflows.lifecycle import Event

PERMISSION = "holdpoint_approvals.resend_delivery"


def resend(delivery: Delivery, *, actor: Person, door: str = "python") -> Delivery:
    """Let it be sent again now, with all its tries before it; what is over by then is dropped as ever.

    >>> resend(delivery, actor=ann).status
    'waiting'
    """
    check_actor(actor)
    if not (actor.is_active and hasattr(actor, "has_perm") and actor.has_perm(PERMISSION)):
        raise NotAllowed(
            Obstacle("permission", gettext("You can’t send this again: it takes a permission of its own."))
        )
    with transaction.atomic(using=owned_answers.reach().alias):
        case = open_case(delivery.review_id)
        if not case.is_member(actor):
            raise UnknownReview(delivery.review_id)
        found = delivery_writer.lock_delivery(delivery.pk)
        if found is None:
            raise UnknownReview(delivery.review_id)
        delivery_writer.send_again(found)
        told = {"what": "resent", "door": door, "delivery": str(found.pk), "channel": found.channel}
        owned_answers.record(case.held, Event.HANDLED, told, actor=read_actor(actor))
        found.refresh_from_db()
        return found
