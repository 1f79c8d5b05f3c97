"""Business calendars count what a clock on the wall shows, through skipped and repeated hours, and never lose any."""

import doctest
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from approvals.exceptions import InvalidApproval, InvalidCalendar, UnknownCalendar
from approvals.rules import business_hours
from approvals.rules import calendar as calendars
from approvals.rules.calendar import ALWAYS, FAR_AWAY, Calendar, find_calendar, name_calendar, register_calendar
from workflows.exceptions import InvalidDuration
from workflows.values.durations import parse_timeout

MINUTE = timedelta(minutes=1)
OFFICE = Calendar("Europe/Berlin")
LUNCH = Calendar("Europe/Berlin", dict.fromkeys(range(5), (("08:00", "12:00"), ("13:00", "17:00"))))


@pytest.mark.parametrize("module", [calendars, business_hours])
def test_the_examples_in_the_docstrings_run(module: Any) -> None:
    ran = doctest.testmod(module)
    assert ran.attempted >= 4
    assert not ran.failed


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Calendar]:
    monkeypatch.setattr(calendars, "_registered", dict(calendars._registered))
    return register_calendar


def at(text: str, zone: str = "Europe/Berlin", fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)


# Hours

ADDED = [
    ("2026-07-14 10:00", "4h", "2026-07-14 14:00"),
    ("2026-07-14 15:00", "4h", "2026-07-15 11:00"),
    ("2026-07-14 03:00", "1h", "2026-07-14 10:00"),
    ("2026-07-14 22:00", "1h", "2026-07-15 10:00"),
    ("2026-07-17 16:00", "90m", "2026-07-20 09:30"),
    ("2026-07-18 12:00", "1s", "2026-07-20 09:00:01"),
    ("2026-07-14 09:00", "8h", "2026-07-14 17:00"),  # the close, not the next opening: the earliest moment
    ("2026-07-14 09:00", "40h", "2026-07-20 17:00"),
    ("2026-07-14 09:00", timedelta(days=1), "2026-07-16 17:00"),  # an amount of business time
    ("2026-07-14 09:00", 3600, "2026-07-14 10:00"),
    ("2026-07-14 09:00", "PT1H", "2026-07-14 10:00"),
    ("2026-03-27 16:00", "2h", "2026-03-30 10:00"),  # over the change to summer time
]


@pytest.mark.parametrize(("start", "duration", "end"), ADDED, ids=str)
def test_hours_are_business_hours(start: str, duration: Any, end: str) -> None:
    assert OFFICE.add(at(start), duration) == at(end)


DAYS = [
    ("2026-07-14 10:00", "1d", "2026-07-15 10:00"),
    ("2026-07-14 10:00", "2 business days", "2026-07-16 10:00"),
    ("2026-07-17 16:30", "1bd", "2026-07-20 16:30"),
    ("2026-07-17 16:30", "1 Business Day", "2026-07-20 16:30"),
    ("2026-07-18 12:00", "1d", "2026-07-21 09:00"),  # begins on Monday morning
    ("2026-07-14 17:00", "1d", "2026-07-16 09:00"),  # closed already
    ("2026-07-14 07:00", "1d", "2026-07-15 09:00"),
    ("2026-07-14 10:00", "1w", "2026-07-21 10:00"),
    ("2026-07-14 10:00", "P3D", "2026-07-17 10:00"),
    ("2026-07-14 10:00", "P1DT8H", "2026-07-16 10:00"),
    ("2026-07-14 10:00", "1d4h", "2026-07-15 14:00"),
    ("2026-10-23 10:00", "1d", "2026-10-26 10:00"),  # the same time of day over the change to winter time
]


@pytest.mark.parametrize(("start", "duration", "end"), DAYS, ids=str)
def test_days_are_business_days_at_the_same_time(start: str, duration: str, end: str) -> None:
    assert OFFICE.add(at(start), duration) == at(end)


