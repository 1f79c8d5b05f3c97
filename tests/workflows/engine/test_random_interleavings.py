"""Random interleavings of everything that can happen, held against the model after each step.

A failing trial prints its seed and its moves; `HOLDPOINT_SEED=<seed>` plays that trial alone,
`HOLDPOINT_TRIALS=100000` plays many.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction

import workflows
from tests.support.engine_model import MAX_ATTEMPTS, Held, Plan, World
from tests.support.folds import check_all_folds, check_fold
from tests.support.races import COMMITTED, forget, play, run_threads
from tests.support.trials import SEED, list_seeds
from workflows import (
    Await,
    Child,
    Done,
    Next,
    NoTarget,
    NotCancellable,
    NotRetryable,
    Retry,
    Spawn,
    Stop,
    Workflow,
    engine,
    step,
    store,
)
from workflows.engine.author_calls import Host
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent, Signal
from workflows.store import Claim

TRIALS = int(os.environ.get("HOLDPOINT_TRIALS", "240"))
CHUNKS = 20
MOVES = 24
NAMES = ("a", "b", "c")
SECONDS = {"none": 0, "over": 0.000_001, "long": 3600}


class Puppet(Workflow):
    """Returns what the trial planned for it, and notes what it was handed."""

    name = "interleavings.puppet"
    max_attempts = MAX_ATTEMPTS
    plans: dict[UUID, Plan] = {}
    seen: list[tuple[Any, ...]] = []

    @step
    def one(self, ctx):
        return self.act(ctx)

    @step
    def two(self, ctx):
        return self.act(ctx)

    def act(self, ctx):
        awaited = tuple(signal.n for signal in ctx.awaited)
        inbox = tuple(signal.n for signal in ctx.inbox)
        self.seen.append((awaited, inbox, ctx.timed_out, ctx.attempt, ctx.step))
        plan = self.plans[ctx.id]
        match plan.kind:
            case "park":
                timeout = None if plan.wait == "none" else SECONDS[plan.wait]
                return Await(plan.names, then=plan.step, timeout=timeout)
            case "next":
                return Next(plan.step, delay=SECONDS[plan.wait], consume=[plan.consume] if plan.consume else ())
            case "retry":
                return Retry(delay=SECONDS[plan.wait])
            case "spawn":
                return Spawn([Child(Puppet) for _ in plan.children], then=plan.step)
            case "done":
                return Done(list(awaited))
            case "stop":
                return Stop("planned")
            case "exit":
                raise SystemExit(1)
        raise AssertionError(plan)


_ROWS = """
    SELECT i.id::text, i.status, i.step, i.attempt, i.runs, i.fence, i.timed_out, i.solo, i.names, i.pending,
      i.inbox, i.seq, (
        SELECT json_agg(json_build_array(s.n, s.name, s.dedup_key, s.consumed_by) ORDER BY s.n)::text
        FROM holdpoint_signal s WHERE s.instance_id = i.id
      ), (SELECT max(l.seq) FROM holdpoint_ledger l WHERE l.instance_id = i.id)
    FROM holdpoint_instance i
