"""Pieces of HTML: badges, moments, values. Nothing here queries.

Invariant owned: every text that came from outside leaves through `format_html`, so it is escaped; and
through `<bdi>`, so that a key cannot reorder the text beside it. Characters that nobody sees get a shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse
from django.utils import timezone
from django.utils.formats import date_format, number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext, pgettext_lazy

from workflows.lifecycle import Event, InteractionStatus, Status
from workflows.models import Instance
from workflows.wording.hidden_characters import reveal
from workflows.wording.punctuation import join_html

#: Characters of a value that a page holds; the rest is one link away.
EXCERPT = 2_000
#: Characters that stand in a row before a value is folded.
SUMMARY = 60
#: Characters of a row's own values on its page.
VALUE = 20_000
#: A moment that passed this long ago should have been acted on: deadlines fire within two seconds.
LATE = timedelta(minutes=1)

#: Word and tone of each status. The word carries the meaning; the colour only repeats it.
STATUSES: Mapping[Status, tuple[Any, str]] = {
    Status.RUNNABLE: (pgettext_lazy("status", "runnable"), "go"),
    Status.RUNNING: (pgettext_lazy("status", "running"), "go"),
    Status.AWAITING: (pgettext_lazy("status", "awaiting"), "wait"),
    Status.SLEEPING: (pgettext_lazy("status", "sleeping"), "wait"),
    Status.AWAITING_CHILDREN: (pgettext_lazy("status", "awaiting children"), "wait"),
    Status.DONE: (pgettext_lazy("status", "done"), "good"),
    Status.FAILED: (pgettext_lazy("status", "failed"), "bad"),
    Status.CANCELLED: (pgettext_lazy("status", "cancelled"), "quiet"),
}

#: The same of each question.
ANSWERS: Mapping[InteractionStatus, tuple[Any, str]] = {
    InteractionStatus.PENDING: (pgettext_lazy("interaction", "pending"), "wait"),
    InteractionStatus.COMPLETED: (pgettext_lazy("interaction", "answered"), "good"),
    InteractionStatus.FAILED: (pgettext_lazy("interaction", "failed"), "bad"),
    InteractionStatus.EXPIRED: (pgettext_lazy("interaction", "expired"), "quiet"),
    InteractionStatus.CANCELLED: (pgettext_lazy("interaction", "cancelled"), "quiet"),
}

EVENTS: Mapping[Event, Any] = {
    Event.STARTED: gettext_lazy("started"),
    Event.SIGNALLED: gettext_lazy("signal received"),
    Event.TIMED_OUT: gettext_lazy("timed out"),
    Event.WOKE: gettext_lazy("woke"),
    Event.RECLAIMED: gettext_lazy("taken from a lost worker"),
    Event.CHILD_ENDED: gettext_lazy("child ended"),
    Event.ADVANCED: gettext_lazy("advanced"),
    Event.PARKED: gettext_lazy("parked"),
    Event.RETRIED: gettext_lazy("step asked to run again"),
    Event.DONE: pgettext_lazy("what happened", "done"),
    Event.FAILED: pgettext_lazy("what happened", "failed"),
    Event.CANCELLED: pgettext_lazy("what happened", "cancelled"),
    Event.SPAWNED: gettext_lazy("children started"),
    Event.RUN_FAILED: gettext_lazy("run ended with an error"),
    Event.PUT_BACK: gettext_lazy("put back"),
    Event.REOPENED: gettext_lazy("reopened by retry"),
    Event.SUSPENDED: gettext_lazy("suspended"),
    Event.ASKED: gettext_lazy("question asked"),
    Event.ANSWERED: gettext_lazy("question answered"),
    Event.REFUSED: gettext_lazy("refused"),
    Event.REDACTED: gettext_lazy("payload erased"),
    Event.VOTED: gettext_lazy("decided by a person"),
    Event.REVERSED: gettext_lazy("decision taken back"),
    Event.HANDLED: gettext_lazy("handled"),
    Event.RESCHEDULED: gettext_lazy("deadline moved"),
    Event.RERUN: gettext_lazy("step runs again for a late signal"),
    Event.ITEM_DISPATCHED: gettext_lazy("item handed to its channel"),
    Event.UNIT_DISPATCHED: gettext_lazy("all items handed out"),
    Event.UNIT_WAITING: gettext_lazy("instance waits for its items"),
    Event.ITEM_COMPLETED: gettext_lazy("item ended"),
    Event.UNIT_COMPLETED: gettext_lazy("all items answered"),
    Event.UNIT_RELEASED: gettext_lazy("instance released"),
    Event.UNIT_TERMINAL: gettext_lazy("unit closed"),
}

NOTHING = format_html('<span class="hp-quiet">{}</span>', "–")


def show_badge(word: object, tone: str) -> SafeString:
    """A word on a tinted ground."""
    return format_html('<span class="hp-badge hp-{}">{}</span>', tone, word)


def show_status(status: Status) -> SafeString:
    """A status as a badge."""
    word, tone = STATUSES.get(status, (status.value.replace("_", " "), "quiet"))
    return show_badge(word, tone)


def show_answer(status: InteractionStatus) -> SafeString:
    """How a question stands, as a badge."""
    return show_badge(*ANSWERS[status])


def show_standing(question: Any) -> SafeString:
    """How a question stands; an item whose turn has not come is not asked yet."""
    return show_badge(pgettext("an item", "queued"), "quiet") if question.queued else show_answer(question.status)


def show_kind(kind: Event) -> str:
    """What a ledger row tells, in words."""
    return str(EVENTS.get(kind, kind.value.replace("_", " ")))


def show_text(text: str | None, limit: int = SUMMARY) -> SafeString:
    """A name, key or actor: escaped, isolated, and clipped with the whole of it on hover."""
    if not text:
        return NOTHING
    if len(text) <= limit:
        return format_html("<bdi>{}</bdi>", reveal(text))
    return format_html('<bdi title="{}">{}…</bdi>', reveal(text[:EXCERPT], lines=True), reveal(text[:limit]))


def show_names(names: list[str] | None, limit: int = 3) -> SafeString:
    """The first few names, and how many more there are."""
    if not names:
        return NOTHING
    shown = join_html(show_text(name, 30) for name in names[:limit])
    return shown if len(names) <= limit else format_html("{} +{}", shown, len(names) - limit)


def show_id(id: UUID) -> SafeString:
    """The random end of an id; its beginning is the time and the same for neighbours."""
    return format_html('<code title="{}">…{}</code>', id, id.hex[-8:])


def to_local(value: datetime) -> datetime:
    """A moment in the time zone that is active for the user; as it is where the site uses none."""
    return timezone.localtime(value) if timezone.is_aware(value) else value


def show_moment(value: datetime | None) -> SafeString:
    """A moment to the second."""
    if value is None:
        return NOTHING
    local = to_local(value)
    return format_html('<time datetime="{}">{}</time>', local.isoformat(), date_format(local, "Y-m-d H:i:s"))


def show_zoned(value: datetime, zone: str) -> SafeString:
    """A moment to the second in a zone of its own, which it names; as the user's clock shows it on hover."""
    there = (value if timezone.is_aware(value) else timezone.make_aware(value)).astimezone(ZoneInfo(zone))
    title = date_format(to_local(value), "Y-m-d H:i:s T")
    shown = date_format(there, "Y-m-d H:i:s")
    return format_html(
        '<time datetime="{}" title="{}">{}</time> <span class="hp-quiet">{}</span>',
        there.isoformat(),
        title,
        shown,
        there.tzname(),
    )


