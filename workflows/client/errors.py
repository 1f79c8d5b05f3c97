"""What can go wrong with a call: one tree, each class names a condition.

    ApiError                        `.status .type .title .detail .errors`
    ├── ConnectionFailed            no whole answer came (`.status` is 0); whether the call took effect is not known
    │   └── Untrusted               the site's certificate does not hold; nothing was sent
    ├── UnexpectedAnswer            an answer came that this API does not give
    │   └── Redirected              the site is somewhere else; nothing is followed, and the key stays here
    ├── NotFinished                 `wait()` ran out of time; `.instance`
    ├── InstanceFailed              `wait()` for one that has failed; `.instance`
    ├── InstanceCancelled           `wait()` for one that was cancelled; `.instance`
    ├── InvalidRequest              400
    ├── Unauthorized                401
    ├── Forbidden                   403
    ├── NotFound                    404
    ├── Conflict                    409
    │   ├── DuplicateKey            a live instance holds the key; `.existing` is its id
    │   ├── DuplicateSchedule       there is a schedule of the name
    │   ├── WorkspaceFull           the workspace has as many schedules or limits as it may have
    │   ├── StaleVersion            it has changed since the version that was named
    │   ├── AnsweredElsewhere       its channel takes the answer, this door does not
    │   ├── IdempotencyConflict     the idempotency key came with another body before
    │   └── NotPossible             not in the status that it has
    ├── Gone                        410, answered already or too late
    ├── TooLarge                    413
    ├── InvalidData                 422; `.errors` maps a place to what is wrong there
    │   ├── InvalidInput            of a workflow
    │   ├── UnknownWorkflow
    │   ├── UnknownPoint            of a fork; `.detail` names those there are
    │   ├── UnknownQueue
    │   └── InvalidSchedule         one that cannot be carried out
    ├── TooManyRequests             429; `.retry_after` in seconds
    └── ServerError                 5xx
        └── Unavailable             502, 503, 504; `.retry_after` in seconds, if it was told

Invariant owned: what a server sends decides which error it is and what it says, never whether there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from workflows.client.values import Instance, read_value

_URN = "urn:holdpoint:problem:"


class ApiError(Exception):
    """A call that did not do what it was meant to."""

    def __init__(
        self, status: int, type: str, title: str, detail: str = "", errors: Mapping[str, list[str]] | None = None
    ) -> None:
        self.status, self.type, self.title, self.detail = status, type, title, detail
        self.errors: dict[str, list[str]] = dict(errors or {})
        # All of them, so that the error survives being pickled on its way between processes.
        super().__init__(status, type, title, detail, self.errors)

    def __str__(self) -> str:
        told = f"{self.title}: {self.detail}" if self.detail else self.title
        return f"{self.status} {told}" if self.status else told


class ConnectionFailed(ApiError):
    """No whole answer came. The call may have taken effect: repeat it with the same idempotency key."""


class Untrusted(ConnectionFailed):
    """The site's certificate does not hold, so nothing was sent. `SSL_CERT_FILE` names further authorities."""


class UnexpectedAnswer(ApiError):
    """Something answered that does not speak this API; look at `base_url`, and at what stands in between."""


class Redirected(UnexpectedAnswer):
    """The site sent us elsewhere. Give the final address as `base_url`."""


class InstanceError(ApiError):
    """`wait()` has no result to give; `.instance` is the instance as it was last seen."""

    instance: Instance


class NotFinished(InstanceError):
    """The time is over and the instance is not. Wait again."""


class InstanceFailed(InstanceError):
    """The instance has failed; `.instance.error` says of what."""


class InstanceCancelled(InstanceError):
    """The instance was cancelled."""


class InvalidRequest(ApiError):
    """A member or parameter is missing, unknown or of the wrong type; `.errors` says which."""


class Unauthorized(ApiError):
    """The key opens nothing: mistyped, revoked, expired, or not sent."""


class Forbidden(ApiError):
    """The key does not open this, or the project's policy said no."""


class NotFound(ApiError):
    """Nothing there for this key: unknown, of another workspace, ended or cancelled."""


class Conflict(ApiError):
    """Something else came first."""


class DuplicateKey(Conflict):
    """A live instance holds the key; `.existing` is its id."""

    existing: UUID | None = None


