"""Asking many at once: units of items.

Invariant owned: a unit and its first items are written in one transaction, with the rows of their channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.conf import conf
from workflows.definitions.item_streams import Asking, ItemStream
from workflows.definitions.question import Question
from workflows.engine.event_loop import at_home
from workflows.engine.journals.policy_journal import PolicyJournal
from workflows.engine.journals.store_access import Ousted
from workflows.exceptions import SignalCollision
from workflows.lifecycle import Call, InteractionStatus, UnitStatus
from workflows.store import FoundItem, NewItem, NewUnit
from workflows.units.prepared_items import describe_item, prepare_items


class ItemJournal(PolicyJournal):
    """What a run writes and reads of items."""

    __slots__ = ()

    def ask_each(self, stream: ItemStream, call: Call | None = None, position: int | None = None) -> UUID:
        """Open a unit of items and ask the first of them. What an earlier visit that failed was answered is kept."""
        with self._at_work(), self._yielding():
            before = store.find_unit(self._host.db, self._claim, stream.step) if self._claim.asked else None
            visit, answered = 1, {}
            if before is not None:
                visit = before.visit + 1
                if before.status is not UnitStatus.COMPLETED:
                    answered = store.read_answered(self._host.db, before.id)
            earlier = before.id if answered and before is not None else None
            unit, items = prepare_items(self._claim, stream, visit, answered, call, position)
            if conf.policy is not None:
                for index, item in enumerate(items):
                    self._ask_about_suspending(describe_item(self._claim, unit, item, index), signal_id=item.signal_id)
            try:
                opened = self._commit(lambda db: self._write_each(db, unit, items, stream, earlier), hooked=unit.hooked)
            except store.TakenSignalId as error:
                ids = [item.signal_id for item in items]
                raise SignalCollision(store.find_taken(self._host.db, self._claim.workspace, ids) or ids[0]) from error
            if not opened:
                raise Ousted
            return unit.id

    def _write_each(
        self, db: BaseDatabaseWrapper, unit: NewUnit, items: Sequence[NewItem], stream: ItemStream, before: UUID | None
    ) -> bool:
        with store.atomic(db):
            if not store.open_items(db, self._claim, unit, items, before):
                return False
            if unit.hooked:
                self._open_channels(db, unit.id, stream.find_question)
            if unit.line_room:
                store.admit_lines(db, unit.id)
            return True

    def fill_each(self, unit: UUID, asking: Asking) -> None:
        """Ask the next items of a unit whose channel writes rows of its own, as the author's code makes it."""
        with self._at_work(), self._yielding():
            if not self._commit(lambda db: self._write_next(db, unit, asking), hooked=True):
                raise Ousted

    def _write_next(self, db: BaseDatabaseWrapper, unit: UUID, asking: Asking) -> bool:
        with store.atomic(db):
            if not store.lock_claim(db, self._claim):
                return False
            if asked := store.admit_items(db, unit, hooked=True):
                self._open_channels(db, unit, None, asking, asked)
            return True

    def _open_channels(
        self,
        db: BaseDatabaseWrapper,
        unit: UUID,
        find_question: Callable[[int], Question] | None,
        asking: Asking | None = None,
        only: Sequence[UUID] | None = None,
    ) -> None:
        """Let the channels of items that have just been asked write their rows."""
        from workflows.models import Interaction

        rows = Interaction.objects.using(db.alias).filter(unit_id=unit, item=True, queued=False)
        rows = rows.filter(status=InteractionStatus.PENDING) if only is None else rows.filter(pk__in=list(only))
        groups: dict[int, tuple[Any, list[Interaction]]] = {}
        for row in rows.order_by("index").select_related("unit"):
            question = find_question(row.index) if asking is None else asking.make_question(row.request)  # type: ignore[misc]
            if question.opener is not None:
                groups.setdefault(id(question.opener), (question.opener, []))[1].append(row)
        for opener, interactions in groups.values():
            opener.open(interactions)

    def find_unit(self, step: str) -> store.FoundUnit | None:
        """The latest unit of items of a wait."""
        return self.look(lambda db: store.find_unit(db, self._claim, step))

    @at_home
    def read_each(self, unit: UUID, *, typed: bool) -> list[FoundItem]:
        """How the items of a unit ended."""
        with self._at_work():
            return store.read_ends(self._host.db, unit, typed=typed)
