"""The rail: every view with how much is in it.

Invariants owned: all counts of what somebody may decide come from a pass over the beginning of their list, with the
conditions that the lists themselves ask; a count that is not the whole truth says so ("1,000+"). However many views
somebody saves, and whatever they search for, counting them costs about what the rest of the rail does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.models import BooleanField, Count, ExpressionWrapper, Q
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext
from psycopg.sql import Literal

from approvals.display.values import MAX_NAME, show_text
from approvals.models import Review
from approvals.people.eligibility_sql import is_aside
from approvals.web.base.desk import Kept
from approvals.web.base.filters import Filters
from approvals.web.inbox.lists import DECIDABLE, WINDOW, Lists
from approvals.web.inbox.search import list_words
from workflows import store
from workflows.api.completions import owned_answers

#: More are told as "1,000+".
MOST_TOLD = 1_000
#: So many saved views are counted, over so much of the list: what they ask is asked of each row, every few seconds.
MOST_SAVED = 10
WINDOW_OF_SAVED = 500
#: And so many words, at most, are looked for in a row of it: of more words, in fewer rows.
MOST_LOOKED_FOR = 20 * WINDOW_OF_SAVED

#: How much waits for some groups, and how much of what somebody asked for last still waits.
_OTHERS = """
    SELECT p.principal, g.name, p.waiting
    FROM ({}) p(principal, waiting) JOIN auth_group g ON p.principal = 'group:' || g.id
    UNION ALL
    SELECT '', '', count(*) FILTER (WHERE open) FROM (
      SELECT open FROM holdpoint_review WHERE requester_id = %(user)s AND workspace_id = ANY(%(scopes)s::bigint[])
      ORDER BY id DESC LIMIT %(most)s
    ) asked
    ORDER BY 2, 1
