"""The state machine of an instance, as data.

Lives here: the statuses, their stored codes, and the legal edges. Nothing is executed and nothing of
ours is imported, so that every other module (models, SQL, tests, drawings) can read the same table.
Invariant owned: `EDGES` is the only description of which status may follow which; the store's one
assigning fragment, the database trigger and a test all derive from it.
"""

from enum import StrEnum


class Status(StrEnum):
    """Where an instance stands. The text is what people and the API see, `code` is what a row stores."""

    RUNNABLE = "runnable"
    RUNNING = "running"
    AWAITING = "awaiting"
    SLEEPING = "sleeping"
    AWAITING_CHILDREN = "awaiting_children"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def code(self) -> int:
        """The smallint kept in the row: two bytes instead of nine, in the row and in every index."""
        return CODES[self]


#: Codes below `FIRST_TERMINAL` are live; the partial indexes and statements rely on that order.
CODES: dict[Status, int] = {
    Status.RUNNABLE: 1,
    Status.RUNNING: 2,
    Status.AWAITING: 3,
    Status.SLEEPING: 4,
    Status.AWAITING_CHILDREN: 5,
    Status.DONE: 10,
    Status.FAILED: 11,
    Status.CANCELLED: 12,
}
FIRST_TERMINAL = 10

TERMINAL: frozenset[Status] = frozenset(s for s, code in CODES.items() if code >= FIRST_TERMINAL)
LIVE: frozenset[Status] = frozenset(Status) - TERMINAL

#: from -> the statuses that may follow. `running -> running` never happens: a claim is always new.
EDGES: dict[Status, frozenset[Status]] = {
    Status.RUNNABLE: frozenset({Status.RUNNING, Status.CANCELLED}),
    Status.RUNNING: frozenset(
        {
            Status.RUNNABLE,
            Status.AWAITING,
            Status.SLEEPING,
            Status.AWAITING_CHILDREN,
            Status.DONE,
            Status.FAILED,
            Status.CANCELLED,
        }
    ),
    Status.AWAITING: frozenset({Status.RUNNABLE, Status.CANCELLED}),
    Status.SLEEPING: frozenset({Status.RUNNABLE, Status.CANCELLED}),
    Status.AWAITING_CHILDREN: frozenset({Status.RUNNABLE, Status.CANCELLED}),
    Status.DONE: frozenset(),
    Status.FAILED: frozenset({Status.RUNNABLE}),
    Status.CANCELLED: frozenset(),
}

#: A new row may begin only here.
INITIAL: frozenset[Status] = frozenset({Status.RUNNABLE, Status.SLEEPING})


class Event(StrEnum):
    """What a ledger row tells. The codes are stored; they are never reused."""

    STARTED = "started"
    SIGNALLED = "signalled"
    TIMED_OUT = "timed_out"
    WOKE = "woke"
    RECLAIMED = "reclaimed"
    CHILD_ENDED = "child_ended"
    ADVANCED = "advanced"
    PARKED = "parked"
    RETRIED = "retried"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SPAWNED = "spawned"
    RUN_FAILED = "run_failed"
    PUT_BACK = "put_back"
    REOPENED = "reopened"

    @property
    def code(self) -> int:
        """The smallint kept in the ledger row."""
        return EVENT_CODES[self]


EVENT_CODES: dict[Event, int] = {
    Event.STARTED: 1,
    Event.SIGNALLED: 2,
    Event.TIMED_OUT: 3,
    Event.WOKE: 4,
    Event.RECLAIMED: 5,
    Event.CHILD_ENDED: 6,
    Event.ADVANCED: 11,
    Event.PARKED: 12,
    Event.RETRIED: 13,
    Event.DONE: 14,
    Event.FAILED: 15,
    Event.CANCELLED: 16,
    Event.SPAWNED: 17,
    Event.RUN_FAILED: 18,
    Event.PUT_BACK: 19,
    Event.REOPENED: 20,
}
