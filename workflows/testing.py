"""Testing workflows in an ordinary `django_db` test: no threads, no sleeping, no committed rows.

    instance = workflows.start("Ship", {"order": 1})
    drain()
    assert_awaiting(instance, "payment_confirmed")
    advance("24h")
    assert_failed(instance)

Everything runs on the test's own connection and is rolled back with the test, the moved clock too.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils import timezone
from psycopg.pq import TransactionStatus

from workflows import engine, store
from workflows.conf import conf
from workflows.definitions.awaited_event import EVENT
from workflows.definitions.awaited_kinds import ASKED, END
from workflows.definitions.question import UNIT
from workflows.definitions.sweeps import Sweep, list_sweeps
from workflows.engine.author_calls import Host
from workflows.engine.lanes.flow_claims import FlowClaims
from workflows.engine.lanes.lane_search import FOREVER
from workflows.exceptions import InvalidCall, show
from workflows.lifecycle import ASKS, TERMINAL, InteractionStatus, Status
from workflows.models import Checkpoint, EventWait, Instance, Interaction
from workflows.store.sql import CLOCK
from workflows.values.durations import parse_delay

MAX_STEPS = 100_000
LEASE = 3600.0
#: After so many steps deadlines and sweeps are looked at, though there is more to run: one of them may end it.
STEPS_BETWEEN_LOOKS = 50
#: Instances that a message about leftovers names.
LEFTOVERS_SHOWN = 5
#: The sweep that fires schedules.
SCHEDULES = "schedules"


def drain(
    *, max_steps: int = MAX_STEPS, queues: Collection[str] | None = None, schedules: bool = True
) -> dict[str, int]:
    """Run everything that is due; how often each outcome came ("next", "await", "done" …).

    What is due in other apps (their sweeps: reminders, notices …) is done too: first, every 50 steps, and when no step
    is left. With `queues` only instances of these are run, as by `workflow_worker --queue`.

    >>> drain()
    {'await': 1}
    """
    counts, _ = _drain(max_steps, queues, schedules=schedules)
    return dict(counts)


def advance(duration: object, *, schedules: bool = True) -> dict[str, int]:
    """Move the engine's time forward and run what became due, deadlines and ticks of schedules in their order.

    Where a test is about something else, `schedules=False` leaves schedules alone.

    >>> advance("24h")
    {'stop': 1}
    """
    db = _db()
    left = parse_delay(duration)
    if not db.in_atomic_block:
        raise InvalidCall(
            "advance() moves the clock for the current transaction, and there is none: use an ordinary "
            "django_db test (no transaction=True), which rolls the moved clock back with everything else"
        )
    counts, idle = _drain(schedules=schedules)
    while left > 0:
        # One deadline at a time: what a step arms on its way must fire at its own moment too.
        due = _find_next(db, idle if schedules else idle | {SCHEDULES})
        stride = left if due is None else min(left, max(due, 0.0) + 0.001)
        _skew(db, stride)
        left -= stride
        more, idle = _drain(schedules=schedules)
        counts.update(more)
    return dict(counts)


def advance_to(moment: object, *, schedules: bool = True) -> dict[str, int]:
    """Move the engine's time forward to a moment, and run what became due on the way.

    >>> advance_to(datetime(2126, 1, 1, 9, tzinfo=timezone.get_current_timezone()))
    {}
    """
    if not isinstance(moment, datetime) or timezone.is_naive(moment):
        raise InvalidCall(f"advance_to() takes a datetime with a time zone, not {show(moment)}")
    sql = "SELECT extract(epoch FROM %(moment)s - holdpoint_now())::float8"
    [(seconds,)] = store.fetch(_db(), sql, {"moment": moment})
    if seconds < 0:
        raise InvalidCall(f"advance_to({moment.isoformat()}) is in the past: the clock moves forward only")
    return advance(seconds, schedules=schedules)


def assert_awaiting(instance: Any, *names: str) -> Instance:
    """The instance is parked, on exactly these names if any are given."""
    found = _reload(instance)
    assert found.status == Status.AWAITING, _told(found, "awaiting")
    if names:
        known = _aliases(found)
        told = sorted(min(known[name]) for name in known)
        matched = len(names) == len(known) and all(known.values()) and _covers(known, names)
        assert matched, f"{found!r} awaits {told}, not {sorted(names)}"
    return found


def assert_open(instance: Any, ids: Iterable[str]) -> Instance:
    """The instance has exactly these questions open, by the ids of `ctx.ask` and of waits; parked on them or not.

    Those of its branches, and of the lines of its items, are its own.

    >>> _ = assert_open(instance, [])
    """
    found = _reload(instance)
    if isinstance(ids, str):
        raise InvalidCall(f'assert_open takes a list of ids: assert_open(instance, ["{ids}"])')
    known = _list_open(found)
    assert known == set(ids), f"{found!r} has {sorted(known)} open, not {sorted(set(ids))}"
    return found


_ANY = object()


def assert_done(instance: Any, result: Any = _ANY) -> Instance:
    """The instance is done, with this result if one is given."""
    found = _reload(instance)
    assert found.status == Status.DONE, _told(found, "done")
    if result is not _ANY:
        assert found.result == result, f"{found!r} has result {found.result!r}, not {result!r}"
    return found


def assert_failed(instance: Any, reason: str = "") -> Instance:
    """The instance failed, with this text in its reason if one is given."""
    found = _reload(instance)
    assert found.status == Status.FAILED, _told(found, "failed")
    assert reason in (found.error or ""), f"{found!r} failed with {found.error!r}, not {reason!r}"
    return found


def assert_no_leftovers() -> None:
    """Nothing is left that a worker would run at once: each instance waits, sleeps or has ended."""
    db = _db()
    if db.needs_rollback or _is_broken(db):
        return  # the test has met an error on purpose, and there is nothing more to be read
    rows = Instance.objects.using(db.alias).filter(status__in=(Status.RUNNABLE, Status.RUNNING)).order_by("id")
    left = list(rows[: LEFTOVERS_SHOWN + 1])
    if left:
        more = " …" if len(left) > LEFTOVERS_SHOWN else ""
        shown = ", ".join(f"{one!r} ({one.status} in step {one.step!r})" for one in left[:LEFTOVERS_SHOWN])
        raise AssertionError(
            f"the test leaves instances that nobody has run: {shown}{more}. Call drain() before its end, or mark the "
            "test with @pytest.mark.workflows_leftovers(False)"
        )


def _aliases(found: Instance) -> dict[str, set[str]]:
    """What each awaited name may be called: an event by its name, a question by its signal id or the wait's id."""
    aliases: dict[str, set[str]] = {}
    for name in found.names or []:
        if name == ASKED or name.startswith(f"{ASKED}:"):
            continue  # several open questions: the mark of such a wait, and no name
        aliases[name] = {name}
        if name.startswith(END):
            asked = Checkpoint.objects.filter(instance=found, child=name[len(END) :], settled=False)
            aliases[name] = {name[len(END) :], *asked.values_list("name", flat=True)}
        elif name.startswith(UNIT):
            one = Interaction.objects.select_related("unit").filter(unit_id=name[len(UNIT) :]).first()
            aliases[name] = {one.signal_id, one.unit.step} if one else {name}
        elif name.startswith(EVENT):
            aliases[name] = set(EventWait.objects.filter(pk=name[len(EVENT) :]).values_list("event", flat=True))
    return aliases


