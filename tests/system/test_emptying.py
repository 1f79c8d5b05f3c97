"""What is left after a test that committed: a database as it was migrated."""

from __future__ import annotations

import threading

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection, transaction

import workflows
from tests.support import emptying
from workflows.models import Instance, LedgerEvent, Workspace
from workflows.testing import drain

pytestmark = pytest.mark.django_db(transaction=True)


@workflows.durable(name="emptying.once")
def once(ctx: object) -> int:
    return 1


def read_migrated() -> tuple[object, ...]:
    """Ids too: whoever remembers a content type must find it."""
    return (
        sorted(ContentType.objects.values_list()),
        sorted(Permission.objects.values_list()),
        [slug for (slug,) in Workspace.objects.values_list("slug")],
        User.objects.count() + Instance.objects.count() + LedgerEvent.objects.count(),
    )


@pytest.fixture(params=["deleting", "truncating"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncating is for large tables, and all that somebody may who is no superuser."""
    monkeypatch.setattr(emptying._migrated, "by_superuser", request.param == "deleting")


def test_nothing_that_a_test_committed_is_left_and_what_it_took_is_there_again(way: None) -> None:
    migrated = read_migrated()
    User.objects.create_user("ann")
    workflows.start("emptying.once")
    drain()
    Permission.objects.all().delete()
    Workspace.objects.update(name="Renamed")
    emptying.empty_database()
    assert read_migrated() == migrated
    assert list(Workspace.objects.values_list("name", flat=True)) == ["Default"]


def test_a_large_table_is_truncated() -> None:
    user = User.objects.create(username="ann" * 40, first_name="a" * 100)
    with connection.cursor() as cursor:
        columns = ", ".join(
            name for name in (field.column for field in User._meta.fields) if name not in ("id", "username")
        )
        cursor.execute(
            f"INSERT INTO auth_user (username, {columns}) SELECT username || n, {columns} FROM auth_user, "
            "generate_series(1, 6000) n"
        )
        assert dict(emptying.find_filled(cursor, ["auth_user"]))["auth_user"] > emptying.SMALL
    migrated = read_migrated()[:3]
    emptying.empty_database()
    assert read_migrated() == (*migrated, 0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_size('auth_user')")
        assert cursor.fetchone() == (0,), user


def test_a_flush_within_a_test_changes_no_id_for_the_next() -> None:
    migrated = read_migrated()
    call_command("flush", interactive=False, verbosity=0)
    assert read_migrated() != migrated
    emptying.empty_database()
    assert read_migrated() == migrated


def test_what_a_thread_still_has_open_is_over_first() -> None:
    wrote, goes_on = threading.Event(), threading.Event()

    def write() -> None:
        with transaction.atomic():
            User.objects.create_user("late")
            wrote.set()
            assert goes_on.wait(60)
        connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    assert wrote.wait(60)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
        with pytest.raises(Exception, match="lock timeout"):
            emptying.empty_database()
        cursor.execute("SET lock_timeout = 0")
    goes_on.set()
    writer.join()
    emptying.empty_database()
    assert not User.objects.exists()
