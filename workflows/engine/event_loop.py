"""The worker's event loop: where the coroutines of async steps and calls run, one at a time for each step.

Lives here: the loop, in a thread of its own that lives as long as the process, and the way back to the thread of the
step. Must not live here: who may be async, which the styles say. Invariants owned:

* What a coroutine asks Django for (its queries, `sync_to_async`, what `ctx` reads) is done by the thread of its step,
  with that thread's connections and inside its transactions. The coroutine itself touches no connection: Django
  refuses that (`SynchronousOnlyOperation`).
* An interruption of the step ends its coroutine too, by a cancellation that it may clean up after. A loop in which
  somebody blocks is given up, and the next coroutine gets a new one.
* When a step has ended, what it began and did not await reaches no database any more.
"""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import functools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import AsyncToSync, SyncToAsync

from workflows.exceptions import InvalidCall, StepTimedOut

logger = logging.getLogger("workflows")

P = ParamSpec("P")
R = TypeVar("R")

#: How long a wait may last at a stretch: an interruption of a thread lands between two.
LOOK_EVERY = 0.25
#: Seconds that a cancelled coroutine has for its clean-up.
GRACE = 2.0

#: The errand whose coroutine runs here; None in code that is not async.
_errand: ContextVar[Errand | None] = ContextVar("holdpoint_errand", default=None)
#: What is atomic here and so has no time for coroutines; empty where they may run.
_refused: ContextVar[str] = ContextVar("holdpoint_no_coroutines", default="")


def run_coroutine(coroutine: Coroutine[Any, Any, R], what: str) -> R:
    """Run a coroutine to its end in the worker's event loop; `what` names it in messages. Called by a step's thread.

    >>> run_coroutine(fetch_rates(), "step 'rates'")
    {'EUR': 1}
    """
    if atomic := _refused.get():
        coroutine.close()
        raise InvalidCall(
            f"{what} is async inside {atomic}: its transaction would stay open, with its locks, for as long as it "
            "waits. Await in a step of its own, and write in an atomic one after it"
        )
    errand = Errand(coroutine)
    loop = _reach_loop()
    before = dict(SyncToAsync.threadlocal.__dict__)
    try:
        loop.begin(errand)
        errand.serve()
    except BaseException:  # the time of the step is over, or the worker is told to end
        loop.call_off(errand)
        raise
    finally:
        errand.close()
        # Later steps of this thread know nothing of this loop, which may be given up by then.
        SyncToAsync.threadlocal.__dict__.clear()
        SyncToAsync.threadlocal.__dict__.update(before)
    result: R = errand.get_result()
    return result


@contextmanager
def refuse_coroutines(what: str) -> Iterator[None]:
    """No coroutine runs in this block; `what` names it in the message."""
    token = _refused.set(what)
    try:
        yield
    finally:
        _refused.reset(token)


def at_home(call: Callable[P, R]) -> Callable[P, R]:
    """Of a call that reads or writes rows: made from a coroutine, it is done by the thread of its step."""

    @functools.wraps(call)
    def go_home(*args: P.args, **kwargs: P.kwargs) -> R:
        errand = _errand.get()
        if errand is None or errand.thread == threading.get_ident():
            return call(*args, **kwargs)
        return errand.submit(call, *args, **kwargs).result()

    return go_home


class Errand(Executor):
    """One coroutine on its way, and meanwhile the executor by which it reaches the thread that waits for it."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self.thread = threading.get_ident()
        self.task: asyncio.Task[None] | None = None
        self._coroutine = coroutine
        #: None says that the coroutine has ended.
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._ended = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    async def run(self) -> None:
        """In the loop: the coroutine itself. Whatever it raises is its result; the loop goes on."""
        AsyncToSync.executors.current = self  # where `sync_to_async` looks for the thread that waits
        _errand.set(self)
        try:
            self._value = await self._coroutine
        except BaseException as error:
            self._error = error

    def end(self, task: asyncio.Task[None]) -> None:
        """In the loop: it has run, or was cancelled before it began."""
        if task.cancelled():
            self._error = asyncio.CancelledError()
            self._coroutine.close()
        self._ended.set()
        self._work.put(None)

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Have it done by the thread that waits."""
        future: Future[R] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(
                    "the step that began this task has ended: nothing of it reaches the database any more. Await "
                    "what a step begins, or gather it in an asyncio.TaskGroup"
                )
            self._work.put((future, functools.partial(fn, *args, **kwargs)))
        return future

    def serve(self, seconds: float | None = None) -> bool:
        """In the thread that waits: do what is asked for, until it has ended; False when time is up before."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._ended.is_set():
            left = LOOK_EVERY if until is None else min(LOOK_EVERY, until - time.monotonic())
            if left <= 0:
                return False
            try:
                work = self._work.get(timeout=left)
            except queue.Empty:
                continue
            if work is not None:
                _do(*work)
        return True

    def close(self) -> None:
        """Take nothing more; what has been asked for too late is refused."""
        with self._lock:
            self._closed = True
            while not self._work.empty():
                if (left := self._work.get()) is not None:
                    left[0].cancel()  # asked for by a task that nobody awaits

    def get_result(self) -> Any:
        """What the coroutine returned, or raise what it raised."""
        if self._error is not None:
            raise self._error
        return self._value


def _do(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = work()
    except Exception as error:
        future.set_exception(error)
    except BaseException as error:
        # It is for the thread, and not for the loop, which a SystemExit would end.
        future.set_exception(asyncio.CancelledError(repr(error)))
        raise
    else:
        future.set_result(value)


class EventLoop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.given_up = False
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._over: asyncio.Event
        self._thread = threading.Thread(target=self._run, name="holdpoint-event-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    def begin(self, errand: Errand) -> None:
        """Begin the coroutine, with the context variables of the thread that calls."""

        def begin() -> None:
            errand.task = self._loop.create_task(errand.run())
            errand.task.add_done_callback(errand.end)

        self._loop.call_soon_threadsafe(begin, context=copy_context())

    def call_off(self, errand: Errand) -> None:
        """Cancel it, and wait for its clean-up; if the loop does not come to that, give the loop up."""

        def cancel() -> None:
            if errand.task is not None:
                errand.task.cancel()

        self._loop.call_soon_threadsafe(cancel)
        ended = False
        try:
            ended = errand.serve(GRACE)
        finally:
            if not ended:
                self._give_up()

    def _give_up(self) -> None:
        logger.warning(
            "an interrupted coroutine does not end: the worker goes on with a new event loop. Does it block, or catch "
            "asyncio.CancelledError?"
        )
        self.given_up = True
        self._loop.call_soon_threadsafe(self._over.set)
        # Lands at the next bytecode: enough for a loop in Python; a blocking call ends it late.
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(self._thread.ident or 0), ctypes.py_object(StepTimedOut)
        )

    def stop(self) -> None:
        """End it with the process: its tasks are cancelled, its generators closed."""
        if self.pid == os.getpid() and not self.given_up and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(GRACE)

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._stay())
        except StepTimedOut:
            logger.info("a given-up event loop has ended")

    async def _stay(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._over.wait()


_lock = threading.Lock()
_current: EventLoop | None = None


def _reach_loop() -> EventLoop:
    """The loop of this process, made when it is first needed; a fork has none of its parent's threads."""
    global _current
    with _lock:
        if _current is None or _current.given_up or _current.pid != os.getpid():
            _current = EventLoop()
            atexit.register(_current.stop)
        return _current
