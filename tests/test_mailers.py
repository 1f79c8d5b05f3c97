"""Mails go out by whichever settings this Django reads: EMAIL_… or, from 6.1, MAILERS."""

from __future__ import annotations

from typing import Any

import django
import pytest
from django.core.mail import EmailMessage
from django.core.mail.backends.smtp import EmailBackend

from approvals.notify.failures import SendFailed
from approvals.notify.postman import TIMEOUT, Postman
from tests.noticing import use_backend


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
