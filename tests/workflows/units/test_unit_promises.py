"""What is promised of await units, sentence by sentence."""

from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.races import play, settle, take_one
from tests.support.units.payments import answer, asked, begin, pay
from workflows import InvalidData, Machine, TooMany, action, collect, durable, expand, ledger, wait_for
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal
from workflows.store import probe
from workflows.store.ledger.retention import prune
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain
from workflows.units.item_outcomes import release

pytestmark = pytest.mark.django_db


def events(id: Any) -> list[str]:
    return [
        str(kind) for kind in LedgerEvent.objects.filter(instance=id).order_by("seq").values_list("kind", flat=True)
    ]


# --- cardinalities -----------------------------------------------------------------------------------


@durable(name="promises.once")
def once(ctx: Any, cardinality: str, count: int) -> Any:
    """One question about a list, or for one."""
    items = ({"n": n} for n in range(count))
    return ctx.wait_for("sum", "api", input=items if cardinality.startswith("MANY") else None, cardinality=cardinality)


@pytest.mark.parametrize("cardinality", ["ONE_TO_ONE", "ONE_TO_MANY", "MANY_TO_ONE", "MANY_TO_MANY"])
def test_each_cardinality_but_a_stream_has_one_interaction(cardinality: str) -> None:
    instance = workflows.start(once, {"cardinality": cardinality, "count": 3})
    drain()
    [asked] = Interaction.objects.filter(instance=instance)
    assert AwaitUnit.objects.get(instance=instance).cardinality == cardinality
    assert asked.request == ([{"n": 0}, {"n": 1}, {"n": 2}] if cardinality.startswith("MANY") else None)


@pytest.mark.parametrize("cardinality", ["ONE_TO_ONE", "MANY_TO_ONE"])
def test_one_output_resumes_what_asked_for_one(cardinality: str) -> None:
    instance = workflows.start(once, {"cardinality": cardinality, "count": 2})
    drain()
    workflows.complete(f"sum-{instance.pk}", {"sum": 7})
    drain()
    assert_done(instance, {"sum": 7})


@pytest.mark.parametrize("cardinality", ["ONE_TO_MANY", "MANY_TO_MANY"])
def test_a_list_of_outputs_resumes_what_asked_for_many_and_nothing_else_does(cardinality: str) -> None:
    instance = workflows.start(once, {"cardinality": cardinality, "count": 2})
    drain()
    with pytest.raises(InvalidData, match="must be a list"):
        workflows.complete(f"sum-{instance.pk}", {"sum": 7})
    workflows.complete(f"sum-{instance.pk}", [1, 2, 3])
    drain()
    assert_done(instance, [1, 2, 3])


@pytest.mark.parametrize("cardinality", ["MANY_TO_ONE", "MANY_TO_MANY"])
def test_more_input_items_than_the_limit_are_refused_before_anything_is_asked(cardinality: str, settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "AWAIT_AGGREGATE_MAX_INPUT_ITEMS": 3}
    instance = workflows.start(once, {"cardinality": cardinality, "count": 4})
    drain()
    assert_failed(instance, "TooMany: the input of 'sum' has more than 3 items")
    assert not AwaitUnit.objects.exists()


def test_10_000_items_go_in_and_one_more_does_not() -> None:
    most = begin(10_000)
    assert AwaitUnit.objects.get(instance=most).total == 10_000
    assert_failed(begin(10_001), "has more than 10000 items")
    assert AwaitUnit.objects.count() == 1


def test_an_endless_input_is_refused_and_not_read_to_its_end() -> None:
    def count() -> Any:
        n = 0
        while True:
            yield (n := n + 1)

    from workflows.definitions.item_streams import take_items

    with pytest.raises(TooMany, match="more than 10000 items"):
        take_items(count(), "the input")
    for wrong in ("text", {"a": 1}, 7, None):
        with pytest.raises(workflows.InvalidCall, match="must be a list"):
            take_items(wrong, "the input")


