"""How long failed work waits before it is tried again.

Lives here: the formula, and one table of its numbers. Must not live here: the work, and counting its failures.
Invariant owned: a wait grows with every failure in a row, and never beyond its longest.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackOff:
    """Seconds after the first failure, and the most; each wait is longer by the factor."""

    first: float
    longest: float
    factor: float = 2.0
    #: The wait is multiplied by a number between these two, so that many that failed at once do not come at once.
    scatter: tuple[float, float] = (1.0, 1.0)

    def find_seconds(self, failures: int) -> float:
        """The wait after so many failures in a row.

        >>> [BackOff(1.0, 5.0).find_seconds(failures) for failures in (1, 2, 3, 4)]
        [1.0, 2.0, 4.0, 5.0]
        """
        seconds = min(self.longest, self.first * self.factor ** min(failures - 1, 40))
        return seconds * random.uniform(*self.scatter)


#: A `Retry` of the author without a delay.
RETRY = BackOff(2.0, 2.0**33)
#: A run that ended without an outcome.
FAILED_RUN = BackOff(1.0, 300.0, scatter=(0.5, 1.0))
#: An instance whose workflow this process does not know waits for a process that does.
PUT_BACK = BackOff(10.0, 600.0, scatter=(0.5, 1.5))
#: After the engine's own trouble: soon, as most of it passes, then ever later.
POSTPONED = BackOff(0.5, 30.0, scatter=(0.5, 1.5))
#: A deadline that cannot fire.
DEADLINE = BackOff(1.0, 8.0)
#: A unit of items that cannot be closed.
UNIT = BackOff(1.0, 30.0)
#: A sweep that raised.
SWEEP = BackOff(1.0, 30.0)
#: A question that could not be sent.
DISPATCH = BackOff(2.0, 3600.0, factor=3.0, scatter=(0.8, 1.2))
