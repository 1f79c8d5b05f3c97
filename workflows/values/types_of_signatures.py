"""The types that several signatures share. Nothing runs here.

A schema may be a class, and what is returned is then typed by it: `schema=Payment` returns a `Payment`, a Django form
or a DRF serializer the dict that it makes. What a JSON Schema or a dict of field to type describes is known when it
runs only, and typed as Any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from workflows.definitions.channel import Channel
    from workflows.schemas.schema import Schema
    from workflows.styles.function.durable import Durable
    from workflows.styles.machine.machine import Machine
    from workflows.styles.steps import Workflow

#: "24h", "1h30m", seconds, or a timedelta.
Duration: TypeAlias = str | int | float | timedelta

#: How many questions a wait asks, and how many answers it gives. A `Cardinality` is one of these texts.
CardinalityName: TypeAlias = Literal["ONE_TO_ONE", "ONE_TO_MANY", "MANY_TO_ONE", "MANY_TO_MANY"]

#: What one failed or expired item of many does: fail the whole, or be told beside the others.
OnItem: TypeAlias = Literal["fail", "partial"]

#: A schema that is no class: JSON Schema, or field to type.
SchemaValue: TypeAlias = "Mapping[str, Any] | bool | Schema"

#: What authors pass as schema=: a class, whose values they are handed, or a schema that is no class.
SchemaArgument: TypeAlias = "type[Any] | SchemaValue"

#: How each item of a list is asked: a channel for all of them, or a function that makes one of an item.
ItemChannel: TypeAlias = "str | Channel[Any] | Callable[[Any], str | Channel[Any]]"

#: What can be started: a class, a durable function, or a name.
WorkflowRef: TypeAlias = "type[Workflow] | type[Machine] | Durable[..., Any] | str"

#: A function (request, submitted) -> output at the top of a module: what the author gets, made of what somebody sent.
#: What a partner posts to a callback: the answer itself, `{"data": answer}`, or either.
BodyKind: TypeAlias = Literal["any", "raw", "wrapped"]
Projector: TypeAlias = Callable[[Any, Any], Any]


class Validating(Protocol):
    """A class that makes a dict of what it has checked: a Django form, a DRF serializer."""

    def is_valid(self) -> bool:
        """Whether the data is what the class wants."""


#: What a class as a schema returns.
T = TypeVar("T")
#: The answer of a channel; Any of a channel that does not say.
A = TypeVar("A", default=Any)
