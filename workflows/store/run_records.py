"""What the end of a run leaves beside its outcome: the state that it was handed, and its traceback.

Lives here: statements of their own, so that a run which leaves neither pays nothing. Must not live here: the outcome.
Invariant owned: both are written in the transaction of the outcome, and only of what was applied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.claim import Claim
from workflows.store.planned_commit import Commit, Kind
from workflows.store.sql import CLOCK, compact, fetch, write_plain, write_texts

#: Outcomes after which the same step runs again: what it was handed is still what it will be handed.
_STAYING = (Kind.RETRY, Kind.RUN_FAILED, Kind.PUT_BACK, Kind.RERUN, Kind.POSTPONE)

#: The rows that were there are one fewer than may stay, because the new one is none of them yet. Looked for one
#: instance at a time, from its newest on.
_KEEP = compact(f"""
    WITH v AS (
      SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(seqs)s::int[], %(spawns)s::int[],
        %(attempts)s::smallint[], %(outs)s::bool[], %(steps)s::text[], %(names)s::text[], %(states)s::text[],
        %(most)s::int[]) v(id, fence, seq, spawns, attempt, timed_out, step, names, state, most)
    ), d AS (
      DELETE FROM holdpoint_kept_state k USING v
      WHERE k.instance_id = v.id AND k.fence <= (
        SELECT o.fence FROM holdpoint_kept_state o WHERE o.instance_id = v.id
        ORDER BY o.fence DESC OFFSET v.most - 1 LIMIT 1)
    )
    INSERT INTO holdpoint_kept_state(instance_id, kept_at, fence, seq, spawns, attempt, timed_out, step, names, state)
    SELECT v.id, {CLOCK}, v.fence, v.seq, v.spawns, v.attempt, v.timed_out, v.step, v.names::text[], v.state::jsonb
    FROM v
""")

_TELL = compact("""
    UPDATE holdpoint_instance i SET traceback = v.traceback, failed_call = v.call
    FROM unnest(%(ids)s::uuid[], %(texts)s::text[], %(calls)s::text[]) v(id, traceback, call)
    WHERE i.id = v.id AND i.id = ANY(%(ids)s::uuid[])
      AND (v.traceback IS NOT NULL OR i.traceback IS NOT NULL OR i.failed_call IS NOT NULL)
""")


def keep_records(db: BaseDatabaseWrapper, commits: Sequence[Commit], applied: Collection[str]) -> None:
    """In the transaction that has applied these outcomes."""
    mine = [one for one in commits if one.claim.id in applied]
    if keeping := [one.claim for one in mine if one.claim.keep and one.kind not in _STAYING]:
        _keep_states(db, keeping)
    told = [one for one in mine if one.traceback is not None or (one.claim.error and one.kind not in _STAYING)]
    if told:
        params = {
            "ids": write_plain([one.claim.id for one in told]),
            "texts": write_texts([one.traceback for one in told]),
            "calls": write_texts([one.failed_call for one in told]),
        }
        fetch(db, _TELL, params, rows=False)


def _keep_states(db: BaseDatabaseWrapper, claims: Sequence[Claim]) -> None:
    params = {
        "ids": write_plain([one.id for one in claims]),
        "fences": write_plain([one.fence for one in claims]),
        "seqs": write_plain([one.seq for one in claims]),
        "spawns": write_plain([one.spawns for one in claims]),
        "attempts": write_plain([one.attempt for one in claims]),
        "outs": write_plain([one.timed_out for one in claims]),
        "steps": write_texts([one.step for one in claims]),
        "names": write_texts([None if one.names is None else write_texts(one.names) for one in claims]),
        "states": write_texts([one.state for one in claims]),
        "most": write_plain([one.keep for one in claims]),
    }
    fetch(db, _KEEP, params, rows=False)