def show_relative(value: datetime | None, now: datetime) -> SafeString:
    """How far away a moment is; the moment itself on hover."""
    if value is None:
        return NOTHING
    if abs(value - now) < timedelta(minutes=1):
        words = _("in less than a minute") if value > now else _("just now")
    elif value > now:
        words = _("in %(time)s") % {"time": timeuntil(value, now, depth=1)}
    else:
        words = _("%(time)s ago") % {"time": timesince(value, now, depth=1)}
    local = to_local(value)
    title = date_format(local, "Y-m-d H:i:s T")
    return format_html('<time datetime="{}" title="{}">{}</time>', local.isoformat(), title, words)


def show_due(instance: Instance, now: datetime) -> SafeString:
    """When something happens by itself: a run, the end of a lease, or a deadline."""
    if instance.due_at is None:
        return NOTHING if instance.ended else format_html('<span class="hp-quiet">{}</span>', _("no deadline"))
    # Whoever waits in a lane waits for a slot, for tokens or for the end of a pause, and nothing is late.
    waits_its_turn = instance.status == Status.RUNNABLE and instance.lane is not None
    if instance.due_at < now - LATE and not waits_its_turn:
        late = _("%(time)s late") % {"time": timesince(instance.due_at, now, depth=1)}
        title = date_format(to_local(instance.due_at), "Y-m-d H:i:s T")
        return format_html('<span title="{}">{}</span>', title, show_badge(late, "bad"))
    return show_relative(instance.due_at, now)


def show_progress(said: Mapping[str, Any]) -> SafeString:
    """How far an instance is, as its author says: “340 of 1,000”, and a note."""
    done, total, note = (said[part] for part in ("done", "total", "note"))
    words = number_format(done, force_grouping=True)
    if total is not None:
        words = _("%(done)s of %(total)s") % {"done": words, "total": number_format(total, force_grouping=True)}
    return format_html("{} · {}", words, show_text(note, 80)) if note else format_html("{}", words)


def show_json(text: str | None, whole: str) -> SafeString:
    """A value's JSON text, or the beginning of it: short in the row, else folded, else behind the link."""
    if text is None:
        return NOTHING
    if len(text) <= SUMMARY:
        return format_html('<code class="hp-value">{}</code>', reveal(text))
    block = show_block(indent_json(text) if len(text) <= EXCERPT else text, whole, EXCERPT)
    return format_html("<details><summary><code>{}…</code></summary>{}</details>", reveal(text[:SUMMARY]), block)


def show_block(text: str, whole: str, limit: int) -> SafeString:
    """A text in full, or its beginning with a link to all of it."""
    if len(text) <= limit:
        return format_html('<pre class="hp-value" tabindex="0">{}</pre>', reveal(text, lines=True))
    link = _("The beginning only: open the whole value")
    shown = reveal(text[:limit], lines=True)
    return format_html('<pre class="hp-value" tabindex="0">{}…</pre><a href="{}">{}</a>', shown, whole, link)


def answer_plainly(text: str) -> HttpResponse:
    """A whole value as plain text, which no browser may take for anything else."""
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"}
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)


def dump_json(value: object) -> str:
    """A value as people read JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)


def indent_json(text: str) -> str:
    """A JSON text, indented; or the text as it is where it is no JSON that Python reads."""
    try:
        return dump_json(json.loads(text))
    except (ValueError, RecursionError):
        return text
