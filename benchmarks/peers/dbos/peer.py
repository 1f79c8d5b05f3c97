"""DBOS Transact's side of the benchmark; runs in its own virtual environment, told what to do line by line.

executor   one process that executes the workflows, as its documentation shows it, with default settings
client     one process that sends messages through DBOSClient, as another service would

Only stdout speaks to the benchmark: one line of JSON for each line of JSON that came.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from dbos import DBOS, DBOSClient, SendMessage

TOPIC = "go"
QUEUE = "starts"
INPUT = {"order": 1234567, "customer": "c-0042", "note": "x" * 88}
PAYLOAD = {"amount": 120, "reference": "evt_0123456789"}


@DBOS.workflow()
def wait(order: dict[str, Any]) -> Any:
    """Wait for one message, then end."""
    return DBOS.recv(TOPIC, timeout_seconds=3600)


@DBOS.step()
def call(n: int) -> dict[str, Any]:
    """Return something to be saved."""
    return {"n": n, "note": "x" * 88}


@DBOS.workflow()
def run_one(order: dict[str, Any]) -> Any:
    """Run one step, then end."""
    return call(order["order"])


@DBOS.workflow()
def remember(calls: int) -> int:
    """Save as many results, then wait for one message."""
    for n in range(calls):
        call(n)
    return len(DBOS.recv(TOPIC, timeout_seconds=3600))


def run_functions(count: int, calls: int) -> float:
    """Run functions from their start to their result, one after the other; per second."""
    begun = time.perf_counter()
    for _ in range(count):
        handle = DBOS.start_workflow(remember, calls)
        DBOS.send(handle.workflow_id, PAYLOAD, TOPIC)
        assert handle.get_result(polling_interval_sec=0.001) == len(PAYLOAD)
    return count / (time.perf_counter() - begun)


def execute(command: dict[str, Any]) -> Any:
    """Start workflows; each parks in a thread of this process."""
    if command["do"] == "functions":
        return run_functions(command["count"], command["calls"])
    return [DBOS.start_workflow(wait, INPUT).workflow_id for _ in range(command["count"])]


class Sender:
    """The client process."""

    def __init__(self, url: str) -> None:
        self.dbos = DBOSClient(system_database_url=url)
        self.observer = psycopg.connect(url, autocommit=True, prepare_threshold=0)

    def __call__(self, command: dict[str, Any]) -> Any:
        if command["do"] == "idle":
            return [self.time_one(id, gap) for id, gap in zip(command["ids"], command["gaps"], strict=True)]
        if command["do"] == "enqueue":
            each, more = divmod(command["count"], threads := command["threads"])
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(self.enqueue, [each + (n < more) for n in range(threads)]))
            return command["count"]
        return self.send(command["ids"], command["batch"])

    def enqueue(self, count: int) -> None:
        for _ in range(count):
            self.dbos.enqueue({"queue_name": QUEUE, "workflow_name": "run_one"}, INPUT)

    def send(self, ids: list[str], batch: int) -> float:
        """Send to all; seconds."""
        begun = time.perf_counter()
        if batch == 1:
            for id in ids:
                self.dbos.send(id, PAYLOAD, TOPIC)
        else:
            for first in range(0, len(ids), batch):
                self.dbos.send_bulk([SendMessage(id, PAYLOAD, TOPIC) for id in ids[first : first + batch]])
        return time.perf_counter() - begun

    def time_one(self, id: str, gap: float) -> float:
        """Send one message and look until its workflow has ended; milliseconds."""
        time.sleep(gap)
        begun = time.perf_counter()
        self.dbos.send(id, PAYLOAD, TOPIC)
        while not self.observer.execute(
            "SELECT completed_at IS NOT NULL FROM dbos.workflow_status WHERE workflow_uuid = %s", [id]
        ).fetchone()[0]:  # type: ignore[index]
            time.sleep(0.0002)
        return (time.perf_counter() - begun) * 1000


def main(role: str, url: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not be taken for an answer
    obey: Callable[[dict[str, Any]], Any]
    if role == "executor":
        DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
        DBOS.launch()
        DBOS.register_queue(QUEUE)
        obey = execute
    else:
        obey = Sender(url)
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), file=answers, flush=True)
    os._exit(0)  # threads that wait for a message would keep the process


if __name__ == "__main__":
    main(*sys.argv[1:])
