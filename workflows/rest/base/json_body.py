"""Reading a request's body: its bytes within limits, as JSON or as a form.

Lives here: media type, size, and the refusal of a body that cannot be read. Must not live here: the grammar of JSON,
which is `json_reader`'s. Invariants owned: no more than the limit is ever held in memory; a body that is shorter than
was announced is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, NoReturn
from urllib.parse import parse_qsl

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.files.uploadhandler import FileUploadHandler
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, UnreadablePostError
from django.http.multipartparser import MultiPartParser, MultiPartParserError
from django.utils.http import parse_header_parameters

from workflows.api.refused import count_dropped
from workflows.conf import conf
from workflows.rest.protocol.problems import (
    INVALID_BODY,
    INVALID_REQUEST,
    TOO_LARGE,
    UNAVAILABLE,
    UNSUPPORTED_MEDIA_TYPE,
    RequestRefused,
)
from workflows.values.json_reader import TooManyValues, UnreadableJson, check_kept, decode_text, parse_json

MEDIA_TYPE = "application/json"
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")

_BROKEN = "at its end: the connection broke before the whole body was sent"


def read_bytes(
    request: HttpRequest,
    *,
    limit: int | None = None,
    empty: bool = False,
    forms: bool = False,
    any_type: bool = False,
    more: Callable[[], bool] | None = None,
) -> bytes:
    """The body as it was sent, of at most `limit` bytes (`MAX_BODY` if none is given); 415, 413 or 400 otherwise,
    and 503 where the server gave up waiting for it.

    An `empty` one may be of no media type; with `forms` it may be a form's; with `any_type` whatever its sender says
    it is. `more` is asked only for a body that is larger than the limit: whether up to `MAX_BULK_BODY` of it shall be
    read all the same.
    """
    most = conf.max_body if limit is None else limit
    if more is not None:
        most = min(most, conf.max_bulk_body)
    if empty and not _read_length(request) and "HTTP_TRANSFER_ENCODING" not in request.META:
        # HTTP/2 announces nothing; WSGI reads nothing that was not announced.
        if isinstance(request, WSGIRequest) or not (raw := _read_bytes(request, most)):
            return b""
        _check_media_type(request)
        return raw
    if any_type:
        _check_encoding(request)
    else:
        _check_media_type(request, forms=forms)
    return _read_bytes(request, most, more)


@contextmanager
def count_malformed(workspace: int) -> Iterator[None]:
    """Count an answer that cannot be read as one that was dropped; its refusal goes on."""
    try:
        yield
    except RequestRefused as refused:
        if refused.kind in (INVALID_BODY, INVALID_REQUEST, TOO_LARGE, UNSUPPORTED_MEDIA_TYPE):
            count_dropped(workspace, "malformed")
        raise


def is_form(request: HttpRequest) -> bool:
    """Whether a body says that it is a form's."""
    return parse_header_parameters(request.META.get("CONTENT_TYPE", ""))[0] in FORM_TYPES


def parse_form(request: HttpRequest, raw: bytes) -> dict[str, Any]:
    """The fields of a form; one that came several times is a list."""
    with _refuse_unreadable():
        text = decode_text(raw)
    most = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    try:
        if request.content_type == FORM_TYPES[0]:
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=most)
        else:
            posted, _files = MultiPartParser(request.META, BytesIO(raw), [_NoFiles()], "utf-8").parse()
            _check_end(request, raw)
            pairs = [(name, value) for name, values in posted.lists() for value in values]
    except (ValueError, SuspiciousOperation, MultiPartParserError) as error:
        _refuse(f"at its fields: this is no form in UTF-8 of at most {most} fields ({type(error).__name__})")
    if not pairs:
        _refuse("at its fields: there are none")
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    with _refuse_unreadable():
        kept: dict[str, Any] = check_kept({name: one[0] if len(one) == 1 else one for name, one in fields.items()})
    return kept


def _check_end(request: HttpRequest, raw: bytes) -> None:
    """The last part ends with a mark; without it a body that came without a length may have been cut off."""
    boundary = (request.content_params or {}).get("boundary", "")
    if f"--{boundary}--".encode() not in raw:
        _refuse(_BROKEN)


