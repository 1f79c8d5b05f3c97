"""Who asked for an instance, and which ones belong together.

Lives here: what a start inside a step carries on, and reading it. Must not live here: who that person is (a kernel
knows an actor's text only). Invariants owned: both stand on the row from its start, so that no row of another instance
is needed later; what cannot be known is told from nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from workflows.definitions.workspace import current_instance
from workflows.models import Instance
from workflows.store import Source

#: What stands in the place of a person where rows that would tell are gone.
UNKNOWN = "?"
#: An actor's text that names an instance.
INSTANCE = "instance:"
#: Rows that an older version of this package wrote, one above the other, that are read in search of one that tells.
MAX_CLIMB = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asked, as an actor's text: empty where a program did, None where it cannot be known."""

    asked_by: str | None
    #: The instance that began it all.
    family: UUID


def find_source(actor: str, *, is_event: bool = False) -> Source | None:
    """The running step's instance, for what it starts; None outside of steps, and where a person is named.

    >>> find_source("user:7") is None
    True
    """
    running = current_instance()
    if running is None or actor.startswith("user:"):
        return None
    return Source(running, is_family=not is_event and actor == f"{INSTANCE}{running}")


def trace_origin(instance: Instance) -> Origin:
    """Who asked for it, and its family.

    >>> trace_origin(instance).asked_by
    'user:7'
    """
    family = instance.family or instance.pk
    if instance.origin is not None:
        return Origin(None if instance.origin == UNKNOWN else instance.origin, family)
    rows = Instance.objects.using(instance._state.db)
    one: Instance | None = instance
    for _ in range(MAX_CLIMB):
        if one is None or one.origin == UNKNOWN:
            return Origin(None, family)
        family = one.family or one.pk
        if one.origin is not None:
            return Origin(one.origin, family)
        above = _read_above(one)
        if above is None:
            return Origin(one.started_by, family)
        one = rows.filter(pk=above, workspace_id=instance.workspace_id).first()
    return Origin(None, family)


def _read_above(one: Instance) -> UUID | None:
    """The instance that started it; a caller's own text may begin like the name of one."""
    if one.started_by.startswith(INSTANCE):
        try:
            return UUID(one.started_by.removeprefix(INSTANCE))
        except ValueError:
            pass
    return one.parent_id
