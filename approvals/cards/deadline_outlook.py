"""What happens when nobody decides: the rungs to come and the end of the wait, as a sentence.

Invariant owned: it is always said, also where the answer is that nothing happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext

from approvals.display.times import show_when
from approvals.display.values import MAX_NAME, show_text
from approvals.reviews.case import Case
from approvals.rules.escalation import Rung, describe_action, load_rungs, name_target


@dataclass(frozen=True, slots=True)
class Ending:
    """One thing that happens if nobody decides, and when."""

    what: str
    #: None: at no time.
    at: datetime | None


def list_endings(case: Case) -> tuple[Ending, ...]:
    """What happens if nobody decides, in its order: who is asked then, and how it ends.

    >>> [ending.what for ending in list_endings(Case(review))]
    ['Handed on to Ana Ruiz', 'Answered “Reject” automatically']
    """
    review, deadline = case.review, case.review.interaction.deadline
    stored = review.rungs or []
    rungs = [rung for rung in load_rungs(stored)[review.rung :] if deadline is None or rung.at < deadline]
    told = []
    if step := next((rung for rung in rungs if rung.action.do in ("reassign", "add")), None):
        told.append(_tell(case, step, stored[step.index].get("principal", "")))
    if answer := next((rung for rung in rungs if rung.action.do == "outcome"), None):
        told.append(_tell(case, answer, ""))
    elif deadline is not None:
        told.append(Ending(gettext("The wait ends without an answer"), deadline))
    elif not told:
        told.append(Ending(gettext("It waits until somebody decides"), None))
    return tuple(told)


def tell_endings(endings: Iterable[Ending], now: datetime) -> str:
    """The same as sentences.

    >>> tell_endings(list_endings(case), case.now)
    'Answered “Reject” automatically tomorrow at 12:00.'
    """
    return " ".join(_tell_sentence(one, now) for one in endings)


def _tell(case: Case, rung: Rung, principal: str) -> Ending:
    action = rung.action
    if principal:
        action = name_target(action.do, principal, show_text(case.read_names([principal])[principal], MAX_NAME))
    return Ending(describe_action(action, case.outcomes), rung.at)


def _tell_sentence(ending: Ending, now: datetime) -> str:
    if ending.at is None:
        return gettext("%(what)s.") % {"what": ending.what}
    return gettext("%(what)s %(when)s.") % {"what": ending.what, "when": show_when(ending.at, now)}
