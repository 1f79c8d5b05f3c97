"""Two connections that meet on one item, one unit or one instance: one of them wins, and nothing is lost or doubled."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction

import workflows
from tests.support.races import COMMITTED, Refused, play, race, run_threads, settle, take_one, work
from tests.support.units.payments import pay
from workflows import InteractionResolved, UnknownInteraction, ledger, store
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal, Workspace
from workflows.store import ItemFailure
from workflows.units import unit_sweep
from workflows.units.item_outcomes import follow_up, release

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


def begin(n: int, **more: Any) -> Instance:
    instance = workflows.start(pay, {"n": n, **more})
    work()
    return instance


def finish() -> None:
    """What the pump and the sweep beside it do, until there is nothing left."""
    while work() + unit_sweep.work():
        pass


def complete(instance: Instance, index: int, data: Any = None) -> Callable[[], Any]:
    return lambda: workflows.complete(f"pay.{index}-{instance.pk}", index if data is None else data).replayed


def fail(instance: Instance, index: int) -> Callable[[], Any]:
    def call() -> Any:
        db = connections["default"]
        item = Interaction.objects.get(instance=instance, index=index)
        ended = store.retrying(db, lambda: store.fail_items(db, [ItemFailure(item.pk, "broken")], actor=""))
        follow_up(db, ended)
        return [str(how) for how in ended.how.values()]

    return call


def expire(instance: Instance, index: int) -> Callable[[], Any]:
    def call() -> Any:
        db = connections["default"]
        item = Interaction.objects.get(instance=instance, index=index)
        ended = store.retrying(db, lambda: store.expire_items(db, [item.pk]))
        follow_up(db, ended)
        return [str(how) for how in ended.how.values()]

    return call


def let_time_pass(instance: Instance, index: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_interaction SET deadline = now() - interval '1 s' WHERE instance_id = %s AND index = %s",
            [instance.pk, index],
        )


def unit_of(instance: Instance) -> AwaitUnit:
    found: AwaitUnit = AwaitUnit.objects.get(instance=instance)
    return found


def let_go(instance: Instance) -> Callable[[], Any]:
    unit = unit_of(instance).pk
    return lambda: release(connections["default"], unit)


def assert_advanced_once(instance: Instance, status: str = "done") -> None:
    """One signal of the release, one end of the unit, one end of the instance."""
    assert Instance.objects.get(pk=instance.pk).status == status
    assert Signal.objects.filter(instance=instance).count() == 1
    kinds = list(LedgerEvent.objects.filter(instance=instance).values_list("kind", flat=True))
    assert (kinds.count("answered"), kinds.count(status)) == (1, 1), kinds
    ends = LedgerEvent.objects.filter(instance=unit_of(instance).pk, kind="await_unit_terminal")
    assert ends.count() == 1


@pytest.mark.parametrize("rollback", [False, True])
def test_two_answers_to_one_item_have_one_winner(rollback: bool) -> None:
    instance = begin(1)
    first, second = race(complete(instance, 0, "a"), complete(instance, 0, "b"), rollback=rollback)
    assert (first, second) == (False, False if rollback else Refused(InteractionResolved))
    finish()
    assert_advanced_once(instance)
    assert Instance.objects.get(pk=instance.pk).result == ["b" if rollback else "a"]


@pytest.mark.parametrize("rollback", [False, True])
def test_of_the_last_two_items_the_later_closes_the_unit(rollback: bool) -> None:
    instance = begin(2)
    race(complete(instance, 0), complete(instance, 1), rollback=rollback)
    assert unit_of(instance).remaining == int(rollback)
    if rollback:
        complete(instance, 0)()
    finish()
    assert_advanced_once(instance)


def test_an_answer_that_comes_before_the_expiry_wins() -> None:
    instance = begin(1, timeout="1h")

    def answer_in_time() -> None:
        complete(instance, 0)()
        let_time_pass(instance, 0)  # after the answer, and before it is committed

    assert race(answer_in_time, expire(instance, 0)) == (None, [])
    finish()
    assert_advanced_once(instance)


def test_an_answer_that_comes_after_the_expiry_loses() -> None:
    instance = begin(1, timeout="1h", on_item="partial")
    let_time_pass(instance, 0)
    assert race(expire(instance, 0), complete(instance, 0)) == (["expired"], Refused(InteractionResolved))
    finish()
    assert_advanced_once(instance)
    assert Instance.objects.get(pk=instance.pk).result == [["expired", None, None]]


def test_two_expiries_of_one_item_count_once() -> None:
    instance = begin(2, timeout="1h", on_item="partial")
    let_time_pass(instance, 0)
    assert race(expire(instance, 0), expire(instance, 0)) == (["expired"], [])
    assert unit_of(instance).expired == 1


def test_an_answer_that_comes_before_a_sibling_fails_is_kept() -> None:
    instance = begin(3)
    race(complete(instance, 0), fail(instance, 1))
    assert list(Interaction.objects.order_by("index").values_list("status", flat=True)) == [
        *("completed", "failed", "cancelled")
    ]
    finish()
    assert_advanced_once(instance, "failed")


def test_an_answer_that_comes_after_a_sibling_failed_is_refused() -> None:
    instance = begin(3)
    assert race(fail(instance, 1), complete(instance, 2))[1] == Refused(UnknownInteraction)
    finish()
    assert_advanced_once(instance, "failed")


def test_two_items_that_fail_at_once_close_the_unit_once() -> None:
    instance = begin(3)
    assert race(fail(instance, 0), fail(instance, 1)) == (["failed"], [])
    finish()
    assert_advanced_once(instance, "failed")


def test_an_answer_before_a_cancellation_is_kept_and_the_rest_is_cancelled() -> None:
    instance = begin(2)
    race(complete(instance, 0), lambda: workflows.cancel(instance).status)
    unit = unit_of(instance)
    assert (unit.status, unit.answered) == ("cancelled", 1)


def test_an_answer_after_a_cancellation_is_refused() -> None:
    instance = begin(2)
    assert race(lambda: workflows.cancel(instance), complete(instance, 0))[1] == Refused(UnknownInteraction)
    assert unit_of(instance).answered == 0


def close(instance: Instance, n: int) -> None:
    """Answer everything inside a transaction that is committed before anybody is released."""
    db = connections["default"]
    items = Interaction.objects.filter(instance=instance).order_by("index")
    store.complete_items(db, [store.ItemAnswer(item.pk, str(item.index)) for item in items], actor="")
    assert unit_of(instance).status == "completed"
    assert items.count() == n


def test_of_two_releases_one_puts_the_signal() -> None:
    instance = begin(2)
    close(instance, 2)
    assert race(let_go(instance), let_go(instance)) == (True, False)
    finish()
    assert_advanced_once(instance)


def test_a_release_that_is_rolled_back_is_made_by_the_next() -> None:
    instance = begin(2)
    close(instance, 2)
    assert race(let_go(instance), let_go(instance), rollback=True) == (True, True)
    finish()
    assert_advanced_once(instance)


def test_a_cancellation_before_the_release_leaves_nothing_to_release() -> None:
    instance = begin(2)
    close(instance, 2)
    assert race(lambda: workflows.cancel(instance), let_go(instance))[1] is False
    assert not Signal.objects.exists()


def test_a_cancellation_after_the_release_cancels_the_instance_all_the_same() -> None:
    instance = begin(2)
    close(instance, 2)
    race(let_go(instance), lambda: workflows.cancel(instance))
    assert Instance.objects.get(pk=instance.pk).status == "cancelled"
    assert unit_of(instance).status == "completed"


def ask_without_parking(n: int) -> tuple[Instance, Any]:
    instance = workflows.start(pay, {"n": n})
    return instance, play(take_one())


def test_a_release_after_the_park_wakes_the_instance() -> None:
    instance, park = ask_without_parking(2)
    close(instance, 2)
    assert race(lambda: settle(park), let_go(instance)) == (True, True)
    finish()
    assert_advanced_once(instance)


def test_a_release_before_the_park_is_seen_by_it() -> None:
    instance, park = ask_without_parking(2)
    close(instance, 2)
    assert race(let_go(instance), lambda: settle(park)) == (True, True)
    finish()
    assert_advanced_once(instance)


def test_an_answer_waits_for_nobody_who_holds_the_instance() -> None:
    instance = begin(2)

    def hold() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM holdpoint_instance WHERE id = %s FOR UPDATE", [instance.pk])

    assert race(hold, complete(instance, 0), waits=False) == (None, False)


def test_two_who_ask_the_next_items_never_ask_too_many() -> None:
    instance = begin(6, concurrency=2)
    db = connections["default"]
    rows = Interaction.objects.filter(instance=instance)
    ids = list(rows.filter(queued=False).values_list("pk", flat=True))
    store.complete_items(db, [store.ItemAnswer(id, "1") for id in ids], actor="")
    unit = unit_of(instance).pk
    first, second = race(
        lambda: len(store.admit_items(connections["default"], unit)),
        lambda: len(store.admit_items(connections["default"], unit)),
    )
    assert (first, second) == (2, 0)
    assert rows.filter(status="pending", queued=False).count() == 2


def test_many_who_answer_the_same_items_at_once_complete_each_once() -> None:
    instance = begin(120, concurrency=40)

    def answer_all(step: int) -> Callable[[], None]:
        def call() -> None:
            order = [(n * step) % 120 for n in range(120)]
            for index in order:
                try:
                    complete(instance, index, [index])()
                except InteractionResolved:
                    continue

        return call

    run_threads([answer_all(step) for step in (1, 7, 11, 13)], patience=120.0)
    unit = unit_of(instance)
    assert (unit.status, unit.answered, unit.remaining) == ("completed", 120, 0)
    finish()
    assert_advanced_once(instance)
    assert Instance.objects.get(pk=instance.pk).result == [[n] for n in range(120)]


def test_batches_failures_and_a_cancellation_at_once_end_in_one_way() -> None:
    instance = begin(60, concurrency=20)
    addresses = [f"pay.{n}-{instance.pk}" for n in range(60)]

    def answer_in_batches(order: list[str]) -> Callable[[], None]:
        def call() -> None:
            for begin_at in range(0, 60, 10):
                workflows.complete_many([(one, 1) for one in order[begin_at : begin_at + 10]])

        return call

    run_threads(
        [
            answer_in_batches(addresses),
            answer_in_batches(addresses[::-1]),
            lambda: fail(instance, 30)() and None,
        ],
        patience=120.0,
    )
    finish()
    unit = unit_of(instance)
    assert str(unit.status) in ("completed", "failed")
    assert Instance.objects.get(pk=instance.pk).status == ("done" if unit.status == "completed" else "failed")
    assert Signal.objects.filter(instance=instance).count() == 1


def test_the_history_of_units_can_be_sealed_and_verified() -> None:
    instance = begin(3)
    for index in range(3):
        complete(instance, index)()
    finish()
    db, workspace = connections["default"], Workspace.objects.get(slug="default")
    while ledger.seal_ledger(db):
        pass
    assert list(ledger.verify_workspace(db, workspace.slug, workspace.pk)) == []


def test_what_is_answered_inside_a_callers_transaction_releases_after_its_commit() -> None:
    instance = begin(1)
    with transaction.atomic():
        complete(instance, 0)()
        assert unit_of(instance).released_at is None
    assert unit_of(instance).released_at is not None


def test_an_item_that_is_asked_once_more_while_it_fails_is_counted_once() -> None:
    instance = begin(2, on_item="partial")
    assert race(fail(instance, 0), lambda: workflows.retry_item(f"pay.0-{instance.pk}")) == (["failed"], None)
    unit = unit_of(instance)
    assert (unit.remaining, unit.failed, unit.queued) == (2, 0, 0)


def test_an_answer_that_meets_its_item_being_asked_once_more_is_counted_once() -> None:
    instance = begin(3, on_item="partial")
    fail(instance, 0)()
    item = Interaction.objects.get(instance=instance, index=0)
    db = connections["default"]

    def answer_it() -> Any:
        return store.complete_items(connections["default"], [store.ItemAnswer(item.pk, "0")], actor="").how

    assert race(lambda: store.retry_item(db, item.pk, actor=""), answer_it)[1] == {item.pk: "completed"}
    unit = unit_of(instance)
    assert (unit.remaining, unit.failed, unit.answered, unit.queued) == (2, 0, 1, 0)
