"""The form of a JSON Schema: shown to a person, read back as JSON, judged by the schema itself.

    form = SchemaForm(interaction.schema)
    shown = form.show(form.begin())                  # fields for the templates
    typed = form.pick(request.POST)                  # what came back
    reading = form.read(typed)                       # its value, or what cannot be read
    reading.place_errors(refused.errors)             # what the schema says, at the fields
    shown = form.show(typed, reading.errors)

Lives here: the door to the modules beside it (`form_plan`, `form_reader`, `form_writer`, `form_view`). Invariants
owned: nothing typed is lost on the way round; adding and taking away rows needs no JavaScript and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext as _

from workflows.exceptions import InvalidData
from workflows.forms.form_fields import Field, FormGroup, Rows, Typed, join_name
from workflows.forms.form_plan import plan_form
from workflows.forms.form_reader import FormReading, list_rows, read_form
from workflows.forms.form_view import FieldProblem, Showing, ShownField, count_controls, find_first, list_problems
from workflows.forms.form_writer import write_form
from workflows.schemas.schema import Schema
from workflows.values.json_text import MISSING

#: What a page sends beside the fields: its token, its version and the like.
_BESIDE = 20


@dataclass(frozen=True, slots=True)
class ShownForm:
    """All fields of a form, and what is wrong, for `workflows/form/form.html`."""

    fields: tuple[ShownField, ...]
    problems: tuple[FieldProblem, ...] = ()
    #: What is wrong with the whole of it.
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pressed:
    """What is typed after a row was added or taken away, the field to go on with, and why it could not be."""

    typed: dict[str, list[str]]
    focus: str
    errors: dict[str, list[str]] = field(default_factory=dict)


class SchemaForm:
    """One form. `prefix` tells its fields from others on the page."""

    def __init__(self, schema: Any = None, *, prefix: str = "data", label: str = "") -> None:
        self.prefix = prefix
        self.tree: Field = plan_form({} if schema is None else schema, label=label or _("Your answer"))

    def begin(self, value: Any = MISSING) -> dict[str, list[str]]:
        """What stands in the fields at first: a value, or the defaults."""
        return write_form(self.tree, self.prefix, value)

    def pick(self, posted: QueryDict) -> dict[str, list[str]]:
        """What of a posted form belongs to these fields."""
        start = f"{self.prefix}/"
        return {name: posted.getlist(name) for name in posted if name == self.prefix or name.startswith(start)}

    def read(self, typed: Typed, *, schema: Schema | None = None) -> FormReading:
        """The value that was typed; with a schema, also what that refuses beside what cannot be read at all."""
        reading = read_form(self.tree, typed, self.prefix)
        if reading.errors and schema is not None and reading.value is not MISSING:
            try:
                schema.check(reading.value)
            except InvalidData as refused:
                reading.place_errors(refused.errors)
        return reading

    def show(self, typed: Typed, errors: Mapping[str, list[str]] | None = None, *, focus: str = "") -> ShownForm:
        """The fields with what was typed."""
        found = errors or {}
        whole = Showing(typed, found, focus).show(self.tree, self.prefix)
        if not isinstance(self.tree, FormGroup):
            return ShownForm((whole,), tuple(list_problems(whole)), tuple(found.get("", ())))
        problems = tuple(problem for inner in whole.fields for problem in list_problems(inner))
        return ShownForm(whole.fields, problems, (*found.get("", ()), *whole.errors))

    def press(self, posted: QueryDict) -> Pressed | None:
        """What a button of a list does; None if none was pressed."""
        typed = self.pick(posted)
        if (name := posted.get("add")) is not None:
            return self._add_row(typed, name)
        if (name := posted.get("drop")) is not None:
            return self._drop_row(typed, name)
        return None

    def _add_row(self, typed: dict[str, list[str]], name: str) -> Pressed:
        rows = self._find_rows(name)
        standing = list_rows(typed, name)
        if rows is None:
            return Pressed(typed, "")
        if len(standing) >= rows.most or not self._has_room(typed, rows):
            return Pressed(typed, name, {name: [_("No more fit into this form.")]})
        row = str(max(map(int, standing), default=-1) + 1)
        fresh = write_form(rows.item, join_name(name, row))
        return Pressed({**typed, **fresh, name: [*standing, row]}, find_first(rows.item, join_name(name, row)))

    def _drop_row(self, typed: dict[str, list[str]], name: str) -> Pressed:
        of, _slash, row = name.rpartition("/")
        standing = list_rows(typed, of)
        if self._find_rows(of) is None or row not in standing:
            return Pressed(typed, "")
        left = {each: texts for each, texts in typed.items() if each != name and not each.startswith(f"{name}/")}
        return Pressed({**left, of: [each for each in standing if each != row]}, of)

    def _find_rows(self, name: str) -> Rows | None:
        """The list that a button names; whoever made a name up gets none."""
        waiting: list[tuple[Field, str]] = [(self.tree, self.prefix)]
        while waiting:
            node, at = waiting.pop()
            if isinstance(node, Rows):
                if at == name:
                    return node
                row, _slash, _rest = name.removeprefix(f"{at}/").partition("/")
                if name.startswith(f"{at}/") and row.isdecimal():
                    waiting.append((node.item, join_name(at, row)))
            elif isinstance(node, FormGroup):
                waiting.extend((inner, join_name(at, inner.key)) for inner in node.fields)
        return None

    def _has_room(self, typed: Typed, rows: Rows) -> bool:
        """Whether a browser may send so many values: Django refuses a form with more, whatever is in it."""
        limit: int | None = getattr(settings, "DATA_UPLOAD_MAX_NUMBER_FIELDS", None)
        if limit is None:
            return True
        shown = count_controls(Showing(typed).show(self.tree, self.prefix))
        row = count_controls(Showing({}).show(rows.item, "", row="0"))
        return shown + row + _BESIDE <= limit
