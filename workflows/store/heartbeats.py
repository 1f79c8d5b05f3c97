"""Heartbeats: which pumps are alive, which of them listen, and who plays a role that only one should.

Invariant owned: a role (the cluster's one lingering pump) is held by whoever beat last; a holder that
is stopped, killed or cut off loses it by silence alone. Of many requests for a pump only the latest
counts, so however many were queued, one goes round. A heartbeat ahead of the clock, which has then been
put back, is as silent as one far behind it.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import CLOCK, compact, fetch, write_texts

#: A watcher that pumps in need yields the role to a proper pump task at once.
_BEAT = compact(f"""
    INSERT INTO holdpoint_worker AS w (name, kind, holder, beat_at, started_at, idle, queues)
    VALUES (%(name)s, %(kind)s, %(holder)s, {CLOCK}, {CLOCK}, %(idle)s, %(queues)s::text[])
    ON CONFLICT (name) DO UPDATE SET beat_at = {CLOCK}, idle = excluded.idle, holder = excluded.holder,
      kind = excluded.kind, queues = excluded.queues,
      started_at = CASE WHEN w.holder = excluded.holder THEN w.started_at ELSE {CLOCK} END
    WHERE w.holder IN (excluded.holder, '')
      OR w.beat_at NOT BETWEEN {CLOCK} - %(silence)s * interval '1 s' AND {CLOCK} + %(silence)s * interval '1 s'
      OR (w.kind = 'watch' AND excluded.kind = 'cluster')
    RETURNING w.name
""")

#: A role keeps its row, without a holder: the watchers see a pause, not an absence.
_LEAVE = compact("""
    WITH role AS (
      UPDATE holdpoint_worker SET holder = '', idle = false
      WHERE name = %(name)s AND holder = %(holder)s AND kind IN ('cluster', 'watch') RETURNING name
    ), own AS (
      DELETE FROM holdpoint_worker WHERE name = %(name)s AND holder = %(holder)s AND kind = 'worker' RETURNING name
    )
    SELECT name FROM role UNION ALL SELECT name FROM own
""")

#: One watcher gets the answer true: it is to ask for a pump. Silence before the first ask is measured
#: from that ask, so a cluster that has just started is not suspected.
_SUSPECT = compact(f"""
    INSERT INTO holdpoint_worker AS w (name, kind, holder, beat_at, started_at, asked_at, idle)
    VALUES (%(name)s, %(kind)s, '', 'epoch', {CLOCK}, {CLOCK}, false)
    ON CONFLICT (name) DO UPDATE SET asked_at = {CLOCK}
    WHERE w.beat_at NOT BETWEEN {CLOCK} - %(silence)s * interval '1 s' AND {CLOCK} + %(silence)s * interval '1 s'
      AND (w.asked_at IS NULL
        OR w.asked_at NOT BETWEEN {CLOCK} - %(silence)s * interval '1 s' AND {CLOCK} + %(silence)s * interval '1 s')
    RETURNING extract(epoch FROM w.asked_at)::text
""")

#: The moment of asking is the ticket of the pump asked for: a later one makes it void.
_ASK = compact(f"""
    INSERT INTO holdpoint_worker AS w (name, kind, holder, beat_at, started_at, asked_at, idle)
    VALUES (%(name)s, %(kind)s, '', 'epoch', {CLOCK}, {CLOCK}, false)
    ON CONFLICT (name) DO UPDATE SET asked_at = {CLOCK} RETURNING extract(epoch FROM w.asked_at)::text
""")

_VOID = """
    SELECT 1 FROM holdpoint_worker w WHERE w.name = %(name)s AND extract(epoch FROM w.asked_at)::text <> %(ticket)s
"""

_SILENCE = compact(f"""
    SELECT abs(extract(epoch FROM {CLOCK} - greatest(w.beat_at, w.started_at)))::float8,
      abs(extract(epoch FROM {CLOCK} - w.asked_at))::float8
    FROM holdpoint_worker w WHERE w.name = %(name)s
""")

_ALIVE = compact(f"""
    SELECT w.name, w.kind, extract(epoch FROM {CLOCK} - w.beat_at)::float8 FROM holdpoint_worker w
    WHERE w.beat_at > {CLOCK} - %(silence)s * interval '1 s' ORDER BY w.name
""")

_SERVED = f"SELECT w.queues FROM holdpoint_worker w WHERE w.beat_at > {CLOCK} - %(silence)s * interval '1 s'"

_FORGET = f"DELETE FROM holdpoint_worker WHERE beat_at < {CLOCK} - interval '1 h' AND kind = 'worker' RETURNING name"


def beat(
    db: BaseDatabaseWrapper,
    name: str,
    kind: str,
    holder: str,
    *,
    idle: bool = False,
    silence: float = 3.0,
    queues: Collection[str] | None = None,
) -> bool:
    """Say "alive" under a name, and which queues are served, if not all.

    False when another holder beat under it within `silence` seconds.
    """
    served = None if queues is None else write_texts(sorted(queues))
    params = {"name": name, "kind": kind, "holder": holder, "idle": idle, "silence": silence, "queues": served}
    return bool(fetch(db, _BEAT, params))


def leave(db: BaseDatabaseWrapper, name: str, holder: str) -> None:
    """Give a name back at a clean end, so that a successor need not wait for silence."""
    fetch(db, _LEAVE, {"name": name, "holder": holder})


def suspect(db: BaseDatabaseWrapper, name: str, kind: str, *, silence: float = 3.0) -> str | None:
    """A ticket if the caller is the one to ask for a pump, because nobody beat and nobody asked lately."""
    rows = fetch(db, _SUSPECT, {"name": name, "kind": kind, "silence": silence})
    return rows[0][0] if rows else None


def ask(db: BaseDatabaseWrapper, name: str, kind: str) -> str:
    """Ask for a pump in any case; its ticket, which makes all earlier ones void."""
    ticket: str = fetch(db, _ASK, {"name": name, "kind": kind})[0][0]
    return ticket


def is_void(db: BaseDatabaseWrapper, name: str, ticket: str) -> bool:
    """Whether another pump was asked for after this ticket was given out."""
    return bool(fetch(db, _VOID, {"name": name, "ticket": ticket}))


def silence(db: BaseDatabaseWrapper, name: str) -> tuple[float | None, float | None]:
    """Seconds since the last heartbeat under the name, and since a pump was last asked for."""
    rows = fetch(db, _SILENCE, {"name": name})
    return (rows[0][0], rows[0][1]) if rows else (None, None)


def list_alive(db: BaseDatabaseWrapper, silence: float = 5.0) -> list[tuple[str, str, float]]:
    """Name, kind and age of the heartbeat of every pump that beat lately."""
    return [(row[0], row[1], row[2]) for row in fetch(db, _ALIVE, {"silence": silence})]


def list_served(db: BaseDatabaseWrapper, silence: float = 5.0) -> set[str] | None:
    """The queues that living workers serve; None where one of them serves all, and where none lives at all."""
    rows = fetch(db, _SERVED, {"silence": silence})
    if not rows or any(queues is None for (queues,) in rows):
        return None
    return {queue for (queues,) in rows for queue in queues}


def forget_silent(db: BaseDatabaseWrapper) -> int:
    """Remove the rows of workers that have been gone for an hour."""
    return len(fetch(db, _FORGET, {}))
