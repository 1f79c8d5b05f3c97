"""The header `Idempotency-Key`, and answers that are told again.

Invariant owned: a repeated call gets the bytes of the first answer, with a header that says so.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse

from workflows.api.completions.completion_checks import Completion, write_completion
from workflows.api.idempotency import LONGEST_KEY, make_once
from workflows.exceptions import InvalidCall
from workflows.rest.protocol.problems import INVALID_REQUEST, RequestRefused
from workflows.store import Once
from workflows.values.json_text import check_text

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"


def read_once(request: HttpRequest, raw: bytes, *, within: Sequence[str] | None = None) -> Once | None:
    """What tells this call from others, if it named a key; `raw` is its body as it was sent."""
    key = read_idempotency_key(request)
    return None if key is None else make_once(str(request.method), request.path, key, body=raw, within=within)


def read_idempotency_key(request: HttpRequest) -> str | None:
    """The key that a call names, if it does; 400 if it can be none."""
    key: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is not None:
        try:
            check_text(key, "the idempotency key", limit=LONGEST_KEY)
        except InvalidCall as error:
            raise RequestRefused(INVALID_REQUEST, f"{error}.", errors={HEADER: [str(error)]}) from error
    return key


def answer_completion(done: Completion) -> HttpResponse:
    """200, now or again."""
    return answer_json(write_completion(done), replayed=done.replayed)


def answer_json(text: str, *, status: int = 200, replayed: bool = False) -> HttpResponse:
    """A body that is JSON already."""
    headers = {REPLAYED: "true"} if replayed else None
    return HttpResponse(text, status=status, content_type="application/json", headers=headers)
