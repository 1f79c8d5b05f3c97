"""`POST /v1/interactions/complete`: many answers in one call, one result for each.

Invariant owned: a line is judged in the order in which a call of its own would be, and told the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from pydantic import ValidationError
from rest_framework.request import Request

from workflows import store
from workflows.api.completions.batch_completion import CompletionResult, complete_lines
from workflows.api.completions.completion_checks import AddressedAnswer
from workflows.api.idempotency import check_told, make_once
from workflows.api.refused import count_dropped
from workflows.conf import conf
from workflows.definitions.question import check_signal_id
from workflows.exceptions import InvalidData, InvalidSignalId, WorkflowError
from workflows.rest.base.authentication import COMPLETE
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import read_id
from workflows.rest.base.json_body import count_malformed
from workflows.rest.protocol.bodies import list_mistakes, name_first, refuse_without_data
from workflows.rest.protocol.operation import document
from workflows.rest.protocol.problems import (
    INVALID_REQUEST,
    NOT_FOUND,
    NOTHING_HERE,
    TOO_LARGE,
    RequestRefused,
    describe_error,
    describe_problem,
)
from workflows.rest.protocol.request_bodies import CompleteManyBody, CompleteManyLine
from workflows.rest.protocol.response_bodies import CompletionResults
from workflows.rest.resources.interaction_views import DOOR
from workflows.rest.resources.signal_views import MOST_LINES, MOST_MISTAKES
from workflows.store import MANY, Once, Told
from workflows.values.json_text import MISSING, dump_value

#: Stands for the address in what a line's own idempotency key is known by.
PATH = "/v1/interactions/complete"

_UNKNOWN = describe_problem(NOT_FOUND, NOTHING_HERE)


class CompleteMany(Endpoint):
    """Many answers at once."""

    needs: ClassVar = {"POST": COMPLETE}
    bulk = True

    @document(
        "completeMany",
        "Interactions",
        "Answer many questions",
        "Each line names a question by its `id` or its `signal_id` and is answered as if it had come alone, with a "
        "status of its own. They are committed in batches; with an `Idempotency-Key` in one transaction. A line may "
        "have an idempotency key of its own.",
        body=CompleteManyBody,
        answers={207: (CompletionResults, "One result per answer, in their order.")},
        scope="complete",
        posts=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Answer them."""
        with count_malformed(self.caller.workspace):
            raw, value = self.read_body(request)
            if not isinstance(value, list):
                raise RequestRefused(
                    INVALID_REQUEST,
                    'The body must be a list of answers, such as [{"id": "01a1…", "data": {"approved": true}}].',
                    errors={"$": ["must be a list"]},
                )
            if len(value) > MOST_LINES:
                told = f"The body has {len(value)} answers, the limit is {MOST_LINES}: send them in several calls."
                raise RequestRefused(TOO_LARGE, told)

        def complete() -> ChangeAnswer:
            results = self.complete(value)
            # Of their instances one stands for all, while that is there; then another.
            owner = next((UUID(line["instance"]) for line in results if "instance" in line), None)
            return ChangeAnswer({"results": results}, MANY, owner)

        return self.answer_once(request, raw, complete)

    def complete(self, values: list[Any]) -> list[dict[str, Any]]:
        """The result of each."""
        results: dict[int, dict[str, Any]] = {}
        good: dict[int, AddressedAnswer] = {}
        for position, value in enumerate(values):
            try:
                good[position] = read_line(value)
            except (RequestRefused, InvalidSignalId) as refused:
                problem = results[position] = describe_refusal(refused)
                count_dropped(self.caller.workspace, "unknown" if problem["status"] == 404 else "malformed")
        done = complete_lines(
            list(good.values()),
            workspace=self.caller.workspace,
            door=DOOR,
            actor=self.caller.actor,
            workflows=self.caller.workflows,
        )
        for (position, line), one in zip(good.items(), done, strict=True):
            results[position] = show_result(line, one)
        return [results[position] for position in range(len(values))]

    def hear_again(self, once: Once, before: Told) -> Told:
        """Line by line: those of instances that are not the caller's any more are as if they were not there."""
        check_told(once, before)
        if self.caller.workflows is None:
            return before
        results = json.loads(before.body)["results"]
        owners = [UUID(line["instance"]) if "instance" in line else None for line in results]
        mine = self.find_mine([owner for owner in owners if owner is not None])
        told = [
            line if owner is None or owner in mine else _UNKNOWN for line, owner in zip(results, owners, strict=True)
        ]
        return replace(before, body=ChangeAnswer({"results": told}).write())

    def find_mine(self, instances: Sequence[UUID]) -> set[Any]:
        """Of these instances those that run one of the key's workflows."""
        assert self.caller.workflows is not None
        return set(store.find_reachable(self.db, instances, self.caller.workspace, self.caller.workflows))


def read_line(value: Any) -> AddressedAnswer:
    """One line, ready to be judged; or what is wrong with it, whatever it is about."""
    has_data = not isinstance(value, dict) or "data" in value
    if not has_data:
        # Without data there is nothing to answer with, whatever else there is: of a slip beside it nothing is told.
        value = {name: value[name] for name in ("id", "signal_id") if name in value}
    try:
        line = CompleteManyLine.model_validate(value)
    except ValidationError as error:
        mistakes = list_mistakes(error, value)
        first = dict(islice(mistakes.items(), MOST_MISTAKES))
        raise RequestRefused(INVALID_REQUEST, name_first(mistakes), errors=first) from error
    if (line.id is None) == (line.signal_id is None):
        raise RequestRefused(INVALID_REQUEST, "Name the id or the signal_id of a question, and not both.")
    data = line.data if has_data else MISSING
    if line.id is not None:
        return AddressedAnswer("id", read_id(line.id), data, read_own_key(line), line.version)
    return AddressedAnswer("signal_id", check_signal_id(line.signal_id), data, read_own_key(line), line.version)


def read_own_key(line: CompleteManyLine) -> Once | None:
    """What tells this answer from others, if the line has a key."""
    if line.idempotency_key is None:
        return None
    said = dump_value({"data": line.data, "version": line.version}, "the data", conf.max_bulk_body)
    return make_once("POST", f"{PATH}\0{line.id}\0{line.signal_id}", line.idempotency_key, body=said.encode())


def show_result(line: AddressedAnswer, result: CompletionResult) -> dict[str, Any]:
    """What a line is told."""
    done, error = result.completion, result.error
    if error is not None or done is None:
        assert error is not None
        missing = isinstance(error, InvalidData) and line.data is MISSING
        return describe_refusal(refuse_without_data() if missing else error)
    return {
        "status": 200,
        "id": str(done.id),
        "signal_id": done.signal_id,
        "instance": str(done.instance),
        "replayed": done.replayed,
    }


def describe_refusal(error: WorkflowError) -> dict[str, Any]:
    """The result of one that was not; what is no fault of the caller's goes on as an error."""
    problem = describe_error(error)
    if problem is None:
        raise error
    return problem
