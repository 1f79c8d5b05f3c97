"""An account, as far as this app reads it.

Lives here: the type. Must not live here: reading an account (`principals`, `lookup`). Invariant owned: the type demands
only what every user model of Django has, because a site chooses its own.
"""

from __future__ import annotations

from typing import Any, Protocol


class Person(Protocol):
    """A user of the site, of whatever model `AUTH_USER_MODEL` names; nobody who is logged in, too.

    Rights are not part of it: a user model without `PermissionsMixin` has none, so they are looked for first.
    """

    @property
    def pk(self) -> Any:
        """The key; None for somebody who is not logged in."""

    @property
    def is_active(self) -> bool:
        """Whether the account may log in."""

    def get_username(self) -> str:
        """The name to log in with."""
