"""Queues and limits that the code knows: of registered workflows, and of the setting `WORKFLOWS["QUEUES"]`.

Lives here: finding them by their names. Must not live here: what is set at run time. Invariant owned: a rate has one
size in a process, whichever workflows share it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE, FlowOptions
from workflows.definitions.flow.limits import Concurrency, Rate
from workflows.definitions.registry import Definition
from workflows.exceptions import UnknownQueue


def list_queues(workflows: Collection[str] | None = None) -> list[str]:
    """The queues that the code names, in order; for somebody who knows of some workflows only, without the others'."""
    found = [(workflows is None or one.name in workflows, options.queue) for one, options in _list_options()]
    own = {queue for is_known, queue in found if is_known}
    return sorted({DEFAULT_QUEUE, *own, *(conf.queues.keys() - {queue for _, queue in found})})


def check_queue(name: str | None, workflows: Collection[str] | None = None) -> None:
    """Refuse a queue that no code names, or only that of other workflows; None is left to the workflow."""
    if name is not None and name not in (known := list_queues(workflows)):
        raise UnknownQueue(name, known)


def list_rates() -> dict[str, Rate]:
    """The rates of registered workflows, by their names."""
    return {options.rate.name: options.rate for _, options in _list_options() if options.rate is not None}


def list_weights() -> dict[str, int]:
    """The most that a run of any workflow takes of each rate."""
    weights: dict[str, int] = {}
    for _, options in _list_options():
        if options.rate is not None:
            weights[options.rate.name] = max(options.rate.weight, weights.get(options.rate.name, 1))
    return weights


def list_concurrencies() -> dict[str, Concurrency]:
    """The concurrency limits of registered workflows, by what their keys are written as."""
    found = (options.concurrency for _, options in _list_options())
    return {one.name: one for one in found if one is not None}


def fits_concurrency(name: str) -> bool:
    """Whether a name is a template of the code, or may be a key that one makes."""
    known = list_concurrencies()
    return name in known or any(may_make(one, name) for one in known.values())


def uses_flow() -> bool:
    """Whether any registered workflow has a place of its own."""
    return any(True for _ in _list_options())


def may_make(limit: Concurrency, key: str) -> bool:
    """Whether a limit may make this key of some input."""
    if limit.key.function is not None:
        return True
    first, *between = re.split(r"\{[^{}]+\}", limit.key.text)
    if not between:
        return key == first
    *between, last = between
    if not (key.startswith(first) and key.endswith(last)):
        return False
    # Of each text the first place that leaves something for the field before it: one pass, whatever somebody asks for.
    at, end = len(first), len(key) - len(last)
    for text in between:
        if (at := key.find(text, at + 1, end)) < 0:
            return False
        at += len(text)
    return at < end


def _list_options() -> Iterator[tuple[Definition, FlowOptions]]:
    for definition in registry.list_definitions():
        if definition.flow is not None:
            yield definition, definition.flow
