"""Passwords cannot be guessed, at any login: tries are counted in the database before a password is looked at."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client, RequestFactory

from approvals.logins import TRIES, TRIES_EVERYWHERE
from approvals.models import Guess
from workflows.testing import advance

pytestmark = pytest.mark.django_db

TOO_MANY = "Too many tries. Wait 15 minutes."


@pytest.fixture(name="ann")
def make_ann(settings: Any) -> User:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # a hundred tries in no time
    return User.objects.create_superuser("ann", "ann@example.org", "ann's own")


def log_in(path: str, password: str, *, name: str = "ann", address: str = "192.0.2.1") -> Any:
    return Client(REMOTE_ADDR=address).post(path, {"username": name, "password": password})


@pytest.mark.parametrize("path", ["/login/", "/admin/login/"])
@pytest.mark.usefixtures("ann")
def test_after_too_many_wrong_passwords_the_right_one_is_refused_too(path: str) -> None:
    for number in range(TRIES):
        assert log_in(path, f"guess {number}").status_code == 200
    cache.clear()
    assert log_in(path, "ann's own").status_code == 200
    advance("15m")
    assert log_in(path, "ann's own").status_code == 302


@pytest.mark.usefixtures("ann")
def test_whoever_is_refused_is_told_for_how_long() -> None:
    for number in range(TRIES):
        assert TOO_MANY not in log_in("/login/", f"guess {number}").content.decode()
    assert TOO_MANY in log_in("/login/", "ann's own").content.decode()


@pytest.mark.usefixtures("ann")
def test_the_right_password_begins_a_new_count() -> None:
    for _ in range(2):
        for number in range(TRIES - 1):
            log_in("/login/", f"guess {number}")
        assert log_in("/login/", "ann's own").status_code == 302


@pytest.mark.usefixtures("ann")
def test_one_address_that_guesses_keeps_nobody_out_elsewhere() -> None:
    for number in range(TRIES + 1):
        log_in("/login/", f"guess {number}")
    assert log_in("/login/", "ann's own", address="192.0.2.2").status_code == 302


@pytest.mark.usefixtures("ann")
def test_however_often_one_address_guesses_it_keeps_nobody_out_elsewhere() -> None:
    for _ in range(TRIES_EVERYWHERE + 1):
        assert authenticate(RequestFactory(REMOTE_ADDR="192.0.2.1").get("/"), username="ann", password="guess") is None
    assert log_in("/login/", "ann's own", address="198.51.100.1").status_code == 302


def test_whoever_knows_the_password_may_log_in_as_often_as_they_like(ann: User) -> None:
    for _ in range(TRIES_EVERYWHERE + 1):
        assert authenticate(RequestFactory().get("/"), username="ann", password="ann's own") == ann


def test_a_right_password_makes_no_guess_of_others_undone(ann: User) -> None:
    for number in range(TRIES_EVERYWHERE):
        request = RequestFactory(REMOTE_ADDR=f"192.0.2.{number}").get("/")
        assert authenticate(request, username="ann", password="guess") is None
        if number == TRIES_EVERYWHERE // 2:
            assert authenticate(RequestFactory(REMOTE_ADDR="::1").get("/"), username="ann", password="ann's own") == ann
    assert log_in("/login/", "ann's own", address="198.51.100.1").status_code == 200


@pytest.mark.usefixtures("ann")
def test_many_addresses_that_guess_one_account_are_counted_together() -> None:
    for number in range(TRIES_EVERYWHERE):
        request = RequestFactory(REMOTE_ADDR=f"192.0.2.{number}").get("/")
        assert authenticate(request, username="ann", password="guess") is None
    assert log_in("/login/", "ann's own", address="198.51.100.1").status_code == 200


def test_a_name_that_is_nobodys_is_counted_alike() -> None:
    for number in range(TRIES):
        assert TOO_MANY not in log_in("/login/", f"guess {number}", name="nobody").content.decode()
    assert TOO_MANY in log_in("/login/", "guess", name="nobody").content.decode()


def test_what_was_typed_as_a_name_is_not_kept() -> None:
    log_in("/login/", "", name="ann's own")
    log_in("/login/", "guess", name="ann's own")
    assert not [one for one in Guess.objects.values_list("key", flat=True) if "own" in one]


def test_odd_names_are_no_error() -> None:
    for name in ("", "\x00", "a" * 10_000, "\u202e"):
        assert log_in("/login/", "guess", name=name).status_code == 200
    assert authenticate(RequestFactory().get("/"), username=7, password="guess") is None  # as JSON may hold it


def test_counts_that_are_over_are_forgotten() -> None:
    log_in("/login/", "guess", name="somebody")
    assert Guess.objects.count() == 2
    advance("2h")
    log_in("/login/", "guess", name="another")
    assert Guess.objects.count() == 2
