"""Two connections on one row: whoever comes second sees what the first did, or that it never was.

First the races that matter most, each spelled out. Then all pairs of what may meet on an instance, held
against one rule: a race ends like one of its two calls after the other. A call that locks waits for the
first and then sees it; a call that skips locked rows finds the row again afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

import workflows
from tests.support.database import db
from tests.support.races import (
    COMMITTED,
    Other,
    Refused,
    attempt,
    empty,
    forget,
    gate,
    play,
    race,
    run_threads,
    settle,
    take,
    take_one,
    work,
)
from workflows import (
    Await,
    Child,
    ClaimLost,
    Delivery,
    Done,
    DuplicateKey,
    Next,
    NoTarget,
    NotCancellable,
    NotRetryable,
    Retry,
    Spawn,
    Stop,
    Workflow,
    step,
    store,
)
from workflows.models import Instance, LedgerEvent, Signal
from workflows.store import Claim, Commit

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

both_ends = pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])


class Leaf(Workflow):
    name = "races.leaf"

    @step
    def only(self, ctx):
        return Stop("leaf failed") if ctx.input.get("do") == "stop" else Done("leaf")


class Puppet(Workflow):
    """Does what its input says, once; then tells what it was handed."""

    name = "races.puppet"

    @step
    def act(self, ctx):
        return {
            "park": lambda: Await("go", then="tell", timeout="1h"),
            "park-overdue": lambda: Await("go", then="tell", timeout=0.000_001),
            "retry": lambda: Retry(delay=0),
            "nap": lambda: Retry(delay=0.000_001),
            "next": lambda: Next("tell", consume="go"),
            "done": lambda: Done("done"),
            "stop": lambda: Stop("stopped"),
            "spawn": lambda: Spawn([Child(Leaf, key="child"), Child(Leaf)], then="tell"),
        }[ctx.input["do"]]()

    @step
    def tell(self, ctx):
        return Done([ctx.timed_out, [signal.name for signal in ctx.awaited]])


class Mother(Workflow):
    name = "races.mother"

    @step
    def bear(self, ctx):
        return Spawn([Child(Leaf, {"do": do}) for do in ctx.input["children"]], then="tell")

    @step
    def tell(self, ctx):
        return Done([child.status for child in ctx.children])


def fresh(instance: Instance) -> Instance:
    return Instance.objects.get(pk=instance.pk)


def running(do: str, *, key: str | None = "k", lease: float = 60.0) -> tuple[Instance, Claim, store.RunResult | None]:
    """A claimed instance whose step has run; its outcome is not committed."""
    instance = workflows.start(Puppet, {"do": do}, key=key)
    claim = take_one(lease)
    return instance, claim, play(claim) if do != "spawn" else None


def parked(do: str = "park") -> Instance:
    instance, _, outcome = running(do)
    assert settle(outcome)
    assert fresh(instance).status == "awaiting"
    return instance


def inbox(instance: Instance) -> list[str]:
    return [signal.name for signal in Signal.objects.filter(instance=instance, consumed_at=None)]


# Deliver against park


@both_ends
def test_a_park_that_waited_for_a_delivery_finds_the_signal(rollback):
    instance, _, outcome = running("park")
    _, applied = race(lambda: workflows.signal(instance, "go"), lambda: settle(outcome), rollback=rollback)
    assert applied
    assert fresh(instance).status == ("awaiting" if rollback else "runnable")
    assert inbox(instance) == ([] if rollback else ["go"])
    if not rollback:
        assert work() == 1
        assert fresh(instance).result == [False, ["go"]]


def test_control_a_park_in_one_statement_that_looks_at_the_signals_itself_loses_the_wake_up():
    """The harness can fail: without the inbox comparison the very same race ends with a lost wake-up."""
    naive = """
        WITH k AS (
          SELECT i.id FROM holdpoint_instance i
          WHERE i.id = %(id)s AND i.fence = %(fence)s AND i.status = 2 FOR NO KEY UPDATE
        ), seen AS (
          SELECT k.id, EXISTS (
            SELECT 1 FROM holdpoint_signal s
            WHERE s.instance_id = k.id AND s.consumed_at IS NULL AND s.name = 'go'
          ) AS woken FROM k
        )
        UPDATE holdpoint_instance i SET status = CASE WHEN seen.woken THEN 1 ELSE 3 END, names = '{go}',
          step = 'tell', seq = i.seq + 1, due_at = CASE WHEN seen.woken THEN clock_timestamp() END
        FROM seen WHERE i.id = seen.id RETURNING i.status
    """
    instance, claim, _ = running("park")
    params = {"id": claim.id, "fence": claim.fence}
    _, rows = race(lambda: workflows.signal(instance, "go"), lambda: store.fetch(db(), naive, params))
    assert rows == [(3,)]
    assert fresh(instance).status == "awaiting"
    assert inbox(instance) == ["go"], "stored, matching, and nobody will ever wake it"
    assert take() == []


@both_ends
def test_a_delivery_that_waited_for_a_park_wakes_it(rollback):
    instance, _, outcome = running("park")
    _, delivery = race(lambda: settle(outcome), lambda: workflows.signal(instance, "go"), rollback=rollback)
    assert (delivery.woke, delivery.refused) == (not rollback, None)
    assert fresh(instance).status == ("running" if rollback else "runnable")
    if rollback:
        assert settle(outcome), "the worker tries again"
    assert work() == 1
    assert fresh(instance).result == [False, ["go"]]


@both_ends
def test_of_two_deliveries_of_different_signals_both_are_stored_and_one_wakes(rollback):
    instance = parked()
    one, two = race(
        lambda: workflows.signal(instance, "go", dedup_key="1"),
        lambda: workflows.signal(instance, "go", dedup_key="2"),
        rollback=rollback,
    )
    assert (one.woke, two.woke) == (True, rollback)
    assert len(inbox(instance)) == fresh(instance).inbox == (1 if rollback else 2)


@both_ends
def test_a_latecomer_that_waited_for_its_steps_consumption_survives_it(rollback):
    instance, _, _ = running("next")
    workflows.signal(instance, "go", "handed")
    forget_and_reclaim()
    claim = take_one()
    outcome = play(claim)
    race(lambda: settle(outcome), lambda: workflows.signal(instance, "go", "late"), rollback=rollback)
    if rollback:
        assert settle(outcome)
    assert [s.payload for s in Signal.objects.filter(instance=instance, consumed_at=None)] == ["late"]
    assert fresh(instance).inbox == 1


def forget_and_reclaim() -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = holdpoint_clock() WHERE status = 2")
    assert store.reclaim(db()) == 1


# Deliver against the end


@both_ends
def test_a_signal_that_loses_against_the_terminal_commit_is_refused_and_not_stored(rollback):
    instance, _, outcome = running("done")
    _, answer = race(lambda: settle(outcome), lambda: workflows.signal(instance, "go"), rollback=rollback)
    if rollback:
        assert answer.refused is None
        assert inbox(instance) == ["go"]
    else:
        assert answer == Refused(NoTarget)
        assert not Signal.objects.exists()
        assert [event.kind for event in instance.events.all()] == ["started", "done"]


@both_ends
def test_an_end_that_waited_for_a_delivery_closes_its_signal_with_the_instance(rollback):
    instance, _, outcome = running("done")
    delivery, applied = race(lambda: workflows.signal(instance, "go"), lambda: settle(outcome), rollback=rollback)
    assert applied
    assert delivery.woke is False
    assert fresh(instance).status == "done"
    assert inbox(instance) == ([] if rollback else ["go"])
    assert work() == 0


@both_ends
def test_a_delivery_by_key_finds_the_new_holder_when_the_old_one_ended_while_it_waited(rollback):
    instance, _, outcome = running("done")
    successor: list[Instance] = []

    def replace() -> None:
        settle(outcome)
        successor.append(workflows.start(Puppet, {"do": "park"}, key="k"))

    _, delivery = race(replace, lambda: workflows.signal("k", "go"), rollback=rollback)
    expected = instance if rollback else successor[0]
    assert delivery.id.startswith(str(expected.id))
    assert inbox(expected) == ["go"]


@both_ends
def test_a_bulk_delivery_by_key_finds_the_new_holder_when_the_old_one_ended_while_it_waited(rollback):
    instance, _, outcome = running("done")
    successor: list[Instance] = []

    def replace() -> None:
        settle(outcome)
        successor.append(workflows.start(Puppet, {"do": "park"}, key="k"))

    _, answers = race(replace, lambda: workflows.signal_many([("k", "go")]), rollback=rollback)
    expected = instance if rollback else successor[0]
    assert answers[0].refused is None
    assert answers[0].id.startswith(str(expected.id))


# Dedup keys


@both_ends
@pytest.mark.parametrize("bulk", [False, True], ids=["one", "many"])
def test_of_two_deliveries_with_one_dedup_key_the_second_is_a_duplicate_or_becomes_the_first(rollback, bulk):
    instance = parked()

    def second() -> Delivery:
        if bulk:
            return workflows.signal_many([(instance, "go", "second", "evt")])[0]
        return workflows.signal(instance, "go", "second", dedup_key="evt")

    one, two = race(lambda: workflows.signal(instance, "go", "first", dedup_key="evt"), second, rollback=rollback)
    assert (two.duplicate, two.woke) == (not rollback, rollback)
    assert rollback or two.id == one.id
    assert [s.payload for s in Signal.objects.all()] == ["second" if rollback else "first"]
    assert fresh(instance).inbox == 1


def test_a_duplicate_that_waited_for_the_end_of_its_instance_is_still_told_by_id():
    instance, _, outcome = running("done")
    first = workflows.signal(instance, "go", dedup_key="evt")
    _, again = race(lambda: settle(outcome), lambda: workflows.signal(instance, "go", dedup_key="evt"))
    assert (again.id, again.duplicate, again.woke) == (first.id, True, False)


# Deadlines


@both_ends
def test_a_sweep_skips_a_row_that_a_delivery_holds_and_the_answer_wins(rollback):
    instance = parked("park-overdue")
    _, fired = race(
        lambda: workflows.signal(instance, "go"),
        lambda: store.expire_due(db()),
        rollback=rollback,
        waits=False,
    )
    assert fired == 0
    assert store.expire_due(db()) == (1 if rollback else 0)
    assert work() == 1
    assert fresh(instance).result == ([True, []] if rollback else [False, ["go"]])


@both_ends
def test_a_delivery_that_waited_for_the_sweep_is_stored_and_wakes_nobody_twice(rollback):
    instance = parked("park-overdue")
    fired, delivery = race(lambda: store.expire_due(db()), lambda: workflows.signal(instance, "go"), rollback=rollback)
    assert fired == 1
    assert delivery.woke is rollback
    assert work() == 1
    assert fresh(instance).result == [not rollback, ["go"]]


def test_a_sweep_that_began_before_the_answer_does_not_fire_after_it():
    instance = parked("park-overdue")
    with gate() as open_gate:
        sweep = Other(lambda: store.expire_due(db()))
        sweep.wait_until_blocked()
        assert workflows.signal(instance, "go").woke
        open_gate()
        assert sweep.join() == 0
    assert work() == 1
    assert fresh(instance).result == [False, ["go"]]


def test_a_sweep_that_began_before_the_wait_was_armed_anew_does_not_fire_it():
    instance = parked("park-overdue")
    with gate() as open_gate:
        sweep = Other(lambda: store.expire_due(db()))
        sweep.wait_until_blocked()
        workflows.signal(instance, "go")
        claim = take_one()
        settle(
            Commit(
                claim,
                store.Kind.AWAIT,
                step="tell",
                names=("go",),
                delay=3600.0,
                signals=[claim.signals[0][0]],
            )
        )
        assert fresh(instance).status == "awaiting"
        open_gate()
        assert sweep.join() == 0
    assert fresh(instance).timed_out is False
    assert fresh(instance).status == "awaiting"


@both_ends
def test_two_sweeps_share_the_work_and_fire_each_deadline_once(rollback):
    for n in range(4):
        instance = workflows.start(Puppet, {"do": "park-overdue"}, key=f"k{n}")
        settle(play(take_one()))
    one, two = race(lambda: store.expire_due(db(), 3), lambda: store.expire_due(db()), rollback=rollback, waits=False)
    assert (one, two) == (3, 1)
    assert store.expire_due(db()) == (3 if rollback else 0)
    assert LedgerEvent.objects.filter(kind="timed_out").count() == 4
    assert instance is not None


# Claims


def test_a_claim_that_began_before_a_repark_and_rewake_does_not_start_the_step_with_an_old_inbox():
    instance, claim, outcome = running("park")
    workflows.signal(instance, "go", 1)
    settle(outcome)
    assert fresh(instance).status == "runnable"
    with gate() as open_gate:
        other = Other(lambda: take(5))
        other.wait_until_blocked()
        # The whole turn happens between the other claim's snapshot and its lock.
        claim = take_one()
        handed = [row[0] for row in claim.signals]
        assert settle(Commit(claim, store.Kind.AWAIT, step="tell", names=("go",), signals=handed))
        assert workflows.signal(instance, "go", 2).woke
        open_gate()
        claims = other.join()
    assert claims == [], "woken after that claim began, so it is not that claim's"
    assert [row[2] for row in take_one().signals] == [1, 2]


def test_a_claim_that_began_before_a_delivery_hands_the_step_that_signal_all_the_same():
    instance = workflows.start(Puppet, {"do": "park"})
    with gate() as open_gate:
        other = Other(lambda: take(5))
        other.wait_until_blocked()
        workflows.signal(instance, "go", 1)
        open_gate()
        [claim] = other.join()
    assert claim.inbox == 1
    assert claim.signals is None, "none was visible to the claim: they are read when the step looks"
    assert settle(play(claim))
    work()
    assert fresh(instance).result == [False, ["go"]]


@both_ends
def test_two_claims_never_take_the_same_instance(rollback):
    for n in range(5):
        workflows.start(Puppet, {"do": "done"}, key=f"k{n}")
    one, two = race(lambda: take(3), lambda: take(5), rollback=rollback, waits=False)
    assert (len(one), len(two)) == (3, 2)
    assert not {claim.id for claim in one} & {claim.id for claim in two}
    assert len(take(5)) == (3 if rollback else 0)


def test_a_stale_commit_changes_nothing_after_the_instance_was_reclaimed_and_claimed_again():
    instance, claim, stale = running("done")
    forget(claim)
    assert store.reclaim(db()) == 1
    again = take_one()
    before = snapshot()
    assert not settle(stale)
    assert snapshot() == before
    assert settle(play(again))
    assert fresh(instance).status == "done"
    assert not settle(stale)


@both_ends
def test_a_commit_that_waited_for_the_reclaim_is_stale(rollback):
    instance, claim, outcome = running("done")
    forget(claim)
    _, applied = race(lambda: store.reclaim(db()), lambda: settle(outcome), rollback=rollback)
    assert applied is rollback
    assert fresh(instance).status == ("done" if rollback else "runnable")
    assert fresh(instance).solo is (not rollback)


@both_ends
def test_a_reclaim_skips_a_row_that_its_late_worker_is_committing(rollback):
    instance, claim, outcome = running("done")
    forget(claim)
    _, taken = race(lambda: settle(outcome), lambda: store.reclaim(db()), rollback=rollback, waits=False)
    assert taken == 0
    assert store.reclaim(db()) == (1 if rollback else 0)
    assert fresh(instance).status == ("runnable" if rollback else "done")


def test_a_reclaim_that_began_before_the_lease_was_renewed_does_not_take_it():
    instance, claim, outcome = running("park")
    forget(claim)
    with gate() as open_gate:
        reclaimer = Other(lambda: store.reclaim(db()))
        reclaimer.wait_until_blocked()
        assert store.renew(db(), [claim]) == {claim.id}
        open_gate()
        assert reclaimer.join() == 0
    assert settle(outcome)
    assert fresh(instance).status == "awaiting"


@both_ends
def test_a_stale_workers_atomic_step_loses_its_writes(rollback):
    class Writes(Workflow):
        name = "races.writes"

        @step(atomic=True)
        def write(self, ctx):
            workflows.workspace.create("written")
            return Done()

    instance = workflows.start(Writes)
    claim = take_one()
    forget(claim)
    _, answer = race(lambda: store.reclaim(db()), lambda: play(claim), rollback=rollback)
    assert answer is (store.RunEnd.COMMITTED if rollback else store.RunEnd.LOST)
    assert workflows.models.Workspace.objects.filter(slug="written").exists() is rollback
    assert fresh(instance).status == ("done" if rollback else "runnable")


# Keys


@both_ends
def test_of_two_starts_with_one_key_the_second_is_refused_naming_the_first_or_takes_its_place(rollback):
    one, two = race(
        lambda: workflows.start(Puppet, {"do": "park"}, key="k"),
        lambda: start_or_holder(),
        rollback=rollback,
    )
    assert Instance.objects.count() == 1
    if rollback:
        assert two == ("started", Instance.objects.get().id)
    else:
        assert two == ("held", one.id)


def start_or_holder() -> tuple[str, Any]:
    try:
        return "started", workflows.start(Puppet, {"do": "park"}, key="k").id
    except DuplicateKey as error:
        return "held", error.instance.id


@both_ends
def test_two_start_many_over_the_same_keys_in_opposite_order_agree_on_the_holders(rollback):
    keys = [f"k{n}" for n in range(20)]
    first, second = race(
        lambda: workflows.start_many(Leaf, [{}] * 20, keys=keys, on_duplicate="return"),
        lambda: workflows.start_many(Leaf, [{}] * 20, keys=keys[::-1], on_duplicate="return"),
        rollback=rollback,
    )
    assert Instance.objects.count() == 20
    if not rollback:
        assert [one.id for one in first] == [one.id for one in second][::-1]


@both_ends
def test_a_start_that_waited_for_the_end_of_the_keys_holder_gets_the_key(rollback):
    instance, _, outcome = running("done")
    _, answer = race(lambda: settle(outcome), start_or_holder, rollback=rollback)
    assert answer[0] == ("held" if rollback else "started")
    assert (answer[1] == instance.id) is rollback


@both_ends
def test_of_a_retry_and_a_start_with_its_key_one_wins(rollback):
    instance, _, outcome = running("stop")
    settle(outcome)
    _, answer = race(lambda: workflows.retry(instance), start_or_holder, rollback=rollback)
    assert answer[0] == ("started" if rollback else "held")
    assert Instance.objects.live().count() == 1


@both_ends
def test_of_a_start_and_a_retry_of_the_keys_old_holder_one_wins(rollback):
    instance, _, outcome = running("stop")
    settle(outcome)
    _, answer = race(start_or_holder, lambda: workflows.retry(instance), rollback=rollback)
    assert (answer == Refused(NotRetryable)) is not rollback
    assert Instance.objects.live().count() == 1


# Children


@both_ends
@pytest.mark.parametrize("ends", [("done", "done"), ("stop", "done"), ("stop", "stop")])
def test_the_last_child_against_its_sibling_wakes_the_parent_exactly_once(rollback, ends):
    mother = workflows.start(Mother, {"children": list(ends)})
    settle(play(take_one()))
    outcomes = [play(claim) for claim in take(2)]
    race(lambda: settle(outcomes[0]), lambda: settle(outcomes[1]), rollback=rollback)
    assert (fresh(mother).pending, fresh(mother).status) == ((1, "awaiting_children") if rollback else (0, "runnable"))
    if rollback:
        assert settle(outcomes[0])
    assert work() == 1
    assert fresh(mother).result == [{"done": "done", "stop": "failed"}[end] for end in ends]


@both_ends
def test_a_child_that_ends_against_a_sibling_that_is_cancelled(rollback):
    mother, _, two, claims = family()
    outcome = play(claims[0])
    race(lambda: settle(outcome), lambda: workflows.cancel(two), rollback=rollback)
    assert fresh(two).status == "cancelled"
    assert fresh(mother).pending == (1 if rollback else 0)


@both_ends
def test_a_cancelled_sibling_against_a_child_that_ends(rollback):
    mother, one, two, claims = family()
    outcome = play(claims[0])
    race(lambda: workflows.cancel(two), lambda: settle(outcome), rollback=rollback)
    assert fresh(one).status == "done"
    assert (fresh(mother).pending, fresh(mother).status) == ((1, "awaiting_children") if rollback else (0, "runnable"))


@both_ends
def test_a_child_that_waited_for_the_cancel_of_its_tree_changes_nothing(rollback):
    mother, one, two, claims = family()
    outcome = play(claims[0])
    _, applied = race(lambda: workflows.cancel(mother), lambda: settle(outcome), rollback=rollback)
    assert applied is rollback
    assert {fresh(i).status for i in (mother, one, two)} == (
        {"awaiting_children", "done", "running"} if rollback else {"cancelled"}
    )


@both_ends
def test_a_cancel_that_waited_for_a_child_leaves_the_child_ended(rollback):
    mother, one, two, claims = family()
    outcome = play(claims[0])
    race(lambda: settle(outcome), lambda: workflows.cancel(mother), rollback=rollback)
    assert [fresh(i).status for i in (mother, one, two)] == [
        "cancelled",
        "cancelled" if rollback else "done",
        "cancelled",
    ]
    assert [event.kind for event in mother.events.all()][-1] == "cancelled"


def family() -> tuple[Instance, Instance, Instance, list[Claim]]:
    mother = workflows.start(Mother, {"children": ["done", "done"]})
    settle(play(take_one()))
    claims = sorted(take(2), key=lambda claim: claim.id)
    one, two = Instance.objects.filter(parent=mother).order_by("id")
    return mother, one, two, claims


@both_ends
def test_a_cancel_that_waited_for_a_spawn_takes_the_children_with_it(rollback):
    instance, claim, _ = running("spawn")
    _, cancelled = race(lambda: play(claim), lambda: workflows.cancel(instance, "all"), rollback=rollback)
    assert cancelled.status == "cancelled"
    assert Instance.objects.count() == (1 if rollback else 3)
    assert not Instance.objects.live().exists()


@both_ends
def test_a_spawn_that_waited_for_a_cancel_spawns_nothing(rollback):
    instance, claim, _ = running("spawn")
    race(lambda: workflows.cancel(instance), lambda: play(claim), rollback=rollback)
    assert Instance.objects.count() == (3 if rollback else 1)
    assert fresh(instance).status == ("awaiting_children" if rollback else "cancelled")


@both_ends
def test_a_spawn_that_waited_for_a_start_with_its_childs_key(rollback):
    instance, claim, _ = running("spawn")
    outcome: list[Commit | None] = []
    race(lambda: workflows.start(Leaf, key="child"), lambda: outcome.append(play(claim)), rollback=rollback)
    if rollback:
        assert fresh(instance).status == "awaiting_children"
    else:
        assert settle(outcome[0])
        assert fresh(instance).status == "failed"
        assert fresh(instance).error.startswith("DuplicateKey: key 'child' is held by instance")
        assert Instance.objects.filter(parent=instance).count() == 0


@both_ends
def test_a_start_that_waited_for_a_spawn_of_its_key(rollback):
    _, claim, _ = running("spawn")
    _, answer = race(lambda: play(claim), lambda: workflows.start(Leaf, key="child"), rollback=rollback)
    assert (answer == Refused(DuplicateKey)) is not rollback


# Many at once


@both_ends
def test_two_bulk_deliveries_over_the_same_instances_in_opposite_order_do_not_deadlock(rollback):
    instances = [parked_as(f"k{n}") for n in range(10)]
    one, two = race(
        lambda: workflows.signal_many([(one, "go", 1) for one in instances]),
        lambda: workflows.signal_many([(one, "go", 2) for one in instances[::-1]]),
        rollback=rollback,
    )
    assert [answer.woke for answer in one] == [True] * 10
    assert [answer.woke for answer in two] == [rollback] * 10
    for instance in instances:
        assert fresh(instance).inbox == len(inbox(instance)) == (1 if rollback else 2)


def parked_as(key: str) -> Instance:
    instance = workflows.start(Puppet, {"do": "park"}, key=key)
    settle(play(take_one()))
    return instance


@both_ends
def test_a_batch_of_outcomes_against_a_bulk_delivery_to_the_same_instances(rollback):
    instances = workflows.start_many(Puppet, [{"do": do} for do in ("park", "done", "park", "next", "stop")])
    outcomes = [play(claim) for claim in take(5)]
    _, applied = race(
        lambda: workflows.signal_many([(one, "go") for one in instances[::-1]]),
        lambda: settle(*outcomes),
        rollback=rollback,
    )
    assert applied
    waiting = "awaiting" if rollback else "runnable"
    assert [fresh(one).status for one in instances] == [waiting, "done", waiting, "runnable", "failed"]


@both_ends
def test_a_bulk_delivery_against_a_batch_of_outcomes_of_the_same_instances(rollback):
    instances = workflows.start_many(Puppet, [{"do": do} for do in ("park", "done", "park", "next", "stop")])
    outcomes = [play(claim) for claim in take(5)]
    _, answers = race(
        lambda: settle(*outcomes),
        lambda: workflows.signal_many([(one, "go") for one in instances[::-1]]),
        rollback=rollback,
    )
    refused = [False] * 5 if rollback else [True, False, False, True, False]
    assert [answer.refused is not None for answer in answers] == refused
    assert [answer.woke for answer in answers] == ([False] * 5 if rollback else [False, False, True, False, True])


def test_random_bulk_deliveries_over_the_same_instances_never_deadlock_and_every_counter_agrees():
    instances = [parked_as(f"k{n}") for n in range(40)]
    sent = dict.fromkeys(range(3), 0)

    def sender(seed: int) -> Callable[[], None]:
        rng = random.Random(seed)

        def send() -> None:
            for turn in range(12):
                targets = rng.choices(instances, k=60)
                answers = workflows.signal_many(
                    [(one, "go", n, f"{rng.randrange(3)}-{turn}-{n}") for n, one in enumerate(targets)]
                )
                assert all(answer.refused is None for answer in answers)
                sent[seed] += sum(not answer.duplicate for answer in answers)

        return send

    run_threads([sender(seed) for seed in sent])
    assert Signal.objects.count() == sum(sent.values())
    for instance in Instance.objects.all():
        numbers = [signal.n for signal in instance.signals.all()]
        assert instance.inbox == len(numbers)
        assert instance.seq == max(numbers, default=instance.seq)
        assert LedgerEvent.objects.filter(instance=instance, kind="signalled").count() == len(numbers)


@pytest.mark.parametrize("on_duplicate", ["return", "raise"])
def test_a_start_many_that_lost_a_deadlock_over_its_keys_is_repeated(on_duplicate):
    with transaction.atomic():
        let_the_other_lose()
        held = workflows.start(Leaf, key="b")
        other = Other(lambda: workflows.start_many(Leaf, [{}, {}], keys=["a", "b"], on_duplicate=on_duplicate))
        other.wait_until_blocked()
        also = workflows.start(Leaf, key="a")  # it waits for "b" and holds "a"
    answer = other.join()
    assert answer == ([also, held] if on_duplicate == "return" else Refused(DuplicateKey))
    assert Instance.objects.count() == 2


def test_a_bulk_delivery_that_lost_a_deadlock_is_repeated():
    low, high = sorted((parked_as(key) for key in ("k1", "k2")), key=lambda one: one.id)
    with transaction.atomic():
        let_the_other_lose()
        workflows.signal(high, "go", "caller")  # against the order in which everybody locks
        bulk = Other(lambda: workflows.signal_many([(high, "go", "bulk"), (low, "go", "bulk")]))
        bulk.wait_until_blocked()
        workflows.signal(low, "go", "caller")
    assert [answer.refused for answer in bulk.join()] == [None, None]
    for instance in (low, high):
        assert [signal.payload for signal in instance.signals.all()] == ["caller", "bulk"]
        assert fresh(instance).inbox == 2


def test_a_batch_of_outcomes_that_lost_a_deadlock_is_repeated_without_spending_an_attempt():
    low, high = workflows.start_many(Puppet, [{"do": "next"}] * 2)
    outcomes = [play(claim) for claim in take(2)]
    with transaction.atomic():
        let_the_other_lose()
        workflows.signal(high, "go")
        worker = Other(lambda: settle(*outcomes))
        worker.wait_until_blocked()
        workflows.signal(low, "go")
    assert worker.join() is True
    assert [(fresh(one).step, fresh(one).runs, fresh(one).attempt) for one in (low, high)] == [("tell", 0, 0)] * 2


def test_a_cancel_that_lost_a_deadlock_is_repeated():
    mother, one, two, _ = family()
    with transaction.atomic():
        let_the_other_lose()
        workflows.signal(two, "go")
        canceller = Other(lambda: workflows.cancel(mother))
        canceller.wait_until_blocked()
        workflows.signal(one, "go")
    assert canceller.join().status == "cancelled"
    assert {fresh(i).status for i in (mother, one, two)} == {"cancelled"}


def let_the_other_lose() -> None:
    """Of two that wait for each other the one whose patience ends first is the victim."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        if not cursor.fetchone()[0]:
            pytest.skip("choosing a deadlock's victim needs a superuser of PostgreSQL")
        cursor.execute("SET LOCAL deadlock_timeout = '60s'")


