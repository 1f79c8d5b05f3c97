"""Reading YAML into values that know their lines, safely and without losing a word.

Invariants owned: no tag makes anything but data; a key that is written twice, and a value that contains
itself, are errors with their line. PyYAML is loaded when a file is read, because it is an extra.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from workflows.exceptions import InvalidDefinition, show


class Fields(dict[Any, Any]):
    """A mapping of the file that knows the lines of its keys."""

    line = 0
    lines: Mapping[Any, int] = {}


class Named(str):
    """`!function shop.make_input`: a value that a function of ctx gives."""


def read_text(given: object) -> tuple[str, str]:
    """A file's text, or the text itself, and what to call it."""
    if isinstance(given, Path) or (isinstance(given, str) and "\n" not in given and given.endswith((".yaml", ".yml"))):
        path = Path(given)
        try:
            return path.read_text(encoding="utf-8"), str(path)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidDefinition(f"{path} cannot be read: {error}") from error
    if not isinstance(given, str):
        raise InvalidDefinition(f"from_yaml takes a path or the text itself, not {show(given)}")
    # Two texts that claim one name are two definitions, and the same text again is a reload.
    return given, f"yaml:{hashlib.sha256(given.encode(errors='replace')).hexdigest()[:12]}"


def parse_text(text: str, source: str) -> Any:
    """What a text holds; every mapping of it is a `Fields`."""
    try:
        import yaml
    except ImportError as error:
        raise InvalidDefinition(
            f"{source} needs PyYAML, which is not installed: pip install 'django-holdpoint[yaml]'"
        ) from error
    try:
        return yaml.load(text, Loader=_make_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        told = getattr(error, "problem", None) or str(error)
        raise InvalidDefinition(f"{source}: {line}{told}") from error
    except RecursionError as error:
        raise InvalidDefinition(f"{source}: it is nested too deeply to be read") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # PyYAML makes numbers, dates and what a tag names by plain Python, whose errors are told without a line.
        raise InvalidDefinition(f"{source}: it has a value that cannot be read: {error!s:.200}") from error


@functools.cache
def _make_loader() -> Any:
    """A safe loader that keeps lines and refuses a key that is there twice."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def make_fields(loader: Loader, node: Any) -> Fields:
        own = [
            (loader.construct_object(key, deep=True), key) for key, _ in node.value if not key.tag.endswith(":merge")
        ]
        lines: dict[Any, int] = {}
        for name, key in own:
            if not isinstance(name, Hashable):
                continue  # refused by construct_mapping, which tells where
            if name in lines:
                raise yaml.constructor.ConstructorError(None, None, f"{name!r} is written twice", key.start_mark)
            lines[name] = key.start_mark.line + 1
        fields = Fields(loader.construct_mapping(node, deep=True))
        fields.line = node.start_mark.line + 1
        fields.lines = dict.fromkeys(fields, fields.line) | lines
        return fields

    def make_list(loader: Loader, node: Any) -> list[Any]:
        return loader.construct_sequence(node, deep=True)

    def make_function(loader: Loader, node: Any) -> Named:
        return Named(loader.construct_scalar(node))

    # Not the generators of SafeLoader: a value that contains itself is refused instead of built.
    Loader.add_constructor("tag:yaml.org,2002:map", make_fields)
    Loader.add_constructor("tag:yaml.org,2002:seq", make_list)
    Loader.add_constructor("!function", make_function)
    return Loader
