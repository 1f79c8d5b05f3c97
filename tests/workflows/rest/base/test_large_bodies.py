"""What somebody may make a process read and keep: counted in bytes of the wire and of memory."""

from __future__ import annotations

import json
import tracemalloc
from io import BytesIO
from typing import Any

import pytest
from django.test import Client

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import durable
from workflows.models import Interaction
from workflows.rest.base.json_body import parse_body
from workflows.rest.protocol.problems import RequestRefused
from workflows.testing import assert_awaiting, assert_done, drain
from workflows.values.json_reader import MOST_VALUES

LIMIT, BULK = 512 * 1024, 16 * 1024 * 1024
handed: dict[str, str] = {}


class Wire(BytesIO):
    """A body on its way; counts what is taken of it."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        self.taken += len(part)
        return part


@durable(name="large-single")
def single(ctx: Any) -> Any:
    link = ctx.callback("one", timeout="1d")
    handed["token"] = link.resume_token
    return len(link.wait())


@durable(name="large-many")
def many(ctx: Any) -> Any:
    return len(ctx.wait_for("many", "api", cardinality="ONE_TO_MANY", timeout="1d"))


def park(workflow: Any) -> Interaction:
    instance = workflows.start(workflow)
    drain()
    assert_awaiting(instance)
    return Interaction.objects.get(instance=instance)


def send(path: str, raw: bytes, **headers: str) -> tuple[Any, int]:
    """The answer, and how many bytes were read for it."""
    wire = Wire(raw)
    extra: dict[str, Any] = {"wsgi.input": wire, "CONTENT_LENGTH": str(len(raw))}
    response = Client().generic("POST", path, b"x", content_type="application/json", headers=headers, **extra)
    return response, wire.taken


@pytest.mark.django_db
def test_a_large_body_is_not_read_for_a_question_that_takes_one_answer() -> None:
    found = park(single)
    key = {"Authorization": f"Bearer {make_key()}"}
    large = b'{"data":[' + b"{}," * (BULK // 3 - 10) + b"1]}"
    for path in (
        f"/v1/signals/{found.signal_id}/complete",
        f"/v1/interactions/{found.pk}/complete",
        f"/resume/{handed['token']}",
        # What is not there is told alike, and as cheaply.
        "/v1/signals/none/complete",
        "/v1/signals/%00/complete",
        "/v1/interactions/00000000-0000-7000-8000-000000000000/complete",
        "/v1/interactions/x/complete",
        "/resume/none",
    ):
        response, taken = send(path, large, **key)
        told = problem(response, 413, "too-large")
        assert str(LIMIT) in told["detail"], path
        assert taken == 0, path
    found.refresh_from_db()
    assert found.status == "pending"


@pytest.mark.django_db
def test_a_list_of_answers_may_be_large_where_the_question_takes_one() -> None:
    found = park(many)
    path, key = f"/v1/signals/{found.signal_id}/complete", {"Authorization": f"Bearer {make_key()}"}
    large = json.dumps({"data": ["x" * 1_000] * 2_000}).encode()
    response, taken = send(path, large, **key, **{"Idempotency-Key": "k"})
    assert (response.status_code, taken) == (200, len(large))
    drain()
    assert_done(found.instance, 2_000)
    again, _taken = send(path, large, **key, **{"Idempotency-Key": "k"})
    assert again.content == response.content
    assert problem(send(path, large + b" ", **key, **{"Idempotency-Key": "k"})[0], 409, "idempotency-conflict")


@pytest.mark.django_db
def test_more_than_the_largest_body_is_read_nowhere() -> None:
    found = park(many)
    key = {"Authorization": f"Bearer {make_key()}"}
    for path in (f"/v1/signals/{found.signal_id}/complete", "/v1/signals/bulk"):
        response, taken = send(path, b"[" + b" " * BULK, **key)
        assert str(BULK) in problem(response, 413, "too-large")["detail"]
        assert taken == 0


def test_many_small_values_are_refused_before_they_are_made() -> None:
    raw = b"[" + b"{}," * (BULK // 3 - 1) + b"{}]"
    tracemalloc.start()
    try:
        with pytest.raises(RequestRefused) as caught:
            parse_body(raw)
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.kind.status == 413
    assert str(MOST_VALUES) in caught.value.detail
    assert peak < 2 * len(raw)


def test_commas_in_texts_are_no_values() -> None:
    text = "," * (2 * MOST_VALUES)
    assert parse_body(json.dumps([text]).encode()) == [text]
    with pytest.raises(RequestRefused):
        parse_body(json.dumps([text, *[1] * MOST_VALUES]).encode())


@pytest.mark.django_db
def test_as_many_signals_as_a_call_may_carry_may_hold_a_hundred_values_each() -> None:
    lines = [{"key": f"nobody-{n}", "name": "note", "payload": list(range(90))} for n in range(10_000)]
    assert Api(make_key()).post("/v1/signals/bulk", lines).status_code == 207
