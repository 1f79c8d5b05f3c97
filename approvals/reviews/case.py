"""A review with all that bears on it: votes, candidates, rules, and how a person stands to it.

Lives here: reading. Must not live here: changing anything. Invariants owned: a page that shows whether somebody may
decide and the decision itself ask the same questions of the same rows; a decision asks them under its locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.utils.functional import SimpleLazyObject
from django.utils.translation import ngettext

from approvals.conf import conf
from approvals.forms.edits import Table, find_shown, find_table, read_asked
from approvals.models import Candidate, Comment, Review, Vote
from approvals.people.person import Person
from approvals.people.principals import GROUP, USER, describe_principals, list_principals, load_user, name_user
from approvals.people.viewer import Viewer, is_within_absence, list_absences, see_as
from approvals.reviews.answer import find_answerer, is_divided
from approvals.rules import Decided, Facts, Outcome, Quorum, Rules, load_outcomes, load_quorum
from approvals.rules.rights import Risk
from approvals.subjects.current_state import SubjectState, read_subject_now
from approvals.subjects.diff_parts import ABSENT
from workflows.access.memberships import list_workspaces
from workflows.api.completions import owned_answers
from workflows.clock import read_now
from workflows.lifecycle import Event
from workflows.models import LedgerEvent
from workflows.schemas.schema import Schema, load_schema
from workflows.wording.punctuation import join_or

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

    def __init__(self, review: Review) -> None:
        self.review = review
        self._standings: dict[Any, Standing] = {}
        self._names: dict[str, str] = {}
        #: The accounts of those whose names were asked for, as far as there are any.
        self._people: dict[str, Any] = {}
        self._principals: dict[Any, list[str]] = {}
        self._members: dict[Any, bool] = {}
        self._absent: dict[Any, list[Any]] = {}
        self._viewers: dict[Any, Viewer] = {}
        #: Comments and rows of the ledger, the newest first and not all of very many; once `case_query` has read them.
        self.said: list[Comment] | None = None
        self.told: list[LedgerEvent] | None = None

    def see_as(self, user: Person | Viewer) -> Viewer:
        """Whoever looks is asked once who they are, here and beside."""
        viewer = see_as(user)
        return self._viewers.setdefault(viewer.user.pk, viewer)

    @cached_property
    def now(self) -> datetime:
        """The database's moment."""
        moment: datetime = read_now()
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
        told = LedgerEvent.objects.using(owned_answers.reach().alias).filter(
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
        votes = Vote.objects.using(owned_answers.reach().alias)
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

    def read_people(self, principals: Iterable[str]) -> Mapping[str, Any]:
        """The accounts of these principals and of all who were named before, by principal; not of who has left."""
        self.read_names(principals)
        return self._people

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
    def rules(self) -> Rules:
        """What was frozen with the request, and the words for it, which are looked up for a refusal only."""
        return Rules(
            outcomes=self.outcomes,
            four_eyes=self.review.four_eyes,
            risk=cast(Risk, self.review.risk),
            reauthenticate=conf.reauthenticate,
            who=cast(str, SimpleLazyObject(lambda: self.who)),
            requester=cast(str, SimpleLazyObject(lambda: self.name(self.review.requester_id))),
        )

    @property
    def is_open(self) -> bool:
        """Whether it waits for a decision."""
        return bool(self.review.open)

    @property
    def state(self) -> Facts:
        """How the review stands, whoever asks."""
        review = self.review
        return Facts(
            is_open=self.is_open,
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

    def find_facts(self, user: Person, *, is_automated: bool = False) -> Facts:
        """How this person stands to the review, now."""
        review, standing = self.review, self.find_standing(user)
        claimed_by_other = review.claimed_by_id not in (None, user.pk) and self._is_claim_held
        return replace(
            self.state,
            is_candidate=standing.is_candidate,
            on_absence=standing.on_absence,
            is_requester=review.requester_id is not None and review.requester_id == user.pk,
            decided_earlier_stage=review.four_eyes and user.pk in self.earlier_deciders,
            voted_before=self.has_voted(user.pk) or self.has_voted(standing.on_behalf_of),
            claimed_by_other=claimed_by_other,
            claimed_by=self.name(review.claimed_by_id) if claimed_by_other else "",
            is_automated=is_automated,
        )

    @cached_property
    def _is_claim_held(self) -> bool:
        """A claim goes with the account: nobody waits for who cannot log in any more."""
        holder = self.find_claimer()
        return holder is not None and bool(holder.is_active)

    def find_claimer(self) -> Any:
        """The account that claimed it, as it was read together with the review."""
        known = self.review._state.fields_cache
        return known["claimed_by"] if "claimed_by" in known else load_user(self.review.claimed_by_id)

    def find_vote(self, user: Person) -> Vote | None:
        """The vote of theirs that counts."""
        return next((vote for vote in self.votes if vote.user_id == user.pk), None)

    def find_standing(self, user: Person) -> Standing:
        """Whether they were asked, and for whom they would decide."""
        if user.pk not in self._standings:
            self._standings[user.pk] = self._find_standing(user)
        return self._standings[user.pk]

    def _find_standing(self, user: Person) -> Standing:
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

    def list_absent(self, user: Person) -> list[Any]:
        """Those whom this person stands in for here, now."""
        if user.pk not in self._absent:
            review, viewer = self.review, self._viewers.get(user.pk)
            for one in viewer.absent if viewer is not None else ():
                self.see_as(one)
            found = list_absences(user) if viewer is None else viewer.absences
            found = [one for one in found if is_within_absence(one, review.workspace_id, review.workflow)]
            self._absent[user.pk] = list({one.user_id: one.user for one in found}.values())
        return self._absent[user.pk]

    def list_answering(self, user: Person) -> list[Candidate]:
        """The candidates' rows that name this person; not a group's, once they have handed on their share of it."""
        names = set(self._list_principals(user))
        if str(user.pk) in self.givers:
            names = {name_user(user)}
        return [one for one in self.candidates if one.principal in names]

    def _list_principals(self, user: Person) -> list[str]:
        if user.pk not in self._principals:
            kinds = {one.principal.partition(":")[0] for one in self.candidates}
            kinds |= {GROUP} if self.groups else set()
            viewer = self._viewers.get(user.pk)
            names = list_principals(user, kinds) if viewer is None else viewer.list_principals(kinds)
            self._principals[user.pk] = names
        return self._principals[user.pk]

    def _list_groups(self, user: Person, asked: Iterable[Candidate]) -> frozenset[str]:
        if not self.groups:
            return frozenset()
        names = set(self._list_principals(user)) | {one.instead_of for one in asked}
        return frozenset(name for name, key in self.groups.items() if f"group:{key}" in names)

    @cached_property
    def givers(self) -> frozenset[str]:
        """Keys, as text, of those who handed their share on and were not asked again."""
        asked = {one.principal for one in self.candidates}
        handed = [one for one in self.candidates if one.instead_of and one.added_by not in asked]
        return frozenset(read_key(one.added_by) for one in handed)

    def _find_giver(self, candidate: Candidate) -> Any:
        kind, _, key = candidate.added_by.partition(":")
        return get_user_model()._default_manager.filter(pk=key).first() if kind == USER else None

    def _is_used(self, asked: Candidate) -> bool:
        """Whether it was handed on by somebody who has decided after all."""
        voters = {str(key) for vote in self.votes for key in (vote.user_id, vote.on_behalf_of_id)}
        return bool(asked.instead_of) and read_key(asked.added_by) in voters

    def has_voted(self, key: Any) -> bool:
        """Whether somebody's share is used up: by themselves, or by who decided in their place."""
        return key is not None and any(key in (vote.user_id, vote.on_behalf_of_id) for vote in self.votes)

    def is_member(self, user: Person) -> bool:
        """Whether the review's workspace is theirs."""
        if user.pk not in self._members:
            viewer = self._viewers.get(user.pk)
            mine = list_workspaces(user) if viewer is None else viewer.workspaces
            self._members[user.pk] = any(id == self.review.workspace_id for id, _ in mine)
        return self._members[user.pk]

    def is_barred(self, user: Person) -> bool:
        """Whether four eyes or an earlier vote keep them from deciding, also through others."""
        if self.has_voted(user.pk):
            return True
        return self.review.four_eyes and (user.pk == self.review.requester_id or user.pk in self.earlier_deciders)

    # --- the subject ----------------------------------------------------------------------------------------

    def read_subject(self, *, lock: bool = False) -> SubjectState:
        """What it is about as it is now; with `lock` it stays so until the decision is written."""
        return read_subject_now(self.review, lock=lock)

    def _rows(self, model: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = model.objects.using(owned_answers.reach().alias).filter(review_id=self.review.pk)
        return rows


def read_key(principal: str) -> str:
    return principal.partition(":")[2]
