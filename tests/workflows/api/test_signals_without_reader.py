"""A signal to an instance whose workflow can never read it is refused, and stored nowhere."""

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import Await, Done, Machine, NoReader, NoTarget, Workflow, durable, sleep, step
from workflows.definitions import registry
from workflows.models import Instance, LedgerEvent, Signal
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


@durable(name="deaf.function")
def function(ctx):
    ctx.sleep("pause", "1h")


class DeafMachine(Machine):
    name = "deaf.machine"
    pause = sleep("1h")


class Reads(Workflow):
    name = "deaf.not"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done(len(ctx.awaited))


DEAF = pytest.mark.parametrize("workflow", [function, DeafMachine], ids=["function", "machine"])


def begin(workflow, key=None, **options):
    instance = workflows.start(workflow, key=key, **options)
    drain()
    return instance


@DEAF
@pytest.mark.parametrize("by", ["instance", "id", "key"])
def test_a_signal_that_nobody_can_read_is_refused_with_what_to_do_instead(workflow, by):
    instance = begin(workflow, "deaf-1")
    before = LedgerEvent.objects.filter(instance=instance).count()
    target = {"instance": instance, "id": instance.pk, "key": "deaf-1"}[by]
    with pytest.raises(NoReader, match=r"is a function or a machine and reads no signals.*complete.*emit") as caught:
        workflows.signal(target, "paid", dedup_key="once")
    assert caught.value.workflow == workflow.definition.name
    assert not Signal.objects.exists()
    assert LedgerEvent.objects.filter(instance=instance).count() == before


def test_of_many_signals_those_that_nobody_can_read_are_refused_and_the_others_arrive():
    deaf, hears = begin(function, "deaf-1"), begin(Reads)
    lines = [(deaf, "paid"), (hears, "paid"), ("deaf-1", "paid"), ("nobody", "paid"), (hears, "paid", None, "once")]
    told = workflows.signal_many(lines)
    assert [one.refused for one in told] == ["no_reader", None, "no_reader", "no_target", None]
    assert [one.woke for one in told] == [False, True, False, False, False]
    assert set(Signal.objects.values_list("instance", flat=True)) == {hears.pk}
    drain()
    assert_done(hears, 2)


def test_one_that_has_ended_or_belongs_to_others_is_no_target_as_ever():
    other = workflows.workspace.create("deaf-others")
    ended, foreign = begin(function), begin(function, workspace=other.slug)
    workflows.cancel(ended)
    for target in (ended, foreign.pk, uuid.uuid4()):
        with pytest.raises(NoTarget):
            workflows.signal(target, "paid")
    assert [one.refused for one in workflows.signal_many([(foreign.pk, "paid"), (ended, "paid")])] == ["no_target"] * 2


def test_a_process_that_does_not_know_the_workflow_stores_the_signal(monkeypatch):
    instance = begin(function)
    known = {at: one for at, one in registry._definitions.items() if at[0] != "deaf.function"}
    monkeypatch.setattr(registry, "_definitions", known)
    assert workflows.signal(instance, "paid").id
    assert Signal.objects.count() == 1


def test_another_version_of_a_name_is_another_workflow():
    class Versioned(Workflow):
        name = "deaf.versioned"

        @step
        def ask(self, ctx):
            return Await("paid", then="ask")

    hears = begin(Versioned)

    @durable(name="deaf.versioned", version=2)
    def second(ctx):
        ctx.sleep("pause", "1h")

    deaf = begin(second)
    assert workflows.signal(hears, "paid").woke
    with pytest.raises(NoReader):
        workflows.signal(deaf, "paid")


def test_a_signal_takes_one_statement_all_the_same():
    hears, deaf = begin(Reads), begin(function)
    with CaptureQueriesContext(connection) as captured:
        workflows.signal(hears.pk, "paid")
    assert len(captured) == 1
    with CaptureQueriesContext(connection) as captured, pytest.raises(NoReader):
        workflows.signal(deaf.pk, "paid")
    assert len(captured) == 1


# --- over HTTP -----------------------------------------------------------------------------------


@DEAF
@pytest.mark.parametrize("address", ["instance", "key", "body"])
def test_over_http_it_is_409_and_says_what_to_do(workflow, address):
    row = begin(workflow, "deaf-7")
    path = {"instance": f"/v1/instances/{row.pk}/signals", "key": "/v1/keys/deaf-7/signals", "body": "/v1/signals"}
    body = {"name": "paid"} | ({"key": "deaf-7"} if address == "body" else {})
    told = problem(Api(make_key()).post(path[address], body), 409, "no-reader")
    assert "workflows.complete" in told["detail"]
    assert not Signal.objects.exists()


def test_over_http_that_of_others_is_404_with_the_one_constant_body():
    foreign = begin(function, workspace=workflows.workspace.create("deaf-others").slug)
    api = Api(make_key())
    told = {api.post(f"/v1/instances/{id}/signals", {"name": "paid"}).content for id in (foreign.pk, uuid.uuid4())}
    assert len(told) == 1
    hidden = Api(make_key(workflows=["deaf.not"]))  # a key for another workflow
    mine = begin(function)
    assert {hidden.post(f"/v1/instances/{mine.pk}/signals", {"name": "paid"}).content} == told
    assert Instance.objects.filter(pk=mine.pk, inbox=0).exists()


def test_over_http_a_line_of_many_is_409_and_the_others_are_taken():
    deaf, hears = begin(function), begin(Reads)
    lines = [{"instance": str(deaf.pk), "name": "paid"}, {"instance": str(hears.pk), "name": "paid"}]
    answer = Api(make_key()).post("/v1/signals/bulk", lines)
    first, second = answer.json()["results"]
    assert (first["status"], first["type"]) == (409, "urn:holdpoint:problem:no-reader")
    assert second["status"] == 202
