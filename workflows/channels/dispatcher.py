"""Sending what is asked: a sweep beside the pump leases what is due, threads send it, and the rows say how it went.

Must not live here: how a channel sends. Invariants owned:

* No transaction is open while something is sent, but for `drain()`, which lives in one.
* A channel that hangs takes its own threads only; the others go on, also with what comes meanwhile.
* A failure is tried again ever later, as often as `DISPATCH_TRIES` says; then the question fails, with the reason.
  Where the transport itself was away, it is no try: it is taken up again every few seconds, until the deadline.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.completions.failing import fail_interactions
from workflows.channels.outgoing import Outgoing, Sent
from workflows.conf import conf
from workflows.definitions.channel import Channel, list_sending
from workflows.definitions.sweeps import may_go_on
from workflows.engine.author_traceback import log_raised
from workflows.exceptions import DispatchFailed, describe_error
from workflows.models import Interaction
from workflows.values import back_off
from workflows.wording.hidden_characters import reveal

logger = logging.getLogger("workflows")

#: A wait that was asked for is up to that much longer, so that what failed together does not come again together.
JITTER = 0.2
#: Seconds until the next look for what came meanwhile, where all that is under way takes its time.
LOOK_WAIT = 0.5
#: Seconds until the next look at a transport that is away, unless it says otherwise.
AWAY_WAIT = 5.0
#: However long the other side asks to be left alone.
MOST_RETRY_AFTER = 6 * 3600.0
#: Characters of a reason that a row keeps.
MOST_REASON = 500

Result = Sent | Exception | None


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Until something is to be sent; see `definitions.sweeps.Sweep`. Where no channel sends, nothing is asked."""
    names = [one.name for one in list_sending()]
    return store.seconds_to_dispatch(db, names) if names else None


def work() -> int:
    """Send what is due; how much was tried."""
    db = connections[router.db_for_write(Interaction)]
    return _Dispatch(db).run()


def find_wait(tries: int, retry_after: float | None) -> float:
    """Seconds until the next try, after so many that failed.

    >>> 1.6 <= find_wait(1, None) <= 2.4
    True
    """
    asked = min(max(retry_after or 0.0, 0.0), MOST_RETRY_AFTER) * random.uniform(1, 1 + JITTER)
    return max(back_off.DISPATCH.find_seconds(tries), asked)


class _Dispatch:
    """One round. What threads have done is recorded on the thread that began them, so that only one writes."""

    def __init__(self, db: BaseDatabaseWrapper) -> None:
        self._db = db
        self._busy: Counter[str] = Counter()
        self._finished: queue.SimpleQueue[tuple[type[Channel], list[Outgoing], list[Result]]] = queue.SimpleQueue()
        #: What is not committed is seen on this connection only.
        self._is_alone = db.in_atomic_block

    def run(self) -> int:
        tried, got_on = 0, True
        while True:
            tried += sum(self._begin(channel) for channel in list_sending()) if may_go_on(anew=got_on) else 0
            if not self._busy.total() and self._finished.empty():
                return tried
            got_on = self._record()

    def _begin(self, channel: type[Channel]) -> int:
        """Hand to threads what is due, as far as there are threads; how many questions."""
        free = channel.threads - self._busy[channel.name]
        if free <= 0:
            return 0
        leased = store.lease_questions(self._db, channel.name, free * channel.batch, channel.lease)
        questions = [_read(one) for one in leased]
        for begin in range(0, len(questions), channel.batch):
            self._busy[channel.name] += 1
            part = questions[begin : begin + channel.batch]
            if self._is_alone:
                self._send(channel, part)
            else:
                name = f"holdpoint-{channel.name}"
                threading.Thread(target=self._send_beside, args=(channel, part), name=name, daemon=True).start()
        return len(questions)

    def _send_beside(self, channel: type[Channel], questions: list[Outgoing]) -> None:
        try:
            self._send(channel, questions)
        finally:
            connections.close_all()  # which an author's code may have opened

    def _send(self, channel: type[Channel], questions: list[Outgoing]) -> None:
        current = [one for one in questions if not one.late]
        results: Sequence[Result]
        try:
            results = channel.dispatch_many(current) if current else []
            if len(results) != len(current):
                told = f"dispatch_many of {channel.name!r} answered {len(results)} times for {len(current)} questions"
                raise TypeError(f"{told}: return one result for each")
        except BaseException as error:  # also SystemExit, which nobody is there for
            results = [error if isinstance(error, Exception) else RuntimeError(repr(error))] * len(current)
        self._finished.put((channel, current, list(results)))

    def _record(self) -> bool:
        """Wait for one, but not for long, and write down all that are there; whether there was any."""
        try:
            finished = [self._finished.get(timeout=LOOK_WAIT)]
        except queue.Empty:
            return False
        while not self._finished.empty():
            finished.append(self._finished.get())
        done: list[store.Tried] = []
        for channel, questions, results in finished:
            self._busy[channel.name] -= 1
            done += [_judge(channel, one, result) for one, result in zip(questions, results, strict=True)]
            _tell_absence(channel, results)
        recorded = store.record_tries(self._db, done)
        unsent = [store.ItemFailure(one.id, one.error or "") for one in done if one.is_final and one.id in recorded]
        if unsent:
            # Not before the try is written down: a crash in between leaves the lease, and one more try when it ends.
            fail_interactions(self._db, unsent)
        return True


def _judge(channel: type[Channel], question: Outgoing, result: Result) -> store.Tried:
    told = result.sent if isinstance(result, DispatchFailed) else result
    about = told if isinstance(told, Sent) else Sent()
    tried = store.Tried(
        question.id,
        question.tries,
        sent=not isinstance(result, Exception),
        logged=channel.keeps_log,
        status=about.status,
        ms=about.ms,
        response=about.response,
    )
    if not isinstance(result, Exception):
        return tried
    if isinstance(result, DispatchFailed) and result.away:
        pause = (result.retry_after or AWAY_WAIT) * random.uniform(1, 1 + JITTER)
        return replace(tried, counts=False, logged=False, delay=pause, error=reveal(str(result))[:MOST_REASON])
    is_known = isinstance(result, DispatchFailed)
    reason = reveal(str(result) if is_known else describe_error(result))[:MOST_REASON]
    delay = None
    if question.tries < conf.dispatch_tries and not (isinstance(result, DispatchFailed) and result.final):
        delay = find_wait(question.tries, result.retry_after if isinstance(result, DispatchFailed) else None)
    again = "not again" if delay is None else f"again in {delay:.0f} s"
    message = f"{question.channel} {question.key} was not sent (try {question.tries}, {again})"
    if is_known:
        logger.warning("%s: %s", message, reason)
    else:  # a mistake in the channel: say where
        log_raised(logger, logging.WARNING, message, result)
    return replace(tried, delay=delay, error=reason)


def _tell_absence(channel: type[Channel], results: Sequence[Result]) -> None:
    """A transport that is away is told of once, and not for each of thousands of questions."""
    away = [one for one in results if isinstance(one, DispatchFailed) and one.away]
    if away:
        logger.warning("%s: %d questions wait for it to come back: %s", channel.name, len(away), away[0])


_NAMES = [one.name for one in fields(Outgoing)]


def _read(leased: store.Leased) -> Outgoing:
    values = {name: getattr(leased, name) for name in _NAMES}
    return Outgoing(**{**values, "config": leased.config or {}})
