"""API keys: what is kept of one, what opens nothing, and how fast a change counts everywhere."""

from __future__ import annotations

import random
import string
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import workflows
from tests.support.races import COMMITTED, Other, gate, race, run_threads
from tests.support.tables import dump_tables
from workflows.access import api_keys
from workflows.access.api_keys import (
    LONGEST,
    SCOPES,
    Keyring,
    change_key,
    create_key,
    find_access,
    forget_keys,
    revoke_key,
    rotate_key,
)
from workflows.exceptions import InvalidCall
from workflows.models import ApiKey, Workspace

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """Keys of another test have ids of their own, but the statements of this one are counted."""
    api_keys._keyring.forget()


def make(name: str = "billing", **options: Any) -> tuple[ApiKey, str]:
    return create_key(name, workspace=workflows.workspace.create("default"), **options)


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def set_column(row: ApiKey, **columns: Any) -> None:
    """As the past left it; nothing of ours writes so."""
    ApiKey.objects.filter(pk=row.pk).update(**columns)
    forget_keys()


# --- what is kept --------------------------------------------------------------------------------------


def test_of_a_key_only_its_beginning_and_its_hash_are_kept():
    row, key = make(scopes=["read"], workflows=["Ship"], rate="600/m")
    dumped = dump_tables()
    assert row.prefix in dumped
    assert api_keys.hash_key(key).hex() in dumped
    # Neither the key nor any part of its secret end, in clear, in hex or in bytes.
    for part in (key, key[len(row.prefix) :], key[-8:]):
        assert part not in dumped
        assert part.encode().hex() not in dumped
    assert not any(key in str(value) for value in vars(row).values())
    assert key not in repr(find_access(key))


def test_a_key_opens_its_workspace_with_what_it_was_given():
    acme = workflows.workspace.create("acme")
    end = timezone.now() + timedelta(days=1)
    row, key = create_key(
        "billing", workspace=acme, scopes=["start", "read"], workflows=["Ship"], expires_at=end, rate="5/s"
    )
    access = find_access(key)
    assert access is not None
    assert (access.id, access.workspace, access.slug) == (row.pk, acme.pk, "acme")
    assert (access.scopes, access.workflows) == ({"read", "start"}, ("Ship",))
    assert (access.rate, access.expires_at, access.actor) == ("5/s", end, f"key:{row.pk}")


def test_a_key_may_do_everything_unless_it_is_said():
    row, key = make()
    assert row.scopes == list(SCOPES)
    access = find_access(key)
    assert access is not None
    assert access.workflows is None


def test_names_may_repeat_and_keys_differ():
    (first, one), (second, other) = make(), make()
    assert first.name == second.name
    assert one != other
    assert find_access(one) != find_access(other)


