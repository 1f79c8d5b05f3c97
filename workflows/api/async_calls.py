"""The calls of other Django code for async views, consumers and tests: `astart`, `asignal`, `aresult` and their like.

Lives here: a twin of each call, named as Django names its own (`aget`, `asave`). Must not live here: what a call does.
Invariants owned:

* A twin takes what its call takes and does what it does, on the thread that Django's own async calls use: the caller's
  workspace and actor come along, and so does a test's transaction.
* Waiting for a result holds no thread.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

from asgiref.sync import sync_to_async

from workflows.api.completions.batch_completion import complete_many
from workflows.api.completions.completion import complete
from workflows.api.events import emit
from workflows.api.flow_control import pause, unpause
from workflows.api.instances import (
    LOOK_EVERY,
    cancel,
    find_awaited,
    look_for_end,
    retry,
    signal,
    signal_many,
    start,
    start_many,
)
from workflows.api.lineage.forking import fork
from workflows.api.schedule_calls import schedule, unschedule
from workflows.models import Instance
from workflows.values.durations import parse_delay

P = ParamSpec("P")
R = TypeVar("R")


def make_twin(call: Callable[P, R]) -> Callable[P, Coroutine[Any, Any, R]]:
    """An async function that makes this call on the thread where Django keeps the caller's connections.

    >>> make_twin(emit).__name__
    'aemit'
    """

    async def twin(*args: P.args, **kwargs: P.kwargs) -> R:
        return await sync_to_async(call)(*args, **kwargs)

    functools.update_wrapper(twin, call)
    twin.__name__ = twin.__qualname__ = f"a{call.__name__}"
    twin.__module__ = __name__
    twin.__doc__ = f"`{call.__name__}` for async code. {call.__doc__ or ''}".partition("\n")[0]
    return twin


astart = make_twin(start)
astart_many = make_twin(start_many)
asignal = make_twin(signal)
asignal_many = make_twin(signal_many)
acomplete = make_twin(complete)
acomplete_many = make_twin(complete_many)
aemit = make_twin(emit)
acancel = make_twin(cancel)
aretry = make_twin(retry)
afork = make_twin(fork)
aschedule = make_twin(schedule)
aunschedule = make_twin(unschedule)
apause = make_twin(pause)
aunpause = make_twin(unpause)


async def aresult(instance: Instance | UUID | str, timeout: object = 0, *, workspace: str | None = None) -> Any:
    """`result` for async code: waits up to `timeout` in the event loop, and no thread with it.

    >>> await aresult(shipped_instance, timeout="5s")  # doctest: +SKIP
    {'paid': True}
    """
    patience = parse_delay(timeout)
    id = await sync_to_async(find_awaited)(instance, workspace, waits=patience > 0)
    until = time.monotonic() + patience
    while True:
        left = until - time.monotonic()
        if (ended := await sync_to_async(look_for_end)(id, last=left <= 0)) is not None:
            return ended.result
        await asyncio.sleep(min(LOOK_EVERY, left))
