"""Collected mails: all that waits for one person, once an hour or once a day.

Invariant owned: what is decided, put aside or no longer theirs by then is not in it; if nothing is left, no mail goes.
"""

from __future__ import annotations

import uuid
from functools import partial

from django.contrib.auth import get_user_model
from django.core.mail import EmailMessage
from django.utils.translation import gettext

from approvals.display.values import MAX_NAME, show_text
from approvals.models import Delivery, Review
from approvals.notify import delivery_writer
from approvals.notify.messages.mail import Request, write_digest
from approvals.notify.messages.mail_subjects import tell_due
from approvals.notify.messages.smtp import Postman
from approvals.notify.preferences import ReaderPreferences, speaking_to
from approvals.notify.sending import AFTER_GRACE, find_reader, settle
from approvals.people.principals import name_person
from workflows.api.completions import owned_answers
from workflows.clock import read_now


def send_digests(most: int, postman: Postman) -> int:
    """Send the collected mails that are due; how many that were."""
    done = 0
    while done < most and (deliveries := delivery_writer.claim_digest()):
        settle(deliveries, partial(_send, deliveries, postman))
        done += 1
    return done


def _send(deliveries: list[Delivery], postman: Postman) -> None:
    reader = find_reader(deliveries[0])
    reviews = _find_reviews(deliveries, reader)
    _leave_out([one for one in deliveries if one.review_id not in reviews])
    told = [one for one in deliveries if one.review_id in reviews]
    if not told:
        return
    data = delivery_writer.read_data(told[0])
    with speaking_to(reader):
        requests = _list_requests(list(reviews.values()))
        mail = write_digest(str(data["batch"]), requests, reader, how=str(data["digest"]), now=read_now())
    settle(told, partial(_hand_over, postman, mail, reader))


def _hand_over(postman: Postman, mail: EmailMessage, reader: ReaderPreferences) -> tuple[str, str]:
    postman.send(mail)
    return mail.extra_headers["Message-ID"], reader.address


def _find_reviews(deliveries: list[Delivery], reader: ReaderPreferences) -> dict[uuid.UUID, Review]:
    """What this person may decide now, in the order of their inbox."""
    mine = Review.objects.using(owned_answers.reach().alias).for_user(reader.user)
    return {one.pk: one for one in mine.filter(pk__in={one.review_id for one in deliveries}).by_due()}


def _leave_out(deliveries: list[Delivery]) -> None:
    """What is being decided is looked at again once that is over, by itself; the rest is not told any more."""
    alias = owned_answers.reach().alias
    reviews = Review.objects.using(alias).in_bulk([one.review_id for one in deliveries]) if deliveries else {}
    for one in deliveries:
        review = reviews.get(one.review_id)
        if review is not None and review.open and review.effective_at is not None:
            alone = {
                name: value for name, value in delivery_writer.read_data(one).items() if name not in ("digest", "batch")
            }
            delivery_writer.put_off(one, max(review.effective_at, read_now()) + AFTER_GRACE, data=alone)
        else:
            delivery_writer.record_dropped(one, gettext("By then it no longer waited for them."))


def _list_requests(reviews: list[Review]) -> list[Request]:
    now = read_now()
    keys = {one.requester_id for one in reviews if one.requester_id is not None}
    names = {one.pk: name_person(one) for one in get_user_model()._default_manager.filter(pk__in=keys)}
    return [
        Request(
            review=one,
            requester=show_text(names.get(one.requester_id or 0, ""), MAX_NAME),
            due=tell_due(one.due_at, now),
            is_late=one.due_at is not None and one.due_at < now,
        )
        for one in reviews
    ]