def test_a_shorter_day_keeps_what_is_due_within_its_hours() -> None:
    short_friday = Calendar("UTC", {"thu": ("10:00", "17:00"), "fri": ("09:00", "13:00"), "mon": ("11:00", "15:00")})
    thursday = datetime(2026, 7, 16, 16, tzinfo=UTC)
    assert short_friday.add(thursday, "1d") == datetime(2026, 7, 17, 13, tzinfo=UTC)
    assert short_friday.add(thursday.replace(day=17, hour=9), "1d") == datetime(2026, 7, 20, 11, tzinfo=UTC)
    assert short_friday.add(thursday, "1w") == datetime(2026, 7, 23, 16, tzinfo=UTC)  # its week has three days


def test_a_break_is_no_business_time() -> None:
    assert LUNCH.add(at("2026-07-14 11:30"), "1h") == at("2026-07-14 13:30")
    assert LUNCH.add(at("2026-07-14 12:30"), "1h") == at("2026-07-14 14:00")
    assert LUNCH.add(at("2026-07-14 12:30"), "1d") == at("2026-07-15 13:00")


@pytest.mark.parametrize(
    "holidays",
    [{date(2026, 12, 25)}, ["2026-12-25"], {"2026-12-25": "Christmas"}, lambda day: (day.month, day.day) == (12, 25)],
    ids=["set", "list", "mapping", "function"],
)
def test_nobody_works_on_holidays(holidays: Any) -> None:
    calendar = Calendar("Europe/Berlin", holidays=holidays)
    assert calendar.add(at("2026-12-24 16:00"), "2h") == at("2026-12-28 10:00")
    assert calendar.add(at("2026-12-24 16:00"), "1d") == at("2026-12-28 16:00")


def test_holidays_may_be_a_container_that_works_them_out() -> None:
    class Sundays(dict[date, str]):
        def __contains__(self, day: object) -> bool:
            return isinstance(day, date) and day.weekday() == 2

    calendar = Calendar("UTC", holidays=Sundays())
    assert calendar.add(datetime(2026, 7, 14, 16, tzinfo=UTC), "2h") == datetime(2026, 7, 16, 10, tzinfo=UTC)


def test_a_day_is_asked_once_whether_it_is_a_holiday() -> None:
    asked: list[date] = []
    Calendar("Asia/Tokyo", holidays=lambda day: bool(asked.append(day))).add(at("2026-07-14 10:00"), "20h")
    assert len(asked) == len(set(asked)) > 2


# Skipped and repeated hours

NIGHT = Calendar("Europe/Berlin", dict.fromkeys(range(7), (("01:00", "02:30"),)))
CHANGES = [
    # Summer time begins on 29 March at 02:00, which becomes 03:00: half an hour is missing.
    ("2026-03-29 01:00", 0, "1h", "2026-03-29 03:00"),
    ("2026-03-29 01:00", 0, "90m", "2026-03-30 01:30"),
    # It ends on 25 October at 03:00, which becomes 02:00 again: half an hour comes twice.
    ("2026-10-25 01:00", 0, "90m", "2026-10-25 02:30"),
    ("2026-10-25 01:00", 0, "91m", "2026-10-25 02:01+01:00"),
    ("2026-10-25 01:00", 0, "2h", "2026-10-25 02:30+01:00"),
    ("2026-10-25 02:10", 1, "20m", "2026-10-25 02:30+01:00"),
    # The same time of day does not exist, or is the first of two.
    ("2026-03-28 02:15", 0, "1d", "2026-03-29 03:00"),
    ("2026-10-24 02:15", 0, "1d", "2026-10-25 02:15+02:00"),
    ("2026-10-25 02:15", 1, "1d", "2026-10-26 02:15"),
]


@pytest.mark.parametrize(("start", "fold", "duration", "end"), CHANGES, ids=str)
def test_a_skipped_hour_is_none_and_a_repeated_one_is_two(start: str, fold: int, duration: str, end: str) -> None:
    expected = datetime.fromisoformat(end) if end.count(":") == 2 else at(end)
    # In UTC, because a time that comes twice equals nothing in another zone.
    assert NIGHT.add(at(start, fold=fold), duration) == expected.astimezone(UTC)


