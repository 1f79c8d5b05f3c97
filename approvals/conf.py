"""The APPROVALS setting, read in one place with types and defaults.

Values are read once, and again when a setting changes, so `override_settings` works; `find_problems` says what system
checks report.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.conf import settings

from workflows.conf.setting_values import SettingValues
from workflows.conf.settings import SettingProblem
from workflows.exceptions import InvalidDuration
from workflows.values.durations import parse_timeout

DEFAULTS: Mapping[str, Any] = {
    #: Seconds in which a decision made on a page can be undone; 0: none.
    "UNDO_SECONDS": 8,
    #: What this is called in titles, on pages and in mails.
    "NAME": "Holdpoint",
    "BASE_TEMPLATE": "holdpoint/base.html",
    #: Whether approving what is of high risk takes the password again.
    "REAUTHENTICATE": False,
    #: How long a requester waits before asking again for attention.
    "NUDGE_COOLDOWN": "4h",
    #: Whether people are told by e-mail, through Django's own backend.
    "EMAIL": True,
    "FROM_EMAIL": None,
    #: Places outside that are told, by name: {"ops": {"url": "https://…", "format": "json", "secret": "…"}}.
    "WEBHOOKS": {},
    #: Whether webhooks may call private addresses.
    "WEBHOOKS_PRIVATE": False,
}


class Conf(SettingValues):
    """`APPROVALS` with attribute access."""

    setting = "APPROVALS"
    defaults = DEFAULTS

    @cached_property
    def undo_seconds(self) -> float:
        """How long a decision made on a page can be undone."""
        return float(self._read("UNDO_SECONDS"))

    @cached_property
    def name(self) -> str:
        """What this is called in titles, on pages and in mails."""
        return str(self._read("NAME"))

    @cached_property
    def base_template(self) -> str:
        """The template that the pages extend."""
        return str(self._read("BASE_TEMPLATE"))

    @cached_property
    def reauthenticate(self) -> bool:
        """Whether approving what is of high risk takes the password again."""
        return bool(self._read("REAUTHENTICATE"))

    @cached_property
    def nudge_cooldown(self) -> timedelta:
        """How long a requester waits before asking again for attention."""
        return timedelta(seconds=parse_timeout(self._read("NUDGE_COOLDOWN")))

    @cached_property
    def email(self) -> bool:
        """Whether people are told by e-mail."""
        return bool(self._read("EMAIL"))

    @cached_property
    def from_email(self) -> str:
        """Who the e-mails are from."""
        return str(self._read("FROM_EMAIL") or settings.DEFAULT_FROM_EMAIL)

    @cached_property
    def webhooks(self) -> dict[str, Mapping[str, Any]]:
        """Places outside that are told, by name."""
        return dict(self._read("WEBHOOKS"))

    @cached_property
    def webhooks_private(self) -> bool:
        """Whether webhooks may call private addresses."""
        return bool(self._read("WEBHOOKS_PRIVATE"))


conf = Conf()


def find_problems() -> Iterator[SettingProblem]:
    """Unknown names and unreadable values."""
    value = getattr(settings, "APPROVALS", {})
    if not isinstance(value, Mapping):
        yield SettingProblem("", f"APPROVALS is {value!r:.60} and not a dictionary.", "Write APPROVALS = {…}.")
        return
    for name, given in value.items():
        if name not in DEFAULTS:
            close = difflib.get_close_matches(str(name).upper(), DEFAULTS, n=1)
            known = f"Did you mean {close[0]}?" if close else f"There are {', '.join(sorted(DEFAULTS))}."
            yield SettingProblem(name, f"APPROVALS has no setting {name!r}; it changes nothing.", known)
        elif fix := _READERS[name](given):
            shown = "" if name == "WEBHOOKS" else f" = {given!r:.80}"  # it holds secrets, and checks are logged
            yield SettingProblem(name, f'APPROVALS["{name}"]{shown} cannot be read.', fix)


def _want_seconds(value: Any) -> str | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 3600
    return None if good else "Write a number of seconds from 0 to 3600."


def _want_text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "Write a text."


def _want_name(value: Any) -> str | None:
    good = isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= 60
    return None if good else "Write what people call it, in one line of up to 60 characters."


def _want_sender(value: Any) -> str | None:
    return None if value is None or (isinstance(value, str) and "@" in value) else "Write an e-mail address, or None."


def _want_flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "Write True or False."


def _want_duration(value: Any) -> str | None:
    try:
        parse_timeout(value)
    except InvalidDuration as error:
        return f'{error}. Write seconds, "90s", "4h" or a timedelta.'
    return None


def _want_webhooks(value: Any) -> str | None:
    fix = 'Write {"ops": {"url": "https://…", "format": "json", "secret": "…"}}; the format may be "slack" as well.'
    if not isinstance(value, Mapping):
        return fix
    for name, one in value.items():
        if not isinstance(name, str) or not name or name == "email" or not isinstance(one, Mapping):
            return fix
        if not set(one) <= {"url", "format", "secret"} or one.get("format", "json") not in ("json", "slack"):
            return fix
        if not str(one.get("url", "")).startswith(("https://", "http://")):
            return fix
    return None


_READERS: Mapping[str, Callable[[Any], str | None]] = {
    "UNDO_SECONDS": _want_seconds,
    "NAME": _want_name,
    "BASE_TEMPLATE": _want_text,
    "REAUTHENTICATE": _want_flag,
    "NUDGE_COOLDOWN": _want_duration,
    "EMAIL": _want_flag,
    "FROM_EMAIL": _want_sender,
    "WEBHOOKS": _want_webhooks,
    "WEBHOOKS_PRIVATE": _want_flag,
}
