"""Whether those who are asked could decide at all: asked where it is written, and before anybody else is asked.

Must not live here: whether one person may (`reviews.case`). Invariant owned: nobody is asked whose answer would count
nowhere, and no rule is left to people who are too few for it.
"""

from __future__ import annotations

from collections.abc import Collection

from approvals.people.principals import USER
from approvals.rules import Quorum
from workflows.wording.messages import Listed, Reason, gettext_noop


def find_gap(
    quorum: Quorum,
    counted: Collection[str],
    asked: Collection[str],
    *,
    new: Collection[str] | None = None,
    is_final: bool = True,
    votes: int = 0,
) -> str:
    """Why these people could never decide, in words; empty where they could.

    `counted` are the groups by which the rule counts, `new` those of the asked who are to be asked now (all of them
    where it is not said), as principals; `votes` have been given by others. Not `is_final`: more may be asked later.

    >>> find_gap(Count(2), [], ["user:7"])
    '2 equal answers decide, and no more than 1 could be given: name more, or a group'
    >>> find_gap(Count(2), [], ["user:7", "group:1"])
    ''
    """
    if quorum.groups:
        # Whoever may veto is heard in no group too.
        is_heard = bool(quorum.vetoes) or set(asked if new is None else new) <= set(counted)
        if is_heard and set(counted) <= set(asked):
            return ""
        return Reason(gettext_noop("answers count by group here (%(groups)s)"), {"groups": Listed(quorum.groups)})
    needed = quorum.fixed_votes
    if needed is None or not is_final or not all(one.startswith(f"{USER}:") for one in asked):
        return ""
    if (reach := len(set(asked)) + votes) >= needed:
        return ""
    told = gettext_noop(
        "%(votes)s equal answers decide, and no more than %(reach)s could be given: name more, or a group"
    )
    return Reason(told, {"votes": needed, "reach": reach})


def find_rung_gap(
    quorum: Quorum, counted: Collection[str], asked: Collection[str], rungs: Collection[tuple[str, str]]
) -> str:
    """The same of those whom a ladder asks, rung by rung, as (what it does, whom it asks).

    >>> find_rung_gap(Count(2), [], ["user:7", "user:8"], [("reassign", "user:9")])
    '2 equal answers decide, and no more than 1 could be given: name more, or a group'
    """
    people, left = set(asked), list(rungs)
    while left:
        do, whom = left.pop(0)
        people = {whom} if do == "reassign" else people | {whom}
        if told := find_gap(quorum, counted, people, new=[whom], is_final=not left):
            return told
    return ""
