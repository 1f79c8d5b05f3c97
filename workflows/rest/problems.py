"""Problem details (RFC 9457): the one place that words an error for HTTP.

Lives here: the kinds of problems with their addresses, which error is which kind, and the response. Invariants
owned: every error answer has `type title status detail`; the answer for "not found" is the same bytes whatever
was asked for and whoever asks; nothing that a caller sent is repeated at length or unescaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.http import HttpResponse

from workflows import exceptions
from workflows.exceptions import WorkflowError

CONTENT_TYPE = "application/problem+json"
#: A detail may quote a key or a number from the body, which may be as long as a body may be.
LONGEST = 500
#: Places, and reasons at one place, that an answer lists; whoever sent more mistakes sees these first.
MOST_ERRORS = 100


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """A kind of problem; `type` is its stable name for programs, `title` the same for people."""

    status: int
    slug: str
    title: str

    @property
    def type(self) -> str:
        """The URI; it names, and there is nothing to fetch behind it."""
        return f"urn:holdpoint:problem:{self.slug}"


INVALID_BODY = ProblemKind(400, "invalid-body", "The body cannot be read")
INVALID_REQUEST = ProblemKind(400, "invalid-request", "The request is not usable")
CHOOSE_WORKSPACE = ProblemKind(400, "choose-workspace", "Which workspace?")
UNAUTHORIZED = ProblemKind(401, "unauthorized", "Not authenticated")
NOT_VERIFIED = ProblemKind(401, "not-verified", "Not signed by the provider")
FORBIDDEN = ProblemKind(403, "forbidden", "Not allowed")
REFUSED = ProblemKind(403, "refused", "Refused by policy")
NOT_FOUND = ProblemKind(404, "not-found", "Not found")
METHOD_NOT_ALLOWED = ProblemKind(405, "method-not-allowed", "Method not allowed")
STALE_VERSION = ProblemKind(409, "stale-version", "It has changed since you looked")
ANSWERED_ELSEWHERE = ProblemKind(409, "answered-elsewhere", "Answered through another channel")
IDEMPOTENCY_CONFLICT = ProblemKind(409, "idempotency-conflict", "The idempotency key came with another body")
DUPLICATE_KEY = ProblemKind(409, "duplicate-key", "A live instance holds this key")
NO_READER = ProblemKind(409, "no-reader", "Its workflow reads no signals")
NOT_POSSIBLE = ProblemKind(409, "not-possible", "Not possible in its status")
NOT_TAKEN = ProblemKind(409, "not-taken", "Nothing here takes the message now")
RESOLVED = ProblemKind(410, "resolved", "No longer to be answered")
TOO_LARGE = ProblemKind(413, "too-large", "Too large")
UNSUPPORTED_MEDIA_TYPE = ProblemKind(415, "unsupported-media-type", "Unsupported media type")
INVALID_DATA = ProblemKind(422, "invalid-data", "The data is not acceptable")
TOO_COMPLEX = ProblemKind(422, "too-complex", "The data takes too much work to be checked")
INVALID_INPUT = ProblemKind(422, "invalid-input", "The input is not acceptable")
UNKNOWN_WORKFLOW = ProblemKind(422, "unknown-workflow", "There is no such workflow")
INSTANCE_FAILED = ProblemKind(422, "instance-failed", "The instance has failed")
INSTANCE_CANCELLED = ProblemKind(422, "instance-cancelled", "The instance was cancelled")
TOO_MANY = ProblemKind(429, "too-many-requests", "Too many requests")
SERVER_ERROR = ProblemKind(500, "server-error", "Server error")
UNAVAILABLE = ProblemKind(503, "unavailable", "Not available right now")

NOTHING_HERE = "There is nothing under this address for you: check that it was copied in full."

NO_TARGET = "No live instance of yours has this key or id: it was never started, or has ended. Nothing was stored."

#: Classes before the classes that they derive from.
KINDS: Mapping[type[WorkflowError], ProblemKind] = {
    exceptions.InvalidToken: NOT_FOUND,
    exceptions.UnknownInteraction: NOT_FOUND,
    exceptions.NoTarget: NOT_FOUND,
    exceptions.UnknownWorkspace: NOT_FOUND,
    exceptions.InvalidSignalId: NOT_FOUND,
    exceptions.UnknownWorkflow: UNKNOWN_WORKFLOW,
    exceptions.DuplicateKey: DUPLICATE_KEY,
    exceptions.NoReader: NO_READER,
    exceptions.NotCancellable: NOT_POSSIBLE,
    exceptions.NotRetryable: NOT_POSSIBLE,
    exceptions.NotRedrivable: NOT_POSSIBLE,
    exceptions.StaleVersion: STALE_VERSION,
    exceptions.AnswerElsewhere: ANSWERED_ELSEWHERE,
    exceptions.IdempotencyConflict: IDEMPOTENCY_CONFLICT,
    exceptions.InteractionResolved: RESOLVED,
    exceptions.PolicyRefused: REFUSED,
    exceptions.TooComplex: TOO_COMPLEX,
    exceptions.InvalidData: INVALID_DATA,
    exceptions.InvalidInput: INVALID_INPUT,
    exceptions.ProjectionFailed: INVALID_DATA,
    exceptions.TooLarge: TOO_LARGE,
    exceptions.NotSerializable: INVALID_BODY,
    exceptions.InvalidCall: INVALID_REQUEST,
}


class RequestRefused(WorkflowError):
    """A request that ends here, with the kind of problem it has."""

    def __init__(
        self,
        kind: ProblemKind,
        detail: str,
        *,
        errors: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.kind, self.detail, self.errors, self.headers = kind, detail, errors, headers
        super().__init__(detail)


def answer_error(error: WorkflowError) -> HttpResponse | None:
    """The answer to a caller whose request led to this error; None if the error is not the caller's."""
    body = describe_error(error)
    headers = error.headers if isinstance(error, RequestRefused) else None
    return None if body is None else _answer(body, headers)