def test_in_a_callers_transaction_a_lost_deadlock_surfaces_there_and_nothing_of_it_stays():
    low, high = sorted((parked_as(key) for key in ("k1", "k2")), key=lambda one: one.id)

    def against_the_order() -> None:
        with transaction.atomic():
            workflows.signal(high, "go")
            workflows.signal(low, "go")

    with transaction.atomic():
        let_the_other_lose()
        workflows.signal(low, "go", "winner")
        caller = Other(against_the_order)
        caller.wait_until_blocked()
        workflows.signal(high, "go", "winner")
    assert caller.join() == Refused(OperationalError)
    assert [signal.payload for one in (low, high) for signal in one.signals.all()] == ["winner"] * 2


def test_many_children_ended_by_two_workers_wake_their_parent_exactly_once():
    mother = workflows.start(Mother, {"children": ["done"] * 300})
    settle(play(take_one()))

    def worker() -> None:
        while claims := take(25):
            assert settle(*[play(claim) for claim in claims])

    run_threads([worker, worker])
    assert (fresh(mother).pending, fresh(mother).result) == (0, ["done"] * 300)
    ended = LedgerEvent.objects.filter(instance=mother, kind="child_ended")
    assert sum(event.data for event in ended) == 300
    assert [event.status for event in ended].count("runnable") == 1


