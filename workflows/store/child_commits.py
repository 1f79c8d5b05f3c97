"""Committing an outcome together with the children that it starts.

Invariants owned:

* Children and the outcome of their parent are one transaction, under the lock of the parent.
* A key that somebody holds starts no child at all: the whole outcome is refused with `DuplicateKey`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.exceptions import ClaimLost, DuplicateKey
from workflows.lifecycle import Call
from workflows.store.checkpoints import join_child, lock_with_child, save_checkpoint
from workflows.store.claim import Claim
from workflows.store.commit import commit, lock_claim
from workflows.store.planned_commit import InvokePlan, SpawnPlan
from workflows.store.sql import atomic, read_clock, retrying, wait_for_locks
from workflows.store.start import KEY_TRIES, NewInstance, Source, find_holder, insert_instances

#: No spawn has this number, so that no end of such a child is counted down.
UNCOUNTED = -1


def commit_spawn(db: BaseDatabaseWrapper, plan: SpawnPlan, patience: float) -> None:
    """Write the children of a step and its outcome; raises `ClaimLost`. A held row is waited for so many seconds."""
    claim = plan.commit.claim

    def write() -> None:
        with atomic(db):
            wait_for_locks(db, patience)
            if not lock_claim(db, claim):
                raise ClaimLost(claim.id, claim.fence)
            _insert_children(db, plan.children, claim, claim.spawns + 1)
            commit(db, [plan.commit])

    retrying(db, write)


def commit_invoke(db: BaseDatabaseWrapper, plan: InvokePlan, patience: float) -> None:
    """Write the child that a function waits for, or take over one that an earlier run has started; and the park."""
    claim, planned, outcome = plan.commit.claim, plan.commit, plan.invoke

    def write() -> None:
        with atomic(db):
            wait_for_locks(db, patience)
            if outcome.adrift is not None:
                lock_with_child(db, claim, outcome.adrift[0])
            if not lock_claim(db, claim):
                raise ClaimLost(claim.id, claim.fence)
            if outcome.adrift is not None:
                alive = join_child(db, claim, *outcome.adrift)
                planned.children, planned.delay = int(alive), _count_seconds(db, outcome.timeout) if alive else None
            else:
                planned.delay = _count_seconds(db, outcome.timeout)
                insert_instances(
                    db,
                    [outcome.child],
                    workspace=claim.workspace,
                    source=Source(claim.id, is_family=True, spawn_no=claim.spawns + 1),
                    actor=f"instance:{claim.id}",
                )
            save_checkpoint(
                db,
                claim,
                outcome.position,
                Call.INVOKE,
                outcome.call,
                settled=False,
                timeout=outcome.timeout,
                child=outcome.adrift[0] if outcome.adrift is not None else outcome.child.id,
            )
            commit(db, [planned])

    retrying(db, write)


def _count_seconds(db: BaseDatabaseWrapper, time: float | datetime | None) -> float | None:
    return max(time.timestamp() - read_clock(db), 0.0) if isinstance(time, datetime) else time


def insert_asked_child(db: BaseDatabaseWrapper, claim: Claim, child: NewInstance) -> None:
    """Write a child that nobody counts: its end is told. Within a transaction that holds the claim."""
    _insert_children(db, [child], claim, UNCOUNTED, actor=f"instance:{claim.id}")


def _insert_children(
    db: BaseDatabaseWrapper, new: Sequence[NewInstance], claim: Claim, spawn_no: int, *, actor: str = ""
) -> None:
    source = Source(claim.id, is_family=True, spawn_no=spawn_no)
    for left in range(KEY_TRIES - 1, -1, -1):
        written = insert_instances(db, new, workspace=claim.workspace, source=source, actor=actor)
        new = [child for child in new if child.id not in written]
        if not new:
            return
        taken = _describe_duplicate(db, new[0], claim.workspace)
        if taken.instance is not None or not left:
            raise taken  # a holder that has just ended holds nothing


def _describe_duplicate(db: BaseDatabaseWrapper, child: NewInstance, workspace: int) -> DuplicateKey:
    from workflows.models import Instance  # authors' modules load the store before there are settings

    holder = find_holder(db, child.key or "", workspace)
    instance = Instance.objects.using(db.alias).filter(pk=holder).first() if holder else None
    return DuplicateKey(child.key or "", instance)