def describe_error(error: WorkflowError) -> dict[str, object] | None:
    """The members of the problem that this error is; None if the error is not the caller's."""
    if isinstance(error, RequestRefused):
        return describe_problem(error.kind, error.detail, errors=error.errors)
    kind = next((kind for known, kind in KINDS.items() if isinstance(error, known)), None)
    if kind is None:
        return None
    if kind is NOT_FOUND:
        return describe_problem(NOT_FOUND, NO_TARGET if isinstance(error, exceptions.NoTarget) else NOTHING_HERE)
    if isinstance(error, exceptions.PolicyRefused):
        told = error.reason or "it gives no reason"
        return describe_problem(kind, f"The policy of this site does not allow it: {told}.")
    if isinstance(error, exceptions.InvalidData | exceptions.InvalidInput):
        whole = "input" if kind is INVALID_INPUT else "data"
        fields = {place or whole: _list_reasons(reasons) for place, reasons in error.errors.items()}
        return describe_problem(kind, str(error), errors=fields)
    if isinstance(error, exceptions.DuplicateKey) and error.instance is not None:
        return describe_problem(kind, str(error)) | {"existing": str(error.instance.pk)}
    return describe_problem(kind, str(error))


def answer_problem(
    kind: ProblemKind,
    detail: str,
    *,
    errors: Mapping[str, Sequence[str]] | None = None,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, object] | None = None,
) -> HttpResponse:
    """The response. `errors` maps a field to what is wrong with it; `members` is what else there is to tell."""
    return _answer(describe_problem(kind, detail, errors=errors) | dict(members or {}), headers)


def describe_problem(
    kind: ProblemKind, detail: str, *, errors: Mapping[str, Sequence[str]] | None = None
) -> dict[str, object]:
    """The members of a problem, for a body of its own or for one line of many."""
    body: dict[str, object] = {
        "type": kind.type,
        "title": kind.title,
        "status": kind.status,
        "detail": _make_showable(detail),
    }
    if errors is not None:
        body["errors"] = {
            _make_showable(place): [_make_showable(reason) for reason in reasons[:MOST_ERRORS]]
            for place, reasons in islice(errors.items(), MOST_ERRORS)
        }
    return body


def _answer(body: Mapping[str, object], headers: Mapping[str, str] | None) -> HttpResponse:
    return HttpResponse(json.dumps(body), status=int(str(body["status"])), content_type=CONTENT_TYPE, headers=headers)


def _list_reasons(reasons: object) -> list[str]:
    """An input's errors are whatever its `accepts` said: a text, or some."""
    if isinstance(reasons, str) or not isinstance(reasons, Sequence):
        return [str(reasons)]
    return [str(reason) for reason in reasons]


def _make_showable(text: str) -> str:
    """Bounded, and free of what a strict reader of JSON refuses (lone surrogates)."""
    shown = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return shown.encode(errors="backslashreplace").decode()
