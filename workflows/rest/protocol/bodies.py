"""Bodies as types: how one that came in is checked, and what the types of bodies share.

Lives here: the classes that all bodies derive from, texts with limits, and the refusal of a body. Must not live here: a
body of any operation (`request_bodies`, `response_bodies`). Invariant owned: a member that the type of a body does not
name is refused, so that a misspelt one cannot be silently left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from workflows.api.idempotency import LONGEST_KEY
from workflows.exceptions import InvalidCall
from workflows.rest.protocol.problems import INVALID_DATA, INVALID_REQUEST, RequestRefused
from workflows.values.json_text import RESERVED, check_signal_name, check_text

B = TypeVar("B", bound="Body")

#: Something that can be seen: what Python calls blank, as JSON Schema's patterns have it.
SEEN = r"[^\s\x1c-\x1f\x85]"
#: The same for names and dedup keys of signals and events, some of which are the engine's own.
FREE = rf"^(?!{RESERVED})[\s\S]*{SEEN}"


def read_whole(value: Any) -> Any:
    """3.0 as 3; anything else as it is, to be judged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: JSON knows no whole numbers: 3.0 is one.
AS_WHOLE = BeforeValidator(read_whole)


def _want_text(text: str) -> str:
    return _want(check_text, text)


def _want_name(text: str) -> str:
    return _want(check_signal_name, text)


def _want(check: Callable[[str, str], str], text: str) -> str:
    try:
        return check(text, _HERE)
    except InvalidCall as error:
        raise ValueError(str(error).removeprefix(f"{_HERE} ")) from error


#: Stands for the place in a message that is told beside it.
_HERE = "this"

Key = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": SEEN}), AfterValidator(_want_text)
]
Name = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": FREE}), AfterValidator(_want_name)
]
OnceKey = Annotated[
    str, Field(min_length=1, max_length=LONGEST_KEY, json_schema_extra={"pattern": SEEN}), AfterValidator(_want_text)
]
Json = Annotated[Any, Field(description="Any JSON value.")]


class Shape(BaseModel):
    """What the OpenAPI document takes for one of ours: a project may describe its own types otherwise."""


class Body(Shape):
    """What a request may say."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def read_as(model: type[B], value: Any) -> B:
    """A body as its type; `RequestRefused` with 400 and the members that are wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        mistakes = list_mistakes(error, value)
        detail = f"{name_first(mistakes)} A body has {', '.join(model.model_fields)}."
        raise RequestRefused(INVALID_REQUEST, detail, errors=mistakes) from error


#: What pydantic says in words of its own.
_WORDS = {
    "extra_forbidden": "is not known here",
    "missing": "is required",
    "model_type": "must be an object",
    "string_type": "must be text",
    "int_type": "must be a whole number",
}


def list_mistakes(error: ValidationError, value: Any) -> dict[str, list[str]]:
    """What is wrong with a value, per member; where it may be of several kinds, what each of them wants."""
    found: dict[str, list[str]] = {}
    for one in error.errors(include_url=False, include_context=False):
        reason = _WORDS.get(one["type"], one["msg"].removeprefix("Value error, "))
        place = _find_place(one["loc"], value, one["input"])
        if one["type"] == "missing":
            place.append(one["loc"][-1])
        found.setdefault(".".join(map(str, place)) or "$", []).append(reason)
    return found


def _find_place(path: tuple[int | str, ...], value: Any, wrong: Any) -> list[int | str]:
    """The members on pydantic's path to what is wrong; the kinds that a member may be of stand there, too."""
    place: list[int | str] = []
    for part in path:
        if value is wrong:
            break
        if isinstance(value, dict):
            is_member = part in value
        else:
            is_member = isinstance(value, list) and isinstance(part, int) and part < len(value)
        if is_member:
            value = value[part]
            place.append(part)
    return place


def name_first(mistakes: dict[str, list[str]]) -> str:
    """The first mistake, as a sentence."""
    place, reasons = next(iter(mistakes.items()))
    return f"{place:.60}: {', or '.join(reasons)}."


def refuse_without_data() -> RequestRefused:
    """Not by a field of the caller's own data, which may well be called "data" too."""
    return RequestRefused(
        INVALID_DATA,
        'The body has to be {"data": …}, with the answer in it: its member "data" is missing.',
        errors={"data": ["is required"]},
    )