def _covers(known: dict[str, set[str]], names: tuple[str, ...]) -> bool:
    return all(any(name in calls for calls in known.values()) for name in names) and all(
        calls & set(names) for calls in known.values()
    )


def _list_open(found: Instance) -> set[str]:
    """The ids of what is asked and neither answered nor past its time."""
    lines = Instance.objects.live().filter(parent=found, unit__isnull=False)
    those = [found.pk, *lines.values_list("pk", flat=True)]
    pending = Interaction.objects.filter(instance__in=those, status=InteractionStatus.PENDING, queued=False)
    known = set(pending.values_list("unit__step", flat=True))
    [(now,)] = store.fetch(_db(), f"SELECT {CLOCK}", {})
    asked = Checkpoint.objects.filter(instance__in=those, kind__in=ASKS, unit=None, settled=False, position__gte=0)
    known |= set(asked.exclude(deadline__lte=now).values_list("name", flat=True))
    return known if found.status not in TERMINAL else set()


def _is_broken(db: BaseDatabaseWrapper) -> bool:
    raw: Any = db.connection
    return raw is not None and raw.info.transaction_status == TransactionStatus.INERROR


def _drain(
    max_steps: int = MAX_STEPS, queues: Collection[str] | None = None, *, schedules: bool = True
) -> tuple[Counter[str], set[str]]:
    """How often each outcome came, and the sweeps that are due and do nothing about it."""
    conf.supplies_links = True
    db = _db()
    host = Host(db, db.alias, savepoints=True)
    flow = FlowClaims(queues, patience=FOREVER)
    flow.refresh(db)
    counts: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for ran in itertools.count():
        claims = _claim(db, flow) if ran % STEPS_BETWEEN_LOOKS else []
        if not claims:  # as a pump: what can run runs first, and now and then what time has made due
            idle = _sweep(db, calls, max_steps, schedules=schedules)  # before deadlines are looked at
            _wake(db)
            claims = _claim(db, flow)
        if not claims:
            return counts, idle
        if ran == max_steps:
            store.release(db, claims)
            break
        counts[_run(claims[0], host)] += 1
    raise AssertionError(
        f"drain() ran {max_steps} steps and there is still work: does a workflow never end? So far: {dict(counts)}"
    )


def _claim(db: BaseDatabaseWrapper, flow: FlowClaims) -> list[store.Claim]:
    """The next one: of a priority above 0, else a plain one, else what else waits in lanes."""
    if flow.is_active() and (claims := _claim_of_lanes(db, flow, [one for one in flow.look(db) if one.priority > 0])):
        return claims
    kept = flow.list_kept()
    while kept and store.adopt_plain(db, kept):
        pass
    if flow.serves_default and (claims := store.claim(db, 1, lease=LEASE, kept=kept)):
        return claims
    flow.refresh(db, patience=0.0)
    lanes = flow.look(db) if flow.is_active() else []
    claims = _claim_of_lanes(db, flow, lanes)
    while not claims and lanes and (lanes := flow.look_on(db)):
        claims = _claim_of_lanes(db, flow, lanes)
    return claims


