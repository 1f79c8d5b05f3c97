"""Which worker of a run takes which tests, so that no processor stands still while a test waits.

Lives here: the queues of a run on several processes (`pytest -n`). What must not: fixtures.
As many workers as there are processors take the tests that compute. Tests of the whole system start processes and wait
for them, and some others wait too: further workers begin with these. Who has nothing left takes from the other queue.
Tests go to a worker together that share what is made once: those of a file that makes something for its module, and
otherwise all cases of one test. Invariant: every test is given to one worker.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[2]
#: Where tests wait: for processes, for moments to come.
WAITING = (
    "tests/system/",
    "tests/workflows/client/test_client_live.py",
    "tests/workflows/exceptions/test_trouble.py",
    "tests/workflows/rest/resources/test_long_polls.py",
    "tests/workflows/units/test_line_pump.py",
    "tests/workflows/worker/test_silent_connections.py",
    "tests/workflows/worker/test_sweeps.py",
)
#: Workers beside one for each processor, where there are such tests.
WAITERS = 2
#: What is made for all tests of a file takes long.
SHARED = 'scope="module"'


def count_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_workers(config: pytest.Config) -> int:
    """Return how many workers `-n auto` starts."""
    waits = not config.getoption("--fast") and "not process" not in config.getoption("markexpr")
    return count_processors() + (WAITERS if waits else 0)


@cache
def shares(file: str) -> bool:
    path = ROOT / file
    return path.is_file() and SHARED in path.read_text()


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out units of tests: those that wait to the last workers, and long ones before short ones."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        config.option.loadscopereorder = False  # by `_order`
        super().__init__(config, log)
        self.workqueue: OrderedDict[str, dict[str, bool]]
        self._places: dict[Any, dict[str, int]] = {}

    def _split_scope(self, nodeid: str) -> str:
        name = nodeid.partition("[")[0]
        file = name.partition("::")[0]
        return file if shares(file) else name

    def _assign_work_unit(self, node: Any) -> None:
        if not self._places:
            self._order()
        if node not in self._places:
            self._places[node] = {id: place for place, id in enumerate(self.registered_collections[node])}
        scope = self._choose(node)
        unit = self.workqueue.pop(scope)
        self.assigned_work[node][scope] = unit
        node.send_runtest_some([self._places[node][id] for id, is_done in unit.items() if not is_done])

    def _order(self) -> None:
        units = sorted(self.workqueue.items(), key=lambda unit: (not unit[0].startswith(WAITING), "::" in unit[0]))
        self.workqueue = OrderedDict(units)

    def _choose(self, node: Any) -> str:
        waits = self.nodes.index(node) >= count_processors()
        fitting = (scope for scope in self.workqueue if scope.startswith(WAITING) is waits)
        return next(fitting, None) or next(iter(self.workqueue))

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        id = self.registered_collections[node][item_index]
        scope, units = self._split_scope(id), self.assigned_work[node]
        units[scope][id] = True
        if all(units[scope].values()):  # otherwise to count what is left takes longer with every unit
            del units[scope]
        self._reschedule(node)
