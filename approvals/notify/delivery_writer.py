"""The only writer of deliveries, and of the end of notices.

Lives here: taking, inserting and recording rows. Must not live here: whom to tell, and how. Invariants owned: a notice
goes in the transaction that writes down its messages; a message is claimed by moving its moment ahead, so that one
sender has it and another gets it when that one dies; what was sent stays recorded as sent, whoever else fails at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet

from approvals.models import Delivery, Notice, Review
from approvals.models.writer import rows
from workflows import store
from workflows.api.completions import owned_answers
from workflows.clock import Now, read_now

#: How long a claimed message is left to its sender: longer than any sending may take.
LEASE = timedelta(minutes=3)
#: Rows of one statement.
BATCH = 500
EMAIL = "email"

_NEXT = """
    SELECT extract(epoch FROM least(
      (SELECT min(at) FROM holdpoint_notice),
      (SELECT min(due_at) FROM holdpoint_delivery WHERE due_at IS NOT NULL)
    ) - holdpoint_clock())::float8
"""

#: Two senders that each took a part of one person's collected mail would send two of them.
_ALONE = "SELECT pg_try_advisory_xact_lock(%(key)s)"
_KEY = int.from_bytes(hashlib.sha256(b"holdpoint digests").digest()[:8], "big", signed=True)

_COLLECTED = Q(data__has_key="digest")


def read_seconds_to_next(db: Any) -> float | None:
    """Until there is something to tell: both arms are the head of an index."""
    found: float | None = store.fetch(db, _NEXT, {})[0][0]
    return found


# --- notices ----------------------------------------------------------------------------------------------


def take_notice() -> Notice | None:
    """The oldest that is due and that nobody else is at, locked."""
    return rows(Notice).select_for_update(skip_locked=True).filter(at__lte=Now()).order_by("at").first()


def remove_notice(notice: Notice) -> None:
    """Its messages are written down."""
    rows(Notice).filter(pk=notice.pk).delete()


def put_off_notice(notice: Notice, at: datetime, failures: int) -> None:
    """It could not be told; it is tried again."""
    rows(Notice).filter(pk=notice.pk).update(at=at, data={**read_data(notice), "failures": failures})


def insert_deliveries(made: Sequence[Delivery]) -> None:
    """Messages to be sent."""
    rows(Delivery).bulk_create(made, batch_size=BATCH)


def close_mails(review: Review, at: datetime) -> int:
    """The mails of a review lead to its outcome from now on; also one that is under way at this moment."""
    found = rows(Delivery).filter(review_id=review.pk, channel=EMAIL, closed_at__isnull=True)
    return found.filter(status__in=["waiting", "sent"]).update(closed_at=at)


def close_places(review: Review, channel: str, at: datetime) -> int:
    """A place outside has been told that it is over."""
    found = rows(Delivery).filter(review_id=review.pk, channel=channel, closed_at__isnull=True, status="sent")
    return found.update(closed_at=at)


# --- messages ---------------------------------------------------------------------------------------------


def claim_message() -> Delivery | None:
    """The next message to be sent by itself: from now on this sender's, and counted as a try."""
    with transaction.atomic(using=owned_answers.reach().alias):
        due = rows(Delivery).select_for_update(skip_locked=True).filter(due_at__lte=Now())
        found = due.exclude(_COLLECTED).order_by("due_at").first()
        return None if found is None else _lease([found])[0]


def claim_digest() -> list[Delivery]:
    """All that is due for one person's next collected mail; `data["batch"]` names it, also when it is tried again."""
    alias = owned_answers.reach().alias
    with transaction.atomic(using=alias):
        if not store.fetch(owned_answers.reach(), _ALONE, {"key": _KEY})[0][0]:
            return []
        due = rows(Delivery).filter(_COLLECTED, due_at__lte=Now())
        first = due.order_by("due_at").first()
        if first is None or first.user_id is None:
            return []
        batch = read_data(first).get("batch")
        same = rows(Delivery).filter(_COLLECTED, due_at=first.due_at, user_id=first.user_id)
        same = same.filter(data__batch=batch) if batch else same.exclude(data__has_key="batch")
        found = list(same.select_for_update().order_by("pk"))
        if found and not batch:
            for one in found:
                one.data = {**read_data(one), "batch": str(found[0].pk)}
                rows(Delivery).filter(pk=one.pk).update(data=one.data)
        return _lease(found)


def record_sent(delivery: Delivery, *, external_id: str, address: str) -> None:
    """It went out."""
    rows(Delivery).filter(pk=delivery.pk).exclude(status="sent").update(
        status="sent", sent_at=read_now(), due_at=None, external_id=external_id, address=address, error=""
    )


def record_failure(delivery: Delivery, error: str, *, due_at: datetime | None, address: str = "") -> bool:
    """It did not; it is tried again then, or never. Whether this sender still had it."""
    status = "waiting" if due_at is not None else "failed"
    return _update_own(delivery, status=status, due_at=due_at, error=error, address=address)


def record_dropped(delivery: Delivery, why: str) -> bool:
    """There is nothing to be told any more, or nobody to tell it to."""
    return _update_own(delivery, status="dropped", due_at=None, error=why)


def put_off(delivery: Delivery, due_at: datetime, *, data: Mapping[str, Any] | None = None) -> bool:
    """Not now, and not for a failure of its own: it does not count as a try."""
    more = {} if data is None else {"data": dict(data)}
    return _update_own(delivery, due_at=due_at, attempts=F("attempts") - 1, **more)


def put_off_place(channel: str, until: datetime) -> int:
    """Who has just failed is left alone for a while, so that nobody else waits behind it."""
    return rows(Delivery).filter(channel=channel, due_at__lte=Now()).update(due_at=until)


def send_again(delivery: Delivery) -> None:
    """As if it had not been tried; by itself, and as another message than the one before."""
    kept = {name: value for name, value in read_data(delivery).items() if name not in ("digest", "batch")}
    data = {**kept, "again": int(kept.get("again", 0)) + 1}
    rows(Delivery).filter(pk=delivery.pk).update(status="waiting", due_at=read_now(), attempts=0, error="", data=data)


def lock_delivery(id: Any) -> Delivery | None:
    """The row, locked: after its review."""
    return rows(Delivery).select_for_update(no_key=True).filter(pk=id).first()


def list_messages(review: Review, *, channel: str) -> QuerySet[Delivery]:
    """What was or is to be sent some way about a review; the oldest first."""
    return rows(Delivery).filter(review_id=review.pk, channel=channel).order_by("pk")


def read_data(row: Notice | Delivery) -> dict[str, Any]:
    """What stands beside the columns."""
    return dict(row.data or {})


def _lease(found: list[Delivery]) -> list[Delivery]:
    until = read_now() + LEASE
    rows(Delivery).filter(pk__in=[one.pk for one in found]).update(due_at=until, attempts=F("attempts") + 1)
    for one in found:
        one.due_at, one.attempts = until, one.attempts + 1
    return found


def _update_own(delivery: Delivery, **values: Any) -> bool:
    """Only while nobody else has claimed it since: the number of tries says so."""
    mine = rows(Delivery).filter(pk=delivery.pk, attempts=delivery.attempts, status="waiting")
    return mine.update(**values) > 0
