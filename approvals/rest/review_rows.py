"""Reviews as programs see them: plain values, the same in lists, details, answers and for agents.

Lives here: the members and how each is written. Must not live here: who may see them. Invariants owned: texts that
people wrote have their hidden characters made visible, as on every page; people are named by the name they log in with,
which other calls take, and beside it as people call them; one statement names all people of a page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext

from approvals.cards.card import Card
from approvals.cards.edit_summary import Edit
from approvals.cards.status import find_status
from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.forms.secret_fields import find_tree, hide_secrets
from approvals.models import Comment, Review
from approvals.people.principals import name_person
from approvals.reviews.case import Case
from approvals.rules import load_outcomes
from workflows.clock import Now
from workflows.values.json_text import MISSING
from workflows.values.times import to_rfc3339

#: What `show_row` reads.
FIELDS = (
    "interaction",
    "instance_id",
    "created_at",
    "due_at",
    "effective_at",
    "held_deadline",
    "decided_at",
    "stranded_at",
    "requester_id",
    "claimed_by_id",
    "decided_by_id",
    "version",
    "open",
    "four_eyes",
    "risk",
    "title",
    "why",
    "workflow",
    "step",
    "subject_model",
    "subject_pk",
    "subject_label",
    "outcome",
    "outcomes",
    "interaction__deadline",
    "interaction__schema",
)
#: Members that hold somebody's key until `name_people` has been here.
PEOPLE = ("requester", "claimed_by", "decided_by")


def read_rows(rows: Any) -> Any:
    """A queryset with what `show_listed` reads, in one statement."""
    return rows.select_related("interaction").only(*FIELDS).annotate(read_at=Now())


def show_listed(review: Review) -> dict[str, Any]:
    """A row of a list, as it stood when the list was read."""
    case = Case(review)
    case.now = review.read_at  # type: ignore[attr-defined]
    return show_row(review, case)


def show_row(review: Review, case: Case) -> dict[str, Any]:
    """One row of a list, but for the names of people."""
    return {
        "id": str(review.pk),
        "title": show_text(review.title, MAX_BLOCK),
        "why": show_text(review.why, MAX_BLOCK, lines=True) if review.why else "",
        "status": find_status(case),
        "outcome": review.outcome or None,
        "workflow": review.workflow,
        "step": review.step,
        "instance": str(review.instance_id),
        "risk": review.risk,
        "requester": _write_key(review.requester_id),
        "claimed_by": _write_key(review.claimed_by_id),
        "decided_by": _write_key(review.decided_by_id),
        "created_at": to_rfc3339(review.created_at),
        "due_at": to_rfc3339(review.due_at),
        "deadline": to_rfc3339(review.held_deadline or review.interaction.deadline),
        "effective_at": to_rfc3339(review.effective_at),
        "decided_at": to_rfc3339(review.decided_at),
        "stranded_at": to_rfc3339(review.stranded_at if review.open else None),
        "four_eyes": review.four_eyes,
        "version": review.version,
        "subject": _show_subject(review),
        "schema": review.interaction.schema,
        "outcomes": [
            {
                "name": one.name,
                "label": show_text(one.label, MAX_NAME),
                "tone": one.tone,
                "requires_reason": one.requires_reason or review.risk == "high",
                "presets": list(one.presets),
            }
            for one in load_outcomes(review.outcomes)
        ],
    }


def name_people(rows: Sequence[dict[str, Any]]) -> None:
    """Put names in the place of keys: `requester` for other calls, `requester_name` for people."""
    keys = {row[member] for row in rows for member in PEOPLE} - {None}
    users = get_user_model()._default_manager.filter(pk__in=keys) if keys else ()
    found = {_write_key(user.pk): user for user in users}
    for row in rows:
        for member in PEOPLE:
            key, user = row[member], found.get(row[member])
            row[member] = None if user is None else str(user.get_username())
            name = name_person(user) or gettext("a former user")
            row[f"{member}_name"] = None if key is None else show_text(name, MAX_NAME)


def show_review(review: Review, case: Case | None = None) -> dict[str, Any]:
    """One row, with names."""
    row = show_row(review, case or Case(review))
    name_people([row])
    return row


def show_card(card: Card, review: Review, case: Case, *, for_program: str = "") -> dict[str, Any]:
    """All of a review: the members of its row, and what else stands on its card.

    `for_program` is the sentence that says why whoever asks decides nothing, where no person asks.
    """
    shown = show_review(review, case)
    shown["outcomes"] = [
        {**_show(one, "name label tone requires_reason"), "presets": list(one.presets), "obstacle": told}
        for one in card.outcomes
        for told in [for_program or one.obstacle or None]
    ]
    return {
        **shown,
        "workspace": card.workspace,
        "told": card.told,
        "why": card.why,
        "who": card.who,
        "what_then": card.what_then,
        "rule": card.rule,
        "four_eyes_told": card.four_eyes,
        "progress": [_show(one, "label votes needed outcome text") for one in card.progress],
        "diff": [_show_diff(one) for one in card.diff],
        "drift": [_show_diff(one) for one in card.drift],
        "facts": [{"label": one.label, "value": one.value.text, "url": one.value.url} for one in card.facts],
        "request": card.raw["request"],
        "evidence": [
            {"kind": one["kind"], "label": one["label"], "text": one["text"], "url": one["url"]}
            for one in card.evidence
        ],
        "similar": [
            {"id": str(one.id), "outcome": one.outcome_label, "at": to_rfc3339(one.at), **_show(one, "title reason")}
            for one in card.similar
        ],
        "rivals": [{"id": str(one.id), "title": one.title} for one in card.rivals],
        "actions": {name: told or None for name, told in card.actions.items()},
        "settings": [_show_diff(one) for one in card.settings],
        "data": None if card.filled is MISSING else hide_secrets(find_tree(card.schema), card.filled),
        "edit": None if card.edit is None else _show_edit(card.edit),
        "answer": None if card.answer is None else _show_answer(card),
        "timeline": [
            {
                "at": to_rfc3339(one.at),
                **_show(one, "who what text kind door outcome"),
                "changes": [_show_diff(change) for change in one.changes],
                "void": one.is_void,
            }
            for one in card.timeline
        ],
    }


def _show_edit(edit: Edit) -> dict[str, Any]:
    return {
        "at": to_rfc3339(edit.at),
        **_show(edit, "by reason fallen"),
        "changes": [_show_diff(one) for one in edit.changes],
    }


def _show_answer(card: Card) -> dict[str, Any]:
    decisions = [{"at": to_rfc3339(one.at), **_show(one, "by outcome reason door data")} for one in card.decisions]
    return {**_show(card.answer, "outcome label tone reason by data"), "decisions": decisions}


def show_comment(comment: Comment) -> dict[str, Any]:
    """Something that was said."""
    return {
        "id": str(comment.pk),
        "approval": str(comment.review_id),
        "kind": comment.kind,
        "text": comment.text,
        "at": to_rfc3339(comment.at),
    }


def _show_subject(review: Review) -> dict[str, str] | None:
    if not review.subject_model:
        return None
    label = show_text(review.subject_label, MAX_NAME)
    return {"model": review.subject_model, "id": review.subject_pk, "label": label}


def _show_diff(one: Any) -> dict[str, Any]:
    return {
        "name": one.name,
        "label": one.label,
        "kind": one.kind,
        "before": one.before.text,
        "after": one.after.text,
        "url": one.after.url or one.before.url,
    }


def _show(value: Any, members: str) -> dict[str, Any]:
    """These of its members, and no other that it may get."""
    return {name: getattr(value, name) for name in members.split()}


def _write_key(key: Any) -> str | None:
    return None if key is None else str(key)
