"""Queues, limits and workflows as JSON: what comes in, and what goes out.

Lives here: the types of bodies, and rows made of what the calls answer. Must not live here: judging numbers, which is
`api.flow_control`'s. Invariant owned: a member that was left out of a body changes nothing, and null is no such member.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field

from workflows.api.flow_control import LimitStatus, QueueStatus, read_rate
from workflows.definitions.flow.flow_options import PLAIN
from workflows.definitions.flow.limits import (
    LONGEST_PERIOD,
    MOST_SLOTS,
    MOST_TOKENS,
    SHORTEST_PERIOD,
    Concurrency,
    Rate,
)
from workflows.definitions.registry import Definition
from workflows.exceptions import InvalidCall
from workflows.rest.protocol.bodies import AS_WHOLE, Body, Shape, read_whole
from workflows.rest.protocol.response_bodies import ListOut
from workflows.store import MOST_COUNTED, Tokens

_TOKENS: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": MOST_TOKENS}
#: Forms that are all shorter than the longest period.
_TIME: dict[str, Any] = {"type": "string", "pattern": "^([1-9][0-9]{0,3}[sm]|[1-9][0-9]{0,2}h|[1-9][0-9]?d)$"}
_RATE_FORMS: list[dict[str, Any]] = [
    {
        "type": "string",
        "pattern": "^[1-9][0-9]{0,8}/(([1-9][0-9]{0,3})?[sm]|([1-9][0-9]{0,2})?h|([1-9][0-9]?)?d)$",
        "examples": ["100/m", "5/30s"],
    },
    {
        "type": "object",
        "properties": {
            "count": _TOKENS,
            "per": {"anyOf": [_TIME, {"type": "number", "minimum": SHORTEST_PERIOD, "maximum": LONGEST_PERIOD}]},
            "burst": {"anyOf": [_TOKENS, {"type": "null"}]},
        },
        "required": ["count", "per"],
        "additionalProperties": False,
    },
    {"type": "null"},
]


def _want_rate(value: Any) -> Tokens | None:
    if isinstance(value, dict):
        value = {name: one if name == "per" else read_whole(one) for name, one in value.items()}
    try:
        return None if value is None else read_rate(value)
    except InvalidCall as error:
        raise ValueError(str(error)) from error


RateText = Annotated[Any, AfterValidator(_want_rate), Field(json_schema_extra={"anyOf": _RATE_FORMS})]
Slots = Annotated[int, Field(ge=1, le=MOST_SLOTS), AS_WHOLE]


class QueueBody(Body):
    """What is to be another of a queue; what is left out stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limit": 10, "rate": "100/m"}, {"paused": True}]})

    limit: Annotated[
        Slots | None, Field(description="How many steps may run at once, on all workers together; null: as the code.")
    ] = None
    paused: Annotated[bool, Field(description="Whether nothing of it is begun.")] = False
    rate: Annotated[
        RateText, Field(description='How many may begin: "100/m", or count, per, burst; null: as the code.')
    ] = None

    def list_changes(self) -> dict[str, Any]:
        """What was named."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class ConcurrencyBody(Body):
    """How many at once, in place of the code's number."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"limit": 20}]})

    limit: Annotated[Slots | None, Field(description="How many at once; null: as the code.")]


