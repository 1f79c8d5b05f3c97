"""What happens while nobody decides: reminders, escalation and the answer at the end, as data.

A ladder is read where the approval is written and placed when it is requested: then each rung has its moment,
which is frozen with the request. Invariant owned: at most one rung answers, it is the last that happens, and
its answer is one that the author named; nothing here ever approves by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from django.utils.translation import gettext

from approvals.exceptions import InvalidApproval, UnknownOutcome
from approvals.rules import Outcome, find_outcome
from approvals.rules.business_hours import DAY, read_span
from approvals.rules.calendar import Calendar, find_calendar, name_calendar
from approvals.rules.quorum import name_group
from workflows.exceptions import InvalidDuration

Deed = Literal["remind", "reassign", "add", "outcome"]
DEEDS: tuple[str, ...] = get_args(Deed)

_HOW = (
    'an action is "remind", ("reassign", group or user), ("add", group or user) or ("outcome", name); a user given '
    'by name is ("add", "user", "ana")'
)


@dataclass(frozen=True, slots=True)
class RungAction:
    """What a rung does: remind, hand on or widen to a group or a user, or answer.

    >>> RungAction("reassign", group="finance").user
    ''
    """

    do: Deed
    group: str = ""
    user: str = ""
    outcome: str = ""

    def __post_init__(self) -> None:
        wanted = {"remind": 0, "outcome": 1, "reassign": 1, "add": 1}.get(self.do)
        given = [self.outcome] if self.do == "outcome" else [self.group, self.user]
        foreign = [self.group, self.user] if self.do == "outcome" else [self.outcome]
        if sum(map(bool, given)) != wanted or any(foreign):
            raise InvalidApproval("action", self, _HOW)


REMIND = RungAction("remind")


@dataclass(frozen=True, slots=True)
class Step:
    """One rung as it was written: how long after the request, and what then.

    >>> Step("1d", REMIND).after
    '1d'
    """

    after: Any
    action: RungAction


@dataclass(frozen=True, slots=True)
class Ladder:
    """What an author wrote about time: rungs, when an answer is due, and the calendar that counts.

    >>> read_ladder(remind=["1d"], due="2d").calendar
    'always'
    """

    steps: tuple[Step, ...] = ()
    due: Any = None
    calendar: str = "always"


@dataclass(frozen=True, slots=True)
class Rung:
    """One rung of a request: its place from 0, its moment, and what it does.

    >>> Rung(0, datetime(2026, 7, 14, tzinfo=UTC), REMIND).action.do
    'remind'
    """

    index: int
    at: datetime
    action: RungAction


def read_ladder(
    *,
    remind: Iterable[Any] | None = None,
    escalate: Iterable[Any] | None = None,
    due: Any = None,
    calendar: str | Calendar | None = None,
    outcomes: Sequence[Outcome] = (),
) -> Ladder:
    """What an author wrote, checked and put in order of time.

    `remind` is a list of durations, each alone or with "remind"; `escalate` one of (duration, action). `due` is
    a duration or a moment. With `outcomes`, an answer must be among them.

    >>> ladder = read_ladder(remind=[("1d", "remind")], escalate=[("3d", ("outcome", "reject")), ("2d", ("add", "cfo"))])
    >>> [(step.after, step.action.do) for step in ladder.steps]
    [('1d', 'remind'), ('2d', 'add'), ('3d', 'outcome')]
    """  # noqa: E501
    steps = [_read_reminder(one) for one in _list_items("remind", remind)]
    steps += [_read_rung(one) for one in _list_items("escalate", escalate)]
    for step in steps:
        _check_duration(step.after, calendar)
        if outcomes and step.action.outcome:
            _check_outcome(step.action, outcomes)
    if due is not None and not isinstance(due, datetime):
        _check_duration(due, calendar)
    elif due is not None and due.utcoffset() is None:
        raise InvalidApproval("due", due, "the moment must know its time zone")
    steps.sort(key=lambda step: _find_length(step.after))
    _check_end(steps, calendar)
    return Ladder(tuple(steps), due, name_calendar(calendar))


def _list_items(option: str, given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        such = 'remind=["1d"]' if option == "remind" else 'escalate=[("2d", ("add", "finance"))]'
        raise InvalidApproval(option, given, f"write a list, such as {such}")
    return list(given)


def _read_reminder(given: Any) -> Step:
    if not isinstance(given, tuple | list):
        return Step(given, REMIND)
    step = _read_rung(given)
    if step.action != REMIND:
        raise InvalidApproval("remind", given, "it only reminds; write other actions in escalate=")
    return step


def _read_rung(given: Any) -> Step:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise InvalidApproval("escalate", given, 'a rung is a pair of duration and action: ("2d", ("add", "finance"))')
    return Step(given[0], read_action(given[1]))


def read_action(given: Any) -> RungAction:
    """What a rung does, as an author writes it.

    >>> read_action("remind").do, read_action(("add", "finance")).group, read_action(("add", "user", "ana")).user
    ('remind', 'finance', 'ana')
    """
    if isinstance(given, RungAction):
        return given
    if given == "remind":
        return REMIND
    if not isinstance(given, tuple | list) or len(given) not in (2, 3) or given[0] not in DEEDS:
        raise InvalidApproval("action", given, _HOW)
    do, *kind, target = given
    if do == "outcome" and not kind:
        return RungAction(do, outcome=_name_outcome(target))
    if do == "remind" or do == "outcome" or (kind and kind[0] not in ("user", "group")):
        raise InvalidApproval("action", given, _HOW)
    if kind == ["user"] or hasattr(target, "get_username"):
        return RungAction(do, user=_name_user(target))
    return RungAction(do, group=name_group(target, "action"))


def _name_outcome(given: Any) -> str:
    name = given.name if isinstance(given, Outcome) else given
    if not isinstance(name, str):
        raise InvalidApproval("action", given, "an outcome is given by its name")
    return name


def _name_user(given: Any) -> str:
    name = given if isinstance(given, str) else getattr(given, "get_username", str)()
    if not isinstance(name, str) or not name.strip():
        raise InvalidApproval("action", given, "a user is given as an object, or by the username")
    return name


def _check_outcome(action: RungAction, outcomes: Sequence[Outcome]) -> None:
    try:
        find_outcome(outcomes, action.outcome)
    except UnknownOutcome as error:
        raise InvalidApproval("escalate", action.outcome, str(error)) from error


def _check_duration(given: Any, calendar: object) -> None:
    weeks, days, _ = read_span(given)
    if calendar is None and isinstance(given, str) and "b" in given.lower():
        raise InvalidDuration(given, "business days need a calendar=")
    if calendar is not None and (days % 1 or weeks % 1):
        raise InvalidDuration(given, "a part of a business day has no length; say hours instead")


def _find_length(after: Any) -> float:
    """Seconds by which rungs are put in order as long as nobody knows the start."""
    weeks, days, seconds = read_span(after)
    return (7 * weeks + days) * DAY.total_seconds() + seconds


def _check_end(steps: Sequence[Step], calendar: object) -> None:
    answers = [step for step in steps if step.action.outcome]
    if len(answers) > 1:
        names = [step.action.outcome for step in answers]
        raise InvalidApproval("escalate", names, "one outcome at most: after it nothing waits any more")
    for step in steps if answers else ():
        if _find_length(step.after) > _find_length(answers[0].after):
            if calendar is not None and _tell_unit(step.after) != _tell_unit(answers[0].after):
                continue  # two business days may be less than twenty business hours: only the start tells
            raise InvalidApproval("escalate", step.after, f"nothing waits after the outcome at {answers[0].after}")


def _tell_unit(after: Any) -> str:
    weeks, days, seconds = read_span(after)
    return "time" if not (weeks or days) else "both" if seconds else "days"


def place_rungs(ladder: Ladder, start: datetime) -> tuple[Rung, ...]:
    """The rungs of a request that is made now, with their moments; none after the one that answers.

    >>> rungs = place_rungs(read_ladder(remind=["4h"]), datetime(2026, 7, 14, 9, tzinfo=UTC))
    >>> str(rungs[0].at)
    '2026-07-14 13:00:00+00:00'
    """
    calendar = find_calendar(ladder.calendar)
    placed = sorted(
        ((calendar.add(start, step.after), bool(step.action.outcome), step.action) for step in ladder.steps),
        key=lambda one: one[:2],
    )
    # A business day is longer than hours on some days and shorter on others: whatever would come after the answer
    # here does not come.
    end = next((n + 1 for n, (_, answers, _) in enumerate(placed) if answers), len(placed))
    return tuple(Rung(index, at, action) for index, (at, _, action) in enumerate(placed[:end]))


def place_due(ladder: Ladder, start: datetime) -> datetime | None:
    """When an answer to a request that is made now is due.

    >>> str(place_due(read_ladder(due="2d"), datetime(2026, 7, 14, 9, tzinfo=UTC)))
    '2026-07-16 09:00:00+00:00'
    """
    if ladder.due is None or isinstance(ladder.due, datetime):
        return ladder.due
    return find_calendar(ladder.calendar).add(start, ladder.due)


def next_rung(rungs: Sequence[Rung], done: int, now: datetime) -> Rung | None:
    """The rung to do now, when so many lie behind; afterwards `rung.index + 1` do.

    A reminder is left out when a later one, or the answer, is due as well: after a pause nobody wants them all.

    >>> rungs = place_rungs(read_ladder(remind=["1h", "2h"]), datetime(2026, 7, 14, 9, tzinfo=UTC))
    >>> next_rung(rungs, 0, datetime(2026, 7, 14, 12, tzinfo=UTC)).index
    1
    """
    due = [rung for rung in rungs[done:] if rung.at <= now]
    for place, rung in enumerate(due):
        overtaken = any(later.action == REMIND or later.action.outcome for later in due[place + 1 :])
        if rung.action != REMIND or not overtaken:
            return rung
    return None


def next_moment(rungs: Sequence[Rung], done: int) -> datetime | None:
    """When to look again, when so many rungs lie behind.

    >>> next_moment((), 0) is None
    True
    """
    return rungs[done].at if done < len(rungs) else None


def dump_rungs(rungs: Sequence[Rung]) -> list[dict[str, str]]:
    """Rungs as plain JSON, to be frozen with a request.

    >>> dump_rungs([Rung(0, datetime(2026, 7, 14, tzinfo=UTC), RungAction("add", group="finance"))])
    [{'at': '2026-07-14T00:00:00+00:00', 'do': 'add', 'group': 'finance'}]
    """
    return [
        {"at": rung.at.astimezone(UTC).isoformat(), "do": rung.action.do}
        | {name: value for name in ("group", "user", "outcome") if (value := getattr(rung.action, name))}
        for rung in rungs
    ]


def load_rungs(stored: Iterable[Mapping[str, str]]) -> tuple[Rung, ...]:
    """Rungs as they were frozen.

    >>> load_rungs([{"at": "2026-07-14T00:00:00+00:00", "do": "outcome", "outcome": "reject"}])[0].action.outcome
    'reject'
    """
    return tuple(
        Rung(
            index,
            datetime.fromisoformat(one["at"]),
            RungAction(**{name: value for name, value in one.items() if name not in ("at", "principal")}),  # type: ignore[arg-type]
        )
        for index, one in enumerate(stored)
    )


def name_target(do: Any, principal: str, name: str) -> RungAction:
    """A rung that asks a principal, by what people call it.

    >>> name_target("add", "group:3", "Finance").group
    'Finance'
    """
    return RungAction(do, group=name) if principal.startswith("group:") else RungAction(do, user=name)


def describe_action(action: RungAction, outcomes: Sequence[Outcome] = ()) -> str:
    """What a rung does, in words for those who wait.

    >>> describe_action(RungAction("outcome", outcome="reject")), describe_action(RungAction("add", group="Finance"))
    ('Answered “Reject” automatically', 'The group Finance is asked as well')
    """
    who = action.group or action.user
    if action.do == "remind":
        return gettext("A reminder is sent")
    if action.do == "reassign":
        return gettext("Handed on to %(who)s") % {"who": who}
    if action.do == "add":
        if action.group:
            return gettext("The group %(who)s is asked as well") % {"who": who}
        return gettext("%(who)s is asked as well") % {"who": who}
    label = next((one.label for one in outcomes if one.name == action.outcome), Outcome(action.outcome).label)
    return gettext("Answered “%(outcome)s” automatically") % {"outcome": label}


def list_concerns(ladder: Ladder, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """What an author should think about again: for a system check, in a developer's words.

    >>> from approvals.rules import read_outcomes
    >>> list_concerns(read_ladder(escalate=[("2d", ("outcome", "approve"))]), read_outcomes(["approve", "reject"]))
    ("after 2d without an answer it is 'approve' by itself: make that the outcome only where silence may say yes",)
    """
    answer = next((step for step in ladder.steps if step.action.outcome), None)
    if answer is None:
        escalates = any(step.action.do != "remind" for step in ladder.steps)
        told = 'nothing answers when all of them stay silent: end escalate= with ("outcome", name)'
        return (told,) if escalates else ()
    name = answer.action.outcome
    says_yes = len(outcomes) > 1 and (name == outcomes[0].name or find_outcome(outcomes, name).tone == "positive")
    told = f"after {answer.after} without an answer it is {name!r} by itself: make that the outcome only where silence"
    return (f"{told} may say yes",) if says_yes else ()
