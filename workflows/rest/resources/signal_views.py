"""Signals, alone and in bulk, and named events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from pydantic import ValidationError
from rest_framework.request import Request

import workflows
from workflows import store
from workflows.api.arguments import read_signal
from workflows.api.events import emit_event
from workflows.api.idempotency import check_told
from workflows.api.signals import Delivery
from workflows.conf import conf
from workflows.exceptions import InvalidCall, NoReader, NoTarget, TooLarge, WorkflowError
from workflows.rest.base.authentication import SIGNAL, START
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import read_id
from workflows.rest.protocol.bodies import SEEN, list_mistakes, name_first, read_as
from workflows.rest.protocol.operation import ID, document
from workflows.rest.protocol.problems import (
    DUPLICATE_KEY,
    FORBIDDEN,
    INVALID_REQUEST,
    NO_READER,
    NO_TARGET,
    NOT_FOUND,
    TOO_LARGE,
    RequestRefused,
    describe_problem,
)
from workflows.rest.protocol.request_bodies import (
    BulkBody,
    BulkLine,
    EventBody,
    KeySignalBody,
    SignalBody,
    StartingSignalBody,
)
from workflows.rest.protocol.response_bodies import BulkResults, DeliveryOut, EmissionOut, ProblemOut
from workflows.rest.resources.interaction_views import DOOR
from workflows.store import MANY, Once, Told
from workflows.values.json_text import check_text

Target = UUID | str

#: Signals in one call: more would hold locks, and in a keyed call a transaction, for longer than anybody waits.
MOST_LINES = 10_000
#: Mistakes that one line of many is told.
MOST_MISTAKES = 3

KEY = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": SEEN}


class SignalEndpoint(Endpoint):
    """What addresses that take signals share."""

    needs: ClassVar = {"POST": SIGNAL}

    def answer_signal(self, request: Request, raw: bytes, target: Target, body: SignalBody) -> HttpResponse:
        """Deliver one."""

        # Before anything is looked for: what cannot be sent is told alike, whatever is there.
        read_signal(body.name, body.payload, body.dedup_key, conf.max_body)
        if isinstance(target, str):
            check_text(target, "a correlation key")

        def deliver() -> ChangeAnswer:
            to = target if self.caller.workflows is None else self.narrow([target]).get(target)
            if to is None:
                raise NoTarget(target)
            told = workflows.signal(to, body.name, body.payload, dedup_key=body.dedup_key, actor=self.caller.actor)
            return ChangeAnswer(
                {"id": told.id, "duplicate": told.duplicate, "woke": told.woke}, 202, find_instance(told)
            )

        return self.answer_once(request, raw, deliver)

    def refuse_missing(self) -> WorkflowError:
        """As of a target that is not there."""
        return NoTarget("")

    def narrow(self, targets: Sequence[Target]) -> dict[Target, UUID]:
        """Of these targets those whose instance runs one of the key's workflows, by its id."""
        assert self.caller.workflows is not None
        return store.find_reachable(self.db, targets, self.caller.workspace, self.caller.workflows)