"""
_GROUP = "SELECT {}::text, count(*) FROM ({}) waiting"
#: With the name itself, in the order of the index: so PostgreSQL reads no more of a group's than is told.
_WAITING = """(SELECT 1 FROM holdpoint_candidate WHERE principal = {} AND workspace_id = {} AND open
    ORDER BY due_at, review_id LIMIT %(most)s)"""
_NOBODY = "SELECT 1 WHERE false"
_NOTHING = "SELECT NULL::text, 0::bigint WHERE false"


@dataclass(frozen=True, slots=True)
class RailLink:
    """One view."""

    name: str
    url: str
    #: Of templates/approvals/icons/.
    icon: str
    #: As it is shown; empty for none.
    count: str = ""
    is_late: bool = False
    is_current: bool = False
    view: str = ""
    #: Of a saved view.
    key: int | None = None


@dataclass(frozen=True, slots=True)
class Rail:
    """All of them."""

    waiting: tuple[RailLink, ...]
    saved: tuple[RailLink, ...]
    groups: tuple[RailLink, ...]
    mine: tuple[RailLink, ...]

    @property
    def current(self) -> RailLink | None:
        """The one whose list is shown."""
        links = (*self.waiting, *self.saved, *self.groups, *self.mine)
        return next((one for one in links if one.is_current), None)


def read_rail(lists: Lists, filters: Filters, saved: Sequence[Kept] = ()) -> Rail:
    """The rail beside a list."""
    counts = _count(lists, {one: Filters(view=one) for one in DECIDABLE}, WINDOW)
    counted = {one.key: one.filters for one in saved[:MOST_SAVED]}
    words = sum(len(list_words(one)) for one in counted.values())
    counts |= _count(lists, counted, min(WINDOW_OF_SAVED, MOST_LOOKED_FOR // max(words, 1)))
    here, at = filters.write(), reverse("approvals:inbox")
    is_kept = any(one.filters.write() == here for one in saved)

    def link(view: str, name: str, icon: str, count: str = "", **more: Any) -> RailLink:
        query = Filters(view=view).write()
        current = not is_kept and filters.view == view
        return RailLink(name, f"{at}?{query}" if query else at, icon, count, is_current=current, view=view, **more)

    others = _count_others(lists)
    return Rail(
        waiting=(
            link("mine", gettext("Waiting for me"), "inbox", counts["mine"]),
            link("overdue", gettext("Overdue"), "late", counts["overdue"], is_late=counts["overdue"] != ""),
            link("today", gettext("Due today"), "today", counts["today"]),
            link("risk", gettext("High risk"), "risk-high", counts["risk"]),
            link("claimed", gettext("Claimed by me"), "hand", counts["claimed"]),
            link("unassigned", gettext("Unassigned"), "person", counts["unassigned"]),
            link("snoozed", gettext("Snoozed"), "snooze", counts["snoozed"]),
        ),
        saved=tuple(
            RailLink(
                show_text(one.name, MAX_NAME),
                f"{at}?{one.filters.write()}",
                "saved",
                counts.get(one.key, ""),
                is_current=one.filters.write() == here,
                key=one.key,
            )
            for one in saved
        ),
        groups=tuple(
            link(f"group-{principal.partition(':')[2]}", show_text(name, MAX_NAME), "people", _tell(count))
            for principal, name, count in others
            if principal
        ),
        mine=(
            link("requested", gettext("I asked for"), "outbox", _tell(others[-1][2] if others else 0)),
            link("decided", gettext("Decided"), "done"),
        ),
    )


def title_list(filters: Filters, rail: Rail) -> str:
    """What the heading of a list says."""
    return rail.current.name if rail.current is not None else gettext("Waiting for me")


def tell_count(count: int, *, is_cut: bool) -> str:
    """A count as it is shown.

    >>> tell_count(12, is_cut=False), tell_count(2000, is_cut=True), tell_count(3, is_cut=True)
    ('12', '1,000+', '3+')
    """
    if count == 0:
        return ""
    if count >= MOST_TOLD:
        return f"{number_format(MOST_TOLD, force_grouping=True)}+"
    return f"{number_format(count, force_grouping=True)}{'+' if is_cut else ''}"


def _tell(count: int) -> str:
    return tell_count(count, is_cut=False)


def _count(lists: Lists, wanted: dict[Any, Filters], most: int) -> dict[Any, str]:
    """How many there are of each among so many, in one statement."""
    conditions = {key: found for key, one in wanted.items() if (found := lists.count_as(one)) is not None}
    if not conditions:
        return {}
    rows = Review.objects.for_user(lists.viewer, snoozed=None).annotate(aside=is_aside(lists.user.pk))
    totals: dict[str, Any] = {}
    for number, (key, condition) in enumerate(conditions.items()):
        fits = ExpressionWrapper(condition, output_field=BooleanField())
        rows = rows.annotate(**{f"fits_{number}": fits})
        one = Q(**{f"fits_{number}": True, "aside": wanted[key].view == "snoozed"})
        totals[f"count_{number}"] = Count("pk", filter=one)
    found = rows[:most].aggregate(total=Count("pk"), **totals)
    is_cut = found["total"] >= most
    return {key: tell_count(found[f"count_{n}"], is_cut=is_cut) for n, key in enumerate(conditions)}


def _count_others(lists: Lists) -> list[Any]:
    alias, scopes = owned_answers.reach().alias, list(lists.viewer.scopes)
    parts = []
    for group in lists.viewer.list_groups() if scopes else ():
        name = Literal(group).as_string(None).replace("%", "%%")
        # Only where anything waits: somebody may be a member of thousands of workspaces.
        waiting = [_WAITING.format(name, int(one)) for one in lists.viewer.list_waiting(alias, group)]
        parts.append(_GROUP.format(name, " UNION ALL ".join(waiting) or _NOBODY))
    params = {"scopes": scopes, "user": lists.user.pk, "most": MOST_TOLD}
    sql = _OTHERS.format(" UNION ALL ".join(parts) or _NOTHING)
    found = store.fetch(connections[alias], sql, params)
    return [*(row for row in found if row[0]), *(row for row in found if not row[0])]
