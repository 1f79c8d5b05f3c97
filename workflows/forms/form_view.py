"""A form as its templates show it: each field with its name, what was typed, and what is wrong with it.

Nothing here is markup; all of it is text, and templates escape it. Invariants owned: what was typed is shown as it
was typed, also where it is wrong; every control has a name, a label and, where there are any, its hints and errors
by reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext as _

from workflows.forms.form_fields import (
    Checks,
    Code,
    Field,
    Fixed,
    FormChoice,
    FormGroup,
    FormNumber,
    Lines,
    Rows,
    Text,
    Typed,
    join_name,
    make_id,
)
from workflows.forms.form_reader import list_rows

#: Fields of a page; a browser may not even send so many back.
MOST_SHOWN = 2000
#: More values than these to choose from are a menu.
MOST_RADIOS = 5

#: What browsers show in their own controls; anything else that was typed needs a plain one, which keeps it.
_SHOWN = {
    "date": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    "time": re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,3})?)?"),
    "datetime-local": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,3})?)?"),
}


@dataclass(frozen=True, slots=True)
class ShownOption:
    """One value to choose, or to tick."""

    id: str
    token: str
    label: str
    chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownField:
    """One field on the page."""

    template: str
    name: str
    id: str
    label: str
    hint: str = ""
    notes: tuple[str, ...] = ()
    optional: bool = False
    errors: tuple[str, ...] = ()
    #: The ids of hint and error, for `aria-describedby`.
    described: str = ""
    text: str = ""
    #: `type`, `inputmode` and `autocomplete` of a control.
    control: str = ""
    mode: str = ""
    rows: int = 1
    #: Direction marks in what is typed decide about themselves only.
    free: bool = False
    options: tuple[ShownOption, ...] = ()
    fields: tuple[ShownField, ...] = ()
    focus: bool = False
    #: Of a list: whether there may be more rows. Of a row: how it is addressed, to be taken away.
    may_grow: bool = False
    row: str = ""

    @property
    def control_id(self) -> str:
        """Where a link to this field leads: the control, or the first of several."""
        return self.options[0].id if self.options and self.template in _BY_OPTION else self.id


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """One line of the summary above a form."""

    label: str
    reason: str
    id: str


_BY_OPTION = ("workflows/form/choice.html", "workflows/form/checks.html")


@dataclass(slots=True)
class Showing:
    """What is needed to show fields: what was typed, what is wrong, and where the reader goes on."""

    typed: Typed
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    focus: str = ""
    left: int = MOST_SHOWN

    def show(self, node: Field, name: str, *, label: str = "", row: str = "") -> ShownField:
        """One field and all within it."""
        self.left -= 1
        errors = tuple(self.errors.get(name, ()))
        id = make_id(name)
        text = (self.typed.get(name) or [""])[-1]
        part = self._show_control(node, name, id, text) or self._show_several(node, name, id, text, row)
        notes: tuple[str, ...] = part.pop("notes", node.notes)
        described = [f"{id}-hint"] if node.hint or notes else []
        described += [f"{id}-error"] if errors else []
        return ShownField(
            template=f"workflows/form/{part.pop('template')}.html",
            name=name,
            id=id,
            label=label or node.label,
            hint=node.hint,
            notes=notes,
            optional=not node.required and not row,
            errors=errors,
            described=" ".join(described),
            text=part.pop("text", text),
            focus=bool(self.focus) and name == self.focus,
            row=row,
            **part,
        )

    def _show_control(self, node: Field, name: str, id: str, text: str) -> dict[str, Any]:
        """A field in which something is typed."""
        match node:
            case FormNumber():
                return {"template": "text", "control": "text", "mode": "numeric" if node.whole else "decimal"}
            case Lines():
                notes = (_("One on each line."), *node.notes)
                return {"template": "area", "rows": 3, "free": True, "notes": notes}
            case Code():
                told = _('Text, or JSON such as {"paid": true}.') if node.or_text else _("As JSON.")
                return {"template": "code", "rows": 4, "notes": (told, *node.notes)}
            case Text():
                notes, control = node.notes, node.control
                if control == "datetime-local" and settings.USE_TZ:
                    notes = (*notes, _("Time zone: %(zone)s.") % {"zone": timezone.get_current_timezone_name()})
                if control == "area" or "\n" in text:
                    return {"template": "area", "rows": node.rows, "free": True, "notes": notes}
                plain = control in _SHOWN and text and not _SHOWN[control].fullmatch(text)
                shown = "text" if plain else control
                return {"template": "text", "control": shown, "free": shown == "text", "notes": notes}
        return {}

    def _show_several(self, node: Field, name: str, id: str, text: str, row: str) -> dict[str, Any]:
        """A field that has others in it, or values to choose from."""
        match node:
            case FormGroup():
                fields = tuple(self.show(each, join_name(name, each.key)) for each in node.fields)
                return {"template": "row" if row else "group", "fields": fields}
            case Rows():
                standing = list_rows(self.typed, name)
                rows = enumerate(standing, 1)
                fields = tuple(self._show_row(node, name, each, n) for n, each in rows if self.left > 0)
                return {"template": "rows", "fields": fields, "may_grow": len(standing) < node.most}
            case FormChoice():
                look = "choice" if len(node.options) <= MOST_RADIOS else "select"
                return {"template": look, "options": tuple(_list_options(node, id, text))}
            case Checks():
                chosen = set(self.typed.get(name, ()))
                boxes = (
                    ShownOption(f"{id}-{n}", each.token, each.label, each.token in chosen)
                    for n, each in enumerate(node.options)
                )
                return {"template": "checks", "options": tuple(boxes)}
            case Fixed():
                ticked = any(self.typed.get(name, ()))
                box = ShownOption(id, "1", node.shown, ticked)
                return {"template": "tick" if node.asks else "fixed", "text": node.shown, "options": (box,)}
        raise TypeError(f"there is no template for {type(node).__name__}")  # pragma: no cover

    def _show_row(self, node: Rows, name: str, row: str, number: int) -> ShownField:
        label = _("%(what)s %(n)s") % {"what": node.item.label, "n": str(number)}
        return self.show(node.item, join_name(name, row), label=label, row=row)


def list_problems(shown: ShownField) -> Iterator[FieldProblem]:
    """What is wrong, in the order of the page."""
    for reason in shown.errors:
        yield FieldProblem(shown.label, reason, shown.control_id)
    for inner in shown.fields:
        yield from list_problems(inner)


def count_controls(shown: ShownField) -> int:
    """How many values a browser will send for it, at most."""
    several = len(shown.options) if shown.template == "workflows/form/checks.html" else 1
    return several + bool(shown.row) + sum(map(count_controls, shown.fields))


def find_first(node: Field, name: str) -> str:
    """The name of the first field in which something can be typed."""
    while isinstance(node, FormGroup):
        inner = next((each for each in node.fields if not (isinstance(each, Fixed) and not each.asks)), None)
        if inner is None:
            return name
        node, name = inner, join_name(name, inner.key)
    return name


def _list_options(node: FormChoice, id: str, token: str) -> Iterator[ShownOption]:
    known = any(option.token == token for option in node.options)
    if node.nullable or not node.required:
        yield ShownOption(f"{id}-none", "", node.none, not known)
    for n, option in enumerate(node.options):
        yield ShownOption(f"{id}-{n}", option.token, option.label, option.token == token)
