"""Schemas: what an answer, an event's data or an input must look like.

A schema is written as JSON Schema, as a class (dataclass, pydantic model, DRF serializer, Django form) or as a dict
of field to type, and is stored as JSON Schema together with the way back to the class. Invariant owned: what
`read_schema` returns can be stored in a row, and `load_schema` makes of that row a schema which accepts and returns
the same, also in another process; when a deploy has taken the class away, the JSON Schema still stands.
"""

from __future__ import annotations

import copy
import functools
import importlib
import json
import logging
import sys
import types
import typing
from dataclasses import dataclass, field
from typing import Any

from workflows.exceptions import InvalidSchema, show
from workflows.schemas.data_classes import ClassReader, make_reader, read_guarded
from workflows.schemas.json_schema import check_json, dump_schema, make_tree, read_json_schema
from workflows.schemas.shorthand import find_written_fields

#: Named as it was before the module moved, for the LOGGING of sites.
logger = logging.getLogger("workflows.schema")


@dataclass(frozen=True, slots=True)
class Schema:
    """One schema. Data is always given as JSON values: as received, or as a row holds it."""

    json: dict[str, Any] | bool = field(hash=False)
    type_path: str | None = None
    source: Any = field(default=None, compare=False, repr=False)
    #: The tree and the reader, made when first needed; a completion then pays for checking only.
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def check(self, data: Any) -> None:
        """Raise InvalidData with every place that is wrong: by the JSON Schema, and then by the class.

        It is the `TooComplex` kind of InvalidData where that takes too much to find out.
        """
        if (tree := self._made.get("tree")) is None:
            tree = self._made["tree"] = make_tree(self.json)
        reader = self._find_reader()
        check_json(tree, data, all_forms=reader is not None)
        if reader is not None:
            read_guarded(reader, data)

    def cast(self, data: Any) -> Any:
        """The typed value of data that was checked: an instance of the class, or what the class makes of it."""
        reader = self._find_reader()
        return data if reader is None else read_guarded(reader, data)

    def describe(self) -> dict[str, Any]:
        """The JSON Schema as an object, for forms and lists; the caller may change it."""
        if isinstance(self.json, bool):
            return {} if self.json else {"not": {}}
        described: dict[str, Any] = copy.deepcopy(self.json)
        return described

    def _find_reader(self) -> ClassReader | None:
        if "reader" not in self._made:
            source = self.source if self.source is not None else _find_source(self.type_path)
            self._made["reader"] = make_reader(source)
        reader: ClassReader | None = self._made["reader"]
        return reader


def read_schema(given: Any) -> Schema | None:
    """The schema that an author wrote; None stays None."""
    if given is None or isinstance(given, Schema):
        return given
    if isinstance(given, type):
        return _read_class(given)
    if isinstance(given, bool):
        return _read_json(dump_schema(given))
    if not isinstance(given, dict):
        raise InvalidSchema(given, f"it is {show(type(given))}")
    if fields := _find_fields(given):
        try:
            return _read_fields(tuple(fields.items()))
        except TypeError:  # a type that cannot be a key of the cache, such as Annotated[int, [1]]
            return _read_fields.__wrapped__(tuple(fields.items()))
    return _read_json(dump_schema(given))


def load_schema(json: Any, type_path: str | None) -> Schema | None:
    """The schema of a row. The class is imported when data is first checked."""
    return None if json is None else _load(_write(json), type_path)


def load_schema_text(text: str, type_path: str | None) -> Schema:
    """The same of a row's own text, which is not read where it is known."""
    return _load(text, type_path)


@functools.lru_cache(maxsize=512)
def _load(text: str, type_path: str | None) -> Schema:
    return Schema(json.loads(text), type_path)


@functools.lru_cache(maxsize=256)
def _read_json(text: str) -> Schema:
    return Schema(read_json_schema(text))


