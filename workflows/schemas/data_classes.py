"""Classes that describe data: dataclass, pydantic model, DRF serializer, Django form, and fields with types.

Each becomes a `ClassReader`, which can tell its JSON Schema and turn JSON into a typed value. Invariant owned: what a
class refuses comes out as `InvalidData`, with places and reasons like those of JSON Schema, whatever library said
it. The libraries are imported when a class of theirs is met, never before.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from workflows.exceptions import InvalidData, InvalidSchema, WorkflowError, show
from workflows.schemas.error_messages import REQUIRED, TOO_LARGE, UNEXPECTED, Errors, bound_errors
from workflows.schemas.patterns import SHORTEST, explain_pattern, find_longest
from workflows.values.json_text import LIMIT_PAYLOAD, dump_value

logger = logging.getLogger("workflows.schema")

#: A decimal as text keeps its digits on the way.
DECIMAL_TEXT = {"format": "decimal"}


class ClassReader(Protocol):
    """What each kind of class can do."""

    def describe(self) -> dict[str, Any]:
        """Its JSON Schema."""

    def read(self, data: Any) -> Any:
        """The typed value of JSON `data`; InvalidData where the class refuses it."""


def make_reader(source: Any) -> ClassReader | None:
    """The reader of a class, or of a dict of field to type; None when it is neither."""
    if isinstance(source, dict):
        return _FieldsReader(source)
    if not isinstance(source, type):
        return None
    if dataclasses.is_dataclass(source) or _is_kind(source, "pydantic", "BaseModel"):
        return _TypeReader(source)
    if _is_kind(source, "rest_framework.serializers", "Serializer"):
        return _SerializerReader(source)
    if _is_kind(source, "django.forms", "BaseForm"):
        return _FormReader(source)
    return None


def read_guarded(reader: ClassReader, data: Any) -> Any:
    """The typed value. What a class's own code raises says that the data cannot be taken, and never ends a request."""
    from django.db import DataError
    from django.db import Error as DatabaseError

    try:
        return reader.read(data)
    except WorkflowError:
        raise
    except (OverflowError, RecursionError) as error:
        raise InvalidData({"": [TOO_LARGE]}) from error
    except Exception as error:
        # A database that is away says nothing about the data; whoever asked knows what to do then.
        if isinstance(error, DatabaseError) and not isinstance(error, DataError):
            raise
        source = getattr(reader, "source", None)
        name = source.__qualname__ if isinstance(source, type) else "a field's own check"
        # Its message may repeat the data, or tell strangers about the code: that is for the log.
        logger.exception("A schema failed to check data: %s raised %s", name, type(error).__name__)
        raise InvalidData({"": [f"cannot be checked: {name} raised {type(error).__name__}"]}) from error


def _is_kind(source: type, module: str, name: str) -> bool:
    """A class can only derive from what has been imported already."""
    base = getattr(sys.modules.get(module), name, None)
    return base is not None and issubclass(source, base)


# --- pydantic reads dataclasses, its own models and types ---------------------------------------------


class _TypeReader:
    def __init__(self, source: Any) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        self.source = source
        try:
            self.adapter: TypeAdapter[Any] = TypeAdapter(self._choose_type())
            # A project may have chosen Python's engine for all of a model.
            python = "'python-re'" in repr(self.adapter.core_schema)
            generator = _make_generator(source, python=python)
            self.schema: dict[str, Any] = self.adapter.json_schema(schema_generator=generator)
        except (PydanticUserError, NameError, TypeError, RecursionError) as error:
            raise InvalidSchema(source, str(error).partition("\n")[0]) from error

    def _choose_type(self) -> Any:
        return self.source

    def describe(self) -> dict[str, Any]:
        return self.schema

    def read(self, data: Any) -> Any:
        from pydantic import ValidationError

        try:
            # From text and not from values: a strict model takes "2026-01-31" as a date from JSON only.
            return self.adapter.validate_json(dump_value(data, "the data"))
        except ValidationError as error:
            raise InvalidData(_read_pydantic_errors(error, data)) from error


class _FieldsReader(_TypeReader):
    """A dict of field to type. More fields than these are let through as they are."""

    def _choose_type(self) -> Any:
        from typing import NotRequired

        from pydantic import ConfigDict, with_config
        from typing_extensions import TypedDict  # pydantic asks for this one before Python 3.12

        if wrong := next((name for name in self.source if not isinstance(name, str)), None):
            raise InvalidSchema(self.source, f"{show(wrong)} is no name of a field")
        for name, kind in self.source.items():
            if isinstance(kind, str | int | float | list | tuple | dict):
                raise InvalidSchema(self.source, f"{show(kind)}, given for {name!r}, is not a type")
        self.optional = [name for name, kind in self.source.items() if _takes_none(kind)]
        fields = {name: NotRequired[kind] if name in self.optional else kind for name, kind in self.source.items()}
        return with_config(ConfigDict(extra="allow"))(TypedDict("Data", fields))  # type: ignore[operator]

    def describe(self) -> dict[str, Any]:
        # A title made up here would be shown to people.
        return {name: value for name, value in self.schema.items() if name != "title"}

    def read(self, data: Any) -> Any:
        return {**dict.fromkeys(self.optional), **super().read(data)}


