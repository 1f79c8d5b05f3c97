"""The header `Idempotency-Key`, and answers that are told again.

Invariant owned: a repeated call gets the bytes of the first answer, with a header that says so.
"""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from workflows.completion import Completion, write_completion
from workflows.idempotency import make_once
from workflows.store import Once

REPLAYED = "Idempotency-Replayed"


def read_once(request: HttpRequest, raw: bytes) -> Once | None:
    """What tells this call from others, if it named a key; `raw` is its body as it was sent."""
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    return make_once(str(request.method), request.path, key, body=raw)


def answer_completion(done: Completion) -> HttpResponse:
    """200, now or again."""
    return answer_json(write_completion(done), replayed=done.replayed)


def answer_json(text: str, *, status: int = 200, replayed: bool = False) -> HttpResponse:
    """A body that is JSON already."""
    headers = {REPLAYED: "true"} if replayed else None
    return HttpResponse(text, status=status, content_type="application/json", headers=headers)
