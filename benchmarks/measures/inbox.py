"""Whether a reviewer's list costs the same with a thousand requests pending, a hundred thousand, or a million.

The populations stand side by side in databases of their own, and each list is read once in each, in turns. Rows are
inserted as rows here, because a million of them would take hours to ask for: what is measured is reading.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connections
from django.db.models import Q

from approvals.models import Review
from approvals.people.viewer import Viewer
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.measures.inbox_pages import measure_pages
from benchmarks.measures.scale import BAR, SIZES
from benchmarks.measures.times import SLOWEST, Times
from benchmarks.plan import Plan, say
from benchmarks.site.routing import use
from benchmarks.table import Row, at_most, times_at_most
from workflows.models import Workspace
from workflows.rest.base.lists import OrderPlace, Segment, find_page

PAGE = 50
#: A badge counts so far.
MOST_COUNTED = 1_000
SAMPLES, WARM_UP = 200, 20
BY_DUE = (
    Segment(("due_at", "pk"), Q(due_at__isnull=False)),
    Segment(("pk",), Q(due_at__isnull=True), same=("due_at",)),
)

_REVIEWS = """
    INSERT INTO holdpoint_review (id, instance_id, created_at, due_at, workspace_id, requester_id, version, rung, open,
      four_eyes, risk, title, why, workflow, step, subject_model, subject_pk, subject_using, subject_label, digest,
      outcome, on_decision, calendar, outcomes, quorum)
    SELECT gen_random_uuid(), gen_random_uuid(), now() - n * interval '1 s',
      CASE WHEN mod(n, 2) = 0 THEN now() + mod(n * 997, %(size)s) * interval '1 min' END, %(workspace)s,
      1000000 + mod(n, 1000), 1, 0, true, true, 'low', 'Refund number ' || n, 'Above the limit', 'refund', 'ask',
      '', '', '', '', '', '', '', '',
      '[{"name": "approve"}, {"name": "reject"}]', '{"rule": 1, "groups": {}}'
    FROM generate_series(1, %(size)s) n
"""
#: All ask the group, and each somebody else by name.
_CANDIDATES = """
    INSERT INTO holdpoint_candidate (review_id, due_at, workspace_id, open, principal, instead_of, added_by)
    SELECT id, due_at, workspace_id, true, unnest(ARRAY[%(group)s, 'user:' || requester_id + 1000]), '', ''
    FROM holdpoint_review
"""
#: One in a hundred has a vote of the reviewer's already, so that there is something to leave out.
_VOTES = """
    INSERT INTO holdpoint_vote (id, review_id, instance_id, at, user_id, standing, automated, override, step, outcome,
      reason, actor, door, digest, groups)
    SELECT gen_random_uuid(), id, instance_id, now(), %(user)s, true, false, false, 'ask', 'approve',
      '', '', 'page', '', '{}'
    FROM holdpoint_review WHERE mod(hashtext(id::text), 100) = 0