def test_a_user_who_makes_a_key_is_kept_as_account():
    ada = get_user_model().objects.create_user("ada")
    assert make(actor=ada)[0].created_by == f"user:{ada.pk}"
    assert make(actor="shell:bob")[0].created_by == "shell:bob"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scopes": []}, "without a scope opens nothing; there are read, start"),
        ({"scopes": ["read", "write"]}, "no scope 'write'; there are read, start, signal, complete, operate, admin"),
        ({"scopes": "read"}, "scopes must be a list, not str"),
        ({"scopes": [["read"]]}, "there is no scope"),
        ({"workflows": []}, "None for all of them"),
        ({"workflows": "Ship"}, "workflows must be a list, not str"),
        ({"workflows": [""]}, "must not be empty"),
        ({"workflows": [7]}, "must be text"),
        ({"rate": "many"}, "600/m"),
        ({"rate": None}, "600/m"),
        ({"rate": "0/s"}, "600/m"),
        ({"expires_at": "tomorrow"}, "must be a datetime"),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "in the past"),
        ({"expires_at": timezone.now().replace(tzinfo=None) + timedelta(days=1)}, "time zone"),
        ({"name": " "}, "must not be empty"),
        ({"name": "x" * 201}, "the limit is 200"),
        ({"name": "nul\0"}, "NUL"),
        ({"actor": 5}, "actor must be text or a saved user"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_no_key_is_made(options: dict[str, Any], told: str):
    with pytest.raises(InvalidCall, match=told):
        make(**options)
    assert not ApiKey.objects.exists()


# --- what opens nothing --------------------------------------------------------------------------------


def test_unknown_texts_open_nothing():
    _, key = make()
    letters = string.ascii_letters + string.digits + "-_"
    random.seed(7)
    forged = ["hp_" + "".join(random.choices(letters, k=43)) for _ in range(50)]
    for text in ("", "hp_", "x", "Bearer", key.removeprefix("hp_"), "\ud800", "hp_\ud800", "hp_\0", "hp_ü", *forged):
        assert find_access(text) is None, text


def test_a_key_that_was_cut_lengthened_or_changed_anywhere_opens_nothing():
    _, key = make()
    assert find_access(key) is not None
    for at in range(len(key)):
        assert find_access(key[:at]) is None
        assert find_access(key[:at] + ("a" if key[at] != "a" else "b") + key[at + 1 :]) is None
    for text in (f"{key}a", f"{key} ", f" {key}", f"{key}\n", f"{key}\0", key.upper(), key.swapcase(), key * 2):
        assert find_access(text) is None


def test_the_hash_or_the_beginning_of_a_key_opens_nothing():
    row, _ = make()
    for text in (row.prefix, bytes(row.hash).hex(), f"hp_{bytes(row.hash).hex()}"):
        assert find_access(text) is None


def test_a_revoked_key_opens_nothing():
    row, key = make()
    revoke_key(row)
    assert find_access(key) is None


def test_an_expired_key_opens_nothing():
    row, key = make()
    set_column(row, expires_at=timezone.now() - timedelta(milliseconds=1))
    assert find_access(key) is None


def test_the_key_of_a_workspace_that_was_deleted_opens_nothing():
    _, key = create_key("billing", workspace=workflows.workspace.create("acme"))
    assert find_access(key) is not None
    Workspace.objects.filter(slug="acme").delete()
    forget_keys()
    assert find_access(key) is None


def test_at_most_the_longest_key_is_hashed(monkeypatch: pytest.MonkeyPatch):
    hashed: list[int] = []
    real = api_keys.hash_key
    monkeypatch.setattr(api_keys, "hash_key", lambda key: hashed.append(len(key)) or real(key))
    with CaptureQueriesContext(connection) as seen:
        for length in (LONGEST + 1, 1_000_000):
            assert find_access("hp_".ljust(length, "x")) is None
    assert (hashed, len(seen)) == ([], 0)
    find_access("hp_".ljust(LONGEST, "x"))
    assert hashed == [LONGEST]


# --- what is remembered --------------------------------------------------------------------------------


def test_a_cold_look_is_one_statement_and_a_warm_one_none(django_assert_num_queries: Any):
    _, key = make()
    with django_assert_num_queries(1):
        cold = find_access(key)
    with django_assert_num_queries(0):
        for _ in range(20):
            assert find_access(key) == cold


def test_what_is_no_key_is_not_remembered(django_assert_num_queries: Any):
    with django_assert_num_queries(3):
        for _ in range(3):
            find_access("hp_unknown")
    assert not api_keys._keyring._known


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(api_keys, "REMEMBER_KEYS", 5)
    made = [make()[1] for _ in range(12)]
    for key in made:
        assert find_access(key) is not None
        assert len(api_keys._keyring._known) <= 5


def test_the_use_of_a_key_is_written_at_most_once_a_minute():
    row, key = make()
    assert row.last_used_at is None
    find_access(key)
    row.refresh_from_db()
    first = row.last_used_at
    assert first is not None
    assert abs(first - timezone.now()) < timedelta(seconds=30)
    forget_keys()
    find_access(key)  # looks again, and has nothing to write
    row.refresh_from_db()
    assert row.last_used_at == first
    set_column(row, last_used_at=timezone.now() - timedelta(seconds=61))
    find_access(key)
    row.refresh_from_db()
    assert row.last_used_at > first


def test_a_key_that_opens_nothing_is_not_noted_as_used():
    (revoked, one), (expired, other) = make(), make()
    revoke_key(revoked)
    set_column(expired, expires_at=timezone.now())
    assert find_access(one) is find_access(other) is None
    assert not ApiKey.objects.filter(last_used_at__isnull=False).exists()


def test_a_revocation_counts_here_at_once_and_elsewhere_after_the_seconds_of_memory():
    row, key = make()
    clock = Clock()
    elsewhere = Keyring(clock=clock)  # another process: nobody tells it anything
    assert find_access(key) is not None
    assert elsewhere.find(key) is not None
    clock.at += api_keys.REMEMBER_SECONDS / 2
    assert revoke_key(row) is True
    assert find_access(key) is None
    assert elsewhere.find(key) is not None
    clock.at += api_keys.REMEMBER_SECONDS / 2
    assert elsewhere.find(key) is None
    assert not elsewhere._known


def test_being_used_does_not_prolong_the_memory():
    row, key = make()
    clock = Clock()
    elsewhere = Keyring(clock=clock)
    elsewhere.find(key)
    revoke_key(row)
    for _ in range(10):
        clock.at += api_keys.REMEMBER_SECONDS / 10
        found = elsewhere.find(key)
    assert found is None


def test_revoking_twice_changes_nothing():
    row, key = make()
    assert revoke_key(row) is True
    ended = ApiKey.objects.get().revoked_at
    assert revoke_key(row) is False
    assert ApiKey.objects.get().revoked_at == ended == row.revoked_at
    assert find_access(key) is None


def test_a_remembered_key_ends_with_its_expiry():
    still = Keyring(clock=Clock())  # its clock stands: what it remembers never grows old
    access = None
    for seconds in (1, 4, 16, 64):  # until this machine looks sooner than it expires
        _, key = make(expires_at=timezone.now() + timedelta(seconds=seconds))
        if access := still.find(key):
            break
    assert access is not None
    assert access.expires_at is not None
    until = time.monotonic() + 120
    while timezone.now() < access.expires_at:
        assert time.monotonic() < until
        threading.Event().wait(0.01)
    assert still._known
    assert still.find(key) is None


# --- changing ------------------------------------------------------------------------------------------


def test_a_change_counts_at_once():
    row, key = make(scopes=["read"])
    find_access(key)
    end = timezone.now() + timedelta(days=3)
    change_key(row, name="other", scopes=["start", "read"], workflows=["Ship", "Ship"], rate="7/h", expires_at=end)
    access = find_access(key)
    assert access is not None
    assert (access.scopes, access.workflows, access.rate, access.expires_at) == (
        {"read", "start"},
        ("Ship",),
        "7/h",
        end,
    )
    row.refresh_from_db()
    assert row.name == "other"


def test_a_change_touches_what_it_names_only():
    row, key = make(scopes=["read"], rate="7/h")
    other = ApiKey.objects.get()
    change_key(other, scopes=["signal"])
    change_key(row, rate="8/h")  # `row` was read before
    access = find_access(key)
    assert access is not None
    assert (access.scopes, access.rate) == ({"signal"}, "8/h")


def test_a_revoked_key_cannot_be_changed_back_to_life():
    row, key = make()
    stale = ApiKey.objects.get()
    revoke_key(row)
    with pytest.raises(InvalidCall, match="is revoked"):
        change_key(stale, scopes=["read"])
    assert ApiKey.objects.get().revoked_at is not None
    assert find_access(key) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hash": b""}, "hash of a key cannot be changed; there are name, scopes"),
        ({"workspace": 1}, "cannot be changed"),
        ({"scopes": ["fly"]}, "no scope"),
        ({"rate": "x"}, "600/m"),
        ({"expires_at": timezone.now() - timedelta(days=1)}, "revoke it"),
    ],
)
def test_a_change_that_cannot_be_meant_changes_nothing(change: dict[str, Any], told: str):
    row, _ = make(scopes=["read"])
    before = ApiKey.objects.values().get()
    with pytest.raises(InvalidCall, match=told):
        change_key(row, name="other", **change)
    assert ApiKey.objects.values().get() == before


