"""Lists: filters, and pages that are found by where the last one ended.

Invariants owned: a page costs the same wherever it lies, and however few of many rows it is about where a window is
asked for (no count, and no offset but its width; a filter that no index has looks through what it leaves out); rows
that come or go between two pages neither repeat nor hide others; and a cursor opens nothing: it is only a place in an
order, within what the caller may see anyway.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import (
    BooleanField,
    F,
    Field,
    ForeignKey,
    Func,
    Model,
    Q,
    QuerySet,
    Value,
)
from django.db.models.lookups import Exact
from django.http import HttpRequest, HttpResponse
from django.utils.http import urlencode
from django.utils.timezone import get_default_timezone, make_naive

from workflows.exceptions import InvalidCall
from workflows.lifecycle import CODES, INTERACTION_CODES, UNIT_CODES, InteractionStatus, Status, UnitStatus
from workflows.models.literals import LiteralNumber
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.protocol.problems import INVALID_REQUEST, RequestRefused
from workflows.values.json_text import check_text
from workflows.values.times import to_rfc3339

DEFAULT_LIMIT = 50
MOST = 500
LONGEST_FILTER = 1000
#: The id of nothing.
NOBODY = UUID(int=0)
#: The width of the whole numbers by which rows are sorted.
BITS = {"IntegerField": 32, "BigAutoField": 64}
#: Of an answer, beyond its first row: a page holds fewer rows where they are larger.
MOST_BYTES = 4 * 1024 * 1024
#: Where what is asked has no index, so many rows are looked through for one page; it may be short of rows then.
WINDOW = 2_000
#: Rows of one statement: the first few tell how large they are.
FIRST_ROWS = 25
MORE_ROWS = 100


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an order, in which no field is NULL: where it lies, and by what it is sorted."""

    fields: tuple[str, ...]
    where: Q = field(default_factory=Q)
    descending: bool = False
    #: Sorted by as well, before the fields: columns that are the same throughout, where an index has them first.
    same: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OrderPlace:
    """Where a page begins: after (or, going back, before) these values of a segment."""

    back: bool
    segment: int
    values: tuple[Any, ...]
    #: Whether the row of these values is on the page too: back from a page on which there was nothing.
    is_with: bool = False


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some rows as they are written, and the places on both sides."""

    rows: list[str]
    next: OrderPlace | None
    previous: OrderPlace | None


def answer_list(
    request: HttpRequest,
    rows: QuerySet[Any],
    segments: Sequence[Segment],
    show: Callable[[Any], Mapping[str, Any]],
    *,
    complete: Callable[[Sequence[dict[str, Any]]], None] | None = None,
    within: QuerySet[Any] | None = None,
) -> HttpResponse:
    """One page of `rows`, as the request asks for it; `complete` adds what is looked up for all of its rows at once.

    `within`: the rows that an index has in this order, of which no index has those that are asked for.
    """
    limit, place = read_limit(request), read_cursor(request, rows.model, segments)
    page = find_page(rows, segments, place, limit, lambda row: json.dumps(show(row)), within)
    texts = page.rows
    if complete is not None:
        told = [json.loads(text) for text in texts]
        complete(told)
        texts = [json.dumps(row) for row in told]
    links = json.dumps({"next": _link(request, page.next), "previous": _link(request, page.previous)})
    return answer_json(f'{{"results": [{", ".join(texts)}], {links[1:]}')


def find_page(
    rows: QuerySet[Any],
    segments: Sequence[Segment],
    place: OrderPlace | None,
    limit: int,
    write: Callable[[Any], str] = str,
    within: QuerySet[Any] | None = None,
) -> RowPage:
    """The rows after a place, or before it, as they are written; fewer than `limit` where they are large, or where
    hardly any of those `within` are among them."""
    back = place is not None and place.back
    found: list[tuple[int, Any, str]] = []
    size, more = 0, False
    end: tuple[int, tuple[Any, ...]] | None = None
    for number, row in _walk(rows, segments, place, limit + 1, within):
        if isinstance(row, _End):
            end, more = (number, row.values), True
            break
        text = write(row)
        size += len(text)
        if len(found) == limit or (found and size > MOST_BYTES):
            more = True
            break
        found.append((number, row, text))
    if back:
        found.reverse()
    first = _place(*found[0][:2], segments, back=True) if found else None
    last = _place(*found[-1][:2], segments, back=False) if found else None
    if end is not None:  # the next page goes on where this one stopped to look
        first = OrderPlace(True, *end) if back or not found else first
        last = OrderPlace(False, *end) if not back or not found else last
    elif within is not None and not found and place is not None:
        around = replace(place, back=not back, is_with=True)
        return RowPage([], next=around if back else None, previous=None if back else around)
    return RowPage(
        [text for _, _, text in found],
        next=last if more or back else None,
        previous=first if (more if back else place is not None) else None,
    )


def _walk(
    rows: QuerySet[Any],
    segments: Sequence[Segment],
    place: OrderPlace | None,
    most: int,
    within: QuerySet[Any] | None = None,
) -> Iterator[tuple[int, Any]]:
    """Rows with their segment's number, each segment by its index, a few at first: nobody knows how large they are. The
    last one may be the end of a window."""
    back = place is not None and place.back
    order = range(len(segments))
    chunk = FIRST_ROWS
    for number in reversed(order) if back else order:
        if place is not None and (number > place.segment if back else number < place.segment):
            continue
        segment = segments[number]
        descending = segment.descending != back
        names = (f"-{name}" if descending else name for name in (*segment.same, *segment.fields))
        order_by = tuple(names)
        part = rows.filter(segment.where).order_by(*order_by)
        values = place.values if place is not None and number == place.segment else None
        end, begins = None, True
        if within is not None:
            seen = within.filter(segment.where).order_by(*order_by)
            is_with = place is not None and place.is_with
            seen = seen if values is None else seen.filter(_compare(segment, values, back, or_equal=is_with))
            end = next(iter(seen.values_list(*segment.fields)[WINDOW - 1 : WINDOW]), None)
            part = part if end is None else part.filter(_compare(segment, end, not back, or_equal=True))
        while most > 0:
            wanted = min(chunk, most)
            is_with = begins and place is not None and place.is_with
            after = part if values is None else part.filter(_compare(segment, values, back, or_equal=is_with))
            got = list(after[:wanted])
            yield from ((number, row) for row in got)
            most -= len(got)
            if len(got) < wanted:
                break
            chunk, begins = MORE_ROWS, False
            values = tuple(getattr(got[-1], name) for name in segment.fields)
        if end is not None and most > 0:
            yield number, _End(end)
            return


def read_limit(request: HttpRequest) -> int:
    """How many rows are wanted."""
    text = request.GET.get("limit", "")
    if not text:
        return DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= MOST):
        raise refuse_parameter("limit", f"must be a number from 1 to {MOST}")
    return int(text)


def read_cursor(request: HttpRequest, model: type[Model], segments: Sequence[Segment]) -> OrderPlace | None:
    """The place that a link of an earlier page names."""
    text = request.GET.get("cursor", "")
    if not text:
        return None
    try:
        back, number, *values = parse_cursor(text)
        segment = segments[number]
        if is_with := len(values) > len(segment.fields) and values[-1] is True:
            values.pop()
        if not isinstance(back, bool) or number < 0 or len(values) != len(segment.fields):
            raise ValueError
        columns = [model._meta.get_field(name) for name in segment.fields]
        read = tuple(_read(column, value) for column, value in zip(columns, values, strict=True))
        return OrderPlace(back, number, read, is_with)
    except (ValueError, TypeError, IndexError, RecursionError, OverflowError):
        raise refuse_cursor() from None


def parse_cursor(text: str) -> Any:
    """What a cursor holds; an error of any kind if it is none."""
    return json.loads(base64.b64decode(text, altchars=b"-_", validate=True))


def refuse_cursor() -> RequestRefused:
    """It is of another list, or of none."""
    return refuse_parameter("cursor", "is none of this list; take it from `next` or `previous`")


def read_filter(request: HttpRequest, name: str) -> str | None:
    """What a list is narrowed down to; blank is nothing."""
    text = request.GET.get(name, "")
    if not text.strip():
        return None
    try:
        return check_text(text, "it", limit=LONGEST_FILTER)
    except InvalidCall as error:
        raise refuse_parameter(name, f"cannot be used: {error}") from error


def read_id_filter(request: HttpRequest, name: str) -> UUID | None:
    """An id that a list is narrowed down to; blank is none, and any other text that is none is the id of nothing."""
    text = read_filter(request, name)
    if text is None:
        return None
    try:
        return UUID(text) if len(text) == 36 else NOBODY
    except ValueError:
        return NOBODY


def read_choice(request: HttpRequest, name: str, choices: Iterable[str]) -> str | None:
    """One of some words."""
    text = read_filter(request, name)
    if text is not None and text not in (known := list(choices)):
        raise refuse_parameter(name, f"must be one of {', '.join(known)}")
    return text


def refuse_parameter(name: str, reason: str) -> RequestRefused:
    """A query parameter that cannot be used."""
    return RequestRefused(INVALID_REQUEST, f"The parameter {name} {reason}.", errors={name: [reason]})


def has_status(status: Status | InteractionStatus | UnitStatus) -> Any:
    """The condition that a row has this status."""
    return Exact(F("status"), LiteralNumber(code_of(status)))


def code_of(status: Status | InteractionStatus | UnitStatus) -> int:
    """The number that the row has."""
    if isinstance(status, UnitStatus):
        return UNIT_CODES[status]
    return INTERACTION_CODES[status] if isinstance(status, InteractionStatus) else CODES[status]


def is_within(workspace: int) -> Any:
    """The condition that a row belongs to this workspace."""
    return Exact(F("workspace_id"), LiteralNumber(workspace))


class _RowValue(Func):
    """`(a, b)`: compared as a whole, which is what an index of both can begin at."""

    function = ""
    template = "(%(expressions)s)"


class _RowComparison(Func):
    output_field = BooleanField()
    template = "%(expressions)s"


@dataclass(frozen=True, slots=True)
class _End:
    """Where a window ends: its last row's values."""

    values: tuple[Any, ...]


