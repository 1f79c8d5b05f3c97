"""The checks of an answer, in their order.

Lives here: whether an answer may be written, and what of it. Must not live here: finding the question, and writing.
Invariants owned: the order of the checks is the same at every door, and a refused completion changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.idempotency import check_told, may_hear
from workflows.api.refused import Refusal, count_dropped, count_refusal, record_later
from workflows.conf import conf
from workflows.definitions.channel import Channel, find_channel, find_door
from workflows.definitions.question import find_projector
from workflows.engine.policy import ask_policy
from workflows.exceptions import (
    AnswerElsewhere,
    IdempotencyConflict,
    InteractionRefused,
    InteractionResolved,
    InvalidData,
    PolicyRefused,
    ProjectionFailed,
    StaleVersion,
    TooLarge,
    UnknownInteraction,
    WorkflowError,
)
from workflows.lifecycle import Cardinality, Event, InteractionStatus
from workflows.models import Interaction
from workflows.schemas.schema import load_schema_text
from workflows.store import Addressed, AnswerTarget, Once
from workflows.values.json_text import MISSING, dump_value, read_back

By: TypeAlias = Literal["id", "signal_id"]

#: Those that take a list of answers at once.
LISTS = frozenset({Cardinality.ONE_TO_MANY, Cardinality.MANY_TO_MANY})

#: Which doors a label lets answer; a label that is not listed here restricts nothing but the resume URL.
DOORS = {"resume": frozenset({"callback", "webhook"}), "kafka": frozenset({"kafka"})}


@dataclass(frozen=True, slots=True)
class Completion:
    """What became of an answer."""

    id: UUID
    signal_id: str
    instance: UUID
    #: The same call came before, and this is what it was told.
    replayed: bool = False


@dataclass(slots=True)
class AddressedAnswer:
    """One answer on its way: to which question, and under what conditions."""

    by: By
    value: UUID | str
    data: Any
    once: Once | None = None
    version: int | None = None
    #: Raised unless the question takes a list of answers.
    too_large: WorkflowError | None = None
    #: The data as JSON, once it has been measured.
    text: str | None = None
    #: Who answers, where that is not one for all.
    actor: str | None = None

    def measure(self, limit: int) -> None:
        """Write the data as JSON. What is larger than one answer may be is judged when the question is known."""
        if self.data is not MISSING:
            try:
                self.text = dump_value(self.data, "the data", limit)
            except TooLarge as error:
                self.too_large = self.too_large or error


@dataclass(slots=True)  # not frozen, which makes thousands of them slow to fill
class Ready:
    """An answer that passed every check: to be written, unless somebody comes first."""

    found: Addressed
    output: str | None
    told: Completion


def judge(
    db: BaseDatabaseWrapper,
    line: AddressedAnswer,
    target: AnswerTarget,
    *,
    workspace: str | int,
    door: str | None,
    actor: str,
    workflows: Sequence[str] | None,
    policy: bool = True,
) -> Ready | Completion:
    """All checks in their order; raises what refuses the answer. A `Completion` is what was told the first time.

    Without `policy` it is known that the project has none.
    """
    before, found = target
    if before is not None and line.once is not None:
        if not may_hear(before, workflows):
            # With the same key for another workflow's. Where it means nothing of theirs, it is not there.
            raise UnknownInteraction if found is None else IdempotencyConflict(line.once.key)
        try:
            check_told(line.once, before)
        except IdempotencyConflict as refused:
            if found is not None:
                record_refused(db, found, actor, door, refused)
            raise
        return read_completion(before.body)
    if line.too_large is not None and not takes_list(found):
        # As early as if only one answer could be meant, so that what is not there is told alike.
        count_dropped(workspace if isinstance(workspace, int) else None, "malformed")
        raise line.too_large
    if line.text is None and line.data is not MISSING:
        line.text = dump_value(line.data, "the data", conf.max_bulk_body)
    if found is None:
        count_dropped(workspace if isinstance(workspace, int) else None, "unknown")
        raise UnknownInteraction
    if found.status is InteractionStatus.CANCELLED:
        # Outside it has to cost what nothing costs, or the time it takes would tell one from the other.
        record_refused(db, found, actor, door, UnknownInteraction(), later=door is not None)
        raise UnknownInteraction
    data = line.data
    if door is None and line.text is not None and _looks_into(found):
        data = read_back(line.text)  # a date is judged as the text that is kept of it, at every door alike
    try:
        _check(db, found, data, door, actor, line.version, policy=policy)
        output = line.text if found.projector is None or found.late else _project(found, data)
    except (InteractionRefused, InvalidData) as refused:
        record_refused(db, found, actor, door, refused)
        raise
    return Ready(found, output, Completion(found.id, found.signal_id, found.instance))


def drop_late(db: BaseDatabaseWrapper, found: Addressed, actor: str, door: str | None) -> InteractionResolved:
    """The error of an answer that came too late; the expiry of an item tells of no answer, so that has a row too."""
    refused = InteractionResolved("expired")
    if found.item:
        if actor:
            record_refused(db, found, actor, door, refused)
        else:
            count_dropped(found.workspace, "expired")
    return refused


def write_completion(done: Completion) -> str:
    """What a caller outside is told, the same however often it asks."""
    told = {"id": str(done.id), "signal_id": done.signal_id, "instance": str(done.instance), "status": "completed"}
    return json.dumps(told)


def read_completion(text: str) -> Completion:
    """What was told the first time."""
    told = json.loads(text)
    return Completion(UUID(told["id"]), told["signal_id"], UUID(told["instance"]), replayed=True)


def _looks_into(found: Addressed) -> bool:
    """Whether anything of the question depends on what the data says."""
    return found.schema is not None or found.projector is not None or found.cardinality in LISTS


def takes_list(found: Addressed | None) -> bool:
    return found is not None and found.status is not InteractionStatus.CANCELLED and found.cardinality in LISTS


def _check(
    db: BaseDatabaseWrapper,
    found: Addressed,
    data: Any,
    door: str | None,
    actor: str,
    version: int | None,
    *,
    policy: bool,
) -> None:
    check_access(db, found, door, actor, version, policy=policy)
    if found.late:
        return  # the statement makes it the expiry that is overdue
    if data is MISSING:
        raise InvalidData({"data": ["is required"]})
    if found.cardinality in LISTS:
        if not isinstance(data, list):
            raise InvalidData({"": ["must be a list: this interaction takes several answers at once"]})
        if len(data) > (most := conf.most_outputs):
            raise InvalidData({"": [f"has {len(data)} items, the limit is {most}"]})
    if found.schema is not None:
        load_schema_text(found.schema, found.schema_type).check(data)


def check_access(
    db: BaseDatabaseWrapper, found: Addressed, door: str | None, actor: str, version: int | None, *, policy: bool = True
) -> None:
    """Whether it may be ended at this door, and still can be."""
    if policy and conf.policy is not None:
        ask_policy("resume", Interaction.objects.using(db.alias).get(pk=found.id), actor)
    if version is not None and version != found.version:
        raise StaleVersion(version, found.version)
    if found.owned:
        raise AnswerElsewhere(found.channel, find_door(found.channel))
    if door in DOORS and found.channel not in DOORS[door] and not _takes_from(find_channel(found.channel), door):
        raise AnswerElsewhere(found.channel, "by another door")
    if found.status is not InteractionStatus.PENDING:
        raise InteractionResolved(found.status.value)


def _takes_from(channel: type[Channel], door: str) -> bool:
    return door in channel.doors or (door == "resume" and channel.resumes)


def _project(found: Addressed, data: Any) -> str:
    """What the author is handed: made of what was asked and what was sent, before anything is written."""
    assert found.projector is not None
    request = None if found.request is None else json.loads(found.request)
    try:
        return dump_value(find_projector(found.projector)(request, data), "the projector's output")
    except Exception as error:
        raise ProjectionFailed(found.projector, error) from error


def record_refused(
    db: BaseDatabaseWrapper, found: Addressed, actor: str, door: str | None, refused: Exception, *, later: bool = False
) -> None:
    """A refusal to somebody who has a name is a row of the ledger; a stranger with a bad token is not."""
    if not actor and not isinstance(refused, PolicyRefused):
        count_refusal(found.workspace, refused)
        return
    text = {
        "interaction": str(found.id),
        "refused": type(refused).__name__,
        "door": door,
        "reason": str(refused)[:1000],
    }
    data = dump_value(text, "a refusal")
    if later:
        record_later(Refusal(found.workspace, found.instance, actor, data))
    elif found.item:
        store.record_item_event(db, found.id, Event.REFUSED, actor=actor, data=data)
    else:
        store.record_refusal(db, found.instance, actor=actor, data=data)
