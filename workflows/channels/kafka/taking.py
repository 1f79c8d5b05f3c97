"""Taking what was read from topics of answers: completing what can be completed, and parking the rest.

Must not live here: the broker. Invariants owned:

* Whatever a record holds, it is taken or parked, with its bytes and the reason: one record never keeps others waiting.
* A record that is read again, after a crash between the database's commit and the broker's, changes nothing.
* What is written to a topic answers questions of those workspaces only that `WORKFLOWS["KAFKA"]["ANSWERS"]` names, and
  none that names another topic for its answer.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import InterfaceError, InternalError, OperationalError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.completions.batch_completion import complete_lines
from workflows.api.completions.completion_checks import AddressedAnswer
from workflows.api.completions.failing import fail_at
from workflows.api.refused import count_dropped
from workflows.channels.kafka.envelopes import Malformed, Response, read_response
from workflows.conf import conf
from workflows.conf.kafka_settings import KafkaSettings
from workflows.engine.author_traceback import log_raised
from workflows.exceptions import (
    InteractionResolved,
    TooLarge,
    UnknownWorkspace,
    WorkflowError,
    describe_error,
    to_one_line,
)
from workflows.models import Interaction, ParkedAnswer, Workspace
from workflows.store.ledger.event_sums import REASON_OF

logger = logging.getLogger("workflows")

DOOR = "kafka"
#: Characters of a reason that a row keeps, and of a header.
MOST_DETAIL = 2000
#: Of these in the log.
MOST_TOLD = 500
#: What says that the database is away, or cannot go on just now: a failover, a full disk, a lock that nobody gave.
AWAY = (OperationalError, InterfaceError, InternalError)
#: After so many failures at one record alone it is parked.
MOST_TROUBLES = 3
#: Why, where what was raised is none of the refusals that are known.
UNEXPECTED = "error"


@dataclass
class Received:
    """A record as it was read."""

    topic: str
    partition: int
    offset: int
    sent_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | str | None]] = ()
    #: How often the database failed at this very record, without being away.
    troubles: int = 0

    @property
    def place(self) -> tuple[str, int, int, int]:
        return self.topic, self.partition, self.offset, self.sent_ms

    @property
    def actor(self) -> str:
        """Who is said to have answered: the record itself, by which its second reading is known."""
        return f"kafka:{self.topic}/{self.partition}/{self.offset}"

    @cached_property
    def response(self) -> Response | Malformed:
        """What it says."""
        try:
            return read_response(self.value)
        except Malformed as error:
            return error

    @property
    def interaction(self) -> UUID | None:
        return None if isinstance(self.response, Malformed) else self.response.interaction

    @property
    def origin(self) -> store.ParkedOrigin:
        """What tells whether it came before, and whether its topic may answer."""
        workspace = None if isinstance(self.response, Malformed) else self.response.workspace
        return store.ParkedOrigin(self.place, self.topic, self.actor, self.interaction, workspace)


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a record was not taken."""

    reason: str
    detail: str
    #: Whether somebody has counted it already: refusals of an interaction are counted where they are made.
    counted: bool = False


@dataclass(slots=True)
class Taken:
    """What became of some records."""

    completed: int = 0
    parked: int = 0
    #: Read before: taken or parked then.
    repeated: int = 0

    def __iadd__(self, other: Taken) -> Taken:
        self.completed += other.completed
        self.parked += other.parked
        self.repeated += other.repeated
        return self


def take_answers(records: Sequence[Received], settings: KafkaSettings) -> Taken:
    """Take or park each; when this returns the database has committed it. Only the database's absence is raised."""
    db = connections[router.db_for_write(Interaction)]
    taken = Taken()
    seen, elsewhere = _find_seen(db, records)
    fresh = [one for n, one in enumerate(records) if n not in seen]
    refusals = {id(records[n]): _refuse_topic(records[n], topic) for n, topic in elsewhere.items()}
    refusals |= {id(one): refused for one in fresh if (refused := _judge(one, settings)) is not None}
    refusals |= _complete(db, [one for one in fresh if id(one) not in refusals])
    parked = [(one, refusals[id(one)]) for one in fresh if id(one) in refusals]
    slugs = _find_workspaces([one for one, _ in parked])
    for record, refused in parked:
        _park(db, record, refused, slugs, settings)
    if parked:
        reasons = Counter(refused.reason for _, refused in parked)
        told = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        logger.warning("of %d answers by Kafka %d were parked: %s", len(records), len(parked), told)
    taken.repeated, taken.parked = len(records) - len(fresh), len(parked)
    taken.completed = len(fresh) - len(parked)
    return taken


def take_again(parked: ParkedAnswer) -> Refused | None:
    """Try a parked record once more: None when it was taken now, else why not.

    >>> take_again(ParkedAnswer.objects.get(reason="unknown"))
    """
    settings = conf.kafka
    if settings is None:
        return Refused(UNEXPECTED, 'WORKFLOWS["KAFKA"] is not set', counted=True)
    db = connections[router.db_for_write(ParkedAnswer)]
    value = None if parked.value is None else bytes(parked.value)
    record = Received(parked.topic, parked.partition, parked.offset, parked.sent_ms, None, value)
    refused = _judge(record, settings)
    if refused is None:
        # Parked it was. It may have been taken as well, and the note of that lost.
        seen, elsewhere = store.find_seen(db, [replace(record.origin, place=("", 0, 0, 0))])
        if not seen:
            refused = _refuse_topic(record, elsewhere[0]) if elsewhere else _complete_alone(db, record)
    if refused is None:
        store.mark_taken(db, parked.pk)
    else:
        store.park_again(db, parked.pk, refused.reason, refused.detail)
    return refused


