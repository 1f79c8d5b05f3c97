"""What a schedule does about ticks, beside when they come: overlap and missed ticks; and all of it as one value.

Lives here: the options as authors and callers write them. Must not live here: a row. Invariant owned: options that were
read can be kept and carried out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias, get_args

from workflows.exceptions import InvalidSchedule, show
from workflows.values.timetable import Timetable, read_timetable

#: What a tick does while the instance lives that the schedule started last.
Overlap: TypeAlias = Literal["allow", "skip", "cancel"]
#: Missed ticks that are made up for: none, the last one, or so many of the last ones, in their order.
CatchUp: TypeAlias = Literal["none", "last"] | int

#: The options that all styles take, in the order of their documentation.
SCHEDULE_OPTIONS: Final = ("cron", "every", "tz", "overlap", "catch_up")
OVERLAPS: Final[tuple[str, ...]] = get_args(Overlap)
DEFAULT_OVERLAP: Final = "skip"
DEFAULT_CATCH_UP: Final = "last"
#: Missed ticks that are started at once, at most.
MOST_CATCH_UP: Final = 1_000
#: The words of `catch_up`, as numbers of ticks.
_WORDS = {"none": 0, "last": 1}


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """When a schedule ticks, and what it does about overlap and about ticks that were missed."""

    timetable: Timetable
    overlap: str
    #: How many of the last missed ticks are made up for.
    catch_up: int

    def within(self, project_zone: str) -> ScheduleOptions:
        """Name the project's time zone where none was named."""
        table = self.timetable
        return self if table.tz else replace(self, timetable=replace(table, tz=project_zone))

    def write(self) -> str:
        """All of it as a text, to tell whether a declaration has changed."""
        table = self.timetable
        every = None if table.every is None else table.every.total_seconds()
        return json.dumps([table.cron, every, table.tz, self.overlap, self.catch_up])


def read_options(cron: object, every: object, tz: object, overlap: object, catch_up: object) -> ScheduleOptions:
    """The options that somebody wrote; `InvalidSchedule` says what to write instead.

    >>> read_options(None, "15m", None, "skip", "last").catch_up
    1
    """
    if not isinstance(overlap, str) or overlap not in OVERLAPS:
        raise InvalidSchedule(f'overlap={show(overlap)} is none: write "allow", "skip" or "cancel"')
    return ScheduleOptions(read_timetable(cron, every, tz), overlap, _read_catch_up(catch_up))


def _read_catch_up(catch_up: object) -> int:
    if isinstance(catch_up, str) and catch_up in _WORDS:
        return _WORDS[catch_up]
    if isinstance(catch_up, bool) or not isinstance(catch_up, int) or not 1 <= catch_up <= MOST_CATCH_UP:
        raise InvalidSchedule(
            f'catch_up={show(catch_up)} is none: write "none", "last", or a number of ticks from 1 to {MOST_CATCH_UP}'
        )
    return catch_up


def show_catch_up(count: int) -> str | int:
    """The number as it is written.

    >>> show_catch_up(1)
    'last'
    """
    return next((word for word, number in _WORDS.items() if number == count), count)
