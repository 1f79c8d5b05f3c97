"""A client of Holdpoint's REST API, for other programs: `pip install django-holdpoint[client]`.

Lives here: the names that programs import. Invariant owned: nothing in this package imports Django or anything else
of ours, so it works where no settings are.

    from workflows.client import Client

    with Client("https://holdpoint.example", "hp_secret") as client:
        order = client.start("Ship", {"order": 7}, key="order-7")
        client.signal("order-7", "payment_confirmed", {"amount": 120}, dedup_key="evt_1")
        client.wait(order, timeout=60)
"""

from workflows.client.calls import Client
from workflows.client.errors import (
    AnsweredElsewhere,
    ApiError,
    Conflict,
    ConnectionFailed,
    DuplicateKey,
    Forbidden,
    Gone,
    IdempotencyConflict,
    InstanceCancelled,
    InstanceError,
    InstanceFailed,
    InvalidData,
    InvalidInput,
    InvalidRequest,
    NotFinished,
    NotFound,
    NotPossible,
    Postponed,
    Redirected,
    ServerError,
    StaleVersion,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnknownPoint,
    UnknownQueue,
    UnknownWorkflow,
    Untrusted,
)
from workflows.client.values import (
    Answered,
    Completion,
    Delivery,
    Emission,
    Event,
    Instance,
    Interaction,
    LimitState,
    Progress,
    QueueState,
    RegisteredWorkflow,
    Unit,
)
from workflows.importing import foreign_packages  # noqa: F401 - somebody else's package of this name is told of here

__all__ = [
    "Answered",
    "AnsweredElsewhere",
    "ApiError",
    "Client",
    "Completion",
    "Conflict",
    "ConnectionFailed",
    "Delivery",
    "DuplicateKey",
    "Emission",
    "Event",
    "Forbidden",
    "Gone",
    "IdempotencyConflict",
    "Instance",
    "InstanceCancelled",
    "InstanceError",
    "InstanceFailed",
    "Interaction",
    "InvalidData",
    "InvalidInput",
    "InvalidRequest",
    "LimitState",
    "NotFinished",
    "NotFound",
    "NotPossible",
    "Postponed",
    "Progress",
    "QueueState",
    "Redirected",
    "RegisteredWorkflow",
    "ServerError",
    "StaleVersion",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Unit",
    "UnknownPoint",
    "UnknownQueue",
    "UnknownWorkflow",
    "Untrusted",
]