def _takes_none(kind: Any) -> bool:
    import typing

    return kind is None or type(None) in typing.get_args(kind)


def limit_pattern(found: dict[str, Any], pattern: str | re.Pattern[str], source: Any) -> None:
    """Say in a JSON Schema how long a text may be that Python's engine is to try this pattern on."""
    text, flags = (pattern, 0) if isinstance(pattern, str) else (pattern.pattern, pattern.flags)
    longest = find_longest(text, flags)
    if longest < min(SHORTEST, found.get("maxLength", SHORTEST)):
        raise InvalidSchema(source, explain_pattern(text))
    if longest < LIMIT_PAYLOAD:
        found["maxLength"] = min(longest, found.get("maxLength", longest))


def _make_generator(source: Any, *, python: bool) -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        """A default that JSON cannot hold is left out, which is no reason to warn anybody."""

        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        def str_schema(self, schema: Any) -> Any:
            """A pattern that pydantic does not read with its own engine has to have an end too."""
            found = super().str_schema(schema)
            pattern = schema.get("pattern")
            if pattern is not None and (python or not isinstance(pattern, str)):
                limit_pattern(found, pattern, source)
            return found

        def decimal_schema(self, schema: Any) -> Any:
            """pydantic lets any text stand for a decimal, and leaves it to the reader to find out."""
            found = super().decimal_schema(schema)
            for form in found.get("anyOf", ()):
                if form.get("type") == "string":
                    form.update(DECIMAL_TEXT)
            return found

    return Quiet


def _read_pydantic_errors(error: Any, data: Any) -> Errors:
    errors: Errors = {}
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        reason = {"missing": REQUIRED, "extra_forbidden": UNEXPECTED}.get(found["type"], found["msg"])
        for prefix in ("Value error, ", "Assertion failed, "):
            reason = reason.removeprefix(prefix) if reason.startswith(prefix) else reason
        place = _find_place(found["loc"], data, missing=found["type"] == "missing")
        errors.setdefault(place, []).append(reason)
    return bound_errors(errors)


def _find_place(location: tuple[Any, ...], data: Any, *, missing: bool) -> str:
    """pydantic puts names of types into its paths; only steps that exist in the data are places."""
    path = []
    for number, step in enumerate(location, 1):
        if isinstance(data, dict) and (step in data or (missing and number == len(location))):
            data = data.get(step)
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            continue
        path.append(str(step))
    return ".".join(path)


# --- serializers and forms ----------------------------------------------------------------------------


class _SerializerReader:
    def __init__(self, source: Any) -> None:
        self.source = source

    def describe(self) -> dict[str, Any]:
        from workflows.schemas.django_fields import describe_serializer

        return describe_serializer(_make_empty(self.source), self.source)

    def read(self, data: Any) -> Any:
        from rest_framework.settings import api_settings

        serializer = self.source(data=copy.deepcopy(data))
        if not serializer.is_valid():
            raise InvalidData(_flatten(serializer.errors, api_settings.NON_FIELD_ERRORS_KEY))
        return serializer.validated_data


class _FormReader:
    def __init__(self, source: Any) -> None:
        self.source = source

    def describe(self) -> dict[str, Any]:
        from workflows.schemas.django_fields import describe_form

        return describe_form(_make_empty(self.source), self.source)

    def read(self, data: Any) -> Any:
        from django.core.exceptions import NON_FIELD_ERRORS

        from workflows.schemas.django_fields import take_json

        form = self.source(data=copy.deepcopy(data))
        take_json(form)
        if not form.is_valid():
            raise InvalidData(_flatten(form.errors, NON_FIELD_ERRORS))
        return form.cleaned_data


def _make_empty(source: Any) -> Any:
    try:
        return source()
    except TypeError as error:
        raise InvalidSchema(source, f"it cannot be made without arguments ({error})") from error


def _flatten(found: Any, whole: str) -> Errors:
    """Nested errors as place → reasons; `whole` names those that belong to no field."""
    errors: Errors = {}
    waiting: list[tuple[str, Any]] = [("", found)]
    while waiting:
        place, inner = waiting.pop(0)
        steps: Iterable[tuple[Any, Any]] = ()
        if isinstance(inner, Mapping):
            steps = inner.items()
        elif isinstance(inner, list | tuple):
            steps = enumerate(inner)
            if texts := [str(each) for each in inner if not isinstance(each, Mapping | list | tuple)]:
                errors.setdefault(place, []).extend(texts)
        elif isinstance(inner, str):
            errors.setdefault(place, []).append(inner)
        for step, each in steps:
            if isinstance(each, Mapping | list | tuple):
                name = "" if step == whole else str(step)
                waiting.append((".".join(filter(None, (place, name))), each))
    return bound_errors(errors)
