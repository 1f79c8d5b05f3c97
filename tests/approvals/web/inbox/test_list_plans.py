"""What the inbox's lists and its rail cost beside 25,000 other reviews: what they look through, and no table or index.

Plans are looked at, as `test_large_lists` does, whose tables these are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

from approvals.models import Snooze
from approvals.people.viewer import Viewer
from approvals.web.base.desk import Kept
from approvals.web.base.filters import Filters
from approvals.web.inbox.lists import WINDOW, Lists
from approvals.web.inbox.rail import read_rail
from approvals.web.inbox.rows import complete
from tests.support.many_reviews import analyze, explain, filled
from tests.support.statements import listen
from workflows.clock import read_now

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

#: Who may decide nearly all of it, under one name or under 300, or as a substitute; and who has asked for much of it
#: and decided all that is decided.
PEOPLE = ("all", "worst", "away", "none")
MODES = ("custom", "generic", "custom, nothing analyzed", "generic, nothing analyzed")
#: Of any node of a plan: a window, with whom each of it asks.
MOST_ROWS = 4 * WINDOW
PENDING = 25_000

LISTS = {
    "mine": Filters(),
    "search": Filters(q="zebra"),
    "several words": Filters(q="refund number zebra"),
    "requester": Filters(person="nobody"),
    "asked by name": Filters(asked="me"),
    "unassigned": Filters(view="unassigned"),
    "claimed": Filters(view="claimed"),
    "snoozed": Filters(view="snoozed"),
    "high risk": Filters(view="risk"),
    "sorted": Filters(sort="newest"),
    "requested": Filters(view="requested"),
    "requested, searched": Filters(view="requested", q="zebra"),
    "requested, due": Filters(view="requested", due="overdue"),
    "decided": Filters(view="decided"),
    "decided, searched": Filters(view="decided", q="zebra"),
    "decided, workflow": Filters(view="decided", workflow="none"),
    "decided, asked by name": Filters(view="decided", asked="me"),
    "decided, due": Filters(view="decided", due="overdue"),
}
#: Beside the lists.
SAVED = [Kept(n, f"view {n}", Filters(q=f"zebra {n}", asked="me")) for n in range(50)]


def find(name: str, filters: Filters) -> Callable[[], object]:
    lists = look(name)
    return lambda: lists.find(filters, partial(complete, lists))


def look(name: str) -> Lists:
    return Lists(Viewer(User.objects.get(username=name)), read_now())


def list_calls(name: str) -> dict[str, Callable[[], object]]:
    group = f"group-{Group.objects.get(name='finance').pk}"
    lists = look(name)
    return {
        **{call: find(name, asked) for call, asked in LISTS.items()},
        "group": find(name, Filters(view=group)),
        "group, searched": find(name, Filters(view=group, q="zebra")),
        "rail": lambda: read_rail(lists, Filters()),
        "rail with saved views": lambda: read_rail(lists, Filters(), SAVED),
    }


CALLS = (*LISTS, "group", "group, searched", "rail", "rail with saved views")


def load() -> None:
    """Much that one person asked for, decided and put aside, beside the rest."""
    busy, now = User.objects.get(username="none"), read_now()
    User.objects.bulk_create(User(username=f"person {n}") for n in range(10_000))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_review SET requester_id = %s WHERE subject_pk::int %% 3 = 0", [busy.pk])
        cursor.execute("UPDATE holdpoint_vote SET user_id = %s", [busy.pk])
        cursor.execute(
            "INSERT INTO holdpoint_snooze (user_id, review_id, until) SELECT 1000000 + subject_pk::int %% 997, id, %s "
            "FROM holdpoint_review WHERE subject_pk::int %% 4 = 0",
            [now.replace(year=now.year + 1)],
        )
    assert Snooze.objects.count() >= PENDING // 4


@pytest.fixture(scope="module")
def plans(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str, str], list[str]]:
    """(person, call, mode) -> the plans of its statements."""
    found: dict[tuple[str, str, str], list[str]] = {}
    with filled(django_db_blocker, PENDING):
        load()
        heard = {
            (name, call): [one for one in listen(make) if "holdpoint_" in one[0]]
            for name in PEOPLE
            for call, make in list_calls(name).items()
        }
        for analyzed in (False, True):
            if analyzed:
                analyze("auth_user")
            for (name, call), statements in heard.items():
                for mode in MODES:
                    if ("nothing" in mode) is not analyzed:
                        found[name, call, mode] = [explain(*one, generic="generic" in mode) for one in statements]
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_a_list_and_the_rail_cost_what_they_look_through(plans: Any, call: str, mode: str) -> None:
    for name in PEOPLE:
        assert plans[name, call, mode]
        for plan in plans[name, call, mode]:
            assert not re.search(r"Seq Scan on holdpoint_(review|candidate|vote|snooze)\b", plan), (name, plan)
            assert not re.search(r"Seq Scan on auth_user\b", plan), (name, plan)
            rows = [float(many) * int(loops) for many, loops in re.findall(r"actual rows=([\d.]+) loops=(\d+)", plan)]
            removed = [float(many) for many in re.findall(r"Rows Removed by \w+: (\d+)", plan)]
            # 300 piles of 50 each are merged as quickly by reading them.
            assert max(rows + removed) <= (PENDING if name == "worst" else MOST_ROWS), (name, plan)


def test_what_is_looked_for_is_asked_of_many(plans: Any) -> None:
    """So that the plans above are of lists with something in them."""
    for name, call in [("all", "search"), ("worst", "asked by name"), ("none", "decided, searched")]:
        assert f"rows={WINDOW + 1}" in "\n".join(plans[name, call, "custom"]).replace(".00", "")