# The caller's own transaction


def test_nobody_sees_a_callers_uncommitted_start_and_a_rollback_unmakes_it():
    with transaction.atomic():
        instance = workflows.start(Puppet, {"do": "done"})
        assert Other(lambda: take(5)).join() == []
        assert Other(lambda: workflows.signal(instance, "go")).join() == Refused(NoTarget)
        transaction.set_rollback(True)
    assert not Instance.objects.exists()
    assert not LedgerEvent.objects.exists()


def test_a_callers_uncommitted_delivery_wakes_nobody_until_the_commit():
    instance = parked()
    with transaction.atomic():
        workflows.signal(instance, "go")
        assert Other(lambda: take(5)).join() == []
    [claim] = take(5)
    assert claim.id == str(instance.id)


# All pairs: a race ends like one call after the other


Moves = dict[str, Callable[[], Any]]
SKIPPING = {"claim", "expire", "reclaim", "release", "renew"}


def in_running(do: str) -> Moves:
    instance, claim, outcome = running(do, lease=-1.0)
    return {
        do: (lambda: play(claim)) if do == "spawn" else (lambda: settle(outcome)),
        "deliver": lambda: workflows.signal(instance, "go", dedup_key="d1"),
        "deliver many": lambda: workflows.signal_many([(instance, "go", 1, "d1"), (instance, "go", 2)]),
        "cancel": lambda: workflows.cancel(instance, "reason"),
        "reclaim": lambda: store.reclaim(db()),
        "release": lambda: store.release(db(), [claim]),
        "renew": lambda: store.renew(db(), [claim]),
    }


