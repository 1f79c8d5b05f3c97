"""The REST API on loopback: a real key, a schema, the web server that the site runs, and a lean client.

The limit is a plain WSGI application in the same web server, with raw's one statement behind it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from statistics import harmonic_mean as find_mean
from uuid import UUID

from benchmarks import workload
from benchmarks.contenders.caller import Calls, call_all, write_post
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.raw import Raw
from benchmarks.contenders.web import FLOOR, run_server
from benchmarks.contenders.workers import run_workers
from benchmarks.plan import Plan
from benchmarks.site.workflows import SIGNAL, approve
from benchmarks.table import Row, at_least, times_at_least
from workflows.access.api_keys import create_key
from workflows.models import Workspace

ONE_BY_ONE = 3_000
#: It runs a thousand at a time.
PEER_ROUNDS, PEER_ROUND = 3, 1_000
IN_FLIGHT = 16
BULK = 20_000
#: Two for each process of the web server.
BULK_IN_FLIGHT = 4
BATCHES = (100, 500)
FLOOR_NAME = "plain WSGI and raw"


def measure_http(plan: Plan) -> Iterable[Row]:
    """Completions with 16 in flight, alone and to the end; signals in bulk."""
    with ExitStack() as stack:
        holdpoint, raw = Holdpoint(), Raw(plan.raw_url)
        stack.callback(holdpoint.close)
        stack.callback(raw.close)
        key = create_key("benchmark", workspace=Workspace.objects.get())[1]
        site = Web(stack.enter_context(run_server(DJANGO_SETTINGS_MODULE="benchmarks.site.web")), key)
        floor = Web(stack.enter_context(run_server(FLOOR, RAW_URL=plan.raw_url)))
        yield from compare_completions(plan, holdpoint, raw, site, floor)
        yield compare_to_the_end(plan, holdpoint, site)
        for batch in BATCHES:
            yield compare_bulk(plan, holdpoint, raw, site, floor, batch)


class Web:
    """A server and the key for it."""

    def __init__(self, port: int, key: str = "") -> None:
        self.port, self.key = port, key

    def post_all(self, calls: Iterable[tuple[str, object]], *, in_flight: int, status: int) -> Calls:
        """POST each body to its path."""
        requests = [write_post(self.port, path, json.dumps(body).encode(), self.key) for path, body in calls]
        return call_all(self.port, requests, in_flight=in_flight, status=status)


def complete_all(site: Web, ids: Sequence[UUID]) -> Calls:
    calls = [(f"/v1/signals/gate-{id}/complete", {"data": workload.PAYLOAD}) for id in ids]
    return site.post_all(calls, in_flight=IN_FLIGHT, status=200)


def compare_completions(plan: Plan, holdpoint: Holdpoint, raw: Raw, site: Web, floor: Web) -> Iterator[Row]:
    """No worker runs."""
    mine: list[Calls] = []
    others: list[Calls] = []

    def complete(count: int = ONE_BY_ONE) -> float:
        holdpoint.reset()
        mine.append(complete_all(site, holdpoint.park(count, workflow=approve)))
        holdpoint.expect(count, "status = 1 AND inbox = 1")
        return count / mine[-1].seconds

    def deliver(count: int = ONE_BY_ONE) -> float:
        raw.fill(count, status=0)
        calls = [("/", {"id": id, "payload": workload.PAYLOAD}) for id in range(1, count + 1)]
        others.append(floor.post_all(calls, in_flight=IN_FLIGHT, status=200))
        raw.expect(count, status=1)
        return count / others[-1].seconds

    complete(500), deliver(500)
    del mine[:], others[:]
    rates = plan.interleave({"Holdpoint": complete, FLOOR_NAME: deliver})
    title = f"`POST …/complete`, {IN_FLIGHT} in flight"
    yield Row(title, "/s", rates["Holdpoint"], FLOOR_NAME, rates[FLOOR_NAME], (at_least(2_000),))
    for percent in (50, 99):
        spent, limit = (tuple(one.find_percentile(percent) for one in some) for some in (mine, others))
        yield Row(f"… each, p{percent}", "ms", spent, FLOOR_NAME, limit)


def compare_to_the_end(plan: Plan, holdpoint: Holdpoint, site: Web) -> Row:
    """One worker process; from just before the first call to the last instance's end, on the database's clock."""
    with ExitStack() as stack:
        holdpoint.reset()
        stack.enter_context(run_workers(holdpoint))
        contenders: dict[str, Callable[[], float]] = {}

        def run(count: int = ONE_BY_ONE) -> float:
            holdpoint.reset()
            ids = holdpoint.park(count, workflow=approve)
            begun = holdpoint.read_clock()
            complete_all(site, ids)
            return count / (holdpoint.wait_until_ended(count) - begun)

        run(500)
        contenders["Holdpoint"] = run
        if plan.restate is not None:
            peer = stack.enter_context(plan.restate.running())

            def run_peer(rounds: int = PEER_ROUNDS) -> float:
                return find_mean([peer.finish(peer.park(PEER_ROUND), in_flight=IN_FLIGHT) for _ in range(rounds)])

            run_peer(1)
            contenders["Restate"] = run_peer
        rates = plan.interleave(contenders)
    title = f"… end to end, one worker (N = {ONE_BY_ONE:,}; Restate {PEER_ROUNDS} × {PEER_ROUND:,})"
    others = rates.get("Restate", ())
    return Row(title, "/s", rates["Holdpoint"], "Restate", others, (times_at_least(0.6),), plan.restate_missing)


def compare_bulk(plan: Plan, holdpoint: Holdpoint, raw: Raw, site: Web, floor: Web, batch: int) -> Row:
    """Signals, so many a call; no worker runs."""

    def send(count: int = BULK) -> float:
        holdpoint.reset()
        lines = [{"instance": str(id), "name": SIGNAL, "payload": workload.PAYLOAD} for id in holdpoint.park(count)]
        calls = [("/v1/signals/bulk", lines[first : first + batch]) for first in range(0, count, batch)]
        took = site.post_all(calls, in_flight=BULK_IN_FLIGHT, status=207).seconds
        holdpoint.expect(count, "status = 1 AND inbox = 1")
        return count / took

    def deliver(count: int = BULK) -> float:
        raw.fill(count, status=0)
        lines = [{"id": id, "payload": workload.PAYLOAD} for id in range(1, count + 1)]
        calls = [("/", lines[first : first + batch]) for first in range(0, count, batch)]
        took = floor.post_all(calls, in_flight=BULK_IN_FLIGHT, status=200).seconds
        raw.expect(count, status=1)
        return count / took

    send(2_000), deliver(2_000)
    rates = plan.interleave({f"Holdpoint, {batch} a call": send, f"{FLOOR_NAME}, {batch} a call": deliver})
    mine, limit = rates.values()
    title = f"`POST /v1/signals/bulk`, {batch} a call, {BULK_IN_FLIGHT} in flight"
    return Row(title, "/s", mine, FLOOR_NAME, limit, (at_least(30_000),))
