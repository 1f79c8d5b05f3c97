"""What a form's data show to others: never a secret, and nothing is lost of what a form cannot show.

A secret is what is called like one, or what its field hides while it is typed. Pure: nothing here queries. Invariant
owned: whoever is shown what another has filled in, and changes nothing of it, sends that very thing: its secrets, what
no field of the form holds, and null where something was null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from approvals.subjects.diff_parts import ABSENT, same_json
from approvals.subjects.field_values import REDACTED, is_secret_name, redact_json
from workflows.forms.form import SchemaForm
from workflows.forms.form_fields import Field, Fixed, FormGroup, Lines, Rows, Text


def is_hidden(field: Field, *names: str) -> bool:
    """Whether what stands in this field, in the place of these names, is shown to nobody."""
    return any(map(is_secret_name, names)) or (isinstance(field, Text) and field.control == "password")


def find_tree(schema: Any) -> Field | None:
    """The form of this JSON Schema, where there is one."""
    return None if schema is None else SchemaForm(schema).tree


def hide_secrets(tree: Field | None, data: Any) -> Any:
    """The same data with a sign in the place of each secret, for programs.

    >>> hide_secrets(None, {"host": "a", "api_key": "k"})
    {'host': 'a', 'api_key': '⟨redacted⟩'}
    """
    return redact_json(data if tree is None else _put(tree, data, REDACTED))


def leave_out_secrets(tree: Field, data: Any) -> Any:
    """The same data without its secrets, as a form begins with them."""
    return _put(tree, data, ABSENT)


def open_secrets(tree: Field, data: Any, *, within: bool = False) -> Field:
    """The same form, in which a secret that these data hold need not be filled in again.

    >>> form.tree = open_secrets(form.tree, {"api_key": "k"})
    """
    if _is_blank(data) or isinstance(tree, Fixed):
        return tree
    within = within or is_hidden(tree, tree.key)
    if within:
        note = gettext("It is filled in. Left empty it stays as it is.")
        tree = replace(tree, required=False, notes=() if isinstance(tree, FormGroup | Rows) else (*tree.notes, note))
    if isinstance(tree, FormGroup) and isinstance(data, Mapping):
        inner = (open_secrets(one, data.get(one.key, ABSENT), within=within) for one in tree.fields)
        return replace(tree, fields=tuple(inner))
    if isinstance(tree, Rows) and isinstance(data, list):
        for row in data:
            tree = replace(tree, item=open_secrets(tree.item, row, within=within))
    return tree


def keep_untouched(held: Any, shown: Any, sent: Any) -> Any:
    """What somebody means who was shown `shown` of `held`, and sent this: where they changed nothing, what is held.

    >>> keep_untouched({"value": 9000, "api_key": "k"}, {"value": 9000}, {"value": 8000})
    {'value': 8000, 'api_key': 'k'}
    """
    if same_json(shown, sent):
        return held
    if all(isinstance(side, dict) for side in (held, shown, sent)):
        made = {}
        for key in dict.fromkeys((*held, *sent)):
            value = keep_untouched(*(side.get(key, ABSENT) for side in (held, shown, sent)))
            if value is not ABSENT:
                made[key] = value
        return made
    # Of rows that were added or taken away nobody knows which is which.
    if all(isinstance(side, list) for side in (held, shown, sent)) and len(held) == len(shown) == len(sent):
        return [keep_untouched(*sides) for sides in zip(held, shown, sent, strict=True)]
    return sent


def _put(field: Field, value: Any, sign: Any) -> Any:
    """With this sign in the place of each secret; `ABSENT` leaves it out."""
    if _is_blank(value):
        return value
    if is_hidden(field, field.key):
        return sign
    if isinstance(value, Mapping):
        known = {one.key: one for one in field.fields} if isinstance(field, FormGroup) else {}
        put = {key: _put(known.get(key) or Field(key=str(key), label=""), item, sign) for key, item in value.items()}
        return {key: item for key, item in put.items() if item is not ABSENT}
    if isinstance(value, list):
        item = field.item if isinstance(field, Rows | Lines) else Field(label="")
        put_rows = [_put(item, one, sign) for one in value]
        return [one for one in put_rows if one is not ABSENT]
    return value


def _is_blank(value: Any) -> bool:
    return value is ABSENT or value is None or value in ("", [], {})
