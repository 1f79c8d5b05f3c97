"""Calling the REST API in tests: a key, and requests with it through Django's own client."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from workflows.access.api_keys import SCOPES, create_key
from workflows.models import Workspace


def make_key(*scopes: str, workspace: str = "default", **options: Any) -> str:
    """A key of a workspace, which is made if it is missing."""
    where = Workspace.objects.get_or_create(slug=workspace)[0]
    return create_key("test", workspace=where, scopes=scopes or SCOPES, **options)[1]


@dataclass
class Api:
    """Requests with one key."""

    key: str | None = None
    client: Client = field(default_factory=Client)

    def headers(self, given: dict[str, str], path: str = "") -> dict[str, str]:
        return ({"Authorization": f"Bearer {self.key}"} if self.key else {}) | given

    def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Any:
        return self.client.get(path, query, headers=self.headers(headers or {}, path))

    def post(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, *, raw: bytes | None = None
    ) -> Any:
        data = json.dumps(body).encode() if raw is None else raw
        return self.client.post(path, data, content_type="application/json", headers=self.headers(headers or {}, path))

    def patch(
        self, path: str, body: Any = None, headers: dict[str, str] | None = None, *, raw: bytes | None = None
    ) -> Any:
        data = json.dumps(body).encode() if raw is None else raw
        return self.client.patch(path, data, content_type="application/json", headers=self.headers(headers or {}, path))

    def call(self, method: str, path: str, headers: dict[str, str] | None = None, **options: Any) -> Any:
        return self.client.generic(method, path, headers=self.headers(headers or {}, path), **options)


#: Addresses at which a person calls, and no key does.
FOR_PEOPLE = re.compile(r"/v1/approvals/[^?]*/\w+(\?|\Z)")


class Anybody(Api):
    """Requests with a key, and as a person where an address takes one."""

    def headers(self, given: dict[str, str], path: str = "") -> dict[str, str]:
        return given if FOR_PEOPLE.match(path) else super().headers(given)


def make_anybody(name: str = "anybody") -> Anybody:
    """A key for everything, and somebody who is logged in."""
    client = Client()
    client.force_login(User.objects.create_user(name))
    return Anybody(make_key(), client)


def problem(response: Any, status: int, slug: str) -> dict[str, Any]:
    """The members of a problem, when it is this one."""
    told: dict[str, Any] = json.loads(response.content)
    assert (response.status_code, told["type"]) == (status, f"urn:holdpoint:problem:{slug}"), told
    assert response.headers["Content-Type"] == "application/problem+json"
    assert told["status"] == status
    assert told["title"]
    assert told["detail"]
    return told
