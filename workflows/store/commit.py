"""Committing outcomes: a whole batch in one statement, every row fenced.

Invariants owned:

* `c` is the fence. State, inbox, ledger and parent all join it, so a stale worker's row changes
  nothing at all. Rows that were applied come back; the engine treats the missing ones.
* No wake-up is lost between parking and delivering. A single statement cannot see a signal that was
  committed after it began, not even after waiting for the row's lock: every other table is read from
  the old snapshot. So a park carries the inbox counter of its claim; where the counter has moved the
  park is not applied, and `commit_locked` repeats it in a transaction that holds the lock first.
* An ending whose inbox has moved is repeated the same way, and tells which signals it closes that no step
  has seen. Where the workflow wants that, a late signal that the step had awaited makes it run again instead.
* Children and parents are locked in one pass in id order, like everywhere else.

Shape: no part joins another part. Their sizes are unknown when the plan is cached, PostgreSQL assumes
ten rows and takes a nested loop, and a batch of 500 would compare 250,000 pairs for each such join. So
the rows that only want locking (parents) travel in the same arrays, and each row brings its own list of
signal numbers. Rows and signals are looked up one by one inside LATERAL, because a join planned while a table
was small would read its whole index; a signal found so is updated by its place (ctid), which only this
worker's commit could change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import FIRST_TERMINAL, Event
from workflows.store.asked.asked_rows import withdraw_asks
from workflows.store.channel_closing import listens, tell_closed
from workflows.store.checkpoints import rewind_checkpoints
from workflows.store.claim import Claim
from workflows.store.flow.places import move_places
from workflows.store.items.item_lines import is_line
from workflows.store.items.line_ends import end_lines, list_free_lines
from workflows.store.planned_commit import CameLate, Commit, Kind
from workflows.store.progress_report import keep_progress, list_advancing
from workflows.store.questions import close_questions
from workflows.store.run_records import keep_records
from workflows.store.sql import (
    AWAITING,
    AWAITING_CHILDREN,
    CLOCK,
    DONE,
    FAILED,
    LEDGER,
    RUNNABLE,
    RUNNING,
    SLEEPING,
    atomic,
    becoming,
    compact,
    fetch,
    kind,
    write_plain,
    write_texts,
)

#: Names of unseen signals that a ledger row tells.
MOST_NAMES = 100


#: Stop closes the inbox by being terminal and consumes nothing, so that `retry` finds its input again.
_CONSUMING = f"{Kind.NEXT:d}, {Kind.DONE:d}, {Kind.SPAWN:d}, {Kind.SUSPEND:d}"
_PARKING = f"{Kind.AWAIT:d}, {Kind.SUSPEND:d}"
_ENDING = f"{Kind.DONE:d}, {Kind.STOP:d}"
_UNSPENT = f"{Kind.PUT_BACK:d}, {Kind.RERUN:d}"
_KEEPING = f"{Kind.RETRY:d}, {Kind.RUN_FAILED:d}, {_UNSPENT}, {Kind.STOP:d}"
_PROGRESS = f"{Kind.AWAIT:d}, {_CONSUMING}"

#: An awaited signal that the parking step was not handed: a difference of sets, never a highest number
#: seen, because numbers are given in the order of locks and become visible in the order of commits. EXCEPT reads
#: both sets once; compared one by one, a hundred thousand signals took half a minute.
_UNSEEN = """k.box > cardinality(k.took) AND EXISTS (
  SELECT s.n FROM holdpoint_signal s
  WHERE s.instance_id = k.id AND s.consumed_at IS NULL AND s.name = ANY(k.wanted) EXCEPT SELECT unnest(k.took))"""

_STATUS = f"""CASE
  WHEN k.kind IN ({_PARKING}) THEN CASE WHEN {_UNSEEN} THEN {RUNNABLE}
    WHEN k.wanted IS NULL THEN {SLEEPING} ELSE {AWAITING} END
  WHEN k.kind = {Kind.DONE:d} THEN {DONE}
  WHEN k.kind = {Kind.STOP:d} THEN {FAILED}
  WHEN k.kind = {Kind.SPAWN:d} AND k.children > 0 THEN {AWAITING_CHILDREN}
  WHEN k.delay > 0 THEN {SLEEPING}
  ELSE {RUNNABLE} END"""

_DUE = f"""CASE
  WHEN c.goes = {RUNNABLE} THEN c.at WHEN c.kind = {Kind.SUSPEND:d} THEN to_timestamp(c.delay)
  ELSE c.at + c.delay * interval '1 s' END"""

_PARENT_WAKES = f"i.status = {AWAITING_CHILDREN} AND i.pending = d.n"


#: Close to the 4096 characters beyond which the driver would read it anew at every call: hence the bare names.
#: Kind 0 marks a parent: locked in its turn, changed only by what its children do.
#: A woken park stamps its ledger row with the names it waited for all the same: the fold reads them.
def _write_commit(*, telling: bool) -> str:
    tells = ", %(tells)s::text[]", ", tells", " || coalesce(u.tells::jsonb, '{}')", ", c.tells"
    arrays, columns, told, back = tells if telling else ("", "", "", "")
    instead = f"WHEN u.tells > '' AND u.kind IN ({_ENDING}, {Kind.RERUN:d}) THEN u.tells::jsonb" if telling else ""
    return compact(f"""
    WITH v AS (
      SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(kinds)s::int[], %(steps)s::text[],
        %(states)s::text[], %(results)s::text[], %(errors)s::text[], %(names)s::text[], %(delays)s::float8[],
        %(inboxes)s::int[], %(signals)s::text[], %(solos)s::bool[], %(children)s::int[]{arrays})
        v(id, fence, kind, step, state, result, error, names, delay, inbox, signals, solo, children{columns})
    ), k AS MATERIALIZED (
      SELECT v.*, v.names::text[] wanted, v.signals::int[] took, i.status was, i.fence held, i.inbox box,
        i.parent_id, i.spawn_no
      FROM (SELECT * FROM v ORDER BY id) v, LATERAL (
        SELECT * FROM holdpoint_instance i WHERE i.id = v.id FOR NO KEY UPDATE) i
    ), c AS (
      SELECT k.*, {_STATUS} goes, {CLOCK} AS at FROM k WHERE k.kind > 0 AND k.held = k.fence AND k.was = {RUNNING}
        AND (k.box = k.inbox OR k.kind NOT IN ({_PARKING}, {_ENDING}))
    ), x AS (
      UPDATE holdpoint_signal s SET consumed_at = {CLOCK}, consumed_by = q.fence
      FROM (SELECT c.id, c.fence, unnest(c.took) n FROM c WHERE c.kind IN ({_CONSUMING})) q,
      LATERAL (SELECT o.ctid FROM holdpoint_signal o
        WHERE o.instance_id = q.id AND o.n = q.n AND o.consumed_at IS NULL OFFSET 0) o
      WHERE s.ctid = o.ctid
    ), u AS (
      UPDATE holdpoint_instance i SET {becoming("c.goes", _DUE)},
        step = coalesce(c.step, i.step), state = coalesce(c.state::jsonb, i.state), result = c.result::jsonb,
        error = c.error, seq = i.seq + 1, solo = c.solo,
        names = CASE WHEN c.kind IN ({_PARKING}) THEN c.wanted WHEN c.kind IN ({_KEEPING}) THEN i.names END,
        timed_out = i.timed_out AND c.kind IN ({_KEEPING}),
        attempt = CASE WHEN c.kind = {Kind.RETRY:d} THEN least(i.attempt + 1, 32767)
          WHEN c.kind IN ({_PROGRESS}) THEN 0 ELSE i.attempt END,
        runs = CASE WHEN c.kind IN ({_UNSPENT}) THEN i.runs - 1
          WHEN c.kind IN ({Kind.RUN_FAILED:d}, {Kind.STOP:d}) THEN i.runs ELSE 0 END,
        inbox = i.inbox - CASE WHEN c.kind IN ({_CONSUMING}) THEN cardinality(c.took) ELSE 0 END,
        pending = CASE WHEN c.kind = {Kind.SPAWN:d} THEN c.children ELSE i.pending END,
        spawns = i.spawns + (c.kind = {Kind.SPAWN:d})::int
      FROM c WHERE i.id = c.id
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.due_at, i.step, c.kind, c.at, c.wanted, c.parent_id,
        c.spawn_no, c.error, c.children, nullif(c.took, '{{}}') AS took{back}
    ), l AS (
      {LEDGER}
      SELECT u.id, u.at, CASE WHEN u.status BETWEEN {AWAITING} AND {
        AWAITING_CHILDREN
    } THEN u.due_at END, u.seq, u.workspace_id,
        u.kind, u.status, '', CASE WHEN u.status < {FIRST_TERMINAL} THEN u.step END,
        CASE {instead} WHEN u.kind IN ({Kind.SPAWN:d}, {Kind.SUSPEND:d})
          THEN jsonb_strip_nulls(jsonb_build_object('children', nullif(u.children, 0), 'names', u.wanted,
            'consumed', u.took)){told}
          WHEN u.kind IN ({Kind.NEXT:d}, {Kind.DONE:d}) THEN to_jsonb(u.took)
          ELSE coalesce(to_jsonb(u.wanted), to_jsonb(u.error)) END FROM u
    ), p AS (
      UPDATE holdpoint_instance i SET pending = i.pending - d.n, seq = i.seq + 1,
        {
        becoming(
            f"CASE WHEN {_PARENT_WAKES} THEN {RUNNABLE} ELSE i.status END",
            f"CASE WHEN {_PARENT_WAKES} THEN {CLOCK} ELSE i.due_at END",
            may_end=False,
        )
    }
      FROM (
        SELECT u.parent_id, u.spawn_no, count(*) n FROM u
        WHERE u.spawn_no IS NOT NULL AND u.status >= {FIRST_TERMINAL} GROUP BY 1, 2
      ) d WHERE i.id = d.parent_id AND i.spawns = d.spawn_no AND i.status < {FIRST_TERMINAL}
      RETURNING i.id, i.seq, i.workspace_id, i.status, d.n
    ), pl AS (
      {LEDGER}
      SELECT p.id, {CLOCK}, NULL, p.seq, p.workspace_id, {kind(Event.CHILD_ENDED)}, p.status, '', NULL,
        to_jsonb(p.n) FROM p
    )
    SELECT u.id::text FROM u
