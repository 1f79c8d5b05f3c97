"""The client: one method for each thing that the API does.

Lives here: which address a call goes to, what its body is, and what its answer means (of queues and limits:
`flow_calls`). Invariant owned: a list is
followed by its cursors alone, never by the address of the next page, so that the key goes nowhere but to `base_url`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from workflows.client.errors import NotFinished
from workflows.client.flow_calls import FlowCalls
from workflows.client.operator_calls import OperatorCalls
from workflows.client.scheduling_calls import ScheduleCalls
from workflows.client.transport import Secret, Transport
from workflows.client.values import Answered, Completion, Delivery, Emission, Event, Instance, Interaction, Unit
from workflows.client.wire import (
    check_header,
    leave_out,
    read_answers,
    read_as,
    read_completion,
    read_deliveries,
    read_token,
    write_answer,
    write_id,
    write_line,
    write_segment,
)

#: Seconds of one long poll. The API would wait a little longer, but not every proxy in between.
LONGEST_POLL = 25


class Client(OperatorCalls, FlowCalls, ScheduleCalls):
    """A site's REST API, as calls. One client serves all threads of a process; after a fork, make another one.

    Whatever changes something is sent with an idempotency key, made up where none is given, so it is safe that a call
    is repeated when no answer came, or the answer was 429, 502, 503 or 504.

    * `key`: a workspace key (`hp_…`). None is enough for `resume()`, which needs none.
    * `timeout`: seconds for one attempt; `deadline`: for all attempts of a call together.
    * `retries`: how often a call is repeated at most.
    * `pool_size`: how many connections are kept open.

    >>> with Client("https://holdpoint.example", "hp_secret") as client:
    ...     client
    <Client https://holdpoint.example>
    """

    def __init__(
        self,
        base_url: str,
        key: str | None,
        *,
        timeout: float = 10.0,
        retries: int = 4,
        deadline: float = 60.0,
        pool_size: int = 10,
    ) -> None:
        if key is not None:
            check_header(key, "the key")
        self._transport = Transport(
            base_url,
            None if key is None else Secret(key),
            timeout=timeout,
            retries=retries,
            deadline=deadline,
            pool_size=pool_size,
        )
        self._grace = timeout

    def __repr__(self) -> str:
        return f"<Client {self._transport.base_url}>"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._transport.close()

    # --- instances ----------------------------------------------------------------------------------------

    def start(
        self,
        workflow: str,
        input: Any = None,
        *,
        key: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        idempotency_key: str | None = None,
    ) -> Instance:
        """Start an instance; `DuplicateKey` if a live one holds the key.

        With an idempotency key of your own, one that outlives your process, a call that is made again after a crash
        finds the instance that the first one started.

        >>> client.start("Ship", {"order": 7}, key="order-7", idempotency_key="order-7").status
        'runnable'
        """
        body = {"workflow": workflow} | leave_out(input=input, key=key, queue=queue, priority=priority)
        return read_as(Instance, self._post("/v1/instances", body, idempotency_key))

    def get(self, instance: Instance | UUID | str) -> Instance:
        """An instance as it is now, whatever has become of it.

        >>> client.get(order.id).key
        'order-7'
        """
        return read_as(Instance, self._look(f"/v1/instances/{write_id(instance)}"))

    def wait(self, instance: Instance | UUID | str, timeout: float = 30.0) -> Any:
        """The result of an instance, once it is done; `InstanceFailed`, `InstanceCancelled` or `NotFinished` otherwise.

        It asks the server to answer late, again and again, until `timeout` seconds are over (to the nearest second;
        `float("inf")` waits for good). Time that runs out ends nothing: wait again.

        >>> client.wait(order, timeout=60)
        {'paid': {'amount': 120}}
        """
        path, until = f"/v1/instances/{write_id(instance)}", time.monotonic() + timeout
        while True:
            began = time.monotonic()
            asked = round(min(LONGEST_POLL, max(0.0, until - began)))
            reply = self._look(f"{path}?wait={asked}", patience=asked, deadline=max(0.0, until - began) + self._grace)
            seen = read_as(Instance, reply)
            if reply.status != 202:
                return seen.result
            now = time.monotonic()
            if now >= until:
                error = NotFinished(
                    202, "about:blank", "The instance has not ended", f"It is {seen.status}. Wait again."
                )
                error.instance = seen
                raise error
            if now - began < asked or not asked:
                # The server would not wait for as long as it was asked to.
                time.sleep(min(until - now, reply.retry_after or 1.0))

    def list_instances(
        self,
        *,
        status: str | None = None,
        workflow: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Instance]:
        """All instances that fit, the newest first; `limit` is how many are fetched at a time.

        >>> [one.workflow for one in client.list_instances(key="order-7")]
        ['Ship']
        """
        filters = {"status": status, "workflow": workflow, "queue": queue, "key": key, "limit": limit}
        return self._walk(Instance, "/v1/instances", filters)

    def events(self, instance: Instance | UUID | str, *, limit: int | None = None) -> Iterator[Event]:
        """The history of an instance, in order.

        >>> next(client.events(order)).kind
        'started'
        """
        return self._walk(Event, f"/v1/instances/{write_id(instance)}/events", {"limit": limit})

    # --- signals and events -------------------------------------------------------------------------------

    def signal(
        self,
        target: Instance | UUID | str,
        name: str,
        payload: Any = None,
        *,
        dedup_key: str | None = None,
        start: str | None = None,
        input: Any = None,
        idempotency_key: str | None = None,
    ) -> Delivery:
        """Send a signal: by id to an Instance or UUID, by correlation key to a str. `NotFound` if nobody lives there.

        With `start`, the name of a workflow, a key that nobody holds is taken by a new instance first.

        >>> client.signal("order-7", "payment_confirmed", {"amount": 120}, dedup_key="evt_1").duplicate
        False
        """
        body = {"name": name, "payload": payload} | leave_out(dedup_key=dedup_key)
        if start is not None:
            if not isinstance(target, str):
                raise TypeError("start= is for a signal to a correlation key, which is a str")
            first = {"start": {"workflow": start} | leave_out(input=input)}
            reply = self._post(f"/v1/keys/{write_segment(target)}/signals", body | first, idempotency_key)
        elif isinstance(target, str):
            reply = self._post("/v1/signals", {"key": target} | body, idempotency_key)
        else:
            reply = self._post(f"/v1/instances/{write_id(target)}/signals", body, idempotency_key)
        return read_as(Delivery, reply)

    def signal_many(self, lines: Iterable[Sequence[Any]], *, idempotency_key: str | None = None) -> list[Delivery]:
        """Send `(target, name[, payload[, dedup_key]])` lines in one request; what became of each, in order.

        A request may have 16 MiB, if the site has not set another limit; `TooLarge` says so.

        >>> [one.refused for one in client.signal_many([("order-7", "note", {"n": 1}), ("nobody", "note")])]
        [None, 'no_target']
        """
        body = [write_line(line) for line in lines]
        if not body:
            return []
        return read_deliveries(self._post("/v1/signals/bulk", body, idempotency_key), len(body))

    def emit(
        self, event: str, data: Any = None, *, dedup_key: str | None = None, idempotency_key: str | None = None
    ) -> Emission:
        """Tell all that wait for a named event, and start what begins with it; that nobody does is no error.

        >>> client.emit("order.paid", {"order": 7}, dedup_key="evt_1").woke
        0
        """
        body = {"event": event, "data": data} | leave_out(dedup_key=dedup_key)
        return read_as(Emission, self._post("/v1/events", body, idempotency_key))

    # --- questions ----------------------------------------------------------------------------------------

    def interactions(
        self,
        *,
        status: str | None = None,
        assignee: str | None = None,
        group: str | None = None,
        workflow: str | None = None,
        step: str | None = None,
        channel: str | None = None,
        unit: Unit | UUID | str | None = None,
        correlation_id: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Interaction]:
        """All questions that fit, the most urgent first, those of a unit in their order.

        `limit` is how many are fetched at a time.

        >>> [one.request for one in client.interactions(status="pending", group="sales")]
        [{'percent': 20}]
        """
        filters = {"status": status, "assignee": assignee, "group": group, "workflow": workflow, "step": step}
        of = None if unit is None else write_id(unit)
        more = {"channel": channel, "unit": of, "correlation_id": correlation_id, "limit": limit}
        return self._walk(Interaction, "/v1/interactions", filters | more)

    def interaction(self, interaction: Interaction | UUID | str) -> Interaction:
        """One question, by its id.

        >>> client.interaction(question.id).request
        {'percent': 20}
        """
        return read_as(Interaction, self._look(f"/v1/interactions/{write_id(interaction)}"))

    def units(
        self,
        *,
        instance: Instance | UUID | str | None = None,
        status: str | None = None,
        step: str | None = None,
        items: bool | None = None,
        limit: int | None = None,
    ) -> Iterator[Unit]:
        """All waits that fit, the newest first; with `items` those that ask one question per item of a list, or not.

        >>> [one.step for one in client.units(instance=question.instance)]
        ['ask']
        """
        of = None if instance is None else write_id(instance)
        kind = None if items is None else str(items).lower()
        filters = {"instance": of, "status": status, "step": step, "items": kind, "limit": limit}
        return self._walk(Unit, "/v1/units", filters)

    def unit(self, unit: Unit | UUID | str) -> Unit:
        """One wait, and how far it is.

        >>> client.unit(question.unit).counts["in_flight"]
        1
        """
        return read_as(Unit, self._look(f"/v1/units/{write_id(unit)}"))

    def complete(
        self, signal_id: str, data: Any, *, version: int | None = None, idempotency_key: str | None = None
    ) -> Completion:
        """Answer a question, by its signal id; with `version` only if it is still as it was shown.

        `Gone` if it has been answered or its time is over, `InvalidData` if the answer does not fit.

        >>> client.complete("approval-7", {"approved": True}).replayed
        False
        """
        return self._complete(f"/v1/signals/{write_segment(signal_id)}/complete", data, version, idempotency_key)

    def complete_interaction(
        self,
        interaction: Interaction | UUID | str,
        data: Any,
        *,
        version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Completion:
        """The same by its id.

        >>> client.complete_interaction(other_question, {"approved": False}).signal_id
        'approval-8'
        """
        path = f"/v1/interactions/{write_id(interaction)}/complete"
        return self._complete(path, data, version, idempotency_key)

    def fail(
        self, interaction: Interaction | UUID | str, reason: str, *, idempotency_key: str | None = None
    ) -> Interaction:
        """Report that a question cannot be answered: its wait fails with the reason, or of a list this item.

        >>> client.fail(dead_question, "no such account").status
        'failed'
        """
        path = f"/v1/interactions/{write_id(interaction)}/fail"
        return read_as(Interaction, self._post(path, {"reason": reason}, idempotency_key))

    def retry_item(self, interaction: Interaction | UUID | str, *, idempotency_key: str | None = None) -> Interaction:
        """Ask a failed or expired item of a list once more, while its unit is open; `NotPossible` if it is not.

        >>> client.retry_item(failed_item).status
        'pending'
        """
        path = f"/v1/interactions/{write_id(interaction)}/retry"
        return read_as(Interaction, self._post(path, {}, idempotency_key))

    def redrive(self, interaction: Interaction | UUID | str, *, idempotency_key: str | None = None) -> Interaction:
        """Send a question again that could not be sent, or got lost; `NotPossible` if it is over.

        >>> client.redrive(unsent_question).status
        'pending'
        """
        path = f"/v1/interactions/{write_id(interaction)}/redrive"
        return read_as(Interaction, self._post(path, {}, idempotency_key))

    def complete_many(self, lines: Iterable[Sequence[Any]], *, idempotency_key: str | None = None) -> list[Answered]:
        """Send `(target, data[, idempotency_key[, version]])` answers in one request; what became of each, in order.

        A text is a signal id, an `Interaction` or `UUID` an id. Nothing is raised for a line: look at `.refused`.

        >>> [one.refused for one in client.complete_many([("approval-9", {"approved": True}), ("nobody", None)])]
        [None, 'not_found']
        """
        body = [write_answer(line) for line in lines]
        if not body:
            return []
        return read_answers(self._post("/v1/interactions/complete", body, idempotency_key), len(body))

    def resume(self, url_or_token: str, data: Any, *, idempotency_key: str | None = None) -> Completion:
        """Answer a callback: its address, or the token at the end of it, is all the right one needs. No key is sent.

        The answer is sent as `data`; to a callback with `body="raw"`, post it without this client.

        >>> client.resume(resume_url, {"payment_id": "p-1"}).replayed
        False
        """
        path = f"/resume/{write_segment(read_token(url_or_token, self._transport.host))}"
        return read_completion(self._post(path, {"data": data}, idempotency_key, shown="/resume/…", keyed=False))

    def _complete(self, path: str, data: Any, version: int | None, idempotency_key: str | None) -> Completion:
        body = {"data": data} | leave_out(version=version)
        return read_completion(self._post(path, body, idempotency_key))
