"""Flow control at run time: pausing, and other numbers than the code's for queues and limits.

Lives here: the calls of operators' code and of the doors that they use. Must not live here: claiming. Invariants owned:
what is set names something that exists and lets something through; it is in force on every worker within seconds, and
part of the caller's transaction.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.api.arguments import read_actor
from workflows.conf import conf
from workflows.definitions import registry
from workflows.definitions.flow import known_limits
from workflows.definitions.flow.flow_options import read_queue
from workflows.definitions.flow.limits import MOST_SLOTS, MOST_TOKENS, read_period
from workflows.definitions.workspace import current_workspace
from workflows.exceptions import (
    InvalidCall,
    UnknownLimit,
    UnknownQueue,
    UnknownWorkspace,
    WorkspaceFull,
    show,
    to_one_line,
)
from workflows.models import Instance
from workflows.store import Control, Tokens
from workflows.values.durations import write_duration

logger = logging.getLogger("workflows")

#: Stands for an argument that was left out: what it means stays as it is.
LEFT: Final = object()
#: As people write it: "100/m", "5/30s".
_RATE = re.compile(r"([1-9][0-9]*)\s*/\s*([0-9.]*[a-zA-Z][a-zA-Z0-9.]*)")
LONGEST_RATE = 60
#: One of a unit.
_ONE = re.compile("1[a-z]")


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A queue of a workspace: what holds now, and what the code says."""

    name: str
    limit: int | None
    paused: bool
    rate: Tokens | None
    default_limit: int | None
    default_rate: Tokens | None
    #: Steps that run, and instances that wait to; of very many that wait `store.MOST_COUNTED`.
    running: int
    waiting: int
    #: Whether a living worker serves it. Where none lives at all there is another thing to be told.
    served: bool

    @property
    def is_stranded(self) -> bool:
        """Whether something waits for a worker that nobody has started."""
        return bool(self.waiting) and not self.served


@dataclass(frozen=True, slots=True)
class LimitStatus:
    """A limit that a workflow declares, or one of its keys: what holds now, and what the code says."""

    kind: Literal["concurrency", "rate"]
    name: str
    limit: int | None
    rate: Tokens | None
    default_limit: int | None
    default_rate: Tokens | None
    #: Whether somebody has set it.
    overridden: bool
    #: The most that a run takes of a rate.
    weight: int = 1

    @property
    def is_outgrown(self) -> bool:
        """Whether a run takes more than the burst that was set: a deploy came after it. What it takes holds then."""
        return self.rate is not None and self.weight > self.rate.burst


def pause(
    workflow: object = None, *, queue: str | None = None, workspace: str | None = None, actor: object = ""
) -> None:
    """Claim nothing of a workflow, or of a queue, until it is unpaused. What comes for it waits.

    >>> pause("Ship")
    >>> pause(queue="mail")
    """
    _set_paused(workflow, queue, workspace, actor, paused=True)


def unpause(
    workflow: object = None, *, queue: str | None = None, workspace: str | None = None, actor: object = ""
) -> None:
    """Let a workflow, or a queue, go on; one that was not paused stays as it is.

    >>> unpause("Ship")
    """
    _set_paused(workflow, queue, workspace, actor, paused=False)


def list_paused(*, workspace: str | None = None) -> list[str]:
    """The names of the workflows that are paused."""
    scope, control = _read(workspace)
    return sorted(workflow for at, workflow in control.paused if at == scope)


def list_queues(*, workspace: str | None = None) -> list[QueueStatus]:
    """All queues that the code or a row names, with what runs and waits in each."""
    scope, control = _read(workspace)
    names = sorted({*known_limits.list_queues(), *(name for at, name in control.queues if at == scope)})
    return _describe_queues(scope, control, names)


def find_queue(name: str, *, workspace: str | None = None) -> QueueStatus:
    """One queue; `UnknownQueue` where nothing names it."""
    scope, control = _read(workspace)
    _check_queue(name, scope, control)
    return _describe_queues(scope, control, [name])[0]


def change_queue(
    name: str,
    *,
    limit: object = LEFT,
    paused: object = LEFT,
    rate: object = LEFT,
    workspace: str | None = None,
    actor: object = "",
) -> QueueStatus:
    """Set what is named, and leave the rest; None gives the limit or the rate back to the code.

    A rate is written "100/m", "5/30s", or as `{"count": 100, "per": "1m", "burst": 200}`.

    >>> change_queue("mail", limit=10, rate="100/m").limit
    10
    """
    by = read_actor(actor)
    scope, control = _read(workspace)
    _check_queue(name, scope, control)
    _check_room("queues with a number or a pause of their own", scope, (scope, name), control.queues)
    if paused is not LEFT and not isinstance(paused, bool):
        raise InvalidCall(f"paused is true or false, not {show(paused)}")
    number = None if limit is LEFT or limit is None else read_limit(limit)
    tokens = None if rate is LEFT or rate is None else read_rate(rate)
    store.set_queue(
        _db(),
        scope,
        name,
        limit=number,
        sets_limit=limit is not LEFT,
        rate=tokens,
        sets_rate=rate is not LEFT,
        paused=paused if isinstance(paused, bool) else None,
        actor=by,
    )
    given = {"limit": (limit, number), "rate": (rate, tokens), "paused": (paused, paused)}
    changes = [f"{name_of_part} {value}" for name_of_part, (part, value) in given.items() if part is not LEFT]
    _log(f"queue {name} of workspace {scope}: {', '.join(changes) or 'nothing'}", by)
    return find_queue(name, workspace=workspace)


