"""Counting votes: what a rule, the votes so far and the people still asked amount to.

Everybody counts once and the order of the votes does not matter. A vote that was cast stands, also when its
voter is no longer asked; a vote that was undone is left out by the caller. "People" are therefore those who
have voted and those who still may: percent and "all" are taken of them, so that whoever leaves after voting
neither spoils nor lowers what the others need.

Invariant owned: a verdict is `decided` when votes reached the rule (or a veto), `lost` when no way in which
those who still may vote could vote would decide anything, and `open` otherwise.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from approvals.exceptions import InvalidApproval, VotedTwice
from approvals.rules.outcomes import Outcome, find_outcome
from approvals.rules.quorum import EVERYBODY, Quorum


@dataclass(frozen=True, slots=True)
class Ballot:
    """One person's vote; `groups` names the groups (of the rule) in which it counts.

    >>> Ballot("ana", "approve", frozenset({"finance"})).outcome
    'approve'
    """

    voter: Hashable
    outcome: str
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Electorate:
    """How many people still may vote, now, in all and by group.

    Not counted are those who have voted and those whom a rule forbids to (under four eyes the requester and
    earlier deciders): whoever can never vote must not be waited for.

    >>> Electorate(2, {"finance": 1}).waiting
    2
    """

    waiting: int
    by_group: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min([self.waiting, *self.by_group.values()]) < 0:
            raise InvalidApproval("electorate", self, "nobody can be asked less than not at all")


def count_electorate(
    candidates: Iterable[Hashable],
    voted: Iterable[Hashable] = (),
    groups: Mapping[str, Iterable[Hashable]] | None = None,
) -> Electorate:
    """The electorate of people who are at hand (where they are rows, count them in the database instead).

    >>> count_electorate(["ana", "ben", "cho"], voted=["ana"], groups={"legal": ["ana", "ben"]})
    Electorate(waiting=2, by_group={'legal': 1})
    """
    waiting = set(candidates) - set(voted)
    return Electorate(len(waiting), {name: len(waiting & set(members)) for name, members in (groups or {}).items()})


@dataclass(frozen=True, slots=True)
class VoteTally:
    """The votes of everybody, or of one group: how many are needed, and who stands where.

    >>> VoteTally("legal", needed=3, waiting=1, counts={"approve": 1, "reject": 0}).short
    1
    """

    group: str
    needed: int
    waiting: int
    counts: Mapping[str, int]

    @property
    def people(self) -> int:
        """Those who have voted and those who still may: what percent and "all" are taken of."""
        return self.waiting + sum(self.counts.values())

    @property
    def most(self) -> int:
        """The votes for the outcome that has most of them."""
        return max(self.counts.values(), default=0)

    @property
    def leading(self) -> str:
        """The outcome that has most votes; of several, the first."""
        return max(self.counts, key=lambda name: self.counts[name])

    @property
    def short(self) -> int:
        """How many people are missing to reach the rule at all, even if everybody agreed."""
        return max(0, self.needed - self.people)


def count_fixed(rule: Quorum, voted: Iterable[str], names: Iterable[str] = ()) -> VoteTally | None:
    """The votes so far under a rule that needs the same number whoever is asked; None under every other rule.

    `voted` has the outcome of every vote, `names` all outcomes in their order. No electorate is needed: a list of
    reviews shows how far their votes are without a query.

    >>> from approvals.rules import Count, Percent
    >>> tally = count_fixed(Count(3), ["reject", "approve", "approve"])
    >>> tally.leading, tally.most, tally.needed
    ('approve', 2, 3)
    >>> count_fixed(Percent(50), ["approve"]) is None
    True
    """
    if rule.fixed_votes is None:
        return None
    counts = dict.fromkeys(names, 0)
    for name in voted:
        counts[name] = counts.get(name, 0) + 1
    return VoteTally(EVERYBODY, rule.fixed_votes, 0, counts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the votes amount to. `outcome` is the answer, unless `state` is open; `by` says what decided.

    >>> from approvals.rules import Count, read_outcomes
    >>> judge(Count(2), read_outcomes(["approve", "reject"]), [Ballot("ana", "approve")], Electorate(2)).needed
    2
    """

    state: Literal["open", "decided", "lost"]
    outcome: str | None
    by: Literal["", "quorum", "veto", "division"]
    counts: Mapping[str, int]
    tallies: tuple[VoteTally, ...]

    @property
    def needed(self) -> int:
        """Equal votes that decide; per group: the sum of what each needs."""
        return sum(tally.needed for tally in self.tallies)

    @property
    def short(self) -> int:
        """How many people are missing before the rule can be reached: tell somebody when it is not zero."""
        return sum(tally.short for tally in self.tallies)

    def find_missing(self, outcome: str) -> int:
        """Further votes for this outcome without which the rule cannot be reached.

        >>> from approvals.rules import Count, read_outcomes
        >>> judge(Count(3), read_outcomes(["ok"]), [Ballot(1, "ok")], Electorate(4)).find_missing("ok")
        2
        """
        return max(max(0, tally.needed - tally.counts[outcome]) for tally in self.tallies)


