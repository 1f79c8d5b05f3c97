"""What approvers made of a form, in words: for the card, the history, mails and programs.

Lives here: which change is told, and of whom. Must not live here: how a value reads (`form_values`), and what counts
(`edits`). Invariant owned: page, mail, history and programs tell the same change, because they ask here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.forms.edits import carries, is_same, load_before
from approvals.forms.form_values import add_defaults, compare_data, list_settings
from approvals.models import Vote
from approvals.people.person import Person
from approvals.reviews.case import Case
from approvals.subjects.diff import FieldDiff
from approvals.subjects.diff_parts import ABSENT
from workflows.forms.form import SchemaForm
from workflows.schemas.schema import Schema
from workflows.wording.punctuation import join_and


@dataclass(frozen=True, slots=True)
class Edit:
    """The vote that put on the table what is there now."""

    #: Who, by name.
    by: str
    is_viewer: bool
    at: datetime
    reason: str
    changes: tuple[FieldDiff, ...]
    #: Whose earlier approvals no longer count since, and how many that are.
    fallen: str
    fallen_count: int

    @property
    def is_change(self) -> bool:
        """Whether something else stood there: an empty form is filled in, not changed."""
        return self.fallen_count > 0 or any(not one.before.empty for one in self.changes)


def find_edit(case: Case, user: Person | None = None) -> Edit | None:
    """The latest change of what is on the table that still counts; None where nobody changed anything.

    >>> edit = find_edit(case)
    >>> edit.by, [(one.before.text, one.after.text) for one in edit.changes]
    ('Maya Lindqvist', [('€9,600.00', '€9,000.00')])
    """
    agreeing = [one for one in case.votes if carries(one, case.outcomes)]
    vote = next((one for one in reversed(agreeing) if one.changed_from is not None), None)
    changes = () if vote is None else list_changes(case, vote)
    data = ABSENT if case.table.data is None else case.table.data
    if vote is None and agreeing and case.schema is not None and not is_same(case.asked, data, case.schema):
        # Whoever put it there has left it to those who agreed since.
        vote, changes = agreeing[0], _compare(case.schema, case.asked, data)
    if vote is None or not changes:
        return None
    fallen = [one for one in case.all_votes if one.superseded_by_id == vote.pk]
    return Edit(
        by=show_text(case.name(vote.user_id), MAX_NAME),
        is_viewer=user is not None and vote.user_id == getattr(user, "pk", None),
        at=vote.at,
        reason=show_text(vote.reason, MAX_BLOCK, lines=True) if vote.reason else "",
        changes=changes,
        fallen=join_and(list(dict.fromkeys(show_text(case.name(one.user_id), MAX_NAME) for one in fallen))),
        fallen_count=len(fallen),
    )


def list_changes(case: Case, vote: Vote) -> tuple[FieldDiff, ...]:
    """What a row of the history changed of what was on the table."""
    if case.schema is None or vote.changed_from is None:
        return ()
    after = ABSENT if vote.data is None else vote.data
    return _compare(case.schema, load_before(vote), after)


def list_form(case: Case) -> tuple[FieldDiff, ...]:
    """What the form sets by what is on the table; `before` is what it was asked with."""
    if case.schema is None:
        return ()
    return list_settings(case.schema.describe(), case.asked, _complete(case.schema, case.table.data))


def _compare(schema: Schema, before: Any, after: Any) -> tuple[FieldDiff, ...]:
    return compare_data(schema.describe(), _complete(schema, before), _complete(schema, after))


def _complete(schema: Schema, data: Any) -> Any:
    """With the defaults that the schema's class gives to what was left out; a JSON Schema gives none."""
    made = add_defaults(SchemaForm(schema.describe()).tree, data) if schema.type_path is not None else data
    return made if is_same(made, data, schema) else data


def tell_change(one: FieldDiff) -> str:
    """One change in a line.

    >>> tell_change(edit.changes[0])
    'Value: €9,600.00 → €9,000.00'
    """
    if not one.label:
        return one.after.text
    if one.before.empty:
        return gettext("%(field)s: %(value)s") % {"field": one.label, "value": one.after.text}
    given = {"field": one.label, "before": one.before.text, "after": one.after.text}
    return gettext("%(field)s: %(before)s → %(after)s") % given
