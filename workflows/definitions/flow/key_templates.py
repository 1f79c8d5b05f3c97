"""Keys of flow control: a text made of an instance's input, by a template or a function.

Lives here: reading a template, what of it can be checked where it is written, and making a key. Must not live here:
what a key is for. Invariant owned: a key that leaves here can be stored, or is None, which means: no limit here.
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflows.exceptions import InvalidCall, InvalidDefinition, InvalidInput, describe_error, show
from workflows.exceptions.trouble import is_lost
from workflows.values.json_text import check_text

if TYPE_CHECKING:
    from workflows.schemas.schema import Schema

#: Of a key, in characters.
LONGEST_KEY = 200

_FIX = 'write it as in "tenant:{tenant}", or {{ for a brace; for more than fields pass a function of the input'


@dataclass(frozen=True, slots=True)
class KeyTemplate:
    """A text with fields of the input in braces, or a function of the input."""

    text: str
    #: Paths into the input: names and positions with dots between them.
    fields: tuple[str, ...] = ()
    function: Callable[[Any], object] | None = None

    def make(self, input: Any, workflow: str, what: str) -> str | None:
        """The key of this input; None where a function says that there is none."""
        if self.function is None:
            values = {field: _find(input, field, workflow, what) for field in self.fields}
            made: object = "".join(
                literal + ("" if field is None else values[field])
                for literal, field, _, _ in string.Formatter().parse(self.text)
            )
        else:
            try:
                made = self.function(input)
            except Exception as error:
                if is_lost(error):  # it says nothing about the input
                    raise
                raise InvalidInput(workflow, {"": f"{what} cannot be made: {describe_error(error)}"}) from error
            if made is None:
                return None
        try:
            return check_text(made, what, limit=LONGEST_KEY)
        except InvalidCall as error:
            raise InvalidInput(workflow, {"": str(error)}) from error

    def check(self, accepts: Schema | None, signature: inspect.Signature | None, what: str) -> None:
        """Refuse a template that names a field which the workflow's input cannot have."""
        for field in self.fields:
            name = field.partition(".")[0]
            known = _list_known(accepts, signature)
            if known is not None and name not in known:
                raise InvalidDefinition(
                    f"{what} names the field {name!r}, and the input has none of that name; it has "
                    f"{', '.join(sorted(known)) or 'no fields'}"
                )


def read_key(given: object, what: str) -> KeyTemplate:
    """What an author wrote for a key.

    >>> read_key("tenant:{tenant}", "the key").make({"tenant": 7}, "Ship", "the key")
    'tenant:7'
    """
    if callable(given):
        return KeyTemplate(getattr(given, "__qualname__", type(given).__qualname__), function=given)
    try:
        text = check_text(given, what)
        fields = []
        for _, field, form, conversion in string.Formatter().parse(text):
            if field is None:
                continue
            if not field or form or conversion or not all(part.strip() for part in field.split(".")):
                raise ValueError(f"{{{field}}} is no field of an input")
            if any(not (part.isidentifier() or part.isdigit()) for part in field.split(".")):
                raise ValueError(f"{{{field}}} is no field of an input")
            fields.append(field)
    except (InvalidCall, ValueError) as error:
        raise InvalidDefinition(f"{what} {show(given)} cannot be read: {error}; {_FIX}") from error
    return KeyTemplate(text, tuple(fields))


def _find(input: Any, field: str, workflow: str, what: str) -> str:
    found = input
    for part in field.split("."):
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            raise InvalidInput(workflow, {field: f"is missing, and {what} is made of it"})
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        raise InvalidInput(workflow, {field: f"must be text or a number, as {what} is made of it"})
    return str(found)


def _list_known(accepts: Schema | None, signature: inspect.Signature | None) -> set[str] | None:
    """The fields that an input can have; None where it can have any."""
    if signature is not None:
        _, *parameters = signature.parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in parameters):
            return None
        return {one.name for one in parameters}
    described = None if accepts is None else accepts.describe()
    if not described or not isinstance(described.get("properties"), dict) or "patternProperties" in described:
        return None
    return set(described["properties"])
