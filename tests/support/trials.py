"""Which random trials a run plays: most of them those of every run, and some that nobody has played before.

Lives here: the choice of seeds. What must not: what a trial does.
The same seeds again prove the same again: a fault that they do not show is found by new ones. A trial that fails prints
its seed, and HOLDPOINT_SEED plays that one alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

SEED = os.environ.get("HOLDPOINT_SEED")
#: Of so many trials one is new.
NEW = 4


def list_seeds(trials: int, chunk: int, chunks: int) -> Iterator[int]:
    """The seeds of one of several chunks, or the one that was asked for."""
    if SEED is not None:
        yield int(SEED)
        return
    for place, seed in enumerate(range(chunk, trials, chunks)):
        yield random.SystemRandom().randrange(10**9) if place % NEW == NEW - 1 else seed
