"""What the payment provider decides. It rejects some, is slow with some, and says some things twice.

What becomes of a payment depends on its reference alone: asked again, the provider says the same, as one that keeps to
idempotency keys does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypedDict, TypeVar
from zlib import crc32

#: Of so many payments one is rejected, one is slow, and one is told of twice.
REJECTS, SLOWS, REPEATS = 10, 16, 8
SLOW_SECONDS = 0.5

T = TypeVar("T")


class Status(TypedDict):
    """What the provider says of a payment."""

    reference: str
    status: str
    reason: str


def decide(payment: dict[str, Any]) -> Status:
    """Paid, or rejected with a reason."""
    rejected = _lot(payment, "reject") % REJECTS == 0
    return {
        "reference": payment["reference"],
        "status": "rejected" if rejected else "paid",
        "reason": "the account is closed" if rejected else "",
    }


def is_slow(payment: dict[str, Any]) -> bool:
    """Whether the bank at the other end takes its time."""
    return _lot(payment, "slow") % SLOWS == 0


def is_repeated(payment: dict[str, Any]) -> bool:
    """Whether the provider tells twice."""
    return _lot(payment, "repeat") % REPEATS == 0


def order_answers(asked: Sequence[tuple[dict[str, Any], T]]) -> tuple[list[T], list[T]]:
    """Those that are answered at once and those that are slow, each in no order, and some of them twice."""
    told = [one for one in asked for _ in range(2 if is_repeated(one[0]) else 1)]
    random.shuffle(told)
    return [one for payment, one in told if not is_slow(payment)], [one for payment, one in told if is_slow(payment)]


def _lot(payment: dict[str, Any], what: str) -> int:
    return crc32(f"{what} {payment['reference']}".encode())
