"""`/resume/{token}`: whoever holds the token of a callback answers it, without any other key.

Lives here: who gets JSON and who a page (`workflows.callbacks.answer_page`), the order of the questions and the answers
to them. Invariants owned: only POST decides; an unknown, cut off, foreign or cancelled token is told the same 404, byte
for byte; and neither the token nor the address that contains it reaches a log of ours or Django's, because whoever
reads the log could answer with it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, connections, router
from django.http import HttpRequest, HttpResponse

from workflows import store
from workflows.api.completions.completion import complete_at
from workflows.api.completions.completion_checks import LISTS
from workflows.api.refused import count_dropped
from workflows.callbacks.answer_page import answer_person
from workflows.conf import conf
from workflows.definitions import callback_tokens
from workflows.exceptions import InvalidData, InvalidToken, WorkflowError
from workflows.models import Interaction
from workflows.rest.base.json_body import (
    FORM_TYPES,
    count_malformed,
    is_form,
    parse_body,
    parse_form,
    read_bytes,
    refuse_single,
)
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.base.repeated_calls import answer_completion, read_once
from workflows.rest.protocol.bodies import read_as, refuse_without_data
from workflows.rest.protocol.problems import (
    METHOD_NOT_ALLOWED,
    SERVER_ERROR,
    UNAVAILABLE,
    answer_error,
    answer_problem,
)
from workflows.rest.protocol.request_bodies import CompleteBody
from workflows.store import Addressed, Once
from workflows.values.json_text import MISSING

logger = logging.getLogger("workflows")

#: So many threads of a process read at once what somebody without a token sends. A body is judged before its token is,
#: but to read one takes as long as its sender likes; beyond these it is refused by its token alone.
STRANGERS = 4
_strangers = threading.BoundedSemaphore(STRANGERS)

#: A version in a form. Python reads no integer of more than some thousand digits.
_DIGITS = re.compile("[0-9]{1,100}")

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
        found = find_question(token)
    except InvalidToken:
        if _strangers.acquire(blocking=False):
            try:
                _read(request, conf.max_body)
            finally:
                _strangers.release()
        raise
    with count_malformed(found.workspace):
        raw, sent, once = _read(request, conf.max_body, more=lambda: found.cardinality in LISTS)
        body = _unwrap(found.body, sent, form=is_form(request))
    try:
        done = complete_at(
            "id",
            found.id,
            MISSING if body is None else body.data,
            workspace=found.workspace,
            door=DOOR,
            once=once,
            version=None if body is None else body.version,
            too_large=refuse_single(raw),
        )
    except InvalidData:
        if body is not None:
            raise
        raise refuse_without_data() from None
    return answer_completion(done)


def _read(request: HttpRequest, limit: int, more: Callable[[], bool] | None = None) -> tuple[bytes, Any, Once | None]:
    raw = read_bytes(request, limit=limit, forms=True, more=more)
    return raw, parse_form(request, raw) if is_form(request) else parse_body(raw), read_once(request, raw)


def _unwrap(holds: str, sent: Any, *, form: bool) -> CompleteBody | None:
    """The answer in a body, as the question says that partners send it; None where there is none."""
    wrapped = isinstance(sent, dict) and "data" in sent
    if holds == "raw" or (holds == "any" and not (wrapped and sent.keys() <= CompleteBody.model_fields.keys())):
        return CompleteBody.model_construct(data=sent, version=None)
    if not wrapped:
        return None
    if form and _DIGITS.fullmatch(str(sent.get("version", ""))):  # a form has nothing but texts
        sent = {**sent, "version": int(sent["version"])}
    return read_as(CompleteBody, sent)


def find_interaction(token: str) -> tuple[UUID, int]:
    """The interaction a token was made for, and its workspace; `InvalidToken` if that is none of ours."""
    found = find_question(token)
    return found.id, found.workspace


def find_question(token: str) -> Addressed:
    """All of it that bears on an answer."""
    interaction, purpose = callback_tokens.verify_token(token)
    db = connections[router.db_for_write(Interaction)]
    found = store.find_by_token(db, callback_tokens.hash_token(token))
    if found is None:
        raise InvalidToken
    genuine = callback_tokens.check_token(token, workspace=found.workspace, visit=found.visit)
    if not genuine or found.id != interaction or purpose != callback_tokens.RESUME:
        raise InvalidToken
    return found


def _answer_failure() -> HttpResponse:
    logger.exception("/resume failed")
    return answer_problem(SERVER_ERROR, "Something failed here, and has been logged. Send the answer again later.")