def in_awaiting() -> Moves:
    instance = parked("park-overdue")
    return {
        "deliver": lambda: workflows.signal(instance, "go", dedup_key="d1"),
        "deliver noise": lambda: workflows.signal(instance, "noise"),
        "deliver many": lambda: workflows.signal_many([(instance, "x"), (instance, "go", 1, "d1")]),
        "cancel": lambda: workflows.cancel(instance, "reason"),
        "expire": lambda: store.expire_due(db()),
    }


def in_sleeping() -> Moves:
    instance, _, outcome = running("nap")
    settle(outcome)
    return {
        "deliver": lambda: workflows.signal(instance, "go"),
        "cancel": lambda: workflows.cancel(instance, "reason"),
        "expire": lambda: store.expire_due(db()),
    }


def in_runnable() -> Moves:
    instance = workflows.start(Puppet, {"do": "park"}, key="k")
    return {
        "deliver": lambda: workflows.signal("k", "go", dedup_key="d1"),
        "deliver many": lambda: workflows.signal_many([("k", "go", 1, "d1"), ("k", "go", 2)]),
        "cancel": lambda: workflows.cancel(instance, "reason"),
        "claim": lambda: len(take(5)),
    }


def in_failed() -> Moves:
    instance, _, outcome = running("stop")
    settle(outcome)
    return {
        "operator retry": lambda: workflows.retry(instance),
        "cancel": lambda: workflows.cancel(instance, "reason"),
        "start": lambda: workflows.start(Puppet, {"do": "park"}, key="k"),
    }


