"""The client's calls about flow control: what there is, what is paused, and other numbers than the code's.

Must not live here: how a call is sent (`sender`). Invariant owned: what is not named in a change is not sent, because
null would give it back to the code.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from workflows.client.sender import Sender
from workflows.client.values import LimitState, QueueState, RegisteredWorkflow
from workflows.client.wire import read_as, write_segment

#: Stands for an argument that was left out: what it means stays as it is.
LEFT: Final[Any] = object()


class FlowCalls(Sender):
    """Queues, limits and workflows."""

    def workflows(self, *, limit: int | None = None) -> Iterator[RegisteredWorkflow]:
        """The workflows that the site knows and the key may see; `limit` is how many are fetched at a time.

        >>> [one.style for one in client.workflows() if one.name == "Ship"]
        ['steps']
        """
        return self._walk(RegisteredWorkflow, "/v1/workflows", {"limit": limit})

    def pause(self, workflow: str, *, idempotency_key: str | None = None) -> None:
        """Begin nothing of a workflow until it is unpaused; what comes for it waits. Twice is no error.

        >>> client.pause("Ship")
        """
        self._post(f"/v1/workflows/{write_segment(workflow)}/pause", {}, idempotency_key)

    def unpause(self, workflow: str, *, idempotency_key: str | None = None) -> None:
        """Let a workflow go on; one that was not paused stays as it is.

        >>> client.unpause("Ship")
        """
        self._post(f"/v1/workflows/{write_segment(workflow)}/unpause", {}, idempotency_key)

    def queues(self, *, limit: int | None = None) -> Iterator[QueueState]:
        """The queues of the workspace, with what runs and waits in each.

        >>> [one.paused for one in client.queues() if one.name == "default"]
        [False]
        """
        return self._walk(QueueState, "/v1/queues", {"limit": limit})

    def queue(self, name: str) -> QueueState:
        """One queue.

        >>> client.queue("default").paused
        False
        """
        return read_as(QueueState, self._look(f"/v1/queues/{write_segment(name)}"))

    def change_queue(
        self,
        name: str,
        *,
        limit: int | None = LEFT,
        paused: bool = LEFT,
        rate: Any = LEFT,
        idempotency_key: str | None = None,
    ) -> QueueState:
        """Set what is named, and leave the rest; None gives the limit or the rate back to the code.

        A rate is written "100/m", "5/30s", or `{"count": 100, "per": "1m", "burst": 200}`.

        >>> client.change_queue("default", limit=10).limit
        10
        """
        named = {"limit": limit, "paused": paused, "rate": rate}
        body = {member: value for member, value in named.items() if value is not LEFT}
        reply = self._change("PATCH", f"/v1/queues/{write_segment(name)}", body, idempotency_key)
        return read_as(QueueState, reply)

    def limits(self, *, limit: int | None = None) -> Iterator[LimitState]:
        """The limits that workflows declare, and the keys for which another number was set.

        >>> [one.limit for one in client.limits() if one.name == "tenant:{tenant}"]
        [5]
        """
        return self._walk(LimitState, "/v1/limits", {"limit": limit})

    def change_limit(
        self,
        kind: Literal["concurrency", "rate"],
        name: str,
        value: Any,
        *,
        idempotency_key: str | None = None,
    ) -> LimitState:
        """Set another number in the place of the code's: of a concurrency how many, of a rate as in `change_queue`.

        None gives it back to the code.

        >>> client.change_limit("concurrency", "tenant:7", 20).overridden
        True
        """
        body = {"limit" if kind == "concurrency" else "rate": value}
        reply = self._change("PATCH", f"/v1/limits/{kind}/{write_segment(name)}", body, idempotency_key)
        return read_as(LimitState, reply)
