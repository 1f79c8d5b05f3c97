"""One question as its page needs it: read in one statement, told in words.

Invariants owned: the row is the newest there is, and "now" is the database's; the answer that was given is not read,
because whoever may still open the address is not for that allowed to know it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

from django.db.models import DateTimeField
from django.db.models.expressions import RawSQL
from django.utils.translation import gettext as _

from workflows.api.completions.completion_checks import DOORS
from workflows.definitions.channel import find_door
from workflows.exceptions import UnknownInteraction
from workflows.forms.form import SchemaForm
from workflows.forms.form_plan import LONGEST_HINT, LONGEST_LABEL, name_key
from workflows.lifecycle import Cardinality, InteractionStatus
from workflows.models import Interaction
from workflows.pages.value_view import Value, dump_shown, show_value
from workflows.schemas.schema import Schema, load_schema
from workflows.store.sql import CLOCK
from workflows.wording.hidden_characters import reveal
from workflows.wording.relative_times import Moment, show_length, show_moment

DOOR = "resume"

State = Literal["open", "answered", "over", "closed", "elsewhere"]

_COLUMNS = (
    *("id", "status", "version", "channel", "owned", "signal_id", "created_at", "closed_at", "deadline"),
    *("request", "schema", "schema_type", "instance__workflow", "unit__step", "unit__cardinality"),
)
_SEVERAL = (Cardinality.ONE_TO_MANY, Cardinality.MANY_TO_MANY)


@dataclass(frozen=True)
class AskedQuestion:
    """What is asked, of whom it is asked, and how it stands."""

    row: dict[str, Any]

    @property
    def version(self) -> int:
        version: int = self.row["version"]
        return version

    @cached_property
    def state(self) -> State:
        """How it stands for whoever comes by this door."""
        status, deadline = self.row["status"], self.row["deadline"]
        if status is InteractionStatus.COMPLETED:
            return "answered"
        # The sweep may not have come by yet; nobody may answer any more all the same.
        if status is InteractionStatus.EXPIRED or (deadline is not None and deadline <= self.row["now"]):
            return "over"
        if status is not InteractionStatus.PENDING:
            return "closed"
        return "elsewhere" if self.door else "open"

    @cached_property
    def door(self) -> str:
        """Where the answer is given, if not here."""
        if self.row["owned"]:
            return _(find_door(self.row["channel"]))
        if self.row["channel"] not in DOORS[DOOR]:
            return _("through the channel “%(channel)s”") % {"channel": self.row["channel"]}
        return ""

    # --- what is asked ------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> Schema | None:
        return load_schema(self.row["schema"], self.row["schema_type"])

    @cached_property
    def form(self) -> SchemaForm:
        schema = self.row["schema"]
        if schema is None and self.row["unit__cardinality"] in _SEVERAL:
            schema = {"type": "array"}
        return SchemaForm(schema, label=name_key(self.wait))

    @property
    def title(self) -> str:
        """The largest words of the page."""
        return self._find_words("title", LONGEST_LABEL) or reveal(name_key(self.row["unit__step"]))

    @property
    def more(self) -> str:
        return self._find_words("description", LONGEST_HINT)

    def _find_words(self, keyword: str, limit: int) -> str:
        schema = self.row["schema"]
        words = schema.get(keyword) if isinstance(schema, dict) else None
        return reveal(words[:limit], lines=True) if isinstance(words, str) else ""

    @property
    def workflow(self) -> str:
        return reveal(self.row["instance__workflow"])

    @property
    def wait(self) -> str:
        name: str = self.row["unit__step"]
        return name

    @property
    def signal_id(self) -> str:
        name: str = self.row["signal_id"]
        return name

    @cached_property
    def request(self) -> Value | None:
        """What the workflow sent along."""
        return None if self.row["request"] is None else show_value(self.row["request"])

    @property
    def request_json(self) -> str:
        return dump_shown(self.row["request"])

    # --- when ---------------------------------------------------------------------------------------

    @property
    def asked(self) -> Moment:
        return show_moment(self.row["created_at"], self.row["now"])

    @property
    def waiting(self) -> str:
        return show_length(self.row["created_at"], self.row["now"])

    @property
    def due(self) -> Moment | None:
        return self._show("deadline")

    @property
    def closed(self) -> Moment | None:
        return self._show("closed_at")

    def _show(self, column: str) -> Moment | None:
        at: datetime | None = self.row[column]
        return None if at is None else show_moment(at, self.row["now"])

    # --- what was shown -----------------------------------------------------------------------------

    @property
    def shown(self) -> str:
        """What a form carries, so that a later page can say what has changed since."""
        deadline = self.row["deadline"]
        parts = [deadline.isoformat() if deadline else "", _digest(self.row["request"]), _digest(self.row["schema"])]
        return "|".join(parts)

    def list_changes(self, shown: str) -> list[str]:
        """What is not as it was on the page that carried `shown`."""
        before, now = shown.split("|"), self.shown.split("|")
        if len(before) != len(now):
            return []
        words = (
            _("The time to answer: it is now until %(deadline)s.") % {"deadline": self.due.exactly}
            if self.due
            else _("The time to answer: there is no limit any more."),
            _("What is asked: read it again."),
            _("The fields of the answer: check what you typed."),
        )
        return [word for word, one, other in zip(words, before, now, strict=True) if one != other]


def load_question(interaction: UUID, *, using: str) -> AskedQuestion:
    """The question with this id; `UnknownInteraction` if it is gone, or was withdrawn."""
    now = RawSQL(CLOCK, (), output_field=DateTimeField())
    row = Interaction.objects.using(using).filter(pk=interaction).annotate(now=now).values(*_COLUMNS, "now").first()
    if row is None or row["status"] is InteractionStatus.CANCELLED:
        raise UnknownInteraction
    return AskedQuestion(dict(row))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
