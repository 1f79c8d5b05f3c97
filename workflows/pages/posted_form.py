"""A form as it was posted: read within limits, and known to come from a page of ours.

Invariants owned: no more than a few times the largest answer is read; a form that was cut off is none; no refusal
here writes the address, which holds a token, to a log; the page that is shown again has what was typed; a line break
is one character, as it is to a browser that counts what is typed, and not the two that it sends.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core.exceptions import BadRequest, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, QueryDict, RawPostDataException, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from django.middleware.csrf import CsrfViewMiddleware, get_token
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from workflows.conf import conf
from workflows.exceptions import WorkflowError
from workflows.forms.form_fields import join_lines

UNREADABLE = gettext_noop("What your browser sent cannot be read, or not all of it came.")
#: Digits of the longest key of a row that a form names.
MAX_DIGITS = 18
#: A form writes one character of JSON as up to three.
_GROWTH = 3


class FormRefused(WorkflowError):
    """What was posted is not read; the message is for whoever typed it."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class PostedForm:
    """What came, and whether it came from a page of ours."""

    data: QueryDict
    trusted: bool


def check_charset(request: HttpRequest) -> None:
    """Our forms are UTF-8. Other codecs bring in what nothing can show, or fail when the first field is read."""
    if str((request.content_params or {}).get("charset", "utf-8")).lower() not in ("utf-8", "utf8"):
        raise FormRefused(400, _("Your browser sent this in a character set that is not UTF-8. Nothing was sent."))


def read_posted(request: HttpRequest) -> PostedForm:
    """The fields of a form; `FormRefused` where they cannot be had."""
    check_charset(request)
    limit = conf.max_body * _GROWTH
    try:
        told = int(request.headers.get("Content-Length", ""))
    except ValueError:
        raise FormRefused(400, _("Your browser did not say how much it sends. Nothing was sent.")) from None
    if told > limit:
        raise FormRefused(413, _("This is more than can be taken: %(n)s bytes at most.") % {"n": str(conf.max_body)})
    try:
        came = _count_bytes(request)
        data = request.POST
    except SuspiciousOperation:  # Django's own limits for forms, in bytes or in fields
        raise FormRefused(413, _("This form is larger than this site reads.")) from None
    except (BadRequest, MultiPartParserError, UnreadablePostError):
        raise FormRefused(400, _(UNREADABLE)) from None
    if came is not None and came < told:
        # A form that was cut off still reads as one: its last field would be taken for what was typed.
        raise FormRefused(400, _(UNREADABLE))
    return PostedForm(join_breaks(data), trusted=_FormCheck(_answer_nothing).find_reason(request) is None)


def _count_bytes(request: HttpRequest) -> int | None:
    """How many came; None where somebody has read a form of several parts before us."""
    try:
        return len(request.body)
    except RawPostDataException:
        return None


def join_breaks(data: QueryDict) -> QueryDict:
    """A form with each line break as one character.

    >>> join_breaks(QueryDict("text=a%0D%0Ab"))["text"]
    'a\\nb'
    """
    if not any("\r" in text for _name, texts in data.lists() for text in texts):
        return data
    joined = QueryDict(mutable=True, encoding=data.encoding)
    for name, texts in data.lists():
        joined.setlist(name, [join_lines(text) for text in texts])
    return joined


def read_number(text: str, digits: int = 9) -> int:
    """A number of a hidden field, such as a version or a row's key; 0 where a page of ours wrote no such text.

    >>> read_number("17"), read_number("-17"), read_number("")
    (17, 0, 0)
    """
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= digits else 0


def read_ids(texts: Iterable[str]) -> list[UUID]:
    """The ids among some texts, each once and in their order.

    >>> read_ids(["01a1f054-1821-7000-a66a-740cd17eba6f", "x"])
    [UUID('01a1f054-1821-7000-a66a-740cd17eba6f')]
    """
    found: dict[UUID, None] = {}
    for text in texts:
        try:
            found[UUID(text)] = None
        except ValueError:
            continue
    return list(found)


def give_token(request: HttpRequest) -> str:
    """What a form of ours carries to be known again."""
    _FormCheck(_answer_nothing).process_request(request)
    return get_token(request)


def keep_cookie(request: HttpRequest, response: HttpResponse) -> None:
    """The cookie that belongs to the token, also in a project without Django's middleware for it."""
    _FormCheck(_answer_nothing).process_response(request, response)


class _FormCheck(CsrfViewMiddleware):
    """Django's own check, which says why instead of answering: its answer would log the address."""

    def find_reason(self, request: HttpRequest) -> Any:
        self.process_request(request)
        return self.process_view(request, _answer_nothing, (), {})

    def _reject(self, request: HttpRequest, reason: str) -> Any:
        return reason


def _answer_nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse()  # pragma: no cover - the check wants a view, and never calls it
