"""What beside the pump tells people: notices become messages, messages are sent.

Must not live here: whom, what and how. Invariant owned: a round does a bounded amount of each, so that no kind of work
waits for all of another.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

from approvals.notify import delivery_writer
from approvals.notify.digests import send_digests
from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.smtp import Postman
from approvals.notify.sending import send_messages

#: Of each, in one round.
NOTICES, MESSAGES, DIGESTS = 50, 20, 10


def count_seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Until there is something to tell; see `workflows.definitions.sweeps.Sweep`."""
    return delivery_writer.read_seconds_to_next(db)


def work() -> int:
    """Tell some of what is due; how much that was."""
    done = expand_notices(NOTICES)
    with Postman() as postman:
        return done + send_messages(MESSAGES, postman) + send_digests(DIGESTS, postman)
