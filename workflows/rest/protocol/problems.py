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
    #: What a caller does about it.
    advice: str

    @property
    def type(self) -> str:
        """The URI; it names, and there is nothing to fetch behind it."""
        return f"urn:holdpoint:problem:{self.slug}"


INVALID_BODY = ProblemKind(
    400, "invalid-body", "The body cannot be read", "Correct the JSON; `detail` says where it ends to be readable."
)
INVALID_REQUEST = ProblemKind(
    400,
    "invalid-request",
    "The request is not usable",
    "Correct what `errors` lists: members of the body, query parameters, headers.",
)
CHOOSE_WORKSPACE = ProblemKind(
    400,
    "choose-workspace",
    "Which workspace?",
    "Name one of the workspaces in `errors` with `?workspace=` or the header `X-Workspace`.",
)
UNAUTHORIZED = ProblemKind(
    401,
    "unauthorized",
    "Not authenticated",
    "Send a key, or log in. A key that is unknown, expired or revoked is told nothing else.",
)
NOT_VERIFIED = ProblemKind(
    401,
    "not-verified",
    "Not signed by the provider",
    "Sign the bytes that are sent with the secret of this hook; `detail` says what is missing.",
)
FORBIDDEN = ProblemKind(
    403, "forbidden", "Not allowed", "Use a key with the scope, or a user with the permission, that `detail` names."
)
REFUSED = ProblemKind(
    403, "refused", "Refused by policy", "The site's own policy said no. Repeating the call changes nothing."
)
NOT_FOUND = ProblemKind(
    404, "not-found", "Not found", "Check the address. What belongs to another workspace is not found either."
)
METHOD_NOT_ALLOWED = ProblemKind(
    405, "method-not-allowed", "Method not allowed", "Use a method that the header `Allow` lists."
)
STALE_VERSION = ProblemKind(
    409,
    "stale-version",
    "It has changed since you looked",
    "Read it again, look at what has changed, and send the new `version`.",
)
ANSWERED_ELSEWHERE = ProblemKind(
    409,
    "answered-elsewhere",
    "Answered through another channel",
    "Answer where `detail` says; this door is not open for this question.",
)
IDEMPOTENCY_CONFLICT = ProblemKind(
    409,
    "idempotency-conflict",
    "The idempotency key came with another body",
    "Take a new `Idempotency-Key`: this one was sent with another body before.",
)
DUPLICATE_KEY = ProblemKind(
    409,
    "duplicate-key",
    "A live instance holds this key",
    "Go on with the instance in `existing`, or start with another `key`.",
)
DUPLICATE_SCHEDULE = ProblemKind(
    409,
    "duplicate-schedule",
    "There is a schedule of this name",
    "Change that one, or choose another `name`.",
)
WORKSPACE_FULL = ProblemKind(
    409,
    "workspace-full",
    "The workspace has as many as it may have",
    "Remove some that are not used any more; the site can raise the limit that `detail` names.",
)
NO_READER = ProblemKind(
    409,
    "no-reader",
    "Its workflow reads no signals",
    "Answer what the instance asks (`complete`), or emit the event that it waits for.",
)
NOT_POSSIBLE = ProblemKind(
    409,
    "not-possible",
    "Not possible in its status",
    "Read the instance: its status allows this no longer, or not yet.",
)
NOT_TAKEN = ProblemKind(
    409,
    "not-taken",
    "Nothing here takes the message now",
    "Send the message again later: what it is about may not be there yet. Nothing was stored.",
)
RESOLVED = ProblemKind(
    410, "resolved", "No longer to be answered", "Nothing is left to do: it was answered, or its deadline has passed."
)
TOO_LARGE = ProblemKind(413, "too-large", "Too large", "Send less, or a reference to it.")
UNSUPPORTED_MEDIA_TYPE = ProblemKind(
    415,
    "unsupported-media-type",
    "Unsupported media type",
    "Send JSON in UTF-8 with `Content-Type: application/json`, not compressed.",
)
INVALID_DATA = ProblemKind(
    422,
    "invalid-data",
    "The data is not acceptable",
    "Correct the fields that `errors` lists; the question stays open.",
)
TOO_COMPLEX = ProblemKind(
    422,
    "too-complex",
    "The data takes too much work to be checked",
    "Send less at once, or in a simpler form; the question stays open.",
)
INVALID_INPUT = ProblemKind(
    422, "invalid-input", "The input is not acceptable", "Correct the fields that `errors` lists; nothing was started."
)
INVALID_SCHEDULE = ProblemKind(
    422,
    "invalid-schedule",
    "The schedule cannot be carried out",
    "Correct what `detail` says: a cron expression that never fires, a zone that is not known, an option that is none.",
)
UNKNOWN_WORKFLOW = ProblemKind(
    422,
    "unknown-workflow",
    "There is no such workflow",
    "Check the name. The workflow has to be deployed on this site.",
)
UNKNOWN_QUEUE = ProblemKind(
    422,
    "unknown-queue",
    "There is no such queue",
    "Name a queue of `GET /v1/queues`; a workflow or the setting QUEUES makes another one.",
)
UNKNOWN_POINT = ProblemKind(
    422,
    "unknown-point",
    "The instance has no such point",
    "Name one of the calls, steps or stages that `detail` lists.",
)
INSTANCE_FAILED = ProblemKind(
    422, "instance-failed", "The instance has failed", "Read `error`. Retry the instance once its cause is mended."
)
INSTANCE_CANCELLED = ProblemKind(
    422,
    "instance-cancelled",
    "The instance was cancelled",
    "The instance ended without a result. Start a new one if it is still wanted.",
)
TOO_MANY = ProblemKind(
    429, "too-many-requests", "Too many requests", "Wait the seconds in `Retry-After`, then go on more slowly."
)
SERVER_ERROR = ProblemKind(
    500,
    "server-error",
    "Server error",
    "Try again later with the same `Idempotency-Key`. The site's log has the reason.",
)
UNAVAILABLE = ProblemKind(
    503,
    "unavailable",
    "Not available right now",
    "Wait the seconds in `Retry-After`, then send the same again with its `Idempotency-Key`.",
)

