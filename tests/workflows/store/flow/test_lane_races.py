"""Several workers, one limit: two real connections on one key, one queue and one bucket.

Whatever they do at once, never more run than the limit says, nothing is lost with a worker, and all have their turn.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, connection, connections, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, Refused, forget, play, race, run_threads, settle
from workflows import Await, Concurrency, Done, Next, Rate, Retry, Stop, Workflow, step, store
from workflows.api.flow_control import change_limit, change_queue
from workflows.engine.lanes import flow_claims, lane_search
from workflows.engine.lanes.flow_claims import FlowClaims
from workflows.models import Instance, TokenBucket
from workflows.worker.claim_schedule import ClaimSchedule

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

LIMIT = 2
QUEUE_LIMIT = 3
TENANTS = 3


class LaneStep(Workflow):
    """Does what its input says, one word for each run."""

    name = "lane.step"
    max_attempts = 30_000
    concurrency = Concurrency("lane.step:{tenant}", LIMIT)

    @step
    def a(self, ctx):
        return act(ctx)


class LaneWhole(Workflow):
    """Does what its input says, and holds its key until it ends."""

    name = "lane.whole"
    max_attempts = 30_000
    concurrency = Concurrency("lane.whole:{tenant}", LIMIT, hold="instance")

    @step
    def a(self, ctx):
        return act(ctx)


class LaneRated(Workflow):
    name = "lane.rated"
    rate = Rate("lane-rate", 10, per="10h")

    @step
    def a(self, ctx):
        return Done()


class LanePlain(Workflow):
    name = "lane.plain"

    @step
    def a(self, ctx):
        return Done()


def act(ctx: Any) -> Any:
    words = ctx.state["words"]
    word, rest = (words[0], {**ctx.state, "words": words[1:]}) if words else ("done", ctx.state)
    if word == "next":
        return Next("a", rest)
    if word == "move":
        return Next("a", rest, priority=5)
    if word == "retry":
        return Retry(rest, delay=0)
    if word == "await":
        return Await("go", then="a", state=rest)
    return Done()


def take(limit: int = 500, flow: FlowClaims | None = None) -> list[store.Claim]:
    """As a worker does that has just begun, on the calling thread's connection."""
    db, flow = connections["default"], flow or FlowClaims()
    flow.refresh(db, patience=0.0)
    return flow.take(db, flow.look(db), limit, 60.0)