# --- replacing -----------------------------------------------------------------------------------------


def test_a_rotation_keeps_both_alive_for_the_grace():
    row, old = make(scopes=["read"], workflows=["Ship"], rate="7/h", actor="ada")
    find_access(old)
    made, new = rotate_key(row, grace="1h", actor="bob")
    was, now = find_access(old), find_access(new)
    assert was is not None
    assert now is not None
    assert (now.scopes, now.workflows, now.rate, now.slug) == (was.scopes, was.workflows, was.rate, was.slug)
    assert (made.name, made.created_by, now.expires_at) == (row.name, "bob", None)
    assert was.expires_at is not None
    assert abs(was.expires_at - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)
    assert row.expires_at == was.expires_at
    set_column(row, expires_at=timezone.now() - timedelta(seconds=1))  # an hour later
    assert find_access(old) is None
    assert find_access(new) is not None


def test_without_grace_the_old_key_ends_at_once():
    row, old = make()
    find_access(old)
    _, new = rotate_key(row, grace=0)
    assert find_access(old) is None
    assert find_access(new) is not None


def test_a_grace_never_prolongs_a_key():
    end = timezone.now() + timedelta(hours=1)
    row, _ = make(expires_at=end)
    rotate_key(row, grace="24h", expires_at=None)
    assert ApiKey.objects.get(pk=row.pk).expires_at == end


def test_when_the_new_key_ends_has_to_be_said_where_the_old_one_has_an_end():
    row, _ = make(expires_at=timezone.now() + timedelta(days=90))
    with pytest.raises(InvalidCall, match="say when the new one is to end"):
        rotate_key(row)
    end = timezone.now() + timedelta(days=180)
    assert rotate_key(row, expires_at=end)[0].expires_at == end


