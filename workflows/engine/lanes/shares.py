"""Sharing out a claim: plain functions of numbers, without rows.

Invariant owned: nobody gets more than there is room for, and who comes after the last one served comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from workflows.store import Bucket, Part

T = TypeVar("T", int, tuple[int, str])


def find_free(taken: Sequence[int | None] | None, cap: int, count: int) -> list[int]:
    """Numbers of slots that are free, at most so many; none where somebody else has the lock (None).

    What runs without a number, because it began before there was a limit, counts like the others.

    >>> find_free([1, 3], 5, 10)
    [2, 4, 5]
    """
    if taken is None:
        return []
    used = set(taken)
    free = (number for number in range(1, cap + 1) if number not in used)
    # Of a limit that was lowered, numbers above it count as well.
    most = min(count, cap - len(taken))
    return [number for number, _ in zip(free, range(most), strict=False)] if most > 0 else []


def go_round(ordered: list[T], last: T) -> list[T]:
    """Turn an ordered list so that it begins with the one after the last."""
    return [one for one in ordered if one > last] + [one for one in ordered if one <= last]


def share_out(rooms: Sequence[int], limit: int) -> list[int]:
    """How much each gets, as evenly as their rooms allow, the first ones first."""
    shares = [0] * len(rooms)
    left = min(limit, sum(rooms))
    open_ones = [n for n, room in enumerate(rooms) if room]
    while left and open_ones:
        each = max(1, left // len(open_ones))
        for n in open_ones:
            more = min(each, rooms[n] - shares[n], left)
            shares[n] += more
            left -= more
            if not left:
                break
        open_ones = [n for n in open_ones if shares[n] < rooms[n]]
    return shares


def find_parts_needed(bucket: Bucket, need: int) -> int:
    """How many parts of a bucket are held for so many tokens: twice as many as would do if all were full.

    >>> find_parts_needed(Bucket(1, "stripe", "", Tokens(8_000, 60.0, 8_000)), 500)
    1
    """
    return max(1, min(bucket.parts, -(-2 * need * bucket.parts // bucket.burst)))


def find_draws(parts: Sequence[Part], left: dict[int, float], weight: int) -> tuple[tuple[int, float], ...]:
    """Of which part of a bucket a run takes how much: of one that has enough, else of several; of none if all lack it.

    >>> two = [Part(1, 3.0, 4.0, 1.0), Part(2, 2.0, 4.0, 1.0)]
    >>> [find_draws(two, {1: 3.0, 2: 2.0}, weight) for weight in (2, 5, 6)]
    [((1, 2),), ((1, 3.0), (2, 2.0)), ()]
    """
    for one in parts:
        if left[one.id] >= weight:
            return ((one.id, weight),)
    draws: list[tuple[int, float]] = []
    missing = float(weight)
    for one in parts:
        if (amount := min(left[one.id], missing)) > 0:
            draws.append((one.id, amount))
            missing -= amount
    return () if missing > 0 else tuple(draws)
