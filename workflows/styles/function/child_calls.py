"""Calls of a durable function that start another workflow.

Lives here: `ctx.invoke` and `ctx.launch`. Must not live here: planning and writing the new row. Invariant owned: a call
starts one instance, however often its function is run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload
from uuid import UUID

from workflows.definitions.outcomes import Invoke, Next
from workflows.exceptions import ChildCancelled, ChildFailed, SignalTimeoutError
from workflows.lifecycle import Call, Status
from workflows.styles.function.call_replay import ReplayContext, read_saved
from workflows.values.durations import parse_time
from workflows.values.types_of_signatures import Duration, WorkflowRef

if TYPE_CHECKING:
    from workflows.styles.function.durable import Durable

R = TypeVar("R")


class ChildCalls(ReplayContext):
    """The calls of `ctx` that start other workflows."""

    __slots__ = ()

    @overload
    def invoke(
        self,
        id: str,
        workflow: Durable[..., R],
        input: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
    ) -> R: ...
    @overload
    def invoke(
        self,
        id: str,
        workflow: WorkflowRef,
        input: object = None,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
    ) -> Any: ...
    def invoke(
        self, id: str, workflow: WorkflowRef, input: object = None, *, timeout: object = None, until: object = None
    ) -> Any:
        """Run another workflow as a child and wait for its result."""
        time = parse_time(timeout, until, f"ctx.invoke({id!r})")
        saved = self._find(Call.INVOKE, id)
        if saved is None:
            from workflows.engine.planning import plan_child

            with self._making(Call.INVOKE, id):
                child = plan_child(workflow, input)
            left = next((one for one in self._adrift if one.name == id and one.child is not None), None)
            adrift = None if left is None or left.child is None else (left.child, left.position)
            self._suspend(Invoke(child, self._cursor, id, time, adrift))
        if not saved.expired and saved.child_status is not None and saved.child_status.live:
            if not self._claim.timed_out:
                self._suspend(Next(self.step_name, delay=1))  # not parked on the child: look again
            self._replace(saved, self._left.save(saved.position, saved.call, id, settled=True, expired=True))
        if saved.expired:
            raise self._trace(saved, SignalTimeoutError(id))
        if saved.child_status is Status.FAILED:
            raise self._trace(saved, ChildFailed(id, saved.child, saved.child_error))
        if saved.child_status is not Status.DONE:
            raise self._trace(saved, ChildCancelled(id, saved.child, saved.child_error))
        return read_saved(saved.child_result)

    def launch(self, id: str, workflow: WorkflowRef, input: object = None) -> UUID:
        """Start another workflow and go on; its id."""
        saved = self._find(Call.LAUNCH, id)
        if saved is None:
            from workflows.api.instances import start

            with self._making(Call.LAUNCH, id):
                saved = self._add(
                    self._left.save_with(
                        self._cursor,
                        Call.LAUNCH,
                        id,
                        lambda: str(start(workflow, input, actor=f"instance:{self.id}").pk),
                        f"the id launched by {id!r}",
                    )
                )
        return UUID(read_saved(saved.value))
