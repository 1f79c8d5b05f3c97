"""What stands below an instance on its page: its questions, checkpoints, inbox, ledger and children.

Signals and ledger events have composite keys, which the admin cannot register; and outside their instance
they say little. Invariant owned: one statement per table, of at most `ROWS` + 1 rows, with the beginning
of each value only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, JSONField, QuerySet, TextField, When
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, JSONObject, Left
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from workflows.admin.actors import find_actors, show_actor
from workflows.admin.instances.instance_waits import SHOWN, read_waits, show_name
from workflows.admin.markup import (
    EXCERPT,
    NOTHING,
    show_id,
    show_json,
    show_kind,
    show_moment,
    show_standing,
    show_status,
    show_text,
)
from workflows.admin.questions.interaction_admin import read_questions, show_holder
from workflows.admin.questions.unit_admin import read_units
from workflows.definitions.awaited_event import EVENT
from workflows.definitions.awaited_kinds import END
from workflows.lifecycle import Event
from workflows.models import Instance
from workflows.wording.hidden_characters import reveal

#: Rows of one table on one page.
ROWS = 200
#: Kinds of ledger rows whose data says what they are about, and the parts of it that say so.
NAMING = (
    Event.SIGNALLED,
    Event.SUSPENDED,
    Event.ASKED,
    Event.ANSWERED,
    Event.REFUSED,
    Event.REDACTED,
    Event.VOTED,
    Event.REVERSED,
    Event.HANDLED,
    Event.RESCHEDULED,
)
PARTS = ("event", "signal_id", "step", "channel", "door", "reason", "seq", "what", "outcome")
DETAILS = Case(
    When(
        kind__in=NAMING,
        then=JSONObject(**{part: Left(KeyTextTransform(part, "data"), EXCERPT) for part in PARTS}),
    ),
    output_field=JSONField(),
)
#: No table is turned further; a deeper OFFSET would only cost.
LAST_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Some rows, where they stand, and the addresses of the rows around them."""

    rows: list[Any]
    first: int
    last: int
    newer: str | None
    older: str | None


