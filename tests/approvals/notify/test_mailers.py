"""Mails go out by whichever settings this Django reads: EMAIL_… or, from 6.1, MAILERS."""

from __future__ import annotations

from typing import Any

import django
import pytest
from django.core.checks import run_checks
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from approvals.notify.failures import SendFailed
from approvals.notify.messages.smtp import TIMEOUT, Postman
from tests.support.notices import use_backend


class Unreachable(EmailBackend):
    """Django's SMTP backend, up to the moment where it would connect."""

    opened: list[Any]

    def open(self) -> bool | None:
        self.opened.append(self.timeout)
        raise ConnectionRefusedError("nobody answers")


@pytest.fixture(name="opened")
def use_unreachable_server(settings: Any) -> list[Any]:
    Unreachable.opened = []
    use_backend(settings, f"{__name__}.Unreachable", host="localhost")
    return Unreachable.opened


def send() -> None:
    with Postman() as postman, pytest.raises(SendFailed):
        postman.send(EmailMessage("Hello", "…", "a@example.org", ["b@example.org"]))


def test_a_mail_server_that_the_site_gives_no_time_limit_may_be_silent_for_so_long(opened: list[Any]) -> None:
    send()
    assert opened == [TIMEOUT]


def test_the_time_limit_of_the_site_is_kept(settings: Any, opened: list[Any]) -> None:
    if django.VERSION >= (6, 1):
        use_backend(settings, f"{__name__}.Unreachable", host="localhost", timeout=7)
    else:
        settings.EMAIL_TIMEOUT = 7
    send()
    assert opened == [7]


# --- told before the first mail is lost ---------------------------------------------------------------------


def look() -> list[Any]:
    found = run_checks(tags=["holdpoint"], include_deployment_checks=True, databases=[])
    return [one for one in found if one.id == "holdpoint_approvals.E023"]


class Refusing(EmailBackend):
    """A backend that cannot be made."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise ValueError("EMAIL_USE_TLS and EMAIL_USE_SSL exclude each other")


def test_a_check_of_a_deployment_says_that_no_mail_can_be_sent(settings: Any) -> None:
    assert look() == []
    use_backend(settings, f"{__name__}.Refusing")
    [problem] = look()
    assert "exclude each other" in problem.msg
    assert ("MAILERS" if django.VERSION >= (6, 1) else "EMAIL_BACKEND") in problem.hint
    settings.APPROVALS = {"EMAIL": False}
    assert look() == []


def test_a_backend_that_is_not_there_is_named(settings: Any) -> None:
    use_backend(settings, "shop.mail.NoSuchBackend")
    [problem] = look()
    assert "shop.mail" in problem.msg or "shop" in problem.msg


@pytest.mark.skipif(django.VERSION < (6, 1), reason="MAILERS comes with Django 6.1")
def test_mailers_without_a_default_are_told(settings: Any) -> None:
    settings.MAILERS = {"other": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    [problem] = look()
    assert "default" in problem.msg


def test_the_check_reaches_no_server(settings: Any, opened: list[Any]) -> None:
    assert look() == []
    assert opened == []