def judge(
    rule: Quorum,
    outcomes: Sequence[Outcome],
    ballots: Iterable[Ballot],
    electorate: Electorate,
    *,
    final: bool = False,
) -> Verdict:
    """Count the votes.

    Where several outcomes have reached the rule (people left, so that it takes less now), a veto comes first,
    then the outcome with more votes, then the later one of `outcomes`.

    When nothing can win any more, the state is `lost` and the outcome is the last of `outcomes`. Too few people
    are not a lost vote while more may come: a quorum of 3 in a group of 2 stays open, and `short` says 1. With
    `final=True` (nobody can join, such as people asked by name) that is lost as well. Enough people who
    disagree are lost either way.

    >>> from approvals.rules import Count, read_outcomes
    >>> verdict = judge(
    ...     Count(2), read_outcomes(["approve", "reject"]),
    ...     [Ballot("ana", "approve"), Ballot("ben", "reject")], Electorate(waiting=0),
    ... )
    >>> verdict.state, verdict.outcome
    ('lost', 'reject')
    """
    cast = _check_ballots(outcomes, ballots)
    names = [outcome.name for outcome in outcomes]
    counts = _count_votes(names, cast)
    tallies = _count_tallies(rule, names, cast, electorate)

    def choose(reached: list[str]) -> str:
        return max(reached, key=lambda name: (counts[name], names.index(name)))

    if vetoed := [name for name in names if name in rule.vetoes and counts[name]]:
        return Verdict("decided", choose(vetoed), "veto", counts, tallies)
    if reached := [name for name in names if all(tally.counts[name] >= tally.needed for tally in tallies)]:
        return Verdict("decided", choose(reached), "quorum", counts, tallies)
    can_veto = electorate.waiting > 0 and any(name in rule.vetoes for name in names)
    if can_veto or any(all(_can_reach(tally, name, final) for tally in tallies) for name in names):
        return Verdict("open", None, "", counts, tallies)
    return Verdict("lost", names[-1], "division", counts, tallies)


def _check_ballots(outcomes: Sequence[Outcome], ballots: Iterable[Ballot]) -> list[Ballot]:
    cast = list(ballots)
    voters: set[Hashable] = set()
    for ballot in cast:
        find_outcome(outcomes, ballot.outcome)
        if ballot.voter in voters:
            raise VotedTwice(ballot.voter)
        voters.add(ballot.voter)
    return cast


def _count_votes(names: Sequence[str], ballots: Iterable[Ballot]) -> dict[str, int]:
    counts = dict.fromkeys(names, 0)
    for ballot in ballots:
        counts[ballot.outcome] += 1
    return counts


def _count_tallies(
    rule: Quorum, names: Sequence[str], ballots: Sequence[Ballot], electorate: Electorate
) -> tuple[VoteTally, ...]:
    tallies = []
    for group, part in rule.parts:
        if group == EVERYBODY:
            cast, waiting = ballots, electorate.waiting
        else:
            cast = [ballot for ballot in ballots if group in ballot.groups]
            waiting = electorate.by_group.get(group, 0)
        tallies.append(VoteTally(group, part.find_needed(len(cast) + waiting), waiting, _count_votes(names, cast)))
    return tuple(tallies)


def _can_reach(tally: VoteTally, name: str, final: bool) -> bool:
    """Whether this outcome can still reach the rule here: everybody who may votes for it, or people join."""
    return tally.counts[name] + tally.waiting >= tally.needed or (tally.short > 0 and not final)


def dump_verdict(verdict: Verdict) -> dict[str, Any]:
    """The verdict with its figures as plain JSON, for the history: what "all" was when it was counted.

    >>> from approvals.rules import All, read_outcomes
    >>> dump_verdict(judge(All(), read_outcomes(["approve", "reject"]), [Ballot(1, "approve")], Electorate(1)))
    {'state': 'open', 'outcome': None, 'by': '', 'counts': {'approve': 1, 'reject': 0}, 'needed': 2, 'people': 2}
    """
    told: dict[str, Any] = {
        "state": verdict.state,
        "outcome": verdict.outcome,
        "by": verdict.by,
        "counts": dict(verdict.counts),
    }
    if [tally.group for tally in verdict.tallies] == [EVERYBODY]:
        return told | {"needed": verdict.tallies[0].needed, "people": verdict.tallies[0].people}
    return told | {
        "groups": {
            tally.group: {"counts": dict(tally.counts), "needed": tally.needed, "people": tally.people}
            for tally in verdict.tallies
        }
    }


def find_last_concern(outcomes: Sequence[Outcome], rule: Quorum) -> str:
    """What an author should think about again in the order of the outcomes; empty where nothing. For system checks.

    >>> from approvals.rules import Count, read_outcomes
    >>> find_last_concern(read_outcomes(["reject", "approve"]), Count(2))
    "when too few agree, the answer is 'approve', the last of its outcomes: a lost vote says yes"
    >>> find_last_concern(read_outcomes(["approve", "reject"]), Count(2))
    ''
    """
    last = outcomes[-1]
    says_yes = last.tone == "positive" or last.name == "approve"
    if len(outcomes) == 1 or not says_yes or rule.fixed_votes == 1:  # one vote is never lost
        return ""
    return f"when too few agree, the answer is {last.name!r}, the last of its outcomes: a lost vote says yes"
