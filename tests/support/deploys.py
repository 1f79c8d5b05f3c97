"""Deploys of code, for tests: versions of one workflow that come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from workflows import Await, Done, Workflow, step
from workflows.definitions import registry


@pytest.fixture(autouse=True)
def deploy() -> Iterator[None]:
    """What a test registers or forgets is its own deploy."""
    definitions, latest = dict(registry._definitions), dict(registry._latest)
    yield
    for now, before in ((registry._definitions, definitions), (registry._latest, latest)):
        now.clear()
        now.update(before)  # type: ignore[arg-type]


def forget(name: str, version: int = 1) -> Any:
    """Deploy code that lacks this version; what was lost can be registered again."""
    known = registry._definitions.pop((name, version))
    left = [one for one in registry.list_definitions() if one.name == name]
    if left:
        registry._latest[name] = left[-1]
    else:
        del registry._latest[name]
    return known


def define_parcel(*steps: str, version: int = 1, **attributes: Any) -> Any:
    """The workflow `deploy.parcel`, whose first step waits for "delivered" and then runs the second."""

    def first(self: Any, ctx: Any) -> Any:
        return Await("delivered", then=steps[1])

    def last(self: Any, ctx: Any) -> Any:
        return Done(f"{ctx.awaited[0].name} {version}")

    methods = dict(zip(steps, (step(first), step(last)), strict=True))
    body = {"name": "deploy.parcel", "version": version, **methods, **attributes}
    return type("Parcel", (Workflow,), {**body, "__qualname__": f"define_parcel.<locals>.{steps}"})
