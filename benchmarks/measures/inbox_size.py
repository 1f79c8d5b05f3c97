"""What a pending approval costs on disk: the review and whom it asks, its question and instance, and their history.

Parked as in `size`, through the real life of an instance, with a vacuum as often as autovacuum would. That somebody is
to be told is not counted: such a row is gone once they were.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import connections

from benchmarks.contenders.holdpoint import REVIEWS, TABLES, Holdpoint
from benchmarks.measures.size import VACUUM_EVERY, read_size
from benchmarks.plan import Plan, say
from benchmarks.site.workflows import Ask
from benchmarks.table import Row, at_most

BAR = 2_500


def measure_approval_size(plan: Plan) -> Iterable[Row]:
    """One group is asked; with title, reason, requester, due date, deadline and 140 bytes of input."""
    Group.objects.get_or_create(name="finance")
    get_user_model().objects.get_or_create(username="requester")
    holdpoint, count = Holdpoint(), plan.seed_size
    try:
        holdpoint.reset()
        holdpoint.park(count, workflow=Ask, vacuum_every=VACUUM_EVERY)
        with connections[holdpoint.alias].cursor() as cursor:
            cursor.execute("TRUNCATE holdpoint_notice")  # told, and gone, within seconds
        holdpoint.expect(count, "status = 3")
        parts = {table.removeprefix("holdpoint_"): read_size(holdpoint, table) for table in (*TABLES, *REVIEWS)}
        each = {name: size / count for name, size in parts.items()}
        told = ", ".join(f"{name} {size:.0f}" for name, size in each.items() if size >= 1)
        say(f"    bytes per pending approval: {sum(each.values()):.0f} ({told})")
        yield Row(
            f"Bytes per pending approval (N = {count:,})",
            "B",
            (sum(each.values()),),
            bars=(at_most(BAR),),
            note=told,
        )
    finally:
        holdpoint.reset()
        holdpoint.close()