def test_a_key_in_its_grace_does_not_pass_its_end_on():
    row, _ = make()
    rotate_key(row, grace="1h")
    again = ApiKey.objects.get(pk=row.pk)
    with pytest.raises(InvalidCall, match="say when"):
        rotate_key(again, grace="2h")
    assert rotate_key(again, grace="2h", expires_at=None)[0].expires_at is None


@pytest.mark.parametrize("how", ["revoked", "expired", "gone"])
def test_what_opens_nothing_cannot_be_rotated(how: str):
    row, _ = make()
    if how == "revoked":
        revoke_key(row)
    elif how == "expired":
        ApiKey.objects.update(expires_at=timezone.now())
    else:
        ApiKey.objects.all().delete()
    with pytest.raises(InvalidCall, match="make a new one"):
        rotate_key(row)
    assert ApiKey.objects.count() == (0 if how == "gone" else 1)


def test_a_rotation_that_was_refused_leaves_the_old_key_as_it_was():
    row, key = make()
    for options in ({"grace": "-1h"}, {"grace": "soon"}, {"expires_at": timezone.now()}):
        with pytest.raises(InvalidCall):
            rotate_key(row, **options)
    assert ApiKey.objects.get().expires_at is None
    assert find_access(key) is not None


# --- two at once ---------------------------------------------------------------------------------------


@COMMITTED
@pytest.mark.usefixtures("committed")
class TestTwoConnections:
    """What only shows when another connection is at work."""

    def test_two_rotations_at_once_wait_for_each_other_and_both_new_keys_last(self):
        row, old = make()
        stale = ApiKey.objects.get()
        (first, one), (second, other) = race(lambda: rotate_key(row, grace="1h"), lambda: rotate_key(stale, grace="2h"))
        assert {first.expires_at, second.expires_at} == {None}
        assert all(find_access(key) is not None for key in (old, one, other))
        end = ApiKey.objects.get(pk=row.pk).expires_at
        assert end is not None
        assert abs(end - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)  # the shorter grace holds

    def test_a_rotation_that_meets_a_revocation_makes_no_key(self):
        row, _ = make()
        stale = ApiKey.objects.get()
        revoked, refused = race(lambda: revoke_key(row), lambda: rotate_key(stale))
        assert (revoked, refused.error) == (True, InvalidCall)
        assert ApiKey.objects.count() == 1

    def test_a_revocation_that_meets_a_rotation_ends_the_old_key_only(self):
        row, old = make()
        stale = ApiKey.objects.get()
        (_, new), revoked = race(lambda: rotate_key(row), lambda: revoke_key(stale))
        assert revoked is True
        assert find_access(old) is None
        assert find_access(new) is not None

    def test_looking_a_key_up_waits_for_nobody_who_changes_it(self):
        row, key = make()
        _, access = race(lambda: change_key(row, scopes=["read"]), lambda: find_access(key), waits=False)
        assert access is not None
        assert access.scopes == set(SCOPES)  # what is not committed does not count
        found = find_access(key)
        assert found is not None
        assert found.scopes == {"read"}  # and what was remembered meanwhile is forgotten with the commit

    def test_a_revocation_that_is_rolled_back_has_not_been(self):
        row, key = make()
        with transaction.atomic():
            revoke_key(row)
            assert find_access(key) is None
            transaction.set_rollback(True)
        assert find_access(key) is not None

    def test_a_look_that_began_before_a_revocation_leaves_nothing_behind(self):
        row, key = make(expires_at=timezone.now() + timedelta(days=1))
        with gate() as open_gate:
            slow = Other(lambda: find_access(key))  # stands in its statement, which sees the key as it was
            slow.wait_until_blocked()
            revoke_key(row)
            open_gate()
            assert slow.join().id == row.pk
            assert find_access(key) is None

    def test_threads_that_look_while_others_revoke_and_forget_see_only_what_is_so(self):
        made = [make(f"key {n}") for n in range(12)]
        gone: set[int] = set()
        done = threading.Event()

        def look() -> None:
            shuffled = random.sample(made, len(made))
            while not done.is_set():
                for row, key in shuffled:
                    was_gone = row.pk in gone
                    access = find_access(key)
                    if access is None:
                        assert row.pk in gone or row.pk in going
                    else:
                        assert access.id == row.pk
                        assert not was_gone, f"{row} was revoked before it was looked up"

        going: set[int] = set()

        def revoke() -> None:
            try:
                for row, _ in made[:8]:
                    going.add(row.pk)
                    revoke_key(row)
                    gone.add(row.pk)
                    for _ in range(20):
                        api_keys._keyring.forget()
            finally:
                done.set()

        calls: list[Callable[[], None]] = [revoke, *[look] * 6]
        run_threads(calls)
        assert [find_access(key) is None for _, key in made] == [True] * 8 + [False] * 4
