"""Answering for channels that own their answers, such as approvals: every other door refuses, and this is theirs.

Lives here: holding a question, and what may be done to one that is held. Must not live here: who may do it; that is
the channel's. Invariants owned: everything happens under the locks of instance and question, in the caller's
transaction; an answer goes the way of every answer (one statement, one inbox row); and all of it is in the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.conf import conf
from workflows.engine.policy import ask_policy
from workflows.exceptions import InteractionResolved, InvalidData, UnknownInteraction
from workflows.lifecycle import Event, InteractionStatus
from workflows.models import Instance, Interaction
from workflows.schemas.schema import Schema, load_schema_text
from workflows.store import Held
from workflows.units.item_outcomes import answer_item
from workflows.values.json_text import dump_value


def reach() -> BaseDatabaseWrapper:
    """The connection that all of this happens on; the caller's transaction has to be one of it."""
    return connections[router.db_for_write(Instance)]


def hold(interaction: UUID) -> Held:
    """Lock a question for the rest of the transaction; however it stands, also if it was answered.

    >>> with transaction.atomic():
    ...     hold(review.pk).found.status
    <InteractionStatus.PENDING: 'pending'>
    """
    held = store.hold_question(reach(), interaction)
    if held is None:
        raise UnknownInteraction
    return held


def is_open(held: Held) -> bool:
    """Whether it can still be answered."""
    return held.found.status is InteractionStatus.PENDING and not held.found.late


def check_data(held: Held, data: Any) -> None:
    """Raise `InvalidData` where the question's schema refuses it."""
    dump_value(data, "the data", conf.max_body)
    schema = find_schema(held)
    if schema is None:
        if data is not None:
            raise InvalidData({"": ["nothing is asked for here: leave data out"]})
        return
    try:
        schema.check(data)
    except InvalidData as error:
        if data is None:  # nothing was sent, and "must be an object" would say so to nobody
            raise InvalidData({"data": ["is required"]}) from error
        raise


def find_schema(held: Held) -> Schema | None:
    """What an answer's data has to be."""
    text = held.found.schema
    return None if text is None else load_schema_text(text, held.found.schema_type)


def ask_site(held: Held, actor: str) -> None:
    """The project's policy on answering; raises `PolicyRefused`."""
    if conf.policy is not None:
        ask_policy("resume", Interaction.objects.using(reach().alias).get(pk=held.found.id), actor)


def answer(held: Held, output: Any, *, actor: str, door: str, override: str | None = None) -> None:
    """Complete it. Past its deadline it expires instead, which has to be committed: then `InteractionResolved`."""
    text = dump_value(output, "the answer", conf.max_body)
    complete = answer_item if held.found.item else store.complete_interaction
    how = complete(reach(), held.found, text, actor=actor, door=door, override=override)
    if how is not InteractionStatus.COMPLETED:
        raise InteractionResolved("expired" if how is InteractionStatus.EXPIRED else "answered")


def record(held: Held, event: Event, told: Mapping[str, Any], *, actor: str) -> None:
    """One row of the ledger about this question."""
    text = dump_value(_tell(held, told), "a ledger row")
    if held.found.item:
        store.record_item_event(reach(), held.found.id, event, actor=actor, data=text)
        return
    store.record_event(reach(), held.found.instance, event, actor=actor, data=text)


def move_deadline(held: Held, deadline: datetime | None, told: Mapping[str, Any], *, actor: str) -> bool:
    """Let the wait end at another time, or at none; False where the instance does not wait for it yet."""
    text = dump_value(_tell(held, told), "a ledger row")
    return store.move_deadline(reach(), held, deadline, actor=actor, data=text)


def record_refusal(instance: UUID, told: Mapping[str, Any], *, actor: str, item: UUID | None = None) -> None:
    """Somebody was told no: a row of the ledger, in a transaction of its own where the refused one is undone.

    Of the item's own history, where it was about one.
    """
    data = dump_value(dict(told), "a refusal")
    if item is None:
        store.record_refusal(reach(), instance, actor=actor, data=data)
    else:
        store.record_item_event(reach(), item, Event.REFUSED, actor=actor, data=data)


def _tell(held: Held, told: Mapping[str, Any]) -> dict[str, Any]:
    return {"interaction": str(held.found.id), **{name: value for name, value in told.items() if value is not None}}