@functools.lru_cache(maxsize=256)
def _read_class(given: type) -> Schema:
    reader = make_reader(given)
    if reader is None:
        raise InvalidSchema(given, "it is a class of none of these kinds")
    return _finish(reader, given, _write_class(given))


@functools.lru_cache(maxsize=256)
def _read_fields(fields: tuple[tuple[str, Any], ...]) -> Schema:
    given = dict(fields)
    reader = make_reader(given)
    assert reader is not None
    written = {name: _write_type(kind) for name, kind in given.items()}
    path = None if None in written.values() else "fields:" + json.dumps(written, ensure_ascii=False)
    return _finish(reader, given, path)


def _finish(reader: ClassReader, given: Any, path: str | None) -> Schema:
    schema = Schema(read_json_schema(dump_schema(reader.describe())), path, given)
    schema._made["reader"] = reader
    return schema


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


# --- a dict of field to type --------------------------------------------------------------------------


def _find_fields(given: dict[Any, Any]) -> dict[Any, Any] | None:
    """The fields, when this is no JSON Schema: that has JSON for values, and never a type."""
    if any(not isinstance(value, str | int | float | list | tuple | dict | None) for value in given.values()):
        return given
    if (written := find_written_fields(given)) is None:
        return None
    return {name: _read_type(kind) for name, kind in written.items()}


# --- the way to a class and back ----------------------------------------------------------------------


def _write_class(given: type) -> str | None:
    """module:qualname, when an import in another process can find this very class there."""
    module, name = given.__module__, given.__qualname__
    if module == "__main__" or "<" in name:
        return None
    path = f"{module}:{name}"
    try:
        found = _import(path)
    except (ImportError, AttributeError):
        # Inside the body of a class that is being made, its own name does not lead anywhere yet.
        unfinished = getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False)
        return path if unfinished else None
    return path if found is given else None


def _import(path: str) -> Any:
    module, _, name = path.partition(":")
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


@functools.lru_cache(maxsize=512)
def _find_source(path: str | None) -> Any:
    """The class or the fields that a row names; None, told once in the log, when a deploy took them away."""
    if path is None:
        return None
    try:
        if path.startswith("fields:"):
            found: Any = {name: _read_type(kind) for name, kind in json.loads(path[len("fields:") :]).items()}
        else:
            found = _import(path)
        if make_reader(found) is not None:
            return found
        problem = "it is no dataclass, pydantic model, serializer or form any more"
    except Exception as error:  # importing runs code of the project, which may fail in any way
        problem = f"{type(error).__name__}: {error}"
    logger.warning("Schema %s cannot be used (%s): its data is checked by the stored JSON Schema alone", path, problem)
    return None


def _write_type(kind: Any) -> Any:
    """A type as JSON, or None when it cannot be found again by name."""
    if kind is None or kind is type(None):
        return "None"
    if kind is Any:
        return "Any"
    origin = typing.get_origin(kind)
    if origin is None:
        if not isinstance(kind, type):
            return None
        return kind.__name__ if kind.__module__ == "builtins" else _write_class(kind)
    if origin is typing.Literal:
        values = typing.get_args(kind)
        return ["=", *values] if all(type(value) in (str, int, bool) for value in values) else None
    union = origin in (typing.Union, types.UnionType)
    if not union and origin not in (list, dict, set, frozenset, tuple):
        return None
    head = "|" if union else origin.__name__
    parts = ["..." if part is Ellipsis else _write_type(part) for part in typing.get_args(kind)]
    return None if None in parts else [head, *parts]


def _read_type(written: Any) -> Any:
    if isinstance(written, str):
        known = {"None": type(None), "Any": Any, "...": ...}
        return known[written] if written in known else _import(written if ":" in written else f"builtins:{written}")
    head, *parts = written
    if head == "=":
        return typing.Literal[tuple(parts)]
    kinds = tuple(map(_read_type, parts))
    return typing.Union[kinds] if head == "|" else _read_type(head)[kinds]  # noqa: UP007 - the parts are known at run time
