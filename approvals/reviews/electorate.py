"""Who may still vote about a review, and what the votes amount to against them.

Lives here: counting people and votes of one case. Must not live here: what a rule makes of the figures
(`counting`). Invariant owned: whoever can never vote is not waited for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Count, Exists, Q, QuerySet

from approvals.models import Candidate, Vote
from approvals.people.person import Person
from approvals.people.principals import GROUP, USER, list_active, list_users
from approvals.reviews.case import Case, read_key
from approvals.rules import Ballot, Electorate, Verdict, judge
from approvals.rules.feasibility import find_gap
from workflows.conf import conf as engine_conf
from workflows.models import Workspace


def count_votes(case: Case, votes: Sequence[Vote]) -> Verdict:
    """What these votes amount to, against who may vote now.

    >>> count_votes(case, case.votes).state
    'open'
    """
    return _judge(case, votes, is_final=_is_final(case))


def keep_members(case: Case, users: QuerySet[Any]) -> QuerySet[Any]:
    """Of these users the members of the review's workspace."""
    if engine_conf.workspaces_for is not None:
        return users.filter(pk__in=[user.pk for user in users if case.is_member(user)])
    others = Workspace.objects.exclude(pk=case.review.workspace_id)
    members = list_active().filter(holdpoint_workspaces=case.review.workspace_id)
    return users.filter(Q(pk__in=members.values("pk")) | ~Exists(others))


def find_case_gap(case: Case, asked: Collection[str], *, keep: bool) -> str:
    """Why nothing could be decided if these were asked from now on (with `keep`, as well), in words; or nothing."""
    voted = {f"{USER}:{key}" for vote in case.votes for key in (vote.user_id, vote.on_behalf_of_id)}
    people = {*asked, *(one.principal for one in case.candidates if keep)} - voted
    counted = [f"{GROUP}:{key}" for key in case.groups.values()]
    return find_gap(case.quorum, counted, people, new=asked, is_final=not _grows(case), votes=len(case.votes))


def may_any_decide(case: Case, principal: str) -> bool:
    """Whether anybody of these may decide: not where all of them have left, say, or asked for it themselves."""
    return any(not case.is_barred(user) for user in keep_members(case, list_users([principal])))


def has_some_decider(case: Case, principals: Iterable[str]) -> bool:
    """Whether any of these may decide, before anybody has; in one statement."""
    users = keep_members(case, list_users(principals))
    if case.review.four_eyes:
        place, step = case.review.stage
        votes = Vote.objects.filter(family=case.review.root, standing=True, user__isnull=False)
        earlier = votes.exclude(step=step, place=place)
        users = users.exclude(pk=case.review.requester_id).exclude(pk__in=earlier.values("user_id"))
    return users.exists()


def is_stranded(case: Case) -> bool:
    """Whether nobody can decide it any more, as far as people asked by name go: they have left, or may not.

    Groups, permissions and rules are live: somebody may join. Where votes were given and no rung is to come, time
    answers what they amount to.
    """
    if not case.candidates or not all(one.principal.startswith(f"{USER}:") for one in case.candidates):
        return False
    if case.votes and not _grows(case):
        return False
    return _judge(case, case.votes, is_final=True).state == "lost"


def may_be_stranded(case: Case) -> bool:
    """Whether nobody may be left to decide it, as far as the rows tell that were read anyway; False where those are
    enough to know that somebody is."""
    review = case.review
    if not review.open or review.effective_at is not None:
        return False
    if review.stranded_at is not None:
        return True
    fixed = case.quorum.fixed_votes
    needed = 1 if fixed is None else fixed - len(case.votes)
    asked = case.list_asked()
    people = case.read_people(asked)
    free = [one for one in asked if one.partition(":")[0] != USER or _is_free(case, people.get(one))]
    return len(free) < min(needed, len(asked))


def are_all_gone(case: Case) -> bool:
    """Whether everybody whom a page names of those asked has left."""
    asked = case.list_asked()
    people = case.read_people(asked)
    return not any((user := people.get(one)) is not None and user.is_active for one in asked)


def _judge(case: Case, votes: Sequence[Vote], *, is_final: bool) -> Verdict:
    ballots = [Ballot(vote.user_id, vote.outcome, frozenset(vote.groups)) for vote in votes]
    return judge(case.quorum, case.outcomes, ballots, _count_electorate(case, votes), final=is_final)


def _count_electorate(case: Case, votes: Sequence[Vote]) -> Electorate:
    gone = {key for vote in votes for key in (vote.user_id, vote.on_behalf_of_id)}
    if case.review.four_eyes:
        gone |= {case.review.requester_id, *case.earlier_deciders}
    done = {str(key) for key in gone - {None}}
    # A share that was handed on counts once: with who has it now, and not once either of the two has decided.
    left = [one for one in case.candidates if not (one.instead_of and read_key(one.added_by) in done)]
    asked = keep_members(case, list_users(one.principal for one in left)).exclude(pk__in=done | case.givers)
    handed = [one for one in left if one.instead_of]
    names = list(case.groups)
    parts = [_is_in_group(case.groups[name], handed) for name in names]
    counts = {f"part_{n}": Count("pk", filter=part) for n, part in enumerate(parts)}
    figures = asked.aggregate(everybody=Count("pk"), **counts)
    return Electorate(figures["everybody"], {name: figures[f"part_{n}"] for n, name in enumerate(names)})


def _is_free(case: Case, user: Person | None) -> bool:
    if user is None or not user.is_active or case.has_voted(user.pk):
        return False
    return not (case.review.four_eyes and user.pk == case.review.requester_id)


def _grows(case: Case) -> bool:
    """Whether a rung is to come that asks more people."""
    left = (case.review.rungs or [])[case.review.rung :]
    return any(rung["do"] in ("add", "reassign") for rung in left)


def _is_final(case: Case) -> bool:
    """Whether nobody can join: all asked by name, and no rung to come that asks more."""
    return not _grows(case) and all(one.principal.startswith(f"{USER}:") for one in case.candidates)


def _is_in_group(group: Any, handed: Iterable[Candidate]) -> Q:
    """Its members, and those to whom one of them handed a share on."""
    members = list_active().filter(groups=group)
    if givers := {read_key(one.added_by): read_key(one.principal) for one in handed}:
        found = get_user_model()._default_manager.filter(pk__in=list(givers), groups=group).values_list("pk", flat=True)
        return Q(pk__in=members.values("pk")) | Q(pk__in=[givers[str(key)] for key in found])
    return Q(pk__in=members.values("pk"))
