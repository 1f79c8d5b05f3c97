"""/v1/interactions, and answering one by its id or signal id."""

from __future__ import annotations

import json
import uuid
from typing import Any, ClassVar
from urllib.parse import quote

import pytest
from django.db import connection

import workflows
from tests.support.api_calls import problem
from tests.support.bad_input import ANY
from workflows import durable
from workflows.definitions.channel import Channel
from workflows.models import Instance, Interaction, LedgerEvent, StoredAnswer
from workflows.store.ledger.retention import prune
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


class RestDesk(Channel):
    name = "rest-desk"
    owns_answers: ClassVar[bool] = True
    door = "at the desk"


@durable(name="rest-gate")
def gate(ctx, signal="rest-gate", timeout="1h", schema=None):
    return ctx.wait_for_signal("gate", signal=signal, timeout=timeout, schema=schema)


@durable(name="rest-desk-gate")
def desk_gate(ctx):
    return ctx.wait_for("desk", RestDesk())


@durable(name="rest-person")
def person(ctx, assignee=None, group=None, timeout=None, channel="api"):
    return ctx.wait_for("look", channel, input={"about": 1}, assignee=assignee, group=group, timeout=timeout)


@durable(name="rest-several")
def several(ctx, cardinality="ONE_TO_MANY"):
    got = ctx.wait_for("items", "api", cardinality=cardinality, timeout="1h")
    ctx.sleep("nap", "1m")
    return [len(got), got[-1]]


def park(workflow: Any = "rest-gate", input: Any = None, **options: Any) -> Interaction:
    started = workflows.start(workflow, input, **options)
    drain()
    return Interaction.objects.get(instance=started)


def address(found: Interaction, by: str) -> str:
    return f"/v1/signals/{found.signal_id}/complete" if by == "signal" else f"/v1/interactions/{found.pk}/complete"


BOTH = pytest.mark.parametrize("by", ["signal", "id"])


@BOTH
def test_an_answer_is_taken_and_the_workflow_goes_on(api, by):
    found = park()
    response = api.post(address(found, by), {"data": {"ok": True}})
    assert response.status_code == 200
    assert response.json() == {
        "id": str(found.pk),
        "signal_id": "rest-gate",
        "instance": str(found.instance_id),
        "status": "completed",
    }
    drain()
    assert_done(found.instance_id, {"ok": True})
    row = LedgerEvent.objects.get(instance=found.instance_id, kind="answered")
    assert (row.data["door"], row.actor[:4]) == ("api", "key:")


@BOTH
def test_null_is_data_and_no_data_is_none(api, by):
    found = park()
    told = problem(api.post(address(found, by), {}), 422, "invalid-data")
    assert told["errors"] == {"data": ["is required"]}
    assert api.post(address(found, by), {"data": None}).status_code == 200


@BOTH
@pytest.mark.parametrize("body", [{"payload": {}}, {"payload": {}, "version": "x"}, [], None, 7, "data", {"dat": 1}])
def test_missing_data_is_unprocessable_whatever_else_there_is(api, by, body):
    found = park()
    told = problem(api.post(address(found, by), raw=json.dumps(body).encode()), 422, "invalid-data")
    assert told["errors"] == {"data": ["is required"]}
    found.refresh_from_db()
    assert found.status == "pending"


@BOTH
def test_an_unknown_member_beside_data_is_a_slip(api, by):
    found = park()
    told = problem(api.post(address(found, by), {"data": 1, "payload": {}}), 400, "invalid-request")
    assert list(told["errors"]) == ["payload"]


def test_the_codes_of_a_completion_are_those_of_its_order(api):
    """Unknown 404, resolved 410, missing data 422; a taken signal id is a collision."""
    problem(api.post("/v1/signals/unknown/complete", {"payload": {}}), 404, "not-found")
    found = park()
    second = workflows.start("rest-gate", {})
    drain()
    assert "SignalCollision" in (Instance.objects.get(pk=second.pk).error or "")
    problem(api.post(address(found, "signal"), {"payload": {}}), 422, "invalid-data")
    assert api.post(address(found, "signal"), {"data": 1}).status_code == 200
    problem(api.post(address(found, "signal"), {"payload": {}}), 410, "resolved")


@pytest.mark.parametrize("signal", ANY)
def test_any_text_is_a_signal_id_and_is_percent_encoded_in_the_address(api, signal):
    found = park(input={"signal": signal})
    assert found.signal_id == signal
    response = api.post(f"/v1/signals/{quote(signal, safe='')}/complete", {"data": 1})
    assert response.status_code == 200, response.content
    assert response.json()["signal_id"] == signal


@pytest.mark.parametrize("signal", ["a%0Ab", "%00", "%7F", "x" * 201])
def test_a_text_that_cannot_be_a_signal_id_is_not_there(api, signal):
    problem(api.post(f"/v1/signals/{signal}/complete", {"data": 1}), 404, "not-found")


