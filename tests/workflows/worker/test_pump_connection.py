"""The engine's own connection reads what Django's would have read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.worker import pump_connection

pytestmark = pytest.mark.django_db

MOMENTS = (
    "2026-11-20 10:11:12.123456+00",
    "2026-11-20 10:11:12.1+00",
    "2026-11-20 10:11:12+00",
    "2026-03-29 00:59:59.999999+00",
    "2026-03-29 01:00:00+00",
    "2026-10-25 00:30:00+00",  # half past two in Berlin, and an hour later half past two again
    "2026-10-25 01:30:00+00",
    "1850-01-01 00:00:00+00",
    "0001-01-02 00:00:00+00",
    "9999-12-30 23:59:59.999999+00",
)


@contextmanager
def pump() -> Iterator[BaseDatabaseWrapper]:
    db = pump_connection.connect("default")
    try:
        yield db
    finally:
        db.close()


def read(db: BaseDatabaseWrapper, moment: str) -> Any:
    return store.fetch(db, "SELECT %(moment)s::text::timestamptz", {"moment": moment})[0][0]


@pytest.fixture(params=["UTC", "a zone of the database", "no zones"])
def zones(request: Any, settings: Any) -> None:
    """Each way in which a project may keep its moments."""
    if request.param == "a zone of the database":
        request.getfixturevalue("monkeypatch").setitem(connection.settings_dict, "TIME_ZONE", "Europe/Berlin")
    elif request.param == "no zones":
        settings.USE_TZ, settings.TIME_ZONE = False, "Europe/Berlin"


@pytest.mark.usefixtures("zones")
def test_moments_are_read_as_django_reads_them() -> None:
    with pump() as db:
        plain = db.copy()
        try:
            for moment in MOMENTS:
                mine, djangos = read(db, moment), read(plain, moment)
                assert isinstance(mine, datetime)
                assert (mine.isoformat(), mine.tzinfo, mine.fold) == (djangos.isoformat(), djangos.tzinfo, djangos.fold)
        finally:
            plain.close()


@pytest.mark.parametrize("moment", ["infinity", "0044-03-15 12:00:00+00 BC", "20260-01-01 00:00:00+00"])
def test_a_moment_that_python_cannot_hold_is_refused_as_by_django(moment: str) -> None:
    with pump() as db, pytest.raises(DatabaseError, match="timestamp"):
        read(db, moment)
