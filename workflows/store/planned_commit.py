"""An outcome as a plan: the row to commit, before anything is written.

Lives here: values only. Must not live here: making them (`commits`), and writing them (`commit`, `child_commits`,
`event_parks`). Invariant owned: what stands in a plan is serialised and checked, so that writing it can fail for the
database's reasons alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from workflows.lifecycle import Event
from workflows.store.checkpoints import Rewind
from workflows.store.claim import Claim
from workflows.store.flow.places import Move
from workflows.store.start import NewInstance

if TYPE_CHECKING:
    from workflows.definitions.outcomes import Invoke


class Kind(IntEnum):
    """What a committed row does; the numbers appear in the statement and, offset, as ledger kinds."""

    NEXT = Event.ADVANCED.code
    AWAIT = Event.PARKED.code
    RETRY = Event.RETRIED.code
    DONE = Event.DONE.code
    STOP = Event.FAILED.code
    SPAWN = Event.SPAWNED.code
    RUN_FAILED = Event.RUN_FAILED.code
    PUT_BACK = Event.PUT_BACK.code
    SUSPEND = Event.SUSPENDED.code
    RERUN = Event.RERUN.code
    #: No outcome, and so no row of the ledger: the engine's own trouble ended the run. See `postpone`.
    POSTPONE = -1


@dataclass(slots=True)
class Commit:
    """One instance's outcome, serialised and checked, ready for the statement."""

    claim: Claim
    kind: Kind
    step: str | None = None
    state: str | None = None
    result: str | None = None
    error: str | None = None
    names: tuple[str, ...] | None = None
    #: Seconds until a sleeper goes on, or until a park times out (None: no deadline). For SUSPEND the moment
    #: itself, in seconds since 1970: it was fixed when the question was asked.
    delay: float | None = None
    #: The signal numbers consumed, by SUSPEND too; for AWAIT those the step was handed, which must not wake it again.
    signals: list[int] = field(default_factory=list)
    solo: bool = False
    children: int = 0
    #: The named event of the wait, which needs a row and a lock of its own.
    event: Any = None
    #: JSON that the history shall tell: of a wait besides, for SUSPEND; of an ending or another run instead.
    tells: str | None = None
    #: The checkpoint of that wait, in a function.
    position: int | None = None
    #: Where the instance stands from now on, if the outcome changes that.
    move: Move | None = None
    #: What becomes of a function's checkpoints with it.
    rewind: Rewind | None = None
    #: The places of open questions that nobody wants an answer to any more: they are closed, and their rows go with it.
    withdraws: tuple[int, ...] = ()
    #: Of a run that failed: the author's part of its traceback, and the call of a function that it was in.
    traceback: str | None = None
    failed_call: str | None = None
    #: Of a run that was postponed: whether it counts as one that ended without an outcome.
    spent: bool = False
    #: An outcome that writes other rows first, and met a row that somebody holds: what to do again, on the pump's
    #: thread only, because it may come to call the author's `handle`.
    again: Callable[[Any, bool], RunResult] | None = None
    #: Of an ending: the names whose signals, come since the claim, make the step run again instead.
    awaited: tuple[str, ...] = ()
    #: The inbox counter under the lock, where it was read.
    inbox: int | None = None
    #: Of lines that have ended, kept with the first of a batch: units with something to be done, and if they are over.
    units: Mapping[UUID, bool] = field(default_factory=dict)


class CameLate(Exception):
    """The step has to run again, and what its own transaction wrote must not stay."""

    def __init__(self, again: Commit) -> None:
        super().__init__(again.claim.id)
        self.again = again


class RunEnd(Enum):
    """A run that leaves nothing to commit."""

    #: Its outcome stands already: it was written together with other rows.
    COMMITTED = "committed"
    #: Another worker holds the instance, or it has ended: nothing of this run is written.
    LOST = "lost"


#: What a run leaves.
RunResult: TypeAlias = Commit | RunEnd


@dataclass(slots=True)
class SpawnPlan:
    """An outcome that starts children, whose rows are written with it."""

    commit: Commit
    children: Sequence[NewInstance]


@dataclass(slots=True)
class InvokePlan:
    """A function that waits for a child: it, the checkpoint of the call and the outcome are written together."""

    commit: Commit
    invoke: Invoke
