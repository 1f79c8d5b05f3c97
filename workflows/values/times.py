"""Moments as programs read them.

Lives here: the text of a moment in the API. Must not live here: moments as people read them. Invariant owned: every
moment that leaves is in UTC, whatever zone it was in.
"""

from __future__ import annotations

from datetime import UTC, datetime


def to_rfc3339(moment: datetime | None) -> str | None:
    """The text of a moment in UTC, as RFC 3339 has it, to the microsecond.

    >>> to_rfc3339(datetime(2026, 11, 18, 9, 30, tzinfo=UTC))
    '2026-11-18T09:30:00Z'
    """
    if moment is None:
        return None
    # One without a zone (USE_TZ = False) is in the project's, which is this process's too.
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