def in_family() -> Moves:
    mother, one, _, claims = family()
    outcomes = [play(claim) for claim in claims]
    return {
        "first child ends": lambda: settle(outcomes[0]),
        "second child ends": lambda: settle(outcomes[1]),
        "cancel first child": lambda: workflows.cancel(one, "reason"),
        "cancel mother": lambda: workflows.cancel(mother, "reason"),
        "deliver to mother": lambda: workflows.signal(mother, "go"),
    }


PLACES: dict[str, Callable[[], Moves]] = {
    "awaiting": in_awaiting,
    "sleeping": in_sleeping,
    "runnable": in_runnable,
    "failed": in_failed,
    "family": in_family,
}
PLACES |= {f"running {do}": (lambda do=do: in_running(do)) for do in ("park", "retry", "next", "done", "stop", "spawn")}

NAMES = {
    "awaiting": ["deliver", "deliver noise", "deliver many", "cancel", "expire"],
    "sleeping": ["deliver", "cancel", "expire"],
    "runnable": ["deliver", "deliver many", "cancel", "claim"],
    "failed": ["operator retry", "cancel", "start"],
    "family": [
        "first child ends",
        "second child ends",
        "cancel first child",
        "cancel mother",
        "deliver to mother",
    ],
} | {
    f"running {do}": [do, "deliver", "deliver many", "cancel", "reclaim", "release", "renew"]
    for do in ("park", "retry", "next", "done", "stop", "spawn")
}

