"""How often a caller may call.

Invariant owned: a limit that cannot be counted refuses nobody; whoever is refused is told when to come back.

Calls are counted in Django's default cache, in windows of the rate's own length. In a cache that all processes
share the limit is the site's; in one of each process (Django's default) it is each process's.
"""

from __future__ import annotations

import logging
import time

from django.core.cache import cache

from workflows.rest.protocol.problems import TOO_MANY, RequestRefused

logger = logging.getLogger("workflows")


def count_call(who: str, rate: tuple[int, int] | None) -> None:
    """Count one more call; `RequestRefused` with 429 if it is one too many."""
    if rate is None:
        return
    most, seconds = rate
    now = time.time()
    window = int(now // seconds)
    if _count(f"holdpoint:calls:{who}:{seconds}:{window}", seconds) > most:
        wait = max(1, round((window + 1) * seconds - now + 0.5))
        raise RequestRefused(
            TOO_MANY,
            f"More than {most} calls in {seconds} s. Call again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


def _count(name: str, seconds: int) -> int:
    try:
        try:
            return int(cache.incr(name))
        except ValueError:  # the first call of this window
            cache.add(name, 0, timeout=2 * seconds)
            return int(cache.incr(name))
    except ValueError:  # evicted in between, or a cache that keeps nothing
        return 0
    except Exception:  # every cache has errors of its own; whoever calls is not at fault
        logger.exception("calls cannot be counted: the cache does not work")
        return 0
