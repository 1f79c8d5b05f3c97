"""How tests are handed out to the workers of a run: each once, those that wait to workers of their own."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.lanes import ROOT, WAITING, Lanes, count_processors, shares

SHARING = "tests/workflows/store/test_statements.py"
PROCESSES = [f"tests/system/processes/test_cluster.py::test_{n}" for n in range(9)]
COMPUTING = [f"tests/workflows/test_lifecycle.py::test_{n}[{case}]" for n in range(60) for case in "abc"]
TOGETHER = [f"{SHARING}::test_{n}" for n in range(5)]
ALL = [*COMPUTING, *TOGETHER, *PROCESSES]


class Worker:
    """Keeps what it is sent, and is done with it when the test says so."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.done = 0
        self.shutting_down = False
        self.gateway = self
        self.id = "gw"

    def send_runtest_some(self, places: list[int]) -> None:
        self.sent += [ALL[place] for place in places]

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.fixture
def workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Lanes, list[Any]]:
    # As `pytest -n` sets it; within a worker nothing does.
    for name, value in (("tx", [f"{count_processors() + 1}*popen"]), ("loadscopereorder", True)):
        monkeypatch.setattr(request.config.option, name, value, raising=False)
    lanes, nodes = Lanes(request.config), [Worker() for _ in range(count_processors() + 1)]
    made: list[Any] = list(nodes)
    for node in made:
        lanes.add_node(node)
        lanes.add_node_collection(node, ALL)
    lanes.schedule()
    return lanes, made


def run(lanes: Lanes, nodes: list[Any]) -> None:
    """One test of each worker after the other, until nobody has any."""
    while any(node.done < len(node.sent) for node in nodes):
        for node in nodes:
            if node.done < len(node.sent):
                node.done += 1
                lanes.mark_test_complete(node, ALL.index(node.sent[node.done - 1]))


def test_every_test_is_given_to_one_worker(workers: Any) -> None:
    lanes, nodes = workers
    run(lanes, nodes)
    assert Counter(id for node in nodes for id in node.sent) == Counter(ALL)
    assert all(node.shutting_down for node in nodes)
    assert not lanes.has_pending


def test_what_waits_is_begun_by_workers_of_its_own_which_then_help_the_others(workers: Any) -> None:
    lanes, nodes = workers
    run(lanes, nodes)
    assert nodes[-1].sent[: len(PROCESSES)] == PROCESSES
    assert len(nodes[-1].sent) > len(PROCESSES)
    assert not set(PROCESSES) & {id for node in nodes[:-1] for id in node.sent}


def test_tests_that_share_what_is_made_for_them_stay_together_and_are_begun_first(workers: Any) -> None:
    assert shares(SHARING)
    lanes, nodes = workers
    run(lanes, nodes)
    assert nodes[0].sent[: len(TOGETHER)] == TOGETHER
    # Or the cases of a test.
    for node in nodes:
        cases = [id.partition("[")[0] for id in node.sent]
        assert all(cases.count(name) == (3 if "[" in id else 1) for id, name in zip(node.sent, cases, strict=True))


def test_what_a_worker_had_that_ended_goes_to_another(workers: Any) -> None:
    lanes, nodes = workers
    lost = nodes.pop(0)
    assert lanes.remove_node(lost) == lost.sent[0]
    run(lanes, nodes)
    assert Counter(id for node in nodes for id in node.sent) == Counter(ALL)


def test_every_place_where_tests_wait_is_there() -> None:
    assert [place for place in WAITING if not (ROOT / place).exists()] == []
