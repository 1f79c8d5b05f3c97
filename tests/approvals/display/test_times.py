"""Moments as people say them: near and far, at midnight and at New Year, in their language and time zone."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone, translation

from approvals import decide
from approvals.display.times import name_zone, show_at, show_due, show_since, show_when
from tests.support.worlds.cards import People, ask, tell
from workflows.testing import advance
from workflows.wording.relative_times import show_length

#: A Saturday, shortly before noon in Berlin.
NOW = datetime(2026, 11, 14, 10, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def berlin(own_language: None) -> None:
    """The viewer is in Berlin, also where the process is not."""
    timezone.activate(ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("at", "told"),
    [
        (NOW, "Today, 11:30"),
        (datetime(2026, 11, 13, 23, 0, tzinfo=UTC), "Today, 00:00"),  # midnight there, another day in UTC
        (datetime(2026, 11, 13, 22, 59, tzinfo=UTC), "Yesterday, 23:59"),
        (datetime(2026, 11, 12, 22, 59, tzinfo=UTC), "Thu 12 Nov, 23:59"),
        (datetime(2026, 11, 14, 22, 59, tzinfo=UTC), "Today, 23:59"),
        (datetime(2026, 11, 14, 23, 0, tzinfo=UTC), "Tomorrow, 00:00"),
        (datetime(2026, 11, 15, 23, 0, tzinfo=UTC), "Mon 16 Nov, 00:00"),
        (datetime(2026, 12, 31, 22, 59, tzinfo=UTC), "Thu 31 Dec, 23:59"),
        (datetime(2026, 12, 31, 23, 0, tzinfo=UTC), "1 Jan 2027, 00:00"),
        (datetime(2026, 7, 14, 8, 43, tzinfo=UTC), "Tue 14 Jul, 10:43"),  # in summer time
    ],
)
def test_a_moment_is_told_by_its_day_in_the_viewers_zone(at: datetime, told: str) -> None:
    assert show_at(at, NOW) == told


@pytest.mark.parametrize(
    ("back", "since", "when"),
    [
        (timedelta(), "since 11:30", "today at 11:30"),
        (timedelta(hours=11), "since 00:30", "today at 00:30"),
        (timedelta(hours=12), "since yesterday", "yesterday at 23:30"),
        (timedelta(days=2), "since Thursday", "on Thursday at 11:30"),
        (timedelta(days=6), "since Sunday", "on Sunday at 11:30"),
        (timedelta(days=7), "since 7 November", "on 7 November at 11:30"),  # another Saturday
        (timedelta(days=400), "since 10 October 2025", "on 10 October 2025 at 12:30"),
        (timedelta(days=-1), "since 11:30", "tomorrow at 11:30"),
        (timedelta(days=-2), "since 11:30", "on 16 November at 11:30"),
    ],
)
def test_since_when_and_on_which_day(back: timedelta, since: str, when: str) -> None:
    assert (show_since(NOW - back, NOW), show_when(NOW - back, NOW)) == (since, when)


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (timedelta(days=2), "in 2 days"),
        (timedelta(hours=5, minutes=18), "in 5 hours, 18 minutes"),
        (timedelta(minutes=1), "in 1 minute"),
        (timedelta(seconds=59), "in less than a minute"),
        (timedelta(0), "due now"),
        (timedelta(seconds=-59), "due now"),
        (timedelta(minutes=-1), "overdue by 1 minute"),
        (timedelta(hours=-3), "overdue by 3 hours"),
        (timedelta(days=-31), "overdue by 1 month"),
    ],
)
def test_how_far_away_it_is_due(ahead: timedelta, told: str) -> None:
    assert show_due(NOW + ahead, NOW).replace("\xa0", " ") == told


def test_how_long_something_lasts_and_in_which_zone() -> None:
    assert show_length(NOW - timedelta(seconds=59), NOW) == "less than a minute"
    assert show_length(NOW - timedelta(hours=49), NOW).replace("\xa0", " ") == "2 days, 1 hour"
    assert (name_zone(NOW), name_zone(datetime(2026, 7, 14, tzinfo=UTC))) == ("CET", "CEST")
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        assert show_at(NOW, NOW) == "Today, 19:30"
        assert show_since(NOW - timedelta(hours=20), NOW) == "since yesterday"


def test_what_django_can_say_is_said_in_the_readers_language() -> None:
    with translation.override("de"):
        assert "Donnerstag" in show_since(NOW - timedelta(days=2), NOW)
        assert "3 Stunden" in show_due(NOW - timedelta(hours=3), NOW).replace("\xa0", " ")
        assert "Nov" in show_at(NOW - timedelta(days=5), NOW)


def test_with_a_catalogue_all_of_it_is_said_in_the_readers_language(
    people: People, settings: Any, tmp_path: Path
) -> None:
    words = {
        "Waiting for %(who)s %(since)s": "Wartet auf %(who)s %(since)s",
        "since %(day)s": "seit %(day)s",
        "%(told)s, %(progress)s": "%(told)s, %(progress)s",
        "%(votes)d of %(needed)d %(outcome)s": "%(votes)d von %(needed)d %(outcome)s",
        "approved": "genehmigt",
    }
    write_catalogue(tmp_path / "de" / "LC_MESSAGES" / "django.mo", words)
    review = ask(groups=["Finance"], quorum=2)
    advance("2d")
    decide(review, "approve", actor=people.ann)
    settings.LOCALE_PATHS = [tmp_path]
    from django.utils.translation import trans_real

    kept = dict(trans_real._translations)  # type: ignore[attr-defined]
    trans_real._translations.clear()  # type: ignore[attr-defined]
    try:
        with translation.override("de"):
            day = timezone.localtime(review.created_at)
            german = ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"][day.weekday()]
            assert tell(review) == f"Wartet auf Finance seit {german}, 1 von 2 genehmigt"
    finally:
        trans_real._translations.clear()  # type: ignore[attr-defined]
        trans_real._translations.update(kept)  # type: ignore[attr-defined]


def write_catalogue(path: Path, words: dict[str, str]) -> None:
    """A compiled catalogue, as msgfmt makes it."""
    pairs = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **words}.items())
    raw = [(key.encode(), value.encode()) for key, value in pairs]
    keys, values, at = [], [], 28 + 16 * len(raw)
    for side, table in ((0, keys), (1, values)):
        for pair in raw:
            table.append((len(pair[side]), at))
            at += len(pair[side]) + 1
    head = struct.pack("<7I", 0x950412DE, 0, len(raw), 28, 28 + 8 * len(raw), 0, 0)
    rows = b"".join(struct.pack("<2I", *one) for one in [*keys, *values])
    text = b"".join(pair[side] + b"\0" for side in (0, 1) for pair in raw)
    path.parent.mkdir(parents=True)
    path.write_bytes(head + rows + text)