class RateBody(Body):
    """How often, in place of the code's rate."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rate": "100/m"}]})

    rate: Annotated[RateText, Field(description='"100/m", "5/30s", or count, per, burst; null: as the code.')]


class TokensOut(Shape):
    """How often something may begin."""

    model_config = ConfigDict(title="Tokens")

    count: Annotated[int, Field(description="So many in each `per`.")]
    per: Annotated[float, Field(description="Seconds.")]
    burst: Annotated[int, Field(description="At most so many at once.")]


class QueueOut(Shape):
    """A queue of a workspace."""

    model_config = ConfigDict(title="Queue")

    name: Annotated[str, Field(description="Its name.")]
    limit: Annotated[int | None, Field(description="How many steps may run at once; null: any number.")]
    paused: Annotated[bool, Field(description="Whether nothing of it is begun.")]
    rate: Annotated[TokensOut | None, Field(description="How many may begin; null: any number.")]
    default_limit: Annotated[int | None, Field(description="The limit that the code says.")]
    default_rate: Annotated[TokensOut | None, Field(description="The rate that the code says.")]
    running: Annotated[int, Field(description="Steps that run now.")]
    waiting: Annotated[int, Field(description=f"Instances that wait to run; at most {MOST_COUNTED:,} are counted.")]


class QueueList(ListOut):
    """A page of queues."""

    model_config = ConfigDict(title="Queues")

    results: Annotated[list[QueueOut], Field(description="By name.")]


class LimitOut(Shape):
    """A limit that workflows declare, or of one of its keys."""

    model_config = ConfigDict(title="Limit")

    kind: Annotated[Literal["concurrency", "rate"], Field(description="How many at once, or how often.")]
    name: Annotated[str, Field(description="A rate's name, or a concurrency's key or its template.")]
    limit: Annotated[int | None, Field(description="Of a concurrency: how many at once.")]
    rate: Annotated[TokensOut | None, Field(description="Of a rate: how often.")]
    default_limit: Annotated[int | None, Field(description="The limit that the code says.")]
    default_rate: Annotated[TokensOut | None, Field(description="The rate that the code says.")]
    overridden: Annotated[bool, Field(description="Whether somebody has set it.")]


class LimitList(ListOut):
    """A page of limits."""

    model_config = ConfigDict(title="Limits")

    results: Annotated[list[LimitOut], Field(description="By kind and name.")]


class ConcurrencyOut(Shape):
    """A `Concurrency`, as the code has it."""

    model_config = ConfigDict(title="Concurrency")

    key: Annotated[str, Field(description="The key's template, or its function's name.")]
    limit: Annotated[int, Field(description="How many of a key at once.")]
    hold: Annotated[Literal["step", "instance"], Field(description="Held for a step, or from the first to the end.")]


class RateOut(TokensOut):
    """A `Rate`, as the code has it."""

    model_config = ConfigDict(title="Rate")

    name: Annotated[str, Field(description="Its name; workflows may share it.")]
    key: Annotated[str | None, Field(description="The template of its key, if each key has tokens of its own.")]
    weight: Annotated[int, Field(description="What a run takes.")]


class WorkflowOut(Shape):
    """A workflow that this site knows."""

    model_config = ConfigDict(title="Workflow")

    name: Annotated[str, Field(description="Its name.")]
    version: Annotated[int, Field(description="Of its code; a site may know several.")]
    style: Annotated[Literal["steps", "function", "machine"], Field(description="How it is written.")]
    queue: Annotated[str, Field(description="Where its instances wait, unless their starts name another queue.")]
    priority: Annotated[int, Field(description="-100 to 100, the higher first.")]
    concurrency: Annotated[ConcurrencyOut | None, Field(description="How many at once, if that is limited.")]
    rate: Annotated[RateOut | None, Field(description="How often, if that is limited.")]
    fair_by: Annotated[str | None, Field(description="The template of the keys between which turns are taken.")]
    paused: Annotated[bool, Field(description="Whether nothing of it is begun.")]


class WorkflowList(ListOut):
    """A page of workflows."""

    model_config = ConfigDict(title="Workflows")

    results: Annotated[list[WorkflowOut], Field(description="By name and version.")]


class PauseOut(Shape):
    """Whether a workflow is paused."""

    model_config = ConfigDict(title="Pause")

    name: Annotated[str, Field(description="The workflow's.")]
    paused: Annotated[bool, Field(description="Whether nothing of it is begun.")]


def show_queue(queue: QueueStatus) -> Mapping[str, Any]:
    """A queue."""
    return {
        "name": queue.name,
        "limit": queue.limit,
        "paused": queue.paused,
        "rate": show_tokens(queue.rate),
        "default_limit": queue.default_limit,
        "default_rate": show_tokens(queue.default_rate),
        "running": queue.running,
        "waiting": queue.waiting,
    }


def show_limit(limit: LimitStatus) -> Mapping[str, Any]:
    """A limit."""
    return {
        "kind": limit.kind,
        "name": limit.name,
        "limit": limit.limit,
        "rate": show_tokens(limit.rate),
        "default_limit": limit.default_limit,
        "default_rate": show_tokens(limit.default_rate),
        "overridden": limit.overridden,
    }


def show_tokens(rate: Tokens | Rate | None) -> dict[str, Any] | None:
    """How often."""
    return None if rate is None else {"count": rate.count, "per": float(rate.per), "burst": rate.burst}


def show_workflow(definition: Definition, *, paused: bool) -> Mapping[str, Any]:
    """A workflow, with what its code says of flow control."""
    options = definition.flow or PLAIN
    return {
        "name": definition.name,
        "version": definition.version,
        "style": definition.style,
        "queue": options.queue,
        "priority": options.priority,
        "concurrency": None if options.concurrency is None else _show_concurrency(options.concurrency),
        "rate": None if options.rate is None else _show_rate(options.rate),
        "fair_by": None if options.fair_by is None else options.fair_by.text,
        "paused": paused,
    }


def _show_concurrency(limit: Concurrency) -> dict[str, Any]:
    return {"key": limit.key.text, "limit": limit.limit, "hold": limit.hold}


def _show_rate(rate: Rate) -> dict[str, Any]:
    key = None if rate.key is None else rate.key.text
    return {"name": rate.name, **(show_tokens(rate) or {}), "key": key, "weight": rate.weight}
