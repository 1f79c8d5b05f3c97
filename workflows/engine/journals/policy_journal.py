"""Asking the project's policy on behalf of a run, and keeping its refusals.

Invariant owned: what the policy refuses is a row of the ledger, whatever becomes of the run.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from workflows import store
from workflows.conf import conf
from workflows.definitions.awaited_event import EVENT, EventSpec
from workflows.definitions.question import UNIT
from workflows.engine.journals.store_access import Ousted, StoreAccess
from workflows.engine.policy import ask_policy, describe_event, describe_wait
from workflows.exceptions import PolicyRefused
from workflows.lifecycle import InteractionStatus
from workflows.store import Claim, NewQuestion
from workflows.values.json_text import dump_value, read_back


class PolicyJournal(StoreAccess):
    """What a run asks the policy."""

    __slots__ = ()

    def allow_event(self, spec: EventSpec) -> None:
        """Ask the policy whether a wait for an event may begin; raises `PolicyRefused`."""
        if conf.policy is None:
            return
        wait = describe_event(
            spec.name,
            instance=UUID(self._claim.id),
            workspace=self._claim.workspace,
            match=spec.match,
            schema=None if spec.schema is None else spec.schema.json,
            channel=spec.channel,
        )
        with self._host.as_engine():
            self._ask_about_suspending(wait, event=spec.name)

    def _ask_policy(self, new: NewQuestion) -> None:
        if conf.policy is not None:
            self._ask_about_suspending(_as_interaction(self._claim, new), signal_id=new.signal_id)

    def _ask_about_suspending(self, interaction: Any, **what: str) -> None:
        try:
            with self._host.as_author():
                ask_policy("suspend", interaction, "")
        except PolicyRefused as refused:
            self._record_refusal({"operation": "suspend", **what, "reason": str(refused)})
            raise

    def allow_expiries(self, unit: UUID) -> None:
        """Ask the policy about each item whose time was over; raises `PolicyRefused`."""
        if conf.policy is None:
            return
        from workflows.models import Interaction

        rows = Interaction.objects.using(self._host.alias).filter(unit_id=unit, status=InteractionStatus.EXPIRED)
        for item in rows.order_by("index"):
            try:
                with self._host.as_author():
                    ask_policy("timeout", item, "")
            except PolicyRefused as refused:
                told = {"operation": "timeout", "signal_id": item.signal_id, "reason": str(refused)}
                self._record_refusal(told)
                raise

    def allow_expiry(self, name: str) -> None:
        """Ask the policy about one of several open questions whose time is over; raises `PolicyRefused`."""
        if conf.policy is None:
            return
        with self._host.as_engine(), self._host.as_author():
            if reason := self.ask_about_timeout(name):
                raise PolicyRefused("timeout", reason.removeprefix("PolicyRefused: "))

    def ask_about_timeout(self, name: str) -> str | None:
        """The policy on a deadline that has passed; the reason if it refuses. `name` is what was waited for."""
        from workflows.models import EventWait, Interaction

        if name.startswith(UNIT):
            asked = Interaction.objects.using(self._host.alias).filter(unit_id=name[len(UNIT) :])
            found, what = asked.order_by("index").first(), "signal_id"
        else:
            wait = EventWait.objects.using(self._host.alias).filter(pk=name[len(EVENT) :]).first()
            found, what = None if wait is None else describe_wait(wait), "event"
        try:
            ask_policy("timeout", found, "")
        except PolicyRefused as refused:
            told = {"operation": "timeout", what: found.signal_id if found else None, "reason": str(refused)}
            self._record_refusal(told)
            return f"PolicyRefused: {refused}"
        return None

    def _record_refusal(self, told: dict[str, Any]) -> None:
        data, fence = dump_value(told, "a refusal"), self._claim.fence
        joined, self._joined = self._joined, False  # the transaction of an atomic step is rolled back by the refusal
        try:
            with self._at_work():
                if not self._commit(
                    lambda db: store.record_refusal(db, self._claim.id, actor="", data=data, fence=fence)
                ):
                    raise Ousted
        finally:
            self._joined = joined


def _as_interaction(claim: Claim, new: NewQuestion) -> Any:
    """The row as it will be, for a policy to look at."""
    from workflows.models import Interaction

    return Interaction(
        id=new.id,
        unit_id=new.unit,
        instance_id=UUID(claim.id),
        workspace_id=claim.workspace,
        status=InteractionStatus.PENDING,
        owned=new.owned,
        channel=new.channel,
        signal_id=new.signal_id,
        assignee=new.assignee,
        group=new.group,
        correlation_id=new.correlation_id,
        request=None if new.request is None else read_back(new.request),
        schema=None if new.schema is None else json.loads(new.schema),
    )
