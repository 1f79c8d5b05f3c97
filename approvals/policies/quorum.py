"""How many equal votes decide: the rule, as a value that is frozen when a decision is requested.

Invariant owned: a rule that was read can be reached by some number of people, and reads back from its JSON as
the same value. Counting is `judging`'s affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext

from approvals.exceptions import InvalidApproval
from approvals.policies.outcomes import Outcome
from workflows.joining import join_and, join_or

_HOW = 'write a number of equal votes such as 2, "50%", "all", {"finance": 1, "legal": "all"}, or Veto(2)'
_PERCENT = re.compile(r"([1-9]\d?|100) ?%")


@dataclass(frozen=True, slots=True)
class Count:
    """So many equal votes decide.

    >>> Count(2).find_needed(people=5)
    2
    """

    votes: int

    def find_needed(self, people: int) -> int:
        """Equal votes that decide; the same however many people there are."""
        return self.votes


@dataclass(frozen=True, slots=True)
class Percent:
    """Equal votes of this share of the people decide, rounded up, at least one.

    >>> Percent(50).find_needed(people=5)
    3
    """

    share: int

    def find_needed(self, people: int) -> int:
        """Equal votes that decide among so many people."""
        return max(1, -(-self.share * people // 100))


@dataclass(frozen=True, slots=True)
class All:
    """Only a unanimous vote decides.

    >>> All().find_needed(people=5)
    5
    """

    def find_needed(self, people: int) -> int:
        """Equal votes that decide: everybody's, at least one."""
        return max(1, people)


Plain = Count | Percent | All


@dataclass(frozen=True, slots=True)
class PerGroup:
    """Every group must come to the same answer, each by a rule of its own.

    Who is in several of the groups counts in each of them.

    >>> PerGroup((("finance", Count(1)), ("legal", All()))).names
    ('finance', 'legal')
    """

    rules: tuple[tuple[str, Plain], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(name for name, _ in self.rules)


@dataclass(frozen=True, slots=True, init=False)
class Veto:
    """One vote for any of `outcomes` decides at once; everything else follows `rule`.

    >>> Veto("50%").rule, Veto("50%").outcomes
    (Percent(share=50), ('reject',))
    """

    rule: Plain | PerGroup
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


Quorum = Plain | PerGroup | Veto


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
    if isinstance(given, Count | Percent | All):
        given = dump_quorum(given)  # however it was made, it is checked once
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


def dump_quorum(rule: Quorum) -> Any:
    """The rule as plain JSON, to be frozen with a request.

    >>> dump_quorum(read_quorum({"legal": "all"})), dump_quorum(Veto(2))
    ({'groups': {'legal': 'all'}}, {'veto': ['reject'], 'otherwise': 2})
    """
    if isinstance(rule, Count):
        return rule.votes
    if isinstance(rule, Percent):
        return f"{rule.share}%"
    if isinstance(rule, All):
        return "all"
    if isinstance(rule, PerGroup):
        return {"groups": {name: dump_quorum(inner) for name, inner in rule.rules}}
    return {"veto": list(rule.outcomes), "otherwise": dump_quorum(rule.rule)}


def load_quorum(stored: Any) -> Quorum:
    """The rule as it was frozen.

    >>> load_quorum({"veto": ["reject"], "otherwise": {"groups": {"legal": 1}}}).rule.names
    ('legal',)
    """
    if isinstance(stored, Mapping):
        if set(stored) == {"groups"} and isinstance(stored["groups"], Mapping):
            return _read_groups(stored["groups"])
        if set(stored) == {"veto", "otherwise"}:
            return Veto(load_quorum(stored["otherwise"]), stored["veto"])
        raise InvalidApproval("quorum", stored, "this is no quorum that dump_quorum wrote")
    return _read_plain(stored)


def describe_quorum(rule: Quorum, outcomes: Sequence[Outcome] = ()) -> str:
    """The rule in words for those who decide.

    >>> describe_quorum(read_quorum({"Finance": 2, "Legal": "all"}))
    'Equal answers decide: 2 from Finance and all from Legal.'
    >>> describe_quorum(Veto("50%"))
    'Equal answers from 50% of those asked decide. One “Reject” decides at once.'
    """
    if isinstance(rule, Veto):
        labels = {outcome.name: outcome.label for outcome in outcomes}
        chosen = [gettext("“%(label)s”") % {"label": labels.get(name) or Outcome(name).label} for name in rule.outcomes]
        veto = gettext("One %(outcomes)s decides at once.") % {"outcomes": join_or(chosen)}
        return f"{describe_quorum(rule.rule)} {veto}"
    if isinstance(rule, PerGroup):
        parts = [_describe_group(name, inner) for name, inner in rule.rules]
        return gettext("Equal answers decide: %(groups)s.") % {"groups": join_and(parts)}
    if isinstance(rule, Count):
        return ngettext("One answer decides.", "%(votes)d equal answers decide.", rule.votes) % {"votes": rule.votes}
    if isinstance(rule, Percent):
        return gettext("Equal answers from %(share)d%% of those asked decide.") % {"share": rule.share}
    return gettext("Everybody asked must give the same answer.")


def _describe_group(name: str, rule: Plain) -> str:
    if isinstance(rule, Count):
        return gettext("%(votes)d from %(group)s") % {"votes": rule.votes, "group": name}
    if isinstance(rule, Percent):
        return gettext("%(share)d%% from %(group)s") % {"share": rule.share, "group": name}
    return gettext("all from %(group)s") % {"group": name}
