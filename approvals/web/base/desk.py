"""What somebody finds when they sit down: the moment, how they like to work, the lists that they kept.

Invariant owned: it costs no statement of its own, whatever of it there is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import TooManyFieldsSent
from django.db.models import OuterRef
from django.db.models.functions import JSONObject
from django.http import QueryDict

from approvals.models import Preference, SavedView
from approvals.people.viewer import Viewer
from approvals.web.base.filters import Filters, read_filters
from workflows.clock import Now, read_now

#: Of one person.
MAX_SAVED = 50
#: Of a preference.
_SAID = ("language", "time_zone", "email", "shortcuts")


@dataclass(frozen=True, slots=True)
class Kept:
    """A saved view."""

    key: int
    name: str
    filters: Filters


@dataclass(frozen=True, slots=True)
class InboxDesk:
    """Of one person."""

    #: The database's moment.
    now: datetime
    #: None where they never said anything.
    preference: Preference | None
    saved: tuple[Kept, ...]


def ask_desk() -> dict[str, Any]:
    """What is asked about an account, as expressions for `Viewer`."""
    views = SavedView._default_manager.filter(user_id=OuterRef("pk")).order_by("name", "pk")
    said = Preference._default_manager.filter(pk=OuterRef("pk"))
    return {
        "desk_now": Now(),
        "desk_saved": ArraySubquery(views.values(row=JSONObject(key="pk", name="name", query="query"))[:MAX_SAVED]),
        "desk_said": ArraySubquery(said.values(row=JSONObject(**{name: name for name in _SAID}))),
    }


def read_desk(viewer: Viewer) -> InboxDesk:
    """The desk of a viewer that was made with `ask_desk()`.

    >>> read_desk(Viewer(ann, **ask_desk())).saved[0].name
    'Refunds under €50'
    """
    told = viewer.beside
    if told.get("desk_now") is None:  # deactivated a moment ago
        return InboxDesk(read_now(), None, ())
    saved = tuple(Kept(one["key"], one["name"], read_query(one["query"])) for one in told["desk_saved"])
    said = [Preference(user=viewer.user, **one) for one in told["desk_said"]]
    return InboxDesk(told["desk_now"], said[0] if said else None, saved)


def read_query(query: str) -> Filters:
    """The filters that a query string stands for; those of everything where it is no such string."""
    try:
        return read_filters(QueryDict(query))
    except TooManyFieldsSent:
        return Filters()
