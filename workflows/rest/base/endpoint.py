"""What every address of the API has in common.

Lives here: the order in which a request is judged (who, whether, how often; only then its body), what becomes of an
error, and answers that are told again. Invariants owned: nothing that a project sets for its own REST views changes
ours; a view runs in its caller's workspace; no error leaves as anything but a problem; and a keyed call commits its
effect and its answer together.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, cast
from urllib.parse import quote
from uuid import UUID

from django.core.exceptions import DisallowedHost, PermissionDenied, TooManyFieldsSent
from django.db import InterfaceError, OperationalError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, HttpResponse, QueryDict
from rest_framework import exceptions
from rest_framework.authentication import SessionAuthentication
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import JSONParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from workflows import store
from workflows.api.idempotency import check_told, may_hear
from workflows.conf import conf
from workflows.definitions.workspace import enter
from workflows.exceptions import UnknownWorkflow, WorkflowError
from workflows.models import Instance
from workflows.rest.base.authentication import Caller, Need, find_caller
from workflows.rest.base.ids import refuse_unknown
from workflows.rest.base.json_body import parse_body, read_bytes
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.base.repeated_calls import answer_json, read_idempotency_key, read_once
from workflows.rest.base.throttle import count_call
from workflows.rest.protocol.operation import ApiSchema
from workflows.rest.protocol.problems import (
    FORBIDDEN,
    INVALID_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    SERVER_ERROR,
    UNAVAILABLE,
    answer_error,
    answer_problem,
)
from workflows.store import Once, Told

logger = logging.getLogger("workflows")

#: Stands between a workflow's name and its number where an error names both.
VERSION = " version "


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """What a call that changes something is told."""

    body: Mapping[str, Any]
    status: int = 200
    #: Whose life the stored answer shares.
    instance: UUID | None = None

    def write(self) -> str:
        """The body."""
        return json.dumps(self.body)


class AlwaysJson(BaseContentNegotiation):
    """There is one representation, whatever is asked for."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        """Bodies are read by `json_body`."""
        return parsers[0]

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        """JSON."""
        return renderers[0], renderers[0].media_type


class Endpoint(APIView):
    """One address. `needs` says what each method takes."""

    needs: ClassVar[Mapping[str, Need]] = {}
    #: Whether a body carries many things, and so may be as large as `MAX_BULK_BODY`.
    bulk: ClassVar[bool] = False
    #: Refusals that leave a trace, such as a row of the ledger, which has to be kept though no answer is.
    traced: ClassVar[tuple[type[Exception], ...]] = ()

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()
    parser_classes = (JSONParser,)
    renderer_classes = (JSONRenderer,)
    content_negotiation_class = AlwaysJson
    metadata_class = None
    versioning_class = None
    schema = ApiSchema()
    http_method_names: Sequence[str] = ("get", "head", "post")

    caller: Caller

    @classmethod
    def as_view(cls, **options: Any) -> Any:
        """Outside of the project's transactions and logins: each call knows its caller and its own transaction."""
        return open_to_machines(super().as_view(**options))

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        """Handle the request; whatever it entered is left again."""
        with ExitStack() as self.left_afterwards:
            response = super().dispatch(request, *args, **kwargs)
            response["Cache-Control"] = "no-store"
            response["X-Content-Type-Options"] = "nosniff"
            return response

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Judge the request before its body is read."""
        plain: HttpRequest = request._request
        self.caller = find_caller(plain)
        if self.caller.user is not None:
            # The plain request, and without a form: to look for a token in the body would be to read it.
            cast(Any, plain).POST = QueryDict()
            SessionAuthentication().enforce_csrf(cast(Request, plain))
        if (method := str(request.method).lower()) in self.http_method_names and hasattr(self, method):
            self.judge()
        count_call(self.caller.actor, self.caller.rate)
        self.left_afterwards.enter_context(enter(self.caller.workspace))

    def judge(self) -> None:
        """Whether the caller may make this call; a method for which nothing is said is nobody's."""
        self.caller.check(self.needs[str(self.request.method).replace("HEAD", "GET")])

    def handle_exception(self, exc: Exception) -> Any:
        """Every error is a problem; a key for some workflows is told no name of others."""
        caller = getattr(self, "caller", None)
        if isinstance(exc, UnknownWorkflow) and caller is not None and caller.workflows is not None:
            known = [name for name in exc.known if caller.sees(name.partition(VERSION)[0])]
            exc = UnknownWorkflow(exc.workflow, known)
        return answer_exception(exc, self.headers)

    @property
    def answers_within(self) -> Sequence[str] | None:
        """Whose idempotency keys these are, where they are not everybody's of the workspace."""
        return None

    @property
    def db(self) -> BaseDatabaseWrapper:
        """The connection that the engine writes on."""
        return connections[router.db_for_write(Instance)]

    def read_body(
        self, request: Request, *, empty: bool = False, more: Callable[[], bool] | None = None
    ) -> tuple[bytes, Any]:
        """The body as it was sent, and its JSON value; `empty` bodies read as {} where nothing has to be said."""
        most = conf.max_bulk_body if self.bulk else conf.max_body
        raw = read_bytes(request._request, limit=most, empty=empty, more=more)
        value = parse_body(raw) if raw or not empty else {}
        read_idempotency_key(request._request)  # which is judged with the body, before anything is looked for
        return raw, value

    def answer_once(self, request: Request, raw: bytes, work: Callable[[], ChangeAnswer]) -> HttpResponse:
        """Do it, or tell again what the same call was told before."""
        once = read_once(request._request, raw, within=self.answers_within)
        if once is None:
            answer = work()
            return self.tell(request, Told(b"", answer.status, answer.write(), answer.instance))
        workspace = self.caller.workspace

        def carry_out() -> HttpResponse | Exception:
            before = store.reserve_answer(self.db, workspace, once)
            if before is not None:
                return self.tell(request, self.hear_again(once, before), replayed=True)
            try:
                answer = work()
            except self.traced as refused:
                store.release_answer(self.db, workspace, once)
                return refused
            told = Told(once.body_hash, answer.status, answer.write(), answer.instance)
            store.keep_answer(self.db, workspace, once, told)
            return self.tell(request, told)

        done = store.in_transaction(self.db, carry_out)
        if isinstance(done, Exception):
            raise done
        return done

    def tell(self, request: Request, told: Told, *, replayed: bool = False) -> HttpResponse:
        """The answer, with the address of what was made."""
        response = answer_json(told.body, status=told.status, replayed=replayed)
        if told.status == 201:
            response["Location"] = self.locate(self.find_list(request.path), json.loads(told.body))
        return response

    def find_list(self, path: str) -> str:
        """The address of the list that has what a call to this address makes."""
        return path

    def hear_again(self, once: Once, before: Told) -> Told:
        """What this caller is told of an earlier answer. Of one that is not theirs nothing, and it is not made anew."""
        same = before.body_hash == once.body_hash
        if not may_hear(before, self.caller.workflows) and (same or self.kwargs):
            raise self.refuse_missing()
        check_told(once, before)
        return before

    def refuse_missing(self) -> WorkflowError:
        """What is told of a thing that is not there."""
        return refuse_unknown()

    def locate(self, path: str, body: Mapping[str, Any]) -> str:
        """The address of what is in the list at `path`."""
        return f"{path}/{quote(str(body['id']))}"