def count_running() -> Counter[tuple[str | None, str]]:
    """By key: what runs, or holds it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT flow_key, count(*) FROM holdpoint_instance WHERE flow_key IS NOT NULL AND slot IS NOT NULL "
            "AND (status = 2 OR (holds AND status < 10)) GROUP BY 1"
        )
        return Counter(dict(cursor.fetchall()))


def settle_all(claims: list[store.Claim]) -> None:
    for claim in claims:
        assert settle(play(claim))


# --- two connections -------------------------------------------------------------------------------------------------


def test_whoever_meets_a_key_that_is_being_claimed_takes_another_and_waits_for_nobody() -> None:
    workflows.start_many(LaneStep, [{"tenant": "a", "words": []}] * 5)

    def first() -> int:
        claims = take()
        workflows.start(LanePlain)  # its own transaction is still open
        return len(claims)

    held, other = race(first, lambda: len(take()), waits=False)
    assert (held, other) == (LIMIT, 0)
    assert count_running() == {"lane.step:a": LIMIT}


def test_a_claim_without_the_lock_of_its_key_fails_on_the_constraint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "lock_keys", lambda db, keys: set(keys))
    workflows.start_many(LaneStep, [{"tenant": "a", "words": []}] * 5)
    held, other = race(lambda: len(take()), take)
    assert (held, other) == (LIMIT, Refused(IntegrityError))
    assert count_running() == {"lane.step:a": LIMIT}


@pytest.mark.parametrize("constraint", ["holdpoint_slot", "holdpoint_queue_slot"])
def test_a_claim_that_admits_whatever_waits_fails_on_the_constraint(
    constraint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if constraint == "holdpoint_slot":
        workflows.start_many(LaneStep, [{"tenant": "a", "words": []}] * 5)
    else:
        change_queue("default", limit=LIMIT)
        workflows.start_many(LanePlain, [{}] * 5, priority=1)
    assert len(take()) == LIMIT
    monkeypatch.setattr(flow_claims, "find_free", lambda taken, cap, count: list(range(1, min(cap, count) + 1)))
    monkeypatch.setattr(FlowClaims, "_is_open", lambda self, lane: True)
    monkeypatch.setattr(FlowClaims, "_find_room", lambda self, lane: 5)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        take()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM holdpoint_instance WHERE status = 2")
        assert cursor.fetchone() == (LIMIT,)


def test_a_slot_above_its_limit_cannot_be_written() -> None:
    workflows.start(LaneStep, {"tenant": "a", "words": []})
    for values in ("slot = 3, slots = 2", "slot = 0, slots = 2", "slot = 1", "queue_slot = 2, queue_slots = 1"):
        with pytest.raises(IntegrityError), connection.cursor() as cursor:
            cursor.execute(f"UPDATE holdpoint_instance SET {values}")


def test_two_workers_draw_no_more_than_the_bucket_holds() -> None:
    workflows.start_many(LaneRated, [{}] * 50)
    taken: list[int] = []
    for _ in range(5):
        run_threads([lambda: taken.append(len(take(3)))] * 2)
    taken += [len(take(3)) for _ in range(10)]
    assert sum(taken) == 10
    [bucket] = TokenBucket.objects.all()
    assert bucket.tokens < 1


def test_a_bucket_is_never_overdrawn_in_the_database() -> None:
    workflows.start_many(LaneRated, [{}] * 3)
    take(3)
    with pytest.raises(IntegrityError, match="holdpoint_bucket_tokens"), connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_bucket SET tokens = -1")


def test_what_is_given_back_unstarted_gives_back_its_slot_and_its_tokens() -> None:
    workflows.start_many(LaneRated, [{}] * 10)
    claims = take()
    assert len(claims) == 10
    store.release(connections["default"], claims[:4])
    assert len(take()) == 4
    workflows.start_many(LaneStep, [{"tenant": "a", "words": []}] * 3)
    claims = take()
    assert len(claims) == LIMIT
    store.release(connections["default"], claims)
    assert len(take()) == LIMIT


def test_a_dead_workers_slots_come_back_with_its_leases() -> None:
    for workflow, key in ((LaneStep, "lane.step:a"), (LaneWhole, "lane.whole:a")):
        workflows.start_many(workflow, [{"tenant": "a", "words": []}] * 3)
        claims = take()
        assert len(claims) == LIMIT
        assert take() == []
        forget(*claims)
        assert store.reclaim(connections["default"]) == LIMIT
        assert count_running()[key] == (0 if workflow is LaneStep else LIMIT)
        for _ in range(3):
            settle_all(take())
    assert set(Instance.objects.values_list("status", flat=True)) == {"done"}


def test_a_limited_default_queue_holds_plain_instances_too() -> None:
    workflows.start_many(LanePlain, [{}] * 5)
    change_queue("default", limit=LIMIT)
    schedule = ClaimSchedule()
    held: list[store.Claim] = []

    def hold_more() -> int:
        held.extend(schedule.take(connections["default"]))
        return len(held)

    assert wait_until(hold_more, "them to run", is_it=lambda count: count > 0) == LIMIT
    with pumping(2):
        for _ in range(3):
            other = workflows.start(LaneTurn, queue="lane-queue").pk
            wait_until(
                lambda other=other: Instance.objects.get(pk=other).status, "it to run", is_it=lambda one: one == "done"
            )
        plain = Instance.objects.filter(workflow="lane.plain")
        assert Counter(plain.values_list("status", flat=True)) == {"running": LIMIT, "runnable": 5 - LIMIT}
        settle_all(held)
        wait_until(lambda: plain.filter(status="done").count(), "all to be done", is_it=lambda count: count == 5)
    assert set(plain.values_list("queue", flat=True)) == {"default"}


def test_one_that_is_retried_waits_for_its_slot_also_where_that_is_just_being_taken() -> None:
    class Whole(Workflow):
        name = "lane.retried"
        concurrency = Concurrency("lane.retried:{tenant}", 1, hold="instance")

        @step
        def a(self, ctx):
            return Stop("so it was wanted") if ctx.input["n"] == 0 else Await("go", then="b")

        @step
        def b(self, ctx):
            return Done()

    first, second = (workflows.start(Whole, {"tenant": "a", "n": n}) for n in range(2))
    settle_all(take())
    first.refresh_from_db()
    assert (first.status, first.slot) == ("failed", 1)
    claims, _ = race(take, lambda: workflows.retry(first), waits=False)
    assert [str(one.id) for one in claims] == [str(second.pk)]
    assert take() == []
    settle_all(claims)
    assert take() == []  # the second one holds it while it waits
    workflows.signal(second, "go")
    settle_all(take())
    assert [str(one.id) for one in take()] == [str(first.pk)]


def test_what_is_set_is_in_force_on_a_running_pump_without_a_restart() -> None:
    workflows.pause(LanePlain)
    with pumping(1):
        one = workflows.start(LanePlain)
        other = workflows.start(LaneStep, {"tenant": "a", "words": []})
        wait_until(lambda: Instance.objects.get(pk=other.pk).status, "it to run", is_it=lambda status: status == "done")
        assert Instance.objects.get(pk=one.pk).status == "runnable"
        workflows.unpause(LanePlain)
        wait_until(lambda: Instance.objects.get(pk=one.pk).status, "it to run", is_it=lambda status: status == "done")


def test_a_pump_serves_the_queues_that_it_is_told() -> None:
    workflows.start(LanePlain)
    there = workflows.start(LanePlain, queue="lane-queue")
    with pumping(1, queues=["lane-queue"]):
        wait_until(lambda: Instance.objects.get(pk=there.pk).status, "it to run", is_it=lambda status: status == "done")
    assert Instance.objects.exclude(pk=there.pk).get().status == "runnable"


class LaneQueue(Workflow):
    """Makes the queue known."""

    name = "lane.queue"
    queue = "lane-queue"

    @step
    def a(self, ctx):
        return Done()


# --- turns -----------------------------------------------------------------------------------------------------------


def list_batches(limit: int) -> list[list[Any]]:
    """What each batch brings, until there is nothing; as one worker after the other."""
    flow, batches = FlowClaims(), []
    while claims := take(limit, flow):
        batches.append([one.input for one in claims])
        settle_all(claims)
    return batches


@pytest.mark.parametrize("older", [True, False])
def test_a_tenant_with_many_delays_another_s_single_one_by_two_batches_at_most(older: bool) -> None:
    class Fair(Workflow):
        name = "lane.fair"
        fair_by = "{tenant}"

        @step
        def a(self, ctx):
            return Done()

    if not older:
        workflows.start(Fair, {"tenant": "small"})
    workflows.start_many(Fair, [{"tenant": "large"}] * 300)
    if older:
        workflows.start(Fair, {"tenant": "small"})
    batches = list_batches(50)
    assert any("small" in str(batch) for batch in batches[:2])
    assert len(batches) <= 8


def test_workflows_of_one_queue_and_priority_take_turns_whatever_their_age() -> None:
    workflows.start_many(LaneTurn, [{}] * 6, queue="lane-queue")
    workflows.start_many(LanePlain, [{}] * 2, queue="lane-queue")
    flow, seen = FlowClaims(), []
    while claims := take(1, flow):
        seen.append(claims[0].workflow)
        settle_all(claims)
    assert sorted(seen[:2]) == sorted(seen[2:4]) == ["lane.plain", "lane.turn"]
    assert seen[4:] == ["lane.turn"] * 4


def test_each_key_has_its_turn_before_any_has_a_second_one() -> None:
    class Turns(Workflow):
        name = "lane.turns"
        concurrency = Concurrency("turn:{tenant}", 100)

        @step
        def a(self, ctx):
            return Done()

    workflows.start_many(Turns, [{"tenant": n % 7} for n in range(70)])
    seen: Counter[str] = Counter()
    flow = FlowClaims()
    for turn in range(1, 11):
        for _ in range(7):
            [claim] = take(1, flow)
            seen[claim.input] += 1
            settle_all([claim])
        assert set(seen.values()) == {turn}


def test_more_lanes_than_one_look_sees_have_their_turns_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "MOST_LANES", 4)
    for tenant in range(30):
        workflows.start(LaneStep, {"tenant": tenant, "words": []})
    # The first lanes are full for good, and would hide the others.
    held = take(4)
    for claim in held:
        workflows.start(LaneStep, {"tenant": Instance.objects.get(pk=claim.id).input["tenant"], "words": []})
    change_limit("concurrency", "lane.step:{tenant}", 1)
    flow = FlowClaims()
    for _ in range(40):
        settle_all(take(4, flow))
    assert Instance.objects.filter(status="done").count() == 26


def test_of_more_lanes_than_one_look_sees_none_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "MOST_LANES", 4)
    for rounds in range(5):
        workflows.start_many(LaneStep, [{"tenant": tenant, "words": [], "round": rounds} for tenant in range(20)])
    flow, seen = FlowClaims(), set()
    for _ in range(10):  # every second claim is of the first four, the others of four more
        claims = take(4, flow)
        seen |= {one.lane for one in Instance.objects.filter(pk__in=[claim.id for claim in claims])}
        settle_all(claims)
    assert len(seen) == 20


# --- random trials ---------------------------------------------------------------------------------------------------


class LaneTrial:
    """Two workers that claim, finish, give back and die at random, and somebody who signals."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.claims: list[list[store.Claim]] = [[], []]
        self.flows = [FlowClaims(), FlowClaims()]

    def start(self) -> None:
        words = ["next", "retry", "await", "move", "done"]
        for workflow in (LaneStep, LaneWhole):
            inputs = [
                {
                    "tenant": self.random.randrange(TENANTS),
                    "words": self.random.choices(words, k=self.random.randrange(4)),
                }
                for _ in range(self.random.randrange(4, 9))
            ]
            queue = self.random.choice([None, "lane-queue"])
            workflows.start_many(workflow, inputs, priority=self.random.choice([None, 0, 3]), queue=queue)
        change_queue("lane-queue", limit=QUEUE_LIMIT)

    def choose(self, worker: int) -> Callable[[], None]:
        mine = self.claims[worker]
        what = self.random.choice(["take", "take", "finish", "finish", "release", "die"])
        limit = self.random.randrange(1, 6)

        def act() -> None:
            if what == "take":
                mine.extend(take(limit, self.flows[worker]))
            elif mine and what == "finish":
                assert settle(play(mine.pop(0)))
            elif mine and what == "release":
                store.release(connections["default"], [mine.pop()])
            elif mine and what == "die":
                forget(*mine)
                mine.clear()
                store.reclaim(connections["default"])

        return act

    def check(self) -> None:
        assert all(count <= LIMIT for count in count_running().values()), count_running()
        assert Instance.objects.filter(status="running", queue="lane-queue").count() <= QUEUE_LIMIT

    def signal(self) -> None:
        for one in Instance.objects.filter(status="awaiting"):
            workflows.signal(one, "go")


