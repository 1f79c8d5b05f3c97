"""What stands below an instance on its page: its inbox, its ledger, its children.

Signals and ledger events have composite keys, which the admin cannot register; and outside their instance
they say little. Invariant owned: one statement per table, of at most `ROWS` + 1 rows, with the beginning
of each value only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast, Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from workflows.admin.markup import (
    EXCERPT,
    show_id,
    show_json,
    show_kind,
    show_moment,
    show_status,
    show_text,
)
from workflows.models import Instance

#: Rows of one table on one page.
ROWS = 200
#: No table is turned further; a deeper OFFSET would only cost.
LAST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Page:
    """Some rows, where they stand, and the addresses of the rows around them."""

    rows: list[Any]
    first: int
    last: int
    newer: str | None
    older: str | None


def read_history(instance: Instance, request: HttpRequest, site: str) -> dict[str, Any]:
    """The tables of an instance's page, newest rows first, as cells that are safe to print."""
    signals = excerpt(instance.signals.order_by("-n"), "payload")
    events = excerpt(instance.events.order_by("-seq"), "data")
    children = instance.children.order_by("-id").defer("input", "stored_state", "result", "error")
    inbox, ledger = read_page(signals, request, "inbox_page"), read_page(events, request, "ledger_page")
    people = find_people([instance.started_by, *(s.source for s in inbox.rows), *(e.actor for e in ledger.rows)])
    for signal in inbox.rows:
        signal.cells = {
            "name": show_text(signal.name),
            "received": show_moment(signal.received_at),
            "consumed": show_moment(signal.consumed_at),
            "source": show_actor(signal.source, people),
            "dedup": show_text(signal.dedup_key),
            "payload": show_json(signal.excerpt, locate_value(instance, f"signal-{signal.n}", site)),
        }
    for event in ledger.rows:
        event.cells = {
            "at": show_moment(event.at),
            "kind": show_kind(event.kind),
            "status": show_status(event.status),
            "name": show_text(event.name),
            "due": show_moment(event.due_at),
            "actor": show_actor(event.actor, people),
            "data": show_json(event.excerpt, locate_value(instance, f"event-{event.seq}", site)),
        }
    family = read_page(children, request, "children_page")
    for child in family.rows:
        child.cells = {
            "id": show_id(child.id),
            "url": reverse("admin:holdpoint_instance_change", args=[child.pk], current_app=site),
            "key": show_text(child.key),
            "status": show_status(child.status),
            "step": show_text(child.step),
            "finished": show_moment(child.finished_at),
        }
    vars(instance)["shown_starter"] = show_actor(instance.started_by, people)
    return {"inbox": inbox, "ledger": ledger, "children": family}


def read_page(rows: QuerySet[Any], request: HttpRequest, parameter: str) -> Page:
    """The rows that the address asks for under its own parameter, so that each table turns alone."""
    asked = request.GET.get(parameter, "")
    number = min(max(int(asked), 1), LAST_PAGE) if asked.isascii() and asked.isdigit() else 1
    begin = (number - 1) * ROWS
    found = list(rows[begin : begin + ROWS + 1])
    return Page(
        rows=found[:ROWS],
        first=begin + 1,
        last=begin + len(found[:ROWS]),
        newer=turn(request, parameter, number - 1) if number > 1 else None,
        older=turn(request, parameter, number + 1) if len(found) > ROWS and number < LAST_PAGE else None,
    )


def turn(request: HttpRequest, parameter: str, number: int) -> str:
    """The same page with one of its tables turned."""
    query = request.GET.copy()
    query[parameter] = str(number)
    return f"?{query.urlencode()}#{parameter.replace('_', '-')}"


def excerpt(rows: QuerySet[Any], field: str) -> QuerySet[Any]:
    """Rows with the beginning of a JSON column as text instead of the column: 200 payloads may be 100 MB."""
    shortened: QuerySet[Any] = rows.defer(field).annotate(excerpt=Left(Cast(field, TextField()), EXCERPT + 1))
    return shortened


def locate_value(instance: Instance, what: str, site: str) -> str:
    """The address of a value in full."""
    return reverse("admin:holdpoint_instance_value", args=[instance.pk, what], current_app=site)


def find_people(actors: Iterable[str]) -> dict[str, str]:
    """The login names behind actors like "user:7", in one statement, whatever the user model."""
    model = apps.get_model(settings.AUTH_USER_MODEL)
    wanted: dict[Any, str] = {}
    for actor in set(actors):
        kind, _, key = actor.partition(":")
        try:
            if kind == "user":
                pk = model._meta.pk.to_python(key)
                model._meta.pk.run_validators(pk)
                wanted[pk] = actor
        except (ValidationError, ValueError, OverflowError):
            continue  # a text that only looks like a user
    if not wanted:
        return {}
    return {wanted[user.pk]: user.get_username() for user in model._default_manager.filter(pk__in=wanted)}


def show_actor(actor: str, people: dict[str, str]) -> SafeString:
    """A login name with the account behind it, or the actor as it was given."""
    name = people.get(actor)
    return show_text(actor if name is None else f"{name} ({actor})")
