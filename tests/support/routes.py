"""Every address of the engine, read from the URL conf: a new one is in it without being listed.

Lives here: the addresses with their parameters and methods. What must not: requests, assertions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from django.urls import URLPattern, URLResolver, get_resolver

#: Regular expressions, which do not say where in an address their parameter stands.
SPELT = {"resume": "/resume/{token}", "hooks": "/hooks/{name}", "": "/v1/{rest}"}


@dataclass(frozen=True, slots=True)
class Route:
    """One address. `methods` are those of a class-based view; a function decides for itself."""

    name: str
    #: `/v1/instances/{id}`
    path: str
    methods: frozenset[str]

    @property
    def parameters(self) -> list[str]:
        """What the address has to be told."""
        return re.findall(r"{(\w+)}", self.path)

    def fill(self, **values: str) -> str:
        """The address with these values, percent-encoded."""
        return self.path.format(**{name: quote(values[name]) for name in self.parameters})

    def fill_raw(self, value: str) -> str:
        """The address with one value for every parameter, as it is."""
        return re.sub(r"{\w+}", lambda _: value, self.path)


def list_routes() -> list[Route]:
    """All of them, in their order."""
    return [_read(pattern, prefix) for prefix, pattern in _walk(get_resolver("workflows.urls").url_patterns, "/")]


def _walk(patterns: list[Any], prefix: str) -> Iterator[tuple[str, URLPattern]]:
    for one in patterns:
        if isinstance(one, URLResolver):
            yield from _walk(one.url_patterns, prefix + str(one.pattern))
        else:
            yield prefix, one


def _read(pattern: URLPattern, prefix: str) -> Route:
    name = pattern.name or ""
    path = SPELT.get(name) or prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
    assert not re.search(r"[\\^$(<]", path), f"{path} is a regular expression: add how it is written to SPELT"
    view = getattr(pattern.callback, "cls", None)
    known = () if view is None else (one for one in view.http_method_names if hasattr(view, one.replace("head", "get")))
    return Route(name, path, frozenset(one.upper() for one in known))
