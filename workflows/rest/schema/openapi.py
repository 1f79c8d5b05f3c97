"""The OpenAPI document: made of the views themselves, by drf-spectacular, with settings of its own.

Lives here: the document, and the view that serves it. Must not live here: what it says of one operation
(`rest.protocol.operation`). Invariant owned: whatever a project sets for its own document changes nothing here.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import SPECTACULAR_DEFAULTS, patched_settings

from workflows.rest.base.extensions import list_parts
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.protocol.problems import METHOD_NOT_ALLOWED, answer_problem

#: All that drf-spectacular would otherwise take from the project's SPECTACULAR_SETTINGS; what it has for views that
#: serve a document changes none.
SETTINGS: Mapping[str, Any] = {
    name: value
    for name, value in SPECTACULAR_DEFAULTS.items()
    if not name.startswith("SERVE_") and name != "DEFAULT_GENERATOR_CLASS"
} | {
    "OAS_VERSION": "3.1.0",
    "TITLE": "Holdpoint API",
    "DESCRIPTION": (
        "Durable workflows that stop and wait: start instances, send them signals and events, answer what they ask. "
        "Everything is JSON. Every error is a problem (RFC 9457) with a stable `type` and a `detail` that says what to "
        "do. Every POST and PATCH takes an `Idempotency-Key`: the same call again is told the same, and nothing "
        "happens twice."
    ),
    "VERSION": "1",
    "TAGS": [
        {"name": "Instances", "description": "Running workflows: started, looked at, waited for."},
        {"name": "Signals", "description": "Facts for instances, and events for whoever waits for them."},
        {"name": "Interactions", "description": "What instances ask of somebody outside, and the answers."},
        {"name": "Flow control", "description": "What may run, how much of it at once, and what is paused."},
        {"name": "Schedules", "description": "What starts instances again and again, at moments of a timetable."},
        {"name": "Operating", "description": "Whether the site works."},
    ],
    "POSTPROCESSING_HOOKS": [],
    "SCHEMA_PATH_PREFIX": "",
    "SORT_OPERATIONS": False,
    "APPEND_COMPONENTS": {
        "securitySchemes": {
            "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "A key of a workspace: `Authorization: Bearer hp_…`. "
                "`manage.py api_key create NAME` makes one.",
            },
            "session": {
                "type": "apiKey",
                "in": "cookie",
            },
        }
    },
}

_lock = threading.Lock()


@functools.cache
def describe_api() -> dict[str, Any]:
    """The document, made once per process.

    >>> describe_api()["openapi"]
    '3.1.0'
    """
    from workflows.rest.resources.addresses import ADDRESSES
    from workflows.rest.schema.plain_views import PATHS

    *tags, last = SETTINGS["TAGS"]
    brought = [{"name": part.tag, "description": part.description} for part in list_parts()]
    with _lock, patched_settings({**SETTINGS, "TAGS": [*tags, *brought, last]}):
        document: dict[str, Any] = SchemaGenerator(patterns=ADDRESSES).get_schema(public=True)  # type: ignore[no-untyped-call]
    document["paths"].update({path: item for path, item in PATHS.items() if _is_routed(path.split("/")[1])})
    schemes = document["components"]["securitySchemes"]
    header = settings.CSRF_HEADER_NAME.removeprefix("HTTP_").replace("_", "-").title()
    schemes["session"] |= {
        "name": settings.SESSION_COOKIE_NAME,
        "description": f"A logged in user with the permissions; POST and PATCH take the header `{header}` too.",
    }
    return document


def _is_routed(name: str) -> bool:
    """Whether this site has the address: each part of the routes can be included alone."""
    arguments = {"resume": {"token": "t"}, "hooks": {"name": "n"}}.get(name, {})
    for where in (f"workflows:{name}", name):
        with contextlib.suppress(NoReverseMatch):
            return bool(reverse(where, kwargs=arguments))
    return False


@functools.lru_cache(maxsize=8)
def _write_api(prefix: str) -> bytes:
    return json.dumps(describe_api() | {"servers": [{"url": prefix or "/"}]}, indent=1).encode()


@open_to_machines
def schema(request: HttpRequest) -> HttpResponse:
    """`GET /v1/schema`: the document. It tells nothing of any tenant, so everybody may read it."""
    if request.method not in {"GET", "HEAD"}:
        return answer_problem(METHOD_NOT_ALLOWED, "The document is read with GET.", headers={"Allow": "GET, HEAD"})
    body = _write_api(request.path.removesuffix("/v1/schema"))
    return HttpResponse(body, content_type="application/vnd.oai.openapi+json; version=3.1")