class _NoFiles(FileUploadHandler):
    def new_file(self, *args: Any, **kwargs: Any) -> None:
        raise RequestRefused(UNSUPPORTED_MEDIA_TYPE, "Files are not taken here: send a reference to each instead.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        """Never called."""

    def file_complete(self, file_size: int) -> None:
        """Never called."""


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; `RequestRefused` with 400 otherwise.

    >>> parse_object(b'{"data": 1}')
    {'data': 1}
    """
    value = parse_body(raw)
    if not isinstance(value, dict):
        _refuse('at $: the body must be a JSON object, such as {"data": …}')
    return value


def parse_body(raw: bytes) -> Any:
    """The value of a JSON body; `RequestRefused` with 400 or 413 otherwise.

    >>> parse_body(b"[1]")
    [1]
    """
    with _refuse_unreadable():
        return parse_json(raw)


@contextmanager
def _refuse_unreadable() -> Iterator[None]:
    try:
        yield
    except TooManyValues as error:
        raise RequestRefused(TOO_LARGE, str(error)) from error
    except UnreadableJson as error:
        raise RequestRefused(INVALID_BODY, str(error)) from error


def refuse_size(limit: int) -> RequestRefused:
    """What is told of a body that is larger than its limit."""
    return RequestRefused(TOO_LARGE, f"The body is larger than {limit} bytes, the limit. Send a reference instead.")


def refuse_single(raw: bytes) -> RequestRefused | None:
    """The same of a body that is read because it may be a list of answers, where it turns out to be one answer."""
    return refuse_size(conf.max_body) if len(raw) > conf.max_body else None


def _check_media_type(request: HttpRequest, *, forms: bool = False) -> None:
    kind, parameters = parse_header_parameters(request.META.get("CONTENT_TYPE", ""))
    charset = parameters.get("charset", "utf-8").lower()
    if (kind != MEDIA_TYPE and not (forms and kind in FORM_TYPES)) or charset not in {"utf-8", "utf8"}:
        raise RequestRefused(
            UNSUPPORTED_MEDIA_TYPE,
            f"Send the body as JSON {'or a form ' if forms else ''}in UTF-8, with the header Content-Type: {MEDIA_TYPE}"
            f"{' or that of the form' if forms else ''}.",
            headers={"Accept": ", ".join((MEDIA_TYPE, *FORM_TYPES)) if forms else MEDIA_TYPE},
        )
    _check_encoding(request)


def _check_encoding(request: HttpRequest) -> None:
    if request.META.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise RequestRefused(UNSUPPORTED_MEDIA_TYPE, "Send the body as it is, without a Content-Encoding.")


def _read_bytes(request: HttpRequest, limit: int, more: Callable[[], bool] | None = None) -> bytes:
    """The body itself: `request.body` would apply a limit of the project's, meant for forms."""
    if (told := _read_length(request)) > limit:
        if more is None:
            raise refuse_size(limit)
        if told > conf.max_bulk_body:
            raise refuse_size(conf.max_bulk_body)
        if not more():
            raise refuse_size(limit)
        limit = conf.max_bulk_body
    if not told and "HTTP_TRANSFER_ENCODING" in request.META and isinstance(request, WSGIRequest):
        _refuse("at byte 0: a body without the header Content-Length cannot be read here; send it with its length")
    try:
        raw: bytes = request.read(limit + 1)
        if len(raw) > limit and more is not None and limit < conf.max_bulk_body and more():
            # It came without a length.
            limit = conf.max_bulk_body
            raw += request.read(limit + 1 - len(raw))
    except UnreadablePostError as error:
        if isinstance(error.__cause__, TimeoutError):
            late = "The body did not arrive in time, or too many others are on their way. Send it again."
            raise RequestRefused(UNAVAILABLE, late, headers={"Retry-After": "5"}) from error
        _refuse(_BROKEN)
    if len(raw) > limit:
        raise refuse_size(limit)
    if len(raw) < told:
        # A server may tell an end that came too early as any other; what came may even read as JSON.
        _refuse(_BROKEN)
    return raw


def _read_length(request: HttpRequest) -> int:
    try:
        return max(0, int(request.META.get("CONTENT_LENGTH") or 0))
    except ValueError:
        _refuse("at byte 0: the header Content-Length is not a number")


def _refuse(problem: str) -> NoReturn:
    raise RequestRefused(INVALID_BODY, f"The body cannot be read: {problem}.")
