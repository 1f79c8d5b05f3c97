"""What every site needs once a minute: old rows of several kinds deleted, the ledger counted and sealed.

The sweep of django-q does it, and a thread beside each pump of `workflow_worker`; the work is done by the database.
Invariants owned: any number of them may do it at once (sealing takes a lock that others do not wait for, deleting skips
what others delete), and each part fails alone, so that what cannot be deleted leaves nothing unsealed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.ledger import seal_ledger
from workflows.models import LedgerSeal
from workflows.store.ledger.tallies import tally_ledger

logger = logging.getLogger("workflows")

#: A seal this young was made in this same minute.
FRESH = timedelta(seconds=45)


def tidy(db: BaseDatabaseWrapper, *, sparing: bool = False) -> int:
    """One turn; how many seals it made.

    With `sparing` none where somebody made one in this minute: ten workers need not make ten times the seals.
    """
    store.forget_silent(db)  # a database that refuses even this is away: for the caller to tell, and once
    store.forget_renewals(db)
    _attempt("old events could not be deleted", lambda: store.prune_events(db))
    _attempt("old answers could not be deleted", lambda: store.prune_answers(db))
    _attempt("old receipts of hooks could not be deleted", lambda: store.prune_receipts(db))
    _attempt("old ticks of schedules could not be deleted", lambda: store.prune_ticks(db))
    _attempt("unused buckets could not be deleted", lambda: store.forget_buckets(db))
    _attempt("the ledger could not be counted", lambda: tally_ledger(db))
    return _attempt("the ledger could not be sealed", lambda: 0 if sparing and _is_sealed(db) else seal_ledger(db))


def _attempt(failure: str, work: Callable[[], int]) -> int:
    try:
        return work()
    except Exception:
        logger.exception("%s; the next turn tries again", failure)
        return 0


def _is_sealed(db: BaseDatabaseWrapper) -> bool:
    """Whether the last seal is of this minute. One far ahead is not: a clock may once have been wrong."""
    seals = LedgerSeal.objects.using(db.alias).order_by("-id")
    last = seals.values_list("sealed_at", flat=True).first()
    return last is not None and abs(store.read_clock(db) - last.timestamp()) < FRESH.total_seconds()
