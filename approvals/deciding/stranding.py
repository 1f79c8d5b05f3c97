"""Approvals that nobody can decide any more, because those who were asked by name have left.

Lives here: finding them, telling of them, and asking the next of their ladder at once. Must not live here: whether
anybody can decide (`case`). Invariants owned: only reviews that ask somebody whose account was closed, deleted or
opened again since the last look are judged, never all that wait; each under the locks of a decision and by what is
true there, so two who look at once do it once; who was asked and has left is remembered with the candidate's row, so a
process that dies forgets nothing.
"""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import Any
from uuid import UUID

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db.backends.base.base import BaseDatabaseWrapper

from approvals.deciding.effects import TIME
from approvals.deciding.timers import climb
from approvals.exceptions import UnknownReview
from approvals.models import writer
from approvals.people.principals import USER, is_key, list_active
from approvals.reviews.electorate import is_stranded
from approvals.reviews.held_case import HeldCase, open_case
from approvals.rules.escalation import Rung, load_rungs
from workflows import store
from workflows.api.completions import owned_answers
from workflows.lifecycle import Event

logger = logging.getLogger("approvals")

#: How often a pump looks.
EVERY_SECONDS = 60.0
#: Reviews of one turn.
BATCH = 100
#: Of more than so many the metric tells so many.
MOST_COUNTED = 10_000
#: What the ladder does at once. Its answer keeps the moment that was promised: who left may come back until then.
_ASKS = frozenset({"add", "reassign"})

#: Each user who is asked, once: from one to the next by a partial index, however many rows each has.
_STEPS = """
    (SELECT principal FROM holdpoint_candidate WHERE {rows} ORDER BY principal LIMIT 1) UNION ALL
    SELECT (SELECT principal FROM holdpoint_candidate WHERE {rows} AND principal > {name}.principal
      ORDER BY principal LIMIT 1) FROM {name} WHERE {name}.principal IS NOT NULL
"""
_ROWS = "open AND gone_at IS {null} AND principal LIKE 'user:%%'"
#: A review that is being decided waits for the end of its grace. The account is looked up by its key: without the LIMIT
#: a plan may read all accounts instead.
_MOVED = """
    (SELECT c.review_id FROM {name} m CROSS JOIN LATERAL (
      SELECT c.review_id FROM holdpoint_candidate c JOIN holdpoint_review r ON r.id = c.review_id
      WHERE c.open AND c.gone_at IS {null} AND c.principal LIKE 'user:%%' AND c.principal = m.principal
        AND r.open AND r.effective_at IS NULL LIMIT %(most)s) c
    WHERE m.principal IS NOT NULL AND (SELECT true FROM ({active}) a (key) WHERE a.key = {key} LIMIT 1) IS {wanted}
    LIMIT %(most)s)
"""
_COUNT = """
    SELECT count(*) FROM (SELECT 1 FROM holdpoint_review r WHERE r.open AND r.stranded_at IS NOT NULL {where}
      LIMIT %(most)s) r
"""


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """0 where somebody who is asked has left, or is back; else nothing is known to come."""
    if not apps.is_installed("approvals"):
        return None  # a test that has the engine's tables only
    return 0.0 if _list_moved(db, 1) else None


def work() -> int:
    """Look at reviews that ask somebody who has left or is back; at how many. One that fails does not keep the
    others."""
    done = 0
    for id in _list_moved(owned_answers.reach(), BATCH):
        try:
            done += store.in_transaction(owned_answers.reach(), partial(look, id))
        except UnknownReview:
            continue  # pruned meanwhile
        except Exception:
            logger.exception("review %s could not be looked at after somebody left; it is tried again", id)
    return done


def count_stranded(db: BaseDatabaseWrapper, workspace: int | None) -> float:
    """How many wait for nobody, in one workspace or in all (None)."""
    where = "" if workspace is None else "AND r.workspace_id = %(workspace)s"
    params = {"most": MOST_COUNTED, "workspace": workspace}
    return float(store.fetch(db, _COUNT.format(where=where), params)[0][0])


def look(id: UUID) -> bool:
    """Write down who of those asked has left, and what follows from that; whether that was anything new."""
    case = open_case(id)
    review = case.review
    if not review.open or review.effective_at is not None:
        return False
    is_new = _note_who_left(case)
    while (is_lost := is_stranded(case)) and (rung := _find_asking(case)) is not None:
        climb(case, rung)
        case, is_new = HeldCase(review, case.held), True
    if is_lost is (review.stranded_at is not None):
        return is_new
    if is_lost:
        _tell(case)
    else:
        writer.update_review(review, stranded_at=None)
    return True


def _note_who_left(case: HeldCase) -> bool:
    model: Any = get_user_model()
    asked = {one.principal: one for one in case.candidates if one.principal.startswith(f"{USER}:")}
    keys = {name: model._meta.pk.to_python(key) for name in asked if is_key(model, key := name.partition(":")[2])}
    active = set(list_active().filter(pk__in=keys.values()).values_list("pk", flat=True))
    left = [name for name, one in asked.items() if one.gone_at is None and keys.get(name) not in active]
    back = [name for name, one in asked.items() if one.gone_at is not None and keys.get(name) in active]
    writer.mark_gone(case.review, left, at=case.now)
    writer.mark_gone(case.review, back, at=None)
    return bool(left or back)


def _find_asking(case: HeldCase) -> Rung | None:
    rungs = load_rungs(case.review.rungs or [])
    return next((one for one in rungs[case.review.rung :] if one.action.do in _ASKS), None)


def _tell(case: HeldCase) -> None:
    review = case.review
    writer.update_review(review, stranded_at=case.now)
    owned_answers.record(case.held, Event.HANDLED, {"what": "stranded"}, actor=TIME)
    to = [] if review.requester_id is None else [f"{USER}:{review.requester_id}"]
    writer.insert_notice(review, "stranded", at=case.now, to=to)
    logger.warning(
        "review %s: nobody can decide it any more, because those asked have left or may not: reassign it, or withdraw "
        "it",
        review.pk,
    )


def _list_moved(db: BaseDatabaseWrapper, most: int) -> list[UUID]:
    active, given = list_active().values("pk").query.get_compiler(connection=db).as_sql()
    params = {f"p{n}": one for n, one in enumerate(given)}
    named = active.replace("%%", "%%%%") % tuple(f"%({name})s" for name in params)
    found = store.fetch(db, _write(named), {"most": most, **params})
    return [id for (id,) in found]


@cache
def _write(active: str) -> str:
    arms = []
    for name, null, wanted in (("here", "NULL", "NULL"), ("gone", "NOT NULL", "NOT NULL")):
        arms.append(_MOVED.format(name=name, null=null, wanted=wanted, active=active, key=_write_key()))
    parts = (
        f"{name} (principal) AS ({_STEPS.format(name=name, rows=_ROWS.format(null=null))})"
        for name, null in (("here", "NULL"), ("gone", "NOT NULL"))
    )
    return f"WITH RECURSIVE {', '.join(parts)} SELECT review_id FROM ({' UNION '.join(arms)}) f LIMIT %(most)s"


def _write_key() -> str:
    """The key in a principal as the users' table has it; NULL where it cannot be one."""
    text, kind = f"substr(m.principal, {len(USER) + 2})", get_user_model()._meta.pk.get_internal_type()
    if kind == "UUIDField":
        return f"CASE WHEN {text} ~ '^[0-9a-f-]{{36}}$' THEN {text}::uuid END"
    if "Auto" in kind or "Integer" in kind:
        return f"CASE WHEN {text} ~ '^[0-9]{{1,18}}$' THEN {text}::bigint END"
    return text
