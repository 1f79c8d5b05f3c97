"""Everything that can happen to units of items, at random and from several connections at once, held against its rules.

A failing trial prints its seed and its moves; `HOLDPOINT_SEED=<seed>` plays that trial alone, and
`HOLDPOINT_TRIALS=<n>` plays so many.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection, connections
from django.db.models import F

import workflows
from tests.support.folds import check_all_folds
from tests.support.races import COMMITTED, empty, play, run_threads, settle, take
from workflows import Channel, ItemResult, Machine, WorkflowError, action, collect, durable, expand
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal
from workflows.units import unit_sweep
from workflows.units.item_outcomes import release

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SEED = os.environ.get("HOLDPOINT_SEED")
TRIALS = int(os.environ.get("HOLDPOINT_TRIALS", "3"))
ROUNDS = 6
THREADS = 3
MOVES = 5
ITEMS = 7

#: Lines fail while it is set.
ill = threading.Event()


class Slip(Channel[Any]):
    """A channel that writes rows of its own: the author's code asks its items."""

    name = "units-model-slip"

    def open(self, interactions: Sequence[Interaction]) -> None:
        """Nothing is written that the test would look at."""


def show(one: Any) -> Any:
    return [one.status, one.output] if isinstance(one, ItemResult) else one


@durable(name="units.model.asked", max_attempts=1)
def asked(ctx: Any, hooked: bool, **more: Any) -> Any:
    """Ask, and go on when all is over."""
    channel = Slip() if hooked else "api"
    return [show(one) for one in ctx.wait_for_each("pay", list(range(ITEMS)), channel, **more)]


def go_on(ctx: Any, item: int, output: int) -> int:
    """What continues an item."""
    if item % 3 == 1 and ill.is_set():
        raise ValueError("ill")
    return ctx.step("note", lambda: output)


@durable(name="units.model.lined", max_attempts=1)
def lined(ctx: Any, hooked: bool, **more: Any) -> Any:
    """Ask, and let lines go on."""
    channel = Slip() if hooked else "api"
    return [show(one) for one in ctx.wait_for_each("pay", list(range(ITEMS)), channel, then=go_on, **more)]


class Streamed(Machine):
    """Lines from the beginning, two at a time."""

    name = "units.model.streamed"
    max_attempts = 1
    numbers = expand(lambda ctx: range(ITEMS), concurrency=2)
    first = action(lambda ctx: go_on(NOTING, ctx.item, ctx.item))
    all = collect(lambda ctx: ctx.items)


class Noting:
    """A step without a checkpoint."""

    def step(self, name: str, fn: Callable[[], int]) -> int:
        return fn()


NOTING = Noting()


