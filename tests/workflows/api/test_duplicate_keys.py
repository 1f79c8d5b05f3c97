"""A key whose holder ends while another start looks for it: it is free, so the start goes through."""

from contextlib import contextmanager

import pytest
from django.db import connection

import workflows
from tests.support.races import COMMITTED, run_threads, work
from workflows import Await, Child, Done, DuplicateKey, Spawn, Workflow, step
from workflows.models import Instance
from workflows.testing import assert_done

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


class Holder(Workflow):
    name = "churn.holder"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done()


class Parent(Workflow):
    name = "churn.parent"

    @step
    def begin(self, ctx):
        return Spawn([Child(Holder, key="churn")], then="end")

    @step
    def end(self, ctx):
        return Done()


@contextmanager
def ending(holder, times=1):
    """The holder ends elsewhere as soon as a start on this connection has met it."""
    left = [times]

    def end(execute, sql, params, many, context):
        answer = execute(sql, params, many, context)
        if "INTO holdpoint_instance(" in sql and left[0]:
            left[0] -= 1
            run_threads([lambda: workflows.cancel(holder)])
        return answer

    with connection.execute_wrapper(end):
        yield


def hold():
    return workflows.start(Holder, key="churn")


def test_a_start_goes_through_when_the_holder_of_its_key_ends_meanwhile():
    with ending(hold()):
        started = workflows.start(Holder, {"n": 2}, key="churn")
    assert Instance.objects.get(key="churn", status="runnable").pk == started.pk


def test_so_does_a_start_of_many():
    with ending(hold()):
        started = workflows.start_many(Holder, [{}, {}], keys=["churn", "other"])
    assert Instance.objects.filter(pk__in=[one.pk for one in started], status="runnable").count() == 2


def test_so_does_a_spawn():
    parent = workflows.start(Parent)
    with ending(hold()):
        work()
    parent.refresh_from_db()
    assert parent.status == "awaiting_children"
    workflows.cancel("churn")
    work()
    assert_done(parent)


def test_a_key_that_is_held_is_refused_with_its_holder():
    holder = hold()
    for call in (
        lambda: workflows.start(Holder, key="churn"),
        lambda: workflows.start_many(Holder, [{}], keys=["churn"]),
    ):
        with pytest.raises(DuplicateKey) as caught:
            call()
        assert caught.value.instance == holder
