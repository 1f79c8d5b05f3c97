"""While nobody decides: reminders, escalation and an answer that the author named, each at its own moment, once."""

import doctest
import json
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from approvals.exceptions import InvalidApproval, InvalidCalendar, UnknownCalendar
from approvals.rules import Outcome, calendar, escalation, read_outcomes
from approvals.rules.calendar import Calendar
from approvals.rules.escalation import (
    REMIND,
    Ladder,
    Rung,
    RungAction,
    describe_action,
    dump_rungs,
    list_concerns,
    load_rungs,
    next_moment,
    next_rung,
    place_due,
    place_rungs,
    read_action,
    read_ladder,
)
from workflows.exceptions import InvalidDuration

TUESDAY = datetime(2026, 7, 14, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
YES_NO = read_outcomes(("approve", "reject"))
OFFICE = Calendar("UTC")


@dataclass(frozen=True)
class Group:
    name: str


class User:
    name = "no group"

    def __repr__(self) -> str:
        return "User(ana)"  # the same in every process that collects the tests

    def get_username(self) -> str:
        return "ana"


@pytest.fixture(autouse=True)
def office(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calendar, "_registered", calendar._registered | {"office": OFFICE})


def test_the_examples_in_the_docstrings_run() -> None:
    ran = doctest.testmod(escalation)
    assert ran.attempted >= 15
    assert not ran.failed


# Reading

READABLE: list[tuple[Any, RungAction]] = [
    ("remind", REMIND),
    (("reassign", "finance"), RungAction("reassign", group="finance")),
    (("reassign", Group("finance")), RungAction("reassign", group="finance")),
    (("reassign", User()), RungAction("reassign", user="ana")),
    (["add", "user", "ana"], RungAction("add", user="ana")),
    (("add", "user", User()), RungAction("add", user="ana")),
    (("add", "group", "user"), RungAction("add", group="user")),
    (("outcome", "reject"), RungAction("outcome", outcome="reject")),
    (("outcome", Outcome("reject")), RungAction("outcome", outcome="reject")),
    (RungAction("add", user="ana"), RungAction("add", user="ana")),
]


@pytest.mark.parametrize(("written", "action"), READABLE, ids=str)
def test_an_action_is_read(written: Any, action: RungAction) -> None:
    assert read_action(written) == action
    assert read_ladder(escalate=[("1d", written)]).steps[0].action == action


UNREADABLE: list[Any] = [
    "approve", "", None, 5, (), ("remind",), ("remind", "ana"), ("add",), ("add", ""), ("add", None), ("add", 5),
    ("add", "team", "x"), ("add", "user", ""), ("add", "user", 5), ("add", "user", "a", "b"), ("outcome", 5),
    ("outcome", "user", "reject"), ("outcome", ""), ("delete", "x"), {"add": "finance"}, ("reassign", []),
]  # fmt: skip


@pytest.mark.parametrize("written", UNREADABLE, ids=str)
def test_an_action_nobody_can_do_is_refused(written: Any) -> None:
    with pytest.raises(InvalidApproval, match="action="):
        read_ladder(escalate=[("1d", written)])


@pytest.mark.parametrize(
    "wrong",
    [
        {"do": "remind", "user": "ana"},
        {"do": "add"},
        {"do": "add", "user": "ana", "group": "finance"},
        {"do": "add", "outcome": "reject"},
        {"do": "outcome"},
        {"do": "outcome", "outcome": "reject", "group": "finance"},
        {"do": "wait"},
    ],
    ids=str,
)
def test_an_action_has_exactly_what_it_needs(wrong: Any) -> None:
    with pytest.raises(InvalidApproval, match="action="):
        RungAction(**wrong)


def test_rungs_stand_in_order_of_time_however_they_are_written() -> None:
    found = read_ladder(
        remind=["1d", ("6h", "remind")],
        escalate=[("3d", ("outcome", "reject")), ("1d", ("add", "cfo")), (timedelta(hours=2), "remind")],
        due="2d",
        outcomes=YES_NO,
    )
    assert [(step.after, step.action.do) for step in found.steps] == [
        (timedelta(hours=2), "remind"),
        ("6h", "remind"),
        ("1d", "remind"),
        ("1d", "add"),
        ("3d", "outcome"),
    ]
    assert pickle.loads(pickle.dumps(found)) == found
    assert read_ladder() == Ladder()


@pytest.mark.parametrize("option", ["remind", "escalate"])
@pytest.mark.parametrize("wrong", ["1d", 5, {"1d": "remind"}, [("1d",)], [("1d", "remind", "x")]], ids=str)
def test_a_ladder_is_a_list_of_pairs(option: str, wrong: Any) -> None:
    with pytest.raises(InvalidApproval):
        read_ladder(**{option: wrong})


def test_a_reminder_only_reminds() -> None:
    with pytest.raises(InvalidApproval, match="escalate="):
        read_ladder(remind=[("1d", ("add", "cfo"))])
    with pytest.raises(InvalidApproval, match="pair of duration and action"):
        read_ladder(escalate=["1d"])


@pytest.mark.parametrize("duration", ["soon", "0h", "-1d", None, True, "2bd", "1 business day", ""], ids=str)
def test_a_duration_that_says_nothing_is_refused_where_it_is_written(duration: Any) -> None:
    for wrong in [{"remind": [(duration, "remind")]}, {"escalate": [(duration, "remind")]}]:
        with pytest.raises(InvalidDuration):
            read_ladder(**wrong)  # type: ignore[arg-type]
    if duration is not None:
        with pytest.raises(InvalidDuration):
            read_ladder(due=duration)


def test_half_a_business_day_is_refused_where_it_is_written() -> None:
    assert read_ladder(remind=["1.5d"]).calendar == "always"
    for wrong in ["1.5d", "0.5w", "2.5 business days"]:
        with pytest.raises(InvalidDuration, match="say hours instead"):
            read_ladder(remind=[wrong], calendar="office")


def test_due_is_a_duration_or_a_moment_in_a_zone() -> None:
    assert place_due(read_ladder(due="2d"), TUESDAY) == TUESDAY + 48 * HOUR
    assert place_due(read_ladder(due=TUESDAY), TUESDAY + HOUR) == TUESDAY
    assert place_due(read_ladder(), TUESDAY) is None
    assert place_due(read_ladder(due="4 business days", calendar=OFFICE), TUESDAY) == TUESDAY.replace(day=20)
    with pytest.raises(InvalidApproval, match="due="):
        read_ladder(due=datetime(2026, 7, 14))
    with pytest.raises(InvalidDuration):
        read_ladder(due=date(2026, 7, 14))


def test_the_answer_at_the_end_is_one_that_there_is_and_the_only_one() -> None:
    with pytest.raises(InvalidApproval, match="choose one of approve, reject"):
        read_ladder(escalate=[("1d", ("outcome", "refuse"))], outcomes=YES_NO)
    with pytest.raises(InvalidApproval, match="one outcome at most"):
        read_ladder(escalate=[("1d", ("outcome", "reject")), ("2d", ("outcome", "reject"))])
    for late in [{"remind": ["2d"]}, {"escalate": [("25h", ("add", "cfo"))]}]:
        rungs = [*late.get("escalate", []), ("1d", ("outcome", "reject"))]
        with pytest.raises(InvalidApproval, match="nothing waits after the outcome at 1d"):
            read_ladder(**{**late, "escalate": rungs})
    with pytest.raises(InvalidApproval, match="nothing waits after the outcome"):
        read_ladder(remind=["3d"], escalate=[("2d", ("outcome", "reject"))], calendar="office")


def test_an_author_is_told_when_silence_would_say_yes_or_nothing_at_all() -> None:
    def list_for(*escalate: Any, outcomes: Any = YES_NO) -> tuple[str, ...]:
        return list_concerns(read_ladder(remind=["1h"], escalate=escalate), outcomes)

    assert list_for() == list_for(("1d", ("outcome", "reject"))) == ()
    assert "'approve' by itself" in list_for(("1d", ("outcome", "approve")))[0]
    other = (Outcome("no"), Outcome("yes", tone="positive"))
    assert list_for(("1d", ("outcome", "yes")), outcomes=other)
    assert list_for(("1d", ("outcome", "no")), outcomes=other)  # the first is what the title says will happen
    assert list_for(("1d", ("outcome", "seen")), outcomes=(Outcome("seen"),)) == ()
    assert "nothing answers" in list_for(("1d", ("add", "cfo")))[0]


# Moments


def test_rungs_have_moments_that_the_calendar_counts() -> None:
    written = read_ladder(
        remind=["1d"], escalate=[("20h", ("add", "cfo")), ("4d", ("outcome", "reject"))], calendar="office"
    )
    rungs = place_rungs(written, TUESDAY)
    assert [(rung.index, rung.at.isoformat(" "), rung.action.do) for rung in rungs] == [
        (0, "2026-07-15 09:00:00+00:00", "remind"),
        (1, "2026-07-16 13:00:00+00:00", "add"),
        (2, "2026-07-20 09:00:00+00:00", "outcome"),
    ]


def test_what_would_come_after_the_answer_does_not_come() -> None:
    # Seventeen business hours are more than two business days of eight, though seventeen hours are less.
    escalate = [("2d", ("outcome", "reject")), ("15h", ("add", "cfo"))]
    written = read_ladder(remind=["17h"], escalate=escalate, calendar="office")
    assert [step.action.do for step in written.steps] == ["add", "remind", "outcome"]
    assert [rung.action.do for rung in place_rungs(written, TUESDAY)] == ["add", "outcome"]


def test_units_that_only_the_start_can_compare_are_accepted() -> None:
    written = read_ladder(escalate=[("20h", ("outcome", "reject")), ("2d", ("add", "cfo"))], calendar="office")
    assert [rung.action.do for rung in place_rungs(written, TUESDAY)] == ["add", "outcome"]
    assert place_rungs(read_ladder(remind=["1w"], calendar="office"), TUESDAY)[0].at == TUESDAY.replace(day=21)


def test_at_one_moment_the_answer_comes_last() -> None:
    written = read_ladder(remind=["48h"], escalate=[("2d", ("outcome", "reject")), ("2d", ("add", "cfo"))])
    assert [rung.action.do for rung in place_rungs(written, TUESDAY)] == ["remind", "add", "outcome"]


def test_a_calendar_is_looked_up_when_the_request_is_made() -> None:
    written = read_ladder(remind=["1d"], calendar="berlin")
    with pytest.raises(UnknownCalendar, match="register_calendar"):
        place_rungs(written, TUESDAY)
    assert read_ladder(calendar=OFFICE).calendar == "office"
    with pytest.raises(InvalidCalendar, match="register it first"):
        read_ladder(calendar=Calendar("Asia/Tokyo"))


def test_rungs_are_frozen_as_json_and_read_back() -> None:
    rungs = tuple(
        Rung(n, TUESDAY + timedelta(hours=n, microseconds=n), read_action(written))
        for n, (written, _) in enumerate(READABLE)
    )
    assert load_rungs(json.loads(json.dumps(dump_rungs(rungs)))) == rungs


# Climbing


def climb(rungs: tuple[Rung, ...], done: int, now: datetime) -> list[int]:
    """Do whatever is due, as a sweep does."""
    did = []
    while (rung := next_rung(rungs, done, now)) is not None:
        did.append(rung.index)
        done = rung.index + 1
    return did


FULL = place_rungs(
    read_ladder(
        remind=["1h", "2h", "5h"], escalate=[("3h", ("add", "cfo")), ("4h", "remind"), ("6h", ("outcome", "reject"))]
    ),
    TUESDAY,
)


def test_each_rung_is_done_at_its_moment() -> None:
    done = 0
    for hour in range(1, 7):
        assert next_moment(FULL, done) == TUESDAY + hour * HOUR
        assert next_rung(FULL, done, TUESDAY + hour * HOUR - timedelta(microseconds=1)) is None
        assert climb(FULL, done, TUESDAY + hour * HOUR) == [hour - 1]
        done = hour
    assert next_moment(FULL, done) is None
    assert next_rung(FULL, done, TUESDAY + 99 * HOUR) is None


def test_after_a_pause_only_the_last_reminder_is_sent_and_nothing_else_is_left_out() -> None:
    assert climb(FULL, 0, TUESDAY + 2 * HOUR) == [1]
    assert climb(FULL, 0, TUESDAY + 4 * HOUR) == [2, 3]
    assert climb(FULL, 0, TUESDAY + 9 * HOUR) == [2, 5]
    together = place_rungs(read_ladder(remind=["1h"], escalate=[("1h", ("add", "cfo"))]), TUESDAY)
    assert climb(together, 0, TUESDAY + HOUR) == [0, 1]  # no pause: both were asked for at this moment


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.sampled_from(["remind", ("add", "cfo"), ("reassign", "cfo")])), max_size=6
    ),
    st.one_of(st.none(), st.just((31, ("outcome", "reject")))),
    st.lists(st.integers(0, 40), max_size=6).map(sorted),
)
def test_however_often_one_looks_each_deed_is_done_once_and_in_order(
    rungs: list[Any], end: Any, looks: list[int]
) -> None:
    escalate = [(timedelta(hours=hours), action) for hours, action in [*rungs, *([end] if end else [])]]
    placed = place_rungs(read_ladder(escalate=escalate), TUESDAY)
    done, did = 0, []
    for hours in looks:
        now = TUESDAY + hours * HOUR
        found = climb(placed, done, now)
        assert all(placed[index].at <= now for index in found)
        assert sum(placed[index].action == REMIND for index in found) <= 1
        did += found
        done = found[-1] + 1 if found else done
        following = next_moment(placed, done)
        assert following is None or following > now
    assert did == sorted(set(did))
    passed = [
        rung.index for rung in placed if looks and rung.at <= TUESDAY + looks[-1] * HOUR and rung.action != REMIND
    ]
    assert [index for index in did if placed[index].action != REMIND] == passed


def test_rungs_are_told_in_words() -> None:
    told = [describe_action(read_action(written), [Outcome("reject", "Turn down")]) for written, _ in READABLE[:8]]
    assert told == [
        "A reminder is sent",
        "Handed on to finance",
        "Handed on to finance",
        "Handed on to ana",
        "ana is asked as well",
        "ana is asked as well",
        "The group user is asked as well",
        "Answered “Turn down” automatically",
    ]
    assert describe_action(RungAction("outcome", outcome="send_back")) == "Answered “Send back” automatically"
