"""A stream as the rows it becomes: what is known of each item before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from workflows.definitions.channel import Channel
from workflows.definitions.item_streams import LINE, ItemStream
from workflows.definitions.question import Question
from workflows.lifecycle import Call, InteractionStatus
from workflows.outbound.traceparent import find_traceparent
from workflows.schemas.field_order import keep_order
from workflows.store import Claim, NewItem, NewUnit
from workflows.uuid7 import make_uuid7, make_uuid7s
from workflows.values.json_text import dump_value, read_back


def prepare_items(
    claim: Claim,
    stream: ItemStream,
    visit: int,
    answered: Mapping[int, tuple[str, str | None, str]],
    call: Call | None,
    position: int | None,
) -> tuple[NewUnit, list[NewItem]]:
    """The unit and its items. An item that was `answered` before keeps its answer, if it is asked the same now."""
    unit = NewUnit(
        id=make_uuid7(),
        step=stream.step,
        visit=visit,
        policy=stream.policy.value,
        concurrency=stream.concurrency,
        timeout=None if isinstance(stream.time, datetime) else stream.time,
        until=stream.time if isinstance(stream.time, datetime) else None,
        channel=stream.channel,
        hooked=stream.is_hooked,
        line_step=None if stream.line is None else stream.line.step,
        line_then=None if stream.line is None else stream.line.then,
        line_room=stream.line_room,
        position=position,
        call=call,
    )
    schemas: dict[int, str] = {}
    items = []
    for index, (id, request) in enumerate(zip(make_uuid7s(len(stream.requests)), stream.requests, strict=True)):
        question = stream.find_question(index)
        kept = answered.get(index)
        if kept is not None and read_back(kept[0]) != read_back(request):
            kept = None
        items.append(_prepare(claim, id, question, index, request, visit, kept, schemas))
    return unit, items


def _prepare(
    claim: Claim,
    id: UUID,
    question: Question,
    index: int,
    request: str,
    visit: int,
    kept: tuple[str, str | None, str] | None,
    schemas: dict[int, str],
) -> NewItem:
    token_key, token_hash = None, None
    if question.token and kept is None:
        from workflows.definitions.callback_tokens import hash_token, make_token

        token, token_key = make_token(id, workspace=claim.workspace, visit=visit)
        token_hash = hash_token(token)
    schema = question.schema
    if schema is not None and id_of(schema) not in schemas:
        schemas[id_of(schema)] = dump_value(keep_order(schema.json), f"the schema of {question.step!r}")
    return NewItem(
        id=id,
        signal_id=question.address(claim.id, index),
        channel=question.channel,
        owned=question.channel == LINE or (question.opener is not None and question.opener.owns_answers),
        request=request,
        schema=None if schema is None else schemas[id_of(schema)],
        schema_type=None if schema is None else schema.type_path,
        projector=question.projector,
        assignee=question.assignee,
        group=question.group,
        correlation_id=question.correlation_id or claim.key,
        token_key=token_key,
        token_hash=token_hash,
        body=question.body,
        config=None if question.opener is None else dump_config(question.opener),
        answered_by=None if kept is None else kept[2],
        output=None if kept is None else kept[1],
    )


def dump_config(channel: Channel) -> str | None:
    """What its channel needs to send a question, with the trace that the asking is part of."""
    if not channel.sends:
        return None
    config = dict(channel.config or {})
    if trace := find_traceparent():
        config["traceparent"] = trace
    return dump_value(config, f"config of the channel {channel.name!r}")


def id_of(value: object) -> int:
    """Told apart by identity: items that are asked alike share one schema object."""
    return id(value)


def describe_item(claim: Claim, unit: NewUnit, item: NewItem, index: int) -> Any:
    """The row as it will be, for a policy to look at."""
    from workflows.models import Interaction

    return Interaction(
        id=item.id,
        unit_id=unit.id,
        instance_id=UUID(claim.id),
        workspace_id=claim.workspace,
        status=InteractionStatus.PENDING,
        item=True,
        index=index,
        owned=item.owned,
        channel=item.channel,
        signal_id=item.signal_id,
        assignee=item.assignee,
        group=item.group,
        correlation_id=item.correlation_id,
        request=read_back(item.request),
        schema=None if item.schema is None else json.loads(item.schema),
    )
