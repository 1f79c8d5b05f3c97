"""The JSON that comes in, as types: one class for the body of each operation.

Invariant owned: nothing but what is named here can be written from outside.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel

from workflows.definitions.flow.flow_options import HIGHEST, LOWEST
from workflows.rest.protocol.bodies import AS_WHOLE, SEEN, Body, Json, Key, Name, OnceKey, Shape

Priority = Annotated[int, Field(ge=LOWEST, le=HIGHEST), AS_WHOLE]


class StartBody(Body):
    """What to start."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"workflow": "Ship", "input": {"order": 7}, "key": "order-7"}]}
    )

    workflow: Annotated[str, Field(min_length=1, description="The name of a workflow.")]
    input: Annotated[Any, Field(description="What it is started with; {} if left out.")] = None
    key: Annotated[
        Key | None, Field(description="A correlation key: one live instance of the workspace holds it at a time.")
    ] = None
    queue: Annotated[str | None, Field(min_length=1, description="The queue it waits in; else its workflow's.")] = None
    priority: Annotated[Priority | None, Field(description="The higher comes first; else its workflow's.")] = None


class SignalBody(Body):
    """A signal for an instance that the address names."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "paid", "payload": {"amount": 120}, "dedup_key": "evt_1"}]}
    )

    name: Annotated[Name, Field(description="What the instance waits for, or will.")]
    payload: Json = None
    dedup_key: Annotated[
        Name | None, Field(description="Of signals with the same one, an instance takes the first only.")
    ] = None


class StartPart(Body):
    """What a signal starts first, where no live instance holds its key."""

    workflow: Annotated[str, Field(min_length=1, description="The name of a workflow.")]
    input: Annotated[Any, Field(description="What it is started with; {} if left out.")] = None


class StartingSignalBody(SignalBody):
    """A signal for whoever holds the correlation key in the address, or for a new instance that takes the key."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "paid",
                    "payload": {"amount": 120},
                    "dedup_key": "evt_1",
                    "start": {"workflow": "Ship", "input": {"order": 7}},
                }
            ]
        }
    )

    start: Annotated[
        StartPart | None,
        Field(description="Started first if no live instance holds the key; takes the scope start as well."),
    ] = None


class KeySignalBody(SignalBody):
    """A signal for whoever holds a correlation key."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"key": "order-7", "name": "paid", "payload": {"amount": 120}}]}
    )

    key: Annotated[Key, Field(description="The correlation key of a live instance.")]


class BulkLine(SignalBody):
    """One signal of many: for a `key`, or for an `instance`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "order-7", "name": "paid"}]})

    key: Annotated[Key | None, Field(description="The correlation key of a live instance; or name an instance.")] = None
    instance: Annotated[
        str | None, Field(description="The instance's id; or name a key.", json_schema_extra={"format": "uuid"})
    ] = None


class BulkBody(RootModel[list[BulkLine]], Shape):
    """Many signals."""


class CompleteBody(Body):
    """An answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"data": {"approved": True}}]})

    data: Annotated[Any, Field(description="The answer. null is one; leaving it out is none.")]
    version: Annotated[
        int | None, Field(description="The interaction's version as it was shown: another one is refused with 409.")
    ] = None


class CompleteManyLine(Body):
    """One answer of many: to the question with this `id`, or with this `signal_id`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"signal_id": "approval-7", "data": {"approved": True}}]})

    id: Annotated[
        str | None, Field(description="The question's id; or name a signal id.", json_schema_extra={"format": "uuid"})
    ] = None
    signal_id: Annotated[str | None, Field(description="The question's signal id; or name an id.")] = None
    data: Annotated[Any, Field(description="The answer. null is one; leaving it out is none.")] = None
    version: Annotated[
        int | None, Field(description="The question's version as it was shown: another one is refused with 409.")
    ] = None
    idempotency_key: Annotated[
        OnceKey | None, Field(description="Names this answer: sent again with the same data it is told the same.")
    ] = None


class CompleteManyBody(RootModel[list[CompleteManyLine]], Shape):
    """Many answers."""


class EventBody(Body):
    """A named event."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"event": "order.paid", "data": {"order": 7}, "dedup_key": "evt_1"}]}
    )

    event: Annotated[Name, Field(description="Its name.")]
    data: Json = None
    dedup_key: Annotated[Name | None, Field(description="A second event with the same one does nothing.")] = None


class CancelBody(Body):
    """Why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "customer withdrew"}]})

    reason: Annotated[
        str,
        Field(
            max_length=10_000,
            description="Kept in the ledger and as the error.",
            json_schema_extra={"pattern": rf"^$|{SEEN}"},
        ),
    ] = ""


class RetryBody(Body):
    """Nothing has to be said."""


class ForkBody(Body):
    """Where the new instance goes on."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"at": "pay", "key": "order-7-again"}]})

    at: Annotated[
        str | None,
        Field(description="A call's id in a function, a step or a stage in the other styles; null begins anew."),
    ] = None
    input: Annotated[Any, Field(description="Another input; takes the scope start as well.")] = None
    state: Annotated[Any, Field(description="Another state than it had there; takes the scope start as well.")] = None
    key: Annotated[
        Key | None, Field(description="A correlation key: one live instance of the workspace holds it at a time.")
    ] = None

    def list_values(self) -> dict[str, Any]:
        """What the caller says in place of what was; null is a value."""
        return {name: getattr(self, name) for name in ("input", "state") if name in self.model_fields_set}