@BOTH
def test_the_same_call_again_is_told_the_same_even_when_all_is_over(api, by):
    found = park()
    headers = {"Idempotency-Key": "k"}
    first = api.post(address(found, by), {"data": 1}, headers)
    again = api.post(address(found, by), {"data": 1}, headers)
    drain()
    after = api.post(address(found, by), {"data": 1}, headers)
    assert first.content == again.content == after.content
    assert [one.headers.get("Idempotency-Replayed") for one in (first, again, after)] == [None, "true", "true"]
    problem(api.post(address(found, by), {"data": 2}, headers), 409, "idempotency-conflict")
    # The bytes that were sent count, not what they mean.
    problem(api.post(address(found, by), headers=headers, raw=b'{"data":1}'), 409, "idempotency-conflict")
    assert StoredAnswer.objects.count() == 1


@BOTH
def test_a_replay_needs_no_interaction_any_more(api, by):
    found = park()
    headers = {"Idempotency-Key": "k"}
    first = api.post(address(found, by), {"data": 1}, headers)
    drain()
    advance("10d")
    assert [batch.instances for batch in prune(connection, older_than=1)] == [1]
    assert api.post(address(found, by), {"data": 1}, headers).content == first.content


@BOTH
def test_a_stale_version_is_refused_and_the_shown_one_taken(api, by):
    found = park()
    told = problem(api.post(address(found, by), {"data": 1, "version": 9}), 409, "stale-version")
    assert "9" in told["detail"]
    assert api.post(address(found, by), {"data": 1, "version": found.version}).status_code == 200


@BOTH
def test_a_second_answer_is_refused(api, by):
    found = park()
    api.post(address(found, by), {"data": 1})
    problem(api.post(address(found, by), {"data": 1}), 410, "resolved")


@BOTH
def test_an_answer_past_the_deadline_is_refused(api, by):
    found = park()
    advance("2h")
    problem(api.post(address(found, by), {"data": 1}), 410, "resolved")


@BOTH
def test_data_that_does_not_fit_is_refused_with_the_place(api, by):
    found = park(input={"schema": NUMBER})
    told = problem(api.post(address(found, by), {"data": {"n": "x"}}), 422, "invalid-data")
    assert list(told["errors"]) == ["n"]
    assert api.post(address(found, by), {"data": {"n": 1}}).status_code == 200


@BOTH
def test_a_channel_that_owns_its_answers_refuses_and_names_its_door(api, by):
    found = park("rest-desk-gate")
    assert "at the desk" in problem(api.post(address(found, by), {"data": 1}), 409, "answered-elsewhere")["detail"]


@BOTH
def test_unknown_cancelled_and_foreign_are_one_404(api, by):
    cancelled = park(input={"signal": "gone"})
    workflows.cancel(cancelled.instance_id)
    workflows.workspace.create("acme")
    foreign = park(input={"signal": "theirs"}, workspace="acme")
    unknown = Interaction(pk=uuid.uuid4(), signal_id="nobody-asked")
    told = {api.post(address(one, by), {"data": 1}).content for one in (cancelled, foreign, unknown)}
    told |= {api.post("/v1/interactions/x/complete", {"data": 1}).content}
    told |= {api.post("/v1/signals/a b/complete", {"data": 1}).content}
    assert len(told) == 1
    assert Interaction.objects.get(pk=foreign.pk).status == "pending"


@pytest.mark.parametrize("body", [{"data": 1, "version": "1"}, {"data": 1, "version": True}, {"data": 1, "daat": 1}])
def test_a_body_of_another_shape_is_400_before_anything_is_looked_for(api, body):
    found = park()
    first = api.post(address(found, "id"), body)
    problem(first, 400, "invalid-request")
    assert api.post(f"/v1/interactions/{uuid.uuid4()}/complete", body).content == first.content


def test_a_label_of_resume_links_does_not_shut_the_api(api):
    found = park("rest-person", {"channel": "webhook"})
    assert api.post(address(found, "id"), {"data": 1}).status_code == 200


# Listed


def test_what_is_due_first_comes_first_and_then_the_oldest(api):
    last = park("rest-person")
    late = park("rest-person", {"timeout": "2h"})
    soon = park("rest-person", {"timeout": "1h"})
    newest = park("rest-person")
    ids = [str(one.pk) for one in (soon, late, last, newest)]
    assert [row["id"] for row in api.get("/v1/interactions", status="pending").json()["results"]] == ids
    seen, url = [], "/v1/interactions?status=pending&limit=1"
    while url:
        page = api.get(url).json()
        seen += [row["id"] for row in page["results"]]
        before, url = page["previous"], page["next"]
    assert seen == ids
    back = []
    while before:
        page = api.get(before).json()
        back = [row["id"] for row in page["results"]] + back
        before = page["previous"]
    assert back == ids[:3]


