"""Calls of a durable function that wait for a named event, or emit one.

Lives here: `ctx.wait_for_event` and `ctx.emit`. Must not live here: whose wait an event wakes. Invariant owned: an
event is handed to one wait of a run only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, overload

from workflows.definitions.awaited_event import EVENT, EventSpec
from workflows.definitions.awaited_event import event as make_event
from workflows.definitions.outcomes import Suspend
from workflows.lifecycle import Call
from workflows.store import Saved
from workflows.styles.function.call_replay import ReplayContext, read_saved
from workflows.values.durations import parse_time
from workflows.values.json_text import dump_value
from workflows.values.types_of_signatures import Duration, SchemaArgument, SchemaValue, T, Validating


class EventCalls(ReplayContext):
    """The calls of `ctx` for named events."""

    __slots__ = ()

    @overload
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: type[Validating],
        channel: str | None = None,
    ) -> dict[str, Any] | None: ...
    @overload
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: type[T],
        channel: str | None = None,
    ) -> T | None: ...
    @overload
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: SchemaValue | None = None,
        channel: str | None = None,
    ) -> Any: ...
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: object = None,
        until: object = None,
        schema: SchemaArgument | None = None,
        channel: str | None = None,
    ) -> Any:
        """The data of the next named event that matches; None when the time is over."""
        spec = make_event(event, match, schema, channel=channel)
        time = parse_time(timeout, until, f"ctx.wait_for_event({id!r})", needed=True)
        saved = self._find(Call.EVENT, id)
        if saved is None:
            with self._making(Call.EVENT, id):
                self._left.allow_event(spec)
            saved = self._add(self._left.save(self._cursor, Call.EVENT, id, settled=False, timeout=time))
        if not saved.settled:
            self._settle_event(saved, spec, time)
        if saved.expired:
            return None
        value = read_saved(saved.value)
        return value if spec.schema is None else spec.schema.cast(value)

    def emit(self, id: str, event: str, data: object = None) -> int:
        """Emit a named event once; how many waits it woke."""
        saved = self._find(Call.EMIT, id)
        if saved is None:
            from workflows.api.events import emit

            with self._making(Call.EMIT, id):
                saved = self._add(
                    self._left.save_with(
                        self._cursor,
                        Call.EMIT,
                        id,
                        lambda: emit(event, data, actor=f"instance:{self.id}"),
                        f"what emit {id!r} woke",
                    )
                )
        woke: int = read_saved(saved.value)
        return woke

    def _settle_event(self, saved: Saved, spec: EventSpec, time: float | datetime | None) -> None:
        seen = {one.signal for one in self._load() if one.signal is not None}
        new = next((one for one in self.list_awaited() if one.name.startswith(EVENT) and one.n not in seen), None)
        place = (saved.position, saved.call, saved.name)
        if new is not None:
            text = dump_value(new.payload, "an event's data")
            self._replace(saved, self._left.save(*place, value=text, signal=new.n))
        elif self._is_over(saved):
            self._replace(saved, self._left.save(*place, expired=True))
        else:
            told = {"until": time} if isinstance(time, datetime) else {"timeout": time}
            self._suspend(Suspend(event=spec, until=saved.deadline, position=saved.position, told=told))

    def _is_over(self, saved: Saved) -> bool:
        """Whether it was this wait whose deadline woke the instance.

        A worker may have died before the park: then nobody has looked for an earlier event yet, however late it is.
        """
        return (
            self._claim.timed_out
            and saved.value is not None
            and self._claim.names == [f"{EVENT}{read_saved(saved.value)}"]
        )
