"""What a list shows, as its address says it: a view, filters, a search, an order.

Invariants owned: whatever stands in an address is a list that can be shown (what cannot be read is left out); and every
list has one address, so that it can be kept, shared and gone back to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.http import QueryDict

from approvals.models import RISKS

#: The views that are always there; a group's is "group-7".
VIEWS = ("mine", "overdue", "today", "risk", "claimed", "unassigned", "snoozed", "requested", "decided")
SORTS = ("newest", "oldest")
DUES = ("overdue", "today", "week", "none")
#: Older than so many days.
AGES = ("1", "3", "7", "30")
LONGEST = 200


_NARROWING = ("q", "workflow", "risk", "due", "age", "person", "asked", "type")


@dataclass(frozen=True, slots=True)
class InboxPlace:
    """Where a page of a list begins: after this one."""

    id: UUID
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Filters:
    """One list. Texts are empty where nothing is asked.

    >>> Filters(view="overdue", risk="high").write()
    'view=overdue&risk=high'
    """

    view: str = "mine"
    q: str = ""
    workflow: str = ""
    risk: str = ""
    due: str = ""
    age: str = ""
    #: The requester's username.
    person: str = ""
    #: Whom it asks: "me", by name; or "group-7".
    asked: str = ""
    #: What it is about: a model, "shop.order".
    type: str = ""
    sort: str = ""
    after: InboxPlace | None = None

    def write(self, **changes: Any) -> str:
        """The address's query; what is not said stays as it is, but for the place: another list begins at its top."""
        wanted = replace(self, **{"after": None, **changes})
        query = QueryDict(mutable=True)
        for one in fields(wanted):
            value = getattr(wanted, one.name)
            if value and value != one.default:
                query[one.name] = _write_place(value) if isinstance(value, InboxPlace) else str(value)
        return query.urlencode()

    @property
    def group(self) -> str:
        """The key of the group whose list this is; empty for any other list."""
        kind, _, key = self.view.partition("-")
        return key if kind == "group" else ""

    @property
    def is_narrowed(self) -> bool:
        """Whether anything is asked beside the view."""
        return any(getattr(self, one) for one in _NARROWING)


def read_filters(given: Mapping[str, Any]) -> Filters:
    """The list that an address asks for.

    >>> read_filters({"view": "nowhere", "risk": "high"}).view
    'mine'
    """
    found = {name: _read_text(given.get(name)) for name in ("q", "workflow", "person", "type")}
    return Filters(
        view=_read_view(given.get("view")),
        asked=_read_asked(given.get("asked")),
        risk=_read_choice(given.get("risk"), tuple(RISKS)),
        due=_read_choice(given.get("due"), DUES),
        age=_read_choice(given.get("age"), AGES),
        sort=_read_choice(given.get("sort"), SORTS),
        after=_read_place(given.get("after")),
        **found,
    )


def _read_view(given: Any) -> str:
    return str(given) if given in VIEWS or _is_group(given) else "mine"


def _read_asked(given: Any) -> str:
    return str(given) if given == "me" or _is_group(given) else ""


def _is_group(given: Any) -> bool:
    kind, _, key = given.partition("-") if isinstance(given, str) else ("", "", "")
    return kind == "group" and key.isascii() and key.isalnum() and len(key) <= 40


def _read_choice(given: Any, choices: tuple[str, ...]) -> str:
    return str(given) if given in choices else ""


def _read_text(given: Any) -> str:
    """Bounded, and free of what a database refuses."""
    text = given if isinstance(given, str) else ""
    return "".join(char for char in text if char != "\0" and not "\ud800" <= char <= "\udfff").strip()[:LONGEST]


def _write_place(place: InboxPlace) -> str:
    return str(place.id) if place.due_at is None else f"{place.due_at.astimezone(UTC):%Y%m%dT%H%M%S.%f}_{place.id}"


def _read_place(given: Any) -> InboxPlace | None:
    moment, _, id = given.rpartition("_") if isinstance(given, str) else ("", "", "")
    try:
        due_at = datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC) if moment else None
        return InboxPlace(UUID(id), due_at)
    except ValueError:
        return None