def test_more_output_items_than_the_limit_are_refused_with_the_limit_in_digits(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS": 3}
    instance = workflows.start(once, {"cardinality": "MANY_TO_MANY", "count": 1})
    drain()
    with pytest.raises(InvalidData, match="has 4 items, the limit is 3"):
        workflows.complete(f"sum-{instance.pk}", [1, 2, 3, 4])


# --- items, their order and their number --------------------------------------------------------------


def test_a_stream_has_one_interaction_for_each_item_in_their_order() -> None:
    instance = begin(3)
    rows = Interaction.objects.filter(instance=instance).order_by("index")
    assert [(row.index, row.request, row.signal_id) for row in rows] == [
        (n, {"n": n}, f"pay.{n}-{instance.pk}") for n in range(3)
    ]


def test_128_items_are_asked_at_a_time_unless_the_author_says_otherwise() -> None:
    instance = begin(130)
    assert asked(instance) == list(range(128))
    assert AwaitUnit.objects.get(instance=instance).queued == 2


def test_sequential_items_are_asked_one_after_another() -> None:
    instance = begin(3, concurrency=1)
    for index in range(3):
        assert asked(instance) == [index]
        answer(instance, index)


def test_an_item_that_waits_for_its_turn_is_not_listed_as_pending() -> None:
    begin(3, concurrency=1)
    assert probe.read_pending(connection, None).ages["1h"] == 1


def test_an_answer_that_comes_before_its_items_turn_is_taken() -> None:
    instance = begin(4, concurrency=1)
    for index in (3, 2, 1, 0):
        answer(instance, index)
    drain()
    assert_done(instance, [0, 1, 2, 3])


def test_a_duplicate_answer_changes_nothing() -> None:
    instance = begin(2)
    answer(instance, 0, "first")
    with pytest.raises(workflows.InteractionResolved):
        answer(instance, 0, "second")
    answer(instance, 1, "b")
    drain()
    assert_done(instance, ["first", "b"])


def test_early_completions_before_the_parent_is_parked_are_kept() -> None:
    instance = workflows.start(pay, {"n": 3})
    claim = take_one()
    park = play(claim)  # asked, and not parked yet
    for index in (2, 1, 0):
        answer(instance, index)
    unit = AwaitUnit.objects.get(instance=instance)
    release(connections["default"], unit.pk)
    settle(park)
    drain()
    assert_done(instance, [0, 1, 2])


# --- the unit, its items and its release ---------------------------------------------------------------


def test_the_instance_points_at_its_open_unit() -> None:
    instance = begin(2)
    unit = AwaitUnit.objects.get(instance=instance)
    assert Instance.objects.get(pk=instance.pk).names == [f"holdpoint:unit:{unit.pk}"]


def test_an_answer_is_stored_on_its_item_and_touches_no_row_of_the_instance() -> None:
    instance = begin(2)
    before = Instance.objects.filter(pk=instance.pk).values().get()
    answer(instance, 0, {"paid": 7})
    assert Instance.objects.filter(pk=instance.pk).values().get() == before
    assert Interaction.objects.get(instance=instance, index=0).output == {"paid": 7}
    assert not Signal.objects.filter(instance=instance).exists()


def test_the_release_puts_one_signal_into_the_inbox_and_is_done_once() -> None:
    instance = begin(3)
    for index in range(3):
        answer(instance, index)
    unit = AwaitUnit.objects.get(instance=instance)
    assert (unit.status, unit.released_at) == ("completed", None)  # in a transaction of its own
    db = connections["default"]
    assert [release(db, unit.pk), release(db, unit.pk)] == [True, False]
    [signal] = Signal.objects.filter(instance=instance)
    assert (signal.name, signal.payload) == (f"holdpoint:unit:{unit.pk}", {"unit": str(unit.pk), "status": "completed"})
    drain()
    assert_done(instance, [0, 1, 2])


def test_a_unit_that_is_not_over_releases_nobody() -> None:
    instance = begin(2)
    answer(instance, 0)
    assert not release(connections["default"], AwaitUnit.objects.get(instance=instance).pk)
    drain()
    assert_awaiting(instance, "pay")


def test_a_run_before_the_release_reads_no_item_and_parks_again() -> None:
    instance = begin(2)
    answer(instance, 0)
    answer(instance, 1)
    with connection.cursor() as cursor:  # as if a worker had died: it runs once more, before anybody has released it
        cursor.execute("UPDATE holdpoint_instance SET status = 1, due_at = now() WHERE id = %s", [instance.pk])
    with CaptureQueriesContext(connection) as captured:
        settle(play(take_one()))
    assert not [one for one in captured if "x.output" in one["sql"] and "ORDER BY x.index" in one["sql"]]
    drain()
    assert_done(instance, [0, 1])


def test_outputs_of_a_finished_unit_are_read_in_one_statement() -> None:
    instance = begin(200)
    workflows.complete_many([(f"pay.{n}-{instance.pk}", n) for n in range(200)])
    release(connections["default"], AwaitUnit.objects.get(instance=instance).pk)
    claim = take_one()
    with CaptureQueriesContext(connection) as captured:
        done = play(claim)
    assert len([one for one in captured if "SAVEPOINT" not in one["sql"]]) == 2  # the checkpoints, and the outputs
    settle(done)
    assert_done(instance, list(range(200)))


@durable(name="promises.twice")
def twice(ctx: Any) -> Any:
    """A unit, and a step that fails after it."""
    paid = ctx.wait_for_each("pay", [1, 2], "api")
    if ctx.attempt == 0 and not SEEN:
        SEEN.append(1)
        raise RuntimeError("once")
    return paid


SEEN: list[int] = []


def test_a_replay_finds_the_outputs_where_they_are_and_asks_nobody_again() -> None:
    SEEN.clear()
    instance = workflows.start(twice)
    drain()
    answer(instance, 0, "a")
    answer(instance, 1, "b")
    drain()
    advance("1m")
    assert_done(instance, ["a", "b"])
    assert AwaitUnit.objects.count() == 1


# --- cancelling, pruning, erasing ----------------------------------------------------------------------


def test_cancelling_the_instance_cancels_a_half_done_unit_and_what_it_still_asks() -> None:
    instance = begin(4, concurrency=2)
    answer(instance, 0)
    workflows.cancel(instance, "enough")
    unit = AwaitUnit.objects.get(instance=instance)
    assert (unit.status, unit.queued, unit.answered) == ("cancelled", 0, 1)
    statuses = Interaction.objects.filter(instance=instance).order_by("index").values_list("status", flat=True)
    assert list(statuses) == ["completed", "cancelled", "cancelled", "cancelled"]
    with pytest.raises(workflows.UnknownInteraction):
        answer(instance, 1)
    drain()
    assert events(unit.pk)[-1] == "await_unit_terminal"


def test_a_unit_that_is_over_when_its_instance_is_cancelled_releases_nobody() -> None:
    instance = begin(1)
    answer(instance, 0)
    workflows.cancel(instance)
    drain()
    unit = AwaitUnit.objects.get(instance=instance)
    assert (unit.status, str(unit.phase), unit.released_at) == ("completed", "released", None)
    assert not Signal.objects.filter(instance=instance).exists()


def test_pruning_erases_units_items_and_their_histories_with_the_instance() -> None:
    instance = begin(3)
    for index in range(3):
        answer(instance, index)
    drain()
    unit = AwaitUnit.objects.get(instance=instance)
    ledger.seal_ledger(connections["default"])
    list(prune(connections["default"], older_than=-1.0))
    assert not AwaitUnit.objects.exists()
    assert not Interaction.objects.exists()
    assert set(events(unit.pk)) <= {"redacted"}  # what stands for a sealed history
    assert not LedgerEvent.objects.exclude(kind="redacted").exists()


def test_a_payload_in_the_history_of_a_unit_can_be_erased() -> None:
    instance = begin(2, on_item="partial")
    workflows.fail(f"pay.0-{instance.pk}", "owes money to Ann")
    unit = AwaitUnit.objects.get(instance=instance)
    row = LedgerEvent.objects.get(instance=unit.pk, kind="await_unit_item_completed")
    ledger.redact(connections["default"], unit.pk, row.seq, actor="dpo", reason="asked for")
    row = LedgerEvent.objects.get(instance=unit.pk, seq=row.seq)
    assert row.data is None
    assert events(unit.pk)[-1] == "redacted"


# --- lifecycle events -----------------------------------------------------------------------------------


def test_the_events_of_a_unit_are_told_in_their_order_with_real_times() -> None:
    instance = begin(3, concurrency=2)
    answer(instance, 1)
    answer(instance, 0)
    answer(instance, 2)
    drain()
    unit = AwaitUnit.objects.get(instance=instance)
    assert events(unit.pk) == [
        "await_interaction_dispatched",
        "await_unit_item_completed",
        "await_interaction_dispatched",
        "await_unit_dispatch_complete",
        "await_unit_item_completed",
        "await_unit_item_completed",
        "await_unit_completed",
        "await_resume_released",
        "await_unit_terminal",
    ]
    times = list(LedgerEvent.objects.filter(instance=unit.pk).order_by("seq").values_list("at", flat=True))
    assert times == sorted(times)
    assert events(instance.pk) == ["started", "asked", "suspended", "answered", "done"]


# --- the project's policy --------------------------------------------------------------------------------


def refuse(operation: str, interaction: Any, actor: str) -> Any:
    """Say no to what `NO` names."""
    asked_about.append((operation, interaction.index))
    return "not here" if (operation, interaction.index) in NO else None


NO: set[tuple[str, int]] = set()
asked_about: list[tuple[str, int]] = []


@pytest.fixture
def policy(settings: Any) -> Any:
    NO.clear()
    asked_about.clear()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": refuse}
    return NO


def test_the_policy_is_asked_about_each_item_when_it_is_asked_answered_and_expires(policy: Any) -> None:
    instance = begin(2, timeout="1h", on_item="partial")
    workflows.complete_many([(f"pay.1-{instance.pk}", 1)])
    advance("2h")
    assert_done(instance)
    assert sorted(asked_about) == [("resume", 1), ("suspend", 0), ("suspend", 1), ("timeout", 0)]


def test_a_policy_that_refuses_the_timeout_of_an_item_fails_the_instance(policy: Any) -> None:
    policy.add(("timeout", 0))
    instance = begin(1, timeout="1h", on_item="partial")
    advance("2h")
    assert_failed(instance, "PolicyRefused")
    assert LedgerEvent.objects.filter(instance=instance, kind="refused").exists()


class Stages(Machine):
    """Payments, each followed by a stage of its own."""

    name = "units-promises-stages"
    numbers = expand(lambda ctx: range(2))
    pay = wait_for(channel="api", each=True, timeout="1h", on_item="partial")
    double = action(lambda ctx: ctx.steps.pay * 2)
    report = collect(lambda ctx: [one.status for one in ctx.items])


class NoStages(Machine):
    """Payments, and nothing else."""

    name = "units-promises-no-stages"
    numbers = expand(lambda ctx: range(2))
    pay = wait_for(channel="api", each=True, timeout="1h")


@pytest.mark.parametrize("machine", [Stages, NoStages])
def test_the_policy_is_asked_about_the_items_of_a_machine_that_expire(policy: Any, machine: Any) -> None:
    policy.add(("timeout", 0))
    instance = workflows.start(machine)
    drain()
    workflows.complete(f"pay.1-{instance.pk}", 1)
    advance("2h")
    assert_failed(instance, "PolicyRefused")
    assert asked_about.count(("timeout", 0)) == 1
    assert LedgerEvent.objects.filter(instance=instance, kind="refused").exists()
    policy.clear()
    workflows.retry(instance)
    drain()
    if machine is Stages:
        assert_done(instance, ["expired", "completed"])
    else:
        assert_failed(instance, "item 0 of 'pay' was not answered")
