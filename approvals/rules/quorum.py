"""How many equal votes decide: the rule, as a value that is frozen when a decision is requested.

Lives here: the kinds of rules, with all that differs between them. Must not live here: counting votes (`counting`).
Invariant owned: a rule that was read can be reached by some number of people, and reads back from its JSON as the
same value.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from approvals.exceptions import InvalidApproval
from approvals.rules.outcomes import Outcome
from workflows.wording.punctuation import join_and, join_or

_HOW = 'write a number of equal votes such as 2, "50%", "all", {"finance": 1, "legal": "all"}, or Veto(2)'
_PERCENT = re.compile(r"([1-9]\d?|100) ?%")

#: Stands for the group where a rule asks everybody alike.
EVERYBODY = ""


class Quorum(ABC):
    """A rule. Callers ask it for its parts and do not look at its class."""

    __slots__ = ()

    @property
    def plain(self) -> Quorum:
        """The rule that counts equal votes, without the right to veto.

        >>> Veto("50%").plain, Count(2).plain
        (Percent(share=50), Count(votes=2))
        """
        return self

    @property
    def vetoes(self) -> tuple[str, ...]:
        """The outcomes that decide with one vote."""
        return ()

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups by which votes count, by name; empty where everybody counts alike.

        >>> Veto({"legal": 1, "finance": "all"}).groups
        ('finance', 'legal')
        """
        return tuple(name for name, _ in self.parts if name != EVERYBODY)

    @property
    def fixed_votes(self) -> int | None:
        """The equal votes that decide whoever is asked; None where the number follows from the people.

        >>> Veto(2).fixed_votes, Percent(50).fixed_votes
        (2, None)
        """
        return None

    @property
    @abstractmethod
    def parts(self) -> tuple[tuple[str, Plain], ...]:
        """The rule of every group by its name, or of `EVERYBODY`."""

    @abstractmethod
    def dump(self) -> Any:
        """The rule as plain JSON, to be frozen with a request.

        >>> read_quorum({"legal": "all"}).dump(), Veto(2).dump()
        ({'groups': {'legal': 'all'}}, {'veto': ['reject'], 'otherwise': 2})
        """

    @abstractmethod
    def describe(self, outcomes: Sequence[Outcome] = ()) -> str:
        """The rule in words for those who decide; `outcomes` have the labels of a veto.

        >>> read_quorum({"Finance": 2, "Legal": "all"}).describe()
        'Equal answers decide: 2 from Finance and all from Legal.'
        >>> Veto("50%").describe()
        'Equal answers from 50% of those asked decide. One “Reject” decides at once.'
        """


class Plain(Quorum):
    """A rule for everybody, or for the people of one group."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[tuple[str, Plain], ...]:
        """The rule itself, for everybody."""
        return ((EVERYBODY, self),)

    @abstractmethod
    def find_needed(self, people: int) -> int:
        """Equal votes that decide among so many people.

        >>> Percent(50).find_needed(people=5), Count(2).find_needed(people=5), All().find_needed(people=5)
        (3, 2, 5)
        """

    @abstractmethod
    def describe_for(self, group: str) -> str:
        """The rule of one group, as a part of a sentence.

        >>> Count(2).describe_for("Finance")
        '2 from Finance'
        """


@dataclass(frozen=True, slots=True)
class Count(Plain):
    """So many equal votes decide.

    >>> Count(2).find_needed(people=5)
    2
    """

    votes: int

    @property
    def fixed_votes(self) -> int | None:
        """The number that the rule names."""
        return self.votes

    def find_needed(self, people: int) -> int:
        """Equal votes that decide; the same however many people there are."""
        return self.votes

    def dump(self) -> Any:
        """The number."""
        return self.votes

    def describe(self, outcomes: Sequence[Outcome] = ()) -> str:
        """The number in a sentence."""
        return ngettext("One answer decides.", "%(votes)d equal answers decide.", self.votes) % {"votes": self.votes}

    def describe_for(self, group: str) -> str:
        """The number and the group."""
        return gettext("%(votes)d from %(group)s") % {"votes": self.votes, "group": group}


@dataclass(frozen=True, slots=True)
class Percent(Plain):
    """Equal votes of this share of the people decide, rounded up, at least one.

    >>> Percent(50).find_needed(people=5)
    3
    """

    share: int

    def find_needed(self, people: int) -> int:
        """Equal votes that decide among so many people."""
        return max(1, -(-self.share * people // 100))

    def dump(self) -> Any:
        """The share with its sign, as an author writes it."""
        return f"{self.share}%"

    def describe(self, outcomes: Sequence[Outcome] = ()) -> str:
        """The share in a sentence."""
        return gettext("Equal answers from %(share)d%% of those asked decide.") % {"share": self.share}

    def describe_for(self, group: str) -> str:
        """The share and the group."""
        return gettext("%(share)d%% from %(group)s") % {"share": self.share, "group": group}


@dataclass(frozen=True, slots=True)
class All(Plain):
    """Only a unanimous vote decides.

    >>> All().find_needed(people=5)
    5
    """

    def find_needed(self, people: int) -> int:
        """Equal votes that decide: everybody's, at least one."""
        return max(1, people)

    def dump(self) -> Any:
        """The word, as an author writes it."""
        return "all"

    def describe(self, outcomes: Sequence[Outcome] = ()) -> str:
        """Unanimity in a sentence."""
        return gettext("Everybody asked must give the same answer.")

    def describe_for(self, group: str) -> str:
        """The word and the group."""
        return gettext("all from %(group)s") % {"group": group}


