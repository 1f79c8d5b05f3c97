"""Lists of what a process knows, or a call answers whole: pages of them, as those of tables are.

Lives here: cutting a page out of a sorted list. Must not live here: rows of tables that grow (`lists`). Invariant
owned: a page begins where the last one ended, by the keys of its rows, so that one that comes or goes moves no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from django.http import HttpRequest, HttpResponse

from workflows.rest.base.lists import link_to, parse_cursor, read_limit, refuse_cursor
from workflows.rest.base.repeated_calls import answer_json

Row = TypeVar("Row")
#: What a row is sorted by: texts and numbers.
Key = tuple[str | int, ...]


def answer_known(
    request: HttpRequest,
    rows: Iterable[Row],
    kinds: tuple[type, ...],
    find_key: Callable[[Row], Key],
    show: Callable[[Row], Mapping[str, Any]],
) -> HttpResponse:
    """One page of `rows`, by their keys, whose parts are of these `kinds`."""
    limit, place = read_limit(request), read_key(request, kinds)
    ordered = sorted(((find_key(row), row) for row in rows), key=lambda one: one[0])
    back = place is not None and place[0]
    if place is not None:
        ordered = [one for one in ordered if (one[0] < place[1] if back else one[0] > place[1])]
    found = ordered[-limit:] if back else ordered[:limit]
    more = len(ordered) > len(found)
    following = found[-1][0] if found and (more or back) else None
    before = found[0][0] if found and (more if back else place is not None) else None
    links = {
        "next": None if following is None else link_to(request, [False, *following]),
        "previous": None if before is None else link_to(request, [True, *before]),
    }
    return answer_json(json.dumps({"results": [show(row) for _, row in found], **links}))


def read_key(request: HttpRequest, kinds: tuple[type, ...]) -> tuple[bool, Key] | None:
    """The place that a link of an earlier page names: whether the page ends there, and the key."""
    text = request.GET.get("cursor", "")
    if not text:
        return None
    try:
        back, *values = parse_cursor(text)
        # Exactly these: True is a number to Python.
        if type(back) is not bool or [type(one) for one in values] != list(kinds):
            raise ValueError
    except (ValueError, TypeError, RecursionError, OverflowError):
        raise refuse_cursor() from None
    return back, tuple(values)
