"""How somebody reads: their language, their time zone, whether and where they get mail.

Invariant owned: what a preference does not say, or says in words that nobody knows, is as the site has it.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

from django.conf import settings
from django.utils import timezone, translation

from approvals.display.values import MAX_NAME, show_text
from approvals.models import Preference
from approvals.people.person import Person


@dataclass(frozen=True, slots=True)
class ReaderPreferences:
    """A person to whom something is told."""

    user: Any
    language: str
    zone: tzinfo
    #: "each", "hourly", "daily" or "none".
    email: str
    #: Whether the language is their own choice.
    chose_language: bool

    @property
    def address(self) -> str:
        """Where mail reaches them; empty where none does."""
        return str(getattr(self.user, self.user.get_email_field_name(), None) or "").strip()

    @property
    def name(self) -> str:
        """What they are called when they are greeted."""
        short = self.user.get_short_name() if hasattr(self.user, "get_short_name") else ""
        return show_text(short or self.user.get_username(), MAX_NAME)


def read_readers(users: Iterable[Any]) -> dict[Any, ReaderPreferences]:
    """By their keys; their preferences in one statement.

    >>> read_readers([ann])[ann.pk].language
    'en'
    """
    known = {user.pk: user for user in users}
    said: Mapping[Any, Preference] = {one.pk: one for one in Preference._default_manager.filter(pk__in=list(known))}
    return {key: make_reader(user, said.get(key)) for key, user in known.items()}


def make_reader(user: Person, said: Preference | None) -> ReaderPreferences:
    """A person with what they said about themselves.

    >>> make_reader(ann, None).email
    'each'
    """
    language = find_language(said.language) if said else ""
    zone = find_zone(said.time_zone) if said else None
    email = said.email if said and said.email in ("hourly", "daily", "none") else "each"
    return ReaderPreferences(
        user=user,
        language=language or settings.LANGUAGE_CODE,
        zone=zone or timezone.get_default_timezone(),
        email=email,
        chose_language=bool(language),
    )


def find_language(code: str) -> str:
    """A language that the site has, nearest to this one; empty where there is none."""
    try:
        return translation.get_supported_language_variant(code) if code else ""
    except LookupError:
        return ""


def find_zone(name: str) -> tzinfo | None:
    """A time zone by its name; None where that is none."""
    try:
        return zoneinfo.ZoneInfo(name) if name else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


@contextmanager
def speaking_to(reader: ReaderPreferences) -> Iterator[None]:
    """In their language and time zone."""
    with translation.override(reader.language), timezone.override(reader.zone):
        yield
