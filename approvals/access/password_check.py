"""Asking somebody for their password again, and against guessing it; and what stands in for it where there is none.

Invariant owned: so many tries in so long a time and no more, for the whole site. They are counted in the database
before each is looked at: many tries at one moment are no more than the same tries one after another.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_variables

from approvals.exceptions import ApprovalError
from approvals.models import writer

TRIES = 5
LASTS = timedelta(minutes=15)
#: Whoever logs in elsewhere (SSO) has no password to be asked for; that they did so lately stands for it.
LATELY = timedelta(minutes=15)


class TooManyTries(ApprovalError):
    """The password was wrong too often; it is not looked at for a while.

    >>> str(TooManyTries())
    'Too many tries. Wait 15 minutes.'
    """

    def __init__(self) -> None:
        minutes = LASTS // timedelta(minutes=1)
        super().__init__(gettext("Too many tries. Wait %(minutes)s minutes.") % {"minutes": minutes})


def has_logged_in_lately(user: Any, now: datetime) -> bool:
    """Whether somebody without a password here has just proven elsewhere who they are.

    >>> has_logged_in_lately(ann, now)  # she has a password: it is asked for
    False
    """
    at = getattr(user, "last_login", None)
    return not user.has_usable_password() and at is not None and timedelta(0) <= now - at < LATELY


@sensitive_variables("password")
def check_password(user: Any, password: str) -> bool:
    """Whether it is this user's.

    >>> check_password(ann, "wrong")
    False
    """
    key = make_key("password", user.pk)
    if writer.count_tries([key], LASTS)[key] > TRIES:
        raise TooManyTries
    if not user.check_password(password):
        return False
    writer.forget_tries(key)
    return True


def make_key(*names: object) -> str:
    """What tries are counted under. A digest: somebody may have typed a password into the field for the name."""
    return sha256("\0".join(map(str, names)).encode(errors="backslashreplace")).hexdigest()
