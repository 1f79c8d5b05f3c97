"""What a parked instance costs on disk: rows, indexes and ledger, after the life that leads there.

Every start and every claim leaves a dead version of the row behind, so vacuum runs as often as
autovacuum would on a table of 100,000: without it a parked row would cost twice, with an INSERT straight
into the parked state it would look cheaper than it is. Measured once: it does not vary.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.contenders.holdpoint import TABLES, Holdpoint
from benchmarks.plan import Plan, say
from benchmarks.table import Row, at_most

BARS = {False: 720, True: 800}
WORDS = {False: "", True: ", with a correlation key"}
VACUUM_EVERY = 1_000


def measure_size(plan: Plan) -> Iterable[Row]:
    """With and without a correlation key."""
    holdpoint = Holdpoint()
    try:
        for keyed, bar in BARS.items():
            holdpoint.reset()
            holdpoint.park(plan.seed_size, keyed=keyed, vacuum_every=VACUUM_EVERY)
            holdpoint.expect(plan.seed_size, "status = 3")
            parts = {table.removeprefix("holdpoint_"): read_size(holdpoint, table) for table in TABLES}
            each = {name: size / plan.seed_size for name, size in parts.items()}
            told = ", ".join(f"{name} {size:.0f}" for name, size in each.items() if size >= 1)
            say(f"    bytes per parked instance{WORDS[keyed]}: {sum(each.values()):.0f} ({told})")
            yield Row(
                f"Bytes per parked signal wait{WORDS[keyed]} (N = {plan.seed_size:,})",
                "B",
                (sum(each.values()),),
                bars=(at_most(bar),),
                note=told,
            )
    finally:
        holdpoint.reset()
        holdpoint.close()


def read_size(holdpoint: Holdpoint, table: str) -> int:
    return int(holdpoint.read("SELECT pg_total_relation_size(%s::regclass)", [table]))
