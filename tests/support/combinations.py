"""Which combinations of two lists a test tries, where a third one is tried beside them.

Lives here: the choice. What must not: a request, an assertion, a random number: two runs try the same.
Invariant: over all shares each combination is tried once, so that any two values of any two lists meet. A mistake that
only three certain values make together is looked for with HOLDPOINT_PRODUCT=1, which tries the whole product.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")

WHOLE = bool(os.environ.get("HOLDPOINT_PRODUCT"))


def take_share(
    firsts: Iterable[First], seconds: Iterable[Second], share: int, shares: int
) -> Iterator[tuple[First, Second]]:
    """Yield every one of `shares` combinations of the two, beginning with that of number `share`.

    >>> list(take_share("ab", (1, 2, 3), 0, 2))
    [('a', 1), ('a', 3), ('b', 2)]
    """
    for (i, first), (k, second) in itertools.product(enumerate(firsts), enumerate(seconds)):
        if WHOLE or (i + k) % shares == share % shares:
            yield first, second