class InstanceSignals(SignalEndpoint):
    """Signals for one instance."""

    @document(
        "signalInstance",
        "Signals",
        "Send a signal to an instance",
        "It may come before, during or after the moment the instance waits for it.",
        body=SignalBody,
        answers={202: (DeliveryOut, "Stored; or a duplicate of one that was.")},
        problems=[404],
        scope="signal",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Send one."""
        raw, value = self.read_body(request)
        body = read_as(SignalBody, value)
        return self.answer_signal(request, raw, read_target(id), body)


class KeySignals(SignalEndpoint):
    """Signals for whoever holds a key."""

    @document(
        "signalKey",
        "Signals",
        "Send a signal by correlation key, in the address",
        "A key in an address is percent-encoded; `POST /v1/signals` takes it in the body instead. With `start` an "
        "instance is started first, in the same transaction, when no live one holds the key.",
        body=StartingSignalBody,
        answers={
            202: (DeliveryOut, "Stored; or a duplicate of one that was."),
            409: (
                ProblemOut,
                "The instance that holds the key reads no signals, or (with `start`) is one that the caller cannot "
                "see; or the idempotency key came with another body.",
            ),
        },
        problems=[404, 422],
        scope="signal",
        posts=True,
        parameters=[OpenApiParameter("key", KEY, OpenApiParameter.PATH, description="A correlation key.")],
    )
    def post(self, request: Request, key: str) -> HttpResponse:
        """Send one."""
        raw, value = self.read_body(request)
        body = read_as(StartingSignalBody, value)
        if body.start is None:
            return self.answer_signal(request, raw, key, body)
        self.caller.check(START)
        self.caller.check_workflow(body.start.workflow)
        return self.answer_once(request, raw, lambda: self.deliver_starting(key, body))

    def deliver_starting(self, key: str, body: StartingSignalBody) -> ChangeAnswer:
        """Deliver to the live holder of the key, which is started first if there is none."""
        assert body.start is not None
        hidden = RequestRefused(
            DUPLICATE_KEY, f"key {key!r} is held by an instance that you cannot see; choose another one."
        )
        with transaction.atomic(using=self.db.alias):
            try:
                told = workflows.signal(
                    key,
                    body.name,
                    body.payload,
                    dedup_key=body.dedup_key,
                    actor=self.caller.actor,
                    start=body.start.workflow,
                    input=body.start.input,
                )
            except NoReader as refused:
                if not self.caller.sees(refused.workflow):
                    raise hidden from None
                raise
            if self.caller.workflows is not None and not self.narrow([find_instance(told)]):
                raise hidden  # which takes the signal back
        return ChangeAnswer({"id": told.id, "duplicate": told.duplicate, "woke": told.woke}, 202, find_instance(told))


class Signals(SignalEndpoint):
    """Signals for whoever holds the key in the body."""

    @document(
        "signal",
        "Signals",
        "Send a signal by correlation key, in the body",
        "To the live instance that holds `key`.",
        body=KeySignalBody,
        answers={202: (DeliveryOut, "Stored; or a duplicate of one that was.")},
        problems=[404],
        scope="signal",
        posts=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Send one."""
        raw, value = self.read_body(request)
        body = read_as(KeySignalBody, value)
        return self.answer_signal(request, raw, body.key, body)


class BulkSignals(SignalEndpoint):
    """Many signals at once."""

    bulk = True

    @document(
        "signalMany",
        "Signals",
        "Send many signals",
        "Each is answered as if it had come alone. They are committed in batches; with an `Idempotency-Key` in one "
        "transaction.",
        body=BulkBody,
        answers={207: (BulkResults, "One result per signal, in their order.")},
        scope="signal",
        posts=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Send them; each is answered as if it had come alone."""
        raw, value = self.read_body(request)
        if not isinstance(value, list):
            raise RequestRefused(
                INVALID_REQUEST,
                'The body must be a list of signals, such as [{"key": "order-7", "name": "paid"}].',
                errors={"$": ["must be a list"]},
            )
        if len(value) > MOST_LINES:
            told = f"The body has {len(value)} signals, the limit is {MOST_LINES}: send them in several calls."
            raise RequestRefused(TOO_LARGE, told)

        def deliver() -> ChangeAnswer:
            results = self.deliver(value)
            # Of its instances one stands for all, while that is there; then another.
            return ChangeAnswer(
                {"results": results}, MANY, next((find_owner(line) for line in results if "id" in line), None)
            )

        return self.answer_once(request, raw, deliver)

    def hear_again(self, once: Once, before: Told) -> Told:
        """Line by line: those of instances that are not the caller's any more are as if they were not there."""
        check_told(once, before)
        if self.caller.workflows is None:
            return before
        results = json.loads(before.body)["results"]
        owners = [find_owner(line) if "id" in line else None for line in results]
        mine = self.narrow([owner for owner in owners if owner is not None])
        told = [
            line if owner is None or owner in mine else _UNKNOWN for line, owner in zip(results, owners, strict=True)
        ]
        return replace(before, body=ChangeAnswer({"results": told}).write())

    def deliver(self, values: list[Any]) -> list[dict[str, Any]]:
        """The result of each."""
        limit = conf.max_body
        results: list[dict[str, Any]] = []
        good: list[tuple[int, Target, str, Any, str | None]] = []
        for position, value in enumerate(values):
            read = read_bulk_line(value, limit)
            if isinstance(read, dict):
                results.append(read)
            else:
                results.append(_UNKNOWN)
                good.append((position, *read))
        if self.caller.workflows is not None:
            mine = self.narrow([target for _, target, *_ in good])
            good = [(at, mine[to], name, payload, key) for at, to, name, payload, key in good if to in mine]
        told = workflows.signal_many([line[1:] for line in good], actor=self.caller.actor)
        for (position, *_), delivery in zip(good, told, strict=True):
            if delivery.id is not None:
                results[position] = {
                    "status": 202,
                    "id": delivery.id,
                    "duplicate": delivery.duplicate,
                    "woke": delivery.woke,
                }
            elif delivery.refused == "no_reader":
                results[position] = _UNREAD
        return results


class Events(Endpoint):
    """Named events."""

    needs: ClassVar = {"POST": SIGNAL}

    def judge(self) -> None:
        """An event reaches every workflow, so a key has to be for all of them."""
        super().judge()
        if self.caller.workflows is not None:
            raise RequestRefused(FORBIDDEN, "An event reaches every workflow: it takes a key that is for all of them.")

    @document(
        "emit",
        "Signals",
        "Emit a named event",
        "It wakes every instance of the workspace that waits for it and starts the workflows that begin with it.",
        body=EventBody,
        answers={202: (EmissionOut, "Emitted. That nobody waits for it is no error.")},
        scope="signal",
        posts=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Emit one."""
        raw, value = self.read_body(request)
        body = read_as(EventBody, value)

        def emit() -> ChangeAnswer:
            told = emit_event(body.event, body.data, dedup_key=body.dedup_key, actor=self.caller.actor, door=DOOR)
            return ChangeAnswer(
                {"id": str(told.id), "woke": told.woke, "started": told.started, "duplicate": told.duplicate}, 202
            )

        return self.answer_once(request, raw, emit)


_UNKNOWN = describe_problem(NOT_FOUND, NO_TARGET)
_UNREAD = describe_problem(NO_READER, "Its workflow reads no signals: complete what it asks, or emit an event.")


def read_bulk_line(value: Any, limit: int) -> tuple[Target, str, Any, str | None] | dict[str, Any]:
    """One line, ready to be sent; or the problem it has."""
    try:
        line = BulkLine.model_validate(value)
    except ValidationError as error:
        mistakes = list_mistakes(error, value)
        first = dict(islice(mistakes.items(), MOST_MISTAKES))
        return describe_problem(INVALID_REQUEST, name_first(mistakes), errors=first)
    if (line.key is None) == (line.instance is None):
        return describe_problem(INVALID_REQUEST, "Name a key or an instance, and not both.")
    try:
        read_signal(line.name, line.payload, line.dedup_key, limit)
        target: Target
        target = check_text(line.key, "a correlation key") if line.instance is None else read_target(line.instance)
    except TooLarge as error:
        return describe_problem(TOO_LARGE, str(error))
    except InvalidCall as error:
        return describe_problem(INVALID_REQUEST, str(error))
    except NoTarget:
        return _UNKNOWN
    return target, line.name, line.payload, line.dedup_key


def find_owner(line: dict[str, Any]) -> UUID:
    """Whose signal a result tells of."""
    return UUID(line["id"].partition(":")[0])


def read_target(text: str) -> UUID:
    """The id of an instance; any other text is that of none."""
    try:
        return read_id(text)
    except RequestRefused:
        raise NoTarget(text) from None


def find_instance(told: Delivery) -> UUID:
    """Whose signal it is, of one that was sent alone: it was delivered, or the call had raised."""
    assert told.id is not None
    return UUID(told.id.partition(":")[0])