@pytest.mark.parametrize("chunk", range(4))
def test_two_workers_at_random_keep_every_limit_lose_no_slot_and_starve_nothing(chunk: int) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    trial = LaneTrial(seed)
    trial.start()
    for _ in range(25):
        run_threads([trial.choose(0), trial.choose(1)])
        trial.check()
        if trial.random.random() < 0.3:
            trial.signal()
    for mine in trial.claims:
        settle_all(mine)
        mine.clear()
    for _ in range(400):
        trial.signal()
        claims = take(5, trial.flows[0])
        settle_all(claims)
        trial.check()
        if not Instance.objects.exclude(status="done").exists():
            break
    assert set(Instance.objects.values_list("status", flat=True)) == {"done"}, f"seed {seed}"
    assert not count_running()


def test_two_pumps_keep_the_limit_while_they_run() -> None:
    workflows.start_many(LaneStep, [{"tenant": n % TENANTS, "words": ["next", "retry"]} for n in range(60)])
    most: Counter[Any] = Counter()
    with pumping(2):
        until = time.monotonic() + 60
        while Instance.objects.filter(status="done").count() < 60:
            for key, count in count_running().items():
                most[key] = max(most[key], count)
            assert time.monotonic() < until
    assert most
    assert max(most.values()) <= LIMIT


