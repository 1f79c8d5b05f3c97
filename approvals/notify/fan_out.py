"""From a notice to messages: one row for each person and place, in the transaction in which the notice goes.

Must not live here: sending. Invariants owned: a notice becomes its messages once, however many are at it; one that
cannot be told is kept and tried again, and holds up no other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import DatabaseError, transaction
from django.utils.translation import gettext

from approvals.conf import conf
from approvals.models import Delivery, Notice, Review
from approvals.notify import delivery_writer
from approvals.notify.failures import describe_error, describe_place
from approvals.notify.messages.webhook import tells
from approvals.notify.preferences import ReaderPreferences, read_readers
from approvals.notify.recipients import Recipient, list_recipients
from approvals.notify.schedule import find_slot
from approvals.reviews.case import Case
from workflows.api.completions import owned_answers
from workflows.clock import read_now

logger = logging.getLogger("approvals")

#: What is collected for those who want that. What is urgent, or about their own doing, is not.
COLLECTED = frozenset({"new", "reminder"})
#: Its end: nothing of a review is told after these.
ENDS = frozenset({"decided", "closed"})
MOST_WAIT = timedelta(hours=1)


def expand_notices(most: int) -> int:
    """Write down the messages of what is due; how many notices that were."""
    done = 0
    while done < most and _expand_next():
        done += 1
    return done


def _expand_next() -> bool:
    alias = owned_answers.reach().alias
    with transaction.atomic(using=alias):
        notice = delivery_writer.take_notice()
        if notice is None:
            return False
        try:
            with transaction.atomic(using=alias):
                _expand(notice)
        except DatabaseError:
            raise  # trouble of the server: the next sweep tries again
        except Exception as error:
            _put_off(notice, error)
        return True


def _expand(notice: Notice) -> None:
    review = Review.objects.using(owned_answers.reach().alias).filter(pk=notice.review_id).first()
    if review is not None:
        now = read_now()
        if notice.kind in ENDS:
            delivery_writer.close_mails(review, now)
        made = [*_write_mails(notice, review, now), *_write_places(notice, review, now)]
        delivery_writer.insert_deliveries(made)
    delivery_writer.remove_notice(notice)


def _write_mails(notice: Notice, review: Review, now: datetime) -> Iterator[Delivery]:
    if not conf.email:
        return
    recipients = list_recipients(notice, Case(review))
    readers = read_readers(one.user for one in recipients)
    for one in recipients:
        yield _write_mail(notice, review, one, readers[one.user.pk], now)


def _write_mail(
    notice: Notice, review: Review, recipient: Recipient, reader: ReaderPreferences, now: datetime
) -> Delivery:
    data = _copy_data(notice)
    if recipient.stands_in_for is not None:
        data["for"] = str(recipient.stands_in_for)
    due_at: datetime | None = now
    why = ""
    if reader.email == "none":
        why = gettext("They want no mail.")
    elif not reader.address:
        why = gettext("They have no e-mail address.")
    elif reader.email != "each" and notice.kind in COLLECTED:
        data["digest"] = reader.email
        due_at = find_slot(reader.email, now, reader.zone, key=recipient.user.pk)
    return Delivery(
        review=review,
        created_at=now,
        due_at=None if why else due_at,
        user_id=recipient.user.pk,
        status="dropped" if why else "waiting",
        error=why,
        kind=notice.kind,
        channel=delivery_writer.EMAIL,
        closed_at=now if notice.kind in ENDS else None,
        data=data,
    )


def _write_places(notice: Notice, review: Review, now: datetime) -> Iterator[Delivery]:
    data = _copy_data(notice)
    if notice.to is not None:
        data["to"] = notice.to
    for name, place in conf.webhooks.items():
        if tells(notice.kind, format=place.get("format", "json"), is_first=notice.to is None):
            yield Delivery(review=review, created_at=now, due_at=now, kind=notice.kind, channel=name, data=data)


def _copy_data(notice: Notice) -> dict[str, Any]:
    return {name: value for name, value in delivery_writer.read_data(notice).items() if name != "failures"}


def _put_off(notice: Notice, error: Exception) -> None:
    failures = int(delivery_writer.read_data(notice).get("failures", 0)) + 1
    wait = min(timedelta(minutes=2 ** min(failures - 1, 6)), MOST_WAIT)
    logger.error(
        "the notice %s (%s of review %s) cannot be told, tried again in %d s: %s\n%s",
        *(notice.pk, notice.kind, notice.review_id, wait.total_seconds(), describe_error(error), describe_place(error)),
    )
    delivery_writer.put_off_notice(notice, read_now() + wait, failures)
