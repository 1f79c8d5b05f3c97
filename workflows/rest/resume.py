"""`/resume/{token}`: whoever holds the token of a callback answers it, without any other key.

Lives here: who gets JSON and who a page (`workflows.pages.resume`), the order of the questions and the answers to
them. Invariants owned: only POST decides; an unknown, cut off, foreign or cancelled token is told the same 404, byte
for byte; and neither the token nor the address that contains it reaches a log of ours or Django's, because whoever
reads the log could answer with it.
"""

from __future__ import annotations

import logging
import threading
from typing import Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, connections, router
from django.http import HttpRequest, HttpResponse

from workflows import store, tokens
from workflows.completion import MISSING, complete_at
from workflows.conf import conf
from workflows.dropped import count_dropped
from workflows.exceptions import InvalidData, InvalidToken, WorkflowError
from workflows.models import Interaction
from workflows.pages.posted import FORM_TYPES
from workflows.pages.resume import answer_person
from workflows.rest.bodies import refuse_without_data
from workflows.rest.body import parse_object, read_bytes, refuse_single
from workflows.rest.machines import open_to_machines
from workflows.rest.once import answer_completion, read_once
from workflows.rest.problems import (
    METHOD_NOT_ALLOWED,
    SERVER_ERROR,
    UNAVAILABLE,
    answer_error,
    answer_problem,
)
from workflows.store import Once

logger = logging.getLogger("workflows")

#: So many threads of a process read at once what somebody without a token sends. A body is judged before its token is,
#: but to read one takes as long as its sender likes; beyond these it is refused by its token alone.
STRANGERS = 4
_strangers = threading.BoundedSemaphore(STRANGERS)

#: The door, as the engine's refusals call it.
DOOR = "resume"


@open_to_machines
def resume(request: HttpRequest, token: str) -> HttpResponse:
    """Complete the interaction that the token was made for, or show a person what is asked."""
    token = token.removesuffix("/")
    response = _answer_page(request, token) if _wants_page(request) else _answer(request, token)
    # An answer is nobody's to keep, and the address must not travel on as a referrer.
    response["Cache-Control"] = "no-store"
    response.headers.setdefault("Referrer-Policy", "no-referrer")  # a page with a form knows better
    response["X-Content-Type-Options"] = "nosniff"
    # Django logs the address of every answer from 400 up, unless somebody has done so already.
    response._has_been_logged = True  # type: ignore[attr-defined]
    return response


def _wants_page(request: HttpRequest) -> bool:
    """A browser that looks, or sends our form. Whoever takes anything, as most programs do, is no browser."""
    if request.get_preferred_type(["application/problem+json", "application/json", "text/html"]) != "text/html":
        return False
    return request.method in ("GET", "HEAD") or (request.method == "POST" and request.content_type in FORM_TYPES)


def _answer_page(request: HttpRequest, token: str) -> HttpResponse:
    def find() -> tuple[UUID, int]:
        try:
            return find_interaction(token)
        except InvalidToken:
            if request.method == "POST":  # who only looks drops no answer
                count_dropped(None, "invalid_token")
            raise

    try:
        return answer_person(request, find)
    except Exception:  # not even the page that tells of a failure could be made
        return _answer_failure()


def _answer(request: HttpRequest, token: str) -> HttpResponse:
    if request.method != "POST":
        return answer_problem(
            METHOD_NOT_ALLOWED, "Send the answer with POST; nothing else decides.", headers={"Allow": "POST"}
        )
    try:
        return _complete(request, token)
    except WorkflowError as error:
        if isinstance(error, InvalidToken):
            count_dropped(None, "invalid_token")  # of no workspace, and so in no ledger
        return answer_error(error) or _answer_failure()
    except ImproperlyConfigured as error:
        logger.error("POST /resume cannot be served: %s", error)
        return answer_problem(UNAVAILABLE, "This site is not set up to take answers.", headers={"Retry-After": "300"})
    except (OperationalError, InterfaceError):
        logger.exception("POST /resume: the database cannot be used")
        # It may have been cut off between the commit and its confirmation.
        return answer_problem(
            UNAVAILABLE,
            "It is not certain that the answer was taken: send it again, with its Idempotency-Key if it had one.",
            headers={"Retry-After": "5"},
        )
    except Exception:  # Django would log the address
        return _answer_failure()


def _complete(request: HttpRequest, token: str) -> HttpResponse:
    try:
        interaction, workspace = find_interaction(token)
    except InvalidToken:
        if _strangers.acquire(blocking=False):
            try:
                _read(request, conf.max_body)
            finally:
                _strangers.release()
        raise
    raw, body, once = _read(request, conf.max_bulk_body)
    try:
        done = complete_at(
            "id",
            interaction,
            body.get("data", MISSING),
            workspace=workspace,
            door=DOOR,
            once=once,
            too_large=refuse_single(raw),
        )
    except InvalidData:
        if "data" in body:
            raise
        raise refuse_without_data() from None
    return answer_completion(done)


def _read(request: HttpRequest, limit: int) -> tuple[bytes, dict[str, Any], Once | None]:
    raw = read_bytes(request, limit=limit)
    return raw, parse_object(raw), read_once(request, raw)


def find_interaction(token: str) -> tuple[UUID, int]:
    """The interaction a token was made for, and its workspace; `InvalidToken` if that is none of ours."""
    interaction, purpose = tokens.verify_token(token)
    db = connections[router.db_for_write(Interaction)]
    found = store.find_by_token(db, tokens.hash_token(token))
    if found is None:
        raise InvalidToken
    genuine = tokens.check_token(token, workspace=found.workspace, visit=found.visit)
    if not genuine or found.id != interaction or purpose != tokens.RESUME:
        raise InvalidToken
    return found.id, found.workspace


def _answer_failure() -> HttpResponse:
    logger.exception("/resume failed")
    return answer_problem(SERVER_ERROR, "Something failed here, and has been logged. Send the answer again later.")
