"""Random walks of deciders, undos, cancellations and the clock over a few reviews, held against a model of promises.

The model knows no row and no SQL; it is written from what reviewers are told. A failing walk prints its seed and its
moves; `HOLDPOINT_SEED=<seed>` walks it alone, `HOLDPOINT_TRIALS=10000` walks many.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

import workflows
from approvals import AlreadyDecided, NotAllowed, decide, undo
from approvals.models import Review, Vote
from tests.support.folds import check_all_folds
from tests.support.review_calls import again, ask, check_truth, list_events, make_person, truth  # noqa: F401 (a fixture)
from workflows.models import Instance, Interaction
from workflows.testing import drain

pytestmark = pytest.mark.django_db

TRIALS = int(os.environ.get("HOLDPOINT_TRIALS", "8"))
SEED = os.environ.get("HOLDPOINT_SEED")
CHUNKS = 4
MOVES = 30
NAMES = ("ann", "ben", "cid", "dot")
STRANGER = "eve"
GRACE = 8


@dataclass
class Refused(Exception):
    rule: str


@dataclass
class Modelled:
    """One review, as people are told about it. Moments are seconds since the walk began."""

    asked: tuple[str, ...]
    requester: str | None
    needed: int
    deadline: int
    answers_at: int | None
    votes: dict[str, str] = field(default_factory=dict)
    taken_back: int = 0
    state: str = "open"
    outcome: str = ""
    by: str | None = None
    until: int | None = None

    def decide(self, who: str, outcome: str, *, grace: bool, now: int) -> str:
        if self.state not in ("open", "grace"):
            raise Refused("closed")
        if self.state == "grace":
            raise Refused("grace")
        if who not in self.asked:
            raise Refused("not_candidate")
        if who == self.requester:
            raise Refused("requester")
        if who in self.votes:
            raise Refused("voted")
        self.votes[who] = outcome
        if (answer := self.judge()) is None:
            return "open"
        self.outcome, self.by = answer, who
        self.state, self.until = ("grace", now + GRACE) if grace else ("decided", None)
        return self.state

    def judge(self) -> str | None:
        left = len([who for who in self.asked if who != self.requester and who not in self.votes])
        counts = {name: list(self.votes.values()).count(name) for name in ("approve", "reject")}
        for name, count in counts.items():
            if count >= self.needed:
                return name
        return None if max(counts.values()) + left >= self.needed else "reject"

    def undo(self, who: str) -> None:
        if self.state not in ("open", "grace"):
            raise Refused("closed")
        if who not in self.votes or (self.state == "grace" and self.by != who):
            raise Refused("voted")
        del self.votes[who]
        self.taken_back += 1
        self.state, self.outcome, self.by, self.until = "open", "", None, None

    def cancel(self) -> None:
        if self.state in ("open", "grace"):
            self.state, self.outcome, self.by, self.until = "cancelled", "", None, None

    def pass_time(self, now: int) -> None:
        """What is due by now, and cannot be done twice."""
        if self.state == "grace" and self.until is not None and self.until <= now:
            self.state, self.until = "decided", None
        if self.state == "open" and self.deadline <= now:
            self.state = "expired"
        if self.state == "open" and self.answers_at is not None and self.answers_at <= now:
            self.state, self.outcome = "decided", "reject"


class Walk:
    """One seed's walk, through the rows and the model side by side."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.people = {user.get_username(): user for user in User.objects.all()}
        self.now = 0
        self.log: list[str] = []
        self.set_clock()
        self.stop_clock()
        self.pairs = [self.begin() for _ in range(self.random.randint(1, 3))]

    def begin(self) -> tuple[Review, Modelled]:
        asked = tuple(self.random.sample(NAMES, self.random.randint(2, 4)))
        requester = self.random.choice([None, *NAMES])
        most = len([who for who in asked if who != requester])
        needed = self.random.randint(1, most)
        deadline, answers_at = self.random.randint(5, 60), self.random.choice([None, self.random.randint(5, 60)])
        review = ask(
            assignees=asked,
            requester=requester,
            quorum=needed,
            timeout=f"{deadline}s",
            escalate=None if answers_at is None else [(f"{answers_at}s", ("outcome", "reject"))],
        )
        self.log.append(f"{asked} of {requester}, {needed} of {most}, deadline {deadline}, answers at {answers_at}")
        return review, Modelled(asked, requester, needed, deadline, answers_at)

    def run(self) -> None:
        moves = [self.decide] * 8 + [self.undo] * 4 + [self.wait] * 6 + [self.cancel]
        for _ in range(MOVES):
            self.random.choice(moves)()
            for review, model in self.pairs:
                self.compare(review, model)
        check_truth()
        check_all_folds()

    def decide(self) -> None:
        review, model = self.random.choice(self.pairs)
        who, outcome = self.random.choice([*NAMES, STRANGER]), self.random.choice(["approve", "approve", "reject"])
        grace = self.random.random() < 0.6
        self.log.append(f"{who}: {outcome}{' with grace' if grace else ''}")
        user = self.people[who]
        self.same(
            lambda: decide(review.pk, outcome, actor=user, grace=grace).state,
            lambda: model.decide(who, outcome, grace=grace, now=self.now),
        )
        drain()

    def undo(self) -> None:
        review, model = self.random.choice(self.pairs)
        who = self.random.choice([*NAMES, STRANGER])
        self.log.append(f"{who}: undo")
        user = self.people[who]
        self.same(lambda: undo(review.pk, actor=user) and None, lambda: model.undo(who))
        model.pass_time(self.now)  # a deadline that was held may be over
        drain()

    def cancel(self) -> None:
        review, model = self.random.choice(self.pairs)
        self.log.append("cancel")
        if Instance.objects.get(pk=review.instance_id).status == "awaiting":
            workflows.cancel(review.instance_id)
        model.cancel()

    def wait(self) -> None:
        seconds = self.random.choice([1, 1, 3, 8, 10])
        self.log.append(f"{seconds} s pass")
        for _ in range(seconds):
            self.now += 1
            self.set_clock()
            for _, model in self.pairs:
                model.pass_time(self.now)
            drain()

    def same(self, real: Any, modelled: Any) -> None:
        told = []
        for call in (real, modelled):
            try:
                with transaction.atomic():
                    told.append(call())
            except AlreadyDecided:
                told.append("refused: closed")
            except NotAllowed as refused:
                told.append(f"refused: {refused.obstacle.rule}")
            except Refused as refused:
                told.append(f"refused: {refused.rule}")
        assert told[0] == told[1], f"{told[0]}, but it should be {told[1]}"

    def compare(self, review: Review, model: Modelled) -> None:
        row, status = again(review), str(Interaction.objects.get(pk=review.pk).status)
        expected = {"open": "pending", "grace": "pending", "decided": "completed"}.get(model.state, model.state)
        assert status == expected, f"it is {status}, but it should be {model.state}"
        by = None if model.by is None else self.people[model.by].pk
        assert (row.open, row.outcome, row.decided_by_id) == (status == "pending", model.outcome, by)
        assert (row.effective_at is not None) == (model.state == "grace")
        votes = Vote.objects.filter(review=review, standing=True).values_list("user__username", "outcome")
        assert dict(votes) == model.votes
        assert Vote.objects.filter(review=review).exclude(reverses=None).count() == model.taken_back
        assert len(list_events(review, "reversed")) == model.taken_back
        assert len(list_events(review, "answered")) == (status == "completed")
        who = self.random.choice([*NAMES, STRANGER])
        lists = Review.objects.for_user(self.people[who]).filter(pk=review.pk).exists()
        may = model.state == "open" and who in model.asked and who not in (model.requester, *model.votes)
        assert lists == may, f"{who} {'may' if may else 'may not'} decide, and their list says otherwise"

    def stop_clock(self) -> None:
        """The engine's clock stands still: `set_clock` moves it, and no statement has to be planned anew for that."""
        moment = "''2030-01-01 00:00Z''::timestamptz + current_setting(''walk.now'')::interval"
        with connection.cursor() as cursor:
            for name in ("holdpoint_now", "holdpoint_clock"):
                cursor.execute(
                    f"CREATE OR REPLACE FUNCTION {name}() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT {moment}'"
                )

    def set_clock(self) -> None:
        """A second is what the walk says."""
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('walk.now', %s, true)", [f"{self.now} s"])


@pytest.mark.parametrize("chunk", range(1 if SEED else CHUNKS))
def test_random_walks_do_what_reviewers_are_told(chunk: int) -> None:
    for name in (*NAMES, STRANGER):
        make_person(name)
    seeds = [int(SEED)] if SEED else range(chunk, TRIALS, CHUNKS)
    for seed in seeds:
        with transaction.atomic():
            walk = None
            try:
                walk = Walk(seed)
                walk.run()
            except AssertionError as error:
                moves = "\n".join(walk.log if walk else [])
                raise AssertionError(f"HOLDPOINT_SEED={seed} walks this again: {error}\n{moves}") from error
            transaction.set_rollback(True)