def read_history(instance: Instance, request: HttpRequest, site: str) -> dict[str, Any]:
    """The tables of an instance's page, newest rows first, as cells that are safe to print."""
    signals = excerpt(instance.signals.order_by("-n"), "payload")
    events = excerpt(instance.events.order_by("-seq"), "data").annotate(details=DETAILS)
    children = instance.children.order_by("-id").defer("input", "stored_state", "result", "error", "traceback")
    inbox, ledger = read_page(signals, request, "inbox_page"), read_page(events, request, "ledger_page")
    questions = read_page(read_questions(instance), request, "questions_page") if instance.asked else None
    saved = read_page(excerpt(instance.checkpoints.order_by("-position"), "value"), request, "checkpoints_page")
    asked = questions.rows if questions else []
    actors = [*(s.source for s in inbox.rows), *(e.actor for e in ledger.rows), *(one.actor for one in asked)]
    people = find_actors([instance.started_by, *actors], request, site)
    waits = read_waits([*(instance.names or ())[: SHOWN + 1], *(signal.name for signal in inbox.rows)])
    for one in asked:
        one.cells = show_question(one, people, site if request.user.has_perm("holdpoint.view_interaction") else None)
    for checkpoint in saved.rows:
        checkpoint.cells = show_checkpoint(instance, checkpoint, site)
    for signal in inbox.rows:
        signal.cells = {
            "name": show_name(signal.name, waits),
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
            "name": show_subject(event),
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
    vars(instance)["shown_waits"] = waits
    lists: list[dict[str, Any]] = []
    if any(one.item for one in asked):
        lists = read_units(instance, site if request.user.has_perm("holdpoint.view_awaitunit") else None)
    return {
        "lists": lists,
        "inbox": inbox,
        "ledger": ledger,
        "children": family,
        "questions": questions,
        "checkpoints": saved,
    }


def show_question(one: Any, people: Mapping[str, SafeString], site: str | None) -> dict[str, Any]:
    """The cells of one question; it leads to a page of its own for those who may open that."""
    return {
        "url": site and reverse("admin:holdpoint_interaction_change", args=[one.pk], current_app=site),
        "signal_id": show_text(one.signal_id),
        "wait": show_text(one.wait, 40),
        "status": show_standing(one),
        "channel": show_text(one.channel, 40),
        "deadline": show_moment(one.deadline),
        "holder": show_holder(one),
        "closed": show_moment(one.closed_at),
        "actor": show_actor(one.actor, people),
    }


def show_checkpoint(instance: Instance, saved: Any, site: str) -> dict[str, Any]:
    """The cells of one saved result; what a question or a child has to tell stands with them."""
    value = show_json(saved.excerpt, locate_value(instance, f"checkpoint-{saved.position}", site))
    if saved.excerpt is None and saved.child_id is not None:
        url = reverse("admin:holdpoint_instance_change", args=[saved.child_id], current_app=site)
        value = format_html(_("child {id}"), id=format_html('<a href="{}">{}</a>', url, show_id(saved.child_id)))
    elif saved.excerpt is None and saved.unit_id is not None:
        value = format_html('<span class="hp-quiet">{}</span>', _("see its question"))
    return {
        "kind": format_html("<code>{}</code>", saved.kind),
        "id": show_text(saved.name),
        "saved": show_moment(saved.saved_at),
        "deadline": show_moment(saved.deadline),
        "state": pgettext("a checkpoint", "failed")
        if saved.failed
        else pgettext("a checkpoint", "expired")
        if saved.expired
        else pgettext("a checkpoint", "saved")
        if saved.settled
        else pgettext("a checkpoint", "open"),
        "value": value,
    }


def show_subject(event: Any) -> SafeString:
    """What a ledger row is about: the step, the signal, or what its data names."""
    told = event.details or {}
    channel = show_text(told.get("channel"), 40)
    if event.kind == Event.SIGNALLED and told.get("event") and (event.name or "").startswith(EVENT):
        named = format_html(_("event {name}"), name=show_text(told["event"]))
        return format_html('<span title="{}">{}</span>', reveal(event.name), named)
    if event.kind == Event.SIGNALLED and (event.name or "").startswith(END):
        return show_name(event.name, {})
    if event.kind == Event.SUSPENDED and told.get("event"):
        return format_html(_("event {name}"), name=show_text(told["event"]))
    if event.kind == Event.ASKED and told.get("signal_id"):
        question = show_text(told["signal_id"])
        return format_html(_("{question} through channel {channel}"), question=question, channel=channel)
    if event.kind == Event.ASKED and told.get("step"):
        return show_text(told["step"])
    if event.kind == Event.ANSWERED and told.get("channel"):
        if not told.get("door"):
            return format_html(_("through channel {channel}"), channel=channel)
        door = show_text(told["door"], 40)
        return format_html(_("through channel {channel}, at {door}"), channel=channel, door=door)
    if event.kind in (Event.VOTED, Event.REVERSED, Event.HANDLED, Event.RESCHEDULED):
        parts = [show_text(told[part], 100) for part in ("outcome", "what", "reason") if told.get(part)]
        return format_html_join(": ", "{}", ((part,) for part in parts)) if parts else NOTHING
    if event.kind == Event.REFUSED:
        return show_text(told.get("reason")) if told.get("reason") else format_html("{}", _("came too late"))
    if event.kind == Event.REDACTED and told.get("seq"):
        reason = show_text(told.get("reason"))
        return format_html(_("of row {number}: {reason}"), number=told["seq"], reason=reason)
    return show_text(event.name) if event.name else NOTHING


def read_page(rows: QuerySet[Any], request: HttpRequest, parameter: str) -> HistoryPage:
    """The rows that the address asks for under its own parameter, so that each table turns alone."""
    asked = request.GET.get(parameter, "")
    number = min(max(int(asked), 1), LAST_PAGE) if asked.isascii() and asked.isdigit() else 1
    begin = (number - 1) * ROWS
    found = list(rows[begin : begin + ROWS + 1])
    return HistoryPage(
        rows=found[:ROWS],
        first=begin + 1,
        last=begin + len(found[:ROWS]),
        newer=turn(request, parameter, number - 1) if number > 1 else None,
        older=turn(request, parameter, number + 1) if len(found) > ROWS and number < LAST_PAGE else None,
    )


def turn(request: HttpRequest, parameter: str, number: int) -> str:
    """The address of this page with one of its tables turned."""
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
