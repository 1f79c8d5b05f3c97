"""The client's calls of an operator about one instance: cancel, retry, fork.

Must not live here: how a call is sent (`sender`). Invariant owned: a fork says no value in the place of what was, but
where its caller does.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from workflows.client.flow_calls import LEFT
from workflows.client.sender import Sender
from workflows.client.values import Instance
from workflows.client.wire import leave_out, read_as, write_id


class OperatorCalls(Sender):
    """What is done to an instance."""

    def cancel(
        self, instance: Instance | UUID | str, reason: str = "", *, idempotency_key: str | None = None
    ) -> Instance:
        """Cancel an instance with all its children; `NotPossible` if it has ended.

        >>> client.cancel(other_order, "customer withdrew").status
        'cancelled'
        """
        body = {"reason": reason}
        return read_as(Instance, self._post(f"/v1/instances/{write_id(instance)}/cancel", body, idempotency_key))

    def retry(self, instance: Instance | UUID | str, *, idempotency_key: str | None = None) -> Instance:
        """Run a failed instance again, from where it failed; `NotPossible` if it has not.

        >>> client.retry(failed_order).status
        'runnable'
        """
        return read_as(Instance, self._post(f"/v1/instances/{write_id(instance)}/retry", {}, idempotency_key))

    def fork(
        self,
        instance: Instance | UUID | str,
        *,
        at: str | None = None,
        input: Any = LEFT,
        state: Any = LEFT,
        key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Instance:
        """Start an instance that goes on from a point in the life of this one, which is not touched.

        `at` is a call's id in a function, a step or a stage in the other styles; without it the new one begins anew.
        `UnknownPoint` if it is not there, `NotPossible` if what it had there is not known.

        >>> client.fork(order, key="order-7-again").forked_from == order.id
        True
        """
        values = {name: value for name, value in (("input", input), ("state", state)) if value is not LEFT}
        body = leave_out(at=at, key=key) | values
        return read_as(Instance, self._post(f"/v1/instances/{write_id(instance)}/fork", body, idempotency_key))
