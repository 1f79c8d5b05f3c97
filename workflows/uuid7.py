"""UUIDv7: ids that sort by the time they were made, so that new rows land at the end of every index.

Python has its own only from 3.14 on and PostgreSQL from 18 on; we support older ones of both.
"""

import os
import threading
import time
from uuid import UUID

_lock = threading.Lock()
_last = 0


def make_uuid7() -> UUID:
    """A new id, greater than every one this process made before.

    >>> make_uuid7() < make_uuid7()
    True
    """
    return make_uuid7s(1)[0]


def make_uuid7s(count: int) -> list[UUID]:
    """So many new ids, ascending: one look at the clock and one draw of chance for all of them.

    >>> ids = make_uuid7s(3)
    >>> ids == sorted(set(ids)) and ids[-1] < make_uuid7()
    True
    """
    global _last
    with _lock:
        # 48 bits of milliseconds, then 12 bits used as a counter within the millisecond (RFC 9562,
        # method 1): ids of one batch keep the order in which they were made.
        first = max(_last + 1, (time.time_ns() // 1_000_000) << 12)
        _last = first + count - 1
    tails = os.urandom(8 * count)
    return [_put_together(first + n, tails[8 * n : 8 * n + 8]) for n in range(count)]


def _put_together(stamp: int, tail: bytes) -> UUID:
    milliseconds, counter = stamp >> 12, stamp & 0xFFF
    chance = int.from_bytes(tail) & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | chance)
