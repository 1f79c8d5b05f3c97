"""What a deploy left behind: instances that this process's code cannot take further, and what to do about them.

Lives here: comparing the live rows with the registry. Nothing is written. Invariant owned: one pass over the
instances, however many there are; the answer grows with the number of different steps, not of rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connections
from django.db.models import Count, Max, Min, TextField
from django.db.models.functions import Cast

from workflows import store
from workflows.definitions import registry
from workflows.definitions.fingerprint import has_changed
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE
from workflows.exceptions import UNSERVED
from workflows.lifecycle import Status
from workflows.models import Instance

#: Different combinations of workflow, version, step and fingerprint that are looked at, the commonest first.
MOST_GROUPS = 10_000
MOST_EXAMPLES = 3


class StuckReason(StrEnum):
    """Why instances stand still, or may behave differently than when they were started."""

    WORKFLOW = "unknown workflow"
    VERSION = "unknown version"
    STEP = "unknown step"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Stuck:
    """Live instances in one step of one version, and what is the matter with them."""

    problem: StuckReason
    workflow: str
    version: int
    step: str
    count: int
    oldest: datetime
    examples: tuple[UUID, ...]
    advice: str

    @property
    def blocks(self) -> bool:
        """Whether they cannot go on; a changed definition is worth knowing and mostly harmless."""
        return self.problem is not StuckReason.CHANGED

    def __str__(self) -> str:
        where = f"{self.workflow!r} version {self.version} in step {self.step!r}"
        many = f"{self.count} live instance{'s' * (self.count != 1)} of workflow {where}"
        return f"{many}: {_REASONS[self.problem]}"


_REASONS = {
    StuckReason.WORKFLOW: "no workflow of this name is registered",
    StuckReason.VERSION: "this version is not registered",
    StuckReason.STEP: "the workflow has no such step",
    StuckReason.CHANGED: "the definition has changed since they were started",
}


def find_stuck(using: str) -> list[Stuck]:
    """What does not fit this process's code: those that cannot go on first, then the merely changed ones."""
    groups: dict[tuple[StuckReason, str, int, str], Stuck] = {}
    for row in _count_live(using):
        if (problem := _find_problem(row)) is None:
            continue
        at = (problem, row["workflow"], row["version"], row["step"])
        known = groups.get(at)
        examples = (*(known.examples if known else ()), UUID(row["first"]), UUID(row["last"]))
        groups[at] = Stuck(
            *at,
            count=row["count"] + (known.count if known else 0),
            oldest=min(row["oldest"], known.oldest) if known else row["oldest"],
            examples=tuple(sorted(set(examples))[:MOST_EXAMPLES]),
            advice=_advise(*at),
        )
    return sorted(groups.values(), key=lambda one: (not one.blocks, one.workflow, one.version, one.step))


@dataclass(frozen=True, slots=True)
class StrandedQueue:
    """A queue in which instances wait, and that no living worker serves."""

    queue: str
    count: int
    oldest: datetime

    @property
    def advice(self) -> str:
        """What to do."""
        return f"S{UNSERVED[1:].format(queue=self.queue)}"

    def __str__(self) -> str:
        waits = "instance waits" if self.count == 1 else "instances wait"
        return f"{self.count} {waits} in queue {self.queue!r}, which no living worker serves"


def find_stranded(using: str) -> list[StrandedQueue]:
    """Queues that nobody serves, of all workspaces. Where no worker lives at all, that is said elsewhere."""
    served = store.list_served(connections[using])
    if served is None:
        return []
    rows: Any = Instance.objects.using(using).filter(status=Status.RUNNABLE).values("queue")
    counted = rows.annotate(count=Count("*"), oldest=Min("due_at")).order_by("queue")
    found = [(row["queue"] or DEFAULT_QUEUE, row["count"], row["oldest"]) for row in counted]
    return [StrandedQueue(*one) for one in found if one[0] not in served]


def explain(instance: Instance) -> str | None:
    """What keeps one instance from going on here, and what to do; None when nothing does."""
    if instance.ended:
        return None
    at = {name: getattr(instance, name) for name in ("workflow", "version", "step", "fingerprint")}
    problem = _find_problem(at)
    if problem is None or problem is StuckReason.CHANGED:
        return None
    return f"{_REASONS[problem]}. {_advise(problem, instance.workflow, instance.version, instance.step)}"


def _count_live(using: str) -> Iterable[dict[str, Any]]:
    """One scan and a hash: no index could help, and none is worth its bytes on a million parked rows."""
    text = Cast("id", TextField())  # PostgreSQL learnt to compare uuids in min() only in version 18
    rows: Any = Instance.objects.using(using).live().values("workflow", "version", "step", "fingerprint")
    rows = rows.annotate(count=Count("*"), oldest=Min("created_at"), first=Min(text), last=Max(text))
    counted: Iterable[dict[str, Any]] = rows.order_by("-count", "workflow", "version", "step")[:MOST_GROUPS]
    return counted


def _find_problem(row: dict[str, Any]) -> StuckReason | None:
    definition = registry.find(row["workflow"], row["version"])
    if definition is None:
        return StuckReason.VERSION if _list_versions(row["workflow"]) else StuckReason.WORKFLOW
    if row["step"] not in definition.steps:
        return StuckReason.STEP
    return StuckReason.CHANGED if has_changed(row["fingerprint"], definition.fingerprint) else None


def _advise(problem: StuckReason, workflow: str, version: int, step: str) -> str:
    cancel = "or give them up: manage.py workflows cancel ID."
    if problem is StuckReason.WORKFLOW:
        names = sorted({one.name for one in registry.list_definitions()})
        close = difflib.get_close_matches(workflow, names, n=1)
        renamed = f" (was it renamed to {close[0]!r}? Set `name = {workflow!r}`)" if close else ""
        return f"Register it again, in or from the workflows.py of an installed app{renamed}, {cancel}"
    if problem is StuckReason.VERSION:
        versions = ", ".join(map(str, _list_versions(workflow)))
        return f"Registered: version {versions}. Keep version {version} beside it until none is left, {cancel}"
    definition = registry.find(workflow, version)
    steps = list(definition.steps) if definition else []
    if problem is StuckReason.STEP:
        close = difflib.get_close_matches(step, steps, n=1)
        new = close[0] if close else "its_new_name"
        return (
            f"It has {', '.join(steps)}. Keep the old name as an alias below the new step (`{step} = {new}`), or keep "
            f"the old class as version {version} and raise the version of the new one, {cancel}"
        )
    return (
        "They go on with the code as it is now. Where old and new do not fit together, keep the old code as "
        f"version {version} and raise the version of the new one."
    )


def _list_versions(workflow: str) -> list[int]:
    return [one.version for one in registry.list_definitions() if one.name == workflow.removesuffix(registry.LINES)]
