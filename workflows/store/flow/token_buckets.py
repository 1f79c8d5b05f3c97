"""Token buckets: drawn from at a claim, filled by time alone.

Invariants owned: a bucket never holds less than nothing (a constraint), nor more than its burst when it is drawn from;
whoever meets a part that somebody draws from takes another part, and nobody waits. A bucket without rows is full. Into
how many parts it is split follows from its size alone, so that all who draw from it see the same parts, whatever they
know of others who do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.flow.control_rows import Tokens
from workflows.store.sql import CLOCK, NOW, compact, fetch, write_plain, write_texts

#: A bucket is split where each part holds so many tokens, and into so many parts at most.
TOKENS_OF_A_PART = 64
MOST_PARTS = 8
#: What floats leave below zero where all was drawn; more is an overdraft, which the constraint refuses.
GRAIN = 1e-6


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket: whose it is, its size, and what a run takes of it."""

    workspace: int
    name: str
    key: str
    size: Tokens
    weight: int = 1
    #: The most that a run of any workflow takes, as far as this process knows.
    heaviest: int = 1

    @property
    def address(self) -> tuple[int, str, str]:
        """Its name among all."""
        return self.workspace, self.name, self.key

    @property
    def burst(self) -> int:
        """What it holds at most: as much as its heaviest run takes, whatever was set, or that would wait for ever."""
        return max(self.size.burst, self.heaviest)

    @property
    def parts(self) -> int:
        """Into how many rows it is split: a power of two, so that all parts together hold exactly the burst.

        >>> [Bucket(1, "stripe", "", Tokens(burst, 60.0, burst)).parts for burst in (5, 200, 5_000)]
        [1, 2, 8]
        """
        return 1 << max(0, min(MOST_PARTS, self.size.burst // TOKENS_OF_A_PART).bit_length() - 1)


@dataclass(slots=True)
class Part:
    """What was found in one row of a bucket, which this transaction holds."""

    id: int
    tokens: float
    #: What it holds at most, and what flows into it in a second.
    room: float
    speed: float

    def spend(self, amount: float) -> None:
        """Take so much of it."""
        left = self.tokens - amount
        self.tokens = 0.0 if -GRAIN < left < 0 else left


_V = """unnest(%(ns)s::int[], %(workspaces)s::int[], %(names)s::text[], %(keys)s::text[], %(parts)s::int[],
        %(bursts)s::float8[], %(speeds)s::float8[], %(most)s::int[]) v(n, ws, name, key, parts, burst, speed, most)"""

#: Those that are there are left out, because a conflict with one that somebody draws from would be waited for.
_PROVIDE = compact(f"""
    INSERT INTO holdpoint_bucket (workspace_id, name, key, shard, tokens, filled_at, full_at)
    SELECT v.ws, v.name, v.key, g.shard, v.burst / v.parts, {NOW}, {NOW}
    FROM {_V}, generate_series(0, v.parts - 1) g(shard)
    WHERE NOT EXISTS (SELECT FROM holdpoint_bucket b
      WHERE b.workspace_id = v.ws AND b.name = v.name AND b.key = v.key AND b.shard = g.shard)
    ORDER BY 1, 2, 3, 4 ON CONFLICT (workspace_id, name, key, shard) DO NOTHING
""")

#: Locking returns the newest version of a row, whatever the statement's snapshot says.
_DRAW = compact(f"""
    SELECT v.n, b.id, least(v.burst / v.parts,
        b.tokens + least(greatest(extract(epoch FROM {NOW} - b.filled_at)::float8, 0), v.burst / v.speed)
          * v.speed / v.parts),
      v.burst / v.parts, v.speed / v.parts
    FROM {_V} CROSS JOIN LATERAL (
      SELECT b.id, b.tokens, b.filled_at FROM holdpoint_bucket b
      WHERE b.workspace_id = v.ws AND b.name = v.name AND b.key = v.key AND b.shard < v.parts
      ORDER BY random() LIMIT v.most FOR NO KEY UPDATE SKIP LOCKED) b
""")

#: In the transaction that drew: the rows are locked, and what has flowed in until now counts from now on.
_KEEP = compact(f"""
    UPDATE holdpoint_bucket b SET tokens = v.tokens, filled_at = greatest(b.filled_at, {NOW}),
      full_at = {NOW} + least(v.seconds, 1e9) * interval '1 s'
    FROM unnest(%(ids)s::bigint[], %(tokens)s::float8[], %(seconds)s::float8[]) v(id, tokens, seconds)
    WHERE b.id = v.id AND b.id = ANY(%(ids)s::bigint[])
""")

_GIVE_BACK = compact("""
    UPDATE holdpoint_bucket b SET tokens = b.tokens + v.tokens
    FROM (SELECT o.id, v.tokens FROM (SELECT * FROM unnest(%(ids)s::bigint[], %(tokens)s::float8[]) v(id, tokens)
      ORDER BY id) v CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_bucket o WHERE o.id = v.id FOR NO KEY UPDATE) o) v
    WHERE b.id = v.id AND b.id = ANY(%(ids)s::bigint[])
""")

_FORGET = f"DELETE FROM holdpoint_bucket WHERE full_at < {CLOCK} - interval '1 h' RETURNING 1"


def provide_buckets(db: BaseDatabaseWrapper, buckets: Sequence[Bucket]) -> None:
    """Make the rows that are missing, full."""
    fetch(db, _PROVIDE, _describe(buckets), rows=False)


def draw(
    db: BaseDatabaseWrapper, buckets: Sequence[Bucket], some: Sequence[int]
) -> dict[tuple[int, str, str], list[Part]]:
    """Within a transaction: hold so many parts of each that nobody else holds; what is in each of them now."""
    found: dict[tuple[int, str, str], list[Part]] = {one.address: [] for one in buckets}
    for n, *part in fetch(db, _DRAW, _describe(buckets, some)):
        found[buckets[n].address].append(Part(*part))
    return found


def keep_parts(db: BaseDatabaseWrapper, parts: Sequence[Part]) -> None:
    """Write what is left in these."""
    params = {
        "ids": write_plain([one.id for one in parts]),
        "tokens": write_plain([one.tokens for one in parts]),
        "seconds": write_plain([(one.room - one.tokens) / one.speed for one in parts]),
    }
    fetch(db, _KEEP, params, rows=False)


def give_back(db: BaseDatabaseWrapper, drawn: Iterable[tuple[int, float]]) -> None:
    """Put back what runs took that have not begun."""
    sums: dict[int, float] = defaultdict(float)
    for id, amount in drawn:
        sums[id] += amount
    if sums:
        params = {"ids": write_plain(list(sums)), "tokens": write_plain(list(sums.values()))}
        fetch(db, _GIVE_BACK, params, rows=False)


def forget_buckets(db: BaseDatabaseWrapper) -> int:
    """Remove the rows of buckets that are full for a while: nobody uses them, and without a row they are full too."""
    return len(fetch(db, _FORGET, {}))


def _describe(buckets: Sequence[Bucket], some: Sequence[int] = ()) -> dict[str, str]:
    return {
        "most": write_plain(some or [one.parts for one in buckets]),
        "ns": write_plain(range(len(buckets))),
        "workspaces": write_plain([one.workspace for one in buckets]),
        "names": write_texts([one.name for one in buckets]),
        "keys": write_texts([one.key for one in buckets]),
        "parts": write_plain([one.parts for one in buckets]),
        "bursts": write_plain([float(one.burst) for one in buckets]),
        "speeds": write_plain([one.size.count / one.size.per for one in buckets]),
    }
