"""The project as a whole: its settings load and its database is the one it says."""

import pytest
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_the_database_is_a_postgresql_that_keeps_time_in_utc() -> None:
    with connection.cursor() as cursor:
        cursor.execute("select current_setting('TimeZone'), current_setting('server_version_num')::int")
        timezone, version = cursor.fetchone()
    assert timezone == "UTC"
    assert version >= 140000


def test_a_host_needs_no_third_app_of_ours() -> None:
    ours = [app for app in settings.INSTALLED_APPS if app in {"workflows", "approvals"}]
    assert ours == ["workflows", "approvals"]


def test_resume_links_can_always_be_made() -> None:
    assert settings.WORKFLOWS["BASE_URL"].startswith("http")
    assert all(settings.WORKFLOWS["TOKEN_KEYS"].values())
