"""Who may decide, and how: the rules that can forbid a decision, in one fixed order.

Every door asks here, and a disabled button shows the very sentence that a refusal gives. Invariant owned:
`ORDER` is the order in which the rules are asked, so that two doors never name different ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NoReturn

from django.utils.translation import gettext

from approvals.display.times import show_second, show_when
from approvals.exceptions import AlreadyDecided, NotAllowed, ReasonRequired, Stale, UnknownOutcome
from approvals.rules.outcomes import Outcome, find_outcome
from workflows.wording.punctuation import end_sentence, join_list

Risk = Literal["low", "medium", "high"]

#: First whether there is something to decide, then who, then what, then how carefully.
ORDER = (
    "closed",
    "grace",
    "not_candidate",
    "requester",
    "decided_before",
    "voted",
    "claimed",
    "unknown_outcome",
    "stale",
    "high_risk_bulk",
    "high_risk_key",
    "high_risk_diff",
    "reauthenticate",
    "reason_required",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What was frozen with the request, and the words for it.

    `who` says who may decide ("Lena Fischer or anyone else in Finance"), `requester` who asked, or nothing
    where no person did. `reauthenticate` asks for the password again, where the risk is high.

    >>> Rules(outcomes=(Outcome("approve"), Outcome("reject"))).four_eyes
    True
    """

    outcomes: Sequence[Outcome]
    four_eyes: bool = True
    risk: Risk = "low"
    reauthenticate: bool = False
    who: str = ""
    requester: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """Who has decided what, and when; `until` is the end of the grace in which it can be undone.

    Moments are told as they are seen from `now`; without it, none is.

    >>> Decided("Ana Ruiz", outcome="approve").by
    'Ana Ruiz'
    """

    by: str = ""
    at: datetime | None = None
    outcome: str = ""
    until: datetime | None = None
    now: datetime | None = field(default=None, compare=False)
    #: Whether nobody answered so: those asked did not agree.
    is_divided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How one person stands to one request, now. What is not said forbids nothing, but a stranger may nothing.

    `on_absence`: asked in place of somebody who is away. `is_automated`: a program acts, nobody looks at a
    screen. `voted_before` leaves out a vote that was undone.

    >>> Facts(is_candidate=True).is_open
    True
    """

    is_open: bool = True
    in_grace: bool = False
    decided: Decided = Decided()
    is_candidate: bool = False
    on_absence: bool = False
    is_requester: bool = False
    decided_earlier_stage: bool = False
    voted_before: bool = False
    claimed_by_other: bool = False
    claimed_by: str = ""
    is_automated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the person is about to do, and how.

    >>> Attempt(outcome="approve").is_current
    True
    """

    outcome: str
    reason: str = ""
    #: Whether the version that was shown is still the one there is, and else what differs.
    is_current: bool = True
    difference: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    via_bulk: bool = False
    single_key: bool = False
    saw_diff: bool = False
    has_reauthenticated: bool = False


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The rule that forbids a decision, by its name in `ORDER`, and a sentence for the person.

    >>> Obstacle("voted", "You have decided on this already.").rule
    'voted'
    """

    rule: str
    message: str
    #: Who is in the way, and until when, where that is known.
    by: str = ""
    until: datetime | None = None


def find_obstacle(rules: Rules, facts: Facts, attempt: Attempt | None = None) -> Obstacle | None:
    """The first rule that forbids the decision, or None. Without an attempt: whether this person may at all.

    >>> rules = Rules(outcomes=(Outcome("approve"), Outcome("reject")), who="Lena Fischer")
    >>> find_obstacle(rules, Facts(is_candidate=True, is_requester=True)).message
    'You can’t decide because you asked for this (four eyes). Lena Fischer can.'
    >>> find_obstacle(rules, Facts(is_candidate=True), Attempt(outcome="approve")) is None
    True
    """
    return next(_find_obstacles(rules, facts, attempt), None)


def list_obstacles(rules: Rules, facts: Facts, attempt: Attempt | None = None) -> tuple[Obstacle, ...]:
    """All rules that forbid the decision, in order: what a page shows as still missing.

    >>> rules = Rules(outcomes=(Outcome("approve"), Outcome("reject")), risk="high")
    >>> [one.rule for one in list_obstacles(rules, Facts(is_candidate=True), Attempt(outcome="approve"))]
    ['high_risk_diff', 'reason_required']
    """
    return tuple(_find_obstacles(rules, facts, attempt))


def check_decision(rules: Rules, facts: Facts, attempt: Attempt) -> Outcome:
    """The outcome that may be recorded, or the error that says why not.

    >>> rules = Rules(outcomes=(Outcome("approve"), Outcome("reject")))
    >>> check_decision(rules, Facts(is_candidate=True), Attempt(outcome="approve")).name
    'approve'
    """
    if (obstacle := find_obstacle(rules, facts, attempt)) is not None:
        _refuse(obstacle, rules, facts, attempt)
    return find_outcome(rules.outcomes, attempt.outcome)


def _refuse(obstacle: Obstacle, rules: Rules, facts: Facts, attempt: Attempt) -> NoReturn:
    if obstacle.rule == "closed":
        raise AlreadyDecided(facts.decided.by, facts.decided.at, facts.decided.outcome)
    if obstacle.rule == "unknown_outcome":
        raise UnknownOutcome(attempt.outcome, [outcome.name for outcome in rules.outcomes])
    if obstacle.rule == "stale":
        raise Stale(attempt.difference)
    if obstacle.rule == "reason_required":
        raise ReasonRequired(attempt.outcome)
    raise NotAllowed(obstacle)


def _find_obstacles(rules: Rules, facts: Facts, attempt: Attempt | None) -> Iterator[Obstacle]:
    yield from _find_person_obstacles(rules, facts)
    if attempt is not None:
        yield from _find_attempt_obstacles(rules, facts, attempt)


def _find_person_obstacles(rules: Rules, facts: Facts) -> Iterator[Obstacle]:
    if not facts.is_open:
        yield Obstacle("closed", _tell_closed(rules, facts.decided))
    if facts.in_grace:
        yield Obstacle("grace", _tell_grace(rules, facts.decided), facts.decided.by, facts.decided.until)
    if not (facts.is_candidate or facts.on_absence):
        yield _point(rules, "not_candidate", gettext("You can’t decide because you are not among those asked."))
    if rules.four_eyes and facts.is_requester:
        yield _point(rules, "requester", gettext("You can’t decide because you asked for this (four eyes)."))
    if rules.four_eyes and facts.decided_earlier_stage:
        told = gettext("You can’t decide because you decided an earlier stage of this (four eyes).")
        yield _point(rules, "decided_before", told)
    if facts.voted_before:
        told = gettext("You have decided on this already, or somebody for you, and everybody counts once.")
        yield Obstacle("voted", told)
    if facts.claimed_by_other:
        by = facts.claimed_by or gettext("Somebody else")
        told = gettext("%(by)s has claimed this. Others can decide once it is released.") % {"by": by}
        yield Obstacle("claimed", told, facts.claimed_by)


def _find_attempt_obstacles(rules: Rules, facts: Facts, attempt: Attempt) -> Iterator[Obstacle]:
    outcome = next((one for one in rules.outcomes if one.name == attempt.outcome), None)
    if outcome is None:
        labels = join_list(one.label for one in rules.outcomes)
        told = gettext("“%(outcome)s” is no answer to this. Choose one of: %(labels)s.")
        yield Obstacle("unknown_outcome", told % {"outcome": attempt.outcome, "labels": labels})
    if not attempt.is_current:
        yield Obstacle("stale", gettext("This changed since you opened it. Look at the change, then decide."))
    if rules.risk == "high":
        yield from _find_risk_obstacles(rules, facts, attempt, outcome)
    if outcome and (outcome.requires_reason or rules.risk == "high") and not attempt.reason.strip():
        told = gettext("“%(outcome)s” needs a reason: write one, or choose one.") % {"outcome": outcome.label}
        yield Obstacle("reason_required", told)


def _find_risk_obstacles(rules: Rules, facts: Facts, attempt: Attempt, outcome: Outcome | None) -> Iterator[Obstacle]:
    if attempt.via_bulk:
        yield Obstacle("high_risk_bulk", gettext("The risk is high: open this request to decide it on its own."))
    if attempt.single_key:
        yield Obstacle("high_risk_key", gettext("The risk is high: no single key decides this. Use the button."))
    if outcome and says_no(outcome, rules.outcomes):
        return  # saying no must never be harder than it is: nothing happens by it
    if facts.is_automated:
        told = gettext("The risk is high: a person has to see what changes, a program can’t decide.")
        yield _point(rules, "high_risk_diff", told)
    elif not attempt.saw_diff:
        yield Obstacle("high_risk_diff", gettext("The risk is high: look at what changes, then decide."))
    if rules.reauthenticate and (facts.is_automated or not attempt.has_reauthenticated):
        yield Obstacle("reauthenticate", gettext("The risk is high: enter your password again to decide."))


def says_no(outcome: Outcome, outcomes: Sequence[Outcome]) -> bool:
    """Whether it says no. A tone alone does not tell: a red button may well delete something.

    >>> says_no(Outcome("reject"), [Outcome("approve"), Outcome("reject")])
    True
    """
    is_last = len(outcomes) > 1 and outcome == outcomes[-1] and outcome.tone != "positive"
    return outcome.is_refusal or is_last


def _point(rules: Rules, rule: str, told: str) -> Obstacle:
    """An obstacle that also says who may, where that is known."""
    if rules.who:
        told = gettext("%(refusal)s %(who)s can.") % {"refusal": told, "who": rules.who}
    return Obstacle(rule, told)


def _label(rules: Rules, name: str) -> str:
    return next((one.label for one in rules.outcomes if one.name == name), name)


def _tell_closed(rules: Rules, decided: Decided) -> str:
    at = "" if decided.at is None or decided.now is None else show_when(decided.at, decided.now)
    given = {"by": decided.by, "outcome": _label(rules, decided.outcome), "at": at}
    if decided.is_divided and at:
        told = gettext("Answered %(outcome)s %(when)s, because those asked did not agree")
        return end_sentence(told % {"outcome": gettext("“%(outcome)s”") % given, "when": at})
    if not decided.by:
        return gettext("This no longer waits for a decision.")
    if not at:
        return gettext("%(by)s has decided this already: “%(outcome)s”.") % given
    return gettext("%(by)s has decided this already: “%(outcome)s”, %(at)s.") % given


def _tell_grace(rules: Rules, decided: Decided) -> str:
    given = {"by": decided.by or gettext("Somebody"), "outcome": _label(rules, decided.outcome)}
    if decided.until is None:
        return gettext("%(by)s is deciding this: “%(outcome)s”. It can still be undone.") % given
    given["until"] = show_second(decided.until)
    if decided.is_divided:
        told = gettext(
            "Those asked did not agree, so this becomes “%(outcome)s”. It can still be undone until %(until)s."
        )
        return told % given
    return gettext("%(by)s is deciding this: “%(outcome)s”. It can be undone until %(until)s.") % given


def describe_four_eyes(rules: Rules) -> str:
    """What four eyes means for this request, in words; empty where it does not hold.

    >>> print(describe_four_eyes(Rules(outcomes=(), requester="Ben Okafor")))
    Four eyes: neither Ben Okafor, who asked, nor anyone who decided an earlier stage can decide.
    >>> print(describe_four_eyes(Rules(outcomes=())))
    Four eyes: nobody who decided an earlier stage can decide. No person asked for this, so no requester is excluded.
    """
    if not rules.four_eyes:
        return ""
    if rules.requester:
        told = gettext(
            "Four eyes: neither %(requester)s, who asked, nor anyone who decided an earlier stage can decide."
        )
        return told % {"requester": rules.requester}
    return gettext(
        "Four eyes: nobody who decided an earlier stage can decide. "
        "No person asked for this, so no requester is excluded."
    )
