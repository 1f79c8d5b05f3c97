"""Named events that a wait is for.

Lives here: reading the arguments of `event(…)`. Must not live here: emitting one. Invariant owned: the field names of a
match fit into the index that finds who waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workflows.definitions.channel import read_label
from workflows.exceptions import InvalidCall, show
from workflows.values.json_text import check_signal_name, check_text, dump_value

if TYPE_CHECKING:
    from workflows.schemas.schema import Schema
    from workflows.values.types_of_signatures import SchemaArgument

#: Before the id of a wait: the name under which its event arrives.
EVENT = "holdpoint:event:"

#: Bytes of field names in one match.
MATCH_NAMES = 1000


@dataclass(frozen=True, slots=True)
class EventSpec:
    """A named event that somebody waits for, and what must be in it."""

    name: str
    match: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None
    #: A label that says by which door the event has to come; None takes it from all.
    channel: str | None = None


def event(
    name: str,
    match: Mapping[str, Any] | None = None,
    schema: SchemaArgument | None = None,
    *,
    channel: str | None = None,
) -> EventSpec:
    """An event to await: `match` names fields of its data and the values they must have.

    With `channel`, a label, an event of a door of the outside is taken only if that door is called so.

    >>> event("order.paid", {"order": 7}).match
    {'order': 7}
    """
    from workflows.schemas.schema import read_schema

    check_signal_name(name, "an event's name")
    if match is not None and not isinstance(match, Mapping):
        raise InvalidCall(f"match of event {name!r} must be a mapping of field to value, not {show(match)}")
    wanted = {check_text(key, "a field in match="): value for key, value in (match or {}).items()}
    dump_value(wanted, f"match of event {name!r}")
    if sum(len(key.encode()) + 4 for key in wanted) > MATCH_NAMES:  # they are part of an index entry
        raise InvalidCall(f"match of event {name!r} names too much: {MATCH_NAMES} bytes of field names at most")
    return EventSpec(name, wanted, read_schema(schema), None if channel is None else read_label(channel))
