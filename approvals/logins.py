"""Logins that cannot be guessed: Django's own, with every try counted in the database.

Put `"approvals.logins.CountedModelBackend"` into `AUTHENTICATION_BACKENDS`, or a class made of `CountedLogins` and a
backend of your own. Invariant owned: a try is counted before the password is looked at, whichever page, form or header
it came by.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from django.views.decorators.debug import sensitive_variables

from approvals.access.password_check import TooManyTries, make_key
from approvals.models import writer

if TYPE_CHECKING:
    _Backend = ModelBackend
else:
    _Backend = object  # the backend that it stands before comes after it

LASTS = timedelta(minutes=15)
#: Of one account from one address; and of one account from everywhere, so that many addresses help little.
TRIES, TRIES_EVERYWHERE = 10, 100

_REFUSED = "holdpoint_too_many_tries"


class CountedLogins(_Backend):
    """Before a backend of your own: `class Logins(CountedLogins, LDAPBackend)`."""

    @sensitive_variables("password", "credentials")
    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **credentials: Any
    ) -> Any:
        """The user; PermissionDenied, which no other backend is asked after, where there were too many tries."""
        name = username if username is not None else credentials.get(get_user_model().USERNAME_FIELD)
        if name is None or password is None:
            return super().authenticate(request, username, password, **credentials)
        address = "" if request is None else request.META.get("REMOTE_ADDR", "")
        # A name in capitals is the same account to some databases; more names than accounts do no harm.
        folded = str(name).casefold()
        here, everywhere = make_key("login", folded, address), make_key("login", folded)
        # What is refused here is no try: one address alone would else keep somebody out everywhere.
        if _count(here) > TRIES or _count(everywhere) > TRIES_EVERYWHERE:
            if request is not None:
                setattr(request, _REFUSED, True)
            raise PermissionDenied(str(TooManyTries()))
        user = super().authenticate(request, username, password, **credentials)
        if user is not None:
            writer.forget_tries(here)
            writer.take_back_try(everywhere)
        return user

    async def aauthenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **credentials: Any
    ) -> Any:
        """The same, from async code."""
        return await sync_to_async(self.authenticate)(request, username, password, **credentials)


def _count(key: str) -> int:
    return writer.count_tries([key], LASTS)[key]


class CountedModelBackend(CountedLogins, ModelBackend):
    """Django's own accounts, whose passwords cannot be guessed."""


class CountedLoginForm(AuthenticationForm):
    """Django's own login form, which says so when there were too many tries."""

    def get_invalid_login_error(self) -> ValidationError:
        """Why nobody was logged in."""
        if getattr(self.request, _REFUSED, False):
            return ValidationError(str(TooManyTries()), code="too_many_tries")
        return super().get_invalid_login_error()
