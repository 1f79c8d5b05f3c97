"""Posting as a provider does, with the signature over the bytes that are sent.

Lives here: one secret, a verifier of it, and requests. What must not: tests.
"""

from __future__ import annotations

import json
from typing import Any

from django.test import Client

from workflows.api import refused
from workflows.hooks import stripe

SECRET = "whsec_of_the_tests"
signed = stripe(SECRET)


def post(name: str, data: Any, *, sign: Any = signed, client: Client | None = None, **headers: str) -> Any:
    """A signed message; `data` is JSON unless it is bytes already."""
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return send(f"/hooks/{name}", raw, client=client, **{**sign.sign(raw), **headers})


def send(path: str, raw: bytes, *, kind: str = "application/json", client: Client | None = None, **headers: str) -> Any:
    """Just these bytes with just these headers, by somebody who has no token of a form."""
    client = client or Client(enforce_csrf_checks=True, raise_request_exception=False)
    return client.generic("POST", path, raw, content_type=kind, headers=headers)


def counted() -> dict[str, int]:
    """What became of requests so far, as it will be added to the sums."""
    found: dict[str, int] = {}
    for (_, name, outcome), number in refused._drops._counts.items():
        if name == "hooks":
            found[outcome] = found.get(outcome, 0) + number
    return found
