"""What the rows of the ledger count as, for metrics: one statement that sums a range of them into `holdpoint_tally`.

Lives here: the lists of names and labels, and the statement. Which range is when counted is told in `tallies`.
Invariants owned:

* What a row counts as is a property of it and of those before it in its instance, which never change: it does not
  matter where one batch ends and the next begins.
* No label has unbounded values: kinds, statuses, reasons and buckets, each a fixed list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from workflows import exceptions
from workflows.lifecycle import INTERACTION_CODES, Event, InteractionStatus, Status
from workflows.store.sql import NOW, PARKED, RUNNABLE, compact, kind, micros, write_plain, write_texts

#: Why a completion was dropped. Of `invalid_token` no ledger tells, and of the others not when a stranger was refused.
REASONS = (
    "unknown",
    "invalid_token",
    "stale_version",
    "answered_elsewhere",
    "resolved",
    "expired",
    "invalid_data",
    "refused_by_policy",
    "idempotency_conflict",
    # Of a transport: no envelope of an answer, from a place that may not answer for the workspace, failed unexpectedly.
    "malformed",
    "foreign",
    "error",
)

#: What became of a request to an inbound hook. No ledger tells of one that was refused.
HOOK_OUTCOMES = ("taken", "repeated", "not_taken", "failed", "unverified", "unreadable", "throttled", "unknown")

#: What is raised, and what its row calls it -> the reason. Whatever is not listed is no dropped completion.
REASON_OF: Mapping[str, str] = {
    error.__name__: reason
    for error, reason in {
        exceptions.UnknownInteraction: "unknown",
        exceptions.InvalidToken: "invalid_token",
        exceptions.StaleVersion: "stale_version",
        exceptions.AnswerElsewhere: "answered_elsewhere",
        exceptions.InteractionResolved: "resolved",
        exceptions.InvalidData: "invalid_data",
        exceptions.ProjectionFailed: "invalid_data",
        exceptions.PolicyRefused: "refused_by_policy",
        exceptions.IdempotencyConflict: "idempotency_conflict",
    }.items()
}

#: Upper bounds of the time to resume, in seconds. Never change them: what was counted by these stays so counted.
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
BUCKET_LABELS = (*map(str, BUCKETS), "+Inf")

#: Rows that count by their kind alone, as (name, label).
_BY_KIND: Mapping[Event, tuple[str, str]] = {
    Event.STARTED: ("started", ""),
    Event.SIGNALLED: ("deliveries", ""),
    Event.ANSWERED: ("completions", ""),
    Event.TIMED_OUT: ("timeouts", ""),
    Event.RECLAIMED: ("reclaims", ""),
    Event.RUN_FAILED: ("failed_runs", ""),
    Event.PUT_BACK: ("put_back", ""),
    Event.DONE: ("ended", Status.DONE),
    Event.FAILED: ("ended", Status.FAILED),
    Event.CANCELLED: ("ended", Status.CANCELLED),
}

#: How an item may end; `_TELLS` numbers them -1, -2, -3.
ITEM_ENDS = (InteractionStatus.COMPLETED, InteractionStatus.FAILED, InteractionStatus.EXPIRED)
_BY_END = [(-number, "items", status.value) for number, status in enumerate(ITEM_ENDS, 1)]
_BY_END += [(-1, "completions", ""), (-3, "timeouts", "")]


def _codes(*events: Event) -> str:
    return ", ".join(str(kind(event)) for event in events)


#: What the commit of a step writes, whatever its outcome.
_STEPS = _codes(
    Event.ADVANCED,
    Event.PARKED,
    Event.RETRIED,
    Event.DONE,
    Event.FAILED,
    Event.SPAWNED,
    Event.RUN_FAILED,
    Event.SUSPENDED,
    Event.RERUN,
)
_COMMITS = f"{_STEPS}, {kind(Event.PUT_BACK)}"  # no step ran
_TURNS = f"{_COMMITS}, {_codes(Event.STARTED, Event.REOPENED)}"

#: The latest of these moments; one that is yet to come is a forgery, and must not stop all counting.
LATEST = f"max({{at}}) FILTER (WHERE {{at}} < {NOW} + interval '1 day')"

_EXPIRED = INTERACTION_CODES[InteractionStatus.EXPIRED]
_UUID = "'^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'"

#: What this row counts as. The one answer by which an instance hears of a whole unit is no completion, and the end of
#: the line that goes on with an answer is told by its instance.
_TELLS = f"""CASE WHEN l.kind = {kind(Event.ITEM_COMPLETED)} AND l.data->'line' IS NULL
    THEN -array_position('{{{",".join(ITEM_ENDS)}}}'::text[], l.data->>'how')
  WHEN l.kind <> {kind(Event.ANSWERED)} OR l.data->'unit' IS NULL THEN l.kind END"""

#: Why this row dropped a completion; NULL if it did not. One that came too late is told by the expiry that it
#: caused, or by a refusal without a class; one that came later still, by what its interaction has become.
_REASON = f"""CASE
  WHEN l.kind NOT IN ({_codes(Event.TIMED_OUT, Event.REFUSED)}) OR l.data->>'interaction' IS NULL THEN NULL
  WHEN l.kind = {kind(Event.TIMED_OUT)} OR l.data->>'refused' IS NULL THEN 'expired'
  WHEN l.data->>'refused' = '{exceptions.InteractionResolved.__name__}' AND (
    SELECT x.status FROM holdpoint_interaction x WHERE x.id = CASE WHEN l.data->>'interaction' ~ {_UUID}
      THEN (l.data->>'interaction')::uuid END) = {_EXPIRED} THEN 'expired'
  ELSE '{json.dumps(REASON_OF)}'::jsonb->>(l.data->>'refused') END"""

#: How many signals an ending closed that no step has seen.
_UNSEEN = f"""CASE WHEN l.kind IN ({_codes(Event.DONE, Event.FAILED)})
  AND jsonb_typeof(l.data->'unseen'->'count') = 'number' THEN (l.data->'unseen'->>'count')::float8 END"""

#: Looks into the past of an instance, where the batch does not hold it: whether the row before left it parked; and
#: when it was woken after its last commit, if that one parked it.
_WAS_PARKED = f"""SELECT p.{PARKED} FROM holdpoint_ledger p WHERE p.instance_id = o.id AND p.seq < o.seq
  ORDER BY p.seq DESC LIMIT 1"""
_WOKE_BEFORE = f"""SELECT CASE WHEN c.{PARKED} THEN (
    SELECT x.at FROM holdpoint_ledger x WHERE x.instance_id = c.instance_id AND x.seq > c.seq AND x.seq < e.seq
      AND x.status = {RUNNABLE} ORDER BY x.seq LIMIT 1) END
  FROM holdpoint_ledger c WHERE c.instance_id = e.id AND c.seq < e.seq AND c.kind IN ({_TURNS})
  ORDER BY c.seq DESC LIMIT 1"""

#: An instance is woken by the row that makes it runnable while it is parked: the status after the row before tells.
#: Then it is claimed, which no row tells; the commit of its step is the next thing that does. `torn` is a row whose
#: predecessor is not in the batch, and only where that could matter is it looked up. A commit has a higher
#: transaction than whatever woke its step, so that is in this batch or an earlier one; a delivery may have a lower
#: one than the park that it ended, where it was part of a long transaction.
COUNT = compact(f"""
    WITH o AS (
      SELECT l.workspace_id AS ws, l.instance_id AS id, l.seq, l.at, l.kind, l.status, {_REASON} AS reason,
        {_UNSEEN} AS unseen, {_TELLS} AS tells,
        lag(l.status) OVER one AS was, l.seq > 1 AND lag(l.seq) OVER one IS DISTINCT FROM l.seq - 1 AS torn
      FROM holdpoint_ledger l
      WHERE l.xid >= %(lower)s AND l.xid < %(cut)s::bigint AND l.at >= %(since)s AND l.at < %(until)s::timestamptz
      WINDOW one AS (PARTITION BY l.instance_id ORDER BY l.seq)
    ), w AS (
      SELECT o.*, o.status = {RUNNABLE} AND CASE
        WHEN o.kind IN ({_codes(Event.TIMED_OUT, Event.WOKE)}) THEN true
        WHEN o.kind NOT IN ({_codes(Event.SIGNALLED, Event.ANSWERED, Event.CHILD_ENDED)}) THEN false
        WHEN o.torn THEN coalesce(({_WAS_PARKED}), false)
        ELSE o.{PARKED.replace("status", "was")} END AS woke
      FROM o OFFSET 0  -- or the look-up would be repeated wherever its answer is read
    ), e AS (
      SELECT w.*, coalesce(max(seq) FILTER (WHERE kind IN ({_COMMITS})) OVER earlier, 0) AS settled,
        max(seq) FILTER (WHERE woke) OVER earlier AS waker, max(at) FILTER (WHERE woke) OVER earlier AS woke_at,
        max(seq) FILTER (WHERE torn) OVER (PARTITION BY id ORDER BY seq) AS tear
      FROM w WINDOW earlier AS (PARTITION BY id ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ), c AS MATERIALIZED (
      SELECT e.ws, e.at, e.kind, e.reason, e.unseen, e.tells, e.woke, CASE WHEN e.kind NOT IN ({_STEPS}) THEN NULL
        WHEN e.waker > e.settled THEN e.woke_at WHEN e.tear > e.settled THEN ({_WOKE_BEFORE}) END AS since
      FROM e
    ), t AS (
      SELECT c.ws, greatest({micros("c.at")} - {micros("c.since")}, 0) AS took FROM c WHERE c.since IS NOT NULL
    ), n AS (
      SELECT c.ws, k.name, k.label, count(*)::float8 AS n FROM c
      JOIN unnest(%(kinds)s::int[], %(names)s::text[], %(labels)s::text[]) k(kind, name, label) ON k.kind = c.tells
      GROUP BY 1, 2, 3
      UNION ALL SELECT c.ws, 'resumptions', '', count(*) FROM c WHERE c.woke GROUP BY 1
      UNION ALL SELECT c.ws, 'refused', c.reason, count(*) FROM c WHERE c.reason IS NOT NULL GROUP BY 1, 3
      UNION ALL SELECT c.ws, 'unseen', '', sum(c.unseen) FROM c WHERE c.unseen > 0 GROUP BY 1
      UNION ALL SELECT t.ws, 'time_to_resume', (%(les)s::text[])[width_bucket(t.took - 1, %(bounds)s::bigint[]) + 1],
        count(*) FROM t GROUP BY 1, 3
      UNION ALL SELECT t.ws, 'time_to_resume_sum', '', sum(t.took) / 1e6 FROM t GROUP BY 1
    ), put AS (
      INSERT INTO holdpoint_tally AS o (workspace_id, name, label, value)
      SELECT ws, name, label, n FROM n ORDER BY 1, 2, 3
      ON CONFLICT (workspace_id, name, label) DO UPDATE SET value = o.value + excluded.value
    )
    SELECT count(*), {micros(LATEST.format(at="at"))} FROM c
""")

_NAMES = [*((kind(event), *named) for event, named in _BY_KIND.items()), *_BY_END]
#: The lists as the statement takes them.
LISTS = {
    "kinds": write_plain([number for number, _, _ in _NAMES]),
    "names": write_texts([name for _, name, _ in _NAMES]),
    "labels": write_texts([label for _, _, label in _NAMES]),
    "les": write_texts(BUCKET_LABELS),
    "bounds": write_plain([round(bound * 1_000_000) for bound in BUCKETS]),
}
