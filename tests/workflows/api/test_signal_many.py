"""signal_many: thousands of signals in a few statements, with the promises of one."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.races import play, settle, take_one
from workflows import Await, Done, UnknownWorkspace, Workflow, step
from workflows.exceptions import InvalidCall, InvalidTarget, NotSerializable
from workflows.models import Signal
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


class Waiter(Workflow):
    name = "many.waiter"

    @step
    def ask(self, ctx):
        return Await(["a", "b"], then="got")

    @step
    def got(self, ctx):
        return Done([[signal.name, signal.payload] for signal in ctx.awaited])


def parked(count: int, prefix: str = "k"):
    instances = workflows.start_many(Waiter, [{}] * count, keys=[f"{prefix}{n}" for n in range(count)])
    drain()
    return instances


def test_each_line_has_its_answer_in_the_order_of_the_lines():
    one, two = parked(2)
    answers = workflows.signal_many(
        [
            (two, "a", 2),
            ("nobody", "a"),
            (one.id, "noise"),
            ("k0", "a", 1, "evt"),
            (uuid4(), "a"),
            (one.id, "a", 9, "evt"),
        ]
    )
    assert [(a.woke, a.duplicate, a.refused) for a in answers] == [
        (True, False, None),
        (False, False, "no_target"),
        (False, False, None),
        (True, False, None),
        (False, False, "no_target"),
        (False, True, None),
    ]
    assert answers[5].id == answers[3].id
    assert [a.id is None for a in answers] == [False, True, False, False, True, False]
    drain()
    assert_done(one, [["a", 1]])
    assert_done(two, [["a", 2]])


def test_the_answers_id_is_the_one_a_single_signal_would_give():
    [one] = parked(1)
    [answer] = workflows.signal_many([(one, "a", 1, "evt")])
    assert workflows.signal(one, "a", dedup_key="evt").id == answer.id


def test_lines_of_one_instance_arrive_in_the_callers_order():
    one, two = parked(2)
    lines = [(target, name, n) for n in range(20) for target, name in ((one, "a"), (two, "b"))]
    workflows.signal_many(lines)
    drain()
    assert_done(one, [["a", n] for n in range(20)])
    assert_done(two, [["b", n] for n in range(20)])


def test_lines_of_one_instance_arrive_in_the_callers_order_however_each_is_addressed():
    [one] = parked(1)
    workflows.signal_many([("k0", "a", 0), (one, "a", 1), (one.id, "a", 2), ("k0", "a", 3), (one, "a", 4)])
    drain()
    assert_done(one, [["a", n] for n in range(5)])


def test_exactly_one_line_of_a_batch_is_said_to_have_woken_its_instance():
    [one] = parked(1)
    answers = workflows.signal_many([(one, "noise"), (one, "a"), (one, "b")])
    assert [answer.woke for answer in answers] == [False, True, False]


def test_only_a_matching_name_wakes():
    one, two = parked(2)
    workflows.signal_many([(one, "noise"), (two, "b")])
    assert drain() == {"done": 1}
    assert_awaiting(one, "a", "b")


def test_lines_without_a_payload_carry_null():
    [one] = parked(1)
    workflows.signal_many([(one, "a"), [one, "b", None, None]])
    drain()
    assert_done(one, [["a", None], ["b", None]])


def test_lines_that_come_while_a_step_runs_are_not_lost():
    instance = workflows.start(Waiter)
    outcome = play(take_one())
    assert [answer.woke for answer in workflows.signal_many([(instance, "a", 1), (instance, "x")])] == [
        False,
        False,
    ]
    assert settle(outcome)
    drain()
    assert_done(instance, [["a", 1]])


# Dedup keys


def test_duplicates_within_one_call_are_told_from_their_first():
    [one] = parked(1)
    answers = workflows.signal_many([(one, "a", n, "same") for n in range(3)])
    assert [answer.duplicate for answer in answers] == [False, True, True]
    assert len({answer.id for answer in answers}) == 1
    drain()
    assert_done(one, [["a", 0]])


def test_the_first_of_the_duplicates_wins_also_in_a_large_shuffled_batch():
    instances = parked(40)
    lines = [(one, "a", [n, m], f"evt{m % 4}") for m in range(12) for n, one in enumerate(instances)]
    answers = workflows.signal_many(lines)
    assert [answer.duplicate for answer in answers] == [line[2][1] >= 4 for line in lines]
    drain()
    for n, one in enumerate(instances):
        assert_done(one, [["a", [n, m]] for m in range(4)])


def test_duplicates_across_calls_and_across_both_doors():
    [one] = parked(1)
    first = workflows.signal(one, "a", 1, dedup_key="x")
    [second] = workflows.signal_many([(one, "a", 2, "x")])
    assert (second.id, second.duplicate, second.woke) == (first.id, True, False)
    assert Signal.objects.count() == 1


def test_a_call_repeated_whole_changes_nothing():
    one, two = parked(2)
    lines = [(one, "a", 1, "x"), (two, "b", 2, "y"), (two, "a", 3, "z")]
    first = workflows.signal_many(lines)
    again = workflows.signal_many(lines)
    assert [answer.id for answer in again] == [answer.id for answer in first]
    assert all(answer.duplicate and not answer.woke for answer in again)
    for instance in (one, two):
        instance.refresh_from_db()
        assert instance.inbox == Signal.objects.filter(instance=instance).count()
        assert instance.seq >= max(s.n for s in Signal.objects.filter(instance=instance))


def test_by_id_a_duplicate_is_told_even_after_the_end_and_a_new_one_is_refused():
    [one] = parked(1)
    [first] = workflows.signal_many([(one, "a", 1, "x")])
    drain()
    again, fresh, by_key = workflows.signal_many([(one, "a", 1, "x"), (one, "a", 1, "y"), ("k0", "a", 1, "x")])
    assert (again.id, again.duplicate, again.refused) == (first.id, True, None)
    assert (fresh.id, fresh.refused) == (None, "no_target")
    assert (by_key.id, by_key.refused) == (None, "no_target")


def test_later_signals_do_not_take_a_number_that_a_batch_has_given():
    [one] = parked(1)
    workflows.signal(one, "noise", dedup_key="x")
    workflows.signal_many([(one, "noise", 1, "x"), (one, "noise", 2, "y"), (one, "noise", 3, "x")])
    workflows.signal(one, "noise")
    numbers = [signal.n for signal in Signal.objects.filter(instance=one)]
    assert len(numbers) == len(set(numbers)) == 3
    one.refresh_from_db()
    assert one.seq >= max(numbers)
    assert len(set(one.events.values_list("seq", flat=True))) == one.events.count()


# Transactions and size


def test_a_batch_in_a_transaction_that_is_rolled_back_was_never_sent():
    instances = parked(3)
    with transaction.atomic():
        workflows.signal_many([(one, "a", 1, "x") for one in instances])
        transaction.set_rollback(True)
    assert not Signal.objects.exists()
    assert drain() == {}
    for one in instances:
        assert_awaiting(one, "a", "b")


def test_thousands_go_in_few_statements():
    instances = parked(100)
    lines = [(one, "a", n) for n in range(21) for one in instances]
    with CaptureQueriesContext(connection) as few:
        answers = workflows.signal_many(lines)
    assert len(few) <= 2 * -(-len(lines) // 500)
    assert sum(answer.woke for answer in answers) == 100
    assert all(answer.refused is None for answer in answers)
    drain()
    for one in instances:
        assert_done(one, [["a", n] for n in range(21)])


def test_by_key_costs_one_more_statement():
    parked(50)
    with CaptureQueriesContext(connection) as few:
        workflows.signal_many([(f"k{n}", "noise") for n in range(50)])
    assert len(few) <= 2


def test_no_lines_are_no_statement():
    with CaptureQueriesContext(connection) as none:
        assert workflows.signal_many([]) == []
    assert len(none) == 0


def test_lines_may_come_from_a_generator():
    instances = parked(3)
    answers = workflows.signal_many((one, "a") for one in instances)
    assert [answer.woke for answer in answers] == [True] * 3


# Arguments


@pytest.mark.parametrize(
    "line", ["ab", ("only-target",), ("t", "n", 1, "d", "more"), None, 5, {"target": "t", "name": "n"}]
)
def test_a_line_of_another_shape_is_refused_with_its_position_and_nothing_is_stored(line):
    [one] = parked(1)
    with pytest.raises(InvalidCall, match="line 1"):
        workflows.signal_many([(one, "a"), line])
    assert not Signal.objects.exists()


def test_a_line_that_addresses_nothing_is_refused_and_nothing_is_stored():
    [one] = parked(1)
    with pytest.raises(InvalidTarget):
        workflows.signal_many([(one, "a"), (5, "a")])
    assert not Signal.objects.exists()


def test_a_payload_that_is_not_json_is_refused_and_nothing_is_stored():
    [one] = parked(1)
    with pytest.raises(NotSerializable):
        workflows.signal_many([(one, "a", 1), (one, "a", {"x": object()})])
    assert not Signal.objects.exists()


def test_a_workspace_that_does_not_exist_is_an_error():
    with pytest.raises(UnknownWorkspace, match="nowhere"):
        workflows.signal_many([("k0", "a")], workspace="nowhere")


def test_lines_of_different_workspaces_go_each_to_their_own():
    workflows.workspace.create("acme")
    here = workflows.start(Waiter, key="same")
    there = workflows.start(Waiter, key="same", workspace="acme")
    drain()
    answers = workflows.signal_many([(there, "a", "t"), ("same", "a", "h"), (here, "b", "h2")])
    assert [answer.refused for answer in answers] == [None] * 3
    drain()
    assert_done(here, [["a", "h"], ["b", "h2"]])
    assert_done(there, [["a", "t"]])
