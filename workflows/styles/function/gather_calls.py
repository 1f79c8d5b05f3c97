"""`ctx.gather`: several calls of one run side by side, each saved on its own.

Lives here: the threads of such a run. Must not live here: what a checkpoint is. Invariants owned:

* Only the run's own thread saves. A call has a checkpoint of its own, so that a crash repeats only what has none; their
  places are in the order in which they ended, and a later run finds each by its name.
* A thread leaves no connection behind, and none begins a call when the run is over.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import CoroutineType
from typing import Any

from django.db import connections

from workflows.engine.event_loop import run_coroutine
from workflows.exceptions import InvalidCall, LeftTransactionOpen, show
from workflows.lifecycle import Call
from workflows.styles.function.call_replay import ReplayContext, check_function, read_saved
from workflows.values.json_text import check_text, dump_value

#: Calls of one run that are under way at the same time.
MOST_THREADS = 16
#: Seconds between two looks whether the run was interrupted: a wait without an end could not be.
LOOK_EVERY = 0.1


class GatherCalls(ReplayContext):
    """The call of `ctx` that makes others side by side."""

    __slots__ = ()

    def gather(self, id: str, calls: Mapping[str, Callable[[], Any] | tuple[Any, ...]]) -> dict[str, Any]:
        """Make several calls side by side in this worker, each saved when it ends; their results by name.

        A call is a function, or a function with its arguments: `{"rate": (find_rate, "EUR"), "stock": count_stock}`.
        They share nothing: each has database connections of its own. When one raises, the others are still made and
        saved, and then it is raised.
        """
        jobs = _read_jobs(id, calls)
        results: dict[str, Any] = {}
        while (saved := self._peek(id)) is not None:
            found = self._find(Call.GATHER, saved)
            assert found is not None
            results[saved.removeprefix(f"{id}/")] = read_saved(found.value)
        missing = [job for job in jobs if job.name not in results]
        if missing:
            self._find(Call.GATHER, f"{id}/{missing[0].name}")  # the first that is new
            results |= self._make(id, missing)
        return {job.name: results[job.name] for job in jobs}

    def _peek(self, id: str) -> str | None:
        """The name of the next checkpoint, where it is one of this call's."""
        self.refuse_nesting(f"ctx.gather({id!r})")
        saved = self._load()
        if self._cursor == len(saved) or saved[self._cursor].call is not Call.GATHER:
            return None
        name = saved[self._cursor].name
        return name if name.startswith(f"{id}/") else None

    def _make(self, id: str, jobs: list[_Job]) -> dict[str, Any]:
        results: dict[str, Any] = {}
        errors: dict[str, BaseException] = {}
        # In a test's drain() all of it is one transaction on one connection, which threads of their own would not see.
        alone = self._left.host.savepoints or len(jobs) == 1
        self._running = id
        try:
            for name, value, error in _run_here(jobs) if alone else _run_in_threads(jobs):
                if error is None:
                    try:
                        text = dump_value(value, f"the result of {name!r} in gather {id!r}")
                    except InvalidCall as wrong:
                        errors[name] = wrong
                        continue
                    saved = self._add(self._left.save(self._cursor, Call.GATHER, f"{id}/{name}", value=text))
                    results[name] = read_saved(saved.value)
                else:
                    errors[name] = error
        finally:
            self._running = None
        if errors:
            first = next(job.name for job in jobs if job.name in errors)
            with self._making(Call.GATHER, f"{id}/{first}"):
                raise errors[first]
        return results


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]

    def call(self) -> Any:
        value = self.fn(*self.args)
        return run_coroutine(value, f"the function of {self.name!r}") if isinstance(value, CoroutineType) else value


def _read_jobs(id: str, calls: object) -> list[_Job]:
    if not isinstance(calls, Mapping):
        raise InvalidCall(f'ctx.gather({id!r}) takes a dict such as {{"rate": (find_rate, "EUR")}}, not {show(calls)}')
    jobs = []
    for name, call in calls.items():
        check_text(name, f"a name in ctx.gather({id!r})", limit=100)
        fn, *args = call if isinstance(call, tuple) and call else (call,)
        check_function(fn, f"ctx.gather({id!r}): {name!r}")
        jobs.append(_Job(name, fn, tuple(args)))
    return jobs


def _run_here(jobs: list[_Job]) -> Any:
    for job in jobs:
        try:
            value = job.call()
        except Exception as error:
            yield job.name, None, error
        else:
            yield job.name, value, None


def _run_in_threads(jobs: list[_Job]) -> Any:
    waiting: SimpleQueue[_Job] = SimpleQueue()
    ended: SimpleQueue[tuple[str, Any, BaseException | None]] = SimpleQueue()
    over = threading.Event()
    for job in jobs:
        waiting.put(job)
    for n in range(min(len(jobs), MOST_THREADS)):
        run = contextvars.copy_context().run  # the workspace of the run
        threading.Thread(
            target=run, args=(_work, waiting, ended, over), name=f"holdpoint-gather-{n}", daemon=True
        ).start()
    try:
        left = len(jobs)
        while left:
            try:
                yield ended.get(timeout=LOOK_EVERY)
            except Empty:
                continue
            left -= 1
    finally:
        over.set()  # interrupted: what nobody has begun is not begun any more


def _work(
    waiting: SimpleQueue[_Job], ended: SimpleQueue[tuple[str, Any, BaseException | None]], over: threading.Event
) -> None:
    try:
        while not over.is_set():
            try:
                job = waiting.get_nowait()
            except Empty:
                return
            try:
                value = job.call()
                if open_ones := [db.alias for db in connections.all(initialized_only=True) if db.in_atomic_block]:
                    raise LeftTransactionOpen(open_ones)
            except BaseException as error:  # whatever it is, the run is told and raises it
                ended.put((job.name, None, error))
            else:
                ended.put((job.name, value, None))
            finally:
                connections.close_all()
    finally:
        connections.close_all()