@dataclass(frozen=True, slots=True)
class PerGroup(Quorum):
    """Every group must come to the same answer, each by a rule of its own.

    Who is in several of the groups counts in each of them.

    >>> PerGroup((("finance", Count(1)), ("legal", All()))).groups
    ('finance', 'legal')
    """

    rules: tuple[tuple[str, Plain], ...]

    @property
    def parts(self) -> tuple[tuple[str, Plain], ...]:
        """The rules by group."""
        return self.rules

    def dump(self) -> Any:
        """The rules by the names of their groups."""
        return {"groups": {name: rule.dump() for name, rule in self.rules}}

    def describe(self, outcomes: Sequence[Outcome] = ()) -> str:
        """All groups in one sentence."""
        parts = [rule.describe_for(name) for name, rule in self.rules]
        return gettext("Equal answers decide: %(groups)s.") % {"groups": join_and(parts)}


@dataclass(frozen=True, slots=True, init=False)
class Veto(Quorum):
    """One vote for any of `outcomes` decides at once; everything else follows `rule`.

    >>> Veto("50%").rule, Veto("50%").outcomes
    (Percent(share=50), ('reject',))
    """

    rule: Quorum
    outcomes: tuple[str, ...]

    def __init__(self, rule: Any = 1, outcomes: Iterable[str] = ("reject",)) -> None:
        inner = read_quorum(rule)
        if isinstance(inner, Veto):
            raise InvalidApproval("quorum", rule, "a Veto takes another rule; name all its outcomes in one Veto")
        if isinstance(outcomes, str) or not isinstance(outcomes, Iterable):
            raise InvalidApproval("outcomes", outcomes, 'a Veto takes a list of names, such as ("reject",)')
        names = tuple(outcomes)
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise InvalidApproval("outcomes", names, "a Veto takes the different names of one or more outcomes")
        object.__setattr__(self, "rule", inner)
        object.__setattr__(self, "outcomes", names)

    @property
    def plain(self) -> Quorum:
        """The rule without the veto."""
        return self.rule

    @property
    def vetoes(self) -> tuple[str, ...]:
        """The outcomes that the author named."""
        return self.outcomes

    @property
    def fixed_votes(self) -> int | None:
        """The number of the rule without the veto."""
        return self.rule.fixed_votes

    @property
    def parts(self) -> tuple[tuple[str, Plain], ...]:
        """The parts of the rule without the veto."""
        return self.rule.parts

    def dump(self) -> Any:
        """The outcomes, and the rule for all others."""
        return {"veto": list(self.outcomes), "otherwise": self.rule.dump()}

    def describe(self, outcomes: Sequence[Outcome] = ()) -> str:
        """The rule, and a sentence on the veto."""
        labels = {outcome.name: outcome.label for outcome in outcomes}
        chosen = [gettext("“%(label)s”") % {"label": labels.get(name) or Outcome(name).label} for name in self.outcomes]
        veto = gettext("One %(outcomes)s decides at once.") % {"outcomes": join_or(chosen)}
        return f"{self.rule.describe()} {veto}"


def read_quorum(given: Any, outcomes: Sequence[Outcome] = ()) -> Quorum:
    """The rule as an author writes it; with `outcomes`, those of a veto must be among them.

    >>> read_quorum("50%")
    Percent(share=50)
    >>> read_quorum({"finance": 2, "legal": "all"})
    PerGroup(rules=(('finance', Count(votes=2)), ('legal', All())))
    """
    if isinstance(given, Veto):
        known = [outcome.name for outcome in outcomes]
        if outcomes and (foreign := [name for name in given.outcomes if name not in known]):
            raise InvalidApproval(
                "quorum", given, f"{', '.join(foreign)} is not among the outcomes ({', '.join(known)}): name it there"
            )
        return given
    if isinstance(given, PerGroup):
        return _read_groups(dict(given.rules))
    if isinstance(given, Mapping):
        return _read_groups(given)
    return _read_plain(given)


def _read_groups(given: Mapping[Any, Any]) -> PerGroup:
    if not given:
        raise InvalidApproval("quorum", given, "name at least one group")
    rules = {name_group(group, "quorum"): _read_plain(rule) for group, rule in given.items()}
    if len(rules) < len(given):
        raise InvalidApproval("quorum", given, "it names one group twice")
    return PerGroup(tuple(sorted(rules.items())))


def _read_plain(given: Any) -> Plain:
    if isinstance(given, Plain):
        given = given.dump()  # however it was made, it is checked once
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return Count(given)
    if given == "all":
        return All()
    if isinstance(given, str) and (found := _PERCENT.fullmatch(given.strip())):
        return Percent(int(found[1]))
    raise InvalidApproval("quorum", given, _HOW)


def name_group(given: Any, option: str) -> str:
    """The name of a group that is given as an object or by its name.

    >>> name_group("finance", "quorum")
    'finance'
    """
    name = given if isinstance(given, str) else getattr(given, "name", None)
    if not isinstance(name, str) or not name.strip():
        raise InvalidApproval(option, given, "a group is given as an object, or by its name")
    return name


def load_quorum(stored: Any) -> Quorum:
    """The rule as it was frozen.

    >>> load_quorum({"veto": ["reject"], "otherwise": {"groups": {"legal": 1}}}).groups
    ('legal',)
    """
    if isinstance(stored, Mapping):
        if set(stored) == {"groups"} and isinstance(stored["groups"], Mapping):
            return _read_groups(stored["groups"])
        if set(stored) == {"veto", "otherwise"}:
            return Veto(load_quorum(stored["otherwise"]), stored["veto"])
        raise InvalidApproval("quorum", stored, "this is no quorum that Quorum.dump wrote")
    return _read_plain(stored)
