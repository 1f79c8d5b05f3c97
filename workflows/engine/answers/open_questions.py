"""How the open questions of a run stand: what has come for them, which are over, and what a park on them is.

Lives here: looking at questions that are checkpoints, for every style. Must not live here: asking them, and what the
author is told. Invariants owned:

* A signal is taken by one question, the oldest that wants it, and that is saved before anybody is told.
* Which question was over first is the same whenever it is asked: it is told by moments that stand in rows.
* What came after a question's deadline is none of its answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from workflows.definitions.awaited_event import EVENT
from workflows.definitions.awaited_kinds import ASKED, END
from workflows.definitions.outcomes import Suspend
from workflows.definitions.question import UNIT
from workflows.exceptions import ChildCancelled, ChildFailed, SignalTimeoutError, UnitFailed
from workflows.lifecycle import Call, InteractionStatus, Status
from workflows.values.json_text import dump_value, read_back

if TYPE_CHECKING:
    from workflows.engine.context import Context, Signal
    from workflows.engine.journals.journal import Journal
    from workflows.store import Saved


class OpenQuestions:
    """The questions of one run. Belongs to its `ctx`."""

    __slots__ = ("_claim", "_ctx", "_left")

    def __init__(self, ctx: Context, left: Journal) -> None:
        self._ctx, self._left, self._claim = ctx, left, ctx.claim

    def look(self, asks: Iterable[Saved]) -> None:
        """Save what has come for questions that are open, and end those whose time is over."""
        asks = sorted(asks, key=lambda one: one.position)
        taken = {one.signal for one in asks if one.signal is not None}
        for saved in asks:
            if self.is_over(saved):
                continue
            if (found := self._find_signal(saved, taken)) is not None:
                taken.add(found.n)
                self._settle(saved, found)
            elif is_past(saved, self._claim.at) and saved.call is not Call.ASK_SLEEP:
                if saved.call in (Call.ASK_CHANNEL, Call.ASK_EVENT):
                    self._left.allow_expiry(find_names(saved)[0])
                self._left.end_ask(saved, expired=True)

    def is_over(self, saved: Saved) -> bool:
        """Whether nothing can come for it any more."""
        if saved.settled:
            return True
        if saved.call is Call.ASK_SLEEP:
            return is_past(saved, self._claim.at)
        return saved.unit is not None and saved.status is not InteractionStatus.PENDING

    def is_answered(self, saved: Saved) -> bool:
        """Whether one that is over has an answer."""
        if saved.unit is not None:
            return saved.status is InteractionStatus.COMPLETED
        if saved.call is Call.ASK_SLEEP:
            return not saved.settled  # only a withdrawal settles it
        came = read_arrival(saved)
        return came is not None and came.get("status", Status.DONE) == Status.DONE

    def find_moment(self, saved: Saved) -> float:
        """When a question was over, in seconds since 1970; by it the first of several is found."""
        if saved.unit is not None:
            assert saved.closed_at is not None
            return saved.closed_at.timestamp()
        if (came := read_arrival(saved)) is not None:
            return float(came["at"])
        return 0.0 if saved.deadline is None else saved.deadline.timestamp()

    def list_over(self, asks: Iterable[Saved]) -> list[Saved]:
        """Those that are over, the first one first."""
        over = [one for one in asks if self.is_over(one)]
        return sorted(over, key=lambda one: (self.find_moment(one), one.position))

    def find_closed_by_failure(self, saved: Saved) -> bool:
        """Whether what was open has to be asked anew: the instance failed, which closed it, or it is a fork."""
        if saved.settled:
            return False
        match saved.call:
            case Call.ASK_CHANNEL:
                return saved.unit is None or saved.status is InteractionStatus.CANCELLED
            case Call.ASK_EVENT | Call.ASK_SIGNAL:
                return saved.value is None
            case Call.ASK_CHILD | Call.ASK_INSTANCE:
                names = find_names(saved)
                return not saved.watch and not any(one.name in names for one in self._ctx.list_inbox())
        return False

    def plan_park(self, asks: Sequence[Saved], others: Iterable[Saved] = (), more: datetime | None = None) -> Suspend:
        """How to wait for these; the deadlines of all others that are open wake the run too."""
        open_ones = [one for one in asks if not self.is_over(one)]
        names = sorted({name for one in open_ones for name in find_names(one)})
        watched = {one.position: one for one in (*open_ones, *(one for one in others if not self.is_over(one)))}
        moments = [moment for one in watched.values() if (moment := find_deadline(one)) is not None]
        if more is not None:
            moments.append(more)
        until = min(moments, key=lambda moment: moment.timestamp(), default=None)
        return Suspend((ASKED, *names), until=until)

    def read_end(self, saved: Saved) -> Any:
        """The result of a child or an instance that has ended; raises how it ended otherwise."""
        if saved.expired:
            raise SignalTimeoutError(saved.name)
        end = read_back(saved.value or "")
        if end["status"] == Status.FAILED:
            raise ChildFailed(saved.name, saved.child, end["error"])
        if end["status"] != Status.DONE:
            raise ChildCancelled(saved.name, saved.child, end["error"])
        return end["result"]

    def read_output(self, saved: Saved) -> Any:
        """What was answered to a question with an address, as JSON; raises how it ended otherwise."""
        if saved.status is InteractionStatus.COMPLETED:
            return None if saved.output is None else read_back(saved.output)
        if saved.status is InteractionStatus.FAILED:
            raise UnitFailed(saved.name, self._read_reason(saved))
        raise SignalTimeoutError(saved.name)

    def _find_signal(self, saved: Saved, taken: set[int]) -> Signal | None:
        if saved.unit is not None or saved.call is Call.ASK_SLEEP:
            return None
        names = find_names(saved)
        for signal in self._ctx.list_inbox():
            if signal.name in names and signal.n not in taken and not _is_late(saved, signal):
                return signal
        return None

    def _settle(self, saved: Saved, found: Signal) -> None:
        told: dict[str, Any] = {"at": _find_arrival(found)}
        if saved.call is Call.ASK_EVENT:
            told["data"] = found.payload
        elif saved.call is Call.ASK_SIGNAL:
            told |= {"name": found.name, "payload": found.payload, "source": found.source}
            told |= {"n": found.n, "received": found.received_at.isoformat()}
        else:
            told |= {"status": found.payload["status"], "error": found.payload["error"]}
            if told["status"] == Status.DONE and saved.child is not None:
                told["result"] = self._left.read_result(saved.child)[1]
        text = dump_value(told, f"what came for {saved.name!r}")
        new = self._left.save(saved.position, saved.call, saved.name, value=text, signal=found.n)
        saved.settled, saved.value, saved.signal = True, new.value, new.signal

    def _read_reason(self, saved: Saved) -> str:
        from workflows.models import Interaction

        rows = Interaction.objects.using(self._left.host.alias).filter(pk=saved.interaction)
        with self._left.watched():
            reason = rows.values_list("error", flat=True).first()
        return reason or "it can no longer be answered"


def find_names(saved: Saved) -> list[str]:
    """The names under which something arrives for a question."""
    if saved.unit is not None:
        return [f"{UNIT}{saved.unit}"]
    if saved.child is not None:
        return [f"{END}{saved.child}"]
    if saved.value is None or saved.settled:
        return []
    value = json.loads(saved.value)
    return [f"{EVENT}{value}"] if saved.call is Call.ASK_EVENT else list(value["names"])


def read_arrival(saved: Saved) -> dict[str, Any] | None:
    """What came for a question that has no address, as it was saved; None where nothing did."""
    if not saved.settled or saved.expired or saved.value is None:
        return None
    value = read_back(saved.value)
    return value if isinstance(value, dict) and "at" in value else None


def find_deadline(saved: Saved) -> datetime | None:
    """Until when a question may take."""
    return saved.ask_deadline if saved.unit is not None else saved.deadline


def is_past(saved: Saved, now: datetime) -> bool:
    """Whether its time is over."""
    deadline = find_deadline(saved)
    return deadline is not None and deadline <= now


def _find_arrival(signal: Signal) -> float:
    """When a signal came, or the end happened that it tells of."""
    if signal.name.startswith(END):
        return datetime.fromisoformat(signal.payload["at"]).timestamp()
    return signal.received_at.timestamp()


def _is_late(saved: Saved, signal: Signal) -> bool:
    return saved.deadline is not None and _find_arrival(signal) > saved.deadline.timestamp()
