"""A review with all that bears on it: votes, candidates, rules, and how a person stands to it.

Lives here: reading. Must not live here: changing anything. Invariants owned: a page that shows whether somebody may
decide and the decision itself ask the same questions of the same rows; a decision asks them under its locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, cast

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.utils.translation import gettext

from approvals.conf import conf
from approvals.diffs import FieldDiff, find_drift
from approvals.models import Candidate, Review, Vote
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
from approvals.principals import USER, describe_principals, list_principals, list_users, name_person
from approvals.querysets import is_within_absence, list_absences
from approvals.subjects import Subject, digest, load_subject, snapshot_again
from workflows import answering
from workflows.clock import read_now
from workflows.conf import conf as engine_conf
from workflows.members import list_workspaces
from workflows.models import Workspace


@dataclass(frozen=True, slots=True)
class Standing:
    """How a person comes to decide: asked themselves, or for somebody who is away or who handed it on."""

    is_candidate: bool = False
    on_absence: bool = False
    #: Key of the user for whom it would be.
    on_behalf_of: Any = None
    #: The keys of the groups (of the rule) in which the vote counts.
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Now:
    """The subject as it is now."""

    digest: str
    #: Field -> (as it was shown, as it is), in words.
    difference: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    drift: tuple[FieldDiff, ...] = ()
    is_gone: bool = False


class Case:
    """One review, read once and asked many things."""

    def __init__(self, review: Review, held: answering.Held | None = None) -> None:
        self.review = review
        self.held = held
        self._standings: dict[Any, Standing] = {}

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
    def candidates(self) -> list[Candidate]:
        """Who may decide."""
        return list(self._rows(Candidate).order_by("pk"))

    @cached_property
    def votes(self) -> list[Vote]:
        """Those that count, in their order."""
        return [vote for vote in self.all_votes if vote.standing]

    @cached_property
    def all_votes(self) -> list[Vote]:
        """Those taken back too, and the rows that took them back."""
        return list(self._rows(Vote).order_by("pk"))

    @cached_property
    def earlier_deciders(self) -> frozenset[Any]:
        """Keys of the users who decided another stage of the same instance."""
        votes = Vote.objects.using(answering.reach().alias)
        found = votes.filter(instance_id=self.review.instance_id, standing=True, user__isnull=False)
        return frozenset(found.exclude(step=self.review.step).values_list("user_id", flat=True))

    @cached_property
    def people(self) -> dict[Any, Any]:
        """Users by key: everybody whom the review names."""
        keys = {self.review.requester_id, self.review.claimed_by_id, self.review.decided_by_id}
        keys |= {key for vote in self.all_votes for key in (vote.user_id, vote.on_behalf_of_id)}
        wanted = [key for key in keys if key is not None]
        return {user.pk: user for user in get_user_model()._default_manager.filter(pk__in=wanted)}

    def name(self, key: Any) -> str:
        """What a user is called; nothing for nobody."""
        if key is None:
            return ""
        return name_person(self.people.get(key)) or gettext("a former user")

    @cached_property
    def who(self) -> str:
        """Those who may decide, in words."""
        names = describe_principals(one.principal for one in self.candidates)
        if len(names) < 2:
            return "".join(names)
        return gettext("%(first)s or %(last)s") % {"first": ", ".join(names[:-1]), "last": names[-1]}

    @cached_property
    def rules(self) -> Rules:
        """What was frozen with the request, and the words for it."""
        return Rules(
            outcomes=self.outcomes,
            four_eyes=self.review.four_eyes,
            risk=cast(Risk, self.review.risk),
            reauthenticate=conf.reauthenticate,
            who=self.who,
            requester=self.name(self.review.requester_id),
        )

    @property
    def state(self) -> Facts:
        """How the review stands, whoever asks."""
        review = self.review
        return Facts(
            is_open=review.open and (self.held is None or answering.is_open(self.held)),
            in_grace=review.effective_at is not None,
            decided=Decided(self.name(review.decided_by_id), review.decided_at, review.outcome, review.effective_at),
        )

    # --- a person -------------------------------------------------------------------------------------------

    def find_facts(self, user: Any, *, is_automated: bool = False) -> Facts:
        """How this person stands to the review, now."""
        review, standing = self.review, self.find_standing(user)
        return replace(
            self.state,
            is_candidate=standing.is_candidate,
            on_absence=standing.on_absence,
            is_requester=review.requester_id is not None and review.requester_id == user.pk,
            decided_earlier_stage=review.four_eyes and user.pk in self.earlier_deciders,
            voted_before=self.find_vote(user) is not None,
            claimed_by_other=review.claimed_by_id is not None and review.claimed_by_id != user.pk,
            claimed_by=self.name(review.claimed_by_id),
            is_automated=is_automated,
        )

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
        if mine:  # handed on to them: it counts where it would have counted for who handed it on
            giver = self._find_giver(mine[0])
            groups = frozenset() if giver is None else self._list_groups(giver, mine)
            return Standing(is_candidate=True, on_behalf_of=None if giver is None else giver.pk, groups=groups)
        for absence in list_absences(user):
            if not is_within_absence(absence, self.review.workspace_id, self.review.workflow):
                continue
            absent = absence.user
            if self.is_barred(absent) or not self.is_member(absent):
                continue  # standing in for somebody never does what they may not
            if theirs := self.list_answering(absent):
                return Standing(on_absence=True, on_behalf_of=absent.pk, groups=self._list_groups(absent, theirs))
        return Standing()

    def list_answering(self, user: Any) -> list[Candidate]:
        """The candidates' rows that name this person."""
        names = set(list_principals(user))
        return [one for one in self.candidates if one.principal in names]

    def _list_groups(self, user: Any, asked: Iterable[Candidate]) -> frozenset[str]:
        if not self.groups:
            return frozenset()
        names = set(list_principals(user)) | {one.instead_of for one in asked}
        return frozenset(name for name, key in self.groups.items() if f"group:{key}" in names)

    def _find_giver(self, candidate: Candidate) -> Any:
        kind, _, key = candidate.added_by.partition(":")
        return get_user_model()._default_manager.filter(pk=key).first() if kind == USER else None

    def is_member(self, user: Any) -> bool:
        """Whether the review's workspace is theirs."""
        return any(id == self.review.workspace_id for id, _ in list_workspaces(user))

    def is_barred(self, user: Any) -> bool:
        """Whether four eyes or an earlier vote keep them from deciding, also through others."""
        if any(user.pk in (vote.user_id, vote.on_behalf_of_id) for vote in self.votes):
            return True
        return self.review.four_eyes and (user.pk == self.review.requester_id or user.pk in self.earlier_deciders)

    # --- counting -------------------------------------------------------------------------------------------

    def count(self, votes: Iterable[Vote]) -> Verdict:
        """What these votes amount to, against who may vote now."""
        cast = list(votes)
        ballots = [Ballot(vote.user_id, vote.outcome, frozenset(vote.groups)) for vote in cast]
        return judge(self.quorum, self.outcomes, ballots, self._count_electorate(cast), final=self._is_final())

    def _count_electorate(self, votes: list[Vote]) -> Electorate:
        gone = {key for vote in votes for key in (vote.user_id, vote.on_behalf_of_id)}
        if self.review.four_eyes:
            gone |= {self.review.requester_id, *self.earlier_deciders}
        asked = self._only_members(list_users(one.principal for one in self.candidates)).exclude(pk__in=gone - {None})
        by_group = {name: asked.filter(groups=key).count() for name, key in self.groups.items()}
        return Electorate(asked.count(), by_group)

    def _only_members(self, users: QuerySet[Any]) -> QuerySet[Any]:
        """Whoever can never vote must not be waited for."""
        if engine_conf.workspaces_for is not None:
            return users.filter(pk__in=[user.pk for user in users if self.is_member(user)])
        if not Workspace.objects.exclude(pk=self.review.workspace_id).exists():
            return users
        return users.filter(
            pk__in=Workspace.members.through.objects.filter(workspace_id=self.review.workspace_id).values("user_id")
        )

    def _is_final(self) -> bool:
        """Whether nobody can join: all asked by name, and no rung to come that asks more."""
        left = (self.review.rungs or [])[self.review.rung :]
        grows = any(rung["do"] in ("add", "reassign") for rung in left)
        return not grows and all(one.principal.startswith(f"{USER}:") for one in self.candidates)

    # --- the subject ----------------------------------------------------------------------------------------

    def read_subject(self, *, lock: bool = False) -> Now:
        """What it is about as it is now, and how that differs from what is shown."""
        review = self.review
        if not review.subject_model:
            return Now(review.digest)
        subject = Subject(review.subject_model, review.subject_pk, review.subject_label, review.subject_using)
        row = load_subject(subject, lock=lock)
        if row is None:
            return _tell_drift("", find_drift(review.snapshot or {}, None), is_gone=True)
        seal = digest(snapshot_again(row, review.snapshot or {}), review.change or {})
        if seal == review.digest:
            return Now(seal)
        return _tell_drift(seal, find_drift(review.snapshot or {}, row))

    def _rows(self, model: Any) -> QuerySet[Any]:
        rows: QuerySet[Any] = model.objects.using(answering.reach().alias).filter(review_id=self.review.pk)
        return rows


def _tell_drift(seal: str, drift: tuple[FieldDiff, ...], *, is_gone: bool = False) -> Now:
    return Now(seal, {one.label: (one.before.text, one.after.text) for one in drift}, drift, is_gone)
