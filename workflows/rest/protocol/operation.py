"""One operation of the API, as the OpenAPI document describes it.

Lives here: the decorator of a view's method, and the parameters and problems that many operations share. Must not live
here: the document (`rest.schema.openapi`). Invariant owned: every operation names each status that it can answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast
from uuid import UUID

from drf_spectacular.contrib.pydantic import PydanticExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ResolvedComponent
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from pydantic import RootModel

from workflows.api.idempotency import LONGEST_KEY
from workflows.rest.protocol.bodies import SEEN, Shape
from workflows.rest.protocol.problems import CONTENT_TYPE
from workflows.rest.protocol.response_bodies import ProblemOut

F = TypeVar("F", bound=Callable[..., Any])

PROBLEMS = {
    400: "The body, or a parameter, cannot be used: `errors` says which and why.",
    401: "No key or session, or none that opens anything.",
    403: "The key lacks the scope, the user the permission, or a rule forbids it; or the workspace is another's.",
    404: "There is nothing under this address for the caller.",
    409: "It does not fit what is there; `type` tells which rule.",
    410: "Answered already, or past its deadline.",
    413: "The body is too large; the limit is named.",
    415: "The body is not `application/json`.",
    422: "The data is not acceptable; `errors` says where.",
    429: "Too many calls: `Retry-After` says when to come back.",
    500: "Something failed here, and has been logged.",
    503: "The database cannot be used at the moment: `Retry-After`.",
}
ALWAYS = (400, 401, 403, 429, 500, 503)
WITH_BODY = (409, 413, 415)

WORKSPACE = (
    OpenApiParameter(
        "workspace",
        str,
        description="Which of the workspaces a logged in user means. A key has one workspace.",
    ),
    OpenApiParameter("X-Workspace", str, OpenApiParameter.HEADER, description="Like `workspace`, as a header."),
)
PAGING = (
    OpenApiParameter(
        "limit",
        {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        description="How many rows at most.",
    ),
    OpenApiParameter("cursor", str, description="A place in the list, from `next` or `previous` of another page."),
)
IDEMPOTENCY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": SEEN},
    OpenApiParameter.HEADER,
    description="Names this call: sent again with the same body it is told the same answer, with the header "
    "`Idempotency-Replayed: true`; with another body 409.",
)
ID = OpenApiParameter("id", UUID, OpenApiParameter.PATH, description="Its id.")
#: What a list is narrowed down to; `lists.read_filter` reads it.
FILTER: dict[str, Any] = {"type": "string", "maxLength": 1000}
ADDRESS: dict[str, Any] = {"type": "string", "format": "uri-reference"}
#: How a person calls.
PEOPLE: list[dict[str, list[str]]] = [{"session": []}]
SECONDS: dict[str, Any] = {"type": "integer", "minimum": 1}


class ApiSchema(AutoSchema):  # type: ignore[no-untyped-call, unused-ignore]
    """An operation, as `document` describes it."""

    def get_auth(self) -> list[dict[str, list[str]]]:
        """A key, or a session."""
        return [{"key": []}, *PEOPLE]

    def _get_parameters(self) -> list[dict[str, Any]]:
        """Blank query parameters are as if they were not there."""
        parameters: list[dict[str, Any]] = super()._get_parameters()
        return [one | ({"allowEmptyValue": True} if one["in"] == "query" else {}) for one in parameters]

    def _get_request_for_media_type(self, serializer: Any, direction: Any = "request") -> tuple[Any, bool]:
        """A list has to be sent, though none of its members is required."""
        schema, required = super()._get_request_for_media_type(serializer, direction)  # type: ignore[no-untyped-call]
        return schema, required or issubclass(serializer, RootModel)


class ModelExtension(PydanticExtension):  # type: ignore[no-untyped-call, unused-ignore]
    """Our types, as they are read: what has a default may be left out, in requests and in answers alike."""

    target_class = f"{Shape.__module__}.{Shape.__qualname__}"
    match_subclasses = True
    priority = 1

    def map_serializer(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        """The JSON Schema, its parts as components."""
        schema: dict[str, Any] = self.target.model_json_schema(ref_template="#/components/schemas/{model}")
        for name, part in schema.pop("$defs", {}).items():
            component = ResolvedComponent(name=name, type=ResolvedComponent.SCHEMA, object=name, schema=part)  # type: ignore[no-untyped-call]
            auto_schema.registry.register_on_missing(component)
        return schema


def document(
    name: str,
    tag: str,
    summary: str,
    description: str = "",
    *,
    answers: Mapping[int, tuple[Any, str]],
    problems: Iterable[int] = (),
    scope: str = "",
    people: bool = False,
    body: Any = None,
    posts: bool = False,
    pages: bool = False,
    parameters: Iterable[OpenApiParameter] = (),
) -> Callable[[F], F]:
    """Describe the method of a view; one for `people` takes no key, whatever its scopes."""
    responses: dict[Any, Any] = {
        (status, "application/json" if status < 400 else CONTENT_TYPE): OpenApiResponse(shape, text)
        for status, (shape, text) in answers.items()
    }
    for status in sorted({*ALWAYS, *problems, *(WITH_BODY if posts else ())} - set(answers)):
        responses[status, CONTENT_TYPE] = OpenApiResponse(ProblemOut, PROBLEMS[status])
    extend: Callable[[F], F] = extend_schema(
        operation_id=name,
        tags=[tag],
        summary=summary,
        description=description,
        request={"application/json": body} if body is not None else None,
        responses=responses,
        parameters=[
            *parameters,
            *(PAGING if pages else ()),
            *((IDEMPOTENCY,) if posts else ()),
            *WORKSPACE,
            *_list_headers([status for status, _ in responses], posts),
        ],
        auth=cast(Any, PEOPLE) if people else None,
        extensions={"x-scope": scope} if scope else None,
    )

    def decorate(method: F) -> F:
        # What is extended would otherwise be the project's DEFAULT_SCHEMA_CLASS.
        method.schema = ApiSchema  # type: ignore[attr-defined]
        return extend(method)

    return decorate


def _list_headers(statuses: list[int], posts: bool) -> Iterable[OpenApiParameter]:
    """The headers of the answers."""
    good = [status for status in statuses if status < 400]
    later = [status for status in statuses if status in (429, 503) or (status == 202 and not posts)]
    yield _make_header("WWW-Authenticate", str, [401], "`Bearer`: send a key.")
    yield _make_header("Retry-After", SECONDS, later, "Seconds to wait before the next call.")
    if 201 in good:
        yield _make_header("Location", ADDRESS, [201], "The address of the instance.")
    if posts:
        text = "Only with an answer that is told again."
        yield _make_header("Idempotency-Replayed", {"type": "string", "const": "true"}, good, text, required=False)


def _make_header(
    name: str, schema: Any, statuses: list[int], description: str, *, required: bool = True
) -> OpenApiParameter:
    return OpenApiParameter(
        name, schema, OpenApiParameter.HEADER, response=statuses, required=required, description=description
    )
