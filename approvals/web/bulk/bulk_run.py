"""Doing the same to many requests: each by itself, within a time that a browser waits for.

Must not live here: which requests, and any rule about who may what: every one goes through the call that a single
decision goes through. Invariants owned: one that is refused or fails leaves the others be; what was not begun in time
was not touched; nothing is decided that was not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Literal
from uuid import UUID

from django.db.models import Count
from django.utils.text import capfirst
from django.utils.translation import gettext

from approvals.cards.refusal_message import tell_refusal
from approvals.cards.status import describe_status, tell_decision, tell_outcome
from approvals.conf import conf
from approvals.deciding.decisions import Recorded, decide
from approvals.deciding.undo_window import undo
from approvals.exceptions import AlreadyDecided, ApprovalError, NotAllowed, Stale
from approvals.models import Review, Vote
from approvals.people.person import Person
from approvals.reviews.case import Case
from approvals.rules.door import Door
from workflows.exceptions import WorkflowError
from workflows.wording.punctuation import end_sentence

#: Seconds after which no further one is begun; the slowest one comes on top.
SECONDS = 15.0
#: Seconds that few of them may take, and each of them more: so much longer the first can be undone than one alone.
FEW, EACH = 3.0, 0.1
DOOR = "page"

logger = logging.getLogger("approvals")


@dataclass(frozen=True, slots=True)
class Pick:
    """One of them, as it was shown."""

    id: UUID
    version: int
    seen: str | None
    #: How often they had taken back a decision of theirs about it.
    undone: int = 0


@dataclass(frozen=True, slots=True)
class Came:
    """What became of one."""

    #: "left": it stays as it was; "before": somebody had decided it; "waits": its turn did not come.
    kind: Literal["done", "undone", "left", "before", "waits"]
    told: str
    #: The answer that was given, as an adjective: "approved".
    how: str = ""
    #: Until when it can be undone.
    until: datetime | None = None
    can_undo: bool = False
    #: Whether the sentence asks to look at what has changed.
    is_stale: bool = False


def decide_each(
    picks: Iterable[Pick], outcome: str, *, actor: Person, reason: str, data: Mapping[UUID, Any]
) -> dict[UUID, Came]:
    """Give all of them the same answer, as they were shown.

    >>> [one.kind for one in decide_each(picks, "approve", actor=ann, reason="", data={}).values()]
    ['done', 'left']
    """

    wanted = {pick.id: pick for pick in picks}
    end = monotonic() + (min(SECONDS, FEW + EACH * len(wanted)) if conf.undo_seconds > 0 else SECONDS)

    def decide_one(pick: Pick) -> Came:
        if count_undone([pick.id], actor).get(pick.id, 0) != pick.undone:
            # The same form once more, after all of it was undone: a browser's reload must not decide again.
            return Came("left", gettext("You have undone your decision since this was shown: look at it again."))
        door = Door(DOOR, via_bulk=True, saw_diff=False, has_reauthenticated=False, seen=pick.seen)
        recorded = decide(
            pick.id,
            outcome,
            actor=actor,
            reason=reason,
            data=data.get(pick.id),
            version=pick.version,
            # So that when the last one is decided the first can still be undone, as long as one that is alone.
            grace=timedelta(seconds=max(0.0, end - monotonic())),
            door=door,
        )
        return _tell(recorded)

    waits = Came("waits", gettext("Its turn did not come: it is still ticked. Send the rest now."))
    return _do_each(wanted, decide_one, waits, end, actor=actor, told_before=("grace", "voted"))


def count_undone(ids: Collection[UUID], user: Person) -> dict[UUID, int]:
    """How often somebody has taken back a decision of theirs, by review."""
    fallen = Vote.objects.filter(review_id__in=ids, user_id=user.pk, standing=False)
    return dict(fallen.order_by().values_list("review_id").annotate(n=Count("pk")))


def undo_each(ids: Iterable[UUID], *, actor: Person) -> dict[UUID, Came]:
    """Take back all of them that can still be taken back."""

    def undo_one(id: UUID) -> Came:
        undo(id, actor=actor, door=Door(DOOR, via_bulk=True))
        return Came("undone", gettext("Undone. Nothing was carried out."))

    waits = Came("waits", gettext("Its turn did not come: undo the rest now."), can_undo=True)
    return _do_each({id: id for id in ids}, undo_one, waits, monotonic() + SECONDS, actor=actor)


def _do_each(
    wanted: Mapping[UUID, Any],
    do: Callable[[Any], Came],
    waits: Came,
    end: float,
    *,
    actor: Person,
    told_before: Container[str] = (),
) -> dict[UUID, Came]:
    """The first one is always begun, so that whoever sends the rest again gets on.

    `waits` is said of those that were not begun in time; `told_before` are the rules that forbid it because somebody
    has decided.
    """
    came: dict[UUID, Came] = {}
    for number, (id, one) in enumerate(wanted.items()):
        if number and monotonic() >= end:
            came[id] = waits
            continue
        try:
            came[id] = do(one)
        except (ApprovalError, WorkflowError) as refused:
            came[id] = _explain(refused, id, actor, told_before)
        except Exception:
            logger.exception("a request could not be dealt with together with others: %s", id)
            told = gettext("It could not be done, and nothing was changed: try again, or ask whoever runs this site.")
            came[id] = Came("left", told)
    return came


def _tell(recorded: Recorded) -> Came:
    answer = recorded.vote.outcome if recorded.vote is not None else recorded.outcome
    case = Case(recorded.review)
    how = tell_decision(case, answer)
    if recorded.state == "open":
        told = gettext("%(how)s, others still have to decide") % {"how": capfirst(tell_outcome(case, answer))}
        return Came("done", told, how, can_undo=True)
    return Came("done", capfirst(how), how, recorded.effective_at, can_undo=recorded.state == "grace")


def _explain(refused: Exception, id: UUID, actor: Person, told_before: Container[str]) -> Came:
    """A refusal, in the words of a single one; who was quicker, in those of the request's own page."""
    review = Review.objects.filter(pk=id).first()
    if review is None:
        return Came("left", gettext("This no longer waits for a decision."))
    rule = refused.obstacle.rule if isinstance(refused, NotAllowed) else ""
    if isinstance(refused, AlreadyDecided) or (rule == "grace" and rule in told_before):
        is_own = review.open and review.decided_by_id == actor.pk
        told = end_sentence(describe_status(review, actor))
        return Came("before", told, until=review.effective_at, can_undo=is_own)
    kind: Literal["before", "left"] = "before" if rule in told_before else "left"
    return Came(kind, tell_refusal(refused, review), is_stale=isinstance(refused, Stale))