NOTHING_HERE = "There is nothing under this address for you: check that it was copied in full."

NO_TARGET = "No live instance of yours has this key or id: it was never started, or has ended. Nothing was stored."

#: Classes before the classes that they derive from.
KINDS: Mapping[type[WorkflowError], ProblemKind] = {
    exceptions.InvalidToken: NOT_FOUND,
    exceptions.UnknownInteraction: NOT_FOUND,
    exceptions.NoTarget: NOT_FOUND,
    exceptions.UnknownSchedule: NOT_FOUND,
    exceptions.UnknownWorkspace: NOT_FOUND,
    exceptions.InvalidSignalId: NOT_FOUND,
    exceptions.UnknownLimit: NOT_FOUND,
    exceptions.UnknownWorkflow: UNKNOWN_WORKFLOW,
    exceptions.UnknownQueue: UNKNOWN_QUEUE,
    exceptions.DuplicateKey: DUPLICATE_KEY,
    exceptions.DuplicateSchedule: DUPLICATE_SCHEDULE,
    exceptions.WorkspaceFull: WORKSPACE_FULL,
    exceptions.ScheduleBusy: NOT_POSSIBLE,
    exceptions.NoReader: NO_READER,
    exceptions.NotCancellable: NOT_POSSIBLE,
    exceptions.NotRetryable: NOT_POSSIBLE,
    exceptions.NotRedrivable: NOT_POSSIBLE,
    exceptions.NotForkable: NOT_POSSIBLE,
    exceptions.UnknownPoint: UNKNOWN_POINT,
    exceptions.StaleVersion: STALE_VERSION,
    exceptions.AnswerElsewhere: ANSWERED_ELSEWHERE,
    exceptions.IdempotencyConflict: IDEMPOTENCY_CONFLICT,
    exceptions.InteractionResolved: RESOLVED,
    exceptions.PolicyRefused: REFUSED,
    exceptions.TooComplex: TOO_COMPLEX,
    exceptions.InvalidData: INVALID_DATA,
    exceptions.InvalidInput: INVALID_INPUT,
    exceptions.InvalidSchedule: INVALID_SCHEDULE,
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