""")


_COMMIT = _write_commit(telling=False)
#: Where the history tells more. By itself, because the driver reads a longer text anew at every call.
_COMMIT_TELLING = _write_commit(telling=True)


_FREE = compact("""
    SELECT i.id::text, i.inbox FROM unnest(%(ids)s::uuid[]) v(id) CROSS JOIN LATERAL (
      SELECT i.id, i.inbox FROM holdpoint_instance i WHERE i.id = v.id FOR NO KEY UPDATE SKIP LOCKED) i
""")

_ENDED = f"SELECT status >= {FIRST_TERMINAL} FROM holdpoint_instance WHERE id = %(id)s::uuid"

#: What came since the claims and no step has seen. The engine's own signals are of waits that are over.
_LATE = compact("""
    SELECT q.id, s.name, count(*) FROM unnest(%(ids)s::uuid[], %(seqs)s::int[]) q(id, seq) CROSS JOIN LATERAL (
      SELECT s.name FROM holdpoint_signal s WHERE s.instance_id = q.id AND s.n > q.seq AND s.consumed_at IS NULL
        AND NOT starts_with(s.name, 'holdpoint:') OFFSET 0) s GROUP BY 1, 2 ORDER BY 1, 2
""")

_LOCK = compact(
    "SELECT id::text, fence, status, inbox FROM holdpoint_instance "
    "WHERE id = ANY(%(lock)s::uuid[]) ORDER BY id FOR NO KEY UPDATE"
)


def commit(db: BaseDatabaseWrapper, commits: Sequence[Commit]) -> set[str]:
    """Apply a batch in one statement; the ids that were applied come back.

    A missing id was either lost to another worker, or a park or ending whose inbox has changed since the claim:
    `commit_locked` tells them apart.
    """
    parents = _parents(commits)
    padding: list[Any] = [None] * len(parents)
    params = {
        "ids": write_plain([one.claim.id for one in commits] + parents),
        "fences": write_plain([one.claim.fence for one in commits] + [0] * len(parents)),
        "kinds": write_plain([one.kind.value for one in commits] + [0] * len(parents)),
        "steps": write_texts([one.step for one in commits] + padding),
        "states": write_texts([one.state for one in commits] + padding),
        "results": write_texts([one.result for one in commits] + padding),
        "errors": write_texts([one.error for one in commits] + padding),
        "names": write_texts([None if one.names is None else write_texts(one.names) for one in commits] + padding),
        "delays": write_plain([one.delay for one in commits] + padding),
        "inboxes": write_plain([one.claim.inbox if one.inbox is None else one.inbox for one in commits] + padding),
        "signals": write_texts([write_plain(one.signals) for one in commits] + padding),
        "solos": write_plain([one.solo for one in commits] + padding),
        "children": write_plain([one.children for one in commits] + padding),
    }
    statement = _COMMIT
    if any(one.tells is not None for one in commits):
        statement = _COMMIT_TELLING
        params["tells"] = write_texts([one.tells for one in commits] + padding)
    asking = [one.claim.id for one in commits if one.claim.asked and one.kind in (Kind.DONE, Kind.STOP)]
    beside = [
        one
        for one in commits
        if one.rewind is not None or one.traceback is not None or one.claim.keep or one.claim.error is not None
    ]
    advancing = list_advancing([one.claim for one in commits])
    lines = _list_ending_lines(commits)
    moves = {one.claim.id: one.move for one in commits if one.move is not None}
    leaving = [one for one in commits if one.withdraws]
    if not (asking or beside or advancing or lines or moves or leaving):
        return {row[0] for row in fetch(db, statement, params)}
    with atomic(db):
        applied = {row[0] for row in fetch(db, statement, params)}
        keep_progress(db, advancing, applied)
        if moves := {id: move for id, move in moves.items() if id in applied}:
            move_places(db, moves)
        closed: list[UUID] = []
        if asking:
            closed += close_questions(db, [id for id in asking if id in applied])
        for one in leaving:
            if one.claim.id in applied:
                closed += withdraw_asks(db, one.claim.id, one.withdraws)
        for one in beside:
            if one.claim.id in applied and one.rewind is not None:
                closed += rewind_checkpoints(db, one.claim.id, one.rewind)
        if beside:
            keep_records(db, beside, applied)
        if ended := [one for one in commits if one.claim.id in lines and one.claim.id in applied]:
            failed = [one.claim.id for one in ended if one.kind is Kind.STOP]
            ended[0].units, cancelled = end_lines(db, [one.claim.id for one in ended], failed)
            closed += cancelled
        tell_closed(db, closed)
        return applied


def may_close(one: Commit) -> bool:
    """Whether a channel may have to hear of it: then it is committed where models write."""
    closes = (
        one.rewind is not None
        or bool(one.withdraws)
        or (one.claim.asked and one.kind in (Kind.DONE, Kind.STOP))
        or (one.kind is Kind.STOP and is_line(one.claim))
    )
    return bool(closes) and listens()


def ended_here(db: BaseDatabaseWrapper, elsewhere: BaseDatabaseWrapper, claim: Claim) -> bool:
    """Whether the instance has ended in this transaction only: by what its own step did, not by somebody else.

    Another connection tells; where there is none (in a test's drain) the careful answer is no.
    """
    if db is elsewhere:
        return False
    return [fetch(where, _ENDED, {"id": claim.id}) for where in (db, elsewhere)] == [[(True,)], [(False,)]]


def commit_locked(
    db: BaseDatabaseWrapper, commits: Sequence[Commit], *, outside: BaseDatabaseWrapper | None = None
) -> set[str]:
    """Apply outcomes under locks taken first, so that the inbox is read as it now is.

    Inside a step's own transaction, of which `outside` is not a part, an ending that has to become another run raises
    `CameLate`.
    """
    with atomic(db):
        inboxes = {
            row[0]: row[3]
            for row in fetch(db, _LOCK, {"lock": sorted({one.claim.id for one in commits} | set(_parents(commits)))})
        }
        _meet_latecomers(db, commits, inboxes, outside)
        if (
            outside is not None
            and (again := next((one for one in commits if one.kind is Kind.RERUN), None)) is not None
        ):
            raise CameLate(again)
        return commit(db, commits)


def commit_free(db: BaseDatabaseWrapper, commits: Sequence[Commit]) -> tuple[set[str], list[Commit]]:
    """Apply those whose rows nobody holds, waiting for none; the ids that were applied, and the others."""
    ids = sorted({one.claim.id for one in commits} | set(_parents(commits)))
    with atomic(db):
        inboxes = {row[0]: row[1] for row in fetch(db, _FREE, {"ids": ids})}
        free = [one for one in commits if one.claim.id in inboxes and set(_parents([one])) <= inboxes.keys()]
        if lines := _list_ending_lines(free):  # whoever answers an item holds its unit, and no instance
            unheld = list_free_lines(db, lines)
            free = [one for one in free if one.claim.id not in lines or one.claim.id in unheld]
        _meet_latecomers(db, free, inboxes)
        return (commit(db, free) if free else set()), [one for one in commits if one not in free]


def list_free(db: BaseDatabaseWrapper, ids: Sequence[str]) -> set[str]:
    """Those of these instances whose rows nobody holds just now, waiting for none."""
    return {row[0] for row in fetch(db, _FREE, {"ids": sorted(ids)})}


def lock_claim(db: BaseDatabaseWrapper, claim: Claim) -> bool:
    """Lock the instance and say whether the claim still holds; for work that ends in `commit`."""
    rows = fetch(db, _LOCK, {"lock": [claim.id]})
    return bool(rows) and rows[0][1] == claim.fence and rows[0][2] == RUNNING


def _meet_latecomers(
    db: BaseDatabaseWrapper,
    commits: Sequence[Commit],
    inboxes: Mapping[str, int],
    outside: BaseDatabaseWrapper | None = None,
) -> None:
    """Take over the inboxes as they are under the lock; an ending tells what came late, or becomes another run."""
    ending = []
    for one in commits:
        one.inbox = inboxes.get(one.claim.id, one.claim.inbox)
        if one.inbox != one.claim.inbox and one.kind in (Kind.DONE, Kind.STOP):
            ending.append(one)
    if not ending:
        return
    late = _count_late(db, ending)
    # What a step sends itself in its own transaction goes with it, and would come again in every run.
    lasting = late if outside is None else _count_late(outside, ending) if outside is not db else {}
    for one in ending:
        names = late.get(one.claim.id, {})
        if again := sorted(lasting.get(one.claim.id, {}).keys() & set(one.awaited)):
            _run_again(one, again)
        elif names:
            one.tells = _tell_unseen(one, names)


def _count_late(db: BaseDatabaseWrapper, ending: Sequence[Commit]) -> dict[str, dict[str, int]]:
    late: dict[str, dict[str, int]] = {}
    params = {"ids": [one.claim.id for one in ending], "seqs": [one.claim.seq for one in ending]}
    for id, name, count in fetch(db, _LATE, params):
        late.setdefault(str(id), {})[name] = count
    return late


def _run_again(one: Commit, names: list[str]) -> None:
    one.kind, one.tells, one.solo = Kind.RERUN, json.dumps(names), one.claim.solo
    one.step = one.state = one.result = one.error = None
    one.signals = []


def _tell_unseen(one: Commit, names: dict[str, int]) -> str:
    unseen = {"count": sum(names.values()), "names": list(names)[:MOST_NAMES]}
    if one.kind is Kind.STOP:
        return json.dumps({"error": one.error, "unseen": unseen})
    return json.dumps({"consumed": one.signals, "unseen": unseen})


def _list_ending_lines(commits: Sequence[Commit]) -> set[str]:
    return {one.claim.id for one in commits if one.kind in (Kind.DONE, Kind.STOP) and is_line(one.claim)}


def _parents(commits: Sequence[Commit]) -> list[str]:
    """Parents that an ending child will count down, and that are not themselves in the batch."""
    own = {one.claim.id for one in commits}
    ending = (one.claim.parent for one in commits if one.kind in (Kind.DONE, Kind.STOP) and not is_line(one.claim))
    return sorted({parent for parent in ending if parent is not None} - own)
