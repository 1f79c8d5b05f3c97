"""Pages of an instance's history, with that of its units.

Invariant owned: a cursor is a place in the history, in few characters: how many rows lie before it of the instance, and
of those units that are neither before it nor behind it as a whole.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from workflows.models import Instance
from workflows.rest.base.lists import MOST_BYTES, link_to, parse_cursor, read_limit, refuse_cursor
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.protocol.representations import show_event
from workflows.units.await_lifecycle import name_events
from workflows.units.unit_history import Cut, Row, UnitSource, list_sources, move_cut, walk_history

#: In the second place of a cursor, where those of plain lists have the number of a segment.
KIND = 9


def answer_history(request: HttpRequest, using: str, instance: Instance) -> HttpResponse:
    """A page of the rows of an instance and its units, in the order in which they were written."""
    limit = read_limit(request)
    sources = list_sources(using, instance.pk) if instance.asked else []
    back, begin = read_place(request, sources)
    rows: list[Row] = []
    size, more = 0, False
    for row in walk_history(using, instance.pk, instance.seq, sources, begin, back=back):
        size += len(json.dumps(show_event(row[1])))
        if len(rows) == limit or (rows and size > MOST_BYTES):
            more = True
            break
        rows.append(row)
    end = move_cut(begin, rows, back=back)
    if back:
        rows.reverse()
    named = name_events(using, rows) if instance.asked else [[] for _ in rows]
    results = [
        show_event(row) | {"unit": None if unit is None else str(unit), "lifecycle": [str(one.kind) for one in events]}
        for (unit, row), events in zip(rows, named, strict=True)
    ]
    first, last = (end, begin) if back else (begin, end)
    is_first = (not more) if back else begin == Cut()
    page = {
        "results": results,
        "next": link_to(request, write_place(False, last, sources)) if more or back else None,
        "previous": None if is_first else link_to(request, write_place(True, first, sources)),
    }
    return answer_json(json.dumps(page))


def write_place(back: bool, cut: Cut, sources: list[UnitSource]) -> list[Any]:
    """A place as a cursor holds it: the last unit of which a row lies before it, and those up to there that lie on both
    sides or may grow; all others up to there are before it, and all later ones behind it."""
    begun = [number for number, source in enumerate(sources) if cut.units.get(source.id)]
    if not begun:
        return [back, KIND, cut.instance]
    upto = sources[: begun[-1] + 1]
    partly = [
        [str(source.id), cut.units.get(source.id, 0)]
        for source in upto
        if source.ended_at is None or cut.units.get(source.id, 0) < source.seq
    ]
    return [back, KIND, cut.instance, str(upto[-1].id), *partly]


def read_place(request: HttpRequest, sources: list[UnitSource]) -> tuple[bool, Cut]:
    """Where a page begins, and in which direction it goes."""
    text = request.GET.get("cursor", "")
    if not text:
        return False, Cut()
    try:
        back, kind, instance, *units = parse_cursor(text)
        if not (isinstance(back, bool) and type(kind) is int and _is_count(instance)):
            raise ValueError
        if kind != KIND:
            return _read_plain(back, kind, instance, units)
        last = UUID(units[0]) if units else None
        named = {UUID(id): place for id, place in units[1:]}
        if not all(map(_is_count, named.values())):
            raise ValueError
    except (ValueError, TypeError, AttributeError, RecursionError, OverflowError):
        raise refuse_cursor() from None
    places = {
        source.id: named.get(source.id, source.seq) for source in sources if last is not None and source.id <= last
    }
    return back, Cut(instance, places)


def _read_plain(back: bool, segment: int, seq: int, rest: list[Any]) -> tuple[bool, Cut]:
    """A cursor of before units had rows: after a row of the instance, or before it."""
    if segment not in (0, 1) or rest:
        raise ValueError
    return back, Cut(seq - 1 if back else seq)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31
