"""How a timeout or a delay may be written, and what is refused where it is written."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workflows
from workflows import Await, Done, InvalidDuration, Next, Retry, Workflow, step
from workflows.lifecycle import Status
from workflows.testing import advance, assert_awaiting, assert_done, drain
from workflows.values.durations import FAR_AWAY, parse_delay, parse_timeout, write_duration

READABLE = [
    ("30m", 1_800),
    ("24h", 86_400),
    ("7d", 604_800),
    ("1h30m", 5_400),
    ("2w", 1_209_600),
    ("90s", 90),
    ("1d2h3m4s", 93_784),
    ("0.5s", 0.5),
    ("1.5h", 5_400),
    (" 5m ", 300),
    ("PT24H", 86_400),
    ("P7D", 604_800),
    ("P1DT2H30M", 95_400),
    ("PT0.5S", 0.5),
    ("pt90s", 90),
    (5, 5),
    (0.25, 0.25),
    (timedelta(hours=1, seconds=1), 3_601),
    (timedelta(microseconds=1), 0.000_001),
]


@pytest.mark.parametrize(("written", "seconds"), READABLE, ids=lambda value: str(value))
def test_a_duration_is_read(written: Any, seconds: float) -> None:
    assert parse_timeout(written) == parse_delay(written) == pytest.approx(seconds)


@given(st.timedeltas(timedelta(0), timedelta(days=40_000)))
def test_a_duration_that_is_written_reads_as_the_same_again(duration: timedelta) -> None:
    assert parse_delay(write_duration(duration)) == pytest.approx(duration.total_seconds(), abs=1e-6)


@pytest.mark.parametrize("text", ["15m", "6h", "1d12h", "90d", "0.5s", "1h1s", "0s"])
def test_a_duration_is_written_as_people_write_it(text: str) -> None:
    assert write_duration(timedelta(seconds=parse_delay(text))) == text


UNREADABLE = [
    "", " ", "soon", "5", "5x", "m", "1h 30m", "h1", "1h30", "--5m", "1,5h", "1e3s", "infs", "P", "PT", "PT5", "24:00",
    "1.h", ".5h", "5m\0", None, True, False, b"5m", [5], {"hours": 1}, object(), 1j, math.nan,
]  # fmt: skip


@pytest.mark.parametrize("written", UNREADABLE, ids=lambda value: ascii(value)[:16])
def test_what_is_unreadable_is_refused(written: Any) -> None:
    for parse in (parse_timeout, parse_delay):
        with pytest.raises(InvalidDuration, match="not a usable duration"):
            parse(written)


NEGATIVE = [-1, -0.001, "-5m", "-PT5M", " -1h", timedelta(seconds=-1), -math.inf, -(10**400), -(10**5000), "PT-5M"]


@pytest.mark.parametrize("written", NEGATIVE, ids=lambda value: "whole" if isinstance(value, int) else str(value))
def test_what_is_negative_is_refused(written: Any) -> None:
    for parse in (parse_timeout, parse_delay):
        with pytest.raises(InvalidDuration):
            parse(written)


ZERO = [0, 0.0, -0.0, "0s", "0h0m", "PT0S", timedelta(0)]


@pytest.mark.parametrize("written", ZERO, ids=lambda value: repr(value))
def test_zero_is_a_delay_but_no_timeout(written: Any) -> None:
    assert parse_delay(written) == 0
    with pytest.raises(InvalidDuration, match="longer than zero"):
        parse_timeout(written)


ENDLESS = [math.inf, 1e300, 10**400, "9" * 400 + "d", "P99999999999999D", timedelta.max, "10000000d", 10**12]


@pytest.mark.parametrize("written", ENDLESS, ids=lambda value: str(value)[:12])
def test_there_is_no_maximum(written: Any) -> None:
    assert parse_timeout(written) == FAR_AWAY
    assert math.isfinite(FAR_AWAY)


def test_the_error_shows_how_to_write_one() -> None:
    with pytest.raises(InvalidDuration, match=r'"30m", "24h", "7d", "1h30m", ISO 8601 such as "PT24H"'):
        parse_timeout("soon")


@pytest.mark.django_db
@pytest.mark.parametrize("endless", [math.inf, "1000000d", 10**400, timedelta.max], ids=lambda value: str(value)[:12])
def test_an_endless_wait_parks_and_can_still_be_answered(endless: Any) -> None:
    class DurationEndless(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="end", timeout=endless)

        @step
        def end(self, ctx):
            return Next("last", delay=endless) if ctx.input["sleep"] else Done()

        @step
        def last(self, ctx):
            return Retry(delay=endless)

    answered, asleep = workflows.start_many(DurationEndless, [{"sleep": False}, {"sleep": True}])
    drain()
    assert_awaiting(answered, "go")
    advance("3650d")
    assert_awaiting(answered, "go")
    for instance in (answered, asleep):
        workflows.signal(instance, "go")
    drain()
    assert_done(answered)
    asleep.refresh_from_db()
    assert asleep.status == Status.SLEEPING
