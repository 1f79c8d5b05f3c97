"""`python -m benchmarks.profile_pump`: where the pump's time goes while it drains instances.

Two passes in this process: one with a stopwatch around claim, author and commit (and around the waiting
for PostgreSQL inside them), one under cProfile for the functions. The second is slower and only says
which functions are worth a look.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from benchmarks.__main__ import start_django
from benchmarks.server import MAIN, open_server

WARM_UP = 1_000


class Stopwatch:
    """Seconds and calls per part, by standing in for the functions the pump calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        self._part = "other"

    def around(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            before, self._part = self._part, part
            begun = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[part] += time.perf_counter() - begun
                self.calls[part] += 1
                self._part = before

        return timed

    def watch_database(self, execute: Callable[..., Any], *args: Any) -> Any:
        """A Django execute wrapper: time in which this process waits for, and reads from, PostgreSQL."""
        begun = time.perf_counter()
        try:
            return execute(*args)
        finally:
            self.seconds[f"{self._part}: PostgreSQL"] += time.perf_counter() - begun
            self.calls[f"{self._part}: PostgreSQL"] += 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_pump", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="steps to drain (20,000)")
    parser.add_argument("--kind", choices=("noop", "chain", "wait"), default="noop")
    parser.add_argument("--top", type=int, default=30, help="functions to print (30)")
    options = parser.parse_args()
    with open_server() as server:
        start_django(server.create_database(MAIN))
        time_parts(options.kind, options.count)
        profile_functions(options.kind, options.count, options.top)


def time_parts(kind: str, count: int) -> None:
    """Print milliseconds per batch, split in claim, author and commit."""
    from workflows import engine, store
    from workflows.worker import pump_connection

    watch = Stopwatch()
    kept = store.claim, engine.run, engine.settle, pump_connection.connect
    fill(kind, WARM_UP)
    drain()

    def connect(alias: str, lookout: Any = None) -> Any:
        db = kept[3](alias, lookout)
        db.execute_wrappers.append(watch.watch_database)
        return db

    ready = fill(kind, count)
    store.claim, engine.run = watch.around("claim", kept[0]), watch.around("author", kept[1])
    engine.settle, pump_connection.connect = watch.around("commit", kept[2]), connect
    try:
        took = drain()
    finally:
        store.claim, engine.run, engine.settle, pump_connection.connect = kept
    batches = watch.calls["commit"]
    print(f"\n{kind}: {ready} steps in {took:.3f} s = {ready / took:,.0f} /s in {batches} batches")
    print(f"load {os.getloadavg()[0]:.2f}, one process; the part's own line includes its PostgreSQL line\n")
    print(f"{'part':<22}{'ms':>10}{'% of all':>10}{'ms / batch':>12}{'µs / step':>12}")
    parts = {part: watch.seconds[part] for part in ("claim", "author", "commit")}
    for part, seconds in [
        *watch.seconds.items(),
        ("everything else", took - sum(parts.values())),
        ("total", took),
    ]:
        print(
            f"{part:<22}{seconds * 1e3:>10.1f}{seconds / took:>10.1%}{seconds * 1e3 / batches:>12.2f}"
            f"{seconds * 1e6 / ready:>12.1f}"
        )


def profile_functions(kind: str, count: int, top: int) -> None:
    """Print the functions with the most time of their own."""
    fill(kind, count)
    profile = cProfile.Profile()
    profile.enable()
    drain()
    profile.disable()
    print("\nunder cProfile (slower: for the order, not the amounts)")
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(top)


def fill(kind: str, count: int) -> int:
    """Make so many steps runnable and return how many there will be."""
    from benchmarks.contenders.holdpoint import Holdpoint
    from benchmarks.site.workflows import Chain, Noop
    from workflows import start_many

    holdpoint = Holdpoint()
    holdpoint.reset()
    if kind == "wait":
        holdpoint.signal_all(holdpoint.park(count), 500)
    elif kind == "chain":
        start_many(Chain, [{"left": 10}] * (count // 10))
    else:
        start_many(Noop, [{}] * count)
    holdpoint.close()
    return count


def drain() -> float:
    """Run the pump in this process until nothing is left; seconds."""
    from benchmarks.contenders.holdpoint import Holdpoint
    from workflows.worker.pump import Pump

    observer = Holdpoint()
    left = 1

    def is_done() -> bool:
        nonlocal left
        # Asked between batches: one look into a partial index that holds only what is runnable.
        left = observer.read("SELECT count(*) FROM (SELECT FROM holdpoint_instance WHERE status = 1 LIMIT 1) s")
        return not left

    pump = Pump(should_stop=is_done)
    begun = time.perf_counter()
    pump.run()
    took = time.perf_counter() - begun
    observer.close()
    return took


if __name__ == "__main__":
    main()
