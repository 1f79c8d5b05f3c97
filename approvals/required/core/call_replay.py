"""A call as JSON, and the same call made again: by its requester, with the rights and to the view that there are then.

Invariants owned: nothing of a session, a cookie or a credential is kept; a call that is refused leaves nothing behind
but its answer; what fails unforeseen is raised, so that the instance fails and an operator may retry it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from django.core.handlers.wsgi import WSGIRequest
from django.db import router, transaction
from django.http import HttpResponseBase, QueryDict
from django.http.response import HttpResponse
from django.urls import Resolver404, get_urlconf, resolve
from django.utils.translation import gettext
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from approvals.people.person import Person
from approvals.required.core.gate_questions import find_requester
from approvals.subjects.field_values import is_secret_name
from workflows.models import Instance

#: Characters of an answer that are kept.
MAX_BODY = 100_000
#: Headers that may bear on how a view answers.
HEADERS = ("HTTP_ACCEPT", "HTTP_ACCEPT_LANGUAGE", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT", "wsgi.url_scheme")


class _Undone(Exception):
    """Takes back what a refused call has written, and carries its answer past that."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told


def keep_call(request: Request) -> dict[str, Any]:
    """What is needed to make a call again."""
    plain = request._request
    return {
        "method": request.method,
        "path": plain.path_info,
        "script": plain.META.get("SCRIPT_NAME", ""),
        "query": _write_query(plain.GET),
        "kind": request.content_type,
        "data": request.data,
        "empty": plain.META.get("CONTENT_LENGTH") in (None, "", "0"),
        "headers": {name: str(plain.META[name]) for name in HEADERS if name in plain.META},
        "secure": plain.is_secure(),
        "urlconf": conf if isinstance(conf := getattr(plain, "urlconf", None) or get_urlconf(), str) else None,
    }


def replay_call(call: Mapping[str, Any], requester: str) -> dict[str, Any]:
    """Make the call; its status and body. Inside the step's transaction, with a savepoint of its own.

    >>> replay_call(asked["call"], asked["requester"])
    {'status': 200, 'body': {'id': 7, 'amount': '99.50'}, 'location': None}
    """
    user = find_requester(requester)
    if user is None or not user.is_active:
        return _refuse(403, gettext("Whoever asked for this can’t log in any more."))
    request = _make_request(call, user)
    try:
        match = resolve(call["path"], urlconf=call["urlconf"])
    except Resolver404:
        return _refuse(404, gettext("There is no such address any more."))
    request.resolver_match = match
    try:
        with transaction.atomic(using=router.db_for_write(Instance)):
            told = _tell(match.func(request, *match.args, **match.kwargs))
            if told["status"] >= 500:
                raise RuntimeError(f"the view answered {told['status']}: {json.dumps(told['body'])[:500]}")
            if told["status"] >= 400:
                raise _Undone(told)
    except _Undone as undone:
        return undone.told
    return told


def _write_query(given: QueryDict) -> str:
    """The query without what may be a credential."""
    kept = given.copy()
    for name in given:
        if is_secret_name(name):
            del kept[name]
    return kept.urlencode()


def _make_request(call: Mapping[str, Any], user: Person) -> WSGIRequest:
    body = b"" if call["empty"] else json.dumps(call["data"]).encode()
    environ = {
        "REQUEST_METHOD": call["method"],
        "SCRIPT_NAME": call["script"],
        # As servers hand paths over: bytes that pretend to be Latin-1.
        "PATH_INFO": call["path"].encode().decode("latin-1"),
        "QUERY_STRING": call["query"],
        "CONTENT_TYPE": call["kind"] or "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": "",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "443" if call["secure"] else "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "https" if call["secure"] else "http",
        "wsgi.input": io.BytesIO(body),
        **call["headers"],
    }
    request: Any = WSGIRequest(environ)
    request.user = user
    request.holdpoint_replay = True
    # How the framework's own test clients say who calls: whatever the view takes for a login is not asked for again.
    request._force_auth_user = user
    if call["urlconf"]:
        request.urlconf = call["urlconf"]
    return request  # type: ignore[no-any-return]


def _tell(response: HttpResponseBase) -> dict[str, Any]:
    body: Any = None
    if isinstance(response, Response):
        body = _shorten(JSONRenderer().render(response.data).decode() if response.data is not None else "")
    elif isinstance(response, HttpResponse):
        body = _shorten(response.content.decode(errors="replace"))
    return {"status": response.status_code, "body": body, "location": response.headers.get("Location")}


def _shorten(text: str) -> Any:
    """JSON as what it says, another text as a text, and of what is long the beginning."""
    if len(text) > MAX_BODY:
        return text[:MAX_BODY].replace("\0", "\\0")
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text.replace("\0", "\\0")


def _refuse(status: int, detail: str) -> dict[str, Any]:
    return {"status": status, "body": {"detail": detail}, "location": None}