# --- beside plain instances ------------------------------------------------------------------------------------------


def list_turns(turns: int) -> list[str]:
    """What each claim of a pump brings, as letters: of its workflows' names, without repetition."""
    schedule, told = ClaimSchedule(), []
    schedule.notified = True
    for _ in range(turns):
        schedule.learn(1, 0.5 / 4, unknown=0)  # four at a time
        claims = schedule.take(connections["default"])
        told.append("".join(sorted({one.step if one.workflow == "lane.turn" else "p" for one in claims})))
        settle_all(claims)
    return told


class LaneTurn(Workflow):
    """Its step is its priority's letter."""

    name = "lane.turn"

    @step
    def h(self, ctx):
        return Done()


def test_plain_instances_and_lanes_take_turns_and_neither_starves() -> None:
    workflows.start_many(LanePlain, [{}] * 16)
    workflows.start_many(LaneTurn, [{}] * 16, queue="lane-queue")
    assert list_turns(9) == ["h", "p", "h", "p", "h", "p", "h", "p", ""]


def test_a_higher_priority_comes_first_but_for_one_turn_in_four() -> None:
    workflows.start_many(LanePlain, [{}] * 12)
    workflows.start_many(LaneTurn, [{}] * 24, priority=1)
    assert list_turns(9) == ["h", "h", "h", "p", "h", "h", "h", "p", "p"]