def test_around_the_clock_a_day_is_the_same_time_tomorrow_and_24_hours_are_24_hours() -> None:
    berlin = Calendar("Europe/Berlin", dict.fromkeys(range(7), (("00:00", "24:00"),)))
    assert berlin.is_always_open
    assert berlin.add(at("2026-03-28 12:00"), "1d") == at("2026-03-29 12:00")
    assert berlin.add(at("2026-03-28 12:00"), "24h") == at("2026-03-29 13:00")


def test_a_date_that_a_zone_skipped_has_no_business_time() -> None:
    apia = Calendar("Pacific/Apia", dict.fromkeys(range(7), (("09:00", "17:00"),)))
    assert apia.add(at("2011-12-29 16:00", "Pacific/Apia"), "2h") == at("2011-12-31 10:00", "Pacific/Apia")


# Every hour of every day


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.timezones()),
    st.sampled_from(["1s", "30m", "24h", "7d", "1h30m", "2w", "1.5d", "P1DT2H", 0.25, timedelta(hours=1)]),
)
def test_without_a_calendar_a_duration_is_what_it_is_everywhere_else(moment: datetime, duration: Any) -> None:
    assert ALWAYS.add(moment, duration) == moment.astimezone(UTC) + timedelta(seconds=parse_timeout(duration))


@pytest.mark.parametrize("calendar", [ALWAYS, OFFICE], ids=["always", "office"])
@pytest.mark.parametrize(
    "endless", [float("inf"), "10000000d", "9" * 400 + "d", "P99999999999999D", timedelta.max, 10**400]
)
def test_an_endless_duration_ends_far_away(calendar: Calendar, endless: Any) -> None:
    assert datetime(9500, 1, 1, tzinfo=UTC) < calendar.add(at("2026-07-14 10:00"), endless) <= FAR_AWAY
    assert calendar.add(FAR_AWAY - timedelta(days=1), endless) == FAR_AWAY


def test_a_long_wait_is_counted_exactly() -> None:
    assert OFFICE.add(at("2026-07-14 10:00"), "8000h") == at("2030-05-14 10:00")
    assert ALWAYS.add(at("2026-07-14 10:00"), "100000d").year == 2300


# Properties

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "America/St_Johns", "America/Sao_Paulo", "Australia/Lord_Howe"]
ZONES += ["Pacific/Apia", "Asia/Kathmandu", "Africa/Casablanca"]
#: Days on which a clock of these zones was changed, some at midnight or a minute past it, and an ordinary one.
TURNS = [
    date(2026, 3, 29),
    date(2026, 10, 25),
    date(2026, 3, 8),
    date(2026, 11, 1),
    date(2006, 4, 2),
    date(2006, 10, 29),
]
TURNS += [
    date(2018, 11, 4),
    date(2018, 2, 18),
    date(2026, 4, 5),
    date(2026, 10, 4),
    date(2011, 12, 30),
    date(2026, 7, 14),
]


@dataclass(frozen=True)
class Case:
    calendar: Calendar
    start: datetime


