"""The points at which an instance can be forked, and what is known of one.

Lives here: calls of functions, steps and stages; and wording what is not known. Must not live here: writing the fork
(`forking`). Invariant owned: a fork begins with exactly what a run was handed there, or its caller says the state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.clock import read_now
from workflows.definitions import registry
from workflows.definitions.awaited_kinds import ASKED
from workflows.definitions.registry import LINES, Definition
from workflows.exceptions import NotForkable, UnknownPoint
from workflows.fields import INHERITED
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.store import NewFork
from workflows.values.json_text import RESERVED, dump_value

#: Where an instance stands at a step that has what it needs: it has been handed it, or will be as it is.
_STANDING = (Status.RUNNABLE, Status.RUNNING, Status.SLEEPING, Status.FAILED)


def find_point(db: BaseDatabaseWrapper, definition: Definition, first: Instance, at: str, new: NewFork) -> NewFork:
    """The fork with what is known of its point; refused where that is not enough."""
    find = _find_call if definition.signature is not None else _find_step
    return find(db, definition, first, at, new)


def list_points(instance: Instance) -> list[str]:
    """What `at` may be without a state of the caller's: the calls that were made, or the steps whose states are known.

    >>> list_points(shipped_instance)
    ['ask']
    """
    definition = registry.find(instance.workflow, instance.version)
    if definition is None or instance.workflow.endswith(LINES):
        return []
    db = connections[router.db_for_write(Instance)]
    if definition.signature is not None:
        return _name_calls(instance, [one.name for one in store.list_calls(db, instance.pk)])
    kept = store.list_kept(db, instance.pk, entries=definition.read_state is not None)
    several = {step for step, names in kept.items() if _had_several(names)}
    known = {definition.initial, *kept} - several
    if instance.step not in kept and _stands(definition, instance) and not _begins_unasked(definition, instance):
        known.add(instance.step)
    return [step for step in definition.steps if step in known]


def _find_call(db: BaseDatabaseWrapper, definition: Definition, first: Instance, at: str, new: NewFork) -> NewFork:
    """What was called before it is copied."""
    calls = store.list_calls(db, first.pk)
    for place, one in enumerate(calls):
        if one.name == at:
            # A retry asks anew at the same place: then the call was made before those that came after it.
            return replace(new, calls=place, until=min(later.saved_at for later in calls[place:]))
    names = _name_calls(first, [one.name for one in calls])
    if at not in names:
        raise UnknownPoint(at, names, f"calls (workflow {first.workflow!r} is a function, so at= is a call's id)")
    return replace(new, calls=len(calls), until=first.finished_at or read_now())


def _name_calls(first: Instance, saved: list[str]) -> list[str]:
    """Those that were saved, and the one that raised and was not caught."""
    return [*saved, first.failed_call] if first.failed_call is not None and first.failed_call not in saved else saved


def _find_step(db: BaseDatabaseWrapper, definition: Definition, first: Instance, at: str, new: NewFork) -> NewFork:
    """What a run of it was handed, as far as that was kept or can still be seen."""
    is_machine = definition.read_state is not None
    if at not in definition.steps:
        raise UnknownPoint(at, list(definition.steps), "stages" if is_machine else "steps")
    new = replace(new, step=at)
    kept = store.find_kept(db, first.pk, at, entries=is_machine)
    if kept is not None and _had_several(kept.names):
        return _begin_unasked(first, at, new)
    if kept is not None:
        new = replace(
            new,
            state=kept.state if new.state is None else new.state,
            names=kept.names,
            timed_out=kept.timed_out,
            attempt=kept.attempt,
            spawns=kept.spawns,
            seq=kept.seq,
            fence=kept.fence,
        )
        _check_units(db, definition, first, at, new.state)
        return new
    if new.state is not None:
        return new
    if at == first.step and _stands(definition, first):
        if _begins_unasked(definition, first):
            return _begin_unasked(first, at, new)
        new = replace(new, state=_dump_own(first))
        _check_units(db, definition, first, at, new.state)
        if is_machine:
            return replace(new, seq=first.seq, fence=first.fence + 1)
        return replace(
            new,
            names=None if first.names is None else tuple(first.names),
            timed_out=first.timed_out,
            attempt=first.attempt,
            spawns=first.spawns,
            seq=first.seq,
            fence=first.fence + 1,
        )
    if at == definition.initial:
        return new
    raise NotForkable(first.pk, _tell_unknown(db, definition, first, at))


def _had_several(names: Sequence[str] | None) -> bool:
    """Whether a run was woken by one of several questions: their answers went with its outcome."""
    return bool(names) and names[0] == ASKED  # type: ignore[index]


def _begins_unasked(definition: Definition, first: Instance) -> bool:
    """Whether its own row says of its step no more than that answers to several questions woke it."""
    return definition.read_state is None and _had_several(first.names)


def _begin_unasked(first: Instance, at: str, new: NewFork) -> NewFork:
    if new.state is not None:
        return new
    raise NotForkable(
        first.pk,
        f"step {at!r} was handed answers to several questions, which it has used up. Fork at the step that asks them, "
        "or pass state= to run it without answers",
    )


def _stands(definition: Definition, first: Instance) -> bool:
    """Whether its own row says what a run of its step would be handed. A stage that waits begins with the asking.

    Of one that was cancelled with a wait in its row nobody knows whether the answer had come.
    """
    if first.status in _STANDING:
        return True
    if definition.read_state is not None:
        return first.status in (Status.AWAITING, Status.CANCELLED)
    return first.status == Status.CANCELLED and first.names is None and not first.pending


def _dump_own(first: Instance) -> str | None:
    return None if first.stored_state is INHERITED else dump_value(first.stored_state, "the state")


def _check_units(db: BaseDatabaseWrapper, definition: Definition, first: Instance, at: str, state: str | None) -> None:
    """A machine that is within a list: the list is the first one's, and only that is told when it is over.

    The stage that opens it opens another one.
    """
    if definition.read_state is None or state is None:
        return
    units = [one for name, one in json.loads(state).get("units", {}).items() if isinstance(one, str) and name != at]
    if units and not store.are_told(db, units):
        raise NotForkable(
            first.pk, "a list that it asks is not over yet; fork at the stage that opens the list, which asks it anew"
        )


def _tell_unknown(db: BaseDatabaseWrapper, definition: Definition, first: Instance, at: str) -> str:
    if at == first.step and first.status == Status.AWAITING:
        names = [name for name in first.names or () if not name.startswith(RESERVED)]
        what = f"signal {' or '.join(map(repr, names))}" if names else "an answer"
        return (
            f"step {at!r} has not run yet, because {what} has not come. Fork at the step before it, which begins the "
            "wait, or pass state= to run it with an empty inbox"
        )
    kept = store.list_kept(db, first.pk, entries=definition.read_state is not None)
    known = f"; kept are the latest of {', '.join(map(repr, kept))}" if kept else ""
    return (
        f"the state with which {at!r} ran is not known any more{known}. Pass state=…, or write keep_states = N in "
        f"workflow {definition.name!r} to keep the latest N of each instance"
    )
