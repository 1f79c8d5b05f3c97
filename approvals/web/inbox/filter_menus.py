"""The menus of filters above a list.

Invariant owned: every choice is an address of its own; what cannot be chosen any more because nothing of it waits is
still shown where it is chosen, so that it can be taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.apps import apps
from django.urls import reverse
from django.utils.translation import gettext, pgettext

from approvals.display.values import MAX_NAME, name_kind, show_text
from approvals.models.review import RISKS
from approvals.web.base.filters import Filters
from approvals.web.inbox.rail import RailLink
from approvals.web.inbox.rows import RequestRow


@dataclass(frozen=True, slots=True)
class MenuOption:
    """One choice."""

    label: str
    url: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Menu:
    """One filter."""

    name: str
    label: str
    #: What is chosen; empty for nothing.
    value_label: str
    options: tuple[MenuOption, ...]


def list_menus(filters: Filters, rows: Sequence[RequestRow], groups: Iterable[RailLink]) -> tuple[Menu, ...]:
    """The filters of a list; workflows, types and people are those of the rows that are shown."""
    workflows = sorted({row.workflow for row in rows} | ({filters.workflow} if filters.workflow else set()))
    people = {row.username: row.requester for row in rows if row.username}
    if filters.person:
        people.setdefault(filters.person, filters.person)
    types = sorted({row.type for row in rows if row.type} | ({filters.type} if filters.type else set()))
    asked = [("me", gettext("Me, by name")), *((one.view, one.name) for one in groups)]
    menus: tuple[Menu, ...] = (
        _make(filters, "workflow", gettext("Workflow"), [(one, name_kind(one)) for one in workflows]),
        _make(filters, "type", gettext("About"), [(one, name_type(one)) for one in types]),
        _make(filters, "risk", gettext("Risk"), [(one, str(label).capitalize()) for one, label in RISKS.items()]),
        _make(filters, "due", gettext("Due"), _list_dues()),
        _make(filters, "age", gettext("Age"), _list_ages()),
        _make(filters, "person", gettext("Person"), sorted(people.items(), key=lambda one: one[1].casefold())),
    )
    if filters.view in ("requested", "decided"):
        return menus
    menus = (*menus, _make(filters, "asked", pgettext("whom it asks", "Asked"), asked))
    sorts = [("newest", gettext("Newest first")), ("oldest", gettext("Oldest first"))]
    return (*menus, _make(filters, "sort", gettext("Due first"), sorts, otherwise=gettext("Due first")))


def name_type(label: str) -> str:
    """What rows of a model are called.

    >>> name_type("auth.user")
    'User'
    """
    try:
        name = str(apps.get_model(label)._meta.verbose_name)
    except (LookupError, ValueError):  # of an app that is no longer there
        name = show_text(label, MAX_NAME)
    return name[:1].upper() + name[1:]


def _list_dues() -> list[tuple[str, str]]:
    return [
        ("overdue", gettext("Overdue")),
        ("today", gettext("Today")),
        ("week", gettext("In the next seven days")),
        ("none", gettext("No due date")),
    ]


def _list_ages() -> list[tuple[str, str]]:
    return [
        ("1", gettext("Older than a day")),
        ("3", gettext("Older than three days")),
        ("7", gettext("Older than a week")),
        ("30", gettext("Older than thirty days")),
    ]


def _make(filters: Filters, name: str, label: str, choices: Iterable[tuple[str, str]], *, otherwise: str = "") -> Menu:
    chosen = getattr(filters, name)
    at = reverse("approvals:inbox")
    choices = list(choices)

    def offer(value: str, told: str) -> MenuOption:
        query = filters.write(**{name: value})
        return MenuOption(told, f"{at}?{query}" if query else at, value == chosen)

    options = [offer("", otherwise or gettext("Any"))] + [offer(value, told) for value, told in choices]
    return Menu(name, label, next((told for value, told in choices if value == chosen), ""), tuple(options))