def test_a_row_tells_what_is_asked(api):
    found = park("rest-person", {"assignee": "ann", "group": "desk", "timeout": "1h"})
    row = api.get(f"/v1/interactions/{found.pk}").json()
    assert [row] == api.get("/v1/interactions").json()["results"]
    assert row["request"] == {"about": 1}
    assert (row["assignee"], row["group"], row["workflow"], row["step"]) == ("ann", "desk", "rest-person", "look")
    assert (row["instance"], row["status"], row["version"]) == (str(found.instance_id), "pending", 1)
    assert {"signal_id", "deadline", "schema", "index", "channel", "output", "correlation_id"} <= set(row)
    api.post(f"/v1/interactions/{found.pk}/complete", {"data": {"seen": True}})
    row = api.get(f"/v1/interactions/{found.pk}").json()
    assert (row["status"], row["output"], row["actor"][:4]) == ("completed", {"seen": True}, "key:")


def test_filters_narrow_the_list_down(api):
    ann = park("rest-person", {"assignee": "ann"})
    desk = park("rest-person", {"group": "desk", "channel": "chat"})
    gated = park()
    for query, wanted in [
        ({"assignee": "ann"}, ann),
        ({"group": "desk"}, desk),
        ({"channel": "chat"}, desk),
        ({"workflow": "rest-gate"}, gated),
        ({"step": "gate"}, gated),
        ({"assignee": "ann", "group": ""}, ann),
    ]:
        assert [row["id"] for row in api.get("/v1/interactions", **query).json()["results"]] == [str(wanted.pk)], query
    api.post(address(gated, "id"), {"data": 1})
    assert len(api.get("/v1/interactions", status="pending").json()["results"]) == 2
    assert [row["id"] for row in api.get("/v1/interactions", status="completed").json()["results"]] == [str(gated.pk)]
    problem(api.get("/v1/interactions", status="open"), 400, "invalid-request")


def test_a_list_costs_the_same_however_many_there_are(api, django_assert_num_queries):
    api.get("/v1/interactions")
    for _ in range(5):
        park("rest-person", {"timeout": "1h"})
    with django_assert_num_queries(2):  # one for those with a deadline, one for those without
        assert len(api.get("/v1/interactions", status="pending").json()["results"]) == 5
    with django_assert_num_queries(1):
        assert len(api.get("/v1/interactions", status="pending", limit=3).json()["results"]) == 3


# --- several answers at once ----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("cardinality", ["ONE_TO_MANY", "MANY_TO_MANY"])
def test_a_list_of_answers_may_be_as_large_as_many_signals(api, by, cardinality):
    found = park("rest-several", {"cardinality": cardinality})
    items = [{"n": n, "text": "x" * 1_000} for n in range(5_000)]
    answer = api.post(address(found, by), {"data": items}, {"Idempotency-Key": "k"})
    assert answer.status_code == 200, answer.content
    assert api.post(address(found, by), {"data": items}, {"Idempotency-Key": "k"}).content == answer.content
    drain()
    advance("1m")  # played again, with the answer it was given
    assert_done(found.instance_id, [5_000, items[-1]])


@BOTH
def test_of_a_question_that_takes_one_answer_it_is_too_large_and_of_none_too(api, by):
    found, cancelled = park(), park("rest-several")
    workflows.cancel(cancelled.instance)
    large = {"data": ["x" * 1_000] * 600}
    told = {api.post(address(one, by), large).content for one in (found, cancelled)}
    unknown = "/v1/signals/nothing/complete" if by == "signal" else f"/v1/interactions/{uuid.uuid4()}/complete"
    told.add(api.post(unknown, large).content)
    assert len(told) == 1
    assert str(512 * 1024) in problem(api.post(unknown, large), 413, "too-large")["detail"]
    # As it is kept, and not only as it was sent.
    problem(api.post(address(found, by), raw=b'{"data":[' + b"1e300," * 60_000 + b"1]}"), 413, "too-large")
    assert Interaction.objects.get(pk=found.pk).status == "pending"


@BOTH
def test_there_is_a_limit_to_a_list_of_answers(api, by, settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS": 3, "MAX_BULK_BODY": 2_000}
    found = park("rest-several")
    told = problem(api.post(address(found, by), {"data": [1, 2, 3, 4]}), 422, "invalid-data")
    assert "3" in told["errors"]["data"][0]
    assert "2000" in problem(api.post(address(found, by), {"data": ["x" * 2_000]}), 413, "too-large")["detail"]
    assert api.post(address(found, by), {"data": [1, 2, 3]}).status_code == 200
