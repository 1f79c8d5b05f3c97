"""Which tests `make test-fast` runs: a check of every package in the time that somebody waits for; and which cases
`make test-newest` does.

Lives here: the choice, and the reading of `slow_tests.txt`. What must not: fixtures; the choice is made while tests are
collected. Left out are tests that drive a browser, start or kill processes, ask a broker, or are marked `slow`; those
that `slow_tests.txt` names, because they were measured to take longer than `LIMIT` of processor time in Python; and
all cases of a test but its first. Of what is left in a file, at most `MOST` are run, spread evenly over it. Names stand
there without their files, so that a test may move. Invariant: each of them is a test that there is.
"""

from __future__ import annotations

from pathlib import Path

import pytest

#: Seconds. A page of the inbox takes about as long, the start of an instance a twentieth of it. `make test-fast` tells
#: its slowest tests: one that always takes longer belongs into the file.
LIMIT = 0.1
#: Tests of a file.
MOST = 6
LEFT_OUT = {"browser", "process", "kill", "kafka", "slow"}
FILE = Path(__file__).with_name("slow_tests.txt")


def locate(item: pytest.Item) -> str:
    """Return the address that all cases of a test share."""
    return item.nodeid.partition("[")[0]


def read_slow() -> set[str]:
    return set(FILE.read_text().split())


def choose_fast(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that are run, and the others."""
    slow, seen = read_slow(), set()
    quick: dict[Path, list[pytest.Item]] = {}
    for item in items:
        name = locate(item)
        is_left = (
            name.rpartition("::")[2] in slow
            or name in seen
            or any(mark.name in LEFT_OUT for mark in item.iter_markers())
        )
        seen.add(name)
        if not is_left:
            quick.setdefault(item.path, []).append(item)
    chosen = {item for found in quick.values() for item in spread(found)}
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def choose_ends(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the first and the last case of each test, and the others."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(locate(item), []).append(item)
    chosen = {one for found in cases.values() for one in (found[0], found[-1])}
    return [item for item in items if item in chosen], [item for item in items if item not in chosen]


def spread(found: list[pytest.Item]) -> list[pytest.Item]:
    """At most `MOST` of them, from the first to the last.

    >>> spread(list(range(16)))
    [0, 2, 5, 8, 10, 13]
    """
    return [found[at * len(found) // MOST] for at in range(MOST)] if len(found) > MOST else found
