"""What an instance waits for, in people's words: the question or the event behind the engine's own signal names.

Invariants owned: one statement for all questions and one for all events, however many instances are on the page,
and none where nobody waits for any; neither tokens nor hashes are ever read here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast, Left
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from workflows.admin.markup import show_moment, show_names, show_text
from workflows.definitions.awaited_event import EVENT
from workflows.definitions.awaited_kinds import ASKED, END
from workflows.definitions.question import UNIT
from workflows.models import EventWait, Interaction
from workflows.wording.hidden_characters import reveal
from workflows.wording.punctuation import join_html

#: Characters of a match, and of a schema's title, that are read.
LENGTH = 300
#: Fields of a match that are named.
FIELDS = 4
#: Open questions that are named.
SHOWN = 3


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait: a few words for a row, a sentence for a page."""

    brief: SafeString
    full: SafeString


def read_waits(names: Iterable[str]) -> dict[str, Wait]:
    """What stands behind the engine's own names among these; at most two statements."""
    wanted = {name: key for name in set(names) if (key := _find_key(name)) is not None}
    units = {key: name for name, key in wanted.items() if name.startswith(UNIT)}
    events = {key: name for name, key in wanted.items() if name.startswith(EVENT)}
    waits: dict[str, Wait] = {}
    if units:
        asked = Interaction.objects.filter(unit__in=list(units), index=0)
        for row in _with_title(asked).values("unit", "signal_id", "channel", "title", "schema_type"):
            waits[units[row["unit"]]] = _tell_question(row)
    if events:
        awaited = EventWait.objects.filter(pk__in=list(events))
        rows = _with_title(awaited).annotate(wanted=Left(Cast("match", TextField()), LENGTH + 1))
        for row in rows.values("pk", "event", "wanted", "title", "schema_type"):
            waits[events[row["pk"]]] = _tell_event(row)
    return waits


def show_awaited(
    names: list[str] | None, waits: Mapping[str, Wait], *, full: bool = False, until: datetime | None = None
) -> SafeString:
    """The names waited for, in words where they are the engine's own; with `full` also what else is known."""
    if names and names[0] == ASKED:
        shown = [name for name in names if not name.startswith(ASKED)]
        return _show_several(shown, waits, until if full else None)
    if not names or not names[0].startswith((UNIT, EVENT)):
        return show_names(names)
    wait = waits.get(names[0])
    if wait is None:
        return show_name(names[0], waits)
    if not full:
        return wait.brief
    if until is not None:
        return format_html(_("{wait}, until {moment}"), wait=wait.full, moment=show_moment(until))
    return format_html(_("{wait}, without a deadline"), wait=wait.full)


def _show_several(names: list[str], waits: Mapping[str, Wait], until: datetime | None) -> SafeString:
    """Several open questions: the first few of them, and when the first deadline is."""
    shown = join_html(show_name(name, waits) for name in names[:SHOWN]) if names else format_html("{}", _("its time"))
    if len(names) > SHOWN:
        shown = format_html("{} +{}", shown, len(names) - SHOWN)
    return shown if until is None else format_html(_("{wait}, until {moment}"), wait=shown, moment=show_moment(until))


def show_name(name: str | None, waits: Mapping[str, Wait]) -> SafeString:
    """A signal's name; the engine's own ones in words, and as they are on hover."""
    if name is None or not name.startswith((UNIT, EVENT, END)):
        return show_text(name)
    wait = waits.get(name)
    if wait is not None:
        words: str = wait.brief
    elif name.startswith(END):
        words = _("the end of an instance")
    else:
        words = _("an answer") if name.startswith(UNIT) else _("an event")
    return format_html('<span title="{}">{}</span>', reveal(name), words)


def read_title(title: str | None, schema_type: str | None) -> str:
    """A schema's own title, or the name of the class that it came from."""
    return title or (schema_type or "").rpartition(":")[2].rpartition(".")[2]


def _find_key(name: str) -> UUID | None:
    """The id in one of the engine's names."""
    for prefix in (UNIT, EVENT):
        if name.startswith(prefix):
            try:
                return UUID(name[len(prefix) :])
            except ValueError:
                return None
    return None


def _with_title(rows: QuerySet[Any]) -> QuerySet[Any]:
    titled: QuerySet[Any] = rows.annotate(title=Left(KeyTextTransform("title", "schema"), LENGTH))
    return titled


def _tell_question(row: dict[str, Any]) -> Wait:
    signal_id = show_text(row["signal_id"], 40)
    brief = format_html(_("answer to {question}"), question=signal_id)
    full = format_html(
        _("answer to {question} through channel {channel}"),
        question=show_text(row["signal_id"], 200),
        channel=show_text(row["channel"]),
    )
    return Wait(brief, _add_schema(full, row))


def _tell_event(row: dict[str, Any]) -> Wait:
    brief = format_html(_("event {name}"), name=show_text(row["event"], 40))
    name = show_text(row["event"], 200)
    if wanted := _show_match(row["wanted"]):
        full = format_html(_("event {name} with {match}"), name=name, match=wanted)
    else:
        full = format_html(_("event {name}"), name=name)
    return Wait(brief, _add_schema(full, row))


def _add_schema(words: SafeString, row: dict[str, Any]) -> SafeString:
    title = read_title(row["title"], row["schema_type"])
    return format_html(_("{wait}, as {schema}"), wait=words, schema=show_text(title)) if title else words


def _show_match(text: str) -> SafeString | str:
    """The fields of a match and their values, the first few; a long match as its text begins."""
    try:
        match = json.loads(text)
    except (ValueError, RecursionError):
        return show_text(text[:LENGTH])
    pairs = [(field, json.dumps(value, ensure_ascii=False)) for field, value in match.items()]
    shown = join_html(
        format_html("{} = {}", show_text(field, 30), show_text(value, 40)) for field, value in pairs[:FIELDS]
    )
    return shown if len(pairs) <= FIELDS else format_html("{} +{}", shown, len(pairs) - FIELDS)
