"""What is read of requests beside their rows, to decide them together.

Invariants owned: one statement for all of them, and one for each model that their changes point to; nothing of a
request is read for who may not see it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext

from approvals.display.values import MAX_NAME, show_text
from approvals.forms.request_facts import list_facts
from approvals.models import Review, Vote
from approvals.people.viewer import Viewer
from approvals.rules import Outcome, load_outcomes
from approvals.subjects.diff import compare_each
from approvals.web.bulk.totals import list_amounts
from workflows.exceptions import InvalidData
from workflows.schemas.schema import load_schema
from workflows.wording.punctuation import join_list

_WANTED = (
    *("pk", "interaction__request", "interaction__schema", "snapshot", "change", "subject_model", "subject_label"),
    *("digest", "outcomes"),
)


@dataclass(frozen=True, slots=True)
class Material:
    """What is read of one beside its row."""

    #: By column, in the order in which they are shown.
    facts: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    #: Amounts by their label, with their currency.
    amounts: Mapping[str, tuple[Decimal, str]]
    digest: str
    #: Whether nothing has to be filled in, and what an empty form sends then.
    is_blank: bool
    data: Any


def read_materials(viewer: Viewer, ids: Iterable[UUID]) -> dict[UUID, Material]:
    """Of those of them that this person may see, in the order given."""
    wanted = list(dict.fromkeys(ids))
    rows = Review.objects.visible_to(viewer).filter(pk__in=wanted).order_by()
    # What others have filled in has to be looked at, also where nothing has to be.
    edits = Vote.objects.filter(review=OuterRef("pk"), standing=True, changed_from__isnull=False)
    found = {row["pk"]: row for row in rows.annotate(is_edited=Exists(edits)).values(*_WANTED, "is_edited")}
    known = [found[id] for id in wanted if id in found]
    changes = compare_each(
        ((row["subject_model"], row["snapshot"] or {}, row["change"] or {}) for row in known), user=viewer.user
    )
    blanks: dict[str, tuple[bool, Any]] = {}
    made = {}
    for row, diffs in zip(known, changes, strict=True):
        schema = row["interaction__schema"]
        key = json.dumps(schema, sort_keys=True)
        if key not in blanks:
            blanks[key] = find_blank(schema)
        facts = {gettext("About"): show_text(row["subject_label"], MAX_NAME)} if row["subject_label"] else {}
        for fact in list_facts(row["interaction__request"]):
            label = fact.label or gettext("Sent along")
            facts[label] = join_list([facts[label], fact.value.text]) if label in facts else fact.value.text
        for diff in diffs:
            named = {"field": diff.label, "before": diff.before.text, "after": diff.after.text}
            facts[gettext("New %(field)s") % named] = gettext("%(before)s → %(after)s") % named
        amounts = list_amounts(row["interaction__request"])
        is_blank, data = (False, None) if row["is_edited"] else blanks[key]
        made[row["pk"]] = Material(facts, load_outcomes(row["outcomes"]), amounts, row["digest"], is_blank, data)
    return made


def find_blank(schema: Any) -> tuple[bool, Any]:
    """Whether a form asks for nothing, and what it sends then.

    >>> find_blank(None), find_blank({"type": "object"}), find_blank({"type": "object", "required": ["amount"]})
    ((True, None), (True, {}), (False, None))
    """
    loaded = load_schema(schema, None)
    if loaded is None:
        return True, None
    nothing: tuple[Any, ...] = (None, {})
    for data in nothing:
        try:
            loaded.check(data)
        except InvalidData:
            continue
        return True, data
    return False, None