def list_limits(*, workspace: str | None = None) -> list[LimitStatus]:
    """All limits that workflows declare, and the keys for which another number is set."""
    scope, control = _read(workspace)
    keys = {name for at, name in control.slots if at == scope}
    found = [_describe_concurrency(scope, control, name) for name in {*known_limits.list_concurrencies(), *keys}]
    rates = {*known_limits.list_rates(), *(name for at, name in control.rates if at == scope)}
    found += [_describe_rate(scope, control, name) for name in rates]
    return sorted(found, key=lambda one: (one.kind, one.name))


def change_limit(
    kind: Literal["concurrency", "rate"],
    name: str,
    value: object,
    *,
    workspace: str | None = None,
    actor: object = "",
) -> LimitStatus:
    """Set another number in the place of the code's; None gives it back to the code.

    Of a concurrency `name` is a key ("tenant:7") or its template ("tenant:{tenant}"), and the value a number; of a rate
    the value is written as in `change_queue`.

    >>> change_limit("concurrency", "tenant:7", 20).limit
    20
    """
    by = read_actor(actor)
    scope, control = _read(workspace)
    _check_limit(kind, name, scope, control)
    if value is None:
        store.drop_limit(_db(), scope, kind, name)
        _log(f"{kind} limit {name} of workspace {scope}: as the code has it", by)
        return _describe_limit(kind, name, workspace)
    if (scope, name) not in (control.rates if kind == "rate" else control.slots):
        _check_room("limits with a number of their own", scope, None, [*control.rates, *control.slots])
    if kind == "rate":
        rate = read_rate(value)
        if (weight := known_limits.list_weights().get(name, 1)) > rate.burst:
            raise InvalidCall(
                f"a run takes {weight} of rate {name!r}, so a burst of {rate.burst} would let nothing through; write a "
                f"burst of at least {weight}"
            )
        store.set_limit(_db(), scope, kind, name, rate=rate, actor=by)
    else:
        store.set_limit(_db(), scope, kind, name, limit=read_limit(value), actor=by)
    _log(f"{kind} limit {name} of workspace {scope}: {value}", by)
    return _describe_limit(kind, name, workspace)


def read_limit(value: object) -> int:
    """How much may be at once.

    >>> read_limit(5)
    5
    """
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_SLOTS:
        raise InvalidCall(
            f"a limit is a whole number from 1 to {MOST_SLOTS}, not {show(value)}; to let nothing through, pause it"
        )
    return value


def read_rate(value: object) -> Tokens:
    """How often something may begin.

    >>> read_rate("100/m")
    Tokens(count=100, per=60.0, burst=100)
    """
    hint = 'write it as "100/m", "5/30s" or {"count": 100, "per": "1m", "burst": 100}'
    if isinstance(value, Tokens):
        return value
    if isinstance(value, str):
        found = _RATE.fullmatch(value.strip()) if len(value) <= LONGEST_RATE else None
        if found is None:
            raise InvalidCall(f"{show(value)} is no rate; {hint}")
        per = found[2] if found[2][0].isdigit() else f"1{found[2]}"
        value = {"count": int(found[1]), "per": per}
    if not isinstance(value, Mapping) or value.keys() - {"count", "per", "burst"} or {"count", "per"} - value.keys():
        raise InvalidCall(f"{show(value)} is no rate; {hint}")
    count, burst = value["count"], value.get("burst")
    for what, number in (("count", count), ("burst", count if burst is None else burst)):
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_TOKENS:
            raise InvalidCall(f"the {what} of a rate is a whole number from 1 to {MOST_TOKENS}, not {show(number)}")
    return Tokens(count, read_period(value["per"]), count if burst is None else burst)


def write_rate(rate: Tokens) -> str:
    """A rate as people write it, which reads as the same again but for a burst of its own.

    >>> write_rate(Tokens(9, 3600.0, 20)), write_rate(Tokens(5, 5400.0, 5))
    ('9/h', '5/1h30m')
    """
    per = write_duration(timedelta(seconds=rate.per))
    return f"{rate.count}/{per[1:] if _ONE.fullmatch(per) else per}"