"""


class Inbox:
    """So many pending requests in one database, nearly all of them for one person."""

    def __init__(self, alias: str) -> None:
        self.alias, self.size = alias, SIZES[alias]
        with use(alias):
            group, _ = Group.objects.get_or_create(name="finance")
            self.user, _ = get_user_model().objects.get_or_create(username="reviewer")
            self.user.groups.set([group])
            given: dict[str, Any] = {
                "size": self.size,
                "workspace": Workspace.objects.get().pk,
                "group": f"group:{group.pk}",
                "user": self.user.pk,
            }
            holdpoint = Holdpoint(alias)
            holdpoint.reset()
            with connections[alias].cursor() as cursor:
                for sql in (_REVIEWS, _CANDIDATES, _VOTES):
                    cursor.execute(sql, given)
            holdpoint.vacuum()
            holdpoint.close()
            middle = Review.objects.filter(due_at__isnull=False).by_due()[self.size // 4]
            self.viewer = Viewer(self.user)
            self.middle = OrderPlace(False, 0, (middle.due_at, middle.pk))

    def empty(self) -> None:
        """Leave nothing behind."""
        holdpoint = Holdpoint(self.alias)
        holdpoint.reset()
        holdpoint.close()

    def as_request(self) -> Any:
        """As a request begins: of a user whose rights it has to ask for."""
        return Review.objects.for_user(get_user_model().objects.get(pk=self.user.pk))

    def as_known(self) -> Any:
        """As it goes on: of somebody whose rights it has asked for already."""
        return Review.objects.for_user(self.viewer)

    def read_first_page(self, rows: Any) -> int:
        return len(rows[:PAGE])

    def read_middle_page(self, rows: Any) -> int:
        return len(find_page(rows, BY_DUE, self.middle, PAGE).rows)

    def count(self, rows: Any) -> int:
        return int(rows[:MOST_COUNTED].count())


Begin = Callable[[Inbox], Any]
Call = Callable[[Inbox, Any], int]

CALLS: dict[str, tuple[Call, int]] = {
    f"Inbox, first page of {PAGE}": (Inbox.read_first_page, PAGE),
    f"Inbox, page of {PAGE} in the middle": (Inbox.read_middle_page, PAGE),
    f"Inbox, badge that counts to {MOST_COUNTED:,}": (Inbox.count, 900),
}


def measure_inbox(plan: Plan) -> Iterable[Row]:
    """First page, middle page, badge: p50 beside that with 1,000 pending, and p95."""
    inboxes = []
    for alias in ("small", "large", "huge") if plan.full else ("small", "large"):
        begun = time.monotonic()
        inboxes.append(Inbox(alias))
        say(f"    {SIZES[alias]:,} pending in {time.monotonic() - begun:.1f} s")
    try:
        for name, (call, least) in CALLS.items():
            whole = repeat(plan, inboxes, name, Inbox.as_request, call, least)
            alone = repeat(plan, inboxes, "… the list alone", Inbox.as_known, call, least)
            for one in inboxes[1:]:
                told, peer = f"with {SIZES[one.alias]:,} pending", f"{SIZES['small']:,} pending"
                for title, found, bars in (
                    (name, whole, (times_at_most(BAR),)),
                    ("… the list alone", alone, ()),
                ):
                    ours, small = found[one.alias], found["small"]
                    yield Row(f"{title}, p50 {told}", "ms", ours.p50s, peer, small.p50s, bars)
                yield Row("… each, p95", "ms", whole[one.alias].p95s, bars=(at_most(SLOWEST),))
        yield from measure_pages(plan, inboxes)
    finally:
        for one in inboxes:
            one.empty()


def repeat(plan: Plan, inboxes: list[Inbox], name: str, begin: Begin, call: Call, least: int) -> dict[str, Times]:
    """Make one call so many times in each repetition."""
    found = {one.alias: Times() for one in inboxes}
    for repetition in range(1, plan.repetitions + 1):
        for alias, times in time_calls(inboxes, begin, call, least).items():
            found[alias] = found[alias].add(times)
        told = "   ".join(f"{SIZES[alias]:>9,}: {one.p50s[-1]:.2f} ms" for alias, one in found.items())
        say(f"    {repetition}/{plan.repetitions}  {name:<40} {told}")
    return found


def time_calls(inboxes: list[Inbox], begin: Begin, call: Call, least: int) -> dict[str, list[float]]:
    """Make one call in each, so many times in turns; the milliseconds of each. What found nothing has no speed."""
    times: dict[str, list[float]] = {one.alias: [] for one in inboxes}
    for number in range(WARM_UP + SAMPLES):
        for one in inboxes[:: 1 if number % 2 else -1]:  # nobody is always first
            with use(one.alias):
                begun = time.perf_counter()
                found = call(one, begin(one))
                took = time.perf_counter() - begun
            if found < least:
                raise AssertionError(f"{found} rows with {one.size:,} pending, not {least}")
            if number >= WARM_UP:
                times[one.alias].append(took * 1000)
    return times
