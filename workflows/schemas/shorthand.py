"""A dict as a schema: JSON Schema, or fields with the names of their types, as YAML has them.

Invariant owned: a dict that would say nothing as JSON Schema, because a word in it is misspelt, is never taken for
one: it would let all data pass.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import Any

from workflows.exceptions import InvalidSchema, show

#: Types by name, for fields that are written in YAML: `int`, `date | None`. JSON Schema's own words count as well.
NAMED_TYPES = {
    "str": "str", "int": "int", "float": "float", "bool": "bool", "list": "list", "dict": "dict", "any": "Any",
    "none": "None", "null": "None", "decimal": "decimal:Decimal", "date": "datetime:date", "time": "datetime:time",
    "datetime": "datetime:datetime", "timedelta": "datetime:timedelta", "uuid": "uuid:UUID",
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict",
    "text": "str",
}  # fmt: skip

#: `number is required`: beside one such field, those that do not say so are optional.
_REQUIRED = re.compile(r"[\s,]+is\s+required\s*$", re.IGNORECASE)

#: What OpenAPI adds to JSON Schema; generators of schemas write it, and it restricts nothing.
_OPENAPI = frozenset({"discriminator", "example", "externalDocs", "xml"})
_NOTES = frozenset({"title", "description", "default", "example"})
#: Keywords whose value may be a text.
_OF_TEXT = _NOTES | {"type", "format", "pattern", "const", "contentMediaType", "contentEncoding", "id"}


def find_written_fields(given: dict[Any, Any]) -> dict[str, Any] | None:
    """Field to written type, of a dict that consists of names; None for a JSON Schema, which is checked for words."""
    given = _read_modifiers(given)
    named = {name: _read_names(value) for name, value in given.items()}
    if given and None not in named.values():
        if not all(_is_keyword(name, _OF_TEXT - {"id"}) for name in given):
            return named
        if all(name in _NOTES or name.startswith("x-") for name in given):
            raise InvalidSchema(
                given,
                "as JSON Schema it lets all data pass, as fields its names are JSON Schema keywords. For fields, write "
                'the types themselves, {"title": str}, or {"properties": {"title": {"type": "string"}}}',
            )
    _check_words(given)
    return None


def _read_modifiers(given: dict[Any, Any]) -> dict[Any, Any]:
    """Fields of which some are said to be required, as those without a modifier that mean the same."""
    required = {name for name, value in given.items() if isinstance(value, str) and _REQUIRED.search(value)}
    if not required:
        return given
    return {
        name: _REQUIRED.sub("", value) if name in required else f"{value} | none" if isinstance(value, str) else value
        for name, value in given.items()
    }


def _check_words(given: dict[Any, Any]) -> None:
    known = _list_keywords()
    if all(isinstance(value, str) for value in given.values()) and given.get("id", "").isidentifier():
        known -= {"id"}  # a keyword of draft 4, which holds an address
    unknown = [
        (name, value)
        for name, value in given.items()
        if not _is_keyword(name, known) and not (isinstance(value, dict | list) and _is_referred(given, name))
    ]
    if unknown:
        # {"approved": "bool", "amount": "integr"}: the slip is in the second.
        slips = [(name, value) for name, value in unknown if _read_names(value) is None]
        raise InvalidSchema(given, _explain(*slips[0], known) if slips else _explain_mixture(*unknown[0]))


def _explain(name: Any, value: Any, known: frozenset[str]) -> str:
    text = f"{show(name)}: {show(value)} is neither a type (int, str, bool, …) nor a JSON Schema keyword"
    close = difflib.get_close_matches(value.lower(), NAMED_TYPES, 1) if isinstance(value, str) else []
    close = close or (difflib.get_close_matches(name, sorted(known), 1) if isinstance(name, str) else [])
    return f"{text} (did you mean {close[0]!r}?)" if close else text


def _explain_mixture(name: Any, value: Any) -> str:
    return (
        f"{show(name)}: {show(value)} is a field with its type, and the rest is not. Give fields with types only, or "
        'JSON Schema with the fields in "properties"'
    )


def _is_keyword(name: Any, known: frozenset[str]) -> bool:
    return isinstance(name, str) and (name in known or name.startswith(("$", "x-")))


def _is_referred(given: Any, name: str) -> bool:
    """Whether a $ref leads there: a schema may keep parts of itself under any name, as OpenAPI's `components`."""
    start = "#/" + name.replace("~", "~0").replace("/", "~1")
    waiting = [given]
    while waiting:
        here = waiting.pop()
        if isinstance(here, dict):
            reference = here.get("$ref")
            if isinstance(reference, str) and (reference == start or reference.startswith(f"{start}/")):
                return True
            waiting.extend(here.values())
        elif isinstance(here, list | tuple):
            waiting.extend(here)
    return False


@cache
def _list_keywords() -> frozenset[str]:
    """Those of every draft."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    schemas = [REGISTRY.contents(address) for address in REGISTRY]
    found = {name for schema in schemas if isinstance(schema, dict) for name in schema.get("properties", ())}
    return frozenset(found) | _OPENAPI


def _read_names(value: Any) -> Any:
    """`int | None` as it is written to a row; None when a word of it names no type."""
    if not isinstance(value, str):
        return None
    kinds = [NAMED_TYPES.get(word.strip().lower()) for word in value.split("|")]
    if None in kinds:
        return None
    return kinds[0] if len(kinds) == 1 else ["|", *kinds]
