"""Who has a request open at this moment.

Invariant owned: it decides nothing and hides nothing; whoever stops renewing it is gone after a short while.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import QuerySet

from approvals.display.values import MAX_NAME, show_text
from approvals.models import Presence, writer
from approvals.people.person import Person
from approvals.people.principals import name_person
from approvals.reviews.case import MAX_ROWS
from workflows.clock import Now

#: A page renews it every few seconds; a browser's tab in the background is slower.
LASTS = timedelta(seconds=45)


def looking_at(review: Any) -> QuerySet[Any]:
    """The rows of those who look at a review now."""
    rows: QuerySet[Any] = Presence.objects.filter(review_id=review, seen_at__gt=Now() - LASTS).order_by("pk")
    return rows


def list_names(keys: Iterable[Any]) -> dict[Any, str]:
    """What people are called, by their keys; nothing is asked where there are none."""
    wanted = set(keys)
    users = get_user_model()._default_manager.filter(pk__in=wanted) if wanted else ()
    return {one.pk: show_text(name_person(one), MAX_NAME) for one in users}


@dataclass(frozen=True, slots=True)
class Around:
    """What is around a request that somebody has open."""

    #: Who else has it open.
    others: tuple[str, ...] = ()
    #: Until when they have put it aside.
    snoozed_until: datetime | None = None


def look(review: UUID, user: Person) -> Around:
    """Say that somebody has it open; who else has.

    >>> look(review.pk, ann).others
    ('Ben Okafor',)
    """
    keys, until = writer.set_presence(review, user, LASTS)
    names = list_names(keys)
    return Around(tuple(names[key] for key in keys if key in names), until)


def list_lookers(review: UUID, user: Person) -> tuple[str, ...]:
    """Who else has it open, without being seen."""
    others = looking_at(review).exclude(user_id=user.pk).select_related("user")
    return tuple(show_text(name_person(one.user), MAX_NAME) for one in others[:5])


def write_said(claimed_by: Any, comments: int) -> str:
    """What changes with each claim and comment, for a page to compare."""
    return f"{claimed_by or ''}-{min(comments, MAX_ROWS)}"
