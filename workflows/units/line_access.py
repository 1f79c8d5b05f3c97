"""What a machine, and the line of an item, read and ask of units of items: the way from `ctx` to the store.

Invariant owned: everything is read when somebody asks for it, in one statement, and nothing of it is kept in a state.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows import store
from workflows.definitions.question import UNIT
from workflows.exceptions import SignalTimeoutError, UnitFailed
from workflows.lifecycle import InteractionStatus, Status
from workflows.store import Claim, FoundItem, FoundUnit, LineItem, LineResult, UnitLine
from workflows.units.item_results import ItemResult, ItemStatus
from workflows.values.json_text import read_back

if TYPE_CHECKING:
    from workflows.definitions.item_streams import Asking, ItemStream
    from workflows.engine.journals.journal import Journal


@dataclass(frozen=True, slots=True)
class ItemEnd:
    """How one item ended, with its line if it had one."""

    index: int
    status: ItemStatus
    #: JSON: what its line returned, else the answer; None of an item that did not end well.
    output: str | None
    error: str | None


class UnitAccess:
    """One claim's way to units."""

    __slots__ = ("_claim", "_left")

    def __init__(self, claim: Claim, left: Journal) -> None:
        self._claim, self._left = claim, left

    def find_under_way(self, step: str) -> UUID | None:
        """The unit of a stage that has been opened and not gone on from: its release has not been handed out."""
        if not self._claim.asked:
            return None
        found = self._left.find_unit(step)
        if found is None or found.untold:
            return None
        name = f"{UNIT}{found.id}"
        if not found.released:
            return found.id
        unread = (
            name in {row[1] for row in self._left.read([name])}
            if self._claim.signals is None
            else any(row[1] == name for row in self._claim.signals)
        )
        return found.id if unread and name not in (self._claim.names or ()) else None

    def open(self, stream: ItemStream) -> UUID:
        """Open a unit; what an earlier visit that failed has brought is kept."""
        return self._left.ask_each(stream)

    def fill(self, unit: UUID, asking: Asking) -> None:
        """Ask the next items, where the channel is made by the author's code."""
        self._left.fill_each(unit, asking)

    def allow_expiries(self, unit: UUID) -> None:
        """Ask the policy about each item whose time was over; raises `PolicyRefused`."""
        self._left.allow_expiries(unit)

    def read_unit(self, unit: UUID) -> FoundUnit:
        """How a unit stands."""
        return self._left.look(lambda db: store.read_unit(db, unit))

    def read_line(self) -> LineItem:
        """What this line is about."""
        return self._left.look(lambda db: store.read_line(db, self._claim))

    def read_parent(self) -> Claim:
        """The instance that this line belongs to."""
        return self._left.look(lambda db: store.read_parent(db, self._claim))

    def read_ends(self, unit: UUID) -> list[ItemEnd]:
        """How the items of a unit with lines ended, in their order."""
        return [_make_end(one) for one in self._left.look(lambda db: store.read_results(db, unit))]

    def read_answers(self, unit: UUID) -> list[FoundItem]:
        """What the items of a unit were answered, whatever their lines made of it."""
        return self._left.read_each(unit, typed=True)

    def read_requests(self, unit: UUID) -> list[Any]:
        """What each item is."""
        return [json.loads(text) for text in self._left.look(lambda db: store.read_requests(db, unit))]

    def list_lines(self, unit: UUID) -> list[UnitLine]:
        """The lines of a unit as they stand, in the order of their items."""
        return self._left.look(lambda db: store.list_lines(db, unit))

    def read_line_result(self, line: UUID, stage: str) -> str | None:
        """What one line kept of a stage, as JSON; None where it has not run."""
        return self._left.look(lambda db: store.read_line_result(db, line, stage))

    def read_output(self, unit: UUID) -> Any:
        """The answer to the one question of a unit."""
        [row] = self._left.look(lambda db: store.read_ends(db, unit))
        return None if row.output is None else read_back(row.output)

    def read_stage_results(self, unit: UUID, stage: str) -> list[Any]:
        """What the lines of a unit kept of one stage, in the order of the items; None where it has not run."""
        rows = self._left.look(lambda db: store.read_stage_results(db, unit, stage))
        return [None if text is None else read_back(text) for text in rows]


def make_error(step: str, ends: list[ItemEnd]) -> Exception:
    """Why a unit has failed: the first item by its number that ended badly by itself."""
    first = next((one for one in ends if one.status in ("failed", "expired")), None)
    if first is not None and first.status == "expired":
        return SignalTimeoutError(step, first.index)
    if first is None:
        first = next(one for one in ends if one.status == "cancelled")
        return UnitFailed(step, first.error or "it was cancelled", first.index)
    return UnitFailed(step, first.error or "it can no longer be answered", first.index)


def make_result(end: ItemEnd, output: Any) -> ItemResult:
    """What an author is handed of an item under `on_item="partial"`."""
    return ItemResult(end.status, output, end.error)


def _make_end(one: LineResult) -> ItemEnd:
    if one.answer is not InteractionStatus.COMPLETED or one.status is None:
        answer: Any = one.answer.value
        return ItemEnd(one.index, "cancelled" if answer in ("completed", "pending") else answer, None, one.error)
    if one.status is Status.DONE:
        return ItemEnd(one.index, "completed", one.result, None)
    return ItemEnd(one.index, "failed" if one.status is Status.FAILED else "cancelled", None, one.error)