#: Two calls that do not wait for each other: nothing is changed by the cancel that is refused.
INDEPENDENT = {("failed", "cancel", "start"), ("failed", "start", "cancel")}


def seconds(place: str, first: str) -> list[str]:
    """What to race against `first`: a step's outcome against everything, the rest with each other once."""
    return [
        second
        for second in NAMES[place]
        if (place, first, second) not in INDEPENDENT
        and (not place.startswith("running ") or place == "running park" or place.endswith((first, second)))
    ]


@pytest.mark.parametrize(
    ("place", "first"),
    [(place, first) for place, names in NAMES.items() for first in names],
    ids=lambda part: part.replace(" ", "-"),
)
def test_a_race_ends_like_one_call_after_the_other(place, first):
    for second in seconds(place, first):
        in_turn = play_in_turn(place, first, second)
        alone = play_alone(place, second)
        for rollback, expected in ((False, in_turn), (True, alone)):
            told = f"{place}: {first}, then {second}, {'rollback' if rollback else 'commit'}"
            one, two = prepare(place, first, second)
            if second in SKIPPING:
                _, missed = race(one, two, rollback=rollback, waits=False)
                assert not missed, told
                assert (shape(attempt(two)), snapshot()) == expected, told
            else:
                _, answer = race(one, two, rollback=rollback)
                assert (shape(answer), snapshot()) == expected, told