@st.composite
def spans(draw: st.DrawFn) -> list[tuple[str, str]]:
    marks = sorted(draw(st.sets(st.integers(0, 96), min_size=2, max_size=4)))
    marks = marks[: len(marks) // 2 * 2]
    told = [f"{mark // 4:02}:{mark % 4 * 15:02}" for mark in marks]
    return list(zip(told[::2], told[1::2], strict=True))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    hours = draw(st.dictionaries(st.integers(0, 6), spans(), min_size=3))
    turn = draw(st.sampled_from(TURNS))
    near = st.integers(-2, 2).map(lambda days: turn + timedelta(days=days))
    start = datetime.combine(turn, time(), UTC) + timedelta(minutes=draw(st.integers(-2 * 1440, 2 * 1440)))
    return Case(Calendar(draw(st.sampled_from(ZONES)), hours, draw(st.sets(near, max_size=2))), start)


def shows_business_time(calendar: Calendar, moment: datetime) -> bool:
    """What the words say: look at the clock on the wall."""
    wall = moment.astimezone(calendar.zone)
    clock = timedelta(hours=wall.hour, minutes=wall.minute)
    assert isinstance(calendar.holidays, frozenset)
    return wall.date() not in calendar.holidays and any(a <= clock < b for a, b in calendar.hours[wall.weekday()])


@settings(max_examples=150)
@given(cases(), st.integers(1, 600))
def test_it_counts_the_minutes_at_which_the_clock_shows_business_time(case: Case, minutes: int) -> None:
    moment, left = case.start, minutes
    while left:
        left -= shows_business_time(case.calendar, moment)
        moment += MINUTE
    assert case.calendar.add(case.start, minutes * 60) == moment


@given(cases(), st.integers(1, 10**6), st.integers(1, 10**6))
def test_adding_in_two_parts_is_adding_at_once(case: Case, first: int, second: int) -> None:
    add = case.calendar.add
    assert add(add(case.start, first), second) == add(case.start, first + second)


@given(cases(), st.integers(0, 10**6), st.integers(1, 10**5), st.integers(0, 10**5))
def test_a_later_start_and_a_longer_duration_never_end_earlier(case: Case, later: int, short: int, more: int) -> None:
    add = case.calendar.add
    assert case.start < add(case.start, short) <= add(case.start, short + more)
    assert add(case.start, short) <= add(case.start + timedelta(seconds=later), short)


daytime = st.sampled_from([OFFICE, LUNCH, Calendar("America/New_York", {0: ("06:00", "22:00"), 3: ("06:00", "22:00")})])
moments = st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC))


@given(daytime, moments, st.integers(1, 40), st.integers(1, 40), st.integers(0, 10**6))
def test_where_days_are_alike_days_add_up_and_keep_their_order(
    calendar: Calendar, moment: datetime, first: int, second: int, later: int
) -> None:
    add = calendar.add_days
    assert add(add(moment, first), second) == add(moment, first + second)
    assert moment < add(moment, first) < add(moment, first + second)
    assert add(moment, first) <= add(moment + timedelta(seconds=later), first)


@settings(max_examples=50)
@given(cases(), st.integers(1, 5))
@example(Case(NIGHT, datetime(2026, 10, 25, 0, 15, tzinfo=UTC)), 1)
def test_days_later_it_is_a_business_day_and_within_or_at_the_end_of_its_hours(case: Case, days: int) -> None:
    reached = case.calendar.add_days(case.start, days)
    before = (reached - timedelta(microseconds=1)).astimezone(case.calendar.zone)
    passed = {
        wall.date()
        for n in range(int((reached - case.start) / MINUTE) + 1)
        if (wall := (case.start + n * MINUTE).astimezone(case.calendar.zone)).date() <= before.date()
        and case.calendar.hours[wall.weekday()]
        and wall.date() not in (case.calendar.holidays if isinstance(case.calendar.holidays, frozenset) else ())
    }
    assert reached > case.start
    assert len(passed) >= days


# What is refused


@pytest.mark.parametrize("zone", ["Europe/Atlantis", "", "../etc/passwd", None, 5, "\0"], ids=ascii)
def test_an_unknown_zone_is_refused(zone: Any) -> None:
    with pytest.raises(InvalidCalendar, match="name of a time zone"):
        Calendar(zone)


WRONG_HOURS: list[Any] = [
    {}, [], 5, "mon", {7: [("09:00", "17:00")]}, {"someday": [("09:00", "17:00")]}, {True: [("09:00", "17:00")]},
    {"mon": []}, {"mon": [("17:00", "09:00")]}, {"mon": [("09:00", "09:00")]}, {"mon": [("09:00", "25:00")]},
    {"mon": [("08:00", "09:00"), ("17:00", "10:00")]},
    {"mon": [("09:00", "12:00"), ("11:00", "17:00")]}, {"mon": "09:00-17:00"}, {"mon": [9, 17]}, {"mon": None},
    {"mon": [("09:00", "17:00")], 0: [("09:00", "17:00")]}, {"mon": [(time(9, tzinfo=UTC), "17:00")]},
]  # fmt: skip


