"""What a claim takes, what it locks and in which order, and what it carries of an inbox.

Two connections meet on rows; the lazy part of an inbox begins above 64 signals or a few KiB.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.races import COMMITTED, Other, forget, play, race, settle, take, take_one, work
from workflows import Await, Child, Done, Next, Retry, Spawn, Workflow, step, store
from workflows.models import Instance, Signal
from workflows.testing import assert_done

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


class Idle(Workflow):
    name = "claim.idle"

    @step
    def a(self, ctx):
        return Done()


class Once(Workflow):
    name = "claim.once"
    max_attempts = 1

    @step
    def a(self, ctx):
        return Done()


def as_the_pump_plans() -> Any:
    """The calling thread's connection, with the plans of the pump's, and its patience without end."""
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
    return connections["default"]


# --- locks -------------------------------------------------------------------------------------------------


def claim_two_with_leases_against_their_ids() -> tuple[list[Instance], list[store.Claim]]:
    instances = sorted(workflows.start_many(Idle, [{}, {}]), key=lambda one: str(one.pk))
    claims = sorted(take(2), key=lambda one: one.id)
    with connection.cursor() as cursor:
        for claim, seconds in zip(claims, (60, 30), strict=True):
            cursor.execute(
                "UPDATE holdpoint_instance SET due_at = holdpoint_now() + %s * interval '1 s' WHERE id = %s",
                [seconds, claim.id],
            )
    return instances, list(reversed(claims))


@pytest.mark.parametrize("call", [store.renew, store.release])
def test_renewing_and_releasing_never_meets_a_caller_crosswise(call: Any) -> None:
    (low, high), claims = claim_two_with_leases_against_their_ids()

    def caller() -> bool:
        """Signals both in the order of their ids; between the two, the keeper comes by."""
        workflows.signal(low, "hello")
        other = Other(lambda: call(as_the_pump_plans(), claims))
        # It waits for none of them, whoever holds it, and so holds nothing that somebody waits for.
        assert other.join() == {str(high.pk)}
        workflows.signal(high, "hello")
        return True

    with transaction.atomic():
        assert caller()
    # What was skipped is still the worker's, and can be done now.
    assert call(connections["default"], claims) == (
        {str(low.pk), str(high.pk)} if call is store.renew else {str(low.pk)}
    )


def test_a_caller_waits_for_a_renewal_and_gets_through() -> None:
    (low, high), claims = claim_two_with_leases_against_their_ids()

    def signal_both() -> bool:
        with_both = [(low, "hello"), (high, "hello")]
        return all(one.id for one in workflows.signal_many(with_both))

    renewed, signalled = race(lambda: store.renew(as_the_pump_plans(), claims), signal_both)
    assert (renewed, signalled) == ({str(low.pk), str(high.pk)}, True)


def test_a_lone_head_of_the_queue_locks_nobody_else() -> None:
    workflows.start_many(Once, [{}] * 10)
    first, second = race(lambda: len(take(500)), lambda: len(take(500)), waits=False)
    assert (first, second) == (1, 1)  # while the first still holds its locks
    assert Instance.objects.filter(status="runnable").count() == 8


def test_a_head_in_company_takes_no_loner_along() -> None:
    workflows.start(Idle)
    workflows.start_many(Once, [{}] * 3)
    workflows.start_many(Idle, [{}] * 2)
    assert [one.workflow for one in take(500)] == ["claim.idle"] * 3
    assert [one.workflow for one in take(500)] == ["claim.once"]


# --- inboxes too large to carry ------------------------------------------------------------------------------


def incompressible(size: int) -> str:
    return "".join(random.Random(size).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=size))


#: Signals named "go", and each one's payload: small enough to travel with the claim, too many, too large.
INBOXES = pytest.mark.parametrize(("count", "size"), [(3, 5), (100, 5), (3, 20_000)], ids=["carried", "many", "large"])


class Reader(Workflow):
    """Does in its second step what the input says, once "go" has come."""

    name = "claim.reader"
    seen: list[Any] = []

    @step
    def ask(self, ctx):
        return Await("go", then="act")

    @step
    def act(self, ctx):
        match ctx.input["look"]:
            case "awaited":
                Reader.seen.append([[one.n, one.name, one.payload] for one in ctx.awaited])
            case "inbox":
                Reader.seen.append([[one.n, one.name, one.payload] for one in ctx.inbox])
            case "both":
                Reader.seen.append([[len(ctx.awaited), len(ctx.inbox)], [len(ctx.inbox), len(ctx.awaited)]])
        during()
        match ctx.input["look_late"]:
            case "inbox":
                Reader.seen.append([one.name for one in ctx.inbox])
            case "awaited":
                Reader.seen.append([one.name for one in ctx.awaited])
        match ctx.input["outcome"]:
            case "next":
                return Next("again")
            case "consume":
                return Next("again", consume=["other"])
            case "retry":
                return Retry(delay=0) if ctx.attempt == 0 else Done()
            case "await":
                return Await("go", then="end")
            case "await other":
                return Await("other", then="end")
            case "spawn":
                return Spawn([Child(Idle)], then="end")
        return Done()

    @step
    def again(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done([one.payload for one in ctx.awaited])


def nothing() -> None:
    pass


during = nothing


@pytest.fixture(autouse=True)
def _look_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    Reader.seen = []
    monkeypatch.setitem(globals(), "during", nothing)


def prepare(count: int, size: int, **how: str) -> tuple[Instance, store.Claim]:
    """A claimed instance with so many signals "go" and three "other", its outcome not yet played."""
    instance = workflows.start(Reader, {"look": "", "look_late": "", "outcome": "", **how})
    work()
    others = [(instance, "other", f"other {n}") for n in range(3)]
    workflows.signal_many([*others, *[(instance, "go", incompressible(size))] * count])
    claim = take_one()
    assert (claim.signals is None) == (count > 3 or size > 5)
    assert claim.inbox == count + 3
    return instance, claim


def unconsumed(instance: Instance) -> list[str]:
    names = Signal.objects.filter(instance=instance, consumed_at=None).order_by("n").values_list("name", flat=True)
    instance.refresh_from_db()
    assert instance.inbox == len(names)
    return list(names)


@INBOXES
@pytest.mark.parametrize("look", ["awaited", "inbox", "both"])
def test_an_inbox_reads_the_same_however_large(count: int, size: int, look: str) -> None:
    instance, claim = prepare(count, size, look=look)
    assert settle(play(claim))
    rows = [[one.n, one.name, one.payload] for one in Signal.objects.filter(instance=instance).order_by("n")]
    go = [row for row in rows if row[1] == "go"]
    assert Reader.seen == [
        {"awaited": go, "inbox": rows, "both": [[count, count + 3], [count + 3, count]]}[look],
    ]
    assert len(go) == count
    assert_done(instance)
    assert unconsumed(instance) == ["other"] * 3


@INBOXES
@pytest.mark.parametrize(
    ("outcome", "left"),
    [
        ("next", 3),
        ("consume", 0),
        ("retry", "all"),
        ("await", "all"),
        ("await other", "all"),
        ("spawn", 3),
        ("done", 3),
    ],
)
def test_what_an_outcome_consumes_is_the_same_however_large_the_inbox(
    count: int, size: int, outcome: str, left: Any
) -> None:
    instance, claim = prepare(count, size, outcome=outcome)
    settle(play(claim))
    assert len(unconsumed(instance)) == (count + 3 if left == "all" else left)
    status = {"await": "awaiting", "await other": "runnable", "spawn": "awaiting_children", "done": "done"}
    assert instance.status == status.get(outcome, "runnable")


@INBOXES
@pytest.mark.parametrize("look", ["", "awaited", "inbox"])
@pytest.mark.parametrize("look_late", ["", "awaited", "inbox"])
@pytest.mark.parametrize("outcome", ["await", "next", "consume"])
def test_a_signal_that_comes_during_the_step_is_neither_handed_nor_consumed_nor_lost(
    count: int, size: int, look: str, look_late: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance, claim = prepare(count, size, look=look, look_late=look_late, outcome=outcome)

    def send() -> None:
        other = Other(lambda: workflows.signal_many([(instance, "go", "late"), (instance, "other", "late")]))
        assert [one.refused for one in other.join()] == [None, None]

    monkeypatch.setitem(globals(), "during", send)
    assert settle(play(claim))
    if look_late:
        assert len(Reader.seen[-1]) == (count if look_late == "awaited" else count + 3)
    monkeypatch.setitem(globals(), "during", nothing)
    payloads = [one.payload for one in Signal.objects.filter(instance=instance, consumed_at=None).order_by("n")]
    assert payloads[-2:] == ["late", "late"]
    assert len(payloads) == {"await": count + 5, "next": 5, "consume": 2}[outcome]
    instance.refresh_from_db()
    assert instance.status == "runnable"  # woken by the latecomer, or on its way to wait for it
    work()
    assert assert_done(instance).result[-1] == "late"


@INBOXES
def test_neighbours_of_a_large_inbox_are_claimed_with_it_and_carry_their_own(count: int, size: int) -> None:
    large, small = workflows.start_many(Reader, [{"look": "awaited", "look_late": "", "outcome": ""}] * 2)
    work()
    workflows.signal_many([(large, "go", incompressible(size))] * count)
    workflows.signal(small, "go", "mine")
    claims = {one.id: one for one in take(500)}
    assert [row[2] for row in claims[str(small.pk)].signals] == ["mine"]
    assert settle(*[play(claim) for claim in claims.values()])
    assert_done(large)
    assert_done(small)
    assert sorted(map(len, Reader.seen)) == sorted([1, count])


def test_a_large_inbox_is_read_from_the_dead_workers_claim_on_as_it_then_is() -> None:
    instance, claim = prepare(100, 5, look="inbox")
    workflows.signal(instance, "go", "in between")
    forget(claim)
    store.reclaim(connections["default"])
    assert settle(play(take_one()))
    assert len(Reader.seen[0]) == 104
    assert_done(instance)


def test_a_step_that_does_not_look_does_not_read_a_large_inbox() -> None:
    _, claim = prepare(3, 20_000)
    with CaptureQueriesContext(connections["default"]) as captured:
        assert settle(play(claim))
    assert not [one["sql"] for one in captured if "payload" in one["sql"]]
