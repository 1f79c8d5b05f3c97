"""Asking and ending one of several open questions on behalf of a run.

Invariants owned:

* A question and its checkpoint are written in one transaction, and so are a child that is asked for, and the mark on
  the instance whose end is waited for.
* Where one transaction asks several, the locks of all of them are taken before anything is written: of events, then of
  instances by their ids; and the policy is asked before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.definitions.awaited_kinds import AskSpec
from workflows.engine.event_permission import make_permission
from workflows.engine.journals.item_journal import ItemJournal
from workflows.engine.journals.store_access import Ousted
from workflows.exceptions import InvalidCall, NoTarget
from workflows.lifecycle import CODES, Status, Watch
from workflows.store import Address, NewAsk, NewInstance, Saved
from workflows.uuid7 import make_uuid7
from workflows.values.json_text import dump_value

_STATUS_OF = {code: status for status, code in CODES.items()}


class AskedJournal(ItemJournal):
    """What a run writes and reads of its open questions; those with an address are asked like a single one."""

    __slots__ = ()

    def open_ask(
        self,
        spec: AskSpec,
        time: float | datetime | None,
        position: int,
        *,
        child: NewInstance | None = None,
        adrift: Saved | None = None,
        target: UUID | None = None,
    ) -> Saved:
        """Ask what has no address; its checkpoint.

        `child` is to be started; `adrift` is a child that an earlier run has put aside; `target` is waited for anew.
        """
        return self.plan_ask(spec, time, position, child=child, adrift=adrift)(target)

    def plan_ask(
        self,
        spec: AskSpec,
        time: float | datetime | None,
        position: int,
        *,
        child: NewInstance | None = None,
        adrift: Saved | None = None,
    ) -> Callable[[UUID | None], Saved]:
        """What asks it once the policy has been asked, by the instance whose end is waited for."""
        if spec.event is not None:
            self.allow_event(spec.event)

        def write(target: UUID | None) -> Saved:
            with self._at_work(), self._yielding():
                saved = self._commit(lambda db: self._open_ask(db, spec, time, position, child, adrift, target))
                if saved is None:
                    raise Ousted
                self._progress.add(position)
                return saved

        return write

    @property
    def is_joined(self) -> bool:
        """Whether what is asked now is part of the transaction of an atomic step."""
        return self._joined

    def hold(self, specs: Sequence[AskSpec]) -> dict[str, UUID]:
        """Take the locks of all these in their order, where one transaction asks them; the instances that they name."""
        if not self._joined:
            return {}
        with self._at_work(), self._yielding():
            return self._commit(lambda db: self._hold(db, specs))

    def _hold(self, db: BaseDatabaseWrapper, specs: Sequence[AskSpec]) -> dict[str, UUID]:
        named = {one.id: self._find_target(db, one.target) for one in specs if one.target is not None}
        for event in sorted({one.event.name for one in specs if one.event is not None}):
            store.lock_event(db, self._claim.workspace, event, shared=True)
        store.lock_waiting(db, [UUID(self._claim.id), *named.values()])
        if not store.lock_claim(db, self._claim):
            raise Ousted
        return named

    def end_ask(self, saved: Saved, *, expired: bool) -> None:
        """End an open question, for its deadline or because nobody wants its answer any more; channels are told.

        One with an address may have been answered meanwhile, or have another deadline: then it says so.
        """
        with self._at_work(), self._yielding():
            hooked = saved.unit is not None and store.listens()
            if not self._commit(
                lambda db: store.end_ask(db, self._claim, saved.position, saved.name, saved.unit, expired=expired),
                hooked=hooked,
            ):
                raise Ousted
            if saved.unit is None:
                saved.settled, saved.expired = True, expired
                return
            saved.settled = not expired
            now = store.read_standing(self._host.db, saved.unit)
            saved.status, saved.output = now.status, now.output
            saved.ask_deadline, saved.closed_at = now.deadline, now.closed_at

    def part_inherited(self, unread: list[int]) -> None:
        """Of a fork: keep the answers that calls before its point have read, and take back those at these places."""
        with self._at_work(), self._yielding():
            if not self._commit(lambda db: store.part_inherited(db, self._claim, unread)):
                raise Ousted

    def read_result(self, id: UUID) -> tuple[Status, Any, str | None]:
        """How an instance stands: its status, its result and its error."""
        row = self.look(lambda db: store.read_result(db, id))
        if row is None:
            return Status.CANCELLED, None, "it is no longer there"
        status, result, error = row
        return _STATUS_OF[status], None if result is None else json.loads(result), error

    def _open_ask(
        self,
        db: BaseDatabaseWrapper,
        spec: AskSpec,
        time: float | datetime | None,
        position: int,
        child: NewInstance | None,
        adrift: Saved | None,
        target: UUID | None,
    ) -> Saved | None:
        claim = self._claim
        if target is None and spec.target is not None:
            target = self._find_target(db, spec.target)
        if adrift is not None:
            target = adrift.child
        wait = make_uuid7() if spec.event is not None else None
        with store.atomic(db):
            if spec.event is not None:
                store.lock_event(db, claim.workspace, spec.event.name, shared=True)
            if target is not None:
                store.watch_instance(db, claim, target)
            if not store.lock_claim(db, claim):
                return None
            if adrift is not None:
                store.adopt_ask(db, claim, adrift.position)
            elif child is not None:
                store.insert_asked_child(db, claim, child)
                store.watch_instance(db, claim, child.id)
                target = child.id
            value = {"names": list(spec.names)} if spec.names else None if wait is None else str(wait)
            seconds = spec.pause if spec.pause is not None else time
            told: dict[str, Any] = {"step": spec.id, **spec.describe()}
            if isinstance(seconds, datetime):
                told["until"] = seconds
            else:
                told["timeout"] = seconds
            text = None if value is None else json.dumps(value)
            new = NewAsk(
                position=position,
                call=spec.call,
                name=spec.id,
                time=seconds,
                data=dump_value({key: one for key, one in told.items() if one is not None}, f"question {spec.id!r}"),
                child=target,
                value=text,
            )
            opened = store.open_ask(db, claim, new)
            if opened is None:
                raise Ousted  # and a child that was written goes with it
            deadline, watch = opened
            if spec.event is not None and wait is not None:
                allows = make_permission(db, claim, spec.event)
                store.ask_event(db, claim, spec.event, wait, position, deadline, allows=allows)
        saved = Saved(position, spec.call, spec.id, False, False, text, deadline, None)
        saved.child, saved.watch = target, Watch(watch)
        return saved

    def _find_target(self, db: BaseDatabaseWrapper, target: UUID | str) -> UUID:
        to = Address("key" if isinstance(target, str) else "id", target, self._claim.workspace)
        found = store.find_instance(db, to)
        if found is None:
            raise NoTarget(target)
        if str(found[0]) == self._claim.id:
            raise InvalidCall("an instance cannot wait for its own end")
        return UUID(str(found[0]))