@pytest.mark.parametrize("hours", WRONG_HOURS, ids=str)
def test_hours_that_are_none_are_refused(hours: Any) -> None:
    with pytest.raises(InvalidCalendar, match="hours="):
        Calendar("UTC", hours)


def test_hours_may_be_written_in_several_ways() -> None:
    written = [{"mon": [("09:00", "24:00")]}, {0: ((time(9), time(0)),)}, {"Monday": ("09:00", time(0))}]
    assert len({Calendar("UTC", hours).hours for hours in written}) == 1
    touching = Calendar("UTC", {"mon": [("12:00", "17:00"), ("09:00", "12:00")]})
    assert touching.add(datetime(2026, 7, 13, 11, tzinfo=UTC), "2h") == datetime(2026, 7, 13, 13, tzinfo=UTC)


@pytest.mark.parametrize("holidays", [[5], ["Christmas"], "2026-12-25", [datetime(2026, 12, 25)], 5, [None]], ids=str)
def test_holidays_that_are_no_dates_are_refused(holidays: Any) -> None:
    with pytest.raises(InvalidCalendar, match="holidays="):
        Calendar("UTC", holidays=holidays)


def test_a_calendar_that_never_opens_says_so_instead_of_looking_for_ever() -> None:
    closed = Calendar("UTC", holidays=lambda day: True)
    for duration in ["1h", "1d"]:
        with pytest.raises(InvalidCalendar, match="no business day for 1100 days after 2026-07-14"):
            closed.add(datetime(2026, 7, 14, tzinfo=UTC), duration)


@pytest.mark.parametrize(
    "wrong", ["0h", "-1h", "soon", "bd", "2 days", "1.5d", "0.5bd", "business days", None, True, 0], ids=str
)
def test_a_duration_that_a_calendar_cannot_count_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidDuration):
        OFFICE.add(at("2026-07-14 10:00"), wrong)


def test_a_moment_without_a_zone_is_refused() -> None:
    for wrong in [datetime(2026, 7, 14), date(2026, 7, 14), None]:
        with pytest.raises(InvalidApproval, match="must know its time zone"):
            OFFICE.add(wrong, "1h")  # type: ignore[arg-type]
    with pytest.raises(InvalidApproval, match="at least one business day"):
        OFFICE.add_days(at("2026-07-14 10:00"), 0)


# Names


def test_a_calendar_is_found_by_its_name(registered: Callable[..., Calendar]) -> None:
    assert find_calendar("always") is ALWAYS
    registered("office", OFFICE)
    assert registered("a" * 100, LUNCH) is find_calendar("a" * 100) is LUNCH
    assert find_calendar("office") is OFFICE
    assert name_calendar(Calendar("Europe/Berlin")) == "office"
    assert registered("office", Calendar("Europe/Berlin")) == OFFICE  # imported twice


def test_an_unknown_calendar_says_how_to_register_it(registered: Callable[..., Calendar]) -> None:
    with pytest.raises(UnknownCalendar, match=r"registered: always.*\)\. Call .*register_calendar\('office', …\)"):
        find_calendar("office")
    with pytest.raises(InvalidCalendar, match="register it first"):
        name_calendar(OFFICE)


def test_a_name_means_one_calendar(registered: Callable[..., Calendar]) -> None:
    registered("office", OFFICE)
    with pytest.raises(InvalidCalendar, match="another calendar has it"):
        registered("office", LUNCH)
    for name, calendar in [("", OFFICE), (5, OFFICE), ("a" * 101, OFFICE), ("x", "Europe/Berlin")]:
        with pytest.raises(InvalidCalendar):
            registered(name, calendar)
    for wrong in ["", 5]:
        with pytest.raises(InvalidCalendar):
            name_calendar(wrong)  # type: ignore[arg-type]