def _compare(segment: Segment, values: Sequence[Any], back: bool, *, or_equal: bool = False) -> Any:
    columns = _RowValue(*(F(name) for name in segment.fields))
    wanted = _RowValue(*(Value(value) for value in values))
    sign = ("<" if segment.descending != back else ">") + ("=" if or_equal else "")
    return _RowComparison(columns, wanted, arg_joiner=f" {sign} ")


def _place(number: int, row: Any, segments: Sequence[Segment], *, back: bool) -> OrderPlace:
    return OrderPlace(back, number, tuple(getattr(row, name) for name in segments[number].fields))


def _link(request: HttpRequest, place: OrderPlace | None) -> str | None:
    if place is None:
        return None
    values = [value if isinstance(value, int) else _write(value) for value in place.values]
    values += [True] if place.is_with else []
    return link_to(request, [place.back, place.segment, *values])


def link_to(request: HttpRequest, place: Sequence[Any]) -> str:
    """The address of the page that begins at a place."""
    text = json.dumps(place, separators=(",", ":"))
    cursor = base64.urlsafe_b64encode(text.encode()).decode()
    asked = [(name, value) for name, value in request.GET.lists() if name != "cursor"]
    return request.build_absolute_uri(f"{request.path}?{urlencode([*asked, ('cursor', cursor)], doseq=True)}")


def _write(value: Any) -> str:
    return str(to_rfc3339(value)) if isinstance(value, datetime) else str(value)


def _read(column: Any, value: Any) -> Any:
    """A value of the cursor, if it is one that the field can be compared with."""
    if isinstance(column, ForeignKey):
        column = column.target_field
    kind = column.get_internal_type() if isinstance(column, Field) else ""
    if kind == "UUIDField" and isinstance(value, str):
        return UUID(value)
    if kind == "DateTimeField" and isinstance(value, str):
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment if settings.USE_TZ else make_naive(moment, get_default_timezone())
    if kind == "TextField" and isinstance(value, str):
        return check_text(value, "a place", limit=LONGEST_FILTER)
    bits = BITS.get(kind)
    if bits is not None and type(value) is int and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return value
    raise ValueError(value)