def prepare(place: str, *names: str) -> list[Callable[[], Any]]:
    empty()
    moves = PLACES[place]()
    assert list(moves) == NAMES[place]
    return [moves[name] for name in names]


def play_in_turn(place: str, *names: str) -> tuple[Any, Any]:
    """The last call's answer, and what is stored then."""
    answers = [shape(attempt(call)) for call in prepare(place, *names)]
    return answers[-1], snapshot()


@cache
def play_alone(place: str, name: str) -> tuple[Any, Any]:
    """As `play_in_turn`, once for all that may go before it and are rolled back."""
    return play_in_turn(place, name)


def shape(answer: Any) -> Any:
    """An answer without what differs between two instances that are alike."""
    match answer:
        case Delivery():
            return (answer.id and answer.id.split(":")[1], answer.duplicate, answer.woke, answer.refused)
        case list():
            return [shape(one) for one in answer]
        case Instance():
            return answer.status
        case set():
            return len(answer)
    return answer


COLUMNS = (
    *("status", "step", "attempt", "runs", "fence", "seq", "inbox", "pending", "spawns"),
    *("timed_out", "solo", "names", "result", "error", "key"),
)


def snapshot() -> list[Any]:
    """Everything that is stored, without ids and moments."""
    rows = []
    for instance in Instance.objects.order_by("id"):
        signals = [
            (s.n, s.name, s.payload, s.dedup_key, s.consumed_by) for s in Signal.objects.filter(instance=instance)
        ]
        events = [(e.seq, e.kind, e.status, e.name, e.data, e.due_at is None) for e in instance.events.all()]
        rows.append([getattr(instance, column) for column in COLUMNS] + [signals, events])
    return rows


def test_the_errors_of_lost_races_are_the_documented_ones():
    """ClaimLost never reaches a caller; the others are what each call promises."""
    instance, claim, outcome = running("done")
    assert settle(outcome)
    assert isinstance(play(claim), store.Commit)
    assert attempt(lambda: workflows.cancel(instance)) == Refused(NotCancellable)
    assert issubclass(ClaimLost, workflows.WorkflowError)