def _set_paused(workflow: object, queue: str | None, workspace: str | None, actor: object, *, paused: bool) -> None:
    by, word = read_actor(actor), "pause" if paused else "unpause"
    if (workflow is None) == (queue is None):
        raise InvalidCall(
            f'{word}() takes a workflow or queue=, one of the two: {word}("Ship") or {word}(queue="mail")'
        )
    scope, control = _read(workspace)
    if queue is not None:
        _check_queue(queue, scope, control)
        _check_room("queues with a number or a pause of their own", scope, (scope, queue), control.queues)
        store.set_queue(_db(), scope, queue, paused=paused, actor=by)
    else:
        name = workflow if (scope, workflow) in control.paused else registry.resolve(workflow).name
        if paused:
            _check_room("paused workflows", scope, (scope, str(name)), control.paused)
            store.pause_workflow(_db(), scope, str(name), actor=by)
        else:
            store.unpause_workflow(_db(), scope, str(name))
    _log(f"{word}d {queue or workflow} in workspace {scope}", by)


def _log(done: str, by: str) -> None:
    """A key and whoever sets it are a stranger's texts."""
    logger.info("%s", to_one_line(f"{done}, by {by}"))


def _check_queue(name: str, scope: int, control: Control) -> None:
    known = sorted({*known_limits.list_queues(), *(one for at, one in control.queues if at == scope)})
    if name not in known:
        raise UnknownQueue(name, known)
    read_queue(name)


def _check_limit(kind: str, name: str, scope: int, control: Control) -> None:
    if kind == "rate":
        if name not in known_limits.list_rates() and (scope, name) not in control.rates:
            raise UnknownLimit(kind, name, sorted(known_limits.list_rates()))
    elif kind != "concurrency":
        raise InvalidCall(f'a limit is a "concurrency" or a "rate", not {show(kind)}')
    elif not known_limits.fits_concurrency(name) and (scope, name) not in control.slots:
        raise UnknownLimit(kind, name, sorted(known_limits.list_concurrencies()))


def _check_room(what: str, scope: int, wanted: tuple[int, str] | None, known: Collection[tuple[int, str]]) -> None:
    """Refuse another row where the workspace has as many as it may have: every worker reads them once a second.

    Callers of the same moment do not wait for one another, so each may add one.
    """
    if wanted not in known and sum(at == scope for at, _ in known) >= conf.max_limits:
        raise WorkspaceFull(what, conf.max_limits, "MAX_LIMITS")


def _describe_limit(kind: str, name: str, workspace: str | None) -> LimitStatus:
    scope, control = _read(workspace)
    return (_describe_rate if kind == "rate" else _describe_concurrency)(scope, control, name)


def _describe_queues(scope: int, control: Control, names: list[str]) -> list[QueueStatus]:
    counts, served = store.count_queues(_db(), scope, names), store.list_served(_db())
    found = []
    for name in names:
        row = control.queues.get((scope, name))
        limit, pace = conf.queues.get(name, (None, None))
        rate = None if pace is None else Tokens(pace[0], float(pace[1]), pace[0])
        set_limit, set_rate = (None, None) if row is None else (row.limit, row.rate)
        found.append(
            QueueStatus(
                name,
                limit if set_limit is None else set_limit,
                row is not None and row.paused,
                rate if set_rate is None else set_rate,
                limit,
                rate,
                *counts[name],
                served is None or name in served,
            )
        )
    return found


def _describe_concurrency(scope: int, control: Control, name: str) -> LimitStatus:
    known = known_limits.list_concurrencies()
    declared = known.get(name) or next((one for one in known.values() if known_limits.may_make(one, name)), None)
    template = None if declared is None else control.slots.get((scope, declared.name))
    default = None if declared is None else declared.limit
    own = control.slots.get((scope, name))
    holds = next((one for one in (own, template, default) if one is not None), None)
    return LimitStatus("concurrency", name, holds, None, default, None, own is not None)


def _describe_rate(scope: int, control: Control, name: str) -> LimitStatus:
    declared, own = known_limits.list_rates().get(name), control.rates.get((scope, name))
    default = None if declared is None else Tokens(declared.count, declared.per, declared.burst)
    weight = known_limits.list_weights().get(name, 1)
    return LimitStatus("rate", name, None, default if own is None else own, None, default, own is not None, weight)


def _read(workspace: str | None) -> tuple[int, Control]:
    """The workspace's id, and what is set."""
    db, scope = _db(), current_workspace(workspace)
    if not isinstance(scope, int):
        found = store.resolve_workspaces(db, [scope])
        if scope not in found:
            raise UnknownWorkspace(scope)
        scope = found[scope]
    return scope, store.read_control(db)


def _db() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(Instance)]
