"""The client's calls about schedules: what starts instances at moments of a timetable.

Must not live here: how a call is sent (`sender`). Invariant owned: what is not named in a change is not sent, so it
stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from workflows.client.flow_calls import LEFT
from workflows.client.sender import Sender
from workflows.client.values import Instance, Schedule
from workflows.client.wire import leave_out, read_as, write_segment

Overlap: TypeAlias = Literal["skip", "allow", "cancel"]
CatchUp: TypeAlias = Literal["none", "last"] | int


class ScheduleCalls(Sender):
    """Schedules, each addressed by its name."""

    def schedules(
        self, *, workflow: str | None = None, enabled: bool | None = None, limit: int | None = None
    ) -> Iterator[Schedule]:
        """All schedules that fit, by name; `limit` is how many are fetched at a time.

        >>> [one.name for one in client.schedules(workflow="Ship")]
        ['nightly']
        """
        ticks = None if enabled is None else str(enabled).lower()
        return self._walk(Schedule, "/v1/schedules", {"workflow": workflow, "enabled": ticks, "limit": limit})

    def schedule(self, name: str) -> Schedule:
        """One schedule, with its next five ticks.

        >>> len(client.schedule("nightly").next_ticks)
        5
        """
        return read_as(Schedule, self._look(f"/v1/schedules/{write_segment(name)}"))

    def create_schedule(
        self,
        name: str,
        workflow: str,
        *,
        cron: str | None = None,
        every: str | float | None = None,
        tz: str | None = None,
        input: Any = None,
        overlap: Overlap = "skip",
        catch_up: CatchUp = "last",
        enabled: bool = True,
        idempotency_key: str | None = None,
    ) -> Schedule:
        """Make a schedule, by `cron` or `every`; `DuplicateSchedule` if there is one of this name.

        >>> client.create_schedule("reports", "Report", cron="0 9 * * 1-5", tz="Europe/Berlin").enabled
        True
        """
        body = {"name": name, "workflow": workflow, "overlap": overlap, "catch_up": catch_up, "enabled": enabled}
        body |= leave_out(cron=cron, every=every, tz=tz, input=input)
        return read_as(Schedule, self._post("/v1/schedules", body, idempotency_key))

    def change_schedule(
        self,
        name: str,
        *,
        workflow: str = LEFT,
        cron: str | None = LEFT,
        every: str | float | None = LEFT,
        tz: str | None = LEFT,
        input: Any = LEFT,
        overlap: Overlap = LEFT,
        catch_up: CatchUp = LEFT,
        enabled: bool = LEFT,
        idempotency_key: str | None = None,
    ) -> Schedule:
        """Change what is named, and leave the rest. A new `cron` takes the place of `every`, and the other way round.

        >>> client.change_schedule("nightly", enabled=False).enabled
        False
        """
        named = {"workflow": workflow, "cron": cron, "every": every, "tz": tz, "input": input}
        named |= {"overlap": overlap, "catch_up": catch_up, "enabled": enabled}
        body = {member: value for member, value in named.items() if value is not LEFT}
        return read_as(Schedule, self._change("PATCH", f"/v1/schedules/{write_segment(name)}", body, idempotency_key))

    def delete_schedule(self, name: str, *, idempotency_key: str | None = None) -> None:
        """Remove a schedule; what it has started goes on. `NotFound` if there is none.

        >>> client.delete_schedule("weekly")
        """
        self._delete(f"/v1/schedules/{write_segment(name)}", idempotency_key)

    def run_schedule(self, name: str, *, idempotency_key: str | None = None) -> Instance:
        """Start an instance of a schedule now, beside its ticks; `NotPossible` while the last one lives and it skips.

        >>> client.run_schedule("nightly").workflow
        'Ship'
        """
        return read_as(Instance, self._post(f"/v1/schedules/{write_segment(name)}/run", {}, idempotency_key))