@open_to_machines
def answer_unknown(request: HttpRequest) -> HttpResponse:
    """Whatever is no address of the API."""
    return answer_problem(NOT_FOUND, "There is no such address. The addresses are listed at …/v1/docs.")


def answer_exception(error: Exception, headers: Mapping[str, str]) -> HttpResponse:
    """The answer to a request that led to this error."""
    if isinstance(error, WorkflowError) and (answer := answer_error(error)) is not None:
        return answer
    if isinstance(error, exceptions.MethodNotAllowed):
        allowed = headers.get("Allow", "")
        return answer_problem(METHOD_NOT_ALLOWED, f"There is {allowed} here.", headers={"Allow": allowed})
    if isinstance(error, exceptions.PermissionDenied | PermissionDenied):
        return answer_problem(FORBIDDEN, f"{getattr(error, 'detail', error)} Send the CSRF token with the session.")
    if isinstance(error, exceptions.APIException) and error.status_code < 500:
        return answer_problem(INVALID_REQUEST, str(error.detail))
    if isinstance(error, DisallowedHost):
        return answer_problem(INVALID_REQUEST, "The header Host names none of this site's hosts.")
    if isinstance(error, TooManyFieldsSent):
        return answer_problem(INVALID_REQUEST, "The address has more parameters than this site reads.")
    if isinstance(error, OperationalError | InterfaceError):
        logger.exception("the API cannot use the database")
        return answer_problem(
            UNAVAILABLE,
            "The database cannot be used. A call that only reads can be repeated; whether any other was carried out is "
            "not certain: send it again, with its Idempotency-Key if it had one.",
            headers={"Retry-After": "5"},
        )
    logger.exception("the API failed")
    return answer_problem(SERVER_ERROR, "Something failed here, and has been logged. Try again later.")
