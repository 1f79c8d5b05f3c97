"""What an author is handed of a unit whose items may end badly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from workflows.values.json_text import read_back

if TYPE_CHECKING:
    from workflows.lifecycle import InteractionStatus
    from workflows.store import FoundItem, LineItem

ItemStatus: TypeAlias = Literal["completed", "failed", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """How one item ended, under `on_item="partial"`.

    >>> ItemResult("completed", {"paid": True}).ok
    True
    """

    status: ItemStatus
    #: The answer, or what was made of it; None of an item that was not completed.
    output: Any = None
    #: Why it failed.
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.status == "completed"


def read_status(status: InteractionStatus) -> ItemStatus:
    """The end of an item; one that is still pending has none, and is cancelled with its unit."""
    ends: dict[str, ItemStatus] = {"completed": "completed", "failed": "failed", "expired": "expired"}
    return ends.get(status.value, "cancelled")


def cast_answer(one: FoundItem | LineItem) -> Any:
    """The answer to one item, as its own channel or schema types it."""
    from workflows.definitions.channel import Channel, find_channel
    from workflows.schemas.schema import load_schema_text

    value = None if one.output is None else read_back(one.output)
    if one.projector is not None:
        return value
    channel = find_channel(one.channel) if one.channel is not None else Channel
    schema = None if one.schema is None else load_schema_text(one.schema, one.schema_type)
    return channel.read_answer(value, schema)