class Trial:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.moves: list[str] = []
        self.taken: Counter[tuple[Any, int]] = Counter()
        self.instances = [self._start() for _ in range(5)]

    def _start(self) -> Instance:
        kind = self.random.choice([asked, asked, lined, lined, Streamed])
        if kind is Streamed:
            return workflows.start(Streamed)
        more: dict[str, Any] = {"concurrency": self.random.choice([1, 2, 3, 100])}
        more["on_item"] = self.random.choice(["fail", "partial", "partial"])
        more["timeout"] = self.random.choice([None, "1h"])
        return workflows.start(kind, {"hooked": self.random.random() < 0.3, **more})

    def play(self) -> None:
        ill.set()
        for _ in range(ROUNDS):
            plans = [[self._choose() for _ in range(MOVES)] for _ in range(THREADS)]
            run_threads([lambda plan=plan: self._make(plan) for plan in plans], patience=60.0)  # type: ignore[misc]
            self.check()
        ill.clear()
        self.finish()

    def _make(self, plan: list[tuple[str, Callable[[], Any]]]) -> None:
        for name, move in plan:
            try:
                told = move()
            except WorkflowError as refused:
                told = type(refused).__name__
            self.moves.append(f"{name}: {told}")

    def _choose(self) -> tuple[str, Callable[[], Any]]:
        moves = [
            *[self.work] * 5,
            *[self.answer] * 4,
            *[self.answer_many] * 2,
            *[self.fail] * 2,
            *[self.expire] * 2,
            *[self.ask_again] * 2,
            *[self.retry] * 2,
            *[self.let_go] * 2,
            *[sweep_once] * 2,
            self.cancel,
        ]
        move = self.random.choice(moves)
        if move in (self.work, sweep_once):
            return move.__name__, move
        instance, index = self.random.choice(self.instances), self.random.randrange(ITEMS)
        if move == self.answer_many:
            pairs = [(self.random.choice(self.instances), self.random.randrange(ITEMS)) for _ in range(12)]
            return "answer_many", lambda: self.answer_many(pairs)
        return f"{move.__name__} {self.instances.index(instance)}.{index}", lambda: move(instance, index)

    # The moves

    def work(self) -> int:
        """Take some, run them and commit them together, as a pump does."""
        claims = take(self.random.randint(1, 4))
        settle(*[play(claim) for claim in claims])
        return len(claims)

    def answer(self, instance: Instance, index: int) -> Any:
        done = workflows.complete(f"pay.{index}-{instance.pk}", index)
        self.taken[instance.pk, index] += 1
        return done.replayed

    def answer_many(self, pairs: list[tuple[Instance, int]]) -> int:
        results = workflows.complete_many([(f"pay.{index}-{instance.pk}", index) for instance, index in pairs])
        for (instance, index), result in zip(pairs, results, strict=True):
            self.taken[instance.pk, index] += result.ok
        return sum(one.ok for one in results)

    def fail(self, instance: Instance, index: int) -> Any:
        return workflows.fail(f"pay.{index}-{instance.pk}", "broken").signal_id

    def expire(self, instance: Instance, index: int) -> int:
        """Let the time of an item pass that has one."""
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE holdpoint_interaction SET deadline = now() - interval '1 s' WHERE instance_id = %s "
                "AND index = %s AND status = 0 AND deadline IS NOT NULL",
                [instance.pk, index],
            )
        return unit_sweep.work()

    def ask_again(self, instance: Instance, index: int) -> None:
        workflows.retry_item(f"pay.{index}-{instance.pk}")

    def retry(self, instance: Instance, index: int) -> Any:
        """The instance, or the line of one of its items."""
        line = Instance.objects.filter(parent=instance, item=index, status="failed").order_by("-id").first()
        return workflows.retry(line or instance).status

    def let_go(self, instance: Instance, index: int) -> Any:
        units = AwaitUnit.objects.filter(instance=instance).order_by("-visit").values_list("pk", flat=True)
        return [release(connections["default"], unit) for unit in units]

    def cancel(self, instance: Instance, index: int) -> Any:
        """The instance now and then, else one of its lines."""
        line = Instance.objects.live().filter(parent=instance, item=index).first()
        if line is None and self.random.random() < 0.7:
            return None
        return workflows.cancel(line or instance).status

    # The rules

    def check(self) -> None:
        check_all_folds()
        in_flight = Counter(
            Interaction.objects.filter(item=True, status="pending", queued=False).values_list("unit", flat=True)
        )
        for unit in AwaitUnit.objects.filter(items=True):
            if not unit.line_room:
                assert in_flight[unit.pk] <= unit.concurrency, f"{unit.step} {unit.pk} asks too many"
                counted = unit.total - unit.queued - unit.answered - unit.failed - unit.expired
                assert unit.status != "open" or counted == in_flight[unit.pk]
            released = Signal.objects.filter(instance=unit.instance_id, name=f"holdpoint:unit:{unit.pk}").count()
            assert released == (unit.released_at is not None), f"{unit.pk}: {released} releases"
        assert not {key: n for key, n in self.taken.items() if n > 1}, "an item was answered twice"
        orphans = Instance.objects.live().filter(parent__in=self.instances).exclude(parent__in=Instance.objects.live())
        assert not orphans.exists(), "a line goes on for an instance that has ended"
        doubled = Counter(Instance.objects.filter(unit__isnull=False).values_list("unit", "item"))
        assert not doubled or max(doubled.values()) == 1, "an item has two lines"

    def finish(self) -> None:
        """Answer, work and retry until there is nothing left: every instance ends, and tells what was answered."""
        for _ in range(200):
            done = self.work() + unit_sweep.work()
            for item in Interaction.objects.filter(item=True, status="pending", queued=False, owned=False):
                self._make([("last answer", lambda item=item: self.answer(item.instance, item.index))])  # type: ignore[misc]
                done += 1
            for instance in Instance.objects.filter(pk__in=self.pks, status="failed"):
                done += 1
                self._make([("last retry", lambda instance=instance: workflows.retry(instance))])  # type: ignore[misc]
            if not done:
                break
        self.check()
        stuck = Instance.objects.live()
        assert not stuck.exists(), f"nothing moves any more, and these wait: {list(stuck)}"
        assert not AwaitUnit.objects.filter(items=True).exclude(phase="released").exists()
        for instance in Instance.objects.filter(pk__in=self.pks, status="done"):
            for index, one in enumerate(instance.result):
                assert one == index or one == ["completed", index] or one[0] in ("failed", "expired", "cancelled")
        ends = Counter(LedgerEvent.objects.filter(kind="await_unit_terminal").values_list("instance_id", flat=True))
        units = set(AwaitUnit.objects.filter(items=True).values_list("pk", flat=True))
        assert {pk: n for pk, n in ends.items() if pk in units} == dict.fromkeys(units, 1)
        told = AwaitUnit.objects.filter(items=True, queued__gt=F("total"))
        assert not told.exists()

    @property
    def pks(self) -> list[Any]:
        return [one.pk for one in self.instances]


def sweep_once() -> int:
    return unit_sweep.work()


@pytest.mark.parametrize("seed", [int(SEED)] if SEED else range(TRIALS))
def test_whatever_happens_to_units_at_once_keeps_their_rules(seed: int) -> None:
    trial = Trial(seed)
    try:
        trial.play()
    except BaseException as error:
        moves = "\n  ".join(trial.moves)
        raise AssertionError(
            f"HOLDPOINT_SEED={seed} replays this trial; its moves were\n  {moves}\n{error!r}"
        ) from error
    finally:
        empty()
