"""What an author is handed of a unit whose items may end badly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ItemStatus: TypeAlias = Literal["completed", "failed", "expired", "cancelled"]


@dataclass(frozen=True, slots=True)
class ItemResult:
    """How one item ended, under `on_item="partial"`.

    >>> ItemResult("completed", {"paid": True}).ok
    True
    """

    status: ItemStatus
    #: The answer, or what was made of it; None of an item that was not completed.
    output: Any = None
    #: Why it failed.
    error: str | None = None

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.status == "completed"