def _claim_of_lanes(db: BaseDatabaseWrapper, flow: FlowClaims, lanes: list[store.Lane]) -> list[store.Claim]:
    """One of many: what keeps the first of them back may not keep the others."""
    for share in (1, len(lanes)):
        if claims := flow.take(db, lanes, share, LEASE) if lanes else []:
            if len(claims) > 1:
                store.release(db, claims[1:])
            return claims[:1]
    return []


def _sweep(db: BaseDatabaseWrapper, calls: Counter[str], max_calls: int, *, schedules: bool) -> set[str]:
    """Do what is due in other apps, and what that makes due, until there is nothing or nothing helps."""
    while True:
        sweeps = [one for one in list_sweeps() if schedules or one.name != SCHEDULES]
        due = [one for one in sweeps if (seconds := one.seconds_to_next(db)) is not None and seconds <= 0]
        if not sum(_work_off(one, calls, max_calls) for one in due):
            return {one.name for one in due}


def _work_off(sweep: Sweep, calls: Counter[str], max_calls: int) -> int:
    """How much was done."""
    worked = 0
    while (done := sweep.work()) > 0:
        worked += done
        calls[sweep.name] += 1
        if calls[sweep.name] > max_calls:
            raise AssertionError(
                f"drain() called the sweep {sweep.name!r} {max_calls} times and it still finds something to do: does "
                "its work never get done? It should return 0 when nothing is due any more"
            )
    return worked


def _find_next(db: BaseDatabaseWrapper, idle: set[str]) -> float | None:
    """Seconds until the engine or a sweep has something due.

    A sweep that has just done nothing about what is due would hold the clock for ever: it does not count.
    """
    sweeps = [one.seconds_to_next(db) for one in list_sweeps() if one.name not in idle]
    return min((one for one in [store.seconds_to_next(db), *sweeps] if one is not None), default=None)


def _run(claim: store.Claim, host: Host) -> str:
    result = engine.run(claim, host)
    if isinstance(result, store.RunEnd):
        events = _reload(claim.id).events
        last = events.last()
        return _WORDS.get(str(last.kind), "lost") if last else "lost"
    engine.settle(host.db, [result])
    # How it parks is the engine's business: to the author it is an await.
    return "await" if result.kind is store.Kind.SUSPEND else result.kind.name.lower()


_WORDS = {
    "spawned": "spawn",
    "advanced": "next",
    "parked": "await",
    "retried": "retry",
    "failed": "stop",
    "done": "done",
    "suspended": "await",
}


def _wake(db: BaseDatabaseWrapper) -> None:
    while store.expire_due(db) or store.reclaim(db):
        pass


def _skew(db: BaseDatabaseWrapper, seconds: float) -> None:
    """Add to how far the two clock functions are ahead; the test's rollback restores them.

    Their bodies are replaced once and read a setting of the transaction from then on: after each new body PostgreSQL
    plans every statement anew.
    """
    [(shift, body)] = store.fetch(db, _READ_SKEW, {})
    skew = f"{shift + seconds:.6f} s"
    blocks = db.atomic_blocks
    lasts = bool(blocks) and getattr(blocks[0], "_from_testcase", False)  # what a test commits outlives the setting
    if lasts:
        store.fetch(db, "SELECT set_config(%(name)s, %(skew)s, true)", {"name": _SKEW, "skew": skew})
        if _SKEW in body:
            return
    with db.cursor() as cursor:
        for name, moment, volatility in (
            ("holdpoint_now", "statement_timestamp()", "STABLE"),
            ("holdpoint_clock", "clock_timestamp()", "VOLATILE"),
        ):
            ahead = f"current_setting(''{_SKEW}'')::interval" if lasts else f"interval ''{skew}''"
            moved = f"SELECT {moment} + {ahead}"
            cursor.execute(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS timestamptz LANGUAGE sql {volatility} AS '{moved}'"
            )


#: The setting that says how far the clock is ahead.
_SKEW = "holdpoint.skew"
_READ_SKEW = """
    SELECT extract(epoch FROM holdpoint_now() - statement_timestamp())::float8,
      (SELECT prosrc FROM pg_proc WHERE oid = 'holdpoint_clock()'::regprocedure)
"""


def _reload(instance: Any) -> Instance:
    found: Instance = Instance.objects.using(_db().alias).get(pk=getattr(instance, "pk", instance))
    return found


def _told(found: Instance, expected: str) -> str:
    error = f" with {found.error!r}" if found.error else ""
    return f"{found!r} is {found.status}{error} in step {found.step!r}, not {expected}"


def _db() -> BaseDatabaseWrapper:
    return connections[router.db_for_write(Instance)]
