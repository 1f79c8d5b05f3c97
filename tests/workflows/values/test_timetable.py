"""Timetables: each local time has one tick over both ends of summer time, and intervals do not drift."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workflows import InvalidSchedule
from workflows.values.timetable import Timetable, read_timetable

#: Zones with summer time in both halves of the year, half hours of it, negative summer time, and a day that never was.
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Casablanca",
    "Europe/Dublin",
    "America/Sao_Paulo",
    "Pacific/Apia",
    "Asia/Tehran",
    "UTC",
]
CRONS = ["30 2 * * *", "*/15 * * * *", "0 0 * * *", "30 1,2,3 * * 0", "5 */3 * * *", "0 0 1 * *", "*/7 2 * * 6,0"]
ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)


def list_ticks(cron: str, zone: str, since: str, until: str) -> list[str]:
    """The ticks between two local times, as local times with their offset."""
    place = ZoneInfo(zone)
    table = Timetable(cron, None, zone)
    at, end = (datetime.fromisoformat(one).replace(tzinfo=place).astimezone(UTC) for one in (since, until))
    ticks = []
    while (at := table.find_next(at, ANCHOR)) <= end:
        ticks.append(at.astimezone(place).isoformat())
    return ticks


def test_a_local_time_that_does_not_exist_runs_once_after_the_gap():
    assert list_ticks("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00", "2026-03-30T12:00") == [
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    quarters = list_ticks("*/15 * * * *", "Europe/Berlin", "2026-03-29T01:31", "2026-03-29T03:16")
    assert [one[11:16] for one in quarters] == ["01:45", "03:00", "03:15"]
    # Half an hour, at the other end of the year.
    assert list_ticks("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00", "2026-10-04T12:00") == [
        "2026-10-04T02:30:00+11:00"
    ]
    # A whole day: Samoa had no 30th of December 2011.
    assert list_ticks("0 9 30 12 *", "Pacific/Apia", "2011-12-29T12:00", "2012-01-01T00:00") == [
        "2011-12-31T00:00:00+14:00"
    ]


def test_a_local_time_that_comes_twice_runs_once():
    assert list_ticks("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00", "2026-10-26T12:00") == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    assert list_ticks("*/30 1-3 * * *", "America/New_York", "2026-11-01T00:00", "2026-11-01T04:00") == [
        "2026-11-01T01:00:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T02:00:00-05:00",
        "2026-11-01T02:30:00-05:00",
        "2026-11-01T03:00:00-05:00",
        "2026-11-01T03:30:00-05:00",
    ]


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(CRONS),
    st.datetimes(datetime(2010, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
)
@example("Europe/Berlin", "*/15 * * * *", datetime(2026, 3, 28, 22, tzinfo=UTC))
@example("Europe/Berlin", "*/15 * * * *", datetime(2026, 10, 24, 22, tzinfo=UTC))
@example("Pacific/Apia", "*/15 * * * *", datetime(2011, 12, 30, 1, tzinfo=UTC))
def test_every_local_time_of_an_expression_has_one_tick(zone, cron, since):
    """Against the library's list of local times, which knows no zone."""
    place, table = ZoneInfo(zone), Timetable(cron, None, zone)
    ticks = table.list_next(since, ANCHOR, 200)
    assert all(one < other for one, other in itertools.pairwise([since, *ticks]))
    found = {tick.astimezone(place).replace(tzinfo=None) for tick in ticks}
    assert len(found) == len(ticks)
    first, last = since.astimezone(place), ticks[-1].astimezone(place)
    missing = []
    for local in CronSim(cron, first.replace(tzinfo=None)):
        if local > last.replace(tzinfo=None):
            break
        if local not in found:
            missing.append(local)
    for local in missing:
        early = local.replace(tzinfo=place).astimezone(UTC)
        is_there = early.astimezone(place).replace(tzinfo=None) == local
        # It came before we began to look, or never: then the end of its gap is a tick.
        assert early <= since if is_there else any(early - timedelta(hours=25) < tick <= early for tick in ticks)


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(CRONS),
    st.datetimes(datetime(2010, 1, 1), datetime(2030, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
    st.integers(1, 60),
)
@example("Europe/Berlin", "*/15 * * * *", datetime(2026, 10, 25, 1, 10, tzinfo=UTC), 12)
@example("Europe/Berlin", "*/15 * * * *", datetime(2026, 10, 25, 0, 10, tzinfo=UTC), 12)
@example("Europe/Berlin", "*/15 * * * *", datetime(2026, 3, 29, 1, 0, tzinfo=UTC), 12)
def test_the_last_ticks_are_those_that_came_one_after_the_other(zone, cron, since, count):
    table = Timetable(cron, None, zone)
    ticks = table.list_next(since, ANCHOR, 60)
    for until in (ticks[-1], ticks[30] + timedelta(seconds=1, microseconds=5)):
        past = [tick for tick in ticks if tick <= until]
        after = since + timedelta(microseconds=1)
        assert table.list_last(after, until, ANCHOR, count) == past[-count:]


@given(
    st.timedeltas(timedelta(seconds=1), timedelta(days=400)),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1)).map(lambda at: at.replace(tzinfo=UTC)),
)
def test_the_ticks_of_an_interval_never_drift(every, anchor, after):
    table = Timetable(None, every, "UTC")
    tick = table.find_next(after, anchor)
    assert after < tick <= after + every
    assert (tick - anchor) % every == timedelta(0)
    assert table.find_next(tick, anchor) == tick + every
    assert table.list_last(tick - every, tick, anchor, 5) == [tick - every, tick]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=20), st.text("0123456789*/,-L#W MONFEB", max_size=24)))
def test_any_text_is_an_expression_or_is_refused(text):
    try:
        table = read_timetable(text, None, "UTC")
    except InvalidSchedule:
        return
    assert table.find_next(ANCHOR, ANCHOR) > ANCHOR


def test_every_zone_that_is_read_is_one_of_the_database_of_zones():
    import zoneinfo

    for zone in sorted(zoneinfo.available_timezones() - {"localtime"})[::23]:  # which is a host's own
        assert read_timetable("0 9 * * *", None, zone).find_next(ANCHOR, ANCHOR) > ANCHOR


@pytest.mark.parametrize(
    "cron", ["0 0 29 2 *", "0 12 * * MON#1", "0 0 L * *", "*/5 9-17 * JAN-MAR MON-FRI", "*/10 * * * * *"]
)
def test_what_cron_knows_is_read(cron):
    assert read_timetable(cron, None, None).cron == cron
