"""Which errors of an author's function are worth another run.

Invariant owned: an error that another run would meet again ends the instance at once, in the function and
the declarative style alike; every other one is tried again, as often as `max_attempts` says.
"""

from __future__ import annotations

from workflows.definitions.outcomes import Outcome, RunAgain, Stop
from workflows.exceptions import (
    ChildFailed,
    InvalidCall,
    LeftTransactionOpen,
    NonDeterministic,
    PolicyRefused,
    SignalCollision,
    SignalTimeoutError,
    UnitFailed,
    describe_error,
)

#: An `InvalidCall` is a mistake in the code, which another run makes again; so is an outcome that cannot be stored.
FINAL = (
    SignalTimeoutError,
    SignalCollision,
    ChildFailed,
    UnitFailed,
    NonDeterministic,
    InvalidCall,
    PolicyRefused,
    LeftTransactionOpen,
)


def settle_error(error: Exception, ctx: object) -> Outcome:
    """Stop with the reason, or run again."""
    final = isinstance(error, FINAL)
    give_up = getattr(ctx, "give_up", None)
    if give_up is not None:
        give_up(error, for_good=final)
    return Stop(describe_error(error)) if final else RunAgain(error)
