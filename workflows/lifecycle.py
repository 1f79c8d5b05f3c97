"""The state machine of an instance, as data.

Lives here: the statuses, their stored codes, and the legal edges. Nothing is executed and nothing of
ours is imported, so that every other module (models, SQL, tests, drawings) can read the same table.
Invariant owned: `EDGES` is the only description of which status may follow which; the store's one
assigning fragment, the database trigger and a test all derive from it.
"""

from enum import IntEnum, StrEnum


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
    def live(self) -> bool:
        """Whether something can still happen."""
        return CODES[self] < FIRST_TERMINAL

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
STATUS_OF: dict[int, Status] = {code: status for status, code in CODES.items()}

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
    SUSPENDED = "suspended"
    ASKED = "asked"
    ANSWERED = "answered"
    REFUSED = "refused"
    REDACTED = "redacted"
    VOTED = "voted"
    REVERSED = "reversed"
    HANDLED = "handled"
    RESCHEDULED = "rescheduled"
    RERUN = "rerun"
    ITEM_DISPATCHED = "await_interaction_dispatched"
    UNIT_DISPATCHED = "await_unit_dispatch_complete"
    UNIT_WAITING = "await_execution_waiting"
    ITEM_COMPLETED = "await_unit_item_completed"
    UNIT_COMPLETED = "await_unit_completed"
    UNIT_RELEASED = "await_resume_released"
    UNIT_TERMINAL = "await_unit_terminal"

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
    Event.SUSPENDED: 21,
    Event.RERUN: 22,
    Event.ASKED: 31,
    Event.ANSWERED: 32,
    Event.REFUSED: 33,
    Event.REDACTED: 34,
    # Of channels that own their answers: somebody's share in an answer, its taking back, everything else that was done
    # to a question, and a deadline that was moved.
    Event.VOTED: 35,
    Event.REVERSED: 36,
    Event.HANDLED: 37,
    Event.RESCHEDULED: 38,
    # Of a unit of items. Such a row has the unit's id in place of an instance's and counts by the unit's `seq`, so that
    # no item locks the instance. What happens to a single question is told by the rows above.
    Event.ITEM_DISPATCHED: 41,
    Event.UNIT_DISPATCHED: 42,
    Event.UNIT_WAITING: 43,
    Event.ITEM_COMPLETED: 44,
    Event.UNIT_COMPLETED: 45,
    Event.UNIT_RELEASED: 46,
    Event.UNIT_TERMINAL: 47,
}

#: The kinds of the rows that a unit of items has of its own.
UNIT_EVENTS: frozenset[Event] = frozenset(event for event, code in EVENT_CODES.items() if 41 <= code < 60)


class UnitStatus(StrEnum):
    """Where an await unit stands."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class InteractionStatus(StrEnum):
    """Where one question stands. Whether it has been dispatched is a column, not a state."""

    PENDING = "pending"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


#: One code for one meaning in both tables; 1 is the only one from which anything follows.
UNIT_CODES: dict[UnitStatus, int] = {
    UnitStatus.OPEN: 1,
    UnitStatus.COMPLETED: 2,
    UnitStatus.FAILED: 3,
    UnitStatus.EXPIRED: 4,
    UnitStatus.CANCELLED: 5,
}
INTERACTION_CODES: dict[InteractionStatus, int] = {
    InteractionStatus.PENDING: 1,
    InteractionStatus.COMPLETED: 2,
    InteractionStatus.FAILED: 3,
    InteractionStatus.EXPIRED: 4,
    InteractionStatus.CANCELLED: 5,
}


class UnitPhase(StrEnum):
    """How far a unit of items is: with asking them, and with letting its instance go on."""

    #: Some are not asked yet.
    FILLING = "filling"
    #: All are asked, not all are over.
    ASKED = "asked"
    #: It is decided, and its instance does not know yet.
    CLOSED = "closed"
    RELEASED = "released"


UNIT_PHASE_CODES: dict[UnitPhase, int] = {
    UnitPhase.FILLING: 1,
    UnitPhase.ASKED: 2,
    UnitPhase.CLOSED: 3,
    UnitPhase.RELEASED: 4,
}


class ItemPolicy(StrEnum):
    """What becomes of a unit whose item fails or expires."""

    #: The first one fails the unit, and the others are not waited for.
    FAIL = "fail"
    #: The unit goes on to its end, and each item says how it ended.
    PARTIAL = "partial"


class Cardinality(StrEnum):
    """How many questions a unit asks and how many answers it gives."""

    ONE_TO_ONE = "ONE_TO_ONE"
    ONE_TO_MANY = "ONE_TO_MANY"
    MANY_TO_ONE = "MANY_TO_ONE"
    MANY_TO_MANY = "MANY_TO_MANY"


CARDINALITY_CODES: dict[Cardinality, int] = {
    Cardinality.ONE_TO_ONE: 1,
    Cardinality.ONE_TO_MANY: 2,
    Cardinality.MANY_TO_ONE: 3,
    Cardinality.MANY_TO_MANY: 4,
}


class Call(StrEnum):
    """What a checkpoint remembers: the call of a function-style workflow that it is the answer to."""

    STEP = "step"
    ATOMIC = "atomic"
    SIGNAL = "wait_for_signal"
    EVENT = "wait_for_event"
    CALLBACK = "callback"
    CHANNEL = "wait_for"
    SLEEP = "sleep"
    INVOKE = "invoke"
    LAUNCH = "launch"
    EMIT = "emit"
    EACH = "wait_for_each"
    # Questions that are opened without parking, each with the kind of what is asked.
    ASK_CHANNEL = "ask"
    ASK_SIGNAL = "ask_signal"
    ASK_EVENT = "ask_event"
    ASK_CHILD = "ask_child"
    ASK_INSTANCE = "ask_instance"
    ASK_SLEEP = "ask_sleep"
    WAIT_ANY = "wait_any"
    WAIT_ALL = "wait_all"
    GATHER = "gather"


CALL_CODES: dict[Call, int] = {
    Call.STEP: 1,
    Call.ATOMIC: 2,
    Call.SIGNAL: 3,
    Call.EVENT: 4,
    Call.CALLBACK: 5,
    Call.CHANNEL: 6,
    Call.SLEEP: 7,
    Call.INVOKE: 8,
    Call.LAUNCH: 9,
    Call.EMIT: 10,
    Call.EACH: 11,
    Call.ASK_CHANNEL: 12,
    Call.ASK_SIGNAL: 13,
    Call.ASK_EVENT: 14,
    Call.ASK_CHILD: 15,
    Call.ASK_INSTANCE: 16,
    Call.ASK_SLEEP: 17,
    Call.WAIT_ANY: 18,
    Call.WAIT_ALL: 19,
    Call.GATHER: 20,
}

#: The kinds of open questions.
ASKS: frozenset[Call] = frozenset(call for call, code in CALL_CODES.items() if 12 <= code < 18)


class Watch(IntEnum):
    """How far a wait is for what another instance has to say."""

    #: Waits for no end.
    NONE = 0
    #: The instance has not ended.
    ARMED = 1
    #: It has ended, and the one that waits does not know yet.
    ENDED = 2
    #: The end is a signal in the inbox of the one that waits.
    TOLD = 3
    #: Of a fork, and of a question of any kind: it was over when the fork was made. The fork's first run finds out
    #: whether a call before the point has read that.
    INHERITED = 4
