"""Every error this app raises, one tree. The class names the condition and builds its own message.

ApprovalError
├── InvalidApproval (ValueError)    an approval cannot work as it is written; nothing was stored
│   ├── InvalidCalendar             a calendar's zone, hours or holidays cannot be used
│   └── InvalidChange               what was asked of an object is refused; `.errors` maps a field to reasons
├── UnknownCalendar (LookupError)   no calendar is registered under this name
├── UnknownReview (LookupError)     there is no such review, or none for you
├── VotedTwice                      two ballots of one person were to be counted
└── DecisionRefused                 a decision changed nothing
    ├── NotAllowed                  a rule forbids it to this person; `.obstacle` says which
    ├── AlreadyDecided              it no longer waits; `.by .at .outcome`
    ├── Stale                       what was shown has changed; `.difference`
    ├── ReasonRequired              this outcome needs a reason; `.outcome`
    ├── UnknownOutcome              the approval has no such outcome; `.known`
    ├── TooSoon                     somebody was nudged a moment ago; `.until`
    └── DecisionFailed              the project's own code failed while the decision was carried out

A message is English and for who calls; `workflows.wording.messages` has the words for people, where there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from django.utils.translation import gettext

from workflows.exceptions import show
from workflows.importing.foreign_packages import refuse_foreign
from workflows.wording.messages import Reason, make_sentence

if TYPE_CHECKING:
    from approvals.rules import Obstacle

refuse_foreign("approvals")


class ApprovalError(Exception):
    """The root: catch it to catch everything that `approvals` raises."""


class InvalidApproval(ApprovalError, ValueError):
    """An approval cannot work as it is written; the message says what to write instead.

    >>> str(InvalidApproval("quorum", 0, "write how many equal votes decide, at least 1"))
    'quorum=0 cannot be used: write how many equal votes decide, at least 1'
    """

    #: The problem, where it can be somebody's who typed it.
    reason: str = ""

    def __init__(self, option: str, given: object, problem: str, *, reason: str = "") -> None:
        self.option, self.given = option, given
        self.reason = reason or (problem if isinstance(problem, Reason) else "")
        super().__init__(f"{option}={show(given)} cannot be used: {problem}")

    def tell(self) -> str:
        """A sentence for whoever typed it, in the language that is spoken now."""
        return make_sentence(self.reason) if self.reason else gettext("This cannot be used as it is.")


class InvalidCalendar(InvalidApproval):
    """A calendar cannot be made as it is written.

    >>> str(InvalidCalendar("hours", {}, "no weekday has any"))
    'hours={} cannot be used: no weekday has any'
    """


class UnknownCalendar(ApprovalError, LookupError):
    """No calendar is registered under this name.

    >>> print(UnknownCalendar("berlin", ["always"]))
    no calendar 'berlin' is registered (registered: always). Call approvals.rules.calendar.register_calendar('berlin', …) where every process imports it, such as your app's ready().
    """  # noqa: E501 - a doctest shows the message as it is

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name, self.known = name, tuple(known)
        super().__init__(
            f"no calendar {show(name)} is registered (registered: {', '.join(self.known)}). Call "
            f"approvals.rules.calendar.register_calendar({show(name)}, …) where every process imports it, such as your "
            "app's ready()."
        )


class VotedTwice(ApprovalError):
    """One person has two ballots: everybody counts once, so nothing was counted.

    >>> str(VotedTwice("ana"))
    "'ana' has two ballots; leave out the one that was undone"
    """

    def __init__(self, voter: object) -> None:
        self.voter = voter
        super().__init__(f"{show(voter)} has two ballots; leave out the one that was undone")


class DecisionRefused(ApprovalError):
    """A decision was refused; nothing has changed by it."""


class NotAllowed(DecisionRefused):
    """A rule forbids this decision to this person; `.obstacle` names the rule, its sentence is the message.

    >>> from approvals.rules import Obstacle
    >>> NotAllowed(Obstacle("requester", "You can’t decide because you asked for this (four eyes).")).obstacle.rule
    'requester'
    """

    def __init__(self, obstacle: Obstacle) -> None:
        self.obstacle = obstacle
        super().__init__(obstacle.message)


class AlreadyDecided(DecisionRefused):
    """It no longer waits: somebody decided, or it was withdrawn or ran out of time (then `.by` is empty).

    >>> print(AlreadyDecided("Ana Ruiz", datetime(2026, 7, 14, 8, 43, tzinfo=UTC), "approve"))
    this was decided already: 'approve', by Ana Ruiz, 2026-07-14 08:43 UTC. Nothing was changed.
    >>> print(AlreadyDecided())
    this no longer waits for a decision. Nothing was changed.
    """

    def __init__(self, by: str = "", at: datetime | None = None, outcome: str = "") -> None:
        self.by, self.at, self.outcome = by, at, outcome
        told = [repr(outcome)] if outcome else []
        told += [f"by {by}"] if by else []
        told += [f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"] if at else []
        what = f"was decided already: {', '.join(told)}" if told else "no longer waits for a decision"
        super().__init__(f"this {what}. Nothing was changed.")


class Stale(DecisionRefused):
    """What was shown has changed; `.difference` maps a field to (what was shown, what it is now).

    >>> print(Stale({"Amount": ("€40.00", "€400.00")}))
    this changed since it was opened: Amount. Look at the change, then decide.
    """

    def __init__(self, difference: Mapping[str, tuple[object, object]] | None = None) -> None:
        self.difference = dict(difference or {})
        fields = f": {', '.join(self.difference)}" if self.difference else ""
        super().__init__(f"this changed since it was opened{fields}. Look at the change, then decide.")


class ReasonRequired(DecisionRefused):
    """This outcome needs a reason.

    >>> str(ReasonRequired("reject"))
    "'reject' needs a reason here: say why, in reason="
    """

    def __init__(self, outcome: str) -> None:
        self.outcome = outcome
        super().__init__(f"{outcome!r} needs a reason here: say why, in reason=")


class UnknownOutcome(DecisionRefused, LookupError):
    """The approval has no such outcome.

    >>> str(UnknownOutcome("aprove", ["approve", "reject"]))
    "there is no outcome 'aprove' here; choose one of approve, reject"
    """

    def __init__(self, outcome: object, known: Iterable[str]) -> None:
        self.outcome, self.known = outcome, tuple(known)
        super().__init__(f"there is no outcome {show(outcome)} here; choose one of {', '.join(self.known)}")


class TooSoon(DecisionRefused):
    """Those asked were nudged a moment ago; `.until` says when it can be done again.

    >>> print(TooSoon(datetime(2026, 7, 14, 12, 43, tzinfo=UTC)))
    they were reminded a moment ago: do it again after 2026-07-14 12:43 UTC
    """

    def __init__(self, until: datetime) -> None:
        self.until = until
        super().__init__(
            f"they were reminded a moment ago: do it again after {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        )


class DecisionFailed(DecisionRefused):
    """The project's own code failed while the decision was carried out; `__cause__` is its error.

    A problem that is a reason (`workflows.wording.messages`) is told to people in their language.

    >>> print(DecisionFailed("ValueError: no such account"))
    the decision could not be carried out (ValueError: no such account). Nothing was changed.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the decision could not be carried out ({problem:.500}). Nothing was changed.")


class UnknownReview(ApprovalError, LookupError):
    """There is no such review, or none for you.

    >>> print(UnknownReview("7"))
    there is no review '7' for you
    """

    def __init__(self, id: object) -> None:
        super().__init__(f"there is no review {show(str(id))} for you")