def _judge(record: Received, settings: KafkaSettings) -> Refused | None:
    """What can be told of a record without the database."""
    response = record.response
    if isinstance(response, Malformed):
        return Refused("malformed", _tidy(str(response)))
    if not settings.trusts(record.topic, response.workspace):
        told = f"topic {record.topic!r} may not answer questions of workspace {response.workspace!r}"
        return Refused("foreign", f'{told}; WORKFLOWS["KAFKA"]["ANSWERS"] names those that it may')
    return None


def _refuse_topic(record: Received, topic: str) -> Refused:
    """Of two partners of one workspace neither answers for the other."""
    return Refused("foreign", f"the question is answered by topic {topic!r}, and not by {record.topic!r}")


def _complete(db: BaseDatabaseWrapper, records: Sequence[Received]) -> dict[int, Refused]:
    """Complete what these answer, in batches; the refusals, by the record's identity."""
    by_workspace: dict[str, list[Received]] = {}
    refusals: dict[int, Refused] = {}
    for one in records:
        assert isinstance(one.response, Response)
        if one.response.error is None:
            by_workspace.setdefault(one.response.workspace, []).append(one)
        elif (refused := _complete_alone(db, one)) is not None:
            refusals[id(one)] = refused
    for workspace, ours in by_workspace.items():
        try:
            results = complete_lines([_read_line(one) for one in ours], workspace=workspace, door=DOOR)
        except Exception as error:
            if isinstance(error, AWAY) and not _is_kept(db):
                raise  # the connection is lost, and with it perhaps the answer to what was done
            # Something fails at one of them: each by itself then. What was taken before that is left out.
            seen, _ = _find_seen(db, ours)
            for n, one in enumerate(ours):
                if n not in seen and (refused := _complete_alone(db, one)) is not None:
                    refusals[id(one)] = refused
            continue
        for one, result in zip(ours, results, strict=True):
            if result.error is not None:
                refusals[id(one)] = _describe(one, result.error)
    return refusals


def _complete_alone(db: BaseDatabaseWrapper, record: Received) -> Refused | None:
    response = record.response
    assert isinstance(response, Response)
    try:
        if response.error is not None:
            fail_at(response.interaction, response.error, workspace=response.workspace, door=DOOR, actor=record.actor)
            return None
        [result] = complete_lines([_read_line(record)], workspace=response.workspace, door=DOOR)
    except WorkflowError as error:
        return _describe(record, error)
    except AWAY as error:
        if not _is_kept(db):
            raise
        record.troubles += 1
        if record.troubles < MOST_TROUBLES:
            raise
        return _tell_unexpected(record, error)
    except Exception as error:
        return _tell_unexpected(record, error)
    return None if result.error is None else _describe(record, result.error)


def _read_line(record: Received) -> AddressedAnswer:
    assert isinstance(record.response, Response)
    return AddressedAnswer("id", record.response.interaction, record.response.data, actor=record.actor)


def _describe(record: Received, error: WorkflowError) -> Refused:
    if isinstance(error, UnknownWorkspace):
        return Refused("unknown", _tidy(str(error)))
    if (reason := _find_reason(error)) is not None:
        return Refused(reason, _tidy(str(error)), counted=not isinstance(error, TooLarge))
    return _tell_unexpected(record, error)


def _find_seen(db: BaseDatabaseWrapper, records: Sequence[Received]) -> tuple[set[int], dict[int, str]]:
    return store.find_seen(db, [one.origin for one in records])


def is_there(db: BaseDatabaseWrapper) -> bool:
    """Whether the database answers, on a new connection if the one there was is broken."""
    try:
        if db.connection is not None and not db.in_atomic_block and not db.is_usable():
            db.close()
        store.read_clock(db)
    except AWAY:
        return False
    return True


def _is_kept(db: BaseDatabaseWrapper) -> bool:
    return db.in_atomic_block or (db.connection is not None and db.is_usable())


def _find_reason(error: WorkflowError) -> str | None:
    if isinstance(error, TooLarge):
        return "invalid_data"
    if isinstance(error, InteractionResolved) and error.how == "expired":
        return "expired"
    return next((reason for one in type(error).__mro__ if (reason := REASON_OF.get(one.__name__))), None)


def _tell_unexpected(record: Received, error: Exception) -> Refused:
    log_raised(logger, logging.ERROR, f"{record.actor} could not be taken and is parked", error)
    return Refused(UNEXPECTED, _tidy(describe_error(error)))


def _park(
    db: BaseDatabaseWrapper,
    record: Received,
    refused: Refused,
    workspaces: dict[str, int],
    settings: KafkaSettings,
) -> None:
    response = record.response
    workspace = None
    if isinstance(response, Response) and settings.trusts(record.topic, response.workspace):
        workspace = workspaces.get(response.workspace)
    parked = store.Parked(
        *record.place,
        reason=refused.reason,
        detail=refused.detail,
        key=record.key,
        value=record.value,
        headers=[(_tidy(name), _tidy(_decode(value))) for name, value in record.headers],
        workspace=workspace,
        interaction=record.interaction,
    )
    if store.park_answer(db, parked) and not refused.counted:
        count_dropped(workspace, refused.reason)
    # The record may have written some of it: in the log it is one line.
    logger.debug("%s was parked (%s): %s", record.actor, refused.reason, to_one_line(refused.detail)[:MOST_TOLD])


def _find_workspaces(records: Sequence[Received]) -> dict[str, int]:
    named = {one.response.workspace for one in records if isinstance(one.response, Response)}
    if not named:
        return {}
    return dict(Workspace.objects.filter(slug__in=named).values_list("slug", "pk"))


def _decode(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")


def _tidy(text: str) -> str:
    """What PostgreSQL keeps."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()[:MOST_DETAIL]
