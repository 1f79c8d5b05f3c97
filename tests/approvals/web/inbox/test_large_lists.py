"""What pages and badges of the inbox cost beside 50,000 other reviews: what they show, wherever they lie.

Plans are looked at, not times, because a test never times (`python -m benchmarks --only inbox --full` does). For a
million: PENDING=1000000 pytest -n0 tests/approvals/web/inbox/test_large_lists.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Q

from approvals.models import Review
from tests.support.many_reviews import MOST_ROWS_OF_A_BADGE, PEOPLE, analyze, explain, filled
from tests.support.statements import listen
from workflows.rest.base.lists import OrderPlace, Segment, find_page

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

PENDING = int(os.environ.get("PENDING", 50_000))
BY_DUE = (
    Segment(("due_at", "pk"), Q(due_at__isnull=False)),
    Segment(("pk",), Q(due_at__isnull=True), same=("due_at",)),
)
#: Of any node of a plan: so many rows at most. A page has 50, and each of 300 names gives at least one.
MOST_ROWS = 1_500
#: A badge counts so far, and then says "1,000+".
MOST_COUNTED = 1_000


def list_for(name: str) -> Any:
    return Review.objects.for_user(User.objects.get(username=name))


@cache
def _find_place(segment: int) -> tuple[Any, ...]:
    """In the middle of those that are due, or of those that are not; in every population it is the same."""
    rows = Review.objects.filter(workspace__slug="default", due_at__isnull=bool(segment)).by_due()
    row = rows[PENDING // 4 if rows.count() > PENDING // 4 else rows.count() // 2]
    return (row.pk,) if segment else (row.due_at, row.pk)


def _page(back: bool, segment: int) -> Callable[[str], Callable[[], object]]:
    def prepare(name: str) -> Callable[[], object]:
        place = OrderPlace(back, segment, _find_place(segment))
        return lambda: find_page(list_for(name), BY_DUE, place, 50)

    return prepare


CALLS: dict[str, Callable[[str], Callable[[], object]]] = {
    "first page": lambda name: lambda: list(list_for(name)[:50]),
    "middle page": _page(False, 0),
    "middle page, back": _page(True, 0),
    "middle page of what is never due": _page(False, 1),
    "middle page of what is never due, back": _page(True, 1),
    "badge": lambda name: lambda: list_for(name)[:MOST_COUNTED].count(),
    "is one of mine": lambda name: lambda: list_for(name).filter(pk="c4ca4238-a0b9-2382-0dcc-509a6f75849b").exists(),
}
MODES = ["custom", "generic", "custom, nothing analyzed", "generic, nothing analyzed"]


@pytest.fixture(scope="module")
def plans(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str, str], list[str]]:
    """(person, call, mode) -> the plans of its statements."""
    found: dict[tuple[str, str, str], list[str]] = {}
    with filled(django_db_blocker, PENDING):
        heard = {
            (name, call): [one for one in listen(prepare(name)) if "holdpoint_candidate" in one[0]]
            for name in PEOPLE
            for call, prepare in CALLS.items()
        }
        for analyzed in (False, True):
            if analyzed:
                analyze()
            for (name, call), statements in heard.items():
                for mode in MODES:
                    if ("nothing" in mode) is not analyzed:
                        found[name, call, mode] = [explain(*one, generic="generic" in mode) for one in statements]
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", PEOPLE)
def test_a_page_and_a_badge_cost_what_they_show(plans: Any, name: str, call: str, mode: str) -> None:
    for plan in plans[name, call, mode]:
        assert not re.search(r"Seq Scan on holdpoint_(review|candidate|vote)\b", plan), plan
        rows = [float(many) * int(loops) for many, loops in re.findall(r"actual rows=([\d.]+) loops=(\d+)", plan)]
        removed = [float(many) for many in re.findall(r"Rows Removed by \w+: (\d+)", plan)]
        assert max(rows + removed) <= (MOST_ROWS_OF_A_BADGE if call == "badge" else MOST_ROWS), plan


def test_somebody_is_asked_in_each_of_these_ways(plans: Any) -> None:
    """So that the plans above are of lists with something in them."""
    for name in PEOPLE:
        told = "\n".join(plans[name, "first page", "custom"])
        shown = re.findall(r"^Limit \(actual rows=([\d.]+)", told, re.MULTILINE)
        expected = {"none": [], "five": [5.0], "late": [min(50.0, PENDING // 1000)]}.get(name, [50.0])
        assert list(map(float, shown)) == expected, told
