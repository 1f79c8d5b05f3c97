"""A review with all that bears on it: votes, candidates, rules, and how a person stands to it.

Lives here: reading. Must not live here: changing anything. Invariants owned: a page that shows whether somebody may
decide and the decision itself ask the same questions of the same rows; a decision asks them under its locks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.db.models import Count, Exists, Q, QuerySet
from django.utils.translation import ngettext

from approvals.answered import find_answerer, is_divided
from approvals.conf import conf
from approvals.diff_parts import ABSENT
from approvals.drifts import SubjectState, read_subject_now
from approvals.edits import Table, find_shown, find_table, read_asked
from approvals.models import Candidate, Comment, Review, Vote
from approvals.policies import (
    Ballot,
    Decided,
    Electorate,
    Facts,
    Outcome,
    Quorum,
    Rules,
    Verdict,
    judge,
    load_outcomes,
    load_quorum,
)
from approvals.policies.rights import Risk
from approvals.principals import (
    GROUP,
    USER,
    describe_principals,
    list_active,
    list_principals,
    list_users,
    load_user,
    name_user,
)
from approvals.reach import find_gap
from approvals.viewers import Viewer, is_within_absence, list_absences, see_as
from workflows import answering
from workflows.clock import read_now
from workflows.conf import conf as engine_conf
from workflows.joining import join_or
from workflows.lifecycle import Event
from workflows.members import list_workspaces
from workflows.models import LedgerEvent, Workspace
from workflows.schema import Schema, load_schema

#: Of those who may decide, so many are named; more are counted.
MAX_NAMED = 5
#: Comments, and rows of the ledger, that a look reads: whoever is refused over and over must not make a page endless.
MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class Standing:
    """How a person comes to decide: asked themselves, or for somebody who is away or who handed it on."""

    is_candidate: bool = False
    on_absence: bool = False
    #: Key of the user for whom it would be.
    on_behalf_of: Any = None
    #: The keys of the groups (of the rule) in which the vote counts.
    groups: frozenset[str] = frozenset()


class Case:
    """One review, read once and asked many things."""

    def __init__(self, review: Review, held: answering.Held | None = None) -> None:
        self.review = review
        self.held = held
        self._standings: dict[Any, Standing] = {}
        self._names: dict[str, str] = {}
        #: The accounts of those whose names were asked for, as far as there are any.
        self._people: dict[str, Any] = {}
        self._principals: dict[Any, list[str]] = {}
        self._members: dict[Any, bool] = {}
        self._absent: dict[Any, list[Any]] = {}
        self._viewers: dict[Any, Viewer] = {}
        #: Comments and rows of the ledger, the newest first and not all of very many; once `loading` has read them.
        self.said: list[Comment] | None = None
        self.told: list[LedgerEvent] | None = None

    def see_as(self, user: Any) -> Viewer:
        """Whoever looks is asked once who they are, here and beside."""
        viewer = see_as(user)
        return self._viewers.setdefault(viewer.user.pk, viewer)

    @cached_property
    def now(self) -> datetime:
        """The database's moment; under the locks that of the lock."""
        moment: datetime = read_now() if self.held is None else self.held.now
        return moment

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What can be answered."""
        return load_outcomes(self.review.outcomes)

    @cached_property
    def quorum(self) -> Quorum:
        """How many equal votes decide."""
        return load_quorum(self.review.quorum["rule"])

    @cached_property
    def groups(self) -> dict[str, Any]:
        """Name -> key of the groups that the rule counts by."""
        return dict(self.review.quorum["groups"])

    @cached_property
    def schema(self) -> Schema | None:
        """What has to be filled in."""
        if self.held is not None:
            return answering.find_schema(self.held)
        return load_schema(self.review.interaction.schema, self.review.interaction.schema_type)

    @cached_property
    def asked(self) -> Any:
        """What the form was asked with; `ABSENT` where there is none."""
        return ABSENT if self.schema is None else read_asked(self.schema.describe())

    @property
    def table(self) -> Table:
        """What is on the table, of what has to be filled in."""
        return find_table(self.votes, self.outcomes, self.asked) if self.schema is not None else Table(ABSENT)

    def find_shown(self, version: int) -> Any:
        """What was on the table in an earlier version."""
        told = LedgerEvent.objects.using(answering.reach().alias).filter(
            instance__in=[self.review.instance_id, self.review.pk]  # an item has a history of its own
        )
        anew = told.filter(kind=Event.HANDLED, data__interaction=str(self.review.pk), data__what="shown anew")
        cleared = [one["version"] for one in anew.values_list("data", flat=True) if isinstance(one.get("version"), int)]
        return find_shown(self.all_votes, version, self.asked, cleared)

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Who may decide."""
        return list(self._rows(Candidate).order_by("pk"))

    @cached_property
    def votes(self) -> list[Vote]:
        """Those that count, in their order."""
        return [vote for vote in self.all_votes if vote.standing]

    @cached_property
    def all_votes(self) -> list[Vote]:
        """Those taken back too, and the rows that took them back; in the database's order of time."""
        return list(self._rows(Vote).order_by("at", "pk"))

    @cached_property
    def earlier_deciders(self) -> frozenset[Any]:
        """Keys of the users who decided another stage of the same family."""
        votes = Vote.objects.using(answering.reach().alias)
        found = votes.filter(family=self.review.root, standing=True, user__isnull=False)
        place, step = self.review.stage
        return frozenset(found.exclude(step=step, place=place).values_list("user_id", flat=True))

    def list_people(self) -> list[str]:
        """Everybody who has had to do with it, as principals."""
        keys = [self.review.requester_id, self.review.claimed_by_id, self.review.decided_by_id]
        keys += [key for vote in self.all_votes for key in (vote.user_id, vote.on_behalf_of_id)]
        return [f"{USER}:{key}" for key in dict.fromkeys(keys) if key is not None]

    def list_asked(self) -> list[str]:
        """The first of those who may decide, as principals."""
        return [one.principal for one in self.candidates[:MAX_NAMED]]

    def read_names(self, principals: Iterable[str]) -> Mapping[str, str]:
        """What these are called, beside all who were asked for before; nobody is asked for twice."""
        if wanted := [one for one in dict.fromkeys(principals) if one not in self._names]:
            self._names.update(zip(wanted, describe_principals(wanted, self._people), strict=True))
        return self._names

    def name(self, key: Any) -> str:
        """What a user is called; nothing for nobody."""
        if key is None:
            return ""
        principal = f"{USER}:{key}"
        if principal not in self._names:
            self.read_names([principal, *self.list_people()])
        return self._names[principal]

    @cached_property
    def who(self) -> str:
        """Those who may decide, in words."""
        names = [self.read_names(self.list_asked())[one] for one in self.list_asked()]
        if (more := len(self.candidates) - len(names)) > 0:
            names.append(ngettext("%(count)d more", "%(count)d more", more) % {"count": more})
        return join_or(names)

    @cached_property
    def terms(self) -> Rules:
        """What was frozen with the request."""
        return Rules(
            outcomes=self.outcomes,
            four_eyes=self.review.four_eyes,
            risk=cast(Risk, self.review.risk),
            reauthenticate=conf.reauthenticate,
        )

    @cached_property
    def rules(self) -> Rules:
        """The same with the words for it, which have to be looked up."""
        return replace(self.terms, who=self.who, requester=self.name(self.review.requester_id))

    @property
    def state(self) -> Facts:
        """How the review stands, whoever asks."""
        review = self.review
        return Facts(
            is_open=review.open and (self.held is None or answering.is_open(self.held)),
            in_grace=review.effective_at is not None,
            decided=self.decided,
        )

    @property
    def decided(self) -> Decided:
        """Who has decided what, if anybody has."""
        review = self.review
        if not review.outcome:
            return Decided()
        return Decided(
            self.name(find_answerer(review, self.votes)),
            review.decided_at,
            review.outcome,
            review.effective_at,
            self.now,
            is_divided=is_divided(review, self.votes),
        )

    # --- a person -------------------------------------------------------------------------------------------

    def find_facts(self, user: Any, *, is_automated: bool = False) -> Facts:
        """How this person stands to the review, now."""
        review, standing = self.review, self.find_standing(user)
        claimed_by_other = review.claimed_by_id not in (None, user.pk) and self._is_claim_held
        return replace(
            self.state,
            is_candidate=standing.is_candidate,
            on_absence=standing.on_absence,
            is_requester=review.requester_id is not None and review.requester_id == user.pk,
            decided_earlier_stage=review.four_eyes and user.pk in self.earlier_deciders,
            voted_before=self._has_voted(user.pk) or self._has_voted(standing.on_behalf_of),
            claimed_by_other=claimed_by_other,
            claimed_by=self.name(review.claimed_by_id) if claimed_by_other else "",
            is_automated=is_automated,
        )

    @cached_property
    def _is_claim_held(self) -> bool:
        """A claim goes with the account: nobody waits for who cannot log in any more."""
        known = self.review._state.fields_cache
        is_read = self.held is None and "claimed_by" in known  # together with the review
        holder = known["claimed_by"] if is_read else load_user(self.review.claimed_by_id)
        return holder is not None and bool(holder.is_active)

    def find_vote(self, user: Any) -> Vote | None:
        """The vote of theirs that counts."""
        return next((vote for vote in self.votes if vote.user_id == user.pk), None)

    def find_standing(self, user: Any) -> Standing:
        """Whether they were asked, and for whom they would decide."""
        if user.pk not in self._standings:
            self._standings[user.pk] = self._find_standing(user)
        return self._standings[user.pk]

    def _find_standing(self, user: Any) -> Standing:
        if not user.is_active or not self.is_member(user):
            return Standing()
        mine = self.list_answering(user)
        if own := [one for one in mine if not one.instead_of]:
            return Standing(is_candidate=True, groups=self._list_groups(user, own))
        handed = Standing()
        if mine:  # handed on to them: it counts where it would have counted for who handed it on
            giver = self._find_giver(mine[0])
            groups = frozenset() if giver is None else self._list_groups(giver, mine)
            handed = Standing(is_candidate=True, on_behalf_of=None if giver is None else giver.pk, groups=groups)
            if not self._is_used(mine[0]):
                return handed
        for absent in self.list_absent(user):
            if self.is_barred(absent) or not self.is_member(absent):
                continue  # standing in for somebody never does what they may not
            if theirs := [one for one in self.list_answering(absent) if not self._is_used(one)]:
                return Standing(on_absence=True, on_behalf_of=absent.pk, groups=self._list_groups(absent, theirs))
        return handed

    def list_absent(self, user: Any) -> list[Any]:
        """Those whom this person stands in for here, now."""
        if user.pk not in self._absent:
            review, viewer = self.review, self._viewers.get(user.pk)
            for one in viewer.absent if viewer is not None else ():
                self.see_as(one)
            found = list_absences(user) if viewer is None else viewer.absences
            found = [one for one in found if is_within_absence(one, review.workspace_id, review.workflow)]
            self._absent[user.pk] = list({one.user_id: one.user for one in found}.values())
        return self._absent[user.pk]

    def list_answering(self, user: Any) -> list[Candidate]:
        """The candidates' rows that name this person; not a group's, once they have handed on their share of it."""
        names = set(self._list_principals(user))
        if str(user.pk) in self._givers:
            names = {name_user(user)}
        return [one for one in self.candidates if one.principal in names]

    def _list_principals(self, user: Any) -> list[str]:
        if user.pk not in self._principals:
            kinds = {one.principal.partition(":")[0] for one in self.candidates}
            kinds |= {GROUP} if self.groups else set()
            viewer = self._viewers.get(user.pk)
            names = list_principals(user, kinds) if viewer is None else viewer.list_principals(kinds)
            self._principals[user.pk] = names
        return self._principals[user.pk]

    def _list_groups(self, user: Any, asked: Iterable[Candidate]) -> frozenset[str]:
        if not self.groups:
            return frozenset()
        names = set(self._list_principals(user)) | {one.instead_of for one in asked}
        return frozenset(name for name, key in self.groups.items() if f"group:{key}" in names)

    @cached_property
    def _givers(self) -> frozenset[str]:
        """Keys, as text, of those who handed their share on and were not asked again."""
        asked = {one.principal for one in self.candidates}
        handed = [one for one in self.candidates if one.instead_of and one.added_by not in asked]
        return frozenset(_read_key(one.added_by) for one in handed)

    def _find_giver(self, candidate: Candidate) -> Any:
        kind, _, key = candidate.added_by.partition(":")
        return get_user_model()._default_manager.filter(pk=key).first() if kind == USER else None

    def _is_used(self, asked: Candidate) -> bool:
        """Whether it was handed on by somebody who has decided after all."""
        voters = {str(key) for vote in self.votes for key in (vote.user_id, vote.on_behalf_of_id)}
        return bool(asked.instead_of) and _read_key(asked.added_by) in voters

    def _has_voted(self, key: Any) -> bool:
        """Whether somebody's share is used up: by themselves, or by who decided in their place."""
        return key is not None and any(key in (vote.user_id, vote.on_behalf_of_id) for vote in self.votes)

    def is_member(self, user: Any) -> bool:
        """Whether the review's workspace is theirs."""
        if user.pk not in self._members:
            viewer = self._viewers.get(user.pk)
            mine = list_workspaces(user) if viewer is None else viewer.workspaces
            self._members[user.pk] = any(id == self.review.workspace_id for id, _ in mine)
        return self._members[user.pk]

    def is_barred(self, user: Any) -> bool:
        """Whether four eyes or an earlier vote keep them from deciding, also through others."""
        if self._has_voted(user.pk):
            return True
        return self.review.four_eyes and (user.pk == self.review.requester_id or user.pk in self.earlier_deciders)

    # --- counting -------------------------------------------------------------------------------------------

    def count(self, votes: Iterable[Vote]) -> Verdict:
        """What these votes amount to, against who may vote now."""
        return self._judge(votes, is_final=self._is_final())

    def _judge(self, votes: Iterable[Vote], *, is_final: bool) -> Verdict:
        cast = list(votes)
        ballots = [Ballot(vote.user_id, vote.outcome, frozenset(vote.groups)) for vote in cast]
        return judge(self.quorum, self.outcomes, ballots, self._count_electorate(cast), final=is_final)

    def _count_electorate(self, votes: list[Vote]) -> Electorate:
        gone = {key for vote in votes for key in (vote.user_id, vote.on_behalf_of_id)}
        if self.review.four_eyes:
            gone |= {self.review.requester_id, *self.earlier_deciders}
        done = {str(key) for key in gone - {None}}
        # A share that was handed on counts once: with who has it now, and not once either of the two has decided.
        left = [one for one in self.candidates if not (one.instead_of and _read_key(one.added_by) in done)]
        asked = self.keep_members(list_users(one.principal for one in left)).exclude(pk__in=done | self._givers)
        handed = [one for one in left if one.instead_of]
        names = list(self.groups)
        parts = [_is_in_group(self.groups[name], handed) for name in names]
        counts = {f"part_{n}": Count("pk", filter=part) for n, part in enumerate(parts)}
        told = asked.aggregate(everybody=Count("pk"), **counts)
        return Electorate(told["everybody"], {name: told[f"part_{n}"] for n, name in enumerate(names)})

    def keep_members(self, users: QuerySet[Any]) -> QuerySet[Any]:
        """Whoever can never vote must not be waited for."""
        if engine_conf.workspaces_for is not None:
            return users.filter(pk__in=[user.pk for user in users if self.is_member(user)])
        others = Workspace.objects.exclude(pk=self.review.workspace_id)
        members = list_active().filter(holdpoint_workspaces=self.review.workspace_id)
        return users.filter(Q(pk__in=members.values("pk")) | ~Exists(others))

    def find_gap(self, asked: Collection[str], *, keep: bool) -> str:
        """Why nothing could be decided if these were asked from now on (with `keep`, as well), in words; or nothing."""
        voted = {f"{USER}:{key}" for vote in self.votes for key in (vote.user_id, vote.on_behalf_of_id)}
        people = {*asked, *(one.principal for one in self.candidates if keep)} - voted
        counted = [f"{GROUP}:{key}" for key in self.groups.values()]
        return find_gap(self.quorum, counted, people, new=asked, is_final=not self._grows(), votes=len(self.votes))

    def may_any_decide(self, principal: str) -> bool:
        """Whether anybody of these may decide: not where all of them have left, say, or asked for it themselves."""
        return any(not self.is_barred(user) for user in self.keep_members(list_users([principal])))

    def has_some_decider(self, principals: Iterable[str]) -> bool:
        """Whether any of these may decide, before anybody has; in one statement."""
        users = self.keep_members(list_users(principals))
        if self.review.four_eyes:
            place, step = self.review.stage
            votes = Vote.objects.filter(family=self.review.root, standing=True, user__isnull=False)
            earlier = votes.exclude(step=step, place=place)
            users = users.exclude(pk=self.review.requester_id).exclude(pk__in=earlier.values("user_id"))
        return users.exists()

    @cached_property
    def is_stranded(self) -> bool:
        """Whether nobody can decide it any more, as far as people asked by name go: they have left, or may not.

        Groups, permissions and rules are live: somebody may join. Where votes were given and no rung is to come, time
        answers what they amount to.
        """
        if not self.candidates or not all(one.principal.startswith(f"{USER}:") for one in self.candidates):
            return False
        if self.votes and not self._grows():
            return False
        return self._judge(self.votes, is_final=True).state == "lost"

    @property
    def may_be_stranded(self) -> bool:
        """The same, as far as one can tell from what has been read anyway: False, where that is enough to know."""
        review = self.review
        if not review.open or review.effective_at is not None:
            return False
        if review.stranded_at is not None:
            return True
        fixed = self.quorum.fixed_votes
        needed = 1 if fixed is None else fixed - len(self.votes)
        asked = self.list_asked()
        self.read_names(asked)
        free = [one for one in asked if one.partition(":")[0] != USER or self._is_free(self._people.get(one))]
        return len(free) < min(needed, len(asked))

    @property
    def are_all_gone(self) -> bool:
        """Whether everybody whom a page names of those asked has left."""
        asked = self.list_asked()
        self.read_names(asked)
        return not any((user := self._people.get(one)) is not None and user.is_active for one in asked)

    def _is_free(self, user: Any) -> bool:
        if user is None or not user.is_active or self._has_voted(user.pk):
            return False
        return not (self.review.four_eyes and user.pk == self.review.requester_id)

    def _grows(self) -> bool:
        """Whether a rung is to come that asks more people."""
        left = (self.review.rungs or [])[self.review.rung :]
        return any(rung["do"] in ("add", "reassign") for rung in left)

    def _is_final(self) -> bool:
        """Whether nobody can join: all asked by name, and no rung to come that asks more."""
        return not self._grows() and all(one.principal.startswith(f"{USER}:") for one in self.candidates)

    # --- the subject ----------------------------------------------------------------------------------------

    def read_subject(self, *, lock: bool = False) -> SubjectState:
        """What it is about as it is now; with `lock` it stays so until the decision is written."""
        return read_subject_now(self.review, lock=lock)

    def _rows(self, model: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = model.objects.using(answering.reach().alias).filter(review_id=self.review.pk)
        return rows


def _is_in_group(group: Any, handed: Iterable[Candidate]) -> Q:
    """Its members, and those to whom one of them handed a share on."""
    members = list_active().filter(groups=group)
    if givers := {_read_key(one.added_by): _read_key(one.principal) for one in handed}:
        found = get_user_model()._default_manager.filter(pk__in=list(givers), groups=group).values_list("pk", flat=True)
        return Q(pk__in=members.values("pk")) | Q(pk__in=[givers[str(key)] for key in found])
    return Q(pk__in=members.values("pk"))


def _read_key(principal: str) -> str:
    return principal.partition(":")[2]