def test_a_lower_priority_comes_when_nothing_else_waits() -> None:
    workflows.start_many(LaneTurn, [{}] * 8, priority=-1)
    workflows.start_many(LanePlain, [{}] * 8)
    assert list_turns(5) == ["p", "p", "h", "h", ""]


# --- nothing that is held back holds up the others -------------------------------------------------------------------


def test_a_higher_priority_that_its_rate_keeps_back_keeps_no_lower_one_back() -> None:
    workflows.start_many(LaneRated, [{}] * 30, priority=50)
    workflows.start_many(LaneStep, [{"tenant": "a", "words": []}] * 2)
    flow = FlowClaims()
    assert [len(take(10, flow)) for _ in range(3)] == [10, LIMIT, 0]


def test_many_that_run_alone_keep_the_others_of_their_lane_from_every_second_turn_at_most() -> None:
    workflows.start_many(LaneTurn, [{}] * 5, priority=1)
    forget(*take(5))
    store.reclaim(connections["default"])
    other = workflows.start(LaneTurn, priority=1)
    flow = FlowClaims()
    alone, behind = take(2, flow), take(2, flow)
    assert [one.solo for one in alone] == [True]
    assert [one.id for one in behind] == [str(other.pk)]


def test_lanes_of_a_limited_queue_have_its_slots_in_turns() -> None:
    class Sharing(Workflow):
        name = "lane.sharing"
        queue = "lane-queue"
        fair_by = "{tenant}"

        @step
        def a(self, ctx):
            return Done()

    change_queue("lane-queue", limit=1)
    workflows.start_many(Sharing, [{"tenant": tenant} for tenant in "aaabbbccc"])
    flow, seen = FlowClaims(), []
    while claims := take(500, flow):
        assert len(claims) == 1
        seen.append(claims[0].input[-3])
        settle_all(claims)
    assert [sorted(seen[n : n + 3]) for n in (0, 3, 6)] == [["a", "b", "c"]] * 3


def test_lanes_that_share_a_bucket_draw_from_it_in_turns() -> None:
    class Drawing(Workflow):
        name = "lane.drawing"
        fair_by = "{tenant}"
        rate = Rate("lane-drawing", 2, per="10h")

        @step
        def a(self, ctx):
            return Done()

    workflows.start_many(Drawing, [{"tenant": tenant} for tenant in "aabb"])
    flow = FlowClaims()
    first = take(1, flow)
    second = take(500, flow)
    assert sorted(one.input[-3] for one in (*first, *second)) == ["a", "b"]
    assert take(500, flow) == []


class LanePlenty(Workflow):
    name = "lane.plenty"
    rate = Rate("lane-plenty", 1_000, per="10h")

    @step
    def a(self, ctx):
        return Done()


def test_a_large_bucket_is_no_hot_row_and_gives_all_that_it_has() -> None:
    workflows.start_many(LanePlenty, [{}] * 1_010)
    assert len(take(1)) == 1
    assert TokenBucket.objects.count() == 8
    held, other = race(lambda: len(take(20)), lambda: len(take(20)), waits=False)
    assert (held, other) == (20, 20)
    taken, flow = 41, FlowClaims()
    while claims := take(50, flow):
        taken += len(claims)
    assert taken == 1_000


def test_a_claim_that_draws_what_is_not_there_fails_on_the_constraint(monkeypatch: pytest.MonkeyPatch) -> None:
    workflows.start_many(LaneRated, [{}] * 11)
    monkeypatch.setattr(flow_claims, "find_draws", lambda parts, left, weight: ((parts[0].id, weight),))
    with pytest.raises(IntegrityError, match="holdpoint_bucket_tokens"):
        take()
    assert not Instance.objects.filter(status="running").exists()
