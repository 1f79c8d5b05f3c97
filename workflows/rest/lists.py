"""Lists: filters, and pages that are found by where the last one ended.

Invariants owned: a page costs the same wherever it lies (no offset, no count), rows that come or go between two pages
neither repeat nor hide others, and a cursor opens nothing: it is only a place in an order, within what the caller
may see anyway.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Expression, F, Field, Func, Model, Q, QuerySet, SmallIntegerField, Value
from django.db.models.lookups import Exact
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode

from workflows.jsontext import check_text
from workflows.lifecycle import CODES, INTERACTION_CODES, InteractionStatus, Status
from workflows.rest.once import answer_json
from workflows.rest.problems import INVALID_REQUEST, RequestRefused

DEFAULT_LIMIT = 50
MOST = 500


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an order, in which no field is NULL: where it lies, and by what it is sorted."""

    fields: tuple[str, ...]
    where: Q = field(default_factory=Q)
    descending: bool = False
    #: Sorted by as well, before the fields: columns that are the same throughout, where an index has them first.
    same: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page begins: after (or, going back, before) these values of a segment."""

    back: bool
    segment: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, and the places on both sides."""

    rows: list[Any]
    next: Place | None
    previous: Place | None


def answer_list(
    request: HttpRequest, rows: QuerySet[Any], segments: Sequence[Segment], show: Callable[[Any], Mapping[str, Any]]
) -> HttpResponse:
    """One page of `rows`, as the request asks for it."""
    limit, place = read_limit(request), read_cursor(request, rows.model, segments)
    page = find_page(rows, segments, place, limit)
    body = {
        "results": [show(row) for row in page.rows],
        "next": _link(request, page.next),
        "previous": _link(request, page.previous),
    }
    return answer_json(json.dumps(body))


def find_page(rows: QuerySet[Any], segments: Sequence[Segment], place: Place | None, limit: int) -> Page:
    """The rows after a place, or before it; segment by segment, each by its index."""
    back = place is not None and place.back
    order = range(len(segments))
    found: list[tuple[int, Any]] = []
    for number in reversed(order) if back else order:
        if place is not None and (number > place.segment if back else number < place.segment):
            continue
        segment = segments[number]
        part = rows.filter(segment.where)
        if place is not None and number == place.segment:
            part = part.filter(_compare(segment, place.values, back))
        descending = segment.descending != back
        names = (*segment.same, *segment.fields)
        part = part.order_by(*(f"-{name}" if descending else name for name in names))
        found.extend((number, row) for row in part[: limit + 1 - len(found)])
        if len(found) > limit:
            break
    more = len(found) > limit
    found = found[:limit]
    if back:
        found.reverse()
    first = _place(found[0], segments, back=True) if found else None
    last = _place(found[-1], segments, back=False) if found else None
    return Page(
        [row for _, row in found],
        next=last if more or back else None,
        previous=first if (more if back else place is not None) else None,
    )


def read_limit(request: HttpRequest) -> int:
    """How many rows are wanted."""
    text = request.GET.get("limit", "")
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST):
        raise refuse_parameter("limit", f"must be a number from 1 to {MOST}")
    return int(text)


def read_cursor(request: HttpRequest, model: type[Model], segments: Sequence[Segment]) -> Place | None:
    """The place that a link of an earlier page names."""
    text = request.GET.get("cursor", "")
    if not text:
        return None
    try:
        back, number, *values = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
        segment = segments[number]
        if not isinstance(back, bool) or number < 0 or len(values) != len(segment.fields):
            raise ValueError
        columns = [model._meta.get_field(name) for name in segment.fields]
        return Place(back, number, tuple(_read(column, value) for column, value in zip(columns, values, strict=True)))
    except (ValueError, TypeError, IndexError, RecursionError, OverflowError):
        raise refuse_parameter("cursor", "is none of this list; take it from `next` or `previous`") from None


def read_filter(request: HttpRequest, name: str) -> str | None:
    """What a list is narrowed down to; blank is nothing."""
    text = request.GET.get(name, "")
    if not text.strip():
        return None
    return check_text(text, f"the parameter {name}", limit=1000)


def read_choice(request: HttpRequest, name: str, choices: Iterable[str]) -> str | None:
    """One of some words."""
    text = read_filter(request, name)
    if text is not None and text not in (known := list(choices)):
        raise refuse_parameter(name, f"must be one of {', '.join(known)}")
    return text


def refuse_parameter(name: str, reason: str) -> RequestRefused:
    """A query parameter that cannot be used."""
    return RequestRefused(INVALID_REQUEST, f"The parameter {name} {reason}.", errors={name: [reason]})


class Code(Expression):
    """A status as a number in the statement itself: a parameter would hide from a kept plan that an index is meant."""

    def __init__(self, status: Status | InteractionStatus) -> None:
        self.code = INTERACTION_CODES[status] if isinstance(status, InteractionStatus) else CODES[status]
        super().__init__(output_field=SmallIntegerField())

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, tuple[()]]:
        """The number."""
        return str(self.code), ()


def has_status(status: Status | InteractionStatus) -> Any:
    """The condition that a row has this status."""
    return Exact(F("status"), Code(status))


class _Row(Func):
    """`(a, b)`: compared as a whole, which is what an index of both can begin at."""

    function = ""
    template = "(%(expressions)s)"


class _Comparison(Func):
    output_field = BooleanField()
    template = "%(expressions)s"


def _compare(segment: Segment, values: Sequence[Any], back: bool) -> Any:
    columns = _Row(*(F(name) for name in segment.fields))
    wanted = _Row(*(Value(value) for value in values))
    return _Comparison(columns, wanted, arg_joiner=" < " if segment.descending != back else " > ")


def _place(found: tuple[int, Any], segments: Sequence[Segment], *, back: bool) -> Place:
    number, row = found
    return Place(back, number, tuple(getattr(row, name) for name in segments[number].fields))


def _link(request: HttpRequest, place: Place | None) -> str | None:
    if place is None:
        return None
    values = [value if isinstance(value, int) else _write(value) for value in place.values]
    text = json.dumps([place.back, place.segment, *values], separators=(",", ":"))
    cursor = base64.urlsafe_b64encode(text.encode()).decode()
    asked = [(name, value) for name, value in request.GET.lists() if name != "cursor"]
    return request.build_absolute_uri(f"{request.path}?{urlencode([*asked, ('cursor', cursor)], doseq=True)}")


def _write(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _read(column: Any, value: Any) -> Any:
    """A value of the cursor, if it is one that the field can be compared with."""
    kind = column.get_internal_type() if isinstance(column, Field) else ""
    if kind == "UUIDField" and isinstance(value, str):
        return UUID(value)
    if kind == "DateTimeField" and isinstance(value, str):
        return datetime.fromisoformat(value)
    if kind == "IntegerField" and type(value) is int and -(2**31) <= value < 2**31:
        return value
    raise ValueError(value)
