"""Asking somebody for their password again, and against guessing it; and what stands in for it where there is none.

Invariant owned: so many tries in so long a time and no more, counted in Django's cache before each is looked at: so
many at once are not more than the same one after another.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_variables

from approvals.exceptions import ApprovalError

TRIES = 5
SECONDS = 900
#: Whoever logs in elsewhere (SSO) has no password to be asked for; that they did so lately stands for it.
LATELY = timedelta(minutes=15)


class TooManyTries(ApprovalError):
    """The password was wrong too often; it is not looked at for a while.

    >>> str(TooManyTries())
    'Too many tries. Wait 15 minutes.'
    """

    def __init__(self) -> None:
        super().__init__(gettext("Too many tries. Wait %(minutes)s minutes.") % {"minutes": SECONDS // 60})


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
    key = f"holdpoint:password:{user.pk}"
    cache.add(key, 0, SECONDS)
    try:
        tries = cache.incr(key)
    except ValueError:  # it went between the two
        cache.set(key, 1, SECONDS)
        tries = 1
    if tries > TRIES:
        raise TooManyTries
    if not user.check_password(password):
        return False
    cache.delete(key)
    return True
