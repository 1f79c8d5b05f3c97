"""An operation as a command for a shell.

Invariant owned: whatever the document says is quoted, so that a reader who pastes a call runs nothing but `curl`. Names
in braces are for the reader to fill in; the site's address and the key come from the environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from workflows.rest.schema.docs_shapes import Shapes

_KEY = ('-H "Authorization: Bearer $HOLDPOINT_KEY"',)
#: How a caller shows who it is. Over TLS Django asks a session where the call comes from.
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "required": _KEY,
    "optional": _KEY,
    "session": ('-b "$HOLDPOINT_COOKIES" -H "X-CSRFToken: $HOLDPOINT_CSRF"', '-e "$HOLDPOINT_URL/"'),
}
#: Longer bodies are written over several lines.
ONE_LINE = 60


def write_call(
    shapes: Shapes,
    path: str,
    method: str,
    parameters: Sequence[Mapping[str, Any]],
    body: Mapping[str, Any],
    *,
    access: str,
) -> str:
    """The operation with what it cannot do without."""
    needed = [one for one in parameters if one.get("required")]
    query = "&".join(f"{one['name']}={{{one['name']}}}" for one in needed if one.get("in") == "query")
    address = f"{path}?{query}" if query else path
    parts = [f'curl "$HOLDPOINT_URL{_quote(address)}"']
    if method != "get":
        parts.append("-I" if method == "head" else f"-X {method.upper()}")
    parts += _SHOWN.get(access, ())
    parts += [f'-H "{_quote(one["name"])}: {{{_quote(one["name"])}}}"' for one in needed if one.get("in") == "header"]
    if body:
        media, content = find_content(body)
        parts.append(f'-H "Content-Type: {_quote(media)}"')
        parts.append(f"-d {_quote_whole(_write_body(shapes, content))}")
    return " \\\n  ".join(parts)


def find_content(told: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The first media type of a body or response, and what it holds."""
    return next(iter((told.get("content") or {}).items()), ("", {}))


def show_json(value: Any) -> str:
    """A value as it is sent."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def _write_body(shapes: Shapes, content: Mapping[str, Any]) -> str:
    """The document's own example, or one that its schema allows."""
    named = [shapes.resolve(one).get("value") for one in (content.get("examples") or {}).values()]
    if "example" in content or named:
        value = content["example"] if "example" in content else named[0]
    else:
        value = shapes.make_example(content.get("schema", {}), writing=True)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= ONE_LINE else show_json(value).replace("\n", "\n  ")


def _quote(text: object) -> str:
    """Within double quotes of a shell."""
    return "".join(f"\\{one}" if one in '"\\$`' else one for one in str(text))


def _quote_whole(text: str) -> str:
    """In single quotes, where a shell reads nothing but their end."""
    return "'" + text.replace("'", "'\\''") + "'"
