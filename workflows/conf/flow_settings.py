"""Settings of flow control and schedules: queues, and how many rows a workspace may have of what is set at run time.

Lives here: their types and defaults, and what is said where they cannot be read. Must not live here: what is set at
run time. Invariant owned: a workspace's rows are bounded, so that whoever may write them slows nobody else's workers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from workflows.conf.setting_values import SettingValues
from workflows.exceptions import InvalidCall

FLOW_DEFAULTS: Mapping[str, Any] = {"QUEUES": {}, "MAX_LIMITS": 1_000, "MAX_SCHEDULES": 20_000}

#: The numbers of slots are kept in two bytes.
_MOST_SLOTS = 32_000


class FlowSettings(SettingValues):
    """The part of `WORKFLOWS` that is about them."""

    @cached_property
    def queues(self) -> dict[str, tuple[int | None, tuple[int, int] | None]]:
        """Name -> limit and rate (so many in so many seconds) of the queues that the site declares."""
        given = self._read("QUEUES")
        if fix := want_queues(given):  # the site's mistake: a queue without its limit would let everything through
            raise ImproperlyConfigured(f'WORKFLOWS["QUEUES"]: {fix}')
        return {
            name: (one.get("limit"), None if one.get("rate") is None else parse_rate(one["rate"]))
            for name, one in given.items()
        }

    @cached_property
    def max_limits(self) -> int:
        """How many limits a workspace may have set; and how many queues, and paused workflows."""
        return int(self._read("MAX_LIMITS"))

    @cached_property
    def max_schedules(self) -> int:
        """How many schedules a workspace may have."""
        return int(self._read("MAX_SCHEDULES"))


_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_rate(given: object) -> tuple[int, int]:
    """How many in how many seconds.

    >>> parse_rate("600/m")
    (600, 60)
    """
    found = _RATE.fullmatch(given) if isinstance(given, str) else None
    if found is None:
        raise InvalidCall(f'{given!r:.60} is no rate; write a number per s, m, h or d, such as "600/m"')
    return int(found[1]), _SECONDS[found[2]]


def want_count(value: Any) -> str | None:
    """What to write instead of something that is no number above zero."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return None
    return "Write a whole number above zero."


def want_queues(value: Any) -> str | None:
    """What to write for `QUEUES` instead, if it cannot be read."""
    if not isinstance(value, Mapping):
        return 'Write {"mail": {"limit": 10, "rate": "100/m"}}, or {} for none.'
    for name, one in value.items():
        if not isinstance(name, str) or not name or not all(letter.isalnum() or letter in "-_." for letter in name):
            return "A queue's name is made of letters, digits, dots, hyphens and underscores."
        if not isinstance(one, Mapping) or one.keys() - {"limit", "rate"}:
            return f'Of {name!r:.60}: write {{"limit": 10, "rate": "100/m"}}, either of them or neither.'
        limit = one.get("limit")
        if limit is not None and (want_count(limit) or limit > _MOST_SLOTS):
            return f"Of {name!r:.60}: limit is a whole number from 1 to {_MOST_SLOTS}."
        if one.get("rate") is not None and not _is_rate(one["rate"]):
            return f'Of {name!r:.60}: write a number per s, m, h or d, such as "600/m", or None for no limit.'
    return None


def _is_rate(value: Any) -> bool:
    try:
        parse_rate(value)
    except InvalidCall:
        return False
    return True
