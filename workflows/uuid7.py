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
    global _last
    with _lock:
        # 48 bits of milliseconds, then 12 bits used as a counter within the millisecond (RFC 9562,
        # method 1): ids of one batch keep the order in which they were made.
        _last = max(_last + 1, (time.time_ns() // 1_000_000) << 12)
        stamp = _last
    milliseconds, counter = stamp >> 12, stamp & 0xFFF
    tail = int.from_bytes(os.urandom(8)) & ((1 << 62) - 1)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | counter << 64 | 0b10 << 62 | tail)
