"""Whatever waits takes `until=` beside `timeout=`: looked up in the signatures, so that a new wait cannot forget it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import workflows
from workflows import Asked, Await, FunctionContext, StepContext, wait_for

#: What has a timeout and waits for nothing within a workflow: the caller's own patience.
PATIENCE = {"result", "aresult"}
#: The engine's own, which takes either as one argument.
INNER = {"ask_and_arm"}


def list_waits() -> Iterator[tuple[str, Callable[..., Any]]]:
    for owner in (FunctionContext, StepContext, Asked):
        for name, member in inspect.getmembers(owner, callable):
            if not name.startswith("_") and name not in INNER:
                yield f"{owner.__name__}.{name}", member
    for name in workflows.__all__:
        member = getattr(workflows, name)
        if callable(member) and name not in PATIENCE:
            yield name, member
    yield "Await", Await.__init__
    yield "wait_for", wait_for


def takes(call: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(call).parameters)
    except (TypeError, ValueError):
        return set()


def test_every_wait_takes_until_beside_timeout() -> None:
    timed = {name: takes(call) for name, call in list_waits() if "timeout" in takes(call)}
    assert {"FunctionContext.wait_for", "FunctionContext.ask", "FunctionContext.wait_any", "Await", "wait_for"} <= set(
        timed
    )
    without = {name for name, parameters in timed.items() if "until" not in parameters}
    assert without == set(), without