class DuplicateSchedule(Conflict):
    """There is a schedule of the name."""


class WorkspaceFull(Conflict):
    """The workspace has as many schedules, or limits set at run time, as it may have."""


class StaleVersion(Conflict):
    """The interaction has changed since the version that was named: look again."""


class AnsweredElsewhere(Conflict):
    """The interaction's channel takes the answer, and this door does not."""


class IdempotencyConflict(Conflict):
    """The idempotency key came with another body before."""


class NotPossible(Conflict):
    """The instance is not in a status in which this can be done."""


class Gone(ApiError):
    """It has been answered already, or its time is over."""


class TooLarge(ApiError):
    """The body is larger than the site takes."""


class InvalidData(ApiError):
    """The data does not fit; `.errors` maps a place to what is wrong there."""


class InvalidInput(InvalidData):
    """The workflow does not accept this input."""


class UnknownWorkflow(InvalidData):
    """The site has no workflow of that name."""


class InvalidSchedule(InvalidData):
    """The schedule cannot be carried out: a cron expression that never fires, a zone that is not known."""


class UnknownPoint(InvalidData):
    """The instance has no such call, step or stage; `.detail` names those it has."""


class UnknownQueue(InvalidData):
    """The site has no queue of that name."""


class Postponed(ApiError):
    """Not now; `.retry_after` is how many seconds the server asks to wait, if it does."""

    retry_after: float | None = None


class TooManyRequests(Postponed):
    """The key calls more often than it may."""


class ServerError(ApiError):
    """The server failed."""


class Unavailable(ServerError, Postponed):
    """The server, or what stands before it, cannot answer now."""


_BY_TYPE: Mapping[str, type[ApiError]] = {
    "duplicate-key": DuplicateKey,
    "duplicate-schedule": DuplicateSchedule,
    "workspace-full": WorkspaceFull,
    "stale-version": StaleVersion,
    "answered-elsewhere": AnsweredElsewhere,
    "idempotency-conflict": IdempotencyConflict,
    "not-possible": NotPossible,
    "invalid-input": InvalidInput,
    "unknown-workflow": UnknownWorkflow,
    "invalid-schedule": InvalidSchedule,
    "unknown-point": UnknownPoint,
    "unknown-queue": UnknownQueue,
    "instance-failed": InstanceFailed,
    "instance-cancelled": InstanceCancelled,
}

_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: InvalidData,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def read_problem(status: int, body: Any, *, retry_after: float | None = None) -> ApiError:
    """The error that an answer from 400 up tells; `body` is its JSON, or None if it had none.

    >>> read_problem(404, {"type": "urn:holdpoint:problem:not-found", "title": "Not found", "detail": "Look."})
    NotFound(404, 'urn:holdpoint:problem:not-found', 'Not found', 'Look.', {})
    """
    told = body if isinstance(body, Mapping) else {}
    type = _read_text(told.get("type")) or "about:blank"
    kind = _BY_TYPE.get(type.removeprefix(_URN)) or _BY_STATUS.get(status)
    if kind is None:
        kind = ServerError if status >= 500 else ApiError
    title = _read_text(told.get("title")) or "The server refused, and did not say why"
    error = kind(status, type, title, _read_text(told.get("detail")), _read_errors(told.get("errors")))
    if isinstance(error, Postponed):
        error.retry_after = retry_after
    if isinstance(error, DuplicateKey):
        error.existing = _read_id(told.get("existing"))
    if isinstance(error, InstanceError):
        try:
            error.instance = read_value(Instance, {**told, "status": told.get("instance_status")})
        except ValueError as problem:
            return refuse_answer(status, str(problem))
    return error


def refuse_answer(status: int, problem: str) -> UnexpectedAnswer:
    """The error for an answer that cannot be understood."""
    return UnexpectedAnswer(status, "about:blank", "This is no answer of the API", f"{problem}.")


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _read_id(value: Any) -> UUID | None:
    try:
        return UUID(value)
    except (TypeError, ValueError, AttributeError):
        return None


def _read_errors(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, Mapping):
        return {}
    return {place: [str(one) for one in told] for place, told in value.items() if isinstance(told, list)}