"""
_STATUS = {status.code: str(status) for status in Status}


class Trial:
    """One seed's random walk through the engine and the model, side by side."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.db = connections["default"]
        self.world = World()
        self.log: list[str] = []
        self.held: list[tuple[Claim, Held]] = []
        self.stale: list[tuple[Claim, Held]] = []
        self.accepted: dict[str, set[int]] = {}
        self.consumed: dict[tuple[str, int], int] = {}
        self.fences: dict[str, int] = {}
        self.ended: dict[str, str] = {}
        self.keys = itertools.count()
        Puppet.plans, Puppet.seen = {}, []

    def run(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.begin()
        # Claims and outcomes come more often than the rest: they are what the rest collides with.
        moves = [self.claim] * 5 + [self.settle] * 6 + [self.deliver] * 4 + [self.duplicate] * 2
        moves += [self.expire] * 2 + [self.stale_commit, self.crash, self.reclaim, self.release, self.renew]
        moves += [self.cancel, self.operator_retry, self.deliver_many]
        for _ in range(MOVES):
            self.random.choice(moves)()
            self.compare()

    def note(self, text: str) -> None:
        self.log.append(text)

    def pick(self) -> str:
        return self.random.choice(list(self.world.rows))

    def begin(self) -> None:
        instance = workflows.start(Puppet)
        self.note(f"start {instance.id}")
        self.world.start(str(instance.id))

    # Moves

    def deliver(self, dedup: str | None = None) -> None:
        id, name = self.pick(), self.random.choice(NAMES)
        if dedup is None and self.random.random() < 0.5:
            dedup = f"key{next(self.keys)}"
        self.note(f"deliver {name} {dedup} to {id}")
        try:
            delivery = workflows.signal(UUID(id), name, dedup_key=dedup)
        except NoTarget:
            told, n = (True, False, False), None
        else:
            told, n = (False, delivery.duplicate, delivery.woke), int(delivery.id.split(":")[1])
            if delivery.duplicate:
                assert n in self.accepted[id]
            else:
                self.accept(id, n)
        assert told == self.world.deliver(id, n, name, dedup)

    def duplicate(self) -> None:
        known = [signal.dedup for row in self.world.rows.values() for signal in row.signals if signal.dedup]
        self.deliver(self.random.choice(known) if known else None)

    def deliver_many(self) -> None:
        lines = []
        for _ in range(self.random.randint(1, 4)):
            dedup = f"key{self.random.randrange(4)}" if self.random.random() < 0.5 else None
            lines.append((self.pick(), self.random.choice(NAMES), dedup))
        self.note(f"deliver many {lines}")
        answers = workflows.signal_many([(UUID(id), name, None, dedup) for id, name, dedup in lines])
        woken: dict[str, list[bool]] = {}
        for (id, name, dedup), answer in zip(lines, answers, strict=True):
            n = int(answer.id.split(":")[1]) if answer.id else None
            if n is not None and not answer.duplicate:
                self.accept(id, n)
            told = (answer.refused is not None, answer.duplicate, answer.woke)
            assert told == self.world.deliver(id, n, name, dedup)
            woken.setdefault(id, []).append(answer.woke)
        assert all(sum(wakes) <= 1 for wakes in woken.values())

    def accept(self, id: str, n: int) -> None:
        assert n not in self.accepted.setdefault(id, set()), "a number was given twice"
        self.accepted[id].add(n)

    def claim(self) -> None:
        limit = self.random.choice([1, 1, 2, 10])
        claims = store.claim(self.db, limit, 3600.0)
        self.note(f"claim {limit}: {[claim.id for claim in claims]}")
        held = self.world.claim([claim.id for claim in claims], limit)
        if limit == 10 and not any(claim.solo for claim in claims):
            left = [row for row in self.world.rows.values() if row.status == "runnable"]
            assert all(row.solo for row in left), "work is left that could have been taken along"
        for claim, mine in zip(claims, held, strict=True):
            assert (claim.fence, claim.runs, claim.inbox) == (mine.fence, mine.runs, len(mine.all_numbers))
        self.held += zip(claims, held, strict=True)

    def settle(self) -> None:
        if self.held:
            claim, held = self.held.pop(self.random.randrange(len(self.held)))
            self.stale.append((claim, held))
            self.finish(claim, held)

    def stale_commit(self) -> None:
        """The worker thinks the claim is its own; mostly it is not any more."""
        if self.stale:
            self.finish(*self.random.choice(self.stale))

    def finish(self, claim: Claim, held: Held) -> None:
        plan = self.plan()
        self.note(f"{plan} by fence {claim.fence} of {claim.id}")
        Puppet.plans[UUID(claim.id)] = plan
        before = len(Puppet.seen)
        commit = play(claim)
        if len(Puppet.seen) > before:
            assert Puppet.seen[-1] == (held.handed, held.all_numbers, held.timed_out, held.attempt, held.step)
        else:
            assert held.runs > MAX_ATTEMPTS, "the step was not run"
        if not isinstance(commit, store.Commit):
            assert plan.kind == "spawn"
            born = store.fetch(
                self.db,
                "SELECT id::text FROM holdpoint_instance WHERE parent_id = %(id)s AND NOT id::text = ANY(%(known)s)",
                {"id": claim.id, "known": list(self.world.rows)},
            )
            plan = Plan("spawn", step=plan.step, children=tuple(row[0] for row in born))
            assert self.world.settle(held, plan) is bool(born)
            return
        if self.random.random() < 0.3:
            self.meddle(claim.id)
        assert bool(engine.settle(self.db, [commit])) is self.world.settle(held, plan)

    def meddle(self, id: str) -> None:
        """Something happens between the step's run and its commit."""
        self.random.choice([self.deliver, self.deliver, self.deliver, self.cancel, self.duplicate])()

    def plan(self) -> Plan:
        kind = self.random.choice(["park"] * 6 + ["next"] * 3 + ["retry"] * 2 + ["spawn", "done", "stop", "exit"])
        wait = self.random.choice(["none", "none", "none", "over", "over", "long"])
        if kind != "park" and wait == "long":
            wait = "none"
        return Plan(
            kind,
            names=tuple(self.random.sample(NAMES, self.random.randint(1, 2))),
            step=self.random.choice(["one", "two"]),
            wait=wait,
            consume=self.random.choice([None, None, *NAMES]),
            children=("?",) * self.random.randint(1, 2),
        )

    def crash(self) -> None:
        if self.held:
            claim, held = self.held.pop(self.random.randrange(len(self.held)))
            self.stale.append((claim, held))
            self.note(f"crash with fence {claim.fence} of {claim.id}")
            store.renew(self.db, [claim], -1.0)
            self.world.forget(held)

    def renew(self) -> None:
        pool = self.held + self.stale
        if pool:
            claim, held = self.random.choice(pool)
            self.note(f"renew fence {claim.fence} of {claim.id}")
            assert bool(store.renew(self.db, [claim], 3600.0)) is self.world.renew(held)

    def release(self) -> None:
        pool = self.held + self.stale
        if pool:
            claim, held = self.random.choice(pool)
            solo = self.random.random() < 0.3
            self.note(f"release fence {claim.fence} of {claim.id}")
            assert bool(store.release(self.db, [claim], solo=solo)) is self.world.release(held, solo)

    def reclaim(self) -> None:
        self.note("reclaim")
        assert store.reclaim(self.db) == self.world.reclaim()

    def expire(self) -> None:
        self.note("expire")
        assert store.expire_due(self.db) == self.world.expire()

    def cancel(self) -> None:
        if self.random.random() < 0.5:
            return
        id = self.pick()
        self.note(f"cancel {id}")
        try:
            workflows.cancel(UUID(id))
            done = True
        except NotCancellable:
            done = False
        assert done is self.world.cancel(id)

    def operator_retry(self) -> None:
        failed = [row.id for row in self.world.rows.values() if row.status == "failed"]
        id = self.random.choice(failed) if failed else self.pick()
        self.note(f"retry {id}")
        try:
            workflows.retry(UUID(id))
            done = True
        except NotRetryable:
            done = False
        if done:
            self.ended.pop(id, None)
        assert done is self.world.reopen(id)

    # The comparison

    def compare(self) -> None:
        found = {row[0]: row[1:] for row in store.fetch(self.db, _ROWS, {})}
        assert found.keys() == self.world.rows.keys()
        for id, (
            status,
            step_,
            attempt,
            runs,
            fence,
            timed_out,
            solo,
            names,
            pending,
            inbox,
            seq,
            text,
            last,
        ) in found.items():
            row = self.world.rows[id]
            signals = json.loads(text) if text else []
            assert _STATUS[status] == row.status, id
            assert (step_, attempt, runs, fence) == (row.step, row.attempt, row.runs, row.fence), id
            assert (timed_out, solo, names, pending) == (row.timed_out, row.solo, row.names, row.pending), id
            assert signals == [[s.n, s.name, s.dedup, s.consumed_by] for s in row.signals], id
            # Said once more, and of the tables alone: these hold whatever the model thinks.
            assert {signal[0] for signal in signals} == self.accepted.get(id, set()), "an accepted signal was lost"
            assert inbox == sum(signal[3] is None for signal in signals), "the counter is not the rows"
            assert seq >= max([last, *(signal[0] for signal in signals)])
            assert fence >= self.fences.get(id, 0)
            self.fences[id] = fence
            for n, _, _, by in signals:
                assert self.consumed.get((id, n)) in (None, by), "consumed twice, or given back"
                if by is not None:
                    self.consumed[id, n] = by
            if id in self.ended:
                assert self.ended[id] == _STATUS[status], "an end changed"
            elif _STATUS[status] in ("done", "failed", "cancelled"):
                self.ended[id] = _STATUS[status]

    def check_ends(self) -> None:
        """One terminal outcome per life, and the history tells the row."""
        check_all_folds()
        for instance in Instance.objects.all():
            kinds = [str(event.kind) for event in instance.events.all()]
            ends = sum(kind in ("done", "failed", "cancelled") for kind in kinds)
            assert ends == kinds.count("reopened") + instance.ended


def play_trial(seed: int, *, fold: bool) -> None:
    with transaction.atomic():
        trial = Trial(seed)
        try:
            trial.run()
            if fold:
                trial.check_ends()
        except Exception as error:
            moves = "\n  ".join(trial.log)
            raise AssertionError(
                f"HOLDPOINT_SEED={seed} replays this trial; its moves were\n  {moves}\n{error!r}"
            ) from error
        transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.parametrize("chunk", range(1 if SEED else CHUNKS))
def test_random_interleavings_agree_with_the_model(chunk):
    for place, seed in enumerate(list_seeds(TRIALS, chunk, CHUNKS)):
        play_trial(seed, fold=place % 4 in (0, 3))


# Truly at once


class Poll(Workflow):
    """Collects votes until there are enough, consuming none before."""

    name = "interleavings.poll"
    max_attempts = 1000

    @step
    def count(self, ctx):
        if len(ctx.awaited) < ctx.input["enough"]:
            return Await("vote", then="count")
        return Done([signal.payload for signal in ctx.awaited])


class Station:
    """Threads' own connections are found by alias, in each thread anew."""

    @staticmethod
    def here() -> Host:
        return Host(connections["default"], "default")


class Ballot:
    """Senders and workers that all run at once on committed rows, until every poll is closed."""

    def __init__(self, seed: int, polls: int = 8, enough: int = 15, patience: float = 20.0) -> None:
        self.random = random.Random(seed)
        self.enough = enough
        self.instances = workflows.start_many(Poll, [{"enough": enough}] * polls)
        self.until = time.monotonic() + patience
        self.accepted: list[str] = []
        self.lock = threading.Lock()
        self.ended = threading.Event()

    def votes(self) -> list[tuple[Instance, int]]:
        """Every vote, some of them twice, in an order of its own for each sender."""
        unique = [(instance, n) for instance in self.instances for n in range(self.enough)]
        again = self.random.sample(unique, len(unique) // 3)
        mixed = unique + again
        self.random.shuffle(mixed)
        return mixed

    def sender(self, votes: list[tuple[Instance, int]], seed: int) -> None:
        rng = random.Random(seed)
        while votes:
            batch = [votes.pop() for _ in range(min(len(votes), rng.choice([1, 1, 1, 4, 12])))]
            if len(batch) == 1:
                [(instance, n)] = batch
                answers = [workflows.signal(instance, "vote", n, dedup_key=f"v{n}")]
            else:
                answers = workflows.signal_many([(one, "vote", n, f"v{n}") for one, n in batch])
            with self.lock:
                self.accepted += [answer.id for answer in answers if not answer.duplicate and not answer.refused]

    def worker(self, seed: int) -> None:
        rng, host = random.Random(seed), Station.here()
        while not self.ended.is_set() and time.monotonic() < self.until:
            claims = store.claim(host.db, rng.choice([1, 2, 5]), 60.0)
            if not claims:
                self.rest(host)
                continue
            if rng.random() < 0.1:
                forget(*claims)  # this worker dies with its batch
                store.reclaim(host.db)
                if rng.random() < 0.5:
                    continue
                # … or it does not know that it is dead, and commits all the same.
            engine.settle(host.db, [engine.run(claim, host) for claim in claims])

    def rest(self, host: Host) -> None:
        store.reclaim(host.db)
        if not Instance.objects.filter(pk__in=[one.pk for one in self.instances]).live().exists():
            self.ended.set()
        self.ended.wait(0.002)


@pytest.mark.parametrize("round_", range(1 if SEED else 3))
class TestAtOnce:
    pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

    def test_every_poll_ends_with_exactly_its_votes_none_lost_and_none_twice(self, round_):
        seed = int(SEED) if SEED else 1000 + round_
        ballot = Ballot(seed)
        thirds = [ballot.votes() for _ in range(3)]
        senders = [lambda n=n: ballot.sender(thirds[n], seed * 10 + n) for n in range(3)]
        workers = [lambda n=n: ballot.worker(seed * 10 + 5 + n) for n in range(2)]
        try:
            run_threads(senders + workers)
            self.check(ballot)
        except AssertionError as error:
            raise AssertionError(f"HOLDPOINT_SEED={seed} plays this ballot again: {error}") from error

    def check(self, ballot: Ballot) -> None:
        assert ballot.ended.is_set(), "not all polls were closed in time"
        assert len(ballot.accepted) == len(set(ballot.accepted)) == len(ballot.instances) * ballot.enough
        for instance in ballot.instances:
            row = Instance.objects.get(pk=instance.pk)
            assert row.status == "done"
            assert sorted(row.result) == list(range(ballot.enough))
            assert row.inbox == Signal.objects.filter(instance=row, consumed_at=None).count() == 0
            assert Signal.objects.filter(instance=row).count() == ballot.enough
            assert len({signal.consumed_by for signal in row.signals.all()}) == 1
            assert LedgerEvent.objects.filter(instance=row, kind="done").count() == 1
            assert row.seq >= max(signal.n for signal in row.signals.all())
            check_fold(row)
